/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A system-call filter that keeps some processes from being signalled, for kernels whose Landlock
 * does not scope signals (ABI below 6).
 *
 * Purpose: whoever has the filter cannot send a signal to the guarded process: not by its number or
 *          that of a thread of it, not to its group, not to everybody (-1), not by a process
 *          descriptor, and not as the owner of a descriptor (SIGIO).
 * Trust:   only what a filter can read counts: numbers in registers. Calls that keep the target
 *          in memory or behind a descriptor (F_SETOWN_EX, FIOSETOWN, pidfd_send_signal) are refused
 *          for every target.
 * Limits:  the guarded process must block every signal that can be blocked: a terminal's
 *          foreground group is not looked at, so only SIGKILL and SIGSTOP are kept from it.
 */
#ifndef CROFT_OS_PIDFILTER_H
#define CROFT_OS_PIDFILTER_H

#include <sys/types.h>

#include "base/err.h"
#include "os/seccomp.h"

#define PIDFILTER_IDS_MAX 4

/*
 * ids: processes and threads, by number; groups: process groups nobody may signal or join. All of them
 * positive.
 */
struct pidfilter {
	pid_t ids[PIDFILTER_IDS_MAX], groups[PIDFILTER_IDS_MAX];
	size_t ids_n, groups_n;
};

int pidfilter_build(struct seccomp_prog *p, const struct pidfilter *g, struct err *e);

#endif
