/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading events: see ledger.h and entry.h.
 *
 * Trust:  none. Every object has a maximum, every document is parsed strictly, and nothing that an
 *         entry says of itself is believed here; verify.c judges.
 * Form:   what an entry must have to be called one: a statement of croft's with schema, env, name, seq,
 *         kind and time. What lacks them, or has a schema of another version, is refused.
 */
#include "ledger/chain/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/loose.h"

#define WALK_FIRST 64u

/* ------------------------------------------------------------------ objects */

int entry_source_open(struct entry_source *ret, const struct repo *r, struct err *e)
{
	const char *dir = repo_ledger_dir(r);
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/objects", dir);

	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, ENAMETOOLONG, "the directory of evidence");
	*ret = (struct entry_source){.hash = r->hash, .git_dir = r->store};
	ret->objects_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

void entry_source_done(struct entry_source *s)
{
	close_fd(&s->objects_fd);
	if (s->git_dir)
		git_reader_closep(&s->git);
	s->git = NULL;
}

int entry_object(struct entry_source *s, const struct oid *o, enum git_type want, struct buf *ret,
	struct err *e)
{
	int r = loose_read(s->objects_fd, s->hash, o, want, ret);

	if (r == -EFBIG)
		return err_set(e, EFBIG, "read Git object %s", oid_hex(o).s);
	if (r == -EBADMSG)
		return err_set(e, EBADMSG, "Git object %s is damaged", oid_hex(o).s);
	if (r == 0)
		return 0;
	if (!s->git) {
		r = git_reader_open(&s->git, s->git_dir, e);
		/* No git is not the same as no object. */
		if (r == -ENOENT)
			e->errnum = ENOTSUP;
		if (r < 0)
			return -e->errnum;
	}
	return git_read_oid(s->git, o, want, ret, e);
}

bool entry_flaw(int r)
{
	return r == -ENOENT || r == -EBADMSG || r == -EFBIG || r == -EINVAL || r == -EIO;
}

/* ------------------------------------------------------------------ commits */

static int read_parents(struct entry_source *s, const struct oid *commit, struct oid *ret_parent,
	int *ret_parents_n, struct err *e)
{
	cleanup_buf struct buf raw = BUF_INIT(LEDGER_COMMIT_MAX_B);
	struct commit_info c;
	int r = entry_object(s, commit, GIT_COMMIT, &raw, e);

	if (r < 0)
		return r;
	r = git_commit_parse(buf_str(&raw), raw.len, s->hash, &c, e);
	if (r < 0)
		return r;
	*ret_parents_n = c.parents_n;
	*ret_parent = c.parents_n ? c.parents[0] : (struct oid){0};
	commit_info_done(&c);
	return 0;
}

static int grow(struct oid **v, size_t n, size_t *cap, struct err *e)
{
	size_t want = *cap ? *cap * 2 : WALK_FIRST;
	struct oid *more;

	if (n < *cap)
		return 0;
	if (n >= LEDGER_EVENTS_MAX)
		return err_set(e, EFBIG, "a ledger has at most %u events", LEDGER_EVENTS_MAX);
	more = reallocarray(*v, want, sizeof(**v));
	if (!more)
		return err_set(e, ENOMEM, "read the ledger");
	*v = more;
	*cap = want;
	return 0;
}

static void reverse(struct oid *v, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		struct oid t = v[i];

		v[i] = v[n - 1 - i];
		v[n - 1 - i] = t;
	}
}

int entry_walk(struct entry_source *s, const struct oid *tip, struct oid **ret, size_t *ret_n,
	struct oid *ret_at, struct err *e)
{
	cleanup_free struct oid *v = NULL;
	struct oid at = *tip;
	size_t n = 0, cap = 0;
	int r = 0, parents;

	while (!oid_is_none(&at)) {
		struct oid parent = {0};

		r = read_parents(s, &at, &parent, &parents, e);
		if (r == 0)
			r = grow(&v, n, &cap, e);
		if (r < 0)
			break;
		v[n++] = at;
		at = parent;
	}
	*ret_at = at;
	reverse(v, n);
	*ret = take_ptr(v);
	*ret_n = n;
	return r;
}

int ledger_commits(
	const struct repo *r, const struct oid *tip, struct oid **ret, size_t *ret_n, struct err *e)
{
	cleanup_entry_source struct entry_source s = {.objects_fd = -1};
	struct oid *v = NULL, at;
	size_t n = 0;
	int x = entry_source_open(&s, r, e);

	if (x == 0)
		x = entry_walk(&s, tip, &v, &n, &at, e);
	if (x < 0) {
		free(v);
		return err_wrap(e, "read the ledger");
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

/* ------------------------------------------------------------------ one event */

void entry_raw_done(struct entry_raw *x)
{
	buf_done(&x->commit);
	buf_done(&x->tree);
	buf_done(&x->envelope);
	dsse_done(&x->dsse);
}

void ledger_entry_done(struct ledger_entry *x)
{
	jdoc_free(x->doc);
	free(x->own);
	*x = (struct ledger_entry){0};
}

const struct jnode *entry_croft(const struct ledger_entry *x)
{
	return jget(x->predicate, "croft");
}

static int find_blob(
	const struct buf *tree, enum git_hash h, const char *name, struct oid *ret, struct err *e)
{
	struct tree_entry t;
	size_t at = 0;
	int r;

	while ((r = git_tree_next(buf_str(tree), tree->len, h, &at, &t)) > 0)
		if (t.name_n == strlen(name) && memcmp(t.name, name, t.name_n) == 0) {
			*ret = t.oid;
			return 0;
		}
	if (r < 0)
		return err_set(e, EBADMSG, "the tree of the event is damaged");
	return err_set(e, ENOENT, "the event has no file %s", name);
}

static int load_objects(struct entry_source *s, const struct oid *commit, struct entry_raw *raw,
	struct ledger_entry *x, struct err *e)
{
	struct commit_info c;
	int r = entry_object(s, commit, GIT_COMMIT, &raw->commit, e);

	if (r < 0)
		return r;
	r = git_commit_parse(buf_str(&raw->commit), raw->commit.len, s->hash, &c, e);
	if (r < 0)
		return r;
	x->commit = *commit;
	x->tree = c.tree;
	raw->parents_n = c.parents_n;
	raw->parent = c.parents_n ? c.parents[0] : (struct oid){0};
	commit_info_done(&c);
	r = entry_object(s, &x->tree, GIT_TREE, &raw->tree, e);
	if (r == 0)
		r = find_blob(&raw->tree, s->hash, LEDGER_STATEMENT, &raw->statement, e);
	if (r == 0)
		r = entry_object(s, &raw->statement, GIT_BLOB, &raw->envelope, e);
	return r;
}

static enum event_kind kind_of(const char *text)
{
	for (size_t i = 0; i < EVENT_NUM; i++)
		if (str_eq(text, event_names[i]))
			return (enum event_kind)i;
	return EVENT_NUM;
}

static int check_schema(const char *schema, int *ret, struct err *e)
{
	cleanup_buf struct buf shown = BUF_INIT(512);

	if (!schema)
		return err_invalid(e, "its statement is not one of croft's");
	*ret = str_eq(schema, LEDGER_SCHEMA) ? 1 : 2;
	if (str_eq(schema, LEDGER_SCHEMA) || str_eq(schema, LEDGER_SCHEMA_2))
		return 0;
	str_show(&shown, schema, strnlen(schema, 40));
	if (str_starts(schema, LEDGER_SCHEMA_PREFIX))
		return err_invalid(e,
			"it has the schema %s, of another version of croft; this one "
			"knows " LEDGER_SCHEMA " and " LEDGER_SCHEMA_2 ": use the newer croft",
			buf_str(&shown));
	return err_invalid(e, "it has the schema %s, which is none of croft's", buf_str(&shown));
}

/* The members every event has; strings stay the document's. */
static int fill(struct ledger_entry *x, struct err *e)
{
	const struct jnode *root = jdoc_root(x->doc), *c;
	const char *type = jstr(jget(root, "_type"));
	struct timespec t;
	int64_t seq = 0;
	int r;

	x->statement = root;
	x->predicate = jget(root, "predicate");
	x->predicate_type = jstr(jget(root, "predicateType"));
	c = entry_croft(x);
	if (!type || !str_eq(type, STATEMENT_TYPE) || !x->predicate_type)
		return err_invalid(e, "its payload is not an in-toto statement, v1");
	r = check_schema(jstr(jget(c, "schema")), &x->schema, e);
	if (r < 0)
		return r;
	x->env_id = jstr(jget(c, "env"));
	x->env_name = jstr(jget(c, "name"));
	x->kind_text = jstr(jget(c, "kind"));
	x->time = jstr(jget(c, "time"));
	x->previous = jstr(jget(c, "previous"));
	if (!x->env_id || !ledger_id_valid(x->env_id) || !x->env_name ||
		strlen(x->env_name) > LEDGER_NAME_MAX || !x->kind_text)
		return err_invalid(e, "its statement lacks env, name or kind");
	if (!x->time || !ledger_time_parse(x->time, &t))
		return err_invalid(e, "its time is not of the form 2026-01-02T03:04:05.123456Z");
	if (!jint(jget(c, "seq"), &seq) || seq < 1)
		return err_invalid(e, "its statement has no number");
	if (!x->previous && (!jget(c, "previous") || jtype(jget(c, "previous")) != JNULL))
		return err_invalid(e, "its statement does not say what was before");
	x->seq = (uint64_t)seq;
	x->kind = kind_of(x->kind_text);
	return 0;
}

static int load(struct entry_source *s, const struct oid *commit, struct entry_raw *raw,
	struct ledger_entry *x, struct err *e)
{
	int r = load_objects(s, commit, raw, x, e);

	if (r < 0)
		return r;
	digest_sha256(&x->envelope, buf_str(&raw->envelope), raw->envelope.len);
	r = dsse_parse(&raw->dsse, buf_str(&raw->envelope), raw->envelope.len, e);
	if (r < 0)
		return r;
	if (!str_eq(raw->dsse.type, DSSE_INTOTO))
		return err_invalid(e, "its payload is not an in-toto statement");
	x->own = strdup(raw->dsse.signatures[0].keyid);
	if (!x->own)
		return err_set(e, ENOMEM, "read an event");
	x->key_id = x->own;
	r = jdoc_parse(&x->doc, buf_str(&raw->dsse.payload), raw->dsse.payload.len, e);
	return r < 0 ? err_wrap(e, "its statement cannot be read") : fill(x, e);
}

int entry_load(struct entry_source *s, const struct oid *commit, struct entry_raw *ret_raw,
	struct ledger_entry *ret, struct err *e)
{
	struct entry_raw raw = {.commit = BUF_INIT(LEDGER_COMMIT_MAX_B),
		.tree = BUF_INIT(LEDGER_TREE_MAX_B),
		.envelope = BUF_INIT(DSSE_ENVELOPE_MAX_B)};
	struct ledger_entry x = {0};
	int r = load(s, commit, &raw, &x, e);

	if (r < 0) {
		entry_raw_done(&raw);
		ledger_entry_done(&x);
		return r;
	}
	*ret_raw = raw;
	*ret = x;
	return 0;
}

int ledger_read(struct git_reader *g, enum git_hash h, const struct oid *commit,
	struct ledger_entry *ret, struct err *e)
{
	struct entry_source s = {.hash = h, .objects_fd = -1, .git = g};
	cleanup_entry_raw struct entry_raw raw = {0};
	int r = entry_load(&s, commit, &raw, ret, e);

	return r < 0 ? err_wrap(e, "event in commit %.12s", oid_hex(commit).s) : 0;
}

int ledger_read_file(struct git_reader *g, enum git_hash h, const struct ledger_entry *x,
	const char *name, struct buf *ret, struct err *e)
{
	struct entry_source s = {.hash = h, .objects_fd = -1, .git = g};
	cleanup_buf struct buf tree = BUF_INIT(LEDGER_TREE_MAX_B);
	struct oid blob;
	int r = entry_object(&s, &x->tree, GIT_TREE, &tree, e);

	if (r == 0)
		r = find_blob(&tree, h, name, &blob, e);
	return r < 0 ? r : entry_object(&s, &blob, GIT_BLOB, ret, e);
}
