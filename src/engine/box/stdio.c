/* SPDX-License-Identifier: Apache-2.0 */
/* The standard descriptors, before the command gets them: see stdio.h. */
#include "engine/box/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/init/init.h"
#include "os/mount.h"

/* What another open shares of a descriptor that is opened anew. */
#define KEPT_FLAGS (O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_LARGEFILE)
#define MEMORY_MAJOR 1

/* Devices whose every open is like every other, in each private root: name of a memory device. */
static const char *stateless_device(dev_t dev)
{
	if (major(dev) != MEMORY_MAJOR)
		return NULL;
	switch (minor(dev)) {
	case 3:
		return "/dev/null";
	case 5:
		return "/dev/zero";
	case 7:
		return "/dev/full";
	case 8:
		return "/dev/random";
	case 9:
		return "/dev/urandom";
	default:
		return NULL;
	}
}

/* Put another open of the same device, by its name inside, in the descriptor's place. */
static bool open_anew(int fd, const char *name, const struct stat *st)
{
	int flags = fcntl(fd, F_GETFL);
	cleanup_fd int own = -1;
	struct stat now;

	if (flags < 0 || flags & O_PATH)
		return false;
	own = open(name, (flags & (KEPT_FLAGS | 3)) | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	return own >= 0 && fstat(own, &now) == 0 && S_ISCHR(now.st_mode) &&
	       now.st_rdev == st->st_rdev && dup3(own, fd, O_CLOEXEC) == fd;
}

static int add_outside(struct init *in, int fd, const struct stat *st, struct err *e)
{
	struct outside *o = &in->outside[in->outside_n];
	int r;

	*o = (struct outside){.dev = st->st_dev, .ino = st->st_ino};
	if (in->enforced.ns_mount && (r = mount_id(fd, &o->mount)) < 0)
		return err_set(e, -r, "find the mount of descriptor %d", fd);
	in->outside_n++;
	return 0;
}

static int settle_one(struct init *in, int fd, struct err *e)
{
	const char *name = NULL;
	struct statfs fs;
	struct stat st;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0)
		return errno == EBADF ? 0 : err_set(e, errno, "look at descriptor %d", fd);
	if (S_ISSOCK(st.st_mode))
		return 0;
	if (S_ISFIFO(st.st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC)
		return 0;
	if (S_ISCHR(st.st_mode))
		name = fd == in->request->tty_fd ? "/dev/console" : stateless_device(st.st_rdev);
	if (in->enforced.ns_mount && name && open_anew(fd, name, &st))
		return 0;
	return add_outside(in, fd, &st, e);
}

int stdio_settle(struct init *in, struct err *e)
{
	const struct request *q = in->request;
	int r = settle_one(in, q->tty_fd, e);

	for (int i = 0; r == 0 && i < 3; i++) {
		bool seen = q->stdio[i] == q->tty_fd;

		for (int j = 0; j < i; j++)
			seen |= q->stdio[j] == q->stdio[i];
		if (!seen)
			r = settle_one(in, q->stdio[i], e);
	}
	return r;
}
