/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a command, in order: choose the tier, plan, start, supervise, record.
 * Everything before `engine->start` is free of side effects, so a refusal leaves nothing behind: a sandbox
 * that was begun while the plan was made (boundary_begin) is a process that waits, and is ended.
 */
#ifndef CROFT_SESSION_RUN_RUN_H
#define CROFT_SESSION_RUN_RUN_H

#include "session/stdio/capture.h"
#include "session/run/receipt.h"
#include "engine/plan/plan.h"
#include "policy/policy.h"

struct run_request {
	struct policy *policy; /* its memory is also used for what is derived from it */
	const char *home, *workspace, *cwd;
	dev_t workspace_dev; /* which directory the workspace must be; 0: whichever has the name */
	ino_t workspace_ino;
	bool serve; /* no command: they come while it is up (session/serve) */
	char *const *argv;
	char *const *environ; /* the caller's: only what the policy passes is taken */
	int stdio[3];         /* -1: /dev/null */
	bool own_stdio; /* close stdio[] once the command has it (only on success of its start) */
	bool discard;
	const struct staging *staging; /* the workspace is an environment's; NULL: in place */
	bool own_workspace; /* it is a copy of croft's own, whose changes are reviewed */
	struct capture *capture;       /* keep a copy of the output; NULL: the command has ours */
	/* Before the command exists, when nothing but a failure of its own can stop it; -errno refuses. */
	int (*begin)(void *arg, const struct receipt *r, struct err *e);
	/* While the sandbox sets itself up: what begin() can have ready; -errno refuses. NULL: nothing. */
	int (*prepare)(void *begin_arg, const struct receipt *r, struct err *e);
	void *begin_arg;
	bool allow_degraded;
	const char *label;
	const char *stem; /* a name for what is staged, completed by a number where it is taken; or NULL */
	void (*tap)(void *arg, const struct notice *n); /* see record.h */
	void *tap_arg;
	bool watch_network; /* a policy without network rules: see what is asked for all the same */
};

/* r must be receipt_init()ed. 0 when the command ran (whatever its exit), else -errno. */
int run_command(struct receipt *r, const struct run_request *q, struct err *e);
/* The plan that run_command would execute first. *live is the policy it refers to. */
int run_plan(struct plan *ret, const struct run_request *q, struct policy *live, struct err *e);

/* Shared with sessions: what is refused at once, and what a receipt begins with. */
int run_check(const struct run_request *q, struct err *e);
int run_begin_receipt(struct receipt *r, const struct run_request *q, struct err *e);

#endif
