/* SPDX-License-Identifier: Apache-2.0 */
/* Judging a range of commits: see gate.h. */
#include "core/gate.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "core/export.h"
#include "os/path.h"

const char *const gate_state_names[] = {"ignored", "merge", "untouched", "good", "bad"};
static_assert(ARRAY_SIZE(gate_state_names) == GATE_STATE_NUM, "one name each");

void gate_result_done(struct gate_result *r)
{
	gate_done(&r->gate);
	gate_index_done(&r->index);
	gate_commits_done(&r->commits);
}

/* ------------------------------------------------------------------ where it comes from */

static uint64_t seq_of(const struct gate_index *x, const struct gate_key *k)
{
	return x->envs[k->env].story.landings[k->landing].entry->seq;
}

/* Note an environment and the landing; of two landings of one environment the later counts. */
static bool add_from(const struct gate_index *x, struct gate_commit *c, const struct gate_key *k)
{
	uint64_t seq = seq_of(x, k);

	for (size_t i = 0; i < c->from_n; i++)
		if (c->from[i].env == k->env) {
			c->from[i].seq = MAX_OF(c->from[i].seq, seq);
			return true;
		}
	if (c->from_n == GATE_ENVS_MAX)
		return false;
	c->from[c->from_n++] = (struct gate_from){k->env, seq};
	return true;
}

static bool match_whole(const struct gate_index *x, struct gate_commit *c)
{
	const struct oid_hex commit = oid_hex(&c->oid), tree = oid_hex(&c->tree);
	const struct {
		const char *letter, *value, *word;
	} ways[] = {{"c", commit.s, "commit"}, {"t", tree.s, "tree"}, {"p", c->patch_id, "patch"}};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const struct gate_key *k;
		char key[OID_HEX_MAX + 2];
		size_t n;

		if (!ways[i].value[0])
			continue;
		snprintf(key, sizeof(key), "%s%s", ways[i].letter, ways[i].value);
		k = gate_index_find(x, key, &n);
		if (!k)
			continue;
		c->matched = ways[i].word;
		return add_from(x, c, &k[n - 1]);
	}
	return false;
}

static const struct gate_key *find_path(
	const struct gate_index *x, const struct gate_path *p, size_t *ret_n)
{
	cleanup_buf struct buf key = BUF_INIT(16384);

	if (p->mode)
		buf_addf(&key, "f%o %s %s", p->mode, oid_hex(&p->oid).s, p->path);
	else
		buf_addf(&key, "d%s", p->path);
	return key.failed ? NULL : gate_index_find(x, buf_str(&key), ret_n);
}

/* Of several that landed the same file, one that the commit comes from anyway. */
static const struct gate_key *choose(
	const struct gate_commit *c, const struct gate_key *k, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t f = 0; f < c->from_n; f++)
			if (c->from[f].env == k[i].env)
				return &k[i];
	return &k[n - 1];
}

/*
 * Squashes: every changed file is as some environment landed it. *ret_some: at least one is (a deletion
 * alone says nothing of who did it).
 */
static bool match_files(const struct gate *g, const struct gate_index *x, struct gate_commit *c,
	bool *ret_some, const char **ret_missing, size_t *ret_missing_n)
{
	size_t found = 0, missing = 0;

	for (size_t i = 0; i < c->paths_n; i++) {
		const struct gate_path *p = &c->paths[i];
		const struct gate_key *k;
		size_t n = 0;

		if (gate_ignores_path(g, p->path))
			continue;
		k = find_path(x, p, &n);
		if (k && add_from(x, c, choose(c, k, n))) {
			found++;
			*ret_some |= p->mode != 0;
			continue;
		}
		if (!missing++)
			*ret_missing = p->path;
	}
	*ret_missing_n = missing;
	if (found && !missing) {
		c->matched = "files";
		return true;
	}
	return false;
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
	size_t trailer_n, const char *missing, size_t missing_n)
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
				"with "
				"croft evidence fetch",
				buf_str(&shown));
		else if (!v->verdict.good)
			gate_problem(&c->problems, GATE_BAD_EVIDENCE,
				"event %llu of the evidence that it names is bad: %s",
				(unsigned long long)v->verdict.bad_seq, v->verdict.why);
		else
			gate_problem(&c->problems, GATE_NO_EVIDENCE,
				"it names the environment %s, but is not what that landed",
				buf_str(&shown));
		return;
	}
	if (c->from_n && missing) {
		str_show(&shown, missing, strnlen(missing, 200));
		gate_problem(&c->problems, GATE_NO_EVIDENCE,
			"%zu of its files (the first: %s) are not as any environment landed them",
			missing_n, buf_str(&shown));
		return;
	}
	if (trailer)
		str_show(&shown, trailer, MIN_OF(trailer_n, 120u));
	gate_problem(&c->problems, GATE_NO_EVIDENCE, "nothing that was landed matches it%s%s",
		trailer ? ", and it says " : "", buf_str(&shown));
}

void gate_trace(
	const struct gate *g, const struct gate_index *x, struct gate_commit *c, const char *today)
{
	const char *trailer, *missing = NULL;
	size_t trailer_n = 0, missing_n = 0;
	bool some = false, traced;

	c->state = GATE_IGNORED;
	if (gate_ignores_commit(g, oid_hex(&c->oid).s) || all_ignored(g, c))
		return;
	c->state = GATE_MERGE;
	if (c->parents_n > 1 && c->paths_n == 0)
		return;
	trailer = gate_trailer(g, c->message, &trailer_n);
	traced = match_whole(x, c) || match_files(g, x, c, &some, &missing, &missing_n);
	c->state = GATE_UNTOUCHED;
	if (!trailer && !traced && !some && g->evidence != GATE_ALL)
		return;
	if (!traced)
		no_evidence(x, c, trailer, trailer_n, missing, missing_n);
	for (size_t i = 0; i < c->from_n && traced; i++) {
		const struct gate_env *v = &x->envs[c->from[i].env];
		const struct gate_facts f = {.verdict = &v->verdict,
			.story = &v->story,
			.landed_seq = c->from[i].seq,
			.today = today};

		gate_judge(g, &f, &c->problems);
	}
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
		x = gate_index_make(&r.index, s.repo, e);
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
