/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a sandbox that stays up: any number of commands, each below a reaper of its own.
 *
 * Purpose: fork reapers when the session asks for them, make connections to ports inside, stop and
 *          continue everything, and kill what a dead reaper leaves behind.
 * Order:   as init.h up to GO; then STARTED, and from there on only messages of engine/wire.
 * Trust:   locked down like every process inside. A hostile command may kill a reaper, its own or a
 *          neighbour's (never this process, which is pid 1 or behind the shield): then everything that
 *          was below it comes to this process as an orphan and is killed, so nothing goes on that
 *          nobody accounts for.
 * Failure: the session gone: everything dies, as with a single command.
 */
#ifndef CROFT_ENGINE_INIT_INIT_SESSION_H
#define CROFT_ENGINE_INIT_INIT_SESSION_H

#include "engine/init/init.h"

#define SERVE_REAPERS_MAX 4096

/* `held`: enum go_flags, what the session's cgroup limits. */
_Noreturn void serve_main(struct init *in, int sigfd, int held);

#endif
