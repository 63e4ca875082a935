/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's loop: one sandbox from its first process to its end.
 *
 * Purpose: bring the sandbox to GO, copy the terminal, serve the watchers, forward signals, enforce
 *          the limits on time and staged files, end when whoever started us does, and come back with
 *          how it ended and nothing left running.
 * Trust:   control messages and notices come from inside the boundary: checked, bounded, data only.
 * Failure: whatever happens here, the sandbox's first process is killed and reaped before
 *          returning.
 */
#ifndef CROFT_SESSION_RUN_SUPERVISE_H
#define CROFT_SESSION_RUN_SUPERVISE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "session/run/diskwatch.h"
#include "session/net/network.h"
#include "session/run/record.h"
#include "session/stdio/relay.h"
#include "session/stdio/terminal.h"
#include "engine/engine.h"
#include "os/cgroup.h"

struct outcome {
	bool started; /* the command existed */
	int status;   /* wait status of the command, valid when started and !lost */
	bool lost;    /* the first process died without a report */
	bool timed_out;
	bool orphaned;  /* ended because whoever started us did */
	bool disk_full; /* ended because more was staged than allowed */
	bool scratch_full;
	bool unwatched; /* protections that the host can end were only compared, not watched */
	/* The host replaced what a protection was on, and the command was killed for it. */
	char replaced[POLICY_PATH_MAX];
	uint64_t cpu_us;
	uint64_t maxrss_kb;
};

/*
 * The signals that a supervisor takes over, except those the caller had told us to ignore (nohup):
 * from before anything is made until everything is gone, so that none can end us in between.
 */
struct signals {
	int fd;
	int ended_by; /* one that asked to end, and was passed on; 0: none */
	sigset_t old;
};

#define SIGNALS_INIT ((struct signals){.fd = -1})

int signals_take(struct signals *s, struct err *e);
void signals_release(struct signals *s);

/* GO: with the groups that the first process shall enter, unless it was born there. */
int sandbox_go(struct sandbox *b, const struct cgroup *cgroup, struct err *e);

struct supervise {
	struct signals *signals;
	struct sandbox *sandbox;
	const struct plan *plan;
	struct cgroup *cgroup;
	struct terminal *terminal;
	struct relay *relay; /* output that is captured; inactive: the command has ours */
	struct record *record;
	struct network *network;
	const char *workspace;
	struct diskwatch *disk;     /* what is staged; watches nothing where there is no limit */
	const char *const *scratch; /* trees of the sandbox's own; NULL-terminated */
	uint64_t timeout_ms;        /* LIMIT_NONE: none */
	pid_t others[64]; /* children of ours that are not the sandbox's (no pid namespace) */
	size_t others_n;
	bool tty_background; /* see struct request */
	/* Called when the command has ended, while its sandbox is still being taken down. */
	void (*meanwhile)(void *arg, const struct outcome *o);
	void *meanwhile_arg;
	/* The sandbox is READY: last chance to refuse, before GO. NULL: none. */
	int (*begin)(void *arg, struct err *e);
	void (*gone)(void *arg); /* GO was said: the command will have its descriptors */
	bool pid_namespace;      /* the sandbox ends with its first process */
	bool refuse;             /* only end the sandbox: it may not begin */
};

/* Returns 0 with *ret filled, or -errno with the reason why the command never started. */
int supervise(struct supervise *s, struct outcome *ret, struct err *e);

#endif
