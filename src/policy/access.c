/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy gives to one path.
 *
 * The most specific rule decides: the deepest match, a plain path before a pattern, the narrower
 * access at a tie. Independently of that, caps (the floor, the system's denies and their
 * exceptions) bound the answer from above; of the system's caps the most specific counts, of the
 * floor's every one. Plain rules are found by one binary search, from where each names the next above
 * it, patterns one by one, so a policy of many thousand plain rules costs a few comparisons per question.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy_impl.h"
#include "policy/runs.h"

struct best {
	const struct policy_rule *rule;
	unsigned depth;
};

struct search {
	struct best rule; /* deciding by specificity */
	struct best cap;  /* the most specific cap */
	const struct policy_rule *floor;
};

static int rule_cmp(const void *a, const void *b)
{
	const struct policy_rule *x = a, *y = b;
	int c = strcmp(x->path, y->path);

	return c ? c : (int)x->glob - (int)y->glob;
}

int policy_index(struct policy *p, struct err *e)
{
	bool sorted = true;
	size_t n = 0;

	for (size_t i = 0; i < p->rules_n; i++) {
		n += p->rules[i].glob;
		p->gits |= p->rules[i].git;
		sorted = sorted && (i == 0 || rule_cmp(&p->rules[i - 1], &p->rules[i]) < 0);
	}
	if (!sorted)
		qsort(p->rules, p->rules_n, sizeof(*p->rules), rule_cmp);
	if (n > p->globs_n || !n)
		p->globs = n ? policy_alloc(p, n * sizeof(*p->globs)) : NULL;
	p->globs_n = 0;
	if (n && !p->globs)
		return err_set(e, ENOMEM, "index the rules");
	for (size_t i = 0; i < p->rules_n; i++) {
		uint32_t up = (uint32_t)i;

		if (p->rules[i].glob)
			p->globs[p->globs_n++] = (uint32_t)i;
		while (up && !str_starts(p->rules[i].path, p->rules[up - 1].path))
			up = p->rules[up - 1].up;
		p->rules[i].up = up;
	}
	p->indexed = true;
	return 0;
}

/* Binary search for the plain rule of exactly the first n bytes of path. */
static size_t find(const struct policy *p, const char *path, size_t n, bool *ret_found)
{
	size_t lo = 0, hi = p->rules_n;

	*ret_found = false;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct policy_rule *r = &p->rules[mid];
		int c = strncmp(r->path, path, n);

		if (c == 0 && r->path[n])
			c = 1;
		if (c == 0 && r->glob)
			c = 1; /* a pattern spelled like this sorts behind the plain path */
		if (c == 0) {
			*ret_found = true;
			return mid;
		}
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

size_t policy_find(const struct policy *p, const char *path, bool *ret_found)
{
	return find(p, path, strlen(path), ret_found);
}

static bool beats(const struct policy_rule *r, unsigned depth, enum access access,
	const struct best *b, enum access b_access)
{
	if (!b->rule)
		return true;
	if (depth != b->depth)
		return depth > b->depth;
	if (r->glob != b->rule->glob)
		return !r->glob;
	return access < b_access;
}

static void consider(struct search *s, const struct policy_rule *r, unsigned depth)
{
	if (beats(r, depth, r->access, &s->rule, s->rule.rule ? s->rule.rule->access : ACCESS_DENY))
		s->rule = (struct best){r, depth};
	if (!r->capped)
		return;
	if (r->origin.layer == LAYER_FLOOR && (!s->floor || r->cap < s->floor->cap))
		s->floor = r;
	if (beats(r, depth, r->cap, &s->cap, s->cap.rule ? s->cap.rule->cap : ACCESS_DENY))
		s->cap = (struct best){r, depth};
}

/*
 * Every rule with which the path begins as text is above the last rule that does not sort behind the path,
 * or is that one: what begins alike stands together.
 */
static void search_plain(const struct policy *p, const char *path, struct search *s)
{
	size_t lo = 0, hi = p->rules_n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(p->rules[mid].path, path) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo; lo = p->rules[lo - 1].up) {
		const struct policy_rule *r = &p->rules[lo - 1];

		if (!r->glob && path_within(r->path, path))
			consider(s, r, path_depth(r->path));
	}
}

static void search_rules(const struct policy *p, const char *path, struct search *s)
{
	unsigned depth;

	*s = (struct search){0};
	if (p->indexed) {
		search_plain(p, path, s);
		for (size_t i = 0; i < p->globs_n; i++)
			if (policy_glob_covers(p->rules[p->globs[i]].path, path, &depth))
				consider(s, &p->rules[p->globs[i]], depth);
		return;
	}
	for (size_t i = 0; i < p->rules_n; i++) {
		const struct policy_rule *r = &p->rules[i];

		if (!r->glob && path_within(r->path, path))
			consider(s, r, path_depth(r->path));
		else if (r->glob && policy_glob_covers(r->path, path, &depth))
			consider(s, r, depth);
	}
}

/* The cap that counts, if any. */
static const struct policy_rule *search_cap(const struct search *s)
{
	if (s->floor && (!s->cap.rule || s->floor->cap <= s->cap.rule->cap))
		return s->floor;
	return s->cap.rule;
}

enum access policy_cap(
	const struct policy *p, const char *path, const struct policy_rule **ret_rule)
{
	struct search s;
	const struct policy_rule *cap;

	search_rules(p, path, &s);
	cap = search_cap(&s);
	if (ret_rule)
		*ret_rule = cap;
	return cap ? cap->cap : ACCESS_WRITE;
}

bool policy_rule_grants(const struct policy *p, const struct policy_rule *r, const char *path)
{
	return !r->glob && str_eq(r->path, path) &&
	       !(p->unapproved && r->origin.layer == LAYER_PROJECT);
}

/* ---- names that run on the host ---- */

const char policy_held_origin[] = "it runs on your machine";

/* One rule for each entry of the list, made when it is needed: each time the same. */
static struct policy_rule held_rules[RUNS_TABLE_MAX];

static const struct policy_rule *held_rule(const struct runs_entry *x)
{
	struct policy_rule *r = &held_rules[x - runs_table];

	*r = (struct policy_rule){.access = ACCESS_READ,
		.path = x->pattern,
		.origin = {.layer = LAYER_PROFILE, .file = policy_held_origin}};
	return r;
}

void policy_hold(struct policy *p, const char *home, const char *except)
{
	assert(runs_table_n <= RUNS_TABLE_MAX);
	p->hold = true;
	p->hold_home = home;
	p->hold_not = except;
}

size_t policy_rule_holds(const struct policy_rule *r, const char *path)
{
	if (!r || r->origin.file != policy_held_origin)
		return 0;
	if (r->path[0] == '/')
		return strlen(r->path); /* one that was there: policy_present() */
	return runs_match_end(&runs_table[r - held_rules], path);
}

/* How many bytes of a path a grant spells out: a pattern only if its last part has no wildcard. */
static size_t spelled_out(const struct policy_rule *r, unsigned depth, const char *path)
{
	const char *last = strrchr(r->path, '/'), *p = path;

	if (!r->glob)
		return strlen(r->path);
	if (!last || policy_has_glob(last))
		return 0;
	while (depth-- > 0)
		p += 1 + strcspn(p + 1, "/");
	return (size_t)(p - path);
}

/* The rule that holds a name although its surroundings are writable, or NULL. */
static const struct policy_rule *search_held(
	const struct policy *p, const struct best *b, const char *path)
{
	const struct runs_entry *x;

	if (!b->rule || (p->hold_not && path_within(p->hold_not, path)))
		return NULL;
	x = runs_held(path, p->hold_home, spelled_out(b->rule, b->depth, path), NULL);
	if (!x && b->rule->glob && !b->rule->runs) /* only write-runs names a directory that runs */
		x = runs_inside(path, p->hold_home, NULL);
	return x && x >= runs_table && x < runs_table + runs_table_n ? held_rule(x) : NULL;
}

/* ---- Git directories that are granted for committing ---- */

static const struct policy_rule git_rule = {.access = ACCESS_READ,
	.path = "what Git obeys",
	.origin = {.layer = LAYER_PROFILE, .file = "a grant for committing"}};

static enum gitname git_name(const struct policy_rule *r, const char *path)
{
	const char *rest;

	if (!r || !r->git || r->access != ACCESS_WRITE)
		return GITNAME_NONE;
	rest = path + strlen(r->path);
	return gitname_of(*rest == '/' ? rest + 1 : rest);
}

enum gitname policy_git_name(const struct policy *p, const char *path)
{
	struct search s;

	if (!p->gits)
		return GITNAME_NONE;
	search_rules(p, path, &s);
	return git_name(s.rule.rule, path);
}

bool policy_rule_is_git(const struct policy_rule *r)
{
	return r == &git_rule;
}

enum access policy_access(
	const struct policy *p, const char *path, const struct policy_rule **ret_rule)
{
	struct search s;
	const struct policy_rule *r, *cap;
	enum access a;

	search_rules(p, path, &s);
	r = s.rule.rule;
	a = r ? r->access : ACCESS_DENY;
	cap = search_cap(&s);
	if (cap && cap->cap < a) {
		r = cap;
		a = cap->cap;
	}
	if (a == ACCESS_WRITE && git_name(r, path) == GITNAME_HELD) {
		r = &git_rule;
		a = ACCESS_READ;
	}
	cap = a == ACCESS_WRITE && p->hold ? search_held(p, &s.rule, path) : NULL;
	if (cap) {
		r = cap;
		a = cap->access;
	}
	if (ret_rule)
		*ret_rule = r;
	return a;
}

bool policy_env_passes(const struct policy *p, const char *name)
{
	for (size_t i = 0; i < p->env_pass.n; i++) {
		const char *pattern = p->env_pass.v[i];
		size_t n = strlen(pattern);

		if (n && pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0
					       : str_eq(pattern, name))
			return true;
	}
	return false;
}
