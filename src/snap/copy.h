/* SPDX-License-Identifier: Apache-2.0 */
/* Copying trees by descriptor: reflinks where the file system has them, holes kept, links not followed. */
#ifndef CROFT_SNAP_COPY_H
#define CROFT_SNAP_COPY_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

struct copy_stats {
	uint64_t files, bytes, reflinked;
};

/* One regular file's content into an open one. */
int copy_content(int from, int to, struct copy_stats *st, struct err *e);
/* name in from_dir to the same name in to_dir: files, symlinks, directories with all below. Times and
 * permission bits (without set-id) are kept. Sockets, devices and FIFOs are left out. skip (or NULL)
 * says which relative paths to leave out. */
int copy_tree(int from_dir, int to_dir, const char *name, bool (*skip)(void *arg, const char *path),
	void *arg, struct copy_stats *st, struct err *e);
/* A whiteout, as overlayfs understands it: this name is gone. */
int copy_whiteout(int dir, const char *name, struct err *e);

#endif
