/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile directory trees: see tree.h. */
#include "os/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool is_dots(const char *n)
{
	return n[0] == '.' && (!n[1] || (n[1] == '.' && !n[2]));
}

DIR *dir_list(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d;

	if (fd < 0)
		return NULL;
	d = fdopendir(fd);
	if (!d)
		close(fd);
	return d;
}

/* A directory without permission is still ours to remove; moving one takes the right to write it. */
static int make_ours(int at, const char *name)
{
	int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char link[40];

	if (fd >= 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		chmod(link, 0700);
	}
	return fd;
}

/*
 * Take one directory out of `top`: files go at once, directories move up into `top` under names of our
 * own, to be taken out in their turn. So no depth costs more than two open directories.
 */
static int empty_into(int top, const char *name, unsigned *serial)
{
	cleanup_fd int path = make_ours(top, name);
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	int r = 0;

	if (path < 0)
		return -errno;
	d = dir_list(path, ".");
	if (!d)
		return -errno;
	while ((de = readdir(d))) {
		cleanup_fd int below = -1;
		char up[40];

		if (is_dots(de->d_name) || unlinkat(dirfd(d), de->d_name, 0) == 0 ||
			unlinkat(dirfd(d), de->d_name, AT_REMOVEDIR) == 0)
			continue;
		below = make_ours(dirfd(d), de->d_name);
		do
			snprintf(up, sizeof(up), ".croft-remove-%u", (*serial)++);
		while (syscall(SYS_renameat2, dirfd(d), de->d_name, top, up, 1u /* NOREPLACE */) <
				0 &&
			errno == EEXIST);
		if (faccessat(dirfd(d), de->d_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			r = -EBUSY;
	}
	return r;
}

int tree_remove_at(int at, const char *name)
{
	cleanup_fd int top = -1;
	unsigned serial = 0;
	int r = 0;

	if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
		return 0;
	top = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0)
		return -errno;
	for (;;) {
		cleanup_dir DIR *d = NULL;
		struct dirent *de;
		bool progress = false;

		if (serial == 0)
			fchmodat(at, name, 0700, 0);
		d = dir_list(top, ".");
		if (!d)
			return -errno;
		while ((de = readdir(d))) {
			if (is_dots(de->d_name))
				continue;
			if (unlinkat(top, de->d_name, 0) < 0 &&
				unlinkat(top, de->d_name, AT_REMOVEDIR) < 0) {
				int r2 = empty_into(top, de->d_name, &serial);

				if (r2 < 0 || unlinkat(top, de->d_name, AT_REMOVEDIR) < 0) {
					r = r2 ? r2 : -errno;
					continue;
				}
			}
			progress = true;
		}
		if (!progress)
			break;
	}
	return unlinkat(at, name, AT_REMOVEDIR) == 0 ? 0 : r ? r : -errno;
}

struct walk {
	bool (*visit)(void *arg, const char *path, const struct stat *st);
	void *arg;
	uint64_t left;
	char path[PATH_MAX];
};

static bool walk_level(struct walk *w, int at, const char *name, size_t len, int depth)
{
	cleanup_dir DIR *d = dir_list(at, name);
	struct dirent *de;

	if (!d)
		return false;
	while ((de = readdir(d))) {
		size_t n = strlen(de->d_name);
		struct stat st;

		if (is_dots(de->d_name))
			continue;
		if (w->left-- == 0 || depth >= TREE_DEPTH_MAX || len + n + 2 > sizeof(w->path))
			return false;
		snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len ? "/" : "", de->d_name);
		if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode)) {
			if (!walk_level(
				    w, dirfd(d), de->d_name, len + n + (len ? 1 : 0), depth + 1))
				return false;
		} else if (!w->visit(w->arg, w->path, &st)) {
			return false;
		}
		w->path[len] = '\0';
	}
	return true;
}

bool tree_walk(int fd, uint64_t max,
	bool (*visit)(void *arg, const char *path, const struct stat *st), void *arg)
{
	struct walk w = {.visit = visit, .arg = arg, .left = max};

	return walk_level(&w, fd, ".", 0, 0);
}
