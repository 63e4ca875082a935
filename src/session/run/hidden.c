/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are kept out of what is written down: see hidden.h. */
#include "session/run/hidden.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "session/stdio/capture.h"
#include "policy/net/net.h"

#define VALUE_MIN_B 8u      /* as redact_add() wants */
#define WORD_MAX_B 16384u   /* longer ones are no credentials */
#define NOTED_MAX_B 131072u /* a value with its salt: no variable is longer */

/* ---- which values ---- */

static bool looks_secret(const char *name, size_t n)
{
	static const char *const words[] = {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL",
		"API_KEY", "APIKEY", "PRIVATE"};
	char upper[POLICY_ENV_NAME_MAX + 1];

	if (n >= sizeof(upper))
		return false;
	for (size_t i = 0; i < n; i++)
		upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]);
	upper[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(upper, words[i]))
			return true;
	return false;
}

static int know(struct redact *r, const char *name, const char *value, struct err *e)
{
	if (!value || strlen(value) < VALUE_MIN_B || !looks_secret(name, strlen(name)))
		return 0;
	return redact_add(r, name, value, e);
}

static int know_stored(void *arg, const char *name, const struct secret *value)
{
	struct err e = ERR_INIT;
	char text[SECRET_MAX_B + 1];
	int r;

	if (value->len >= sizeof(text))
		return -EBADMSG;
	memcpy(text, value->data, value->len);
	text[value->len] = '\0';
	r = redact_add(arg, name, text, &e);
	explicit_bzero(text, sizeof(text));
	return r;
}

static int know_all_stored(struct redact *r, struct err *e)
{
	if (secret_each(know_stored, r, e) < 0)
		return e->errnum ? -e->errnum
				 : err_set(e, ENOMEM, "take secrets out of what is recorded");
	return 0;
}

/* One of the caller's variables: the policy may pass it, by name or pattern, or it may be a bound secret. */
static int know_passed(struct redact *r, const struct policy *p, const char *text, struct err *e)
{
	const char *is = strchr(text, '=');
	char name[POLICY_ENV_NAME_MAX + 1];

	if (!is || is == text || (size_t)(is - text) >= sizeof(name))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(is - text), text);
	/* A secret that is not stored is the caller's variable, whatever it is called. */
	for (size_t i = 0; p->net && i < p->net->secrets_n; i++)
		if (str_eq(p->net->secrets[i].name, name) && strlen(is + 1) >= SECRET_MIN_B)
			return redact_add(r, name, is + 1, e);
	return policy_env_passes(p, name) ? know(r, name, is + 1, e) : 0;
}

int hidden_know_variables(
	struct redact *r, const struct policy *p, char *const *caller, struct err *e)
{
	for (size_t i = 0; i < p->env_set_n; i++)
		if (know(r, p->env_set[i].name, p->env_set[i].value, e) < 0)
			return -e->errnum;
	for (; caller && *caller; caller++)
		if (know_passed(r, p, *caller, e) < 0)
			return -e->errnum;
	return 0;
}

int hidden_know(struct redact *r, const struct policy *p, struct err *e)
{
	int rc = hidden_know_variables(r, p, environ, e);

	return rc < 0 ? rc : know_all_stored(r, e);
}

int hidden_know_stored(struct redact *r, struct secret_stamp *s, struct err *e)
{
	struct secret_stamp now = *s;
	int rc = secret_unchanged(&now) ? 0 : know_all_stored(r, e);

	if (rc == 0)
		*s = now;
	return rc;
}

/* "NAME=VALUE" of an environment or of options. */
static int know_assigned(struct redact *r, const char *text, struct err *e)
{
	const char *is = strchr(text, '=');
	char name[POLICY_ENV_NAME_MAX + 1];

	if (!is || (size_t)(is - text) >= sizeof(name))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(is - text), text);
	return know(r, name, is + 1, e);
}

int hidden_know_all(struct redact *r, const struct strlist *args, struct err *e)
{
	for (char **v = environ; v && *v; v++)
		if (know_assigned(r, *v, e) < 0)
			return -e->errnum;
	for (size_t i = 0; i < args->n; i++)
		if (know_assigned(r, args->v[i], e) < 0)
			return -e->errnum;
	return know_all_stored(r, e);
}

/* ---- noted, and known again ---- */

static bool salted(const char *value, const char *run_id, struct digest *ret)
{
	cleanup_buf struct buf b = BUF_INIT(NOTED_MAX_B);

	buf_addf(&b, "%s\n%s", run_id, value);
	if (!b.failed)
		digest_sha256(ret, buf_str(&b), b.len);
	if (b.data)
		explicit_bzero(b.data, b.len);
	return !b.failed;
}

void hidden_note(const struct redact *r, const char *run_id, struct json *j)
{
	json_array(j, "hidden");
	for (size_t i = 0; i < r->values.n; i++) {
		struct digest d = {0};

		json_object(j, NULL);
		json_str(j, "name", r->names.v[i]);
		json_str(j, "sha256", salted(r->values.v[i], run_id, &d) ? d.hex : NULL);
		json_end(j);
	}
	json_end(j);
}

static bool matches(const char *value, const char *run_id, const char *sha256)
{
	struct digest d;

	return value && sha256 && salted(value, run_id, &d) && strcmp(d.hex, sha256) == 0;
}

bool hidden_noted(struct redact *r, const struct jnode *noted, const char *run_id)
{
	struct err ignored = ERR_INIT;

	for (size_t i = 0; i < jlen(noted); i++) {
		const char *name = jstr(jget(jat(noted, i), "name"));
		const char *sha256 = jstr(jget(jat(noted, i), "sha256"));
		const char *value = name ? getenv(name) : NULL;
		bool known = false;

		for (size_t k = 0; k < r->values.n && !known; k++)
			known = matches(r->values.v[k], run_id, sha256);
		if (!known && matches(value, run_id, sha256))
			known = redact_add(r, name, value, &ignored) == 0;
		if (!known)
			return false;
	}
	return true;
}

/* ---- output ---- */

static bool in_word(char c)
{
	return (unsigned char)c > ' ';
}

/* The line that capture_end() wrote where it left something out: its length, or 0. */
static size_t gap_line(const char *p, size_t n, uint64_t *ret_cut)
{
	static const char before[] = "\n[croft: ", behind[] = " bytes left out]\n";
	size_t at = sizeof(before) - 1, digits = 0;
	uint64_t cut = 0;

	if (n < at || memcmp(p, before, at) != 0)
		return 0;
	for (; at < n && p[at] >= '0' && p[at] <= '9' && digits < 19; at++, digits++)
		cut = cut * 10 + (uint64_t)(p[at] - '0');
	if (!digits || n - at < sizeof(behind) - 1 ||
		memcmp(p + at, behind, sizeof(behind) - 1) != 0)
		return 0;
	*ret_cut = cut;
	return at + sizeof(behind) - 1;
}

void hidden_output(struct redact *r, const struct buf *raw, struct buf *out)
{
	const char *tail;
	uint64_t cut = 0;
	size_t line = 0, head = CAPTURE_HEAD_B, tail_n, word;

	/* Only a whole head is followed by a gap. */
	if (raw->len > head)
		line = gap_line(raw->data + head, raw->len - head, &cut);
	if (!line) {
		redact_text(r, buf_str(raw), raw->len, out);
		return;
	}
	tail = raw->data + head + line;
	tail_n = raw->len - head - line;
	for (word = 0; word < WORD_MAX_B && word < tail_n && in_word(tail[word]); word++)
		cut++;
	tail += word;
	tail_n -= word;
	for (word = 0; word < WORD_MAX_B && head > 0 && in_word(raw->data[head - 1]);
		word++, head--)
		cut++;
	redact_part(r, raw->data, head, REDACT_CUT_BEHIND, out);
	buf_addf(out, "\n[croft: %" PRIu64 " bytes left out]\n", cut);
	redact_part(r, tail, tail_n, REDACT_CUT_BEFORE, out);
}

void hidden_lines(struct redact *r, const char *p, size_t n, struct buf *out)
{
	cleanup_buf struct buf clean = BUF_INIT(out->max);

	while (n > 0 && !out->failed) {
		const char *end = memchr(p, '\n', n);
		size_t len = end ? (size_t)(end + 1 - p) : n;

		buf_reset(&clean);
		if (redact_json(r, p, len, &clean) == -EBADMSG)
			buf_adds(out, "{\"type\":\"left out\"}\n");
		else if (clean.failed)
			out->failed = true;
		else
			buf_add(out, buf_str(&clean), clean.len);
		p += len;
		n -= len;
	}
}

void hidden_words(struct redact *r, struct strlist *words)
{
	for (size_t i = 0; i < words->n; i++) {
		cleanup_buf struct buf b = BUF_INIT(LEDGER_FILE_MAX_B);
		char *fresh;

		redact_text(r, words->v[i], strlen(words->v[i]), &b);
		fresh = buf_take(&b);
		if (fresh) {
			free(words->v[i]);
			words->v[i] = fresh;
		}
	}
}

/* ---- other events ---- */

void hidden_event_done(struct hidden_event *x)
{
	buf_done(&x->predicate);
	buf_done(&x->title);
	for (size_t i = 0; i < ARRAY_SIZE(x->files); i++)
		buf_done(&x->files[i]);
}

int hidden_event(
	struct hidden_event *ret, const struct ledger_event *ev, struct redact *r, struct err *e)
{
	const char *text = ev->predicate ? ev->predicate : "";
	int rc;

	*ret = (struct hidden_event){
		.event = *ev, .predicate = BUF_INIT(LEDGER_FILE_MAX_B), .title = BUF_INIT(65536)};
	rc = redact_json(r, text, strlen(text), &ret->predicate);
	redact_field(r, ev->title ? ev->title : "", ev->title ? strlen(ev->title) : 0, &ret->title);
	for (size_t i = 0; rc == 0 && i < ev->files_n; i++) {
		const struct ledger_file *f = &ev->files[i];

		/* The policy is the user's own text, and its digest is known. */
		if (!str_ends(f->name, ".json") && !str_ends(f->name, ".jsonl"))
			continue;
		ret->files[i] = BUF_INIT(LEDGER_FILE_MAX_B);
		rc = redact_json(r, f->p, f->n, &ret->files[i]);
		ret->event.files[i].p = buf_str(&ret->files[i]);
		ret->event.files[i].n = ret->files[i].len;
	}
	if (rc == 0 && ret->title.failed)
		rc = -ENOMEM;
	ret->event.predicate = buf_str(&ret->predicate);
	ret->event.title = buf_str(&ret->title);
	return rc < 0 ? err_set(e, -rc, "take secrets out of what is recorded") : 0;
}
