/* SPDX-License-Identifier: Apache-2.0 */
/* Statements, trees and commits of events: see statement.h. */
#include "ledger/chain/statement.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "ledger/chain/dsse.h"

#define AUTHOR "croft <croft@localhost>"

const char *const event_names[EVENT_NUM] = {
	[EVENT_CREATED] = "created",
	[EVENT_EXEC] = "exec",
	[EVENT_INTERRUPTED] = "interrupted",
	[EVENT_SNAPSHOT] = "snapshot",
	[EVENT_RESTORED] = "restored",
	[EVENT_FORKED] = "forked",
	[EVENT_REVIEWED] = "reviewed",
	[EVENT_APPLIED] = "applied",
	[EVENT_REVERTED] = "reverted",
	[EVENT_DISCARDED] = "discarded",
	[EVENT_RECOVERED] = "recovered",
	[EVENT_SESSION] = "session",
};
static_assert(EVENT_NUM == 12, "a kind of event without a name");

/* ------------------------------------------------------------------ words */

bool ledger_time_text(const struct timespec *t, struct ledger_time *ret)
{
	time_t seconds = t->tv_sec;
	struct tm tm;
	int n;

	if (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec > 999999999 || !gmtime_r(&seconds, &tm) ||
		tm.tm_year > 9999 - 1900)
		return false;
	n = snprintf(ret->s, sizeof(ret->s), "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ",
		(tm.tm_year + 1900) % 10000, (tm.tm_mon + 1) % 100, tm.tm_mday % 100,
		tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100, t->tv_nsec / 1000);
	return n == LEDGER_TIME_LEN;
}

/* Digits of a fixed width; -1: not digits. */
static int digits(const char *s, int n)
{
	int v = 0;

	for (int i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + (s[i] - '0');
	}
	return v;
}

bool ledger_time_parse(const char *s, struct timespec *ret)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
	struct ledger_time again;
	struct timespec t;
	struct tm tm = {0};

	if (strlen(s) != LEDGER_TIME_LEN)
		return false;
	for (size_t i = 0; i < LEDGER_TIME_LEN; i++)
		if (form[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
			return false;
	tm.tm_year = digits(s, 4) - 1900;
	tm.tm_mon = digits(s + 5, 2) - 1;
	tm.tm_mday = digits(s + 8, 2);
	tm.tm_hour = digits(s + 11, 2);
	tm.tm_min = digits(s + 14, 2);
	tm.tm_sec = digits(s + 17, 2);
	t = (struct timespec){.tv_sec = timegm(&tm), .tv_nsec = digits(s + 20, 6) * 1000L};
	/* The 31st of February would come back as another day. */
	if (!ledger_time_text(&t, &again) || !str_eq(again.s, s))
		return false;
	*ret = t;
	return true;
}

bool ledger_id_valid(const char *id)
{
	return str_hex(id, LEDGER_ID_LEN, LEDGER_ID_LEN);
}

bool ledger_file_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= 64 && name[0] != '.' && !str_eq(name, LEDGER_STATEMENT) &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

void ledger_title(const char *text, enum event_kind kind, struct ledger_title *ret)
{
	cleanup_buf struct buf b = BUF_INIT(8 * LEDGER_TITLE_MAX);
	size_t n;

	if (text)
		str_show(&b, text, strnlen(text, 2 * LEDGER_TITLE_MAX));
	/* What is only blanks is no title; Git would drop blanks at the end. */
	for (n = MIN_OF(b.len, LEDGER_TITLE_MAX); n > 0 && b.len > n; n--)
		if (((unsigned char)b.data[n] & 0xc0) != 0x80)
			break;
	while (n > 0 && b.data[n - 1] == ' ')
		n--;
	if (n > 0 && b.data[0] != ' ')
		snprintf(ret->s, sizeof(ret->s), "%.*s", (int)n, b.data);
	else
		snprintf(ret->s, sizeof(ret->s), "%s", event_names[kind]);
}

/* ------------------------------------------------------------------ statement */

static void subject(struct json *j, const char *name, const char *algorithm, const char *value)
{
	json_object(j, NULL);
	json_str(j, "name", name);
	json_object(j, "digest");
	json_str(j, algorithm, value);
	json_end(j);
	json_end(j);
}

static void subjects(const struct ledger_event *ev, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_array(&j, NULL);
	for (size_t i = 0; i < ev->subjects_n; i++)
		subject(&j, ev->subjects[i].name, ev->subjects[i].algorithm, ev->subjects[i].value);
	for (size_t i = 0; i < ev->files_n; i++) {
		struct digest d;

		digest_sha256(&d, ev->files[i].n ? ev->files[i].p : "", ev->files[i].n);
		subject(&j, ev->files[i].name, "sha256", d.hex);
	}
	json_end(&j);
}

static void croft_member(
	const struct ledger_event *ev, const struct statement_place *at, struct buf *out)
{
	char key[(KEY_PUBLIC_LEN + 2) / 3 * 4];
	struct json j;

	json_init(&j, out, false);
	json_object(&j, NULL);
	json_str(&j, "schema", at->schema == 2 ? LEDGER_SCHEMA_2 : LEDGER_SCHEMA);
	json_str(&j, "version", ev->version);
	json_str(&j, "env", ev->env_id);
	json_str(&j, "name", ev->env_name);
	json_uint(&j, "seq", at->seq);
	json_str(&j, "kind", event_names[ev->kind]);
	json_str(&j, "time", at->time);
	json_str(&j, "previous", at->previous);
	json_str(&j, "title", at->title);
	json_array(&j, "files");
	for (size_t i = 0; i < ev->files_n; i++)
		json_str(&j, NULL, ev->files[i].name);
	json_end(&j);
	if (ev->run_id)
		json_str(&j, "run", ev->run_id);
	if (ev->session)
		json_str(&j, "session", ev->session);
	if (at->clock)
		json_str(&j, "clock", at->clock);
	if (at->key) {
		base64_encode(key, at->key, KEY_PUBLIC_LEN);
		json_strn(&j, "key", key, sizeof(key));
	}
	json_end(&j);
}

/*
 * The members come from our own builders, but a mistake there must not be signed: what is written is
 * read again, strictly, and has to hold one `croft`, ours.
 */
static int read_back(
	const struct buf *out, size_t from, const struct statement_place *at, struct err *e)
{
	cleanup_jdoc struct jdoc *doc = NULL;
	const struct jnode *croft;
	int64_t seq;
	int r;

	if (out->failed)
		return err_set(
			e, EFBIG, "write a statement of at most %u MiB", DSSE_PAYLOAD_MAX_B >> 20);
	r = jdoc_parse(&doc, out->data + from, out->len - from, e);
	if (r < 0)
		return err_wrap(e, "the event's predicate is not JSON");
	croft = jget(jget(jdoc_root(doc), "predicate"), "croft");
	if (!jint(jget(croft, "seq"), &seq) || (uint64_t)seq != at->seq)
		return err_invalid(e, "the event's predicate is not a list of members");
	return 0;
}

/* What an older croft must not pass over, it must not be able to read. */
int statement_schema(enum event_kind kind, int after)
{
	return kind == EVENT_SESSION || after == 2 ? 2 : 1;
}

int statement_write(const struct ledger_event *ev, const struct statement_place *at,
	struct buf *out, struct err *e)
{
	size_t from = out->len;
	struct json j;

	buf_adds(out, "{\"_type\":\"" STATEMENT_TYPE "\",\"subject\":");
	subjects(ev, out);
	buf_adds(out, ",\"predicateType\":");
	json_init(&j, out, false);
	json_str(&j, NULL, ev->predicate_type);
	buf_adds(out, ",\"predicate\":{");
	if (ev->predicate && *ev->predicate) {
		buf_adds(out, ev->predicate);
		buf_addc(out, ',');
	}
	buf_adds(out, "\"croft\":");
	croft_member(ev, at, out);
	buf_adds(out, "}}");
	return read_back(out, from, at, e);
}

/* ------------------------------------------------------------------ tree and commit */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct ledger_blob *)a)->name, ((const struct ledger_blob *)b)->name);
}

void ledger_tree_text(struct ledger_blob *v, size_t n, struct buf *out)
{
	qsort(v, n, sizeof(*v), by_name);
	for (size_t i = 0; i < n; i++) {
		buf_addf(out, "100644 %s", v[i].name);
		buf_addc(out, '\0');
		buf_add(out, v[i].oid.v, v[i].oid.n);
	}
}

void ledger_commit_text(const struct oid *tree, const struct oid *parent, int64_t seconds,
	const char *title, struct buf *out)
{
	buf_addf(out, "tree %s\n", oid_hex(tree).s);
	if (!oid_is_none(parent))
		buf_addf(out, "parent %s\n", oid_hex(parent).s);
	buf_addf(out, "author " AUTHOR " %" PRId64 " +0000\n", seconds);
	buf_addf(out, "committer " AUTHOR " %" PRId64 " +0000\n\n%s\n", seconds, title);
}
