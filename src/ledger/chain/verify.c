/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging a ledger: see ledger.h.
 *
 * Trust:  nothing but the key that the caller gives; without one, the first event says whose ledger it
 *         is, and the verdict names that key.
 * Order:  from the first event on, so that the first bad one is the one that is named. For each: form,
 *         key, signature, then what was signed: place in the chain, time, environment, files. In the
 *         end tree and commit are made again from it; they must be the very objects that were found,
 *         so that nothing beside what was signed can hide in them: no other file, parent, date or
 *         message.
 * Limits: one event in memory at a time; everything read has a maximum.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/entry.h"
#include "ledger/chain/ledger.h"
#include "ledger/chain/statement.h"

const char ledger_limits[] =
	"What signatures do not prove:\n"
	"  - when it happened: times are this machine's clock, and only their order is checked;\n"
	"  - that these are all events: who holds the ref can cut off the newest ones. Compare the "
	"last\n"
	"    event with one that was pushed, or with the Croft-Evidence trailer of a landed "
	"commit;\n"
	"  - who holds the key: somebody with the user's rights on that machine can sign anything. "
	"Compare\n"
	"    the key with the one its owner gives you (croft evidence key);\n"
	"  - that the machine was honest: its kernel, its administrator and croft itself are "
	"believed;\n"
	"  - that nothing was refused unseen: a receipt says what its watchers could see.\n";

struct checker {
	struct entry_source source;
	const uint8_t *expected; /* or NULL */
	struct ledger_verdict *v;
	struct err *err; /* what is no verdict: no memory, no git */
	struct timespec last;
	int schema;                        /* of the event before */
	char previous[DIGEST_HEX_LEN + 1]; /* envelope before; "" before the first */
	char session[sizeof(((struct ledger_verdict *)0)->open_session)]; /* that has no end yet */
	uint64_t session_seq;
	struct oid parent;
};

__attribute__((format(printf, 2, 3))) static int bad(struct ledger_verdict *v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->why, sizeof(v->why), fmt, ap);
	va_end(ap);
	return -EBADMSG;
}

/* ------------------------------------------------------------------ key and signature */

static int first_key(struct checker *c, const struct ledger_entry *x)
{
	const char *text = jstr(jget(entry_croft(x), "key"));
	struct ledger_verdict *v = c->v;

	if (!text || base64_decode(v->key, sizeof(v->key), text, strlen(text)) != KEY_PUBLIC_LEN) {
		memset(v->key, 0, sizeof(v->key));
		return bad(v, "it does not name the key of this ledger");
	}
	digest_sha256(&v->key_id, v->key, sizeof(v->key));
	if (c->expected && memcmp(c->expected, v->key, KEY_PUBLIC_LEN) != 0)
		return bad(v, "it is signed with the key %.16s…, not with the one that was given",
			v->key_id.hex);
	return 0;
}

static int check_signature(
	struct checker *c, const struct entry_raw *raw, const struct ledger_entry *x)
{
	cleanup_buf struct buf again = BUF_INIT(DSSE_ENVELOPE_MAX_B);
	const struct dsse_signature *s = &raw->dsse.signatures[0];
	struct ledger_verdict *v = c->v;

	if (raw->dsse.signatures_n != 1)
		return bad(v, "it has %zu signatures instead of one", raw->dsse.signatures_n);
	if (!str_eq(s->keyid, v->key_id.hex))
		return bad(v, "it is signed with another key than the first event");
	if (!dsse_check(&raw->dsse, v->key))
		return bad(v, "signature does not match");
	if (x->seq > 1 && jget(entry_croft(x), "key"))
		return bad(v, "it names a key, which only the first event does");
	dsse_write_signed(raw->dsse.type, buf_str(&raw->dsse.payload), raw->dsse.payload.len,
		s->keyid, s->sig, &again);
	if (again.failed || again.len != raw->envelope.len ||
		memcmp(again.data, raw->envelope.data, again.len) != 0)
		return bad(v, "its envelope is not written as croft writes it");
	return 0;
}

/* ------------------------------------------------------------------ place in the chain */

static int check_chain(struct checker *c, uint64_t seq, const struct ledger_entry *x)
{
	struct ledger_verdict *v = c->v;
	struct timespec t;

	if (x->seq != seq)
		return bad(v,
			"it is number %" PRIu64 " where %" PRIu64
			" should be: events were dropped, added or put in another order",
			x->seq, seq);
	if (seq == 1 ? x->previous != NULL : !x->previous || !str_eq(x->previous, c->previous))
		return bad(v, "it does not follow the event before it: that one was changed, or "
			      "this one comes from elsewhere");
	if (seq == 1 ? x->kind != EVENT_CREATED && x->kind != EVENT_FORKED
		     : x->kind == EVENT_CREATED)
		return bad(v, "a ledger begins with \"created\" or \"forked\", and \"created\" is "
			      "nowhere else");
	if (seq > 1 && !str_eq(x->env_id, v->env_id))
		return bad(v, "it belongs to another environment (%s)", x->env_id);
	if (!ledger_time_parse(x->time, &t))
		return bad(v, "its time cannot be read");
	if (t.tv_sec < c->last.tv_sec ||
		(t.tv_sec == c->last.tv_sec && t.tv_nsec < c->last.tv_nsec))
		return bad(v, "its time (%s) is before that of the event before it", x->time);
	c->last = t;
	/* Or an older croft could be made to pass over what it does not know. */
	if (x->schema != statement_schema(x->kind, c->schema))
		return bad(v, "its schema is not the one that an event of this kind has here");
	c->schema = x->schema;
	return 0;
}

/* ------------------------------------------------------------------ sessions */

static void leave_open(struct checker *c)
{
	if (!c->session[0] || c->v->open_session[0])
		return;
	memcpy(c->v->open_session, c->session, sizeof(c->session));
	c->v->open_seq = c->session_seq;
}

/* Which one began and which one ended; an environment has one at a time. */
static int check_session(struct checker *c, const struct ledger_entry *x)
{
	const char *id = jstr(jget(x->predicate, "session"));
	bool begins = jget(x->predicate, "begin") != NULL;

	if (x->kind != EVENT_SESSION)
		return 0;
	if (!id || !str_hex(id, 1, sizeof(c->session) - 1))
		return bad(c->v, "it does not say which session it is of");
	if (begins) {
		leave_open(c);
		snprintf(c->session, sizeof(c->session), "%s", id);
		c->session_seq = x->seq;
	} else if (!str_eq(c->session, id)) {
		return bad(c->v, "it goes on with a session that did not begin, or has ended");
	}
	if (jget(x->predicate, "end"))
		c->session[0] = '\0';
	return 0;
}

/* ------------------------------------------------------------------ files */

/* Names from a file or a sandbox go into a sentence for people. */
static int bad_file(struct ledger_verdict *v, const char *name, size_t n, const char *what)
{
	cleanup_buf struct buf shown = BUF_INIT(1024);

	str_show(&shown, name, MIN_OF(n, (size_t)64));
	return bad(v, "file %s %s", buf_str(&shown), what);
}

/* The one SHA-256 among the subjects for this name, or NULL. */
static const char *subject_of(const struct ledger_entry *x, const char *name)
{
	const struct jnode *subjects = jget(x->statement, "subject");
	const char *found = NULL;

	for (size_t i = 0; i < jlen(subjects); i++) {
		const struct jnode *s = jat(subjects, i);
		const char *is = jstr(jget(s, "name"));

		if (!is || !str_eq(is, name))
			continue;
		if (found)
			return NULL;
		found = jstr(jget(jget(s, "digest"), "sha256"));
		if (!found)
			return NULL;
	}
	return found;
}

static bool named(const struct jnode *files, const char *name, size_t n)
{
	for (size_t i = 0; i < jlen(files); i++) {
		const char *f = jstr(jat(files, i));

		if (f && strlen(f) == n && memcmp(f, name, n) == 0)
			return true;
	}
	return false;
}

/* What the tree has and the statement does not speak of. */
static int check_foreign(struct checker *c, const struct entry_raw *raw, const struct jnode *files)
{
	struct tree_entry t;
	size_t at = 0;
	int r;

	while ((r = git_tree_next(buf_str(&raw->tree), raw->tree.len, c->source.hash, &at, &t)) >
		0) {
		if (t.name_n == strlen(LEDGER_STATEMENT) &&
			memcmp(t.name, LEDGER_STATEMENT, t.name_n) == 0)
			continue;
		if (!named(files, t.name, t.name_n))
			return bad_file(c->v, t.name, t.name_n, "is there and was not signed");
	}
	return r < 0 ? bad(c->v, "its tree is damaged") : 0;
}

static bool tree_find(const struct checker *c, const struct entry_raw *raw, const char *name,
	struct tree_entry *ret)
{
	size_t at = 0;

	while (git_tree_next(buf_str(&raw->tree), raw->tree.len, c->source.hash, &at, ret) > 0)
		if (ret->name_n == strlen(name) && memcmp(ret->name, name, ret->name_n) == 0)
			return true;
	return false;
}

static int check_file(struct checker *c, const struct entry_raw *raw, const struct ledger_entry *x,
	const char *name, struct ledger_blob *ret)
{
	cleanup_buf struct buf content = BUF_INIT(LEDGER_FILE_MAX_B);
	const char *want = subject_of(x, name);
	struct err e = ERR_INIT;
	struct tree_entry t;
	struct digest is;
	int r;

	if (!ledger_file_name_valid(name))
		return bad_file(c->v, name, strlen(name), "has a name that croft does not give");
	if (!want)
		return bad_file(c->v, name, strlen(name), "has no digest, or more than one");
	if (!tree_find(c, raw, name, &t))
		return bad_file(c->v, name, strlen(name), "is missing");
	r = entry_object(&c->source, &t.oid, GIT_BLOB, &content, &e);
	if (r < 0 && !entry_flaw(r)) {
		*c->err = e;
		return r;
	}
	if (r < 0)
		return bad_file(c->v, name, strlen(name),
			r == -ENOENT ? "is missing: Git has not got it" : "is damaged");
	digest_sha256(&is, buf_str(&content), content.len);
	if (!str_eq(is.hex, want))
		return bad_file(c->v, name, strlen(name), "is not the one that was signed");
	ret->name = name;
	oid_of(&ret->oid, c->source.hash, GIT_BLOB, buf_str(&content), content.len);
	return 0;
}

/* ------------------------------------------------------------------ tree and commit */

static int check_commit(struct checker *c, const struct entry_raw *raw,
	const struct ledger_entry *x, const struct oid *tree)
{
	cleanup_buf struct buf again = BUF_INIT(LEDGER_COMMIT_MAX_B);
	const char *title = jstr(jget(entry_croft(x), "title"));
	struct oid is;

	if (raw->parents_n > 1)
		return bad(c->v, "its commit has %d parents", raw->parents_n);
	if (!oid_eq(&raw->parent, &c->parent) &&
		!(oid_is_none(&raw->parent) && oid_is_none(&c->parent)))
		return bad(c->v, "its commit does not follow the one before it");
	if (!title || strlen(title) > LEDGER_TITLE_MAX || strchr(title, '\n'))
		return bad(c->v, "it has no title");
	ledger_commit_text(tree, &c->parent, c->last.tv_sec, title, &again);
	if (again.failed || again.len != raw->commit.len ||
		memcmp(again.data, raw->commit.data, again.len) != 0)
		return bad(c->v,
			"its commit (date, author or message) is not the one that croft wrote");
	oid_of(&is, c->source.hash, GIT_COMMIT, again.data, again.len);
	return oid_eq(&is, &x->commit) ? 0 : bad(c->v, "its commit is stored under a wrong name");
}

static int check_objects(
	struct checker *c, const struct entry_raw *raw, const struct ledger_entry *x)
{
	const struct jnode *files = jget(entry_croft(x), "files");
	cleanup_buf struct buf again = BUF_INIT(LEDGER_TREE_MAX_B);
	struct ledger_blob v[LEDGER_FILES_MAX + 1];
	struct oid tree;
	size_t n;
	int r;

	if (jtype(files) != JARRAY || jlen(files) > LEDGER_FILES_MAX)
		return bad(c->v, "it does not say which files it has");
	for (n = 0; n < jlen(files); n++) {
		const char *name = jstr(jat(files, n));

		r = name ? check_file(c, raw, x, name, &v[n])
			 : bad(c->v, "one of its files has no name");
		if (r < 0)
			return r;
	}
	r = check_foreign(c, raw, files);
	if (r < 0)
		return r;
	v[n].name = LEDGER_STATEMENT;
	oid_of(&v[n].oid, c->source.hash, GIT_BLOB, buf_str(&raw->envelope), raw->envelope.len);
	ledger_tree_text(v, n + 1, &again);
	if (again.failed || again.len != raw->tree.len ||
		memcmp(again.data, raw->tree.data, again.len) != 0)
		return bad(c->v, "its tree is not the one that croft wrote");
	oid_of(&tree, c->source.hash, GIT_TREE, again.data, again.len);
	return check_commit(c, raw, x, &tree);
}

void ledger_say_open(const struct ledger_verdict *v, struct buf *out)
{
	if (v->open_session[0])
		buf_addf(out,
			"session %s, which began in event %" PRIu64
			", has no end: it still runs, or it was interrupted and its last records "
			"are "
			"missing",
			v->open_session, v->open_seq);
}

/* ------------------------------------------------------------------ all of it */

static int check_one(struct checker *c, uint64_t seq, const struct oid *commit)
{
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	struct ledger_verdict *v = c->v;
	struct err e = ERR_INIT;
	int r = entry_load(&c->source, commit, &raw, &x, &e);

	if (r < 0 && !entry_flaw(r)) {
		*c->err = e;
		return r;
	}
	if (r < 0)
		return bad(v, "%.480s", e.msg);
	if (seq == 1) {
		snprintf(v->env_id, sizeof(v->env_id), "%s", x.env_id);
		snprintf(v->env_name, sizeof(v->env_name), "%s", x.env_name);
		r = x.seq == 1 ? first_key(c, &x) : check_chain(c, seq, &x);
	}
	if (r == 0)
		r = check_signature(c, &raw, &x);
	if (r == 0)
		r = check_chain(c, seq, &x);
	if (r == 0)
		r = check_session(c, &x);
	if (r == 0)
		r = check_objects(c, &raw, &x);
	if (r < 0)
		return r;
	memcpy(c->previous, x.envelope.hex, sizeof(c->previous));
	c->parent = *commit;
	v->tip = x.envelope;
	v->events = seq;
	return 0;
}

/* The history ends before the first event, or at the newest. Nothing can be said but where. */
static void broken(
	struct checker *c, const struct oid *oldest, const struct oid *at, const struct err *why)
{
	cleanup_entry_raw struct entry_raw raw = {0};
	cleanup_entry struct ledger_entry x = {0};
	struct err e = ERR_INIT;

	if (oldest && entry_load(&c->source, oldest, &raw, &x, &e) == 0)
		c->v->bad_seq = MAX_OF(x.seq, 2u) - 1;
	c->v->bad_commit = *at;
	if (why->errnum == ENOENT)
		bad(c->v, "it is missing: the history was cut off, or this is a shallow clone");
	else
		bad(c->v, "%.480s", why->msg);
}

static int check_all(struct checker *c, const struct oid *v, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		r = check_one(c, i + 1, &v[i]);
		if (r == -EBADMSG) {
			c->v->bad_seq = i + 1;
			c->v->bad_commit = v[i];
		}
	}
	leave_open(c);
	c->v->good = r == 0 && n > 0;
	return r == -EBADMSG ? 0 : r;
}

int ledger_verify(const struct repo *r, const struct oid *tip, const uint8_t *key,
	struct ledger_verdict *ret, struct err *e)
{
	struct checker c = {.source = {.objects_fd = -1}, .expected = key, .v = ret, .err = e};
	cleanup_free struct oid *v = NULL;
	struct oid at = {0};
	size_t n = 0;
	int x = entry_source_open(&c.source, r, e);

	*ret = (struct ledger_verdict){0};
	if (x == 0)
		x = entry_walk(&c.source, tip, &v, &n, &at, e);
	if (x == 0) {
		x = check_all(&c, v, n);
	} else if (entry_flaw(x) && (n > 0 || x != -ENOENT)) {
		broken(&c, n ? &v[0] : NULL, &at, e);
		*e = ERR_INIT;
		x = 0;
	}
	entry_source_done(&c.source);
	return x < 0 ? err_wrap(e, "read the ledger") : 0;
}
