/* SPDX-License-Identifier: Apache-2.0 */
/* A command that is not there inside: where this machine has it, and what would grant it. */
#ifndef CROFT_SESSION_RUN_WHEREIS_H
#define CROFT_SESSION_RUN_WHEREIS_H

#include <stdbool.h>

#include "base/err.h"
#include "policy/policy.h"

/* Adds to the sentence of ERR_NOT_FOUND, if there is something to say. caller: its environment. */
void whereis_explain(
	struct err *e, const char *command, char *const *caller, const struct policy *p);
/* The same, for a script that the user's directory has and environment `env`, made of a commit, has not. */
void whereis_uncommitted(struct err *e, const char *command, const char *cwd, const char *env);
/*
 * Is this directory one that nobody should grant as a whole: the root, what lies directly in it, a
 * home directory or what is above one, a part of /usr?
 */
bool whereis_too_wide(const char *path);

#endif
