/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From overlay layers to changes. Walks the layers only, never the base: the time grows with what was
 * changed.
 *
 * Trust:  layers were written by a sandbox. Walked by descriptor, no symlink followed, no device
 *         opened; depth, number and name lengths bounded; extended attributes that overlayfs gives
 *         a meaning (opaque, redirect, metacopy, whiteout) are interpreted or refused by name.
 * Order:  layers oldest to newest, the newest word wins; a whiteout (character device 0:0) or an opaque
 *         directory hides what is below; a path whose content and mode end as they began is no change.
 */
#ifndef CROFT_SNAP_SCAN_H
#define CROFT_SNAP_SCAN_H

#include "base/err.h"
#include "git/object.h"
#include "git/repo.h"
#include "git/treemap.h"
#include "snap/change.h"

struct scan {
	const struct repo *repo;
	const int *layers; /* oldest first; those that are part of the start state not among them */
	size_t layers_n;
	const struct treemap *start; /* NULL: the start state is the live directory */
	int live_fd;                 /* then: that directory, else -1 */
	/* The user's directory, not the start, whose symlinks count for what runs; NULL: none. */
	const char *checkout;
	const char *ignore_tree; /* a checkout whose .gitignore files count; NULL: none */
	struct git_store *store; /* where blobs go; objects_fd -1: only named */
	int cache_fd;            /* directory of the stat cache, or -1 */
	const char *cache_name;
	uint64_t name_max_b; /* to be read in all, the rest is changes.unnamed; 0: no bound */
	bool part;           /* then: a tree of what was read, to look at; never to be landed */
	bool sync; /* send changed files to the disk (os/path.h: the caller settles with dir_flush) */
};

/* What the layers change. For a live start: old contents are written to the store as well. */
int scan_layers(struct changes *ret, const struct scan *s, struct err *e);
/* The same for a whole copy of the workspace (where no overlay can be mounted): compared file by file. */
int scan_copy(struct changes *ret, const struct scan *s, int copy_fd, struct err *e);
/* Is there anything in this layer besides .git and ignored trees' mount points? Cheap. */
bool layer_is_empty(int layer_fd);

#endif
