/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that run on the host (policy/runs.h) in trees that a command writes in place.
 *
 * Purpose: before the run, find those that are there, so that they become read-only mounts, and decide
 *          whether only a broker can hold the rest: the names that are absent, or deeper.
 * Cost:    a broker makes every change of a name slower, so it is not switched on for a workspace that is
 *          written in place, where a listing of the workspace finds what counts most. It is for a grant
 *          of the home directory, of anything above it, or of a directory in it that such names lie in;
 *          for a threat that is hostile; and for a name that no mount can hold, such as a symlink.
 */
#ifndef CROFT_SESSION_CONFIG_HELD_H
#define CROFT_SESSION_CONFIG_HELD_H

#include "base/str.h"
#include "policy/policy.h"

#define HELD_NAMES_MAX 128 /* more in one run: the broker holds them */

struct held {
	struct strlist paths; /* that are there and must become read-only */
	bool broker;          /* mounts alone do not hold */
};

#define HELD_INIT ((struct held){.paths = STRLIST_INIT(HELD_NAMES_MAX)})

/*
 * `except`: where writing harms nobody (a staged workspace), or NULL. A grant of a directory whose contents
 * run on the host is refused unless it is a write-runs one.
 */
int held_find(struct held *ret, struct policy *p, const char *home, const char *workspace,
	const char *except, struct err *e);
static inline void held_done(struct held *h)
{
	strlist_done(&h->paths);
}

#endif
