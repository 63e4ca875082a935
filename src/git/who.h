/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name and the e-mail address that the user's Git commits with, and nothing else of its settings.
 *
 * Purpose: commands inside can commit. On the way of every command, so it is read natively.
 * Limits:  ~/.gitconfig and git/config of XDG_CONFIG_HOME, and what they include by [include]. With an
 *          [includeIf] the answer depends on what only git knows: then there is none.
 */
#ifndef CROFT_GIT_WHO_H
#define CROFT_GIT_WHO_H

#include <stdbool.h>

#include "base/buf.h"

/*
 * A configuration file with [user] and at most these two settings, to be read in place of the
 * system's; after `system`, unless it is NULL, has been included. False: neither is known.
 */
bool git_who(const char *home, const char *xdg_config, const char *system, struct buf *ret);

#endif
