/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox that stays up, and the process that holds it.
 *
 * Purpose: start a boundary without a command, then serve callers (ipc/session_link.h): commands in it, any
 *          number at once; their input, output and signals; ports; pause; the end.
 * Trust:   callers have the user's rights (peer credentials are checked). What comes from inside is
 *          hostile, as in supervise.h.
 * Order:   settle, plan, start, READY, GO as for one command; then the loop until somebody asks for the end,
 *          a time limit, a signal, or the end of the sandbox.
 * Answer:  a command's exit is told only after ops.ended() has returned: whatever then happens to this
 *          process, the record has it.
 * Failure: this process killed: the sandbox ends with it, as with a single command; the owner's journal
 *          tells the next one.
 */
#ifndef CROFT_SESSION_SERVE_SERVE_H
#define CROFT_SESSION_SERVE_SERVE_H

#include "session/run/receipt.h"
#include "session/run/run.h"
#include "session/stdio/capture_mem.h"

#define SESSION_PROCESSES_MAX 4096 /* alive at once */
#define SESSION_KEPT_MAX 64        /* that have ended, for logs */
#define SESSION_KEPT_LOGS_B (16u << 20)
#define SESSION_CALLERS_MAX 4096
#define SESSION_EVENT_MAX 48 /* "12.3" */
#define SESSION_TREE_MAX 80
#define SESSION_REACH_MS 20000 /* between two looks whether the session can be reached */
#define SESSION_STOP_MS 5000 /* between being asked to end and being killed */

/* One command, as its owner records it. */
struct session_started {
	uint32_t process;
	const char *run_id, *cwd, *label; /* label: or NULL */
	const struct strlist *argv;
	struct timespec time;
	bool as_test, tty;
	const struct redact *hidden; /* values of this command's variables that must not be recorded */
};

struct session_ops {
	void *arg;
	/* The boundary is ready and nothing runs yet; r is the session's receipt. Last chance to refuse. */
	int (*up)(void *arg, const struct receipt *r, struct err *e);
	/* Before the command exists; -errno refuses it. */
	int (*started)(void *arg, const struct session_started *s, struct err *e);
	/* It never came to exist after all. */
	void (*dropped)(void *arg, uint32_t process, const char *why);
	/*
	 * It has ended. r is sealed, and its own. ret_event: which record will have it, or left as it is. A
	 * sentence in e does not undo anything.
	 */
	int (*ended)(void *arg, uint32_t process, struct receipt *r,
		const struct capture_mem out[CAPTURE_STREAMS], char ret_event[SESSION_EVENT_MAX],
		struct err *e);
	/* What is due: when (CLOCK_MONOTONIC ms, UINT64_MAX: nothing), and a descriptor or -1. */
	uint64_t (*due_ms)(void *arg);
	int (*fd)(void *arg);
	void (*poll)(void *arg, bool quiescent);
	/* The newest event of the record, and the tree that it has, or "": for who watches. */
	uint64_t (*recorded)(void *arg, char ret_tree[SESSION_TREE_MAX]);
	/*
	 * Somebody else wants to work on what is recorded: write down everything, and nothing until it is
	 * taken back.
	 */
	int (*lend)(void *arg, bool lend, bool quiescent, struct err *e);
	/* Somebody reads what is recorded: write down everything. */
	int (*seal)(void *arg, bool quiescent, struct err *e);
	/* Can nobody connect any more, because the listener's name is gone? Then the session ends. */
	bool (*unreachable)(void *arg);
};

struct session_options {
	const struct run_request *q; /* .serve; its policy is resolved already */
	const char *name;            /* for sentences and lists */
	const char *const *words;    /* of the boundary, as it was started with; NULL: none */
	const struct strlist *notes; /* what was found out while getting up; may be NULL */
	int listener;                /* SOCK_STREAM, bound and listening; borrowed */
	uint64_t linger_ms;   /* after the last process and caller: UINT64_MAX: for ever */
	uint64_t lifetime_ms; /* in all; UINT64_MAX: no limit */
	uint64_t idle_ms;     /* paused after so long without a caller; UINT64_MAX: never */
	struct session_ops ops;
	/*
	 * The connection of who started it, served as soon as it is up; -1: none. Borrowed: it may be used
	 * again when session_serve() has returned, if *ret_holder_waits says that it waits for the end and
	 * has been told all the rest.
	 */
	int holder;
	bool held; /* the session ends with that connection */
	bool *ret_holder_waits;
};

/* r is receipt_init()ed and becomes the session's own. 0 when it was up and has ended, else -errno. */
int session_serve(struct receipt *r, const struct session_options *o, struct err *e);

#endif
