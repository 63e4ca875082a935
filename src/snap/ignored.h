/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ignored files of the user's (node_modules, virtual environments, .env) that an environment shows copy
 * on write: directories as overlays of their own, single files as copies in the first layer.
 */
#ifndef CROFT_SNAP_IGNORED_H
#define CROFT_SNAP_IGNORED_H

#include "base/err.h"
#include "base/str.h"
#include "git/repo.h"

#define IGNORED_DIRS_MAX 512u
#define IGNORED_FILES_MAX 4096u
#define IGNORED_COPY_MAX_B (64u << 20)

struct ignored {
	struct strlist dirs;     /* relative paths of whole ignored directories, sorted */
	struct strlist files;    /* single ignored files */
	struct strlist left_out; /* sentences: what is not shown and why */
};

void ignored_done(struct ignored *i);
/* Ask git (as user, in the user's own repository) what is ignored there now. */
int ignored_find(struct ignored *ret, const struct repo *r, struct err *e);
/* Copy the single files into a layer (reflink where possible); what does not fit is in left_out. */
int ignored_copy(struct ignored *i, const struct repo *r, int layer_fd, struct err *e);

#endif
