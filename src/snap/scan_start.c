/* SPDX-License-Identifier: Apache-2.0 */
/* What a scan compares with: a tree of Git's, or a live directory. See scan_impl.h. */
#include "snap/scan_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"
#include "snap/parent.h"

static unsigned git_mode(const struct stat *st)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFDIR:
		return 040000;
	case S_IFREG:
		return st->st_mode & 0100 ? 0100755 : 0100644;
	case S_IFLNK:
		return 0120000;
	default:
		return 0;
	}
}

/* The object at a path below a directory, itself; never behind a symlink. */
int stat_below(int root, const char *path, struct stat *ret)
{
	const char *name;
	cleanup_fd int dir = parent_open(root, path, &name);

	return dir < 0 ? -1 : fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW);
}

int read_link_below(int root, const char *path, char target[PATH_MAX])
{
	const char *name;
	cleanup_fd int dir = parent_open(root, path, &name);
	ssize_t n = dir < 0 ? -1 : readlinkat(dir, name, target, PATH_MAX - 1);

	if (n < 0)
		return -1;
	target[n] = '\0';
	return 0;
}

bool start_is_live(const struct walk *w)
{
	return !w->s->start && w->s->live_fd >= 0;
}

bool start_is_repository(const struct walk *w)
{
	return start_is_live(w) && w->s->repo && w->s->repo->git_dir;
}

unsigned start_find(const struct walk *w, const char *path, struct oid *ret)
{
	struct stat st;

	*ret = (struct oid){0};
	if (w->s->start)
		return treemap_find(w->s->start, path, ret);
	if (w->s->live_fd < 0)
		return 0;
	return stat_below(w->s->live_fd, path, &st) < 0 ? 0 : git_mode(&st);
}

int start_list(const struct walk *w, const char *dir,
	int (*visit)(void *arg, const char *name, unsigned mode, const struct oid *o), void *arg)
{
	static const struct oid none;
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	int fd, r = 0;

	if (w->s->start)
		return treemap_list(w->s->start, dir, visit, arg);
	if (w->s->live_fd < 0)
		return 0;
	fd = path_open(w->s->live_fd, *dir ? dir : ".", O_RDONLY | O_DIRECTORY,
		PATH_NO_SYMLINKS | PATH_BENEATH);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (de = readdir(d))) {
		struct stat st;

		if (str_eq(de->d_name, ".") || str_eq(de->d_name, "..") ||
			(!*dir && str_eq(de->d_name, ".git")) ||
			fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = visit(arg, de->d_name, git_mode(&st), &none);
	}
	return r;
}

/* ------------------------------------------------------------------ what is gone */

/*
 * In a sparse checkout most of the start is not there to be deleted: only what the base really shows
 * can be gone.
 */
static bool was_shown(const struct walk *w, const char *path)
{
	struct stat st;

	if (!w->s->repo || !w->s->repo->sparse || w->base_fd < 0)
		return true;
	return stat_below(w->base_fd, path, &st) == 0;
}

struct gone {
	struct walk *w;
	const char *dir;
	unsigned flags;
	struct strlist dirs; /* yet to be listed */
};

static int gone_one(struct gone *g, const char *path, unsigned mode, const struct oid *o)
{
	struct item *it;

	if (mode == 040000)
		return strlist_add(&g->dirs, path) ? 0 : walk_no_memory(g->w);
	if (mode == 0 || !was_shown(g->w, path))
		return 0;
	it = walk_item(g->w, "", path);
	if (!it)
		return walk_no_memory(g->w);
	it->layer = ITEM_GONE;
	it->old_mode = mode;
	it->old = *o;
	it->flags = g->flags;
	if (mode == 0160000)
		it->flags |= CHANGE_SUBMODULE;
	return 0;
}

static int gone_visit(void *arg, const char *name, unsigned mode, const struct oid *o)
{
	struct gone *g = arg;
	cleanup_free char *path = path_join(g->dir, name);

	return path ? gone_one(g, path, mode, o) : walk_no_memory(g->w);
}

int start_gone(struct walk *w, const char *path, unsigned mode, const struct oid *o, unsigned flags)
{
	struct gone g = {.w = w, .flags = flags, .dirs = STRLIST_INIT(CHANGES_MAX)};
	int r = gone_one(&g, path, mode, o);

	while (r == 0 && g.dirs.n > 0) {
		cleanup_free char *dir = g.dirs.v[--g.dirs.n];

		g.dir = dir;
		r = start_list(w, dir, gone_visit, &g);
		if (r < 0 && w->e->kind == ERR_NONE)
			r = walk_fail(w, -r, "list what was at", dir);
	}
	strlist_done(&g.dirs);
	return r;
}
