/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps the command from ending the first process where there is no pid namespace.
 *
 * Purpose: when the supervisor is killed, the first process ends the tree. A command that could kill
 *          it in that moment would outlive both. A pid namespace makes its first process immune;
 *          without one the command is shut into something that cannot signal it.
 * Order:   shield_prepare() in the first process, after Landlock and before seccomp;
 *          shield_enter() in the command's own process before its exec; shield_done() afterwards.
 * How:     with Landlock ABI 6 a nested domain that scopes signals: the first process is in the
 *          outer one, so out of reach, while it reaches everything below. Before that, a filter
 *          on the numbers of its threads (os/pidfilter.h).
 * Failure: what cannot be had refuses the run: the command does not start.
 */
#ifndef CROFT_ENGINE_INIT_SHIELD_H
#define CROFT_ENGINE_INIT_SHIELD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct seccomp_prog;

struct shield {
	pid_t first;                /* who is guarded */
	int ruleset;                /* Landlock: to be entered by the command */
	struct seccomp_prog *guard; /* or the filter */
	bool alone; /* signals of the first process reach nothing but the sandbox: kill(-1) is safe */
};

#define SHIELD_INIT ((struct shield){.ruleset = -1})

/* `scoped`: our own domain scopes signals. `helper`: a further thread of ours, or 0. */
int shield_prepare(struct shield *s, bool scoped, pid_t helper, struct err *e);
/* Between vfork and exec: no allocation. */
int shield_enter(const struct shield *s, struct err *e);
/* End whatever is left of the sandbox but ourselves, and reap it. */
void shield_end_tree(const struct shield *s);
void shield_done(struct shield *s);

#endif
