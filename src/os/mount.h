/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The new mount API, by file descriptor only: nothing here takes a host path by name except where a
 * descriptor has just been opened from it by the caller.
 */
#ifndef CROFT_OS_MOUNT_H
#define CROFT_OS_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum mount_flags {
	MOUNT_RO = 1 << 0,
	MOUNT_NODEV = 1 << 1,
	MOUNT_NOEXEC = 1 << 2,
	MOUNT_NOSYMFOLLOW = 1 << 3,
	MOUNT_RECURSIVE = 1 << 4,
};

/* No mount event of the host reaches this namespace, nor the other way round. */
int mount_make_private(struct err *e);
/* A detached clone of what fd shows (with its submounts when RECURSIVE), always nosuid. */
int mount_clone(int fd, unsigned flags, int *ret_mount, struct err *e);
/* Set attributes on a detached or attached mount. */
int mount_restrict(int mount_fd, unsigned flags, struct err *e);
/* A new filesystem instance, detached. opts: "key=value" or "flag" strings, NULL-terminated. */
int mount_new(
	const char *fstype, const char *const *opts, unsigned flags, int *ret_mount, struct err *e);
/*
 * Put a detached mount on the object that target_fd is ("" as name), or on a name below it, which must
 * then lie in a tree that nobody else can change: symlinks on the way would be followed.
 */
int mount_attach(int mount_fd, int target_fd, const char *name, struct err *e);
/* Which mount a descriptor was opened through, as the kernel numbers them. 0 or -errno. */
int mount_id(int fd, uint64_t *ret);
/* Make mount_fd's root the root of this namespace; cwd becomes "/". The old one is still attached. */
int mount_become_root(int mount_fd, struct err *e);
/* Detach it; the kernel waits for every processor. The caller's cwd goes with it. */
int mount_detach_root(int old_root, struct err *e);

#endif
