/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts by descriptor: see mount.h. */
#include "os/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/uapi.h"

/* From linux/mount.h, which cannot be included beside sys/mount.h with every libc. */
#define K_OPEN_TREE_CLONE 1u
#define K_AT_RECURSIVE 0x8000u
#define K_MOVE_MOUNT_F_EMPTY_PATH 0x4u
#define K_MOVE_MOUNT_T_EMPTY_PATH 0x40u
#define K_FSOPEN_CLOEXEC 1u
#define K_FSMOUNT_CLOEXEC 1u
#define K_FSCONFIG_SET_FLAG 0u
#define K_FSCONFIG_SET_STRING 1u
#define K_FSCONFIG_CMD_CREATE 6u
#define K_ATTR_RDONLY 0x1u
#define K_ATTR_NOSUID 0x2u
#define K_ATTR_NODEV 0x4u
#define K_ATTR_NOEXEC 0x8u
#define K_ATTR_NOSYMFOLLOW 0x200000u

struct k_mount_attr {
	uint64_t attr_set;
	uint64_t attr_clr;
	uint64_t propagation;
	uint64_t userns_fd;
};

static uint64_t attr_bits(unsigned flags)
{
	uint64_t a = K_ATTR_NOSUID;

	if (flags & MOUNT_RO)
		a |= K_ATTR_RDONLY;
	if (flags & MOUNT_NODEV)
		a |= K_ATTR_NODEV;
	if (flags & MOUNT_NOEXEC)
		a |= K_ATTR_NOEXEC;
	if (flags & MOUNT_NOSYMFOLLOW)
		a |= K_ATTR_NOSYMFOLLOW;
	return a;
}

int mount_make_private(struct err *e)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_set(e, errno, "make mounts private");
	return 0;
}

int mount_restrict(int mount_fd, unsigned flags, struct err *e)
{
	struct k_mount_attr attr = {.attr_set = attr_bits(flags)};
	unsigned at = AT_EMPTY_PATH | (flags & MOUNT_RECURSIVE ? K_AT_RECURSIVE : 0);

	if (syscall(SYS_mount_setattr, mount_fd, "", at, &attr, sizeof(attr)) < 0)
		return err_set(e, errno, "restrict mount");
	return 0;
}

int mount_clone(int fd, unsigned flags, int *ret_mount, struct err *e)
{
	unsigned rec = flags & MOUNT_RECURSIVE ? K_AT_RECURSIVE : 0;
	cleanup_fd int m = -1;

	if (forced_fail("open_tree"))
		return err_set(e, ENOSYS, "clone mount");
	m = (int)syscall(
		SYS_open_tree, fd, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC | rec);
	if (m < 0)
		return err_set(e, errno, "clone mount");
	if (mount_restrict(m, flags, e) < 0)
		return -e->errnum;
	*ret_mount = take_fd(&m);
	return 0;
}

static int fs_option(int fs, const char *opt, struct err *e)
{
	char key[64];
	const char *eq = strchr(opt, '=');
	long r;

	if (eq && (size_t)(eq - opt) < sizeof(key)) {
		memcpy(key, opt, (size_t)(eq - opt));
		key[eq - opt] = '\0';
		r = syscall(SYS_fsconfig, fs, K_FSCONFIG_SET_STRING, key, eq + 1, 0);
	} else {
		r = syscall(SYS_fsconfig, fs, K_FSCONFIG_SET_FLAG, opt, NULL, 0);
	}
	if (r < 0)
		return err_set(e, errno, "set mount option %s", opt);
	return 0;
}

int mount_new(
	const char *fstype, const char *const *opts, unsigned flags, int *ret_mount, struct err *e)
{
	cleanup_fd int fs = (int)syscall(SYS_fsopen, fstype, K_FSOPEN_CLOEXEC);
	int m;

	if (fs < 0)
		return err_set(e, errno, "open filesystem type %s", fstype);
	for (; opts && *opts; opts++)
		if (fs_option(fs, *opts, e) < 0)
			return -e->errnum;
	if (syscall(SYS_fsconfig, fs, K_FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_set(e, errno, "create %s", fstype);
	m = (int)syscall(SYS_fsmount, fs, K_FSMOUNT_CLOEXEC, attr_bits(flags));
	if (m < 0)
		return err_set(e, errno, "mount %s", fstype);
	*ret_mount = m;
	return 0;
}

int mount_attach(int mount_fd, int target_fd, const char *name, struct err *e)
{
	unsigned flags = K_MOVE_MOUNT_F_EMPTY_PATH | (name[0] ? 0 : K_MOVE_MOUNT_T_EMPTY_PATH);

	if (syscall(SYS_move_mount, mount_fd, "", target_fd, name, flags) < 0)
		return err_set(e, errno, "attach mount");
	return 0;
}

int mount_id(int fd, uint64_t *ret)
{
	struct k_statx x = {0};

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH | K_AT_STATX_DONT_SYNC, K_STATX_MNT_ID, &x) <
		0)
		return -errno;
	if (!(x.mask & K_STATX_MNT_ID))
		return -ENOSYS; /* before Linux 5.8 */
	*ret = x.mnt_id;
	return 0;
}

/*
 * pivot_root(".", ".") stacks the old root on top of the new one, at the same place, without ever giving it
 * a name inside the new one. Lookups begin at the new root, which is below it.
 */
int mount_become_root(int mount_fd, struct err *e)
{
	if (fchdir(mount_fd) < 0)
		return err_set(e, errno, "enter new root");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_set(e, errno, "pivot to new root");
	if (chdir("/") < 0)
		return err_set(e, errno, "enter new root");
	return 0;
}

int mount_detach_root(int old_root, struct err *e)
{
	if (fchdir(old_root) < 0 || umount2(".", MNT_DETACH) < 0)
		return err_set(e, errno, "detach old root");
	return 0;
}
