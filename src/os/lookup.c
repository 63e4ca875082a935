/* SPDX-License-Identifier: Apache-2.0 */
/* What is at many paths: see lookup.h. */
#include "os/lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/path.h"

#define STEPS_MAX 3

static size_t held(const struct lookup *l)
{
	return MIN_OF(l->n, (size_t)LOOKUP_DIRS);
}

/* The open directory of the first n bytes of a path, or -errno. */
static int enter(struct lookup *l, const char *path, size_t n)
{
	struct lookup_dir *d;

	for (size_t i = 0; i < held(l); i++) {
		size_t len = strlen((d = &l->dir[i])->path);

		if (len <= n && memcmp(d->path, path, len) == 0 &&
			(len == n || (d->fd == -ENOENT && path[len] == '/')))
			return d->fd; /* nothing is below what is not there */
	}
	d = &l->dir[l->n % LOOKUP_DIRS];
	if (l->n++ >= LOOKUP_DIRS && d->fd >= 0)
		close(d->fd);
	memcpy(d->path, path, n);
	d->path[n] = '\0';
	d->fd = path_open(AT_FDCWD, d->path, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS);
	return d->fd;
}

/* As lookup_path(); a symlink's text goes to `link`, unless that is NULL. */
static int look(struct lookup *l, const char *path, struct stat *ret, char *link, size_t size)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	struct stat st;
	ssize_t len;
	int dir;

	if (!path_is_normal(path) || !slash[1] || n >= LOOKUP_DIR_MAX)
		return LOOKUP_UNPLAIN;
	dir = enter(l, path, n ? n : 1);
	if (dir < 0)
		return dir == -ELOOP ? LOOKUP_UNPLAIN : dir;
	if (fstatat(dir, slash + 1, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return -errno;
	if (!S_ISLNK(st.st_mode)) {
		*ret = st;
		return LOOKUP_PLAIN;
	}
	if (link) {
		len = readlinkat(dir, slash + 1, link, size - 1);
		if (len <= 0 || (size_t)len == size - 1)
			return LOOKUP_UNPLAIN;
		link[len] = '\0';
	}
	return LOOKUP_LINK;
}

int lookup_path(struct lookup *l, const char *path, struct stat *ret)
{
	return look(l, path, ret, NULL, 0);
}

int lookup_follow(
	struct lookup *l, const char *path, char *ret_canonical, size_t size, struct stat *ret)
{
	char now[PATH_MAX], next[PATH_MAX], link[PATH_MAX];
	int r, len = snprintf(now, sizeof(now), "%s", path);

	for (int step = 0; len > 0 && (size_t)len < MIN_OF(sizeof(now), size); step++) {
		r = look(l, now, ret, link, sizeof(link));
		if (r == LOOKUP_PLAIN)
			memcpy(ret_canonical, now, (size_t)len + 1);
		if (r != LOOKUP_LINK || step == STEPS_MAX)
			return r == LOOKUP_LINK ? LOOKUP_UNPLAIN : r;
		/* Anything less plain ("..") is the kernel's to follow: look() says so. */
		len = link[0] == '/' ? snprintf(next, sizeof(next), "%s", link)
				     : snprintf(next, sizeof(next), "%.*s/%s",
					       (int)(strrchr(now, '/') - now), now, link);
		if (len > 0 && (size_t)len < sizeof(now))
			memcpy(now, next, (size_t)len + 1);
	}
	return LOOKUP_UNPLAIN;
}

void lookup_done(struct lookup *l)
{
	for (size_t i = 0; i < held(l); i++)
		if (l->dir[i].fd >= 0)
			close(l->dir[i].fd);
	l->n = 0;
}
