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
#ifndef CROFT_ENGINE_INIT_INIT_H
#define CROFT_ENGINE_INIT_INIT_H

#include "base/buf.h"
#include "engine/engine.h"
#include "engine/init/shield.h"
#include "engine/box/stdio.h"
#include "os/cpus.h"

struct init {
	int control;
	const struct plan *plan;
	const struct request *request;
	/* Engine's own set-up; may fill fd[] and enforced. NULL: none. */
	int (*setup)(struct init *in, struct err *e);
	/* What set-up began and may end while we lock down; fills fd[] and enforced, too. NULL: none. */
	int (*settle)(struct init *in, struct err *e);
	bool waits; /* the plan is only what each begins with: init_await_plan() has the rest */
	const struct plan *expected; /* overlays that it will have, probably; NULL: none is known */
	bool counts_user; /* RLIMIT_NPROC counts all of the user's tasks, not the sandbox's alone */
	bool pid_namespace;   /* we are pid 1: our death ends everything */
	pid_t broker_tid;     /* its thread; 0: none */
	struct starts *starts; /* what it knows of our execs; NULL: it need not */
	size_t starts_slot;
	struct shield shield; /* without a pid namespace */
	struct cpus cpus;     /* of whoever started us, and the command's */
	struct enforced enforced;
	int fd[SANDBOX_FD_NUM]; /* handed to the supervisor with READY */
	/* Trees of the sandbox's own for the broker; NULL-terminated, borrowed. */
	const char *const *scratch;
	struct outside outside[STDIO_OUTSIDE_MAX]; /* what the command holds of the host's */
	size_t outside_n;
};

_Noreturn void init_main(struct init *in);

/* What is handed over to a first process that was begun before its plan was made. */
struct handed_plan {
	const struct plan *plan;
	const struct request *request;
};
/* Block until the supervisor hands over plan and request; the plan begins with what was done already. */
int init_await_plan(struct init *in, struct err *e);

/*
 * One message; its descriptors are placed in the free slots of s->fd that its mask names. 1, 0 at the
 * end, -EAGAIN, or -EPROTO with nothing of it kept.
 */
int control_receive(struct sandbox *s, struct control_msg *ret);
/* 0 or -errno; -EINVAL for what the other end would refuse. fds_n is the number of bits in m->fd_mask. */
int control_send(int fd, const struct control_msg *m, const int *fds, int fds_n);

/* The two halves of the form, without a socket: for tests and fuzzing. */
#define CONTROL_MAX_B (ERR_MSG_MAX + 64) /* no message is longer */
void control_encode(struct buf *b, const struct control_msg *m);
int control_decode(struct control_msg *ret, const void *p, size_t n);

#endif
