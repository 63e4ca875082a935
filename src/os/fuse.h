/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filesystem that refuses everything and tells: the decoy behind well-known secret paths.
 *
 * Purpose: notice reads and writes of paths that are not there for the sandbox, at no cost to
 *          anything else. Needs /dev/fuse and Linux 5.2 (mounts by descriptor); where missing,
 *          coverage is recorded as less.
 * Trust:   the only client is the kernel, acting for the sandbox; requests are parsed with checked
 *          sizes, names are bounded, nothing is ever stored per name beyond a fixed table.
 * Shape:   the root directory lists nothing. Its children are "slots" named "0", "1"…; each stands
 *          for one decoy path of a kind. Looking a slot up succeeds, so that a symlink can point
 *          at it.
 *          DECOY_DIR: any lookup, creation or listing below it is EACCES and reported.
 *          DECOY_SECRET: any open is EACCES and reported.
 *          DECOY_STARTUP (shell rc files and the like): reads as an empty file, silently; any open
 *          for writing, truncation, deletion or metadata change is EACCES and reported.
 *          stat() of a slot itself is silent everywhere; access() is refused and reported like the
 *          open it asks about. Nothing of a slot is cached by the kernel, so every attempt is seen.
 *          Beside the slots there may be files: whole, read-only, silent. Their bytes are made when
 *          somebody looks for them, and cached by the kernel from then on.
 * Limits:  the kernel looks a name up before it creates, deletes or renames it, and a lookup does
 *          not say what for: below a DECOY_DIR any attempt on a name is therefore reported as
 *          DECOY_READ.
 * Use:     whatever stands in front of this mount hides attempts from it. Mount it writable, and
 *          grant it in full in Landlock: the refusing is done here. Nobody but the server may keep
 *          dev_fd, and the server must never touch a path on this mount: it would wait for itself.
 */
#ifndef CROFT_OS_FUSE_H
#define CROFT_OS_FUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define DECOYFS_NAME_MAX 1024u /* FUSE's own limit on one name */
#define DECOYFS_BATCH_MAX 256u /* requests answered by one decoyfs_serve() */

/*
 * Inside the user namespace: open /dev/fuse and make a detached mount of it. Neither this nor
 * attaching the mount waits for a server; a process that touches it before one runs waits (and can
 * be killed).
 */
int decoyfs_mount(int *ret_dev_fd, int *ret_mount_fd, struct err *e);

enum decoy_kind { DECOY_DIR, DECOY_SECRET, DECOY_STARTUP };
enum decoy_op { DECOY_READ, DECOY_WRITE, DECOY_CREATE, DECOY_DELETE, DECOY_META, DECOY_EXEC };

struct decoyfs {
	int dev_fd;
	size_t slots_n;
	const enum decoy_kind *kinds; /* slots_n entries */
	/*
	 * Called before the refusal is sent, so a report exists when the process goes on; must not
	 * block.
	 * name: below a DECOY_DIR slot, else NULL; one component, hostile bytes, valid during the
	 * call.
	 * pid: as the pid namespace of the process that mounted numbers it; 0 outside of that.
	 */
	void (*touched)(void *arg, size_t slot, const char *name, enum decoy_op op, pid_t pid);
	const char *const *files; /* names in the root, none of them a number */
	size_t files_n;
	/*
	 * The bytes of a file: the same at each call, and valid as long as the mount is served.
	 * -errno: there are none, this time.
	 */
	int (*content)(void *arg, size_t file, const void **ret, size_t *ret_n);
	void *arg;
};

/*
 * Answer what is waiting, at most DECOYFS_BATCH_MAX requests; never blocks. 0 (poll again for
 * more), or -ENODEV when the mount is gone: stop polling and close dev_fd.
 */
int decoyfs_serve(struct decoyfs *d);

#endif
