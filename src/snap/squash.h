/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several frozen overlay layers as one that shows the same.
 *
 * Purpose: an overlay takes so many layers and no more, and each costs every lookup. Files are linked, not
 *          copied, so it takes no room and no time for contents; the layers themselves stay as
 *          they are, for whoever else names them.
 * Trust:   layers were written by a sandbox: walked as in scan_layers.c, by descriptor, beneath their
 *          roots, without recursion; what overlayfs understands and croft never makes is refused.
 * Order:   directories are made open and get their own mode, owner, attributes and times at the end,
 *          children before parents.
 * Failure: the new tree is the caller's to remove.
 */
#ifndef CROFT_SNAP_SQUASH_H
#define CROFT_SNAP_SQUASH_H

#include <stddef.h>

#include "base/err.h"

/* layers: roots, oldest first; `to`: an empty directory on the same file system. */
int squash_layers(int to, const int *layers, size_t n, struct err *e);

struct copy_stats;

/*
 * One layer that is still in use, as another that shows the same: files are copied, and names of one file
 * stay names of one file. Nothing may be changed in it meanwhile.
 */
int squash_copy(int to, int layer, struct copy_stats *st, struct err *e);

#endif
