/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths to descriptors, and small whole-file operations: see path.h.
 *
 * Trust: a path given here may be under an attacker's control between two calls, so every function
 *        resolves once and hands back the descriptor; nobody resolves the same name again.
 */
#include "os/path.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/forced.h"
#include "os/uapi.h"

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20 /* 5.12 */
#endif

int path_openat2(int dirfd, const char *path, const struct open_how *how)
{
	bool again = (how->resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) &&
		     !(how->resolve & RESOLVE_CACHED);
	int fd = -1;

	for (int i = 0; i < (again ? PATH_SCOPED_TRIES : 1); i++) {
		fd = (int)syscall(SYS_openat2, dirfd, path, how, sizeof(*how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd;
}

/* Fallback without openat2: one component at a time, never through a symlink. */
static int path_walk(int dirfd, const char *path, int oflags, unsigned flags)
{
	cleanup_fd int cur = -1;
	char name[NAME_MAX + 1];
	const char *p = path;

	if (*p == '/') {
		if (flags & PATH_BENEATH)
			return -EXDEV;
		cur = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	} else {
		cur = openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	if (cur < 0)
		return -errno;
	for (;;) {
		size_t n;
		bool last;
		int next;

		p += strspn(p, "/");
		n = strcspn(p, "/");
		if (n == 0)
			break;
		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, p, n);
		name[n] = '\0';
		p += n;
		last = p[strspn(p, "/")] == '\0';
		if (str_eq(name, ".."))
			return -EXDEV;
		next = openat(cur, name,
			(last ? oflags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC, 0644);
		if (next < 0)
			return errno == ENOTDIR && !last ? -ELOOP : -errno;
		close(cur);
		cur = next;
		if (last) {
			struct stat st;

			/* O_PATH|O_NOFOLLOW opens a symlink itself: refuse it as openat2 would. */
			if ((oflags & O_PATH) && fstat(cur, &st) == 0 && S_ISLNK(st.st_mode))
				return -ELOOP;
			return take_fd(&cur);
		}
	}
	/* "/" or "." itself */
	return openat(cur, ".", oflags | O_CLOEXEC);
}

int path_open(int dirfd, const char *path, int oflags, unsigned flags)
{
	struct open_how how = {.flags = (uint64_t)(oflags | O_CLOEXEC)};
	static int missing = -1;
	int fd;

	if (missing < 0)
		missing = forced_fail("openat2");
	how.mode = oflags & O_CREAT ? 0644 : 0;
	how.resolve = RESOLVE_NO_MAGICLINKS;
	if (flags & PATH_NO_SYMLINKS)
		how.resolve |= RESOLVE_NO_SYMLINKS;
	if (flags & PATH_BENEATH)
		how.resolve |= RESOLVE_BENEATH;
	if (!missing) {
		fd = path_openat2(dirfd, path, &how);
		if (fd >= 0)
			return fd;
		if (errno != ENOSYS && errno != EPERM)
			return -errno;
		/* EPERM: an outer seccomp filter may refuse what it does not know. */
	}
	return path_walk(dirfd, path, oflags, flags);
}

int path_of_fd(int fd, char *ret, size_t size)
{
	char link[40];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, size - 1);
	if (n < 0)
		return -errno;
	if ((size_t)n >= size - 1)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	if (ret[0] != '/')
		return -ENOENT;
	if (str_ends(ret, " (deleted)")) {
		struct stat a, b;

		/* A file may really be called that: it is deleted unless the name leads back to it. */
		if (fstat(fd, &a) || lstat(ret, &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
			return -ENOENT;
	}
	return 0;
}

bool path_is_normal(const char *path)
{
	size_t n = strlen(path);

	if (path[0] != '/' || strstr(path, "//"))
		return false;
	for (const char *p = path; (p = strstr(p, "/.")); p++)
		if (p[2] == '/' || !p[2] || (p[2] == '.' && (p[3] == '/' || !p[3])))
			return false;
	return n == 1 || path[n - 1] != '/';
}

/*
 * One step along a plain symlink: if `path` itself is one, put where it leads into ret. Anything less
 * plain (a link in the middle, "..") is left to the kernel.
 */
static bool follow_last(const char *path, char *ret, size_t size)
{
	const char *slash = strrchr(path, '/');
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	int len;

	if (n <= 0)
		return false;
	target[n] = '\0';
	if (target[0] == '/')
		len = snprintf(ret, size, "%s", target);
	else
		len = snprintf(ret, size, "%.*s/%s", (int)(slash - path), path, target);
	return len > 0 && (size_t)len < size && path_is_normal(ret);
}

int path_resolve(const char *path, char *ret_canonical, size_t size)
{
	cleanup_fd int fd = -1;
	char now[PATH_MAX];
	int r;

	if (path_is_normal(path) && strlen(path) < sizeof(now)) {
		memcpy(now, path, strlen(path) + 1);
		for (int step = 0; step < 3; step++) {
			char next[PATH_MAX];

			/* Without a symlink on the way the name is canonical already. */
			fd = path_open(AT_FDCWD, now, O_PATH, PATH_NO_SYMLINKS);
			if (fd >= 0) {
				if (strlen(now) >= size)
					return -ENAMETOOLONG;
				memcpy(ret_canonical, now, strlen(now) + 1);
				return take_fd(&fd);
			}
			if (fd != -ELOOP || !follow_last(now, next, sizeof(next)))
				break;
			memcpy(now, next, strlen(next) + 1);
		}
		if (fd != -ELOOP && fd != -EXDEV)
			return take_fd(&fd);
	}
	fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = path_of_fd(fd, ret_canonical, size);
	if (r < 0)
		return r;
	return take_fd(&fd);
}

int file_read_fd(int fd, struct buf *ret)
{
	char chunk[4096];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		buf_add(ret, chunk, (size_t)n);
		if (ret->failed)
			return -EFBIG;
	}
}

int file_read_at(int dirfd, const char *path, struct buf *ret)
{
	cleanup_fd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	return file_read_fd(fd, ret);
}

int fd_write_all(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n > 0) {
		ssize_t w = write(fd, s, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		s += w;
		n -= (size_t)w;
	}
	return 0;
}

int file_poke_at(int dirfd, const char *path, const char *text)
{
	cleanup_fd int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0)
		return -errno;
	if (write(fd, text, n) != (ssize_t)n)
		return errno ? -errno : -EIO;
	return 0;
}

static int replace(int dirfd, const char *name, const void *p, size_t n, mode_t mode, bool sync)
{
	cleanup_fd int fd = -1, dir = -1;
	char tmp[NAME_MAX + 1];
	int r;

	if (snprintf(tmp, sizeof(tmp), ".%.200s.%d.tmp", name, getpid()) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0 && errno == EEXIST) { /* left by a process that died with our number */
		unlinkat(dirfd, tmp, 0);
		fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	}
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, p, n);
	if (r == 0 && sync && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dirfd, tmp, 0);
	if (r == 0 && sync) {
		dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || fsync(dir) < 0)
			r = -errno;
	}
	return r;
}

int file_replace_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode)
{
	return replace(dirfd, name, p, n, mode, false);
}

int file_replace_synced_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode)
{
	return replace(dirfd, name, p, n, mode, true);
}

bool fd_settles_all(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC);
}

void fd_begin_to_disk(int fd)
{
	sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int fd_send_to_disk(int fd)
{
	if (!fd_settles_all(fd))
		return fsync(fd) < 0 ? -errno : 0;
	if (sync_file_range(fd, 0, 0,
		    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			    SYNC_FILE_RANGE_WAIT_AFTER) < 0 &&
		fsync(fd) < 0)
		return -errno;
	return 0;
}

int dir_flush(int dirfd)
{
	cleanup_fd int dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;

	if (dir < 0)
		return -errno;
	if (fd_settles_all(dir))
		fd = openat(dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd < 0)
		return syncfs(dir) < 0 ? -errno : 0;
	/* A byte of its own, or there would be nothing to flush and the device's cache stayed. */
	return fd_write_all(fd, "x", 1) < 0 || fsync(fd) < 0 ? -errno : 0;
}

int dir_make(const char *path, mode_t mode)
{
	cleanup_fd int cur = -1;
	char name[NAME_MAX + 1];
	const char *p = path;

	if (*p != '/')
		return -EINVAL;
	cur = path_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS);
	if (cur >= 0)
		return take_fd(&cur); /* as almost always */
	cur = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (cur < 0)
		return -errno;
	for (;;) {
		size_t n;
		int next;

		p += strspn(p, "/");
		n = strcspn(p, "/");
		if (n == 0)
			return take_fd(&cur);
		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, p, n);
		name[n] = '\0';
		p += n;
		if (mkdirat(cur, name, mode) < 0 && errno != EEXIST)
			return -errno;
		next = openat(cur, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(cur);
		cur = next;
	}
}

bool fd_born(int fd, struct timespec *ret)
{
	enum { K_STATX_BTIME = 0x800 };
	/* struct statx, as far as it matters; not every libc declares it. */
	struct {
		uint32_t mask;
		char before[76];
		int64_t sec;
		uint32_t nsec;
		char after[164];
	} x = {0};

	static_assert(offsetof(__typeof__(x), sec) == 80 && sizeof(x) == 256, "struct statx");
	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, K_STATX_BTIME, &x) < 0 ||
		!(x.mask & K_STATX_BTIME))
		return false;
	*ret = (struct timespec){.tv_sec = x.sec, .tv_nsec = x.nsec};
	return true;
}
