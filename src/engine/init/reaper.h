/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reaper: the parent of one command at a time, and of whatever that command leaves behind.
 *
 * Purpose: start the command, tell its end, keep every process that descends from it below itself (it is a
 *          subreaper), so that a signal for "all of it" reaches them whatever they did to their groups,
 *          and so that what they used is counted as that command's.
 * Order:   idle -> EXEC -> STARTED or FAILED -> EXIT -> EMPTY, when nothing of it is left -> idle again:
 *          the session uses it for the next command, without a fork on its way.
 * Trust:   as init_session.h. Its socket closes with it, which tells the session that the command is lost.
 */
#ifndef CROFT_ENGINE_INIT_REAPER_H
#define CROFT_ENGINE_INIT_REAPER_H

#include "engine/init/init.h"

#define REAPER_REST_MS 1500 /* without a message: then it, and the first process, give back what they can */

/* `group`: of its commands (os/freezer.h); -1: they stay in the sandbox's own. Takes both descriptors. */
_Noreturn void reaper_main(struct init *in, int sock, int group, int held);

#endif
