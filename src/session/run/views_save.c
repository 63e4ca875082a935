/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a private version back to the user's own files, when a person picks one.
 *
 * Trust:   the layer and the copy were written by sandboxes: only names, regular files and whiteouts in them
 *          mean anything, and each is opened once, below its directory, through no symlink. So is the place
 *          in the user's directory: a symlink there is not followed, and refused.
 * Failure: before anything is written, or the file is as it was: it is put in place whole, by rename.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/str.h"
#include "os/path.h"
#include "os/tree.h"
#include "session/config/state.h"
#include "session/run/views.h"

#define ENTRIES_MAX 65536u

/* The place of a view, locked: -ENOENT when no sandbox had it in this project. */
static int open_kept(const char *home, const char *workspace, const char *path, int *ret_lock,
	struct err *e)
{
	cleanup_fd int project = state_project(home, workspace, e);
	cleanup_fd int fd = -1;
	cleanup_fd int lock = -1;
	char name[40];
	struct digest d;

	if (project < 0)
		return project;
	digest_sha256(&d, path, strlen(path));
	snprintf(name, sizeof(name), "view-%.16s", d.hex);
	fd = openat(project, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : err_set(e, errno, "open the version of %s", path);
	lock = openat(fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (lock < 0)
		return err_set(e, errno, "lock the version of %s", path);
	if (flock(lock, LOCK_EX | LOCK_NB) < 0)
		return err_refuse(e, "a run in this project has the version of %s; wait for its end", path);
	*ret_lock = take_fd(&lock);
	return take_fd(&fd);
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* A regular file below dir: its content and mode. */
static int read_file(int dir, const char *name, struct buf *ret, mode_t *ret_mode)
{
	cleanup_fd int fd = path_open(
		dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, PATH_NO_SYMLINKS | PATH_BENEATH);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	*ret_mode = st.st_mode & 0755;
	return file_read_fd(fd, ret);
}

/* ---- what there is ---- */

struct lister {
	struct strlist *out;
	int host; /* the user's directory; -1: it is gone */
	int upper;
	size_t left; /* entries that may still be looked at */
	bool full;
	char path[PATH_MAX]; /* of what is looked at */
};

static void add(struct lister *l, const char *word, const char *path)
{
	char line[2 * PATH_MAX + 16];

	snprintf(line, sizeof(line), "%s %s", word, path);
	l->full = l->full || !strlist_add(l->out, line);
}

/* The sandbox removed a directory of the user's and made another one in its place. */
static bool is_opaque(int fd)
{
	char value[8];

	return fgetxattr(fd, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

static bool same(const struct lister *l, const char *path)
{
	cleanup_buf struct buf a = BUF_INIT(VIEW_FILE_MAX_B), b = BUF_INIT(VIEW_FILE_MAX_B);
	mode_t mode;

	return read_file(l->upper, path, &a, &mode) == 0 && read_file(l->host, path, &b, &mode) == 0 &&
	       a.len == b.len && memcmp(buf_str(&a), buf_str(&b), a.len) == 0;
}

static void look_at(struct lister *l, const struct stat *st)
{
	cleanup_fd int there = l->host < 0
				       ? -1
				       : path_open(l->host, l->path, O_PATH | O_NOFOLLOW, PATH_BENEATH);

	if (!(is_whiteout(st) ? there < 0 : there >= 0 && same(l, l->path)))
		add(l, is_whiteout(st) ? "deleted" : there >= 0 ? "changed" : "new", l->path);
}

/* What the user has below l->path and the layer has not. */
static bool visit_hidden(void *arg, const char *path, const struct stat *st)
{
	struct lister *l = arg;
	char full[2 * PATH_MAX];
	cleanup_fd int there = -1;

	if (l->left == 0 || snprintf(full, sizeof(full), "%s/%s", l->path, path) >= PATH_MAX) {
		l->full = true;
		return false;
	}
	l->left--;
	there = path_open(l->upper, full, O_PATH | O_NOFOLLOW, PATH_BENEATH | PATH_NO_SYMLINKS);
	if (there < 0)
		add(l, "deleted", full);
	return !l->full;
}

static void list_hidden(struct lister *l)
{
	cleanup_fd int dir = l->host < 0 ? -1
					 : path_open(l->host, l->path, O_RDONLY | O_DIRECTORY,
						   PATH_BENEATH | PATH_NO_SYMLINKS);

	if (dir >= 0 && !tree_walk(dir, ENTRIES_MAX, visit_hidden, l) && !l->full)
		add(l, "unreadable", l->path);
}

/* One directory of the layer, at l->path, which has `len` bytes. */
static void list_dir(struct lister *l, int at, const char *name, size_t len, int depth)
{
	cleanup_dir DIR *d = depth < TREE_DEPTH_MAX ? dir_list(at, name) : NULL;
	struct dirent *de;

	if (!d)
		add(l, "unreadable", len ? l->path : ".");
	else if (len && is_opaque(dirfd(d)))
		list_hidden(l);
	while (d && !l->full && (de = readdir(d))) {
		size_t n = strlen(de->d_name);
		struct stat st;

		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		if (l->left == 0 || len + n + 2 > sizeof(l->path)) {
			l->full = true;
			return;
		}
		l->left--;
		snprintf(l->path + len, sizeof(l->path) - len, "%s%s", len ? "/" : "", de->d_name);
		if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			add(l, "unreadable", l->path);
		else if (S_ISDIR(st.st_mode))
			list_dir(l, dirfd(d), de->d_name, len + n + (len ? 1 : 0), depth + 1);
		else
			look_at(l, &st);
		l->path[len] = '\0';
	}
}

int views_list(const char *home, const char *workspace, const char *path, struct strlist *ret,
	struct err *e)
{
	cleanup_fd int lock = -1;
	cleanup_fd int place = open_kept(home, workspace, path, &lock, e);
	cleanup_buf struct buf kept = BUF_INIT(VIEW_FILE_MAX_B), host = BUF_INIT(VIEW_FILE_MAX_B);
	cleanup_fd int upper = -1;
	cleanup_fd int dir = -1;
	struct lister l = {.out = ret, .left = ENTRIES_MAX};
	mode_t mode;
	int r;

	*ret = STRLIST_INIT(ENTRIES_MAX);
	if (place == -ENOENT)
		return 0;
	if (place < 0)
		return place;
	upper = openat(place, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper < 0) {
		r = read_file(place, "copy", &kept, &mode);
		if (r == -ENOENT ||
			(r == 0 && file_read_at(AT_FDCWD, path, &host) == 0 &&
				host.len == kept.len &&
				memcmp(buf_str(&host), buf_str(&kept), kept.len) == 0))
			return 0;
		return strlist_add(ret, r == 0 ? "changed ." : "unreadable .")
			       ? 0
			       : err_set(e, ENOMEM, "list the version of %s", path);
	}
	l.upper = upper;
	l.host = dir = path_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
	list_dir(&l, upper, ".", 0, 0);
	strlist_sort(ret);
	if (l.full)
		return err_refuse(e, "more than %u files were changed in the version of %s",
			ENTRIES_MAX, path);
	return 0;
}

/* ---- taking over ---- */

/* The directory around a name, in the user's; those that are missing are made. */
static int open_parent(int dir, const char *name, const char **ret_last)
{
	cleanup_fd int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	const char *p = name, *slash;

	for (; at >= 0 && (slash = strchr(p, '/')); p = slash + 1) {
		char part[NAME_MAX + 1];
		int next;

		if (slash == p || (size_t)(slash - p) > NAME_MAX)
			return -EINVAL;
		snprintf(part, sizeof(part), "%.*s", (int)(slash - p), p);
		if (strcmp(part, "..") == 0 || strcmp(part, ".") == 0)
			return -EINVAL;
		if (mkdirat(at, part, 0700) < 0 && errno != EEXIST)
			return -errno;
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(at);
		at = next;
	}
	*ret_last = p;
	if (at < 0)
		return -errno;
	return !*p || strcmp(p, "..") == 0 || strcmp(p, ".") == 0 ? -EINVAL : take_fd(&at);
}

/* A name that the layer has not: hidden, since a directory around it is another one than the user's. */
static bool is_hidden(int upper, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", name);
	for (char *slash = path; (slash = strchr(slash, '/')); slash++) {
		cleanup_fd int fd = -1;

		*slash = '\0';
		fd = path_open(upper, path, O_RDONLY | O_DIRECTORY, PATH_BENEATH | PATH_NO_SYMLINKS);
		*slash = '/';
		if (fd < 0)
			return false;
		if (is_opaque(fd))
			return true;
	}
	return false;
}

static int put(int dir, int from, const char *from_name, const char *name, bool *ret_gone)
{
	cleanup_buf struct buf text = BUF_INIT(VIEW_FILE_MAX_B);
	const char *last = NULL;
	cleanup_fd int parent = -1;
	struct stat st, now;
	mode_t mode = 0;
	bool there;
	cleanup_fd int look = path_open(from, from_name, O_PATH | O_NOFOLLOW, PATH_BENEATH);
	int r;

	if (look < 0 ? look != -ENOENT || !is_hidden(from, from_name) : fstat(look, &st) < 0)
		return look < 0 ? look : -errno;
	parent = open_parent(dir, name, &last);
	if (parent < 0)
		return parent;
	there = fstatat(parent, last, &now, AT_SYMLINK_NOFOLLOW) == 0;
	if (there && !S_ISREG(now.st_mode))
		return -EEXIST; /* a symlink, a directory: not for us to replace */
	if (look < 0 || is_whiteout(&st)) {
		*ret_gone = true;
		return unlinkat(parent, last, 0) < 0 && errno != ENOENT ? -errno : 0;
	}
	r = read_file(from, from_name, &text, &mode);
	/* A sandbox opens no file of the user's to others: it keeps its mode, and a new one is private. */
	mode = there ? now.st_mode & 0777 : (mode & 0100) | 0600;
	return r < 0 ? r : file_replace_at(parent, last, buf_str(&text), text.len, mode);
}

int views_save(const char *home, const char *workspace, const char *path, const char *name,
	struct err *e)
{
	cleanup_fd int lock = -1;
	cleanup_fd int place = open_kept(home, workspace, path, &lock, e);
	cleanup_fd int upper = -1;
	cleanup_fd int dir = -1;
	char around[PATH_MAX];
	bool gone = false;
	int r;

	if (place == -ENOENT)
		return err_invalid(e, "no sandbox of this project had a version of %s", path);
	if (place < 0)
		return place;
	snprintf(around, sizeof(around), "%s", path);
	if (strcmp(name, ".") == 0)
		*strrchr(around, '/') = '\0';
	dir = path_open(AT_FDCWD, around[0] ? around : "/", O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
	if (dir < 0)
		return err_set(e, -dir, "open %s", around);
	if (strcmp(name, ".") == 0) {
		r = put(dir, place, "copy", strrchr(path, '/') + 1, &gone);
	} else {
		upper = openat(place, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = upper < 0 ? -ENOENT : put(dir, upper, name, name, &gone);
	}
	if (r == -EBADMSG || r == -ELOOP || r == -EEXIST || r == -EINVAL)
		return err_refuse(e,
			"%s/%s cannot be taken over: it is not a regular file on both sides", path, name);
	return r < 0 ? err_set(e, -r, "take over %s/%s", path, name) : 0;
}
