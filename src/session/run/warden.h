/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who looks after a sandbox while its supervisor is stopped as a job.
 *
 * Purpose: a command that stops itself makes the supervisor stop with it (ctrl-Z), and a stopped
 *          supervisor enforces nothing, while other processes of the command go on. A process of its
 *          own waits for what must not wait: the time limit, the end of the parent, the disk
 *          limit. It does nothing itself but continue the supervisor.
 * Order:   made right before the stop, ended right after it: a run that is never stopped has none.
 * Failure: it dies with the supervisor. If it cannot be made, the supervisor does not stop.
 */
#ifndef CROFT_SESSION_RUN_WARDEN_H
#define CROFT_SESSION_RUN_WARDEN_H

#include <stdint.h>
#include <sys/types.h>

#include "session/run/diskwatch.h"
#include "os/starter.h"

/* deadline_ms: by clock_ms(); 0: none. Returns its pid, or -errno. */
pid_t warden_start(uint64_t deadline_ms, const struct starter *p, const struct diskwatch *w);
void warden_stop(pid_t pid);

#endif
