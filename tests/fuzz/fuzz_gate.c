/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a gate file, and as a commit's message. What is accepted asks only for what there is,
 * says the same when it is written and read again, and does what it says; what is refused says where.
 *
 * Input: a gate file; after a NUL a message.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "evidence/gate_rules.h"
#include "must.h"
#include "policy/policy.h"

#define TEXT_MAX (16u << 20)

/* ------------------------------------------------------------------ writing one */

static void put_text(struct buf *out, const char *s)
{
	size_t n = strlen(s), len;

	buf_addc(out, '"');
	for (size_t i = 0; i < n; i += len) {
		len = utf8_len(s + i, n - i);
		MUST(len);
		if (len == 1 && s[i] > ' ' && s[i] != '"' && s[i] != '\\' && s[i] != 0x7f)
			buf_addc(out, s[i]);
		else
			buf_addf(out, "\\U%08x", utf8_code(s + i, len));
	}
	buf_addc(out, '"');
}

static void put_list(struct buf *out, const char *name, const struct strlist *l)
{
	buf_addf(out, "  %s: [", name);
	for (size_t i = 0; i < l->n; i++) {
		put_text(out, l->v[i]);
		buf_adds(out, ", ");
	}
	buf_adds(out, "]\n");
}

static void put_allowed(struct buf *out, const struct gate *g)
{
	buf_adds(out, "  allowed-denials:");
	if (!g->allow_n)
		buf_adds(out, " []");
	for (size_t i = 0; i < g->allow_n; i++) {
		const struct gate_allow *a = &g->allow[i];

		buf_addf(out, "\n    - %s: ", a->path ? "path" : "host");
		put_text(out, a->path ? a->path : a->host);
		buf_adds(out, "\n      reason: ");
		put_text(out, a->reason);
		if (a->expires[0])
			buf_addf(out, "\n      expires: %s", a->expires);
	}
	buf_addc(out, '\n');
}

static void put_gate(struct buf *out, const struct gate *g)
{
	buf_addf(out, "version: 1\nrequire:\n  evidence: %s\n", gate_evidence_names[g->evidence]);
	buf_addf(out, "  tests: %s\n", g->tests ? "passed" : "none");
	buf_addf(out, "  review: %s\n", g->review ? "true" : "false");
	buf_addf(out, "  clean-degradations: %s\n", g->clean ? "true" : "false");
	buf_addf(out, "  max-denials: %llu\n", (unsigned long long)g->max_denials);
	put_list(out, "keys", &g->keys);
	put_list(out, "tiers", &g->tiers);
	put_allowed(out, g);
	buf_adds(out, "detect:\n");
	put_list(out, "trailers", &g->trailers);
	buf_adds(out, "ignore:\n");
	put_list(out, "commits", &g->ignore_commits);
	put_list(out, "paths", &g->ignore_paths);
}

/* ------------------------------------------------------------------ what it says */

static bool is_tier(const char *s)
{
	for (int i = 0; i < TIER_NUM; i++)
		if (i != TIER_AUTO && str_eq(s, policy_tier_names[i]))
			return true;
	return false;
}

static void check_allowed(const struct gate_allow *a)
{
	struct story s = {0};
	struct gate g = {.allow = (struct gate_allow *)a, .allow_n = 1};

	MUST(!a->path != !a->host && a->reason && *a->reason && a->line);
	MUST(strlen(a->expires) == 0 || strlen(a->expires) == 10);
	MUST(strcmp(a->expires, "9999-12-31") <= 0);
	if (a->path)
		MUST(a->path[0] == '/' || str_starts(a->path, "./"));
	for (int i = 0; i < 2; i++) {
		struct story_denial d = {0};
		bool expired = false;

		d.path = i ? "/etc/shadow" : NULL;
		d.host = i ? NULL : "a.test";
		if (gate_allows(&g, &s, &d, "2026-01-31", &expired) && !expired)
			MUST(!a->expires[0] || strcmp(a->expires, "2026-01-31") >= 0);
	}
}

static void check_gate(const struct gate *g)
{
	MUST(g->evidence < GATE_EVIDENCE_NUM && g->max_denials <= 1000000000);
	for (size_t i = 0; i < g->keys.n; i++)
		MUST(strlen(g->keys.v[i]) == 64 && strspn(g->keys.v[i], "0123456789abcdef") == 64);
	for (size_t i = 0; i < g->tiers.n; i++)
		MUST(is_tier(g->tiers.v[i]));
	for (size_t i = 0; i < g->allow_n; i++)
		check_allowed(&g->allow[i]);
	for (size_t i = 0; i < g->ignore_commits.n; i++) {
		char hex[65];

		memset(hex, 'f', 64);
		hex[64] = '\0';
		MUST(strlen(g->ignore_commits.v[i]) >= 12 && strlen(g->ignore_commits.v[i]) <= 64);
		memcpy(hex, g->ignore_commits.v[i], strlen(g->ignore_commits.v[i]));
		MUST(gate_ignores_commit(g, hex));
	}
	for (size_t i = 0; i < g->ignore_paths.n; i++)
		gate_ignores_path(g, "src/main.c");
}

/* A trailer that is a bare name is seen in a line of that name, wherever that stands. */
static void check_message(const struct gate *g, const char *message)
{
	cleanup_buf struct buf with = BUF_INIT(TEXT_MAX);
	char value[64];
	size_t n = 0;
	const char *line = gate_trailer(g, message, &n);

	if (line)
		MUST(line >= message && n <= strlen(line) && !memchr(line, '\n', n));
	if (gate_trailer_value(message, "Croft-Env", value, sizeof(value)))
		MUST(strlen(value) < sizeof(value) && strstr(message, value));
	for (size_t i = 0; i < g->trailers.n && i < 16; i++) {
		if (strchr(g->trailers.v[i], ':'))
			continue;
		buf_reset(&with);
		buf_addf(&with, "title\n\n%s: x\n%s", g->trailers.v[i], message);
		MUST(gate_trailer(g, buf_str(&with), &n));
	}
}

static void check_again(const struct gate *g)
{
	cleanup_buf struct buf once = BUF_INIT(TEXT_MAX), twice = BUF_INIT(TEXT_MAX);
	cleanup_gate struct gate again;
	struct err e = ERR_INIT;

	gate_init(&again);
	put_gate(&once, g);
	if (once.len > GATE_FILE_MAX_B)
		return;
	MUST(!once.failed && gate_parse(&again, "g", once.data, once.len, &e) == 0);
	put_gate(&twice, &again);
	MUST(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	cleanup_free char *message = NULL;
	cleanup_gate struct gate g;
	struct err e = ERR_INIT;

	gate_init(&g);
	message =
		nul ? strndup((const char *)nul + 1, size - (size_t)(nul + 1 - data)) : strdup("");
	MUST(message);
	if (gate_parse(&g, "g", (const char *)data, nul ? (size_t)(nul - data) : size, &e) < 0) {
		MUST(e.kind != ERR_NONE && str_starts(e.msg, "g:"));
		return 0;
	}
	check_gate(&g);
	check_message(&g, message);
	check_again(&g);
	return 0;
}
