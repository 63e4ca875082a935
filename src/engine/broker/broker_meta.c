/* SPDX-License-Identifier: Apache-2.0 */
/* Length, mode, owner, times, extended attributes and flags of files, on behalf of the caller. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "base/cleanup.h"
#include "engine/broker/broker_impl.h"

#define XATTR_NAME_LEN 255 /* the kernel's XATTR_NAME_MAX */

/* For calls that have no form with a directory. */
static const char *fd_path(int fd, char buf[FD_PATH_MAX])
{
	snprintf(buf, FD_PATH_MAX, "/proc/thread-self/fd/%d", fd);
	return buf;
}

/* The object the call is about, by path or by descriptor, judged. */
static int64_t subject(struct work *w, enum notice_op op, struct spot *p)
{
	unsigned how = 0;
	int64_t r;

	if (w->c.at_flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT))
		return -EINVAL;
	if (w->c.at_flags & AT_SYMLINK_NOFOLLOW)
		how |= SPOT_NOFOLLOW;
	if (w->c.at_flags & AT_EMPTY_PATH)
		how |= SPOT_EMPTY_OK;
	if (w->c.by_fd)
		r = w->c.dfd[0] < 0 ? -EBADF : spot_fd(w, w->c.dfd[0], p);
	else if ((r = fetch_path(w, 0)) == 0)
		r = spot_object(w, w->c.dfd[0], w->path[0], how, p);
	if (r < 0)
		return r;
	if (op == NOTICE_META ? !judge_meta(w, p) : !judge_write(w, p))
		return deny(w, op, true, p->name);
	return target_alive(w) ? 0 : -ESRCH;
}

static int64_t changed(struct work *w, int r, enum notice_op op, const struct spot *p)
{
	if (r < 0)
		return -errno;
	tell(w, op, false, true, p->name);
	return 0;
}

int64_t broker_truncate(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	char path[FD_PATH_MAX];
	int64_t r = w->c.length < 0 ? -EINVAL : subject(w, NOTICE_WRITE, &p);

	if (r < 0)
		return r;
	return changed(w, truncate(fd_path(p.fd, path), w->c.length), NOTICE_WRITE, &p);
}

int64_t broker_chmod(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	char no[16];
	int64_t r = subject(w, NOTICE_META, &p);

	if (r < 0)
		return r;
	/* A set-id file in the workspace would run as the user for anyone who starts it. */
	if (!w->b->allow_setid &&
		(w->c.mode & S_ISUID || (w->c.mode & S_ISGID && !S_ISDIR(p.st.st_mode))))
		return deny_setid(w, NOTICE_META, true, p.name);
	return changed(
		w, fchmodat(w->self_fd, fd_name(p.fd, no), w->c.mode & 07777, 0), NOTICE_META, &p);
}

int64_t broker_chown(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	int64_t r = subject(w, NOTICE_META, &p);

	if (r < 0)
		return r;
	return changed(w, fchownat(p.fd, "", w->c.uid, w->c.gid, AT_EMPTY_PATH), NOTICE_META, &p);
}

static int fetch_times(struct work *w, struct timespec ts[2])
{
	struct timeval tv[2];
	struct utimbuf ub;
	int r;

	switch (w->c.times_form) {
	case TIMES_TIMEVAL:
		r = notify_read(w->tid, w->c.times, tv, sizeof(tv));
		for (int i = 0; r == 0 && i < 2; i++) {
			if (tv[i].tv_usec < 0 || tv[i].tv_usec >= 1000000)
				return -EINVAL;
			ts[i] = (struct timespec){tv[i].tv_sec, tv[i].tv_usec * 1000};
		}
		return r;
	case TIMES_UTIMBUF:
		r = notify_read(w->tid, w->c.times, &ub, sizeof(ub));
		if (r == 0) {
			ts[0] = (struct timespec){ub.actime, 0};
			ts[1] = (struct timespec){ub.modtime, 0};
		}
		return r;
	case TIMES_TIMESPEC:
	default:
		return notify_read(w->tid, w->c.times, ts, 2 * sizeof(*ts));
	}
}

int64_t broker_utime(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	struct timespec ts[2];
	int64_t r = w->c.times ? fetch_times(w, ts) : 0;

	if (r < 0 || (r = subject(w, NOTICE_META, &p)) < 0)
		return r;
	return changed(
		w, utimensat(p.fd, "", w->c.times ? ts : NULL, AT_EMPTY_PATH), NOTICE_META, &p);
}

static int fetch_xattr_name(struct work *w, char name[XATTR_NAME_LEN + 1])
{
	ssize_t n = notify_read_string(w->tid, w->c.xattr_name, name, XATTR_NAME_LEN + 1);

	return n == -ENAMETOOLONG || n == 0 ? -ERANGE : n < 0 ? (int)n : 0;
}

/* setxattrat passes value, size and flags in memory. */
static int fetch_xattr_args(struct work *w)
{
	struct {
		uint64_t value;
		uint32_t size;
		uint32_t flags;
	} args;
	int r;

	if (!w->c.xattr_args)
		return 0;
	if (w->c.xattr_size != sizeof(args))
		return w->c.xattr_size < sizeof(args) ? -EINVAL : -E2BIG;
	r = notify_read(w->tid, w->c.xattr_args, &args, sizeof(args));
	if (r < 0)
		return r;
	w->c.xattr_value = args.value;
	w->c.xattr_size = args.size;
	w->c.xattr_flags = (int)args.flags;
	return 0;
}

int64_t broker_setxattr(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	char name[XATTR_NAME_LEN + 1], path[FD_PATH_MAX];
	int64_t r = fetch_xattr_name(w, name);

	if (r == 0)
		r = fetch_xattr_args(w);
	if (r == 0 && w->c.xattr_size > sizeof(w->value))
		r = -E2BIG;
	if (r == 0)
		r = notify_read(w->tid, w->c.xattr_value, w->value, w->c.xattr_size);
	if (r < 0 || (r = subject(w, NOTICE_META, &p)) < 0)
		return r;
	return changed(w,
		setxattr(fd_path(p.fd, path), name, w->value, w->c.xattr_size, w->c.xattr_flags),
		NOTICE_META, &p);
}

int64_t broker_removexattr(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	char name[XATTR_NAME_LEN + 1], path[FD_PATH_MAX];
	int64_t r = fetch_xattr_name(w, name);

	if (r < 0 || (r = subject(w, NOTICE_META, &p)) < 0)
		return r;
	return changed(w, removexattr(fd_path(p.fd, path), name), NOTICE_META, &p);
}

/* chattr and its newer form: ioctls on a descriptor that need not be writable. */
int64_t broker_setflags(struct work *w)
{
	cleanup_spot struct spot p = SPOT_INIT;
	cleanup_fd int fd = -1;
	struct fsxattr x = {0};
	int flags = 0;
	char no[16];
	int64_t r;

	if (w->c.ioctl_cmd == FS_IOC_SETFLAGS)
		r = notify_read(w->tid, w->c.ioctl_arg, &flags, sizeof(flags));
	else if (w->c.ioctl_cmd == FS_IOC_FSSETXATTR)
		r = notify_read(w->tid, w->c.ioctl_arg, &x, sizeof(x));
	else
		r = -ENOTTY;
	if (r < 0 || (r = subject(w, NOTICE_META, &p)) < 0)
		return r;
	if (!S_ISREG(p.st.st_mode) && !S_ISDIR(p.st.st_mode))
		return -ENOTTY;
	fd = openat(w->self_fd, fd_name(p.fd, no), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return changed(w,
		ioctl(fd, w->c.ioctl_cmd,
			w->c.ioctl_cmd == FS_IOC_SETFLAGS ? (void *)&flags : (void *)&x),
		NOTICE_META, &p);
}
