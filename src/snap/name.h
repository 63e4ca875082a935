/* SPDX-License-Identifier: Apache-2.0 */
/* Names that mean something else to another file system, and links that lead elsewhere. */
#ifndef CROFT_SNAP_NAME_H
#define CROFT_SNAP_NAME_H

#include <stdbool.h>

/* Is this what some file system takes for ".git"? */
bool name_is_git(const char *name);
/* Does a symlink at path with this target lead out of the workspace, or into a .git? */
bool link_escapes(const char *path, const char *target);
/* A bit for a name by which Git knows a Git directory, or 0; the names; do these bits make one? */
#define GIT_DIR_HEAD 1u
unsigned git_dir_bit(const char *name);
const char *git_dir_name(unsigned i);
bool git_dir_like(unsigned bits);

#endif
