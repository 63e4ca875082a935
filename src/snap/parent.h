/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that a path's last part is in, opened beneath a root and through no symlink. */
#ifndef CROFT_SNAP_PARENT_H
#define CROFT_SNAP_PARENT_H

/* Descriptor, or -errno; *ret_name is the last part of path, in path. */
int parent_open(int root, const char *path, const char **ret_name);
/* Make the directories above path below root; new ones get the modes they have below `like`. */
int parent_make(int root, int like, const char *path);

#endif
