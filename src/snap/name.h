/* SPDX-License-Identifier: Apache-2.0 */
/* Names that mean something else to another file system, and links that lead elsewhere. */
#ifndef CROFT_SNAP_NAME_H
#define CROFT_SNAP_NAME_H

#include <stdbool.h>

/* Is this what some file system takes for ".git"? */
bool name_is_git(const char *name);
/* Does a symlink at path with this target lead out of the workspace, or into a .git? */
bool link_escapes(const char *path, const char *target);

#endif
