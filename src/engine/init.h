/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a sandbox, common to every engine that starts host processes.
 *
 * Purpose: run the engine's set-up, lock down, tell the supervisor READY, wait for GO, start the
 *          command, reap, forward signals, report the end.
 * Trust:   until lockdown it is croft; after it, it lives inside the boundary with the command (not
 *          dumpable, so the command cannot look into it). The supervisor treats its messages as data.
 * Order:   set-up -> standard descriptors -> keyring -> capabilities -> Landlock -> broker ->
 *          seccomp -> READY -> GO -> rlimits -> command. Each step either held or the command
 *          never exists.
 * Failure: one FAILED message with a sentence; exit. If the supervisor goes away, everything dies.
 */
#ifndef CROFT_ENGINE_INIT_H
#define CROFT_ENGINE_INIT_H

#include "engine/engine.h"
#include "engine/shield.h"
#include "engine/stdio.h"

struct init {
	int control;
	const struct plan *plan;
	const struct request *request;
	/* Engine's own set-up; may fill fd[] and enforced. NULL: none. */
	int (*setup)(struct init *in, struct err *e);
	/* What set-up began and may end while we lock down; fills fd[] and enforced, too. NULL: none. */
	int (*settle)(struct init *in, struct err *e);
	bool counts_user; /* RLIMIT_NPROC counts all of the user's tasks, not the sandbox's alone */
	bool pid_namespace;   /* we are pid 1: our death ends everything */
	pid_t broker_tid;     /* its thread; 0: none */
	struct shield shield; /* without a pid namespace */
	struct enforced enforced;
	int fd[SANDBOX_FD_NUM]; /* handed to the supervisor with READY */
	/* Trees of the sandbox's own for the broker; NULL-terminated, borrowed. */
	const char *const *scratch;
	struct outside outside[STDIO_OUTSIDE_MAX]; /* what the command holds of the host's */
	size_t outside_n;
};

_Noreturn void init_main(struct init *in);

/* Supervisor's side: one message, its descriptors placed in s->fd on READY. 1, 0 at EOF, -errno. */
int control_receive(struct sandbox *s, struct control_msg *ret);
int control_send(int fd, const struct control_msg *m, const int *fds, int fds_n);

#endif
