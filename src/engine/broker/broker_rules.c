/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy's rules as the broker asks them.
 *
 * Names:   the broker judges the kernel's names of things, and a rule may have been written with a
 *          symlink in it. Before the first call each rule is therefore also put under the canonical
 *          name of its path; of the two the more specific decides, as between any two rules. What
 *          narrows always follows a symlink; a grant only one that the sandbox cannot have planted.
 * Below:   a call on one name can change what others mean. Rules that narrow are kept apart: plain
 *          paths sorted, patterns taken into components. Of a pattern one asks in which state it is
 *          after a name; two names after which it is in the same state are protected alike in all
 *          that is below.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "engine/broker/broker_impl.h"

/* ---- patterns ---- */

struct part {
	const char *p;
	size_t n;
	bool any;  /* "**" */
	bool wild; /* has wildcards of its own */
};

struct narrow_glob {
	struct part *parts;
	size_t n;
};

/* Where a pattern stands after some names: bit i says that component i may come next. */
struct stand {
	uint64_t set[BROKER_PATTERN_MAX / 64];
	bool covered; /* the whole pattern matched here or above: everything below is the rule's */
};

static bool next_part(const char **path, struct part *ret)
{
	const char *p = *path + strspn(*path, "/");

	*ret = (struct part){.p = p, .n = strcspn(p, "/")};
	*path = p + ret->n;
	return ret->n > 0;
}

/* A pattern longer than we follow is cut: what is left of it matches more, not less. */
static int glob_split(struct narrow_glob *g, const char *pattern)
{
	struct part *v = calloc(BROKER_PATTERN_MAX, sizeof(*v));
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	while (n < BROKER_PATTERN_MAX && next_part(&pattern, &v[n])) {
		v[n].any = v[n].n == 2 && memcmp(v[n].p, "**", 2) == 0;
		for (size_t i = 0; i < v[n].n; i++)
			v[n].wild |= strchr("*?[\\", v[n].p[i]) != NULL;
		n++;
	}
	g->parts = v;
	g->n = n;
	return 0;
}

static bool part_matches(const struct part *pattern, const struct part *name)
{
	char a[NAME_MAX + 2], b[NAME_MAX + 2];

	if (!pattern->wild)
		return pattern->n == name->n && memcmp(pattern->p, name->p, name->n) == 0;
	if (pattern->n > NAME_MAX || name->n > NAME_MAX)
		return false;
	a[0] = b[0] = '/';
	memcpy(a + 1, pattern->p, pattern->n);
	a[pattern->n + 1] = '\0';
	memcpy(b + 1, name->p, name->n);
	b[name->n + 1] = '\0';
	return policy_glob_match(a, b);
}

static bool has(const struct stand *s, size_t i)
{
	return s->set[i / 64] >> (i % 64) & 1;
}

/* Component i may come next; where that is "**", so may the one after it. */
static void enter(struct stand *s, const struct narrow_glob *g, size_t i)
{
	for (; i < g->n; i++) {
		s->set[i / 64] |= 1ull << (i % 64);
		if (!g->parts[i].any || i + 1 == g->n)
			return;
	}
	s->covered = true;
}

static void step(struct stand *s, const struct narrow_glob *g, const struct part *name)
{
	struct stand next = {.covered = s->covered};

	for (size_t i = 0; i < g->n; i++) {
		if (!has(s, i))
			continue;
		if (g->parts[i].any) {
			enter(&next, g, i);
			next.covered |= i + 1 == g->n; /* a trailing ** is everything below */
		} else if (part_matches(&g->parts[i], name)) {
			enter(&next, g, i + 1);
		}
	}
	*s = next;
}

static struct stand stand_after(const struct narrow_glob *g, const char *path)
{
	struct stand s = {0};
	struct part name;

	enter(&s, g, 0);
	while (next_part(&path, &name))
		step(&s, g, &name);
	return s;
}

/* Does pattern state `a` protect anything that `b` does not? */
static bool stands_beyond(const struct stand *a, const struct stand *b)
{
	if (a->covered && !b->covered)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(a->set); i++)
		if (a->set[i] & ~b->set[i])
			return true;
	return false;
}

/*
 * Does the pattern spell out this last name on the way to what it protects? That is: does the name
 * take it further than any other name in the same directory would.
 */
static bool glob_spells(const struct narrow_glob *g, const char *parent, const struct part *last)
{
	static const struct part stranger = {.p = "\x01\x7f\x01", .n = 3};
	struct stand here, other;
	bool likely = false;

	for (size_t i = 0; i + 1 < g->n && !likely; i++)
		likely = !g->parts[i].any && part_matches(&g->parts[i], last);
	if (!likely)
		return false;
	here = other = stand_after(g, parent);
	step(&here, g, last);
	step(&other, g, &stranger);
	here.covered = false; /* the name itself was judged already */
	return stands_beyond(&here, &other);
}

/* ---- plain paths ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Does a plain rule narrow anything strictly below this name? */
static bool narrowed_below(const struct work *w, const char *name)
{
	size_t lo = 0, hi = w->narrow_n, n = strlen(name);

	/* The first rule not before "NAME/"; those below NAME follow it without a gap. */
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = strncmp(w->narrow[mid], name, n);

		if (c < 0 || (c == 0 && w->narrow[mid][n] < '/'))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < w->narrow_n && strncmp(w->narrow[lo], name, n) == 0 && w->narrow[lo][n] == '/';
}

bool rules_lead_through(const struct work *w, const char *name)
{
	const char *slash = strrchr(name, '/');
	struct part last;
	char parent[PATH_MAX];

	if (narrowed_below(w, name))
		return true;
	if (!w->globs_n || !slash)
		return false;
	last = (struct part){.p = slash + 1, .n = strlen(slash + 1)};
	memcpy(parent, name, (size_t)(slash - name));
	parent[slash - name] = '\0';
	for (size_t i = 0; i < w->globs_n; i++)
		if (glob_spells(&w->globs[i], parent, &last))
			return true;
	return false;
}

bool rules_same_below(const struct work *w, const char *a, const char *b)
{
	for (size_t i = 0; i < w->globs_n; i++) {
		struct stand sa = stand_after(&w->globs[i], a), sb = stand_after(&w->globs[i], b);

		if (stands_beyond(&sa, &sb) || stands_beyond(&sb, &sa))
			return false;
	}
	return true;
}

/* ---- canonical names ---- */

/* The kernel's name of a path, or of what exists of it with the rest appended. */
static bool canonical(const struct work *w, const char *path, struct buf *ret)
{
	char name[PATH_MAX], no[16];
	size_t n = strlen(path);
	cleanup_free char *head = strdup(path);
	cleanup_fd int fd = -1;
	ssize_t len;

	while (head && n > 1) {
		head[n] = '\0';
		fd = open(head, O_PATH | O_CLOEXEC);
		if (fd >= 0)
			break;
		while (n > 1 && path[--n] != '/')
			;
	}
	if (fd < 0)
		return false;
	len = readlinkat(w->self_fd, fd_name(fd, no), name, sizeof(name) - 1);
	if (len <= 0 || len >= (ssize_t)sizeof(name) - 1 || name[0] != '/')
		return false;
	buf_reset(ret);
	buf_add(ret, name, len == 1 && path[n] ? 0 : (size_t)len);
	buf_adds(ret, path + n);
	return !ret->failed;
}

/* A pattern below `base` with its plain beginning replaced: `base` has as many components. */
static bool pattern_below(const char *pattern, const char *base, struct buf *name)
{
	cleanup_buf struct buf out = BUF_INIT(POLICY_PATH_MAX);
	struct part v;

	for (const char *p = name->data; *p; p++) {
		if (strchr("*?[\\", *p))
			buf_addc(&out, '\\');
		buf_addc(&out, *p);
	}
	while (next_part(&base, &v))
		next_part(&pattern, &v);
	buf_adds(&out, pattern);
	buf_reset(name);
	buf_adds(name, buf_str(&out));
	return !out.failed && !name->failed;
}

/*
 * May a symlink carry this rule's grant elsewhere? Not one that the repository or the sandbox could
 * have planted: a project's rule, or a path that lies where the sandbox may write.
 */
static bool trusted_path(const struct work *w, const struct policy_rule *r, const char *path)
{
	const char *slash = strrchr(path, '/');
	char parent[POLICY_PATH_MAX];

	if (r->origin.layer == LAYER_PROJECT || !slash || slash - path >= (long)sizeof(parent))
		return false;
	snprintf(parent, sizeof(parent), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	return policy_access(w->b->policy, parent, NULL) != ACCESS_WRITE;
}

/* Is this name in a tree of the sandbox's own, with no host tree between the two? */
static bool in_scratch(const struct work *w, const char *name)
{
	cleanup_free char *parent = strdup(name);
	const struct policy_rule *rule = NULL;
	char *slash = parent ? strrchr(parent, '/') : NULL;

	if (!slash || slash == parent)
		return false;
	*slash = '\0';
	policy_access(w->b->policy, parent, &rule);
	for (const char *const *s = w->b->scratch; s && *s; s++) {
		size_t n = strlen(*s);

		if (strncmp(name, *s, n) == 0 && name[n] == '/')
			return !rule || rule->access == ACCESS_DENY || strlen(rule->path) <= n;
	}
	return false;
}

/* The same rule under its canonical name, when that differs. */
static int add_alias(struct work *w, const struct policy_rule *r)
{
	cleanup_buf struct buf name = BUF_INIT(POLICY_PATH_MAX);
	cleanup_free char *base = r->glob ? policy_glob_base(r->path) : strdup(r->path);
	struct policy_rule *a = &w->alias.rules[w->alias.rules_n];

	if (!base)
		return -ENOMEM;
	/* A denial where there is only scratch (a private HOME with its decoys) protects nothing there,
	 * and looking at a decoy would be told as an attempt. */
	if (r->access == ACCESS_DENY && in_scratch(w, base))
		return 0;
	if (!canonical(w, base, &name) || str_eq(buf_str(&name), base))
		return 0;
	if (r->access > policy_access(w->b->policy, buf_str(&name), NULL) &&
		!trusted_path(w, r, base))
		return 0;
	if (r->glob && !pattern_below(r->path, base, &name))
		return -ENAMETOOLONG;
	*a = *r;
	w->alias.gits |= r->git;
	a->path = buf_take(&name);
	if (!a->path)
		return -ENOMEM;
	w->alias.rules_n++;
	return 0;
}

static int add_scratch(struct work *w, const char *path)
{
	cleanup_buf struct buf name = BUF_INIT(POLICY_PATH_MAX);

	if (!canonical(w, path, &name)) {
		buf_reset(&name);
		buf_adds(&name, path);
	}
	return strlist_add(&w->scratch, buf_str(&name)) ? 0 : -ENOMEM;
}

/* ---- asking ---- */

static unsigned rule_depth(const struct policy_rule *r, const char *name)
{
	unsigned depth = 0;
	const char *p = r->path;
	struct part v;

	if (policy_rule_holds(r, name)) /* as deep as any: only a grant of the name is deeper */
		p = name;
	if (r->glob)
		policy_glob_covers(r->path, name, &depth);
	else
		while (next_part(&p, &v))
			depth++;
	return depth;
}

enum access rules_access(const struct work *w, const char *name, const struct policy_rule **ret)
{
	const struct policy_rule *r = NULL, *q = NULL;
	enum access a = policy_access(w->b->policy, name, &r), b;
	unsigned da, db;

	*ret = r;
	if (!w->alias.rules_n)
		return a;
	b = policy_access(&w->alias, name, &q);
	if (!q)
		return a;
	da = r ? rule_depth(r, name) : 0;
	db = rule_depth(q, name);
	/* A cap holds whatever a deeper rule says. */
	if (b < a ? db >= da : db > da && !(r && r->capped)) {
		*ret = q;
		return b;
	}
	return a;
}

/* ---- start ---- */

static bool narrows(const struct policy_rule *r)
{
	return r->access != ACCESS_WRITE || (r->capped && r->cap != ACCESS_WRITE);
}

static int add_narrow(struct work *w, const struct policy_rule *r)
{
	if (!narrows(r))
		return 0;
	if (r->glob)
		return glob_split(&w->globs[w->globs_n++], r->path);
	w->narrow[w->narrow_n++] = r->path;
	return 0;
}

int rules_open(struct work *w)
{
	const struct policy *p = w->b->policy;
	int r = 0;

	w->scratch = STRLIST_INIT(BROKER_SCRATCH_MAX);
	w->alias = (struct policy){.rules = calloc(p->rules_n + 1, sizeof(*p->rules))};
	w->narrow = calloc(2 * p->rules_n + 1, sizeof(*w->narrow));
	w->globs = calloc(2 * p->rules_n + 1, sizeof(*w->globs));
	if (!w->alias.rules || !w->narrow || !w->globs)
		return -ENOMEM;
	for (const char *const *s = w->b->scratch; r == 0 && s && *s; s++)
		r = add_scratch(w, *s);
	for (size_t i = 0; r == 0 && i < p->rules_n; i++)
		r = add_alias(w, &p->rules[i]);
	for (size_t i = 0; r == 0 && i < p->rules_n; i++)
		r = add_narrow(w, &p->rules[i]);
	for (size_t i = 0; r == 0 && i < w->alias.rules_n; i++)
		r = add_narrow(w, &w->alias.rules[i]);
	qsort(w->narrow, w->narrow_n, sizeof(*w->narrow), by_text);
	return r;
}

void rules_done(struct work *w)
{
	for (size_t i = 0; i < w->globs_n; i++)
		free(w->globs[i].parts);
	for (size_t i = 0; i < w->alias.rules_n; i++)
		free((char *)w->alias.rules[i].path);
	free(w->alias.rules);
	free(w->globs);
	free(w->narrow);
	strlist_done(&w->scratch);
}
