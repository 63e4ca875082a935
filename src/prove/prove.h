/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The escape probes: every attack that croft claims to hold, really tried.
 *
 * Purpose: a probe is one attack of the catalogue. It runs inside a real sandbox (`croft probe NAME
 *          KEY=VALUE…`) against bait that was laid outside, and says HELD, ESCAPED or SKIPPED.
 * Trust:   the probe's own word is not enough for changes: the lure (bait.c), which lives outside,
 * also looks whether the bait was changed or touched. Either is an escape. Control: the same probe
 * run without a sandbox must say ESCAPED, otherwise it proves nothing. Every single attempt in it
 * is counted then, except those which the caller's privilege or the kernel does not allow anyway.
 * Harm:    none. Attacks go at bait in a temporary directory and at a process made for it; kernel
 *          interfaces are called with arguments that fail, and the kind of failure tells whether
 * they were reached.
 */
#ifndef CROFT_PROVE_PROVE_H
#define CROFT_PROVE_PROVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define PROBE_ARGS_MAX 64
#define PROBE_DETAIL_MAX 4096
#define PROVE_REPORT_MAX (1u << 20)

enum probe_result { PROBE_HELD, PROBE_ESCAPED, PROBE_SKIPPED, PROBE_FAILED, PROBE_RESULT_NUM };
extern const char *const probe_result_names[PROBE_RESULT_NUM]; /* "HELD" "ESCAPED" … */

/* Exit statuses of `croft probe`. */
enum probe_exit { PROBE_EXIT_HELD = 0, PROBE_EXIT_ESCAPED = 1, PROBE_EXIT_SKIPPED = 77 };

enum probe_tier { PROBE_PROCESS = 1, PROBE_NAMESPACE = 2, PROBE_BOTH = 3 };

/* What the lure prepared, as KEY=VALUE words; see bait.c for the keys. */
struct probe_args {
	const char *kv[PROBE_ARGS_MAX];
	size_t n;
	bool control;      /* no sandbox around us: every attempt should succeed */
	bool namespaced;   /* tier=namespace */
	const char *token; /* what the bait secrets contain */
};

/*
 * With which policy: what a user has by default, or with denied and read-only paths inside the
 * workspace, which brings in the broker and other mechanisms.
 */
enum probe_rules { RULES_DEFAULT, RULES_INNER, RULES_EITHER };

/* Where what it writes goes: to the workspace itself, to layers, or to a new environment's. */
enum probe_place { PLACE_DIRECT, PLACE_STAGED, PLACE_ENVIRONMENT };

struct probe {
	const char *id;   /* entry of the catalogue: "F8" */
	const char *name; /* "F8-proc-root" */
	const char *what; /* one line */
	unsigned tiers;   /* enum probe_tier */
	enum probe_result (*run)(const struct probe_args *a, struct buf *detail);
	/*
	 * Success inside is not yet an escape: writes may land in a private copy. Only what the
	 * lure sees outside decides.
	 */
	bool outside;
	enum probe_rules rules;
	const char *set[4]; /* policy settings it needs, "limits.pids=64" */
	const char *limit;  /* the limit it tests: "memory", "pids", "disk" */
	const char *given;  /* bait that it gets as standard input, opened for reading */
	const char *write;  /* bait that it may write, beside the workspace */
	enum probe_place place;
	/* Lays in the current directory, the workspace, what only this probe needs. From outside. */
	int (*plant)(const char *bait);
	/* Part of the sentence with which croft may refuse the run: that counts as held. */
	const char *refusal;
};

struct probe_family {
	const struct probe *v;
	size_t n;
};
extern const struct probe_family probes_files, probes_race, probes_meta, probes_proc, probes_ipc,
	probes_kernel, probes_privilege, probes_resources, probes_names, probes_repository,
	probes_agents;

/* The families in the order of the catalogue, ended by one with n == 0. */
extern const struct probe_family *const probe_families[];
const struct probe *probe_find(const char *name);

/* ---- for probes ---- */

/* The value of a key, "" when it was not given; as a number, -1 when it was not. */
const char *probe_arg(const struct probe_args *a, const char *key);
long probe_num(const struct probe_args *a, const char *key);
/* A path below the bait directory. One of a few static buffers: good until some calls later. */
const char *probe_path(const struct probe_args *a, const char *relative);
/* Does what can be read from fd hold the token? 0, or -1 with errno. Closes fd; fd < 0 keeps errno.
 */
int probe_read_token(const struct probe_args *a, int fd);

/* Counting attempts. `rc` is what the system call returned, errno as it left it. */
struct probe_tally {
	const struct probe_args *a;
	struct buf *detail;
	unsigned won, lost, na;
	int last_errno;
	struct buf lost_names, won_names;
};
struct probe_tally tally_start(const struct probe_args *a, struct buf *detail);
void tally_try(struct probe_tally *t, long rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, for what only root could do without a sandbox. */
void tally_root(struct probe_tally *t, long rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* For calls made with impossible arguments: any error but a refusal means the kernel was reached.
 */
void tally_reach(struct probe_tally *t, bool root, long rc, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void tally_na(struct probe_tally *t); /* an attempt that cannot be made here */
enum probe_result tally_end(struct probe_tally *t);

/* Run in a forked child: 0 or -1 with errno as fn left it; death by a signal is EPERM (SIGSYS) or
 * PROBE_KILLED. */
#define PROBE_KILLED EOWNERDEAD
long probe_in_child(long (*fn)(void *arg), void *arg);
/* Run argv, capture up to n-1 bytes of its stdout; returns the exit status, -1 when it did not run.
 */
int probe_spawn(const char *const *argv, int exec_fd, char *ret_out, size_t n);

/* Names in a home directory that should never be readable; ended by NULL. */
extern const char *const probe_real_names[];

enum probe_result probe_skip(struct buf *detail, const char *why);

/* ---- running them ---- */

/* `croft probe NAME KEY=VALUE…`, and `croft probe --lure`, the bait's keeper. */
int probe_main(int argc, char **argv);
int lure_main(void);

/* One execution that prove_run asks for. Lists are NULL-terminated. */
struct prove_cell {
	const char *workspace;
	const char *tier;
	const char *const *argv;
	const char *const *read;
	const char *const *write;
	const char *const *deny;
	const char *const *set;
	enum probe_place place;
	int stdin_fd; /* -1: none */
	int stdout_fd;
};

/*
 * Execute a cell in a sandbox and return its exit status; 125 or 126 with a sentence in `why` when
 * it was not run. When it was, `why` names the limits that the receipt says this machine cannot
 * hold in total. Called in a process of its own, whose environment, HOME and keyring hold bait.
 */
typedef int prove_execute(void *arg, const struct prove_cell *cell, char *why, size_t why_size);

struct prove_options {
	const char *tier; /* "process", "namespace"; "none": the controls, without any sandbox */
	const char *only; /* comma-separated ids or names, '*' and '?' allowed; NULL: all */
	bool json;
	prove_execute *execute;
	void *arg;
};

/*
 * Run the probes and write the report. Returns the number of escapes; for the controls the number
 * of probes that did not escape although nothing held them.
 */
int prove_run(const struct prove_options *o, struct buf *out, struct err *e);

#endif
