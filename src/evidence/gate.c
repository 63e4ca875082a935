/* SPDX-License-Identifier: Apache-2.0 */
/* Judging a range of commits: see gate.h. */
#include "evidence/gate.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "evidence/export.h"
#include "os/path.h"

#define WAY_STEPS_MAX 64u
#define WAY_SEEN_MAX 256u

const char *const gate_state_names[] = {"ignored", "merge", "untouched", "good", "bad"};
static_assert(ARRAY_SIZE(gate_state_names) == GATE_STATE_NUM, "one name each");

void gate_result_done(struct gate_result *r)
{
	gate_done(&r->gate);
	gate_index_done(&r->index);
	gate_commits_done(&r->commits);
}

/* ------------------------------------------------------------------ where it comes from */

struct tracing {
	const struct gate *gate;
	struct gate_index *x;
	struct gate_commit *c;
	const char *today;
	bool passing; /* only landings count that the gate lets pass */
};

static struct gate_from from_of(const struct gate_index *x, const struct gate_key *k)
{
	return (struct gate_from){k->env, x->envs[k->env].story.landings[k->landing].entry->seq};
}

/* Every landing is judged by itself: a later one of the same environment says nothing of it. */
static bool add_from(struct tracing *t, const struct gate_key *k)
{
	const struct gate_from f = from_of(t->x, k);
	struct gate_commit *c = t->c;

	for (size_t i = 0; i < c->from_n; i++)
		if (c->from[i].env == f.env && c->from[i].seq == f.seq)
			return true;
	if (c->from_n == GATE_FROM_MAX)
		return false;
	c->from[c->from_n++] = f;
	return true;
}

/* Looked at once; without memory it does not pass. */
static bool passes(struct tracing *t, const struct gate_key *k)
{
	unsigned char *known = &t->x->envs[k->env].judged[k->landing];
	const struct gate_from f = from_of(t->x, k);
	cleanup_free struct gate_problems *p = *known ? NULL : calloc(1, sizeof(*p));

	if (p) {
		gate_judge_landing(t->gate, t->x, &f, t->today, p);
		*known = p->n ? 2 : 1;
	}
	return *known == 1;
}

static bool same_file(const struct gate_file *a, const struct gate_file *b)
{
	return a->mode == b->mode && (!a->mode || oid_eq(&a->oid, &b->oid));
}

/*
 * May key i of a stretch be used? When one environment landed the same thing more than once, the newest
 * time counts. Of several environments one that passes will do: what was landed is the same, and a
 * stranger who says to have landed it, too, must not spoil it.
 */
static bool usable(struct tracing *t, const struct gate_key *k, size_t i, size_t n)
{
	for (size_t o = i + 1; o < n && k[o].env == k[i].env; o++)
		if (k[o].old_known == k[i].old_known && same_file(&k[o].old, &k[i].old))
			return false;
	return !t->passing || passes(t, &k[i]);
}

static bool match_whole(struct tracing *t)
{
	struct gate_commit *c = t->c;
	const struct oid_hex commit = oid_hex(&c->oid), from = oid_hex(&c->parent_tree),
			     to = oid_hex(&c->tree);
	const struct {
		const char *letter, *a, *space, *b, *word;
	} ways[] = {{"c", commit.s, "", "", "commit"}, {"t", from.s, " ", to.s, "tree"},
		{"p", c->patch_id, "", "", "patch"}};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const struct gate_key *k;
		char key[2 * OID_HEX_MAX + 3];
		size_t n;

		if (!ways[i].a[0])
			continue;
		snprintf(key, sizeof(key), "%s%s%s%s", ways[i].letter, ways[i].a, ways[i].space,
			ways[i].b);
		k = gate_index_find(t->x, key, &n);
		for (size_t at = k ? n : 0; at-- > 0;)
			if (usable(t, k, at, n) && add_from(t, &k[at])) {
				c->matched = ways[i].word;
				return true;
			}
	}
	return false;
}

/* The way of a file through landings, back from what the commit makes of it. */
struct way {
	const struct gate_path *path;
	struct gate_file seen[WAY_SEEN_MAX];
	size_t seen_n;
};

static bool seen(struct way *w, const struct gate_file *f)
{
	for (size_t i = 0; i < w->seen_n; i++)
		if (same_file(&w->seen[i], f))
			return true;
	if (w->seen_n == WAY_SEEN_MAX)
		return true; /* no further */
	w->seen[w->seen_n++] = *f;
	return false;
}

static const struct gate_key *find_file(
	const struct gate_index *x, const char *path, const struct gate_file *f, size_t *ret_n)
{
	cleanup_buf struct buf key = BUF_INIT(GATE_KEY_MAX_B);

	gate_file_key(&key, path, f);
	*ret_n = 0;
	return key.failed ? NULL : gate_index_find(x, buf_str(&key), ret_n);
}

/*
 * Did landings bring the file from what it was before the commit to `at`, in one step or in several that were
 * squashed? That it was landed at some time is not enough: it could be an old state put back.
 */
static bool came_to(struct tracing *t, struct way *w, const struct gate_file *at, unsigned depth)
{
	size_t n;
	const struct gate_key *k = find_file(t->x, w->path->path, at, &n);

	for (size_t i = n; k && i-- > 0;)
		if (k[i].old_known && same_file(&k[i].old, &w->path->old) && usable(t, k, i, n))
			return add_from(t, &k[i]);
	if (depth == WAY_STEPS_MAX)
		return false;
	for (size_t i = n; k && i-- > 0;)
		if (k[i].old_known && usable(t, k, i, n) && !seen(w, &k[i].old) &&
			came_to(t, w, &k[i].old, depth + 1))
			return add_from(t, &k[i]);
	return false;
}

struct missing {
	const char *first; /* path */
	size_t n;
	bool some; /* something is as an environment landed it: the commit is touched */
};

/* Every changed file changed as environments landed it. A deletion alone says nothing of who did it. */
static bool match_files(struct tracing *t, struct missing *ret)
{
	size_t found = 0;

	*ret = (struct missing){0};
	for (size_t i = 0; i < t->c->paths_n; i++) {
		const struct gate_path *p = &t->c->paths[i];
		struct way w = {.path = p};
		size_t n;

		if (gate_ignores_path(t->gate, p->path))
			continue;
		ret->some |= p->new.mode &&find_file(t->x, p->path, &p->new, &n);
		if (came_to(t, &w, &p->new, 1))
			found++;
		else if (!ret->n++)
			ret->first = p->path;
	}
	if (!found || ret->n)
		return false;
	t->c->matched = "files";
	return true;
}

/* By landings that pass, if it can be; else by any, so that it can be said what is wrong with them. */
static bool trace(struct tracing *t, struct missing *ret)
{
	t->passing = true;
	if (match_whole(t) || match_files(t, ret))
		return true;
	t->c->from_n = 0;
	t->passing = false;
	return match_whole(t) || match_files(t, ret);
}

static bool all_ignored(const struct gate *g, const struct gate_commit *c)
{
	for (size_t i = 0; i < c->paths_n; i++)
		if (!gate_ignores_path(g, c->paths[i].path))
			return false;
	return c->paths_n > 0;
}

/* Why there is nothing: the trailer may name a ledger that is missing, bad or about something else. */
static void no_evidence(const struct gate_index *x, struct gate_commit *c, const char *trailer,
	size_t trailer_n, const struct missing *m)
{
	cleanup_buf struct buf shown = BUF_INIT(2048);
	const struct gate_env *v = NULL;
	char id[64] = "";

	if (gate_trailer_value(c->message, "Croft-Env", id, sizeof(id))) {
		str_show(&shown, id, strlen(id));
		v = gate_index_env(x, id);
		if (!v)
			gate_problem(&c->problems, GATE_NO_EVIDENCE,
				"it names the environment %s, whose evidence is not here; fetch it "
				"with croft evidence fetch",
				buf_str(&shown));
		else if (!v->verdict.good)
			gate_problem(&c->problems, GATE_BAD_EVIDENCE,
				"event %llu of the evidence that it names is bad: %s",
				(unsigned long long)v->verdict.bad_seq, v->verdict.why);
		else if (v->foreign)
			gate_problem(&c->problems, GATE_KEY,
				"the evidence that it names is signed with the key %.16s…, which "
				"the gate does not name",
				v->verdict.key_id.hex);
		else
			gate_problem(&c->problems, GATE_NO_EVIDENCE,
				"it names the environment %s, but is not what that landed",
				buf_str(&shown));
		return;
	}
	if (m->some && m->first) {
		str_show(&shown, m->first, strnlen(m->first, 200));
		gate_problem(&c->problems, GATE_NO_EVIDENCE,
			"%zu of its files (the first: %s) changed otherwise than any environment "
			"landed them",
			m->n, buf_str(&shown));
		return;
	}
	if (trailer)
		str_show(&shown, trailer, MIN_OF(trailer_n, 120u));
	gate_problem(&c->problems, GATE_NO_EVIDENCE, "nothing that was landed matches it%s%s",
		trailer ? ", and it says " : "", buf_str(&shown));
}

void gate_trace(
	const struct gate *g, struct gate_index *x, struct gate_commit *c, const char *today)
{
	struct tracing t = {.gate = g, .x = x, .c = c, .today = today};
	struct missing missing = {0};
	const char *trailer;
	size_t trailer_n = 0;
	bool traced;

	c->state = GATE_IGNORED;
	if (gate_ignores_commit(g, oid_hex(&c->oid).s) || all_ignored(g, c))
		return;
	c->state = GATE_MERGE;
	if (c->plain_merge)
		return;
	trailer = gate_trailer(g, c->message, &trailer_n);
	traced = trace(&t, &missing);
	c->state = GATE_UNTOUCHED;
	if (!trailer && !traced && !missing.some && g->evidence != GATE_ALL)
		return;
	if (!traced)
		no_evidence(x, c, trailer, trailer_n, &missing);
	for (size_t i = 0; i < c->from_n && traced; i++)
		gate_judge_landing(g, x, &c->from[i], today, &c->problems);
	c->state = c->problems.n ? GATE_BAD : GATE_GOOD;
}

/* ------------------------------------------------------------------ the whole */

static int read_gate(struct gate *g, const char *file, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(GATE_FILE_MAX_B);
	int r = file_read_at(AT_FDCWD, file, &text);

	if (r == -EFBIG)
		return err_invalid(
			e, "%.512s: a gate file may hold at most %u bytes", file, GATE_FILE_MAX_B);
	if (r < 0)
		return err_set(e, -r, "read the gate file %.512s", file);
	return gate_parse(g, file, buf_str(&text), text.len, e);
}

int gate_check(struct gate_result *ret, const char *gate_file, const char *range, struct err *e)
{
	cleanup_export_source struct export_source s = {0};
	struct gate_result r = {.range = range};
	char today[16] = "";
	time_t now = time(NULL);
	struct tm tm;
	int x;

	if (gmtime_r(&now, &tm))
		strftime(today, sizeof(today), "%Y-%m-%d", &tm);
	gate_init(&r.gate);
	x = read_gate(&r.gate, gate_file, e);
	if (x == 0)
		x = export_source_here(&s, e);
	if (x == 0)
		x = gate_commits_read(&r.commits, s.repo, range, e);
	if (x == 0)
		x = gate_index_make(&r.index, s.repo, &r.gate, e);
	if (x < 0) {
		gate_result_done(&r);
		return x;
	}
	for (size_t i = 0; i < r.commits.n; i++) {
		gate_trace(&r.gate, &r.index, &r.commits.v[i], today);
		r.bad += r.commits.v[i].state == GATE_BAD;
	}
	*ret = r;
	return 0;
}
