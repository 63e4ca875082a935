/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command changed in a workspace that it wrote in place, when nobody watched its calls.
 *
 * Purpose: after the last process is gone, list the files whose change time is not before the command. The
 *          kernel sets that time, and no call sets it back.
 * Trust:   the tree is the command's work: walked by descriptor, no symlink followed, bounded, nearest first.
 *          Directories that the policy lets nobody write are not entered.
 * Limits:  a file that is newer than the command is `created`, also where it replaced an older one. What was
 *          deleted or moved leaves no trace but the time of its directory: then the list may lack something.
 *          File times go in ticks of some milliseconds: what was written in the tick in which the command
 *          begins is listed, too.
 */
#ifndef CROFT_SESSION_RUN_CHANGED_H
#define CROFT_SESSION_RUN_CHANGED_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "policy/policy.h"
#include "session/run/record.h"

/* Directory entries that are looked at: some for every command, and more the longer it ran (about 1 %). */
#define CHANGED_ENTRIES_MIN 2048
#define CHANGED_ENTRIES_MAX 131072
#define CHANGED_US_AN_ENTRY 200
#define CHANGED_DIRS_MAX 16384 /* directories that wait to be looked at */

unsigned changed_entries(uint64_t wall_us);
/* Add them to the record. False when there may be more: deletions, or a tree of more entries. */
bool changed_look(
	struct record *r, const struct policy *p, const struct timespec *since, unsigned entries);

#endif
