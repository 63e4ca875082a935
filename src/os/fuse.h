/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filesystem that refuses everything and tells: the decoy behind well-known secret paths.
 *
 * Purpose: notice reads and writes of paths that are not there for the sandbox, at no cost to
 *          anything else. Needs /dev/fuse and Linux 4.18; where missing, coverage is recorded less.
 * Trust:   the only client is the kernel, acting for the sandbox; requests are parsed with checked
 *          sizes, names are bounded, nothing is ever stored per name beyond a fixed table.
 * Shape:   the root directory lists nothing. Its children are "slots" named "0", "1"…; each stands for
 *          one decoy path of a kind. Looking a slot up succeeds, so that a symlink can point at it.
 *          DECOY_DIR: any lookup, creation or listing below it is EACCES and reported.
 *          DECOY_SECRET: any open is EACCES and reported.
 *          DECOY_STARTUP (shell rc files and the like): reads as an empty file, silently; any
 *          open for writing, truncation, deletion or metadata change is EACCES and reported.
 */
#ifndef CROFT_OS_FUSE_H
#define CROFT_OS_FUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Inside the user namespace: open /dev/fuse and make a detached mount of it. */
int decoyfs_mount(int *ret_dev_fd, int *ret_mount_fd, struct err *e);

enum decoy_kind { DECOY_DIR, DECOY_SECRET, DECOY_STARTUP };
enum decoy_op { DECOY_READ, DECOY_WRITE, DECOY_CREATE, DECOY_DELETE, DECOY_META, DECOY_EXEC };

struct decoyfs {
	int dev_fd;
	size_t slots_n;
	const enum decoy_kind *kinds; /* slots_n entries */
	/* name: below a DECOY_DIR slot, else NULL. */
	void (*touched)(void *arg, size_t slot, const char *name, enum decoy_op op, pid_t pid);
	void *arg;
};

/* Answer every request that is waiting; never blocks. 0, or -ENODEV when the mount is gone. */
int decoyfs_serve(struct decoyfs *d);

#endif
