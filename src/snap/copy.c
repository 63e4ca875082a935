/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying by descriptor: see copy.h.
 *
 * Trust:   the source may be the user's live tree, changing meanwhile: everything is opened once
 *          without following a symlink, and what is copied is what was opened.
 * Failure: a file that could not be copied whole is removed again.
 */
#include "snap/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/forced.h"
#include "os/path.h"
#include "os/tree.h"

#define CHUNK_B 131072u

/* ------------------------------------------------------------------ one file */

/* [at, end) by the kernel where it can, else through memory. */
static int copy_range(int from, int to, off_t at, off_t end, char *chunk)
{
	bool kernel = !forced_fail("copy_file_range");

	while (at < end) {
		off_t in = at, out = at;
		size_t want = (size_t)MIN_OF((off_t)1 << 30, end - at);
		ssize_t n;

		if (kernel) {
			n = copy_file_range(from, &in, to, &out, want, 0);
			if (n < 0 && errno == EINTR)
				continue;
			if (n > 0) {
				at += n;
				continue;
			}
			kernel = false; /* another file system, an old kernel, or the end */
		}
		n = pread(from, chunk, MIN_OF(want, (size_t)CHUNK_B), at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0; /* it became shorter: the rest is a hole */
		for (ssize_t done = 0; done < n;) {
			ssize_t w = pwrite(to, chunk + done, (size_t)(n - done), at + done);

			if (w < 0 && errno == EINTR)
				continue;
			if (w < 0)
				return -errno;
			done += w;
		}
		at += n;
	}
	return 0;
}

static int copy_data(int from, int to, off_t size)
{
	cleanup_free char *chunk = malloc(CHUNK_B);
	off_t at = 0;
	int r;

	if (!chunk)
		return -ENOMEM;
	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break; /* nothing but a hole */
		if (data < 0)
			data = at; /* no such knowledge here: all of it is data */
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0 || hole > size)
			hole = size;
		if (hole <= data)
			break;
		r = copy_range(from, to, data, hole, chunk);
		if (r < 0)
			return r;
		at = hole;
	}
	return ftruncate(to, size) < 0 ? -errno : 0;
}

int copy_content(int from, int to, struct copy_stats *st, struct err *e)
{
	struct stat s;
	int r;

	if (fstat(from, &s) < 0)
		return err_set(e, errno, "look at a file to copy");
	if (!S_ISREG(s.st_mode))
		return err_invalid(e, "only a regular file has content to copy");
	if (s.st_size > 0 && !forced_fail("reflink") && ioctl(to, FICLONE, from) == 0) {
		if (st) {
			st->files++;
			st->bytes += (uint64_t)s.st_size;
			st->reflinked++;
		}
		return 0;
	}
	r = copy_data(from, to, s.st_size);
	if (r < 0)
		return err_set(e, -r, "copy a file's content");
	if (st) {
		st->files++;
		st->bytes += (uint64_t)s.st_size;
	}
	return 0;
}

/* ------------------------------------------------------------------ trees */

struct tree_copy {
	bool (*skip)(void *arg, const char *path);
	void *arg;
	struct copy_stats *st;
	struct err *e;
	char path[PATH_MAX]; /* relative to the first from_dir */
	size_t len;
};

static int failed(struct tree_copy *t, int errnum, const char *what)
{
	cleanup_buf struct buf b = BUF_INIT(ERR_MSG_MAX);

	str_show(&b, t->path, t->len);
	return err_set(t->e, errnum, "%s %s", what, buf_str(&b));
}

static void times_of(const struct stat *s, struct timespec ret[2])
{
	ret[0] = s->st_atim;
	ret[1] = s->st_mtim;
}

static int copy_one_file(struct tree_copy *t, int from_dir, int to_dir, const char *name)
{
	cleanup_fd int from =
		openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	cleanup_fd int to = -1;
	struct timespec times[2];
	struct stat s;
	int r = 0;

	if (from < 0 || fstat(from, &s) < 0)
		return failed(t, errno, "read");
	if (!S_ISREG(s.st_mode))
		return 0; /* became something else meanwhile: left out like one */
	to = openat(to_dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return failed(t, errno, "create");
	times_of(&s, times);
	r = copy_content(from, to, t->st, t->e);
	if (r < 0)
		r = err_wrap(t->e, "%s", name);
	else if (fchmod(to, s.st_mode & 0777) < 0 || futimens(to, times) < 0)
		r = failed(t, errno, "set mode and times of");
	if (r < 0)
		unlinkat(to_dir, name, 0);
	return r;
}

static int copy_link(
	struct tree_copy *t, int from_dir, int to_dir, const char *name, const struct stat *s)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);
	struct timespec times[2];

	if (n < 0)
		return failed(t, errno, "read the symlink");
	target[n] = '\0';
	if (symlinkat(target, to_dir, name) < 0)
		return failed(t, errno, "create the symlink");
	times_of(s, times);
	utimensat(to_dir, name, times, AT_SYMLINK_NOFOLLOW);
	if (t->st)
		t->st->files++;
	return 0;
}

static int copy_any(struct tree_copy *t, int from_dir, int to_dir, const char *name, int depth);

static int copy_below(struct tree_copy *t, int from, int to, int depth)
{
	cleanup_dir DIR *d = dir_list(from, ".");
	struct dirent *de;
	int r = 0;

	if (!d)
		return failed(t, errno, "list");
	while (r == 0 && (errno = 0, de = readdir(d))) {
		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		r = copy_any(t, from, to, de->d_name, depth + 1);
	}
	return r == 0 && errno ? failed(t, errno, "list") : r;
}

static int copy_dir(struct tree_copy *t, int from_dir, int to_dir, const char *name,
	const struct stat *s, int depth)
{
	cleanup_fd int from =
		openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_fd int to = -1;
	struct timespec times[2];
	int r;

	if (depth >= TREE_DEPTH_MAX)
		return failed(t, ELOOP, "too many directories in each other at");
	if (from < 0)
		return failed(t, errno, "open the directory");
	if (mkdirat(to_dir, name, 0700) < 0 && errno != EEXIST)
		return failed(t, errno, "create the directory");
	to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return failed(t, errno, "open the new directory");
	r = copy_below(t, from, to, depth);
	if (r < 0)
		return r;
	times_of(s, times);
	if (fchmod(to, s->st_mode & 0777) < 0 || futimens(to, times) < 0)
		return failed(t, errno, "set mode and times of");
	return 0;
}

static int copy_any(struct tree_copy *t, int from_dir, int to_dir, const char *name, int depth)
{
	size_t was = t->len, n = strlen(name);
	struct stat s;
	int r = 0;

	if (was + n + 2 > sizeof(t->path))
		return failed(t, ENAMETOOLONG, "too long a path below");
	t->len += (size_t)snprintf(
		t->path + was, sizeof(t->path) - was, "%s%s", was ? "/" : "", name);
	if (!t->skip || !t->skip(t->arg, t->path)) {
		if (fstatat(from_dir, name, &s, AT_SYMLINK_NOFOLLOW) < 0)
			r = errno == ENOENT && depth > 0 ? 0 : failed(t, errno, "look at");
		else if (S_ISDIR(s.st_mode))
			r = copy_dir(t, from_dir, to_dir, name, &s, depth);
		else if (S_ISREG(s.st_mode))
			r = copy_one_file(t, from_dir, to_dir, name);
		else if (S_ISLNK(s.st_mode))
			r = copy_link(t, from_dir, to_dir, name, &s);
	}
	t->len = was;
	t->path[was] = '\0';
	return r;
}

int copy_tree(int from_dir, int to_dir, const char *name, bool (*skip)(void *arg, const char *path),
	void *arg, struct copy_stats *st, struct err *e)
{
	struct tree_copy t = {.skip = skip, .arg = arg, .st = st, .e = e};

	return copy_any(&t, from_dir, to_dir, name, 0);
}

int copy_whiteout(int dir, const char *name, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(ERR_MSG_MAX);

	if (mknodat(dir, name, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	str_show(&b, name, strlen(name));
	return err_set(e, errno, "mark %s as deleted (a whiteout)", buf_str(&b));
}
