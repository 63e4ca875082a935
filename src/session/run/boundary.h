/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A boundary: one sandbox on one engine, from its plan to its end, whatever runs in it.
 *
 * Order:   boundary_init -> (boundary_begin ->) boundary_plan -> boundary_start -> (READY, GO, commands:
 *          supervise.h for one, session/serve for many) -> boundary_conclude, when it has ended ->
 *          boundary_done on every path.
 *          Everything before boundary_start is free of side effects; a sandbox that was begun holds no
 *          command and no name of the host's, and goes with boundary_done.
 * Failure: boundary_start may fail when the sandbox exists already: then sandbox.pid is not 0, and
 *          whoever called ends it.
 */
#ifndef CROFT_SESSION_RUN_BOUNDARY_H
#define CROFT_SESSION_RUN_BOUNDARY_H

#include "engine/engine.h"
#include "os/cgroup.h"
#include "session/run/diskwatch.h"
#include "session/run/planted.h"
#include "session/run/receipt.h"
#include "session/run/run.h"
#include "session/run/scratch.h"
#include "session/run/views.h"

#define BOUNDARY_OTHERS_MAX 64

struct boundary {
	const struct run_request *q;
	const struct engine *engine;
	struct receipt *receipt; /* what is found out about it is written there */
	struct request request;
	char **argv; /* a copy: the sandbox wipes the environment, and the caller's may lie there */
	struct strlist env;
	struct scratch scratch;
	struct buf git_config; /* GIT_CONF; empty: it is not known who commits */
	char git_config_path[SCRATCH_PATH_MAX + 16]; /* where the command has it */
	struct views views;
	struct plan plan;
	struct cgroup cgroup;
	struct diskwatch disk;
	struct sandbox sandbox;
	struct timespec since; /* by the clock of file times: what changed later was changed inside */
	struct timespec go;    /* the same, just before there is a command */
	bool prepared;         /* by boundary_begin() */
	bool hold;             /* names that run on the host need a broker */
	struct planted_scope planted;
	struct strlist repos; /* that were there before */
	pid_t others[BOUNDARY_OTHERS_MAX]; /* children of ours that are not the sandbox's */
	size_t others_n;
};

/* Trees of the sandbox's own, for the observer; NULL-terminated. */
#define BOUNDARY_SCRATCH_MAX 12
void boundary_scratch(const struct boundary *b, const char *ret[BOUNDARY_SCRATCH_MAX]);

/* Engines to try, best first; how many. More than one only when the policy leaves the choice to us. */
int boundary_engines(
	const struct run_request *q, const struct engine *ret[ENGINES_MAX], struct err *e);
/* What is refused whatever the engine, and what the receipt can say from the beginning. */
int boundary_check(const struct run_request *q, struct receipt *r, struct err *e);
void boundary_init(struct boundary *b, const struct run_request *q, const struct engine *en,
	struct receipt *r);
/*
 * Where the engine can, the sandbox begins to set itself up while the policy is settled and the plan is made.
 * stdio: what the command gets, and its terminal; nothing else of it counts.
 */
int boundary_begin(struct boundary *b, const struct request *stdio, struct err *e);
int boundary_plan(struct boundary *b, struct err *e);
int boundary_start(struct boundary *b, struct err *e);
/* What a command gets as its environment under p, which sets variables: planned is enough. */
int boundary_environ(const struct boundary *b, const struct policy *p, char *const *caller,
	const char *cwd, const char *run_id, struct strlist *ret, struct err *e);
/* Before GO: what is there now was there before the first command. */
void boundary_look_before(struct boundary *b);
/* It has ended: the receipt gets everything but what boundary_look_after() finds. */
void boundary_conclude(struct boundary *b, const struct outcome *o);
/* How a limit on processes is held without a cgroup, once r->enforced tells it; why there is none. */
void boundary_note_pids(struct receipt *r, const char *why);
/* The part of it that is known as soon as it runs: degradations by what could not be had. */
void boundary_note(struct boundary *b);
/* The part of it that can come while a command runs: what outcome.replaced says. */
void boundary_note_replaced(struct receipt *r);
/* Which services of the host's made sockets in granted trees meanwhile? They are degradations. */
void boundary_look_for_sockets(struct boundary *b);
/* After the last process is gone, where nobody watched its calls: which files did it change in place? */
void boundary_look_for_changes(struct boundary *b);
/* After the last process is gone: what did it leave that the host will execute? */
void boundary_look_after(struct boundary *b);
void boundary_done(struct boundary *b);

/* conclude.c, used by boundary.c: which directory may have names that run on the host. */
const char *boundary_harmless(const struct run_request *q);

#endif
