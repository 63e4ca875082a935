/* SPDX-License-Identifier: Apache-2.0 */
/* What the ledgers of a repository say was landed: see gate.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "evidence/gate.h"
#include "git/read.h"
#include "ledger/chain/entry.h"
#include "ledger/chain/statement.h"

#define LANDED_COMMITS_MAX 10000u
#define COMMIT_MAX_B (16u << 20)

void gate_index_done(struct gate_index *x)
{
	for (size_t i = 0; i < x->envs_n; i++) {
		story_done(&x->envs[i].story);
		free(x->envs[i].judged);
	}
	for (size_t i = 0; i < x->keys_n; i++)
		free(x->keys[i].key);
	free(x->envs);
	free(x->keys);
	*x = (struct gate_index){0};
}

int gate_index_add(struct gate_index *x, const struct gate_key *k, struct err *e)
{
	if (x->keys_n >= GATE_KEYS_MAX)
		return err_set(e, EFBIG, "more landed files than a gate can hold");
	if (x->keys_n == x->keys_cap) {
		size_t want = x->keys_cap ? x->keys_cap * 2 : 256;
		struct gate_key *more = reallocarray(x->keys, want, sizeof(*more));

		if (!more)
			return err_set(e, ENOMEM, "index the evidence");
		x->keys = more;
		x->keys_cap = want;
	}
	x->keys[x->keys_n] = *k;
	x->keys[x->keys_n].key = strdup(k->key);
	if (!x->keys[x->keys_n].key)
		return err_set(e, ENOMEM, "index the evidence");
	x->keys_n++;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct gate_key *x = a, *y = b;
	int r = strcmp(x->key, y->key);

	if (r)
		return r;
	if (x->env != y->env)
		return x->env < y->env ? -1 : 1;
	return x->landing < y->landing ? -1 : x->landing > y->landing;
}

void gate_index_sort(struct gate_index *x)
{
	if (x->keys_n)
		qsort(x->keys, x->keys_n, sizeof(*x->keys), compare);
}

const struct gate_key *gate_index_find(const struct gate_index *x, const char *key, size_t *ret_n)
{
	size_t lo = 0, hi = x->keys_n, end;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(x->keys[mid].key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (end = lo; end < x->keys_n && str_eq(x->keys[end].key, key); end++)
		;
	*ret_n = end - lo;
	return end > lo ? &x->keys[lo] : NULL;
}

void gate_file_key(struct buf *out, const char *path, const struct gate_file *f)
{
	buf_addf(out, "f%o %s %s", f->mode, f->mode ? oid_hex(&f->oid).s : "", path);
}

const struct gate_env *gate_index_env(const struct gate_index *x, const char *id)
{
	for (size_t i = 0; i < x->envs_n; i++)
		if (str_eq(x->envs[i].id, id))
			return &x->envs[i];
	return NULL;
}

/* ------------------------------------------------------------------ making it */

struct adding {
	struct gate_index *x;
	uint32_t env, landing;
	struct err *e;
};

static int add_file(struct adding *a, const char *path, const struct gate_file *new,
	const struct gate_file *old)
{
	cleanup_buf struct buf key = BUF_INIT(GATE_KEY_MAX_B);
	struct gate_key k = {.env = a->env, .landing = a->landing, .old_known = old != NULL};

	gate_file_key(&key, path, new);
	k.key = key.data;
	if (old)
		k.old = *old;
	return key.failed ? 0 : gate_index_add(a->x, &k, a->e);
}

static bool fill_file(struct gate_file *ret, unsigned mode, const char *blob)
{
	ret->mode = mode;
	return !mode || (blob && oid_parse(&ret->oid, blob, strlen(blob)));
}

static int add_landed(void *arg, const struct story_path *p)
{
	struct gate_file new = {0}, old = {0};

	if (!fill_file(&new, p->mode, p->blob) || !fill_file(&old, p->old_mode, p->old_blob))
		return 0;
	return add_file(arg, p->path, &new, p->old_known ? &old : NULL);
}

static int add_key(struct adding *a, const char *letter, const char *value)
{
	cleanup_buf struct buf b = BUF_INIT(256);
	struct gate_key k = {.env = a->env, .landing = a->landing};

	if (!value || !*value)
		return 0;
	buf_addf(&b, "%s%.160s", letter, value);
	k.key = b.data;
	return gate_index_add(a->x, &k, a->e);
}

static int add_trees(struct adding *a, const struct oid *from, const struct oid *to)
{
	char text[2 * OID_HEX_MAX + 2];

	if (oid_is_none(from) || oid_is_none(to))
		return 0;
	snprintf(text, sizeof(text), "%s %s", oid_hex(from).s, oid_hex(to).s);
	return add_key(a, "t", text);
}

/*
 * A landing of several commits names the last one, and with it, by Git's own chain, the others down to
 * what it landed on. Those that are still here count as landed, each by itself.
 */
static int list_commits(
	struct git_reader *g, enum git_hash h, const struct story_landing *l, struct buf *out)
{
	struct oid at, stop;
	size_t n = 0;

	if (!l->commit || !l->onto || !oid_parse(&at, l->commit, strlen(l->commit)) ||
		!oid_parse(&stop, l->onto, strlen(l->onto)))
		return 0;
	while (!oid_eq(&at, &stop)) {
		cleanup_buf struct buf raw = BUF_INIT(COMMIT_MAX_B);
		struct err missing = ERR_INIT;
		struct commit_info c;

		if (++n > LANDED_COMMITS_MAX ||
			git_read_oid(g, &at, GIT_COMMIT, &raw, &missing) < 0 ||
			git_commit_parse(buf_str(&raw), raw.len, h, &c, &missing) < 0)
			return -ENOENT;
		buf_addf(out, "%s\n", oid_hex(&at).s);
		at = c.parents_n == 1 ? c.parents[0] : (struct oid){0};
		commit_info_done(&c);
		if (oid_is_none(&at))
			return -ENOENT;
	}
	return n > 1 && !out->failed ? 1 : 0;
}

static int add_commit(struct adding *a, const struct gate_commit *c)
{
	int r = add_key(a, "c", oid_hex(&c->oid).s);

	if (r == 0)
		r = add_trees(a, &c->parent_tree, &c->tree);
	if (r == 0)
		r = add_key(a, "p", c->patch_id);
	for (size_t i = 0; i < c->paths_n && r == 0; i++)
		r = add_file(a, c->paths[i].path, &c->paths[i].new, &c->paths[i].old);
	return r;
}

/* The one commit of a landing: from the tree that it landed on, where that is still here. */
static int add_landed_trees(
	struct adding *a, const struct repo *r, struct git_reader *g, const struct story_landing *l)
{
	cleanup_buf struct buf raw = BUF_INIT(COMMIT_MAX_B);
	struct err missing = ERR_INIT;
	struct commit_info c;
	struct oid onto, tree;
	int x;

	if (!l->commit || !l->onto || !l->tree || !oid_parse(&onto, l->onto, strlen(l->onto)) ||
		!oid_parse(&tree, l->tree, strlen(l->tree)) ||
		git_read_oid(g, &onto, GIT_COMMIT, &raw, &missing) < 0 ||
		git_commit_parse(buf_str(&raw), raw.len, r->hash, &c, &missing) < 0)
		return 0;
	x = add_trees(a, &c.tree, &tree);
	commit_info_done(&c);
	return x;
}

static int add_landing(
	struct adding *a, const struct repo *r, struct git_reader *g, const struct story_landing *l)
{
	cleanup_buf struct buf list = BUF_INIT(LANDED_COMMITS_MAX * (OID_HEX_MAX + 1));
	cleanup_gate_commits struct gate_commits c = {0};
	struct err ignored = ERR_INIT;
	int x = add_key(a, "c", l->commit);

	if (x == 0)
		x = add_landed_trees(a, r, g, l);
	if (x == 0)
		x = add_key(a, "p", l->patch_id);
	if (x == 0)
		x = story_landed_files(l, add_landed, a);
	if (x < 0 || list_commits(g, r->hash, l, &list) != 1)
		return x;
	/* What is not all here any more proves less; it is no reason to judge nothing. */
	if (gate_commits_load(&c, r, &list, &ignored) < 0)
		return 0;
	for (size_t i = 0; i < c.n && x == 0; i++)
		x = add_commit(a, &c.v[i]);
	return x;
}

struct listing {
	const struct repo *repo;
	const struct gate *gate;
	struct gate_index *x;
	struct err *e;
};

static struct gate_env *add_env(struct listing *l, const char *id)
{
	struct gate_index *x = l->x;
	struct gate_env *v;

	if (x->envs_n >= GATE_LEDGERS_MAX) {
		err_set(l->e, EFBIG, "more than %u ledgers", GATE_LEDGERS_MAX);
		return NULL;
	}
	if (x->envs_n == x->envs_cap) {
		size_t want = x->envs_cap ? x->envs_cap * 2 : 16;
		struct gate_env *more = reallocarray(x->envs, want, sizeof(*more));

		if (!more) {
			err_set(l->e, ENOMEM, "index the evidence");
			return NULL;
		}
		x->envs = more;
		x->envs_cap = want;
	}
	v = &x->envs[x->envs_n++];
	*v = (struct gate_env){0};
	memcpy(v->id, id, sizeof(v->id));
	return v;
}

/* The ledger's own flaw, whatever it is: anybody can push one, and the others are still good. */
static int flawed(struct gate_env *v, const char *why)
{
	v->verdict.good = false;
	v->verdict.bad_seq = MAX_OF(v->verdict.bad_seq, 1u);
	memcpy(v->verdict.env_id, v->id, sizeof(v->id));
	snprintf(v->verdict.why, sizeof(v->verdict.why), "%.480s", why);
	return 0;
}

/* A ledger that is bad or foreign stays in the list, without keys: a commit that names it is told why. */
static int add_ledger(void *arg, const char *ref, const struct oid *tip)
{
	struct listing *l = arg;
	const char *id = ref + strlen(LEDGER_REF_PREFIX);
	struct err why = ERR_INIT;
	struct gate_env *v;
	int r;

	if (!ledger_id_valid(id))
		return 0;
	v = add_env(l, id);
	if (!v)
		return -l->e->errnum;
	r = ledger_verify(l->repo, tip, NULL, &v->verdict, &why);
	if (r == 0 && !v->verdict.good)
		return 0;
	/* The ref's name is not signed; what the events say is. */
	if (r == 0 && !str_eq(v->verdict.env_id, id)) {
		snprintf(why.msg, sizeof(why.msg), "its events are of the environment %.31s",
			v->verdict.env_id);
		return flawed(v, why.msg);
	}
	v->foreign = r == 0 && !gate_takes_key(l->gate, &v->verdict);
	if (v->foreign)
		return 0;
	if (r == 0)
		r = story_read(&v->story, l->repo, tip, 0, &why);
	if (r < 0 && entry_flaw(r))
		return flawed(v, why.msg);
	v->judged = r < 0 ? NULL : calloc(v->story.landings_n + 1, 1);
	if (r == 0 && !v->judged)
		r = err_set(&why, ENOMEM, "index the evidence");
	if (r < 0)
		*l->e = why;
	return r;
}

int gate_index_make(
	struct gate_index *ret, const struct repo *r, const struct gate *g, struct err *e)
{
	cleanup_gate_index struct gate_index x = {0};
	struct listing l = {.repo = r, .gate = g, .x = &x, .e = e};
	cleanup_git_reader struct git_reader *reader = NULL;
	int rc = ref_list(r, LEDGER_REF_PREFIX, add_ledger, &l, e);

	if (rc >= 0)
		rc = git_reader_open(&reader, r->store, e);
	for (size_t i = 0; i < x.envs_n && rc >= 0; i++) {
		struct adding a = {.x = &x, .env = (uint32_t)i, .e = e};

		for (size_t k = 0; k < x.envs[i].story.landings_n && rc >= 0; k++) {
			a.landing = (uint32_t)k;
			rc = add_landing(&a, r, reader, &x.envs[i].story.landings[k]);
		}
	}
	if (rc < 0)
		return err_wrap(e, "index the evidence");
	gate_index_sort(&x);
	*ret = x;
	x = (struct gate_index){0};
	return 0;
}
