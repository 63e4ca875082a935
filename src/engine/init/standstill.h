/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything below the first process stands still, by signals.
 *
 * Purpose: pausing a session where there is no freezer of cgroup v2 (that of v1 makes a SIGKILL wait).
 * Order:   SIGSTOP to everything that runs, in passes: what one forked before it stopped is found by the
 *          next. It stands still when two passes in a row have found nothing that runs.
 * Limits:  STANDSTILL_MS, because a process that waits in the kernel stops when it comes back. One that
 *          waits there for its vfork() child, which has stopped, does nothing before that child does.
 * Failure: what cannot be stopped in time goes on, and so does everything else.
 */
#ifndef CROFT_ENGINE_INIT_STANDSTILL_H
#define CROFT_ENGINE_INIT_STANDSTILL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define STANDSTILL_MS 5000

struct standstill {
	bool on;
	pid_t *before; /* had stopped already, and stays so afterwards */
	size_t before_n;
};

/*
 * Spared are we, our threads, and the `n` given children. False: something may run, so all of it does. It is
 * also given up when whoever is at the other end of `peer` has gone.
 */
bool standstill_begin(struct standstill *s, const pid_t *spare, size_t n, int peer);
/* It goes on, but for what had stopped before. */
void standstill_end(struct standstill *s, const pid_t *spare, size_t n);

#endif
