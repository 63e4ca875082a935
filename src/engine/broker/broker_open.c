/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open(2) on behalf of the caller.
 *
 * What exists is resolved to an O_PATH descriptor, judged by the kernel's name of it, and opened
 * again through that descriptor. What does not exist is made with O_EXCL in a directory that is
 * held, so that it is either ours or an error. Nothing here blocks: every open is tried with
 * O_NONBLOCK, and one that would wait (the other end of a FIFO, a lease) is left to a helper
 * process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/broker/broker_impl.h"

#define TTY_DEVICE makedev(5, 0) /* /dev/tty: whatever terminal its opener has */

/* What the caller may choose about the descriptor; the rest is decided while opening. */
#define KEPT_FLAGS                                                                                 \
	(PATHCALL_ACCMODE | O_TRUNC | O_APPEND | O_DIRECTORY | O_SYNC | O_DSYNC | O_DIRECT |       \
		O_NOATIME | O_ASYNC | O_LARGEFILE)

static int64_t give(struct work *w, int fd)
{
	w->give_fd = fd;
	w->give_cloexec = w->c.oflags & O_CLOEXEC;
	return 0;
}

/* We opened with O_NONBLOCK; make it what was asked for. */
static int64_t give_blocking(struct work *w, int fd)
{
	if (!(w->c.oflags & O_NONBLOCK) && fcntl(fd, F_SETFL, w->c.oflags & KEPT_FLAGS) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	return give(w, fd);
}

/* The device number of the caller's controlling terminal, 0 if it has none. */
static dev_t target_tty(const struct work *w)
{
	char path[32], text[512], *p;
	cleanup_fd int fd = -1;
	ssize_t n;
	long nr = 0;

	snprintf(path, sizeof(path), "%d/stat", (int)w->tid);
	fd = openat(w->proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (n = read(fd, text, sizeof(text) - 1)) <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name before it is the caller's to choose */
	for (int field = 2; p && field < 7; field++)
		p = strchr(p + 1, ' ');
	if (p)
		nr = strtol(p + 1, NULL, 10);
	return nr > 0 ? makedev((unsigned)nr >> 8 & 0xfff,
				((unsigned)nr & 0xff) | ((unsigned)nr >> 12 & 0xfff00))
		      : 0;
}

/* /dev/tty means the opener's terminal, and ours is not the caller's. */
static int64_t open_tty(struct work *w)
{
	dev_t tty = target_tty(w);
	char path[32];
	struct stat st;
	int fd;

	if (!tty)
		return -ENXIO;
	if (major(tty) == 136) {
		snprintf(path, sizeof(path), "/dev/pts/%u", minor(tty));
		fd = open(path, (w->c.oflags & KEPT_FLAGS) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_rdev == tty)
			return give_blocking(w, fd);
		close_fd(&fd);
	}
	/* Not reachable by name: one of its own first three descriptors is that terminal. */
	for (int i = 0; i < 3; i++) {
		fd = target_dup(w, i, w->c.oflags);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == tty)
			return give(w, fd);
		close_fd(&fd);
	}
	return -ENXIO;
}

static int64_t reopen(struct work *w, const struct spot *p)
{
	int flags = (w->c.oflags & KEPT_FLAGS) | O_NOCTTY | O_CLOEXEC,
	    access = flags & PATHCALL_ACCMODE;
	char no[16];
	int fd;

	if (S_ISLNK(p->st.st_mode))
		return -ELOOP;
	if (S_ISCHR(p->st.st_mode) && p->st.st_rdev == TTY_DEVICE)
		return open_tty(w);
	if (S_ISFIFO(p->st.st_mode) && access == O_RDONLY && !(w->c.oflags & O_NONBLOCK))
		return open_in_helper(w, p->fd, flags, w->c.oflags & O_CLOEXEC);
	fd = openat(w->self_fd, fd_name(p->fd, no), flags | O_NONBLOCK);
	if (fd >= 0)
		return give_blocking(w, fd);
	if (!(w->c.oflags & O_NONBLOCK) &&
		(errno == EWOULDBLOCK || (errno == ENXIO && S_ISFIFO(p->st.st_mode))))
		return open_in_helper(w, p->fd, flags, w->c.oflags & O_CLOEXEC);
	return -errno;
}

/*
 * Named through /dev/stdout or the like, and refused by name or by Landlock: what the caller
 * already holds, with the access it already has, it may have twice.
 */
static int64_t own_again(struct work *w, const struct spot *p, int64_t refused)
{
	int fd;

	if (p->fd_no < 0)
		return refused;
	fd = target_dup(w, p->fd_no, w->c.oflags);
	if (fd < 0)
		return refused;
	w->notices_n = 0;
	if (w->c.oflags & O_TRUNC && S_ISREG(p->st.st_mode) && ftruncate(fd, 0) < 0) {
		close(fd);
		return refused;
	}
	return give(w, fd);
}

static int64_t open_existing(struct work *w, struct spot *p)
{
	bool write = pathcall_writes(w->c.oflags);
	int64_t r;

	if (w->c.oflags & O_CREAT && S_ISDIR(p->st.st_mode))
		return -EISDIR;
	if (write ? !judge_write(w, p) : !judge_read(w, p))
		return own_again(w, p, deny(w, write ? NOTICE_WRITE : NOTICE_READ, true, p->name));
	/* An open without effect needs no living caller: giving the descriptor asks the same. */
	if ((w->c.oflags & O_TRUNC || !S_ISREG(p->st.st_mode)) && !target_alive(w))
		return -ESRCH;
	r = reopen(w, p);
	if (r == -EACCES || r == -EPERM) {
		r = own_again(w, p, r);
		if (r < 0 && !write)
			tell(w, NOTICE_READ, true, true, p->name);
	}
	if (write && (r == -EACCES || r == -EROFS) && judge_own(p->name))
		tell(w, NOTICE_WRITE, true, true, p->name);
	if (r >= 0 && !S_ISCHR(p->st.st_mode) && (write || w->b->observe_reads))
		tell(w, write ? NOTICE_WRITE : NOTICE_READ, false, true, p->name);
	return r;
}

/* An unnamed file in a directory: it gets a name only through linkat, judged there. */
static int64_t open_unnamed(struct work *w, const struct spot *dir)
{
	char no[16];
	int fd;

	if (!judge_write(w, dir))
		return deny(w, NOTICE_CREATE, true, dir->name);
	if (target_status(w) < 0 || !target_alive(w))
		return -ESRCH;
	umask(w->umask);
	fd = openat(w->self_fd, fd_name(dir->fd, no),
		(w->c.oflags & (KEPT_FLAGS | O_EXCL)) | O_TMPFILE | O_CLOEXEC, w->c.mode & 0777);
	return fd < 0 ? -errno : give_blocking(w, fd);
}

/* Make the file. -EEXIST with *slot moved on when it was a symlink to somewhere absent. */
static int64_t open_new(struct work *w, struct spot *slot)
{
	int fd;

	if (slot->last[strlen(slot->last) - 1] == '/')
		return -EISDIR;
	if (!judge_make(w, slot, false))
		return deny_make(w, slot);
	if (w->c.mode & (S_ISUID | S_ISGID))
		return deny_setid(w, NOTICE_CREATE, false, slot->name);
	if (target_status(w) < 0 || !target_alive(w))
		return -ESRCH;
	umask(w->umask);
	fd = openat(slot->parent, slot->last,
		(w->c.oflags & KEPT_FLAGS) | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC |
			(w->c.oflags & O_NONBLOCK),
		w->c.mode & 01777);
	if (fd < 0) {
		int r = -errno;

		if (r == -EACCES && judge_own(slot->name))
			tell(w, NOTICE_CREATE, true, false, slot->name);
		return r;
	}
	tell(w, NOTICE_CREATE, false, false, slot->name);
	return give(w, fd);
}

/* Make the file here, or where the symlink by that name points. */
static int64_t open_absent(struct work *w, struct spot *slot)
{
	for (int hops = 0; hops < BROKER_HOPS_MAX; hops++) {
		int64_t r = open_new(w, slot);

		if (r != -EEXIST || w->c.oflags & (O_EXCL | O_NOFOLLOW))
			return r;
		r = spot_slot_follow(w, slot);
		if (r < 0)
			return r;
	}
	return -ELOOP;
}

/* With O_CREAT: the directory first, so that what is absent needs no second walk. */
static int64_t open_or_create(struct work *w, unsigned how)
{
	int64_t r = -EEXIST;

	for (int tries = 0; r == -EEXIST && tries < BROKER_TRIES_MAX; tries++) {
		cleanup_spot struct spot slot = SPOT_INIT, p = SPOT_INIT;

		r = spot_slot(w, w->c.dfd[0], w->path[0], &slot);
		if (r == 0 && w->c.oflags & O_EXCL)
			return open_absent(w, &slot);
		if (r == 0)
			r = spot_in_slot(w, &slot, how, &p);
		if (r == -EPERM || r == -ELOOP) /* through one of the caller's own links */
			r = spot_object(w, w->c.dfd[0], w->path[0], how, &p);
		if (r == 0)
			return open_existing(w, &p);
		if (r == -ENOENT && slot.parent >= 0)
			r = open_absent(w, &slot); /* EEXIST: the host was faster; look again */
	}
	return r;
}

int64_t broker_open(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	unsigned how = 0;
	int64_t r;

	if (w->c.oflags & O_PATH) { /* a place without a right to anything there; cannot be given */
		w->pass = true;
		return 0;
	}
	if ((r = fetch_path(w, 0)) < 0)
		return r;
	if (w->c.oflags & O_NOFOLLOW)
		how |= SPOT_NOFOLLOW;
	if (w->c.oflags & O_DIRECTORY)
		how |= SPOT_DIRECTORY;
	if (w->c.oflags & O_CREAT)
		return w->c.oflags & O_DIRECTORY ? -EINVAL : open_or_create(w, how);
	r = spot_object(w, w->c.dfd[0], w->path[0], how, &p);
	if (r < 0)
		return r;
	if ((w->c.oflags & O_TMPFILE) == O_TMPFILE)
		return open_unnamed(w, &p);
	return open_existing(w, &p);
}

/*
 * Exec cannot be done for somebody else. A file that a rule denies is refused; anything else is
 * left to the kernel, which reads the path again: a race can win the execution of a file that
 * Landlock lets it execute, never the reading of it through a descriptor.
 */
int64_t broker_exec(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	unsigned how = w->c.at_flags & AT_EMPTY_PATH ? SPOT_EMPTY_OK : 0;
	int r;

	w->pass = true;
	r = fetch_path(w, 0);
	if (r == 0 && (w->c.at_flags & AT_SYMLINK_NOFOLLOW))
		how |= SPOT_NOFOLLOW;
	if (r == 0)
		r = spot_object(w, w->c.dfd[0], w->path[0], how, &p);
	if (r < 0) {
		/* What the kernel will refuse by itself passes; what we may not look at does not, unless
		 * it is about to become a command. */
		w->starts = starts_find(w->b->starts, w->tid, &w->start);
		if (w->starts || r == -EFAULT || r == -ENAMETOOLONG || r == -ENOENT || r == -ENOTDIR ||
			r == -ELOOP)
			return 0;
		w->pass = false;
		return -EACCES;
	}
	if (!judge_read(w, &p))
		return deny(w, NOTICE_EXEC, true, p.name);
	tell(w, NOTICE_EXEC, false, true, p.name);
	return 0;
}
