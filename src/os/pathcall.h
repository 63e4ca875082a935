/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that name or change files, in one normal form: open, creat and openat are one
 * operation with different spellings, and so are chmod, fchmod, fchmodat and fchmodat2. (openat2
 * does not exist where calls are notified: its flags are in memory, and its callers have openat.)
 *
 * Trust: registers are the sandbox's. Each is narrowed to the width the kernel uses; pointers stay
 *        numbers here, whoever follows them copies and checks.
 */
#ifndef CROFT_OS_PATHCALL_H
#define CROFT_OS_PATHCALL_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum pathcall_kind {
	PATHCALL_OPEN,
	PATHCALL_TRUNCATE,
	PATHCALL_MKDIR,
	PATHCALL_MKNOD,
	PATHCALL_SYMLINK, /* path[0] is the text of the link, path[1] where it goes */
	PATHCALL_LINK,    /* path[0] exists, path[1] is new */
	PATHCALL_UNLINK,  /* at_flags may hold AT_REMOVEDIR */
	PATHCALL_RENAME,
	PATHCALL_CHMOD,
	PATHCALL_CHOWN,
	PATHCALL_UTIME,
	PATHCALL_SETXATTR,
	PATHCALL_REMOVEXATTR,
	PATHCALL_SETFLAGS, /* ioctl FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR */
	PATHCALL_EXEC,
	PATHCALL_KIND_NUM,
};

/* Reading, writing, both: O_ACCMODE holds more than that in some C libraries. */
#define PATHCALL_ACCMODE 3

enum pathcall_times { TIMES_TIMESPEC, TIMES_TIMEVAL, TIMES_UTIMBUF };

struct pathcall {
	enum pathcall_kind kind;
	int dfd[2];       /* directory the path starts from; AT_FDCWD when the call has none */
	uint64_t path[2]; /* addresses; 0 when the call has no such path */
	bool by_fd;       /* no path at all: dfd[0] is the object (fchmod, futimens…) */
	int at_flags;     /* AT_*; AT_SYMLINK_NOFOLLOW set for the l… spellings */
	int oflags;       /* OPEN */
	mode_t mode;
	dev_t dev;
	uid_t uid;
	gid_t gid;
	int64_t length; /* TRUNCATE */
	unsigned rename_flags;
	uint64_t times; /* UTIME: address, 0 for now */
	enum pathcall_times times_form;
	uint64_t xattr_name, xattr_value, xattr_size;
	int xattr_flags;
	uint64_t xattr_args; /* setxattrat: struct to copy; value, size and flags are in it */
	unsigned ioctl_cmd;
	uint64_t ioctl_arg;
};

/* False when this is not such a call. */
bool pathcall_decode(struct pathcall *ret, const struct seccomp_data *d);
/* Do these open flags ask for anything but reading? */
bool pathcall_writes(int oflags);

#endif
