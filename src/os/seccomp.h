/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system-call allowlist, built as a BPF program at run time.
 *
 * Purpose: allow what ordinary programs need (the shape of moby's default, tightened for agents);
 *          answer everything else with EPERM, or ENOSYS where libc is expected to fall back.
 * Shape:   architecture check, x32 check, then a balanced tree over ranges of numbers, so that the
 *          kernel's start-up evaluation (every number once) and each call cost a few compares.
 * Trust:   argument checks compare the 32 bits the kernel will use, never 64 where it reads 32.
 */
#ifndef CROFT_OS_SECCOMP_H
#define CROFT_OS_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum seccomp_flags {
	SECCOMP_NOTIFY_WRITES = 1 << 0,  /* notify: write-intent opens, truncate, rename, unlink */
	SECCOMP_NOTIFY_READS = 1 << 1,   /* notify: every open and exec as well */
	SECCOMP_BROKER = 1 << 2,         /* notify: every path-changing and metadata call (see broker.h) */
	SECCOMP_PROCESS_TIER = 1 << 3,   /* no namespaces behind it: also refuse AF_UNIX datagram pairs,
					    SysV IPC, POSIX mq, non-TCP sockets… (table says which) */
};

#define SECCOMP_PROG_MAX 1024

struct seccomp_prog {
	struct sock_filter insn[SECCOMP_PROG_MAX];
	size_t n;
};

int seccomp_build(struct seccomp_prog *p, unsigned flags, struct err *e);
/* Install; with any NOTIFY/BROKER flag *ret_listener is the notification fd, else -1. */
int seccomp_install(const struct seccomp_prog *p, unsigned flags, int *ret_listener, struct err *e);

#endif
