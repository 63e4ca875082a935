/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user's own repository says about a live directory: which files are tracked although the rules
 * ignore them, and where other repositories lie in it. See scan_impl.h.
 *
 * Trust:  git runs as user, in the user's repository, on the user's index; it is told nothing that a
 *         sandbox wrote.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/program.h"
#include "git/repo.h"
#include "snap/scan_impl.h"

#define LIST_MAX_B ((size_t)512 << 20)

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The first of a sorted list that is not before s. */
static size_t lower_bound(const struct strlist *l, const char *s)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(l->v[mid], s) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* ------------------------------------------------------------------ tracked and ignored */

/* Few if any, so one question for all; check-ignore would go through the index for every path. */
static int find_tracked(struct walk *w)
{
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	struct git_run g = {.argv = (const char *const[]){"ls-files", "-z", "--cached", "--ignored",
				    "--exclude-standard", NULL},
		.out = &out};
	int r = repo_git(w->s->repo, &g, w->e);

	if (r < 0)
		return err_wrap(w->e, "ask git which ignored files are tracked");
	w->tracked = STRLIST_INIT(CHANGES_MAX);
	for (size_t at = 0; at < out.len; at += strlen(out.data + at) + 1)
		if (!strlist_add(&w->tracked, out.data + at))
			return walk_no_memory(w);
	if (w->tracked.n)
		qsort(w->tracked.v, w->tracked.n, sizeof(char *), by_text);
	w->tracked_known = true;
	return 0;
}

int live_tracked(struct walk *w, const char *path, bool is_dir)
{
	cleanup_free char *dir = NULL;
	size_t at;
	int r = w->tracked_known ? 0 : find_tracked(w);

	if (r < 0 || w->tracked.n == 0)
		return r;
	at = lower_bound(&w->tracked, path);
	if (at < w->tracked.n && str_eq(w->tracked.v[at], path))
		return 1;
	if (!is_dir)
		return 0;
	if (asprintf(&dir, "%s/", path) < 0) {
		dir = NULL;
		return walk_no_memory(w);
	}
	at = lower_bound(&w->tracked, dir);
	return at < w->tracked.n && str_starts(w->tracked.v[at], dir);
}

/* ------------------------------------------------------------------ repositories inside */

/* "MODE OID STAGE<TAB>PATH NUL" …: those that are submodules. */
static int take_index(struct walk *w, const struct buf *out, struct strlist *ret)
{
	for (size_t at = 0; at < out->len; at += strlen(out->data + at) + 1) {
		const char *line = out->data + at, *tab = strchr(line, '\t');

		if (tab && str_starts(line, "160000 ") && !strlist_add(ret, tab + 1))
			return walk_no_memory(w);
	}
	return 0;
}

/* ":OLD NEW OID OID STATUS NUL PATH NUL" …: those that HEAD has as submodules. */
static int take_head(struct walk *w, const struct buf *out, struct strlist *ret)
{
	size_t at = 0;

	while (at < out->len) {
		const char *line = out->data + at, *path;

		at += strlen(line) + 1;
		if (at >= out->len)
			return err_set(w->e, EBADMSG, "git diff-index answered oddly");
		path = out->data + at;
		at += strlen(path) + 1;
		if (str_starts(line, ":160000 ") && !strlist_add(ret, path))
			return walk_no_memory(w);
	}
	return 0;
}

/* Submodules of the index, and of HEAD where the index differs. */
static int find_gitlinks(struct walk *w, struct strlist *ret)
{
	cleanup_buf struct buf index = BUF_INIT(LIST_MAX_B), head = BUF_INIT(LIST_MAX_B);
	struct git_run g = {
		.argv = (const char *const[]){"ls-files", "-z", "--stage", NULL}, .out = &index};
	int r = repo_git(w->s->repo, &g, w->e);

	if (r == 0)
		r = take_index(w, &index, ret);
	if (r == 0) {
		g = (struct git_run){
			.argv = (const char *const[]){"diff-index", "-z", "--raw", "--cached",
				"--no-renames", "--ignore-submodules=none", "HEAD", "--", NULL},
			.out = &head,
			.any_status = true}; /* before the first commit there is no HEAD */
		r = repo_git(w->s->repo, &g, w->e);
		if (r == 0 && g.status == 0)
			r = take_head(w, &head, ret);
	}
	if (r < 0)
		return err_wrap(w->e, "ask git for submodules");
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(char *), by_text);
	return 0;
}

/* Has the live directory a repository of its own at this path? */
static bool has_git(const struct walk *w, const char *path)
{
	cleanup_free char *git = path_join(path, ".git");
	struct stat st;

	return !git || stat_below(w->s->live_fd, git, &st) == 0;
}

static bool is_listed(const struct strlist *l, const char *path)
{
	size_t at = lower_bound(l, path);

	return at < l->n && str_eq(l->v[at], path);
}

/* Is the path, or a directory above it, a repository? dir: the last directory asked about. */
static int in_submodule(
	struct walk *w, const struct strlist *links, const char *path, char **dir, bool *ret)
{
	cleanup_free char *p = strdup(path);
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	bool in = false;

	if (!p)
		return walk_no_memory(w);
	if (is_listed(links, p) || has_git(w, p))
		return 1;
	p[n] = '\0';
	if (*dir && str_eq(*dir, p))
		return *ret;
	for (size_t i = 1; !in && i <= n; i++) {
		char c = p[i];

		if (c && c != '/')
			continue;
		p[i] = '\0';
		in = is_listed(links, p) || has_git(w, p);
		p[i] = c;
	}
	free(*dir);
	*dir = take_ptr(p);
	*ret = in;
	return in;
}

int live_submodules(struct walk *w)
{
	cleanup_strlist struct strlist links = STRLIST_INIT(CHANGES_MAX);
	cleanup_free char *dir = NULL;
	bool in = false;
	int r = 0;

	if (!start_is_live(w) || w->n == 0)
		return 0;
	if (start_is_repository(w))
		r = find_gitlinks(w, &links);
	for (size_t i = 0; r >= 0 && i < w->n; i++) {
		r = in_submodule(w, &links, w->v[i].path, &dir, &in);
		if (r > 0)
			w->v[i].flags |= CHANGE_SUBMODULE;
	}
	return r < 0 ? r : 0;
}
