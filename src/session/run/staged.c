/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at staged workspaces from outside: see staged.h. */
#include "session/run/staged.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"
#include "os/tree.h"

#define LAYERS_LOOKED_AT 256

struct look {
	struct record *record;
	const char *workspace;
	int upper;
	int lower[LAYERS_LOOKED_AT]; /* newest first */
	size_t lower_n;
	const struct timespec *since;
	char dir[PATH_MAX]; /* the directory looked at last, and whether it changed */
	bool dir_fresh;
};

bool staged_moot(const struct staging *s, const struct policy *p, const struct policy_rule *r)
{
	cleanup_free char *base = r->glob ? policy_glob_base(r->path) : NULL;
	const char *path = r->glob ? base : r->path;
	size_t n = strlen(s->trees[0].dst);

	if (r->access == ACCESS_DENY || !path || strncmp(path, s->trees[0].dst, n) != 0 ||
		policy_access(p, s->trees[0].dst, NULL) != ACCESS_WRITE)
		return false;
	return path[n] == '/' || (r->glob && !path[n]);
}

bool staged_below_denied(const struct policy *p, const struct policy_rule *r)
{
	char parent[POLICY_PATH_MAX];
	const char *slash = strrchr(r->path, '/');

	if (!slash || slash == r->path || (size_t)(slash - r->path) >= sizeof(parent))
		return false;
	snprintf(parent, sizeof(parent), "%.*s", (int)(slash - r->path), r->path);
	return policy_access(p, parent, NULL) == ACCESS_DENY;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* Whiteouts of one mount share an inode, whose links (and ctime) change until the next mount. */
static bool is_fresh(const struct look *l, const struct stat *st)
{
	const struct timespec *t = is_whiteout(st) ? &st->st_mtim : &st->st_ctim;

	if (t->tv_sec != l->since->tv_sec)
		return t->tv_sec > l->since->tv_sec;
	return t->tv_nsec >= l->since->tv_nsec;
}

/* A file keeps its times when a directory around it is moved. */
static bool in_fresh_dir(struct look *l, const char *path)
{
	const char *end = strrchr(path, '/');
	char dir[PATH_MAX];
	bool fresh = false;

	if (!end || (size_t)(end - path) >= sizeof(dir))
		return false;
	snprintf(dir, sizeof(dir), "%.*s", (int)(end - path), path);
	if (str_eq(dir, l->dir))
		return l->dir_fresh;
	for (const char *s = dir; s && !fresh; s = strchr(s + 1, '/')) {
		char part[PATH_MAX];
		cleanup_fd int fd = -1;
		struct stat st;
		const char *stop = strchr(s + (s != dir), '/');

		snprintf(part, sizeof(part), "%.*s", (int)(stop ? stop - dir : (long)strlen(dir)),
			dir);
		fd = path_open(l->upper, part, O_PATH, PATH_NO_SYMLINKS | PATH_BENEATH);
		fresh = fd < 0 || fstat(fd, &st) < 0 || is_fresh(l, &st);
	}
	memcpy(l->dir, dir, sizeof(dir));
	l->dir_fresh = fresh;
	return fresh;
}

/* In the newest layer that says something about it. */
static bool existed(const struct look *l, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	for (size_t i = 0; i < l->lower_n; i++) {
		cleanup_fd int fd = path_open(
			l->lower[i], dir, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
		struct stat st;

		if (fd >= 0 && fstatat(fd, slash ? slash + 1 : path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return !is_whiteout(&st);
	}
	return false;
}

static bool visit(void *arg, const char *path, const struct stat *st)
{
	struct look *l = arg;
	char full[2 * PATH_MAX];

	if (str_starts(path, ".git/") || str_eq(path, ".git"))
		return true;
	if (!is_fresh(l, st) && !in_fresh_dir(l, path))
		return true;
	snprintf(full, sizeof(full), "%s/%s", l->workspace, path);
	record_change(l->record, full,
		is_whiteout(st)    ? FILE_DELETED
		: existed(l, path) ? FILE_MODIFIED
				   : FILE_CREATED);
	return true;
}

bool staged_changes(
	struct record *r, int upper, const struct staging *s, const struct timespec *since)
{
	struct look l = {.record = r, .workspace = s->trees[0].dst, .upper = upper, .since = since};
	bool all;

	for (const char *const *v = s->trees[0].lower; *v && l.lower_n < LAYERS_LOOKED_AT; v++) {
		int fd = path_open(AT_FDCWD, *v, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS);

		if (fd >= 0)
			l.lower[l.lower_n++] = fd;
	}
	all = tree_walk(upper, STAGED_FILES_MAX, visit, &l);
	while (l.lower_n > 0)
		close(l.lower[--l.lower_n]);
	return all;
}
