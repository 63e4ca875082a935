/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths become file descriptors once. openat2 where the kernel has it, a component-wise O_NOFOLLOW
 * walk where it does not; both refuse symlinks and magic links unless told otherwise.
 */
#ifndef CROFT_OS_PATH_H
#define CROFT_OS_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

struct open_how; /* linux/openat2.h */

#define PATH_NO_SYMLINKS 1u /* any symlink on the way is ELOOP */
#define PATH_BENEATH 2u     /* may not leave dirfd by "..", absolute path or symlink */
#define PATH_SCOPED_TRIES 64

/* Open relative to dirfd (AT_FDCWD for absolute paths), O_CLOEXEC added; new files get mode 0644.
 * Returns fd or -errno. */
int path_open(int dirfd, const char *path, int oflags, unsigned flags);
/*
 * openat2: fd, or -1 with errno set. A lookup that may not leave a directory (RESOLVE_BENEATH,
 * RESOLVE_IN_ROOT) answers EAGAIN when it meets ".." while anything on the machine is renamed or mounted:
 * it is done again, PATH_SCOPED_TRIES times at most. With RESOLVE_CACHED that answer means "would wait",
 * and stays.
 */
int path_openat2(int dirfd, const char *path, const struct open_how *how);
/* Is this name one that the kernel would print: absolute, without ".", "..", "//" or a final "/"? */
bool path_is_normal(const char *path);
/* Absolute path of an open descriptor, as the kernel names it. -errno, or -ENOENT when deleted. */
int path_of_fd(int fd, char *ret, size_t size);
/* Follow symlinks once: O_PATH fd of the object and its canonical name. Returns fd or -errno. */
int path_resolve(const char *path, char *ret_canonical, size_t size);

/* Whole small file into a buffer (b->max bounds it). -EFBIG when larger. */
int file_read_at(int dirfd, const char *path, struct buf *ret);
int file_read_fd(int fd, struct buf *ret);
/* When the object was made; false, and *ret untouched, where the file system does not say. */
bool fd_born(int fd, struct timespec *ret);
/* Write all bytes, restarting on EINTR and short writes. */
int fd_write_all(int fd, const void *p, size_t n);
/* One write of a short text into an existing kernel file such as uid_map; 0 or -errno. */
int file_poke_at(int dirfd, const char *path, const char *text);
/* Replace a file so that a reader or a crash sees the old or the new content, never a mixture. */
int file_replace_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode);
/* The same, and it is on the disk when this returns. name has no slash. */
int file_replace_synced_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode);
/*
 * Several files to the disk at the price of one: send the bytes of each there, then flush once for all of
 * them, names included (as Git's batch mode does). That holds where one fsync commits everything that was
 * done before it on the file system (fd_settles_all: ext4, XFS); elsewhere each file is synced by itself and
 * the flush is a whole file system's. 0 or -errno.
 */
bool fd_settles_all(int fd);
int fd_send_to_disk(int fd);
void fd_begin_to_disk(int fd); /* without waiting: send it later as well */
int dir_flush(int dirfd);
/* mkdir -p with the given mode for new directories, refusing symlinks; returns an O_PATH fd. */
int dir_make(const char *path, mode_t mode);

#endif
