/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a staged workspace means to those who look from outside: which rules still say something, and
 * what a command changed in its upper layer.
 */
#ifndef CROFT_SESSION_RUN_STAGED_H
#define CROFT_SESSION_RUN_STAGED_H

#include <stdbool.h>
#include <time.h>

#include "session/run/record.h"
#include "engine/engine.h"
#include "policy/policy.h"

#define STAGED_FILES_MAX 100000

/* Writing in a staged workspace that may be written harms nobody: there, only denials mean something. */
bool staged_moot(const struct staging *s, const struct policy *p, const struct policy_rule *r);
/* A grant in a directory that is denied otherwise. */
bool staged_below_denied(const struct policy *p, const struct policy_rule *r);

/*
 * What the workspace's upper layer holds from `since` on, without its .git. A file is counted when it
 * or a directory around it was changed since: rather one too many than one too few. False when it
 * was cut short.
 */
bool staged_changes(
	struct record *r, int upper, const struct staging *s, const struct timespec *since);

#endif
