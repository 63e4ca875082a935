/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as people and programs read them: see evidence.h.
 *
 * Shown is what the entries say; nothing here judges it. Text goes through str_show() and has an end; JSON
 * is the statement as it was signed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "evidence/evidence.h"
#include "ledger/chain/entry.h"
#include "ledger/chain/statement.h"

#define SHOW_DEPTH_MAX 10
#define SHOW_ITEMS_MAX 200
#define SHOW_TEXT_MAX 2000u
#define LOG_WORDS_MAX 20u

struct view {
	struct entry_source source;
	struct oid *commits;
	size_t n;
};

static void view_done(struct view *v)
{
	entry_source_done(&v->source);
	free(v->commits);
}
#define cleanup_view __attribute__((cleanup(view_done)))

static int view_open(struct view *ret, const struct evidence *v, struct err *e)
{
	int r = ledger_commits(&v->repo, &v->ledgers[0].tip, &ret->commits, &ret->n, e);

	return r < 0 ? r : entry_source_open(&ret->source, &v->repo, e);
}

static void show(struct buf *out, const char *s)
{
	size_t n = strlen(s);

	str_show(out, s, MIN_OF(n, (size_t)SHOW_TEXT_MAX));
	if (n > SHOW_TEXT_MAX)
		buf_addf(out, "… (%zu bytes)", n);
}

static const char *title_of(const struct ledger_entry *x)
{
	const char *t = jstr(jget(entry_croft(x), "title"));

	return t ? t : "";
}

/* "2026-01-02 03:04:05" */
static void short_time(const char *time, char ret[20])
{
	snprintf(ret, 20, "%.10s %.8s", time, time + 11);
}

/* ------------------------------------------------------------------ log */

static bool is_kind(const struct jnode *entry, const char *kind)
{
	const char *k = jstr(jget(entry, "kind"));

	return k && str_eq(k, kind);
}

/* The words of a command line, as far as they are there. */
static void log_argv(const struct jnode *argv, struct buf *out)
{
	for (size_t i = 0; i < jlen(argv) && i < LOG_WORDS_MAX; i++) {
		buf_addc(out, ' ');
		show(out, jstr(jat(argv, i)) ? jstr(jat(argv, i)) : "?");
	}
	if (jlen(argv) > LOG_WORDS_MAX)
		buf_adds(out, " …");
}

/* One line for each entry of a session's event. */
static void log_entry(
	const struct ledger_entry *x, size_t i, const struct jnode *n, struct buf *out)
{
	const char *kind = jstr(jget(n, "kind")), *time = jstr(jget(n, "time"));
	struct timespec t;
	char when[20] = "", name[32];
	int64_t v = 0;

	if (time && ledger_time_parse(time, &t))
		short_time(time, when);
	snprintf(name, sizeof(name), "%" PRIu64 ".%zu", x->seq, i + 1);
	buf_addf(out, "%8s  %-19s  ", name, when);
	if (is_kind(n, "dropped"))
		kind = "not run";
	str_show(out, kind ? kind : "?", kind ? strnlen(kind, 12) : 1);
	jint(jget(n, "process"), &v);
	buf_addf(out, "  process %" PRId64, v);
	if (is_kind(n, "started")) {
		buf_addc(out, ':');
		log_argv(jget(n, "argv"), out);
	}
	if (is_kind(n, "dropped") && jstr(jget(n, "note"))) { /* why it never came to exist */
		buf_adds(out, ": ");
		show(out, jstr(jget(n, "note")));
	}
	if (jint(jget(jget(n, "exit"), "code"), &v))
		buf_addf(out, ": exit %" PRId64, v);
	if (jint(jget(n, "denials"), &v) && v > 0)
		buf_addf(out, "  [%" PRId64 " denied]", v);
	buf_addc(out, '\n');
}

static void log_text(const struct ledger_entry *x, struct buf *out)
{
	const struct jnode *entries =
		x->kind == EVENT_SESSION ? jget(x->predicate, "entries") : NULL;
	const struct jnode *denials = jget(x->predicate, "denials");
	char when[20];

	short_time(x->time, when);
	buf_addf(out, "%4" PRIu64 "  %s  ", x->seq, when);
	str_show(out, x->kind_text, strnlen(x->kind_text, 12));
	for (size_t n = strlen(x->kind_text); n < 12; n++)
		buf_addc(out, ' ');
	show(out, title_of(x));
	if (jlen(denials))
		buf_addf(out, "  [%zu denied]", jlen(denials));
	buf_addc(out, '\n');
	for (size_t i = 0; i < jlen(entries); i++)
		log_entry(x, i, jat(entries, i), out);
}

static void log_entry_json(const struct jnode *n, size_t i, struct json *j)
{
	static const char *const texts[] = {"kind", "run", "time", "result"};
	const struct jnode *argv = jget(n, "argv");
	int64_t v;

	json_object(j, NULL);
	json_uint(j, "entry", i + 1);
	for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
		if (jstr(jget(n, texts[k])))
			json_str(j, texts[k], jstr(jget(n, texts[k])));
	if (jint(jget(n, "process"), &v))
		json_int(j, "process", v);
	if (jint(jget(jget(n, "exit"), "code"), &v))
		json_int(j, "exit", v);
	if (jint(jget(n, "denials"), &v))
		json_int(j, "denials", v);
	if (argv) {
		json_array(j, "command");
		for (size_t k = 0; k < jlen(argv); k++)
			json_str(j, NULL, jstr(jat(argv, k)));
		json_end(j);
	}
	json_end(j);
}

static void log_entries_json(const struct ledger_entry *x, struct json *j)
{
	const struct jnode *entries = jget(x->predicate, "entries");

	if (x->kind != EVENT_SESSION)
		return;
	json_str(j, "session", jstr(jget(x->predicate, "session")));
	json_array(j, "entries");
	for (size_t i = 0; i < jlen(entries); i++)
		log_entry_json(jat(entries, i), i, j);
	json_end(j);
}

static void log_json(const struct ledger_entry *x, struct json *j)
{
	const char *result = jstr(jget(x->predicate, "result"));
	const char *run = jstr(jget(entry_croft(x), "run"));
	int64_t code;

	json_object(j, NULL);
	json_uint(j, "event", x->seq);
	json_str(j, "kind", x->kind_text);
	json_str(j, "time", x->time);
	json_str(j, "title", title_of(x));
	json_str(j, "commit", oid_hex(&x->commit).s);
	json_str(j, "envelope", x->envelope.hex);
	json_str(j, "predicate_type", x->predicate_type);
	if (run)
		json_str(j, "run", run);
	if (jint(jget(jget(x->predicate, "exit"), "code"), &code))
		json_int(j, "exit", code);
	if (result)
		json_str(j, "result", result);
	json_uint(j, "denials", jlen(jget(x->predicate, "denials")));
	log_entries_json(x, j);
	json_end(j);
}

static int log_one(
	struct view *w, size_t i, bool as_json, struct json *j, struct buf *out, struct err *e)
{
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	int r = entry_load(&w->source, &w->commits[i], &raw, &x, e);

	if (r < 0 && !entry_flaw(r))
		return r;
	if (r < 0) {
		/* One that cannot be read does not hide the others. */
		if (as_json) {
			json_object(j, NULL);
			json_uint(j, "event", i + 1);
			json_str(j, "unreadable", e->msg);
			json_end(j);
		} else {
			buf_addf(out, "%4zu  UNREADABLE: ", i + 1);
			show(out, e->msg);
			buf_addc(out, '\n');
		}
		*e = ERR_INIT;
		return 0;
	}
	if (as_json)
		log_json(&x, j);
	else
		log_text(&x, out);
	return 0;
}

int evidence_log(struct evidence *v, size_t n, bool as_json, struct buf *out, struct err *e)
{
	cleanup_view struct view w = {.source = {.objects_fd = -1}};
	struct json j;
	int r = view_open(&w, v, e);

	if (r < 0)
		return r;
	json_init(&j, out, true);
	if (as_json) {
		json_object(&j, NULL);
		json_str(&j, "schema", "croft.log/v1");
		json_str(&j, "id", v->ledgers[0].id);
		json_array(&j, "events");
	}
	for (size_t i = n && n < w.n ? w.n - n : 0; i < w.n && r == 0; i++)
		r = log_one(&w, i, as_json, &j, out, e);
	if (as_json && r == 0) {
		json_end(&j);
		json_end(&j);
		buf_addc(out, '\n');
	}
	return r;
}

/* ------------------------------------------------------------------ show */

static void indent(struct buf *out, int depth)
{
	for (int i = 0; i < depth; i++)
		buf_adds(out, "  ");
}

/* A value for people: one line each, names before values. */
static void show_value(const struct jnode *n, int depth, struct buf *out)
{
	size_t len = jlen(n);
	int64_t v;

	switch (jtype(n)) {
	case JSTRING:
		buf_addc(out, ' ');
		show(out, jstr(n));
		break;
	case JBOOL:
		buf_adds(out, jtrue(n) ? " yes" : " no");
		break;
	case JNUMBER:
		if (jint(n, &v))
			buf_addf(out, " %" PRId64, v);
		else
			buf_adds(out, " (a fraction)");
		break;
	case JARRAY:
	case JOBJECT:
		if (len == 0)
			buf_adds(out, " none");
		buf_addc(out, '\n');
		for (size_t i = 0; i < len && i < SHOW_ITEMS_MAX && depth < SHOW_DEPTH_MAX; i++) {
			indent(out, depth);
			if (jtype(n) == JOBJECT)
				show(out, jkey(n, i));
			buf_adds(out, jtype(n) == JOBJECT ? ":" : "-");
			show_value(jat(n, i), depth + 1, out);
		}
		if (len > SHOW_ITEMS_MAX || depth >= SHOW_DEPTH_MAX) {
			indent(out, depth);
			buf_addf(out, "… (%zu in all; --json has them)\n", len);
		}
		return;
	case JNULL:
	default:
		buf_adds(out, " -");
		break;
	}
	buf_addc(out, '\n');
}

static void show_text(const struct ledger_entry *x, struct buf *out)
{
	buf_addf(out, "event %" PRIu64 ": ", x->seq);
	show(out, x->kind_text);
	buf_adds(out, ", ");
	show(out, x->time);
	buf_adds(out, "\n  ");
	show(out, title_of(x));
	buf_adds(out, "\n  environment ");
	show(out, x->env_name);
	buf_addf(out, " (%s)\n  commit      %s\n  envelope    %s\n  key         ", x->env_id,
		oid_hex(&x->commit).s, x->envelope.hex);
	show(out, x->key_id);
	buf_adds(out, "\n  predicate   ");
	show(out, x->predicate_type);
	buf_adds(out, "\n  subjects:");
	show_value(jget(x->statement, "subject"), 2, out);
	for (size_t i = 0; i < jlen(x->predicate); i++) {
		if (str_eq(jkey(x->predicate, i), "croft"))
			continue;
		buf_adds(out, "  ");
		show(out, jkey(x->predicate, i));
		buf_addc(out, ':');
		show_value(jat(x->predicate, i), 2, out);
	}
	buf_addc(out, '\n');
}

/* The statement is JSON already, and strictly so, or it would not have been read. */
static void show_json(
	const struct ledger_entry *x, const struct entry_raw *raw, bool first, struct buf *out)
{
	buf_addf(out,
		"%s\n{\"event\":%" PRIu64 ",\"commit\":\"%s\",\"envelope\":\"%s\",\"statement\":",
		first ? "" : ",", x->seq, oid_hex(&x->commit).s, x->envelope.hex);
	buf_add(out, raw->dsse.payload.data, raw->dsse.payload.len);
	buf_addc(out, '}');
}

/* One entry of a session's event. */
static void show_entry(
	const struct ledger_entry *x, uint64_t no, const struct jnode *n, struct buf *out)
{
	buf_addf(out, "entry %" PRIu64 ".%" PRIu64 " of session ", x->seq, no);
	show(out, jstr(jget(x->predicate, "session")) ? jstr(jget(x->predicate, "session")) : "?");
	buf_addf(out, "\n  commit      %s\n  envelope    %s\n", oid_hex(&x->commit).s,
		x->envelope.hex);
	for (size_t i = 0; i < jlen(n); i++) {
		buf_adds(out, "  ");
		show(out, jkey(n, i));
		buf_addc(out, ':');
		show_value(jat(n, i), 2, out);
	}
	buf_adds(out, "Shown as recorded, not verified: croft evidence verify does that.\n");
}

/* A value as it is, written anew. */
static void copy_json(struct json *j, const char *key, const struct jnode *n, int depth)
{
	int64_t v;

	if (jtype(n) == JSTRING) {
		json_str(j, key, jstr(n));
	} else if (jtype(n) == JBOOL) {
		json_bool(j, key, jtrue(n));
	} else if (jint(n, &v)) {
		json_int(j, key, v);
	} else if ((jtype(n) == JARRAY || jtype(n) == JOBJECT) && depth < SHOW_DEPTH_MAX) {
		if (jtype(n) == JARRAY)
			json_array(j, key);
		else
			json_object(j, key);
		for (size_t i = 0; i < jlen(n); i++)
			copy_json(j, jtype(n) == JARRAY ? NULL : jkey(n, i), jat(n, i), depth + 1);
		json_end(j);
	} else {
		json_null(j, key);
	}
}

static void show_entry_json(
	const struct ledger_entry *x, uint64_t no, const struct jnode *n, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_str(&j, "schema", "croft.entry/v1");
	json_uint(&j, "event", x->seq);
	json_uint(&j, "entry", no);
	json_str(&j, "commit", oid_hex(&x->commit).s);
	json_str(&j, "envelope", x->envelope.hex);
	json_str(&j, "session", jstr(jget(x->predicate, "session")));
	copy_json(&j, "record", n, 0);
	json_end(&j);
	buf_addc(out, '\n');
}

int evidence_show_entry(struct evidence *v, uint64_t event, uint64_t entry, bool as_json,
	struct buf *out, struct err *e)
{
	cleanup_view struct view w = {.source = {.objects_fd = -1}};
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	const struct jnode *list;
	int r = view_open(&w, v, e);

	if (r < 0)
		return r;
	if (!event || event > w.n)
		return err_invalid(
			e, "there is no event %" PRIu64 "; this ledger has %zu", event, w.n);
	r = entry_load(&w.source, &w.commits[event - 1], &raw, &x, e);
	if (r < 0)
		return err_wrap(e, "event %" PRIu64, event);
	list = x.kind == EVENT_SESSION ? jget(x.predicate, "entries") : NULL;
	if (!entry || entry > jlen(list))
		return err_invalid(e, "event %" PRIu64 " has %zu entries", event, jlen(list));
	(as_json ? show_entry_json : show_entry)(&x, entry, jat(list, (size_t)entry - 1), out);
	return 0;
}

int evidence_show(struct evidence *v, uint64_t event, bool as_json, struct buf *out, struct err *e)
{
	cleanup_view struct view w = {.source = {.objects_fd = -1}};
	size_t from, to;
	int r = view_open(&w, v, e);

	if (r < 0)
		return r;
	if (event > w.n)
		return err_invalid(
			e, "there is no event %" PRIu64 "; this ledger has %zu", event, w.n);
	from = event ? (size_t)event - 1 : 0;
	to = event ? (size_t)event : w.n;
	if (as_json)
		buf_addf(out, "{\"schema\":\"croft.events/v1\",\"id\":\"%s\",\"events\":[",
			v->ledgers[0].id);
	for (size_t i = from; i < to; i++) {
		cleanup_entry_raw struct entry_raw raw = {0};
		cleanup_entry struct ledger_entry x = {0};

		r = entry_load(&w.source, &w.commits[i], &raw, &x, e);
		if (r < 0)
			return err_wrap(
				e, "event %zu (commit %.12s)", i + 1, oid_hex(&w.commits[i]).s);
		if (as_json)
			show_json(&x, &raw, i == from, out);
		else
			show_text(&x, out);
	}
	buf_adds(out,
		as_json ? "\n]}\n"
			: "Shown as recorded, not verified: croft evidence verify does that.\n");
	return 0;
}
