/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strict reader of gate files, over libyaml's events.
 *
 * One document; mappings, lists and scalars where the schema has them. Anchors, aliases, tags and
 * directives are refused, as in policies. Failure: "FILE:LINE:COLUMN: what; did you mean X?".
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "ledger/gate.h"
#include "policy/policy.h"

#define SHOWN_MAX 64u
#define KEYS_MAX 16u

struct reader {
	yaml_parser_t yaml;
	yaml_event_t ev;
	bool have, version;
	const char *name;
	struct gate *g;
	struct gate_allow *draft;
	struct err *e;
};

struct key {
	const char *name;
	int (*read)(struct reader *r, const char *key);
};

/* ------------------------------------------------------------------ events */

static int fail_at(struct reader *r, size_t line, size_t column)
{
	return err_wrap(r->e, "%s:%zu:%zu", r->name, line + 1, column + 1);
}

static int fail(struct reader *r)
{
	return fail_at(r, r->ev.start_mark.line, r->ev.start_mark.column);
}

static int next_event(struct reader *r)
{
	if (r->have)
		yaml_event_delete(&r->ev);
	r->have = false;
	if (yaml_parser_parse(&r->yaml, &r->ev)) {
		r->have = true;
		return 0;
	}
	if (r->yaml.error == YAML_MEMORY_ERROR)
		return err_set(r->e, ENOMEM, "parse %s", r->name);
	err_invalid(r->e, "%s", r->yaml.problem ? r->yaml.problem : "not YAML");
	return fail_at(r, r->yaml.problem_mark.line, r->yaml.problem_mark.column);
}

static int next(struct reader *r)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;
	int x = next_event(r);

	if (x < 0)
		return x;
	if (r->ev.type == YAML_SCALAR_EVENT) {
		anchor = r->ev.data.scalar.anchor;
		tag = r->ev.data.scalar.tag;
	} else if (r->ev.type == YAML_SEQUENCE_START_EVENT) {
		anchor = r->ev.data.sequence_start.anchor;
		tag = r->ev.data.sequence_start.tag;
	} else if (r->ev.type == YAML_MAPPING_START_EVENT) {
		anchor = r->ev.data.mapping_start.anchor;
		tag = r->ev.data.mapping_start.tag;
	}
	if (!anchor && !tag && r->ev.type != YAML_ALIAS_EVENT)
		return 0;
	err_invalid(r->e, "%s are not allowed in a gate file",
		tag      ? "tags (!name)"
		: anchor ? "anchors (&name)"
			 : "aliases (*name)");
	return fail(r);
}

static const char *text(const struct reader *r)
{
	return (const char *)r->ev.data.scalar.value;
}

static int want(struct reader *r, yaml_event_type_t type, const char *what, const char *kind)
{
	if (r->ev.type == type)
		return 0;
	err_invalid(r->e, "%s must be %s", what, kind);
	return fail(r);
}

static int want_scalar(struct reader *r, const char *what)
{
	int x = want(r, YAML_SCALAR_EVENT, what, "a single value");

	if (x < 0)
		return x;
	if (strlen(text(r)) == r->ev.data.scalar.length && r->ev.data.scalar.length)
		return 0;
	err_invalid(r->e, "%s %s", what,
		r->ev.data.scalar.length ? "holds a NUL character" : "is empty");
	return fail(r);
}

/* "\"TEXT\" WHY" at the current place. */
static int bad_value(struct reader *r, const char *why)
{
	cleanup_buf struct buf b = BUF_INIT(SHOWN_MAX * 8);

	str_show(&b, text(r), strnlen(text(r), SHOWN_MAX));
	err_invalid(r->e, "\"%s\" %s", buf_str(&b), why);
	return fail(r);
}

static int unknown_key(struct reader *r, const char *section, const struct key *keys, size_t n)
{
	cleanup_buf struct buf shown = BUF_INIT(SHOWN_MAX * 8);
	const char *names[KEYS_MAX], *near;

	for (size_t i = 0; i < n && i < KEYS_MAX; i++)
		names[i] = keys[i].name;
	near = str_nearest(text(r), names, MIN_OF(n, KEYS_MAX));
	str_show(&shown, text(r), strnlen(text(r), SHOWN_MAX));
	err_invalid(r->e, "unknown key \"%s\"%s%s%s%s%s", buf_str(&shown), *section ? " in " : "",
		section, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
	return fail(r);
}

static int read_mapping(struct reader *r, const char *section, const struct key *keys, size_t n)
{
	size_t first[KEYS_MAX] = {0};
	int x = want(r, YAML_MAPPING_START_EVENT, *section ? section : "a gate file",
		"a mapping (key: value)");

	while (x == 0 && (x = next(r)) == 0 && r->ev.type != YAML_MAPPING_END_EVENT) {
		size_t i = 0;

		x = want_scalar(r, "a key");
		if (x < 0)
			break;
		while (i < n && !str_eq(text(r), keys[i].name))
			i++;
		if (i == n)
			return unknown_key(r, section, keys, n);
		if (first[i]) {
			err_invalid(r->e, "\"%s\" is given twice (first on line %zu)", keys[i].name,
				first[i]);
			return fail(r);
		}
		first[i] = r->ev.start_mark.line + 1;
		x = next(r);
		if (x == 0)
			x = keys[i].read(r, keys[i].name);
	}
	return x;
}

static int read_list(
	struct reader *r, const char *what, int (*add)(struct reader *r, const char *key))
{
	int x = want(r, YAML_SEQUENCE_START_EVENT, what,
		"a list ([a, b] or lines that begin with \"-\")");

	while (x == 0 && (x = next(r)) == 0 && r->ev.type != YAML_SEQUENCE_END_EVENT)
		x = add(r, what);
	return x;
}

/* ------------------------------------------------------------------ values */

static int add_text(struct reader *r, struct strlist *l)
{
	if (strlist_add(l, text(r)))
		return 0;
	err_invalid(r->e, "a list has at most %zu entries", l->max);
	return fail(r);
}

static int read_bool(struct reader *r, const char *key, bool *ret)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (!str_eq(text(r), "true") && !str_eq(text(r), "false"))
		return bad_value(r, "is neither true nor false");
	*ret = str_eq(text(r), "true");
	return 0;
}

static int read_evidence(struct reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	for (int i = 0; i < GATE_EVIDENCE_NUM; i++)
		if (str_eq(text(r), gate_evidence_names[i])) {
			r->g->evidence = (enum gate_evidence)i;
			return 0;
		}
	return bad_value(r, "is not ai-touched or all");
}

static int read_tests(struct reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (!str_eq(text(r), "passed") && !str_eq(text(r), "none"))
		return bad_value(r, "is not passed or none");
	r->g->tests = str_eq(text(r), "passed");
	return 0;
}

static int read_review(struct reader *r, const char *key)
{
	return read_bool(r, key, &r->g->review);
}

static int read_clean(struct reader *r, const char *key)
{
	return read_bool(r, key, &r->g->clean);
}

/* An id, or a PEM block whose id it becomes. */
static int add_key(struct reader *r, const char *key)
{
	uint8_t public[KEY_PUBLIC_LEN];
	struct err inner = ERR_INIT;
	struct digest id;
	int x = want_scalar(r, "a key");

	if (x < 0)
		return x;
	if (strstr(text(r), "-----BEGIN")) {
		if (ledger_key_from_pem(public, text(r), strlen(text(r)), &inner) < 0) {
			err_invalid(r->e, "%s", inner.msg);
			return fail(r);
		}
		digest_sha256(&id, public, sizeof(public));
		return strlist_add(&r->g->keys, id.hex) ? 0 : add_text(r, &r->g->keys);
	}
	if (strlen(text(r)) != DIGEST_HEX_LEN ||
		strspn(text(r), "0123456789abcdef") != DIGEST_HEX_LEN)
		return bad_value(r, "is neither a key's id (64 hexadecimal digits, see croft "
				    "evidence key) nor a PEM block");
	return add_text(r, &r->g->keys);
}

static int read_keys(struct reader *r, const char *key)
{
	return read_list(r, key, add_key);
}

static int read_max(struct reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (!str_u64(text(r), 1000000000, &r->g->max_denials))
		return bad_value(r, "is not a number");
	return 0;
}

static int add_tier(struct reader *r, const char *key)
{
	int x = want_scalar(r, "a tier");

	if (x < 0)
		return x;
	for (int i = 0; i < TIER_NUM; i++)
		if (i != TIER_AUTO && str_eq(text(r), policy_tier_names[i]))
			return add_text(r, &r->g->tiers);
	return bad_value(r, "is no tier that a command can run in");
}

static int read_tiers(struct reader *r, const char *key)
{
	return read_list(r, key, add_tier);
}

/* ------------------------------------------------------------------ allowed denials */

static int keep(struct reader *r, char **to)
{
	*to = strdup(text(r));
	return *to ? 0 : err_set(r->e, ENOMEM, "parse %s", r->name);
}

static int allow_path(struct reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (text(r)[0] != '/' && !str_starts(text(r), "./"))
		return bad_value(
			r, "is no path of a denial; begin with / or, in the workspace, ./");
	return keep(r, &r->draft->path);
}

static int allow_host(struct reader *r, const char *key)
{
	int x = want_scalar(r, key);

	return x < 0 ? x : keep(r, &r->draft->host);
}

static int allow_reason(struct reader *r, const char *key)
{
	int x = want_scalar(r, key);

	return x < 0 ? x : keep(r, &r->draft->reason);
}

/* A day that exists, written as ISO 8601 has it. */
static bool is_date(const char *s)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int y = 0, m, d, max;

	if (strlen(s) != 10 || s[4] != '-' || s[7] != '-')
		return false;
	for (int i = 0; i < 10; i++)
		if (i != 4 && i != 7 && (s[i] < '0' || s[i] > '9'))
			return false;
	for (int i = 0; i < 4; i++)
		y = y * 10 + (s[i] - '0');
	m = (s[5] - '0') * 10 + s[6] - '0';
	d = (s[8] - '0') * 10 + s[9] - '0';
	if (m < 1 || m > 12 || d < 1)
		return false;
	max = days[m - 1] + (m == 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0));
	return d <= max;
}

static int allow_expires(struct reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	if (!is_date(text(r)))
		return bad_value(r, "is no day; write it as 2026-01-31");
	memcpy(r->draft->expires, text(r), sizeof(r->draft->expires));
	return 0;
}

static int add_allow(struct reader *r, const char *key)
{
	static const struct key keys[] = {{"path", allow_path}, {"host", allow_host},
		{"reason", allow_reason}, {"expires", allow_expires}};
	yaml_mark_t at = r->ev.start_mark;
	struct gate *g = r->g;
	int x;

	if (g->allow_n >= GATE_LIST_MAX) {
		err_invalid(r->e, "a list has at most %u entries", GATE_LIST_MAX);
		return fail(r);
	}
	if (g->allow_n == g->allow_cap) {
		size_t want_n = g->allow_cap ? g->allow_cap * 2 : 16;
		struct gate_allow *more = reallocarray(g->allow, want_n, sizeof(*more));

		if (!more)
			return err_set(r->e, ENOMEM, "parse %s", r->name);
		g->allow = more;
		g->allow_cap = want_n;
	}
	r->draft = &g->allow[g->allow_n++];
	*r->draft = (struct gate_allow){.line = (unsigned)at.line + 1};
	x = read_mapping(r, "an allowed denial", keys, ARRAY_SIZE(keys));
	if (x < 0)
		return x;
	if (!r->draft->path == !r->draft->host)
		err_invalid(r->e, "an allowed denial has a path or a host, one of them");
	else if (!r->draft->reason)
		err_invalid(r->e, "an allowed denial needs a reason");
	else
		return 0;
	return fail_at(r, at.line, at.column);
}

static int read_allow(struct reader *r, const char *key)
{
	return read_list(r, key, add_allow);
}

static int read_require(struct reader *r, const char *key)
{
	static const struct key keys[] = {{"evidence", read_evidence}, {"tests", read_tests},
		{"review", read_review}, {"keys", read_keys}, {"max-denials", read_max},
		{"allowed-denials", read_allow}, {"tiers", read_tiers},
		{"clean-degradations", read_clean}};

	return read_mapping(r, key, keys, ARRAY_SIZE(keys));
}

/* ------------------------------------------------------------------ which commits */

static int add_trailer(struct reader *r, const char *key)
{
	size_t n;
	int x = want_scalar(r, "a trailer");

	if (x < 0)
		return x;
	n = strcspn(text(r), ":");
	if (n == 0 || strspn(text(r), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789-") != n)
		return bad_value(r, "is no trailer; write Name or \"Name: pattern\"");
	return add_text(r, &r->g->trailers);
}

static int read_trailers(struct reader *r, const char *key)
{
	strlist_done(&r->g->trailers);
	r->g->trailers = STRLIST_INIT(GATE_LIST_MAX);
	return read_list(r, key, add_trailer);
}

static int read_detect(struct reader *r, const char *key)
{
	static const struct key keys[] = {{"trailers", read_trailers}};

	return read_mapping(r, key, keys, ARRAY_SIZE(keys));
}

static int add_commit(struct reader *r, const char *key)
{
	size_t n;
	int x = want_scalar(r, "a commit");

	if (x < 0)
		return x;
	n = strlen(text(r));
	if (n < 12 || n > OID_HEX_MAX || strspn(text(r), "0123456789abcdef") != n)
		return bad_value(r, "is no commit; write at least 12 digits of its name");
	return add_text(r, &r->g->ignore_commits);
}

static int add_path(struct reader *r, const char *key)
{
	int x = want_scalar(r, "a path");

	if (x < 0)
		return x;
	if (text(r)[0] == '/' || str_starts(text(r), "./"))
		return bad_value(r, "is not relative to the top of the repository");
	return add_text(r, &r->g->ignore_paths);
}

static int read_commits(struct reader *r, const char *key)
{
	return read_list(r, key, add_commit);
}

static int read_paths(struct reader *r, const char *key)
{
	return read_list(r, key, add_path);
}

static int read_ignore(struct reader *r, const char *key)
{
	static const struct key keys[] = {{"commits", read_commits}, {"paths", read_paths}};

	return read_mapping(r, key, keys, ARRAY_SIZE(keys));
}

static int read_version(struct reader *r, const char *key)
{
	int x = want_scalar(r, key);

	if (x < 0)
		return x;
	r->version = str_eq(text(r), "1");
	if (r->version)
		return 0;
	err_invalid(r->e, "this croft reads gate files of version: 1");
	return fail(r);
}

/* ------------------------------------------------------------------ the document */

static int read_document(struct reader *r)
{
	static const struct key keys[] = {{"version", read_version}, {"require", read_require},
		{"detect", read_detect}, {"ignore", read_ignore}};
	int x = next_event(r); /* stream start */

	if (x == 0)
		x = next_event(r);
	if (x < 0)
		return x;
	if (r->ev.type == YAML_STREAM_END_EVENT) {
		err_invalid(r->e, "the gate file is empty; it begins with \"version: 1\"");
		return fail(r);
	}
	if (r->ev.data.document_start.version_directive ||
		r->ev.data.document_start.tag_directives.start !=
			r->ev.data.document_start.tag_directives.end) {
		err_invalid(r->e, "directives (lines that begin with %%) are not allowed in a gate "
				  "file");
		return fail(r);
	}
	x = next(r);
	if (x == 0)
		x = read_mapping(r, "", keys, ARRAY_SIZE(keys));
	if (x == 0)
		x = next_event(r); /* document end */
	if (x == 0)
		x = next_event(r);
	if (x == 0 && r->ev.type != YAML_STREAM_END_EVENT) {
		err_invalid(r->e, "a second document begins here; a gate file is one document");
		return fail(r);
	}
	return x;
}

int gate_parse(struct gate *ret, const char *name, const char *text_, size_t n, struct err *e)
{
	struct reader r = {.name = name, .g = ret, .e = e};
	int x;

	if (n > GATE_FILE_MAX_B)
		return err_invalid(
			e, "%s: a gate file may hold at most %u bytes", name, GATE_FILE_MAX_B);
	if (!utf8_valid(text_, n))
		return err_invalid(e, "%s: the text is not UTF-8", name);
	if (!yaml_parser_initialize(&r.yaml))
		return err_set(e, ENOMEM, "parse %s", name);
	yaml_parser_set_encoding(&r.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text_, n);
	x = read_document(&r);
	if (r.have)
		yaml_event_delete(&r.ev);
	yaml_parser_delete(&r.yaml);
	if (x == 0 && !r.version)
		x = err_invalid(e, "%s:1:1: \"version: 1\" is missing", name);
	return x;
}
