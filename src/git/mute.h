/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that a repository's own configuration names, silenced.
 *
 * Purpose: git runs programs that its configuration names: to sign, to filter, to connect, to ask. Whoever
 *          made the workspace may have made its .git/config. So every setting of that kind in the
 *          repository's own configuration (local, worktree, and what these include) is overridden on the
 *          command line of each git that croft runs as the user: by what the user's or the system's
 *          configuration says, else by what git does when nothing is said.
 * Limits:  a list of known keys, and any key whose last part ends like the name of a program ("…command",
 *          "…program", "…helper", …).
 * Failure: a key that cannot be overridden is refused.
 */
#ifndef CROFT_GIT_MUTE_H
#define CROFT_GIT_MUTE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define MUTE_MAX 8192u /* settings */

struct mute {
	struct strlist own;    /* keys that the repository itself sets */
	struct strlist theirs; /* "key\nvalue" of other scopes, in order */
};
#define MUTE_INIT ((struct mute){.own = STRLIST_INIT(MUTE_MAX), .theirs = STRLIST_INIT(MUTE_MAX)})

void mute_done(struct mute *m);
#define cleanup_mute __attribute__((cleanup(mute_done)))

/* One setting, in the order in which git reads them. Others than those of programs are passed over. */
int mute_take(struct mute *m, bool own, const char *key, const char *value, struct err *e);
/* "key=value" for -c, in order. */
int mute_settings(const struct mute *m, struct strlist *ret, struct err *e);

#endif
