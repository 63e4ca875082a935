/* SPDX-License-Identifier: Apache-2.0 */
/* What the ledgers of a repository say was landed: see gate.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/gate.h"
#include "git/read.h"
#include "ledger/statement.h"

#define LANDED_COMMITS_MAX 10000u

void gate_index_done(struct gate_index *x)
{
	for (size_t i = 0; i < x->envs_n; i++)
		story_done(&x->envs[i].story);
	for (size_t i = 0; i < x->keys_n; i++)
		free(x->keys[i].key);
	free(x->envs);
	free(x->keys);
	*x = (struct gate_index){0};
}

int gate_index_add(
	struct gate_index *x, uint32_t env, uint32_t landing, const char *key, struct err *e)
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
	x->keys[x->keys_n] = (struct gate_key){strdup(key), env, landing};
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

static int add_file(void *arg, const char *path, unsigned mode, const char *oid)
{
	struct adding *a = arg;
	cleanup_buf struct buf key = BUF_INIT(16384);

	if (mode)
		buf_addf(&key, "f%o %s %s", mode, oid, path);
	else
		buf_addf(&key, "d%s", path);
	return key.failed ? 0 : gate_index_add(a->x, a->env, a->landing, buf_str(&key), a->e);
}

static int add_key(struct adding *a, const char *letter, const char *value)
{
	cleanup_buf struct buf b = BUF_INIT(256);

	if (!value || !*value)
		return 0;
	buf_addf(&b, "%s%.128s", letter, value);
	return gate_index_add(a->x, a->env, a->landing, buf_str(&b), a->e);
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
		cleanup_buf struct buf raw = BUF_INIT(16u << 20);
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
		r = add_key(a, "t", oid_hex(&c->tree).s);
	if (r == 0)
		r = add_key(a, "p", c->patch_id);
	for (size_t i = 0; i < c->paths_n && r == 0; i++)
		r = add_file(a, c->paths[i].path, c->paths[i].mode, oid_hex(&c->paths[i].oid).s);
	return r;
}

static int add_landing(
	struct adding *a, const struct repo *r, struct git_reader *g, const struct story_landing *l)
{
	cleanup_buf struct buf list = BUF_INIT(LANDED_COMMITS_MAX * (OID_HEX_MAX + 1));
	cleanup_gate_commits struct gate_commits c = {0};
	int x = add_key(a, "c", l->commit);

	if (x == 0)
		x = add_key(a, "t", l->tree);
	if (x == 0)
		x = add_key(a, "p", l->patch_id);
	if (x == 0)
		x = story_landed_files(l, add_file, a);
	if (x < 0 || list_commits(g, r->hash, l, &list) != 1)
		return x;
	x = gate_commits_load(&c, r, &list, a->e);
	for (size_t i = 0; i < c.n && x == 0; i++)
		x = add_commit(a, &c.v[i]);
	return x;
}

struct listing {
	const struct repo *repo;
	struct gate_index *x;
	struct err *e;
};

/* A ledger that is bad stays in the list, without keys: a commit that names it is told why. */
static int add_ledger(void *arg, const char *ref, const struct oid *tip)
{
	struct listing *l = arg;
	const char *id = ref + strlen(LEDGER_REF_PREFIX);
	struct gate_index *x = l->x;
	struct gate_env *v;
	int r;

	if (!ledger_id_valid(id))
		return 0;
	if (x->envs_n >= GATE_LEDGERS_MAX)
		return err_set(l->e, EFBIG, "more than %u ledgers", GATE_LEDGERS_MAX);
	if (x->envs_n == x->envs_cap) {
		size_t want = x->envs_cap ? x->envs_cap * 2 : 16;
		struct gate_env *more = reallocarray(x->envs, want, sizeof(*more));

		if (!more)
			return err_set(l->e, ENOMEM, "index the evidence");
		x->envs = more;
		x->envs_cap = want;
	}
	v = &x->envs[x->envs_n++];
	*v = (struct gate_env){0};
	memcpy(v->id, id, sizeof(v->id));
	r = ledger_verify(l->repo, tip, NULL, &v->verdict, l->e);
	if (r < 0 || !v->verdict.good)
		return r;
	/* The ref's name is not signed; what the events say is. */
	if (!str_eq(v->verdict.env_id, id)) {
		v->verdict.good = false;
		v->verdict.bad_seq = 1;
		snprintf(v->verdict.why, sizeof(v->verdict.why),
			"its events are of the environment %.31s", v->verdict.env_id);
		return 0;
	}
	return story_read(&v->story, l->repo, tip, 0, l->e);
}

int gate_index_make(struct gate_index *ret, const struct repo *r, struct err *e)
{
	cleanup_gate_index struct gate_index x = {0};
	struct listing l = {.repo = r, .x = &x, .e = e};
	cleanup_git_reader struct git_reader *g = NULL;
	int rc = ref_list(r, LEDGER_REF_PREFIX, add_ledger, &l, e);

	if (rc >= 0)
		rc = git_reader_open(&g, r->store, e);
	for (size_t i = 0; i < x.envs_n && rc >= 0; i++) {
		struct adding a = {.x = &x, .env = (uint32_t)i, .e = e};

		for (size_t k = 0; k < x.envs[i].story.landings_n && rc >= 0; k++) {
			a.landing = (uint32_t)k;
			rc = add_landing(&a, r, g, &x.envs[i].story.landings[k]);
		}
	}
	if (rc < 0)
		return err_wrap(e, "index the evidence");
	gate_index_sort(&x);
	*ret = x;
	x = (struct gate_index){0};
	return 0;
}
