/* SPDX-License-Identifier: Apache-2.0 */
/* Looking a path up in the list of names that run on the host: see runs.h. */
#include "policy/runs.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fold.h"
#include "base/str.h"

const char *const runs_why_text[] = {
	[RUNS_HOOK] = "Git hook",
	[RUNS_GITCONF] = "Git configuration",
	[RUNS_GITHIDE] = "hides files from git status",
	[RUNS_VCS] = "version control configuration",
	[RUNS_SHELL] = "shell start-up file",
	[RUNS_SSH] = "SSH configuration",
	[RUNS_LOGIN] = "started at login or by a timer",
	[RUNS_PACKAGE] = "package manager configuration",
	[RUNS_PYTHON] = "run when Python starts",
	[RUNS_AGENT] = "agent configuration",
	[RUNS_IDE] = "editor or IDE configuration",
	[RUNS_DIRENV] = "run on entering the directory",
	[RUNS_DEVCON] = "development container",
	[RUNS_CI] = "CI workflow",
	[RUNS_DEBUG] = "read by a debugger or interpreter at start",
	[RUNS_BUILD] = "build, test or lint tool configuration",
};
static_assert(ARRAY_SIZE(runs_why_text) == RUNS_WHY_NUM, "one text per reason");

/* Installed packages bring names of all kinds, and nobody opens these directories as a project. */
static const char *const inert[] = {
	"node_modules", "bower_components", "site-packages", "dist-packages"};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* One part of a path against one part of a pattern: '*' within it, ASCII case ignored. */
static bool part_match(const char *pat, size_t pat_n, const char *s, size_t n)
{
	size_t p = 0, i = 0, star = SIZE_MAX, back = 0;

	while (i < n) {
		if (p < pat_n && pat[p] == '*') {
			star = p++;
			back = i;
		} else if (p < pat_n && lower(pat[p]) == lower(s[i])) {
			p++;
			i++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			i = ++back;
		} else {
			return false;
		}
	}
	while (p < pat_n && pat[p] == '*')
		p++;
	return p == pat_n;
}

/*
 * The pattern from here on: where its last part ends in the path, or NULL. A pattern of a directory
 * matches the directory itself and everything below it, one of a file only the end of the path.
 */
static const char *match_here(const char *pat, const char *path)
{
	if (*pat != '*' && lower(*pat) != lower(*path))
		return NULL; /* nearly always */
	for (;;) {
		size_t pn = strcspn(pat, "/"), n = strcspn(path, "/");

		if (!part_match(pat, pn, path, n))
			return NULL;
		pat += pn;
		path += n;
		if (!*pat)
			return *path ? NULL : path;
		if (!*++pat)
			return path;
		if (!*path++)
			return NULL;
	}
}

/* Does the path from here on match the first parts of a pattern, and not all? How many. */
static unsigned match_begin(const char *pat, const char *path)
{
	if (*pat != '*' && lower(*pat) != lower(*path))
		return 0;
	for (unsigned parts = 1;; parts++) {
		size_t pn = strcspn(pat, "/"), n = strcspn(path, "/");

		if (!part_match(pat, pn, path, n))
			return 0;
		pat += pn;
		path += n;
		if (!*pat || !pat[1])
			return 0;
		pat++;
		if (!*path++)
			return parts;
	}
}

/* The next part of a path, or NULL after the last. */
static const char *next_part(const char *at)
{
	at = strchr(at, '/');
	return at && at[1] ? at + 1 : NULL;
}

/* A path with other letters than ASCII becomes its key: some fold to ASCII. false: no memory. */
static bool fold_path(struct buf *key, const char **path)
{
	const char *p = *path;

	while (*p && (unsigned char)*p < 0x80)
		p++;
	if (!*p)
		return true;
	fold_key(key, *path, strlen(*path));
	*path = buf_str(key);
	return !key->failed;
}

const struct runs_entry *runs_find(const char *path)
{
	cleanup_buf struct buf key = BUF_INIT(FOLD_KEY_MAX_B(strlen(path)));

	if (!fold_path(&key, &path))
		return &runs_table[0]; /* marked for a wrong reason rather than not at all */
	for (const char *at = path; at; at = next_part(at))
		for (size_t i = 0; i < runs_table_n; i++)
			if (match_here(runs_table[i].pattern, at))
				return &runs_table[i];
	return NULL;
}

bool runs_begin(const char *path)
{
	cleanup_buf struct buf key = BUF_INIT(FOLD_KEY_MAX_B(strlen(path)));

	if (!fold_path(&key, &path))
		return true;
	for (const char *at = path; at; at = next_part(at))
		for (size_t i = 0; i < runs_table_n; i++)
			if (match_begin(runs_table[i].pattern, at))
				return true;
	return false;
}

const struct runs_entry *runs_next_held(const char *name, const struct runs_entry *after)
{
	static char first[RUNS_TABLE_MAX]; /* of each held pattern: most names have another */
	static bool known;
	size_t i = after ? (size_t)(after - runs_table) + 1 : 0;
	char c = lower(name[0]);

	for (size_t k = 0; !known && k < runs_table_n; k++)
		first[k] = runs_table[k].hold != HOLD_NOT ? lower(runs_table[k].pattern[0]) : '\0';
	known = true;
	for (; i < runs_table_n; i++) {
		const char *pat = runs_table[i].pattern;

		if (first[i] && (first[i] == c || first[i] == '*') &&
			part_match(pat, strcspn(pat, "/"), name, strlen(name)))
			return &runs_table[i];
	}
	return NULL;
}

size_t runs_match_end(const struct runs_entry *x, const char *path)
{
	for (const char *at = path; at; at = next_part(at)) {
		const char *end = match_here(x->pattern, at);

		if (end)
			return (size_t)(end - path);
	}
	return 0;
}

/* ---- holding ---- */

/* Is this part of the path the first one below the home directory? */
static bool at_home(const char *path, const char *at, const char *home)
{
	size_t n = home ? strlen(home) : 0;

	return n > 1 && strncmp(path, home, n) == 0 && path[n] == '/' && at == path + n + 1;
}

static bool holds(const struct runs_entry *x, const char *path, const char *at, const char *home)
{
	return x->hold == HOLD_ANYWHERE || (x->hold == HOLD_AT_HOME && at_home(path, at, home));
}

bool runs_inert(const char *name)
{
	size_t n = strcspn(name, "/");

	for (size_t i = 0; i < ARRAY_SIZE(inert); i++)
		if (strlen(inert[i]) == n && memcmp(inert[i], name, n) == 0)
			return true;
	return false;
}

const struct runs_entry *runs_held(
	const char *path, const char *home, size_t granted, size_t *ret_end)
{
	for (const char *at = path + 1; at && *at; at = next_part(at)) {
		if ((size_t)(at - path) > granted && runs_inert(at))
			return NULL;
		for (size_t i = 0; i < runs_table_n; i++) {
			const struct runs_entry *x = &runs_table[i];
			const char *end = x->hold != HOLD_NOT ? match_here(x->pattern, at) : NULL;

			if (!end || !holds(x, path, at, home) || (size_t)(end - path) <= granted)
				continue;
			if (ret_end)
				*ret_end = (size_t)(end - path);
			return x;
		}
	}
	return NULL;
}

/* A repository that is there has its hooks held by session/config/held.c, so the list does not. */
static const struct runs_entry hooks = {
	".git/hooks/", RUNS_HOOK, HOLD_ANYWHERE, "githooks(5), DESCRIPTION"};

static const char *directory_here(
	const struct runs_entry *x, const char *path, const char *at, const char *home)
{
	size_t n = strlen(x->pattern);

	return x->pattern[n - 1] == '/' && holds(x, path, at, home) ? match_here(x->pattern, at) : NULL;
}

const struct runs_entry *runs_inside(const char *path, const char *home, size_t *ret_end)
{
	for (const char *at = path + 1; at && *at; at = next_part(at)) {
		for (size_t i = 0; i <= runs_table_n; i++) {
			const struct runs_entry *x = i < runs_table_n ? &runs_table[i] : &hooks;
			const char *end = directory_here(x, path, at, home);

			if (!end)
				continue;
			if (ret_end)
				*ret_end = (size_t)(end - path);
			return x;
		}
	}
	return NULL;
}

bool runs_pattern(const char *pattern)
{
	const char *slash = strrchr(pattern, '/'), *name = slash ? slash + 1 : pattern;

	for (size_t i = 0; i < runs_table_n; i++) {
		const char *p = runs_table[i].pattern, *end = p + strlen(p), *from;

		if (runs_table[i].hold == HOLD_NOT)
			continue;
		end -= end[-1] == '/';
		for (from = end; from > p && from[-1] != '/';)
			from--;
		if (part_match(from, (size_t)(end - from), name, strlen(name)))
			return true;
	}
	return false;
}

const struct runs_entry *runs_marked(const char *path, size_t granted)
{
	path += MIN_OF(granted, strlen(path));
	path += *path == '/';
	for (const char *at = path; at; at = next_part(at))
		if (runs_inert(at))
			return NULL;
	return runs_find(path);
}

bool runs_held_below(const char *path, const char *home)
{
	for (const char *at = path + 1; at && *at; at = next_part(at))
		for (size_t i = 0; i < runs_table_n; i++)
			if (runs_table[i].hold != HOLD_NOT &&
				match_begin(runs_table[i].pattern, at) &&
				holds(&runs_table[i], path, at, home))
				return true;
	return false;
}

#define RUNS_PARTS_MAX 8

/* What a directory's name means for the names below it. */
struct standing {
	uint8_t begun[RUNS_TABLE_MAX]; /* bit n: n parts of the pattern are above */
	bool inert;
	bool above_home; /* the home directory is this one, or below it */
};

static void stand(struct standing *s, const char *path, const char *home)
{
	size_t n = strlen(path);

	*s = (struct standing){0};
	s->above_home = home && strncmp(home, path, n) == 0 && (home[n] == '/' || !home[n]);
	for (const char *at = path + 1; at && *at; at = next_part(at)) {
		s->inert = s->inert || runs_inert(at);
		for (size_t i = 0; i < MIN_OF(runs_table_n, (size_t)RUNS_TABLE_MAX); i++) {
			unsigned parts = runs_table[i].hold != HOLD_NOT
						 ? match_begin(runs_table[i].pattern, at)
						 : 0;

			if (parts && holds(&runs_table[i], path, at, home))
				s->begun[i] |= (uint8_t)(1u << MIN_OF(parts, RUNS_PARTS_MAX - 1u));
		}
	}
}

bool runs_held_alike(const char *a, const char *b, const char *home)
{
	struct standing x, y;

	stand(&x, a, home);
	stand(&y, b, home);
	return !x.above_home && !y.above_home && x.inert == y.inert &&
	       memcmp(x.begun, y.begun, sizeof(x.begun)) == 0;
}
