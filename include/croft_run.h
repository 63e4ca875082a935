/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcroft, the part that takes over the calling process: one command in a sandbox, to its end.
 *
 * This is what `croft run` is made of: a session of one command in the caller's own process, because a
 * process of its own would cost more than the sandbox does. It is for programs that do nothing else; all
 * others want croft.h. While a command runs here:
 *
 * Signals:   SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGWINCH and the job-control signals are taken over
 *            and restored afterwards; what ends the caller is told to the command first.
 * Children:  the process becomes a subreaper where there is no pid namespace, and waits for its children.
 * Groups:    supplementary groups may be dropped by root, in the child.
 * Terminal:  a terminal among fd[] is made raw, and the caller stops and continues with the command.
 * Thread:    the sandbox dies with the thread that started it.
 * Library:   one at a time in a process; no other thread may fork meanwhile.
 */
#ifndef CROFT_RUN_H
#define CROFT_RUN_H

#include "croft.h"

#ifdef __cplusplus
extern "C" {
#endif

struct croft_env;
struct croft_receipt;

/*
 * Bind this process to its parent: whatever runs in a sandbox ends when `parent` does. For programs that
 * are run by another one, at their start, with getppid(); 0 takes it back. Not bound by default.
 */
void croft_end_with(int parent);

/*
 * This process runs one command and ends: memory that is taken from now until the command runs is not given
 * back, which is quicker. early: its sandbox may begin before the plan is made. Does nothing but in the croft
 * program itself.
 */
void croft_ends_soon(bool early);

/* ---- environment ---- */

struct croft_env_options {
	bool discard;       /* changes to the workspace are thrown away */
	bool prefer_staged; /* as staged, where the tier that was chosen can; else in place, recorded */
	bool staged;    /* name NULL: changes are kept for review, as an environment of their own */
	bool read_only; /* a named one: look, change nothing; beside a writer */
	bool as_test;   /* what is executed is a test: its result is evidence */
	bool allow_degraded; /* accept what the machine cannot enforce; recorded */
	const char *stem;    /* staged, name NULL: what the environment is called, or begins with */
};

/* An unnamed, short-lived environment when name is NULL. p is borrowed until it is closed. */
int croft_env_open(struct croft *c, const char *name, struct croft_policy *p,
	const struct croft_env_options *o, struct croft_env **ret);
void croft_env_close(struct croft_env *e);
/* The name of the environment that holds what was staged; NULL: nothing was. */
const char *croft_env_name(const struct croft_env *e);
/* Why the record of the last command is not in the ledger yet; NULL when it is. */
const char *croft_env_problem(const struct croft_env *e);
/* What should be told about it (recovered, left out), one sentence a line; "" when nothing. */
const char *croft_env_notes(struct croft_env *e);
/* What would be set up, in order. */
int croft_env_plan(struct croft_env *e, const char *const *argv, enum croft_format f, char **ret);

/*
 * A file to be written on the user's behalf when the command has ended, such as a receipt; a relative
 * path is below the current directory. What is in the workspace, or where the policy lets a command
 * write, may have been planted there by a sandbox: no symlink in it is followed, and the file is put in
 * place whole, by rename, so that the command cannot have a hand in it.
 */
struct croft_output;
int croft_output_open(struct croft_env *e, const char *path, struct croft_output **ret);
/* The same for a session under this policy; NULL: no symlink is followed at all. */
int croft_output_open_beside(struct croft *c, const struct croft_policy *p, const char *path,
	struct croft_output **ret);
int croft_output_write(struct croft_output *o, const char *text);
void croft_output_free(struct croft_output *o);

/* croft_session_stop(), and what it left on the host that should be told, as lines; NULL: nothing. */
int croft_session_end(
	struct croft *c, const char *name, unsigned long long grace_ms, char **ret_left);

/* ---- execute ---- */

struct croft_input {
	const char *const *argv; /* NULL-terminated */
	int fd[3];               /* stdin, stdout, stderr of the command; -1 is /dev/null */
	bool own_fds;            /* close fd[] (terminals aside) as soon as the command has them */
	const char *label;       /* free text recorded in the receipt, or NULL */
};

/*
 * name: "exec". Runs to the end. The receipt exists whenever the command was started; a signal
 * before that is a failure. Meanwhile the caller's signals are taken over, and restored afterwards.
 */
int croft_execute(struct croft_env *e, const char *name, const struct croft_input *in,
	struct croft_receipt **ret);

/* A receipt refers to the policy it ran under: free it first. */
void croft_receipt_free(struct croft_receipt *r);
int croft_receipt_exit(const struct croft_receipt *r); /* as the shell would see it */
const char *croft_receipt_id(const struct croft_receipt *r);
const char *croft_receipt_json(struct croft_receipt *r);
const char *croft_receipt_text(struct croft_receipt *r, bool verbose);
/* The same as data; it belongs to r. NULL: out of memory. */
const struct croft_receipt_info *croft_receipt_info(struct croft_receipt *r);

/* ---- the process of a session ---- */

/*
 * What `croft session` is, which croft_sandbox_start() executes: it returns when the session is over.
 * `caller` is the starter's connection, which is told why when it could not be started. name NULL: an
 * environment is made from the directory that p was loaded for.
 */
int croft_session_serve(struct croft *c, const char *name, struct croft_policy *p,
	const struct croft_sandbox_options *o, int caller);
/* It could not even begin: tell the starter the last error of c. */
void croft_session_refuse(struct croft *c, int caller);


struct croft_replay_options {
	unsigned long long event;    /* 0: all commands; else this one, after those before it */
	struct croft_policy *policy; /* a candidate; NULL: as recorded */
	bool keep;                   /* the fresh environment */
	bool verbose;                /* the commands' output to standard error */
};
/* Run recorded commands again in a fresh environment. 0: every claim holds, 1: not. */
int croft_replay(struct croft *c, const char *name, const struct croft_replay_options *o,
	enum croft_format f, char **ret);

/* Run the escape probes. Returns the number of escapes. */
int croft_prove(
	struct croft *c, const char *tier, const char *only, enum croft_format f, char **ret);
/* Inside the sandbox: one probe, by id; exit status per src/prove/prove.h. */
int croft_probe_main(int argc, char **argv);
/*
 * Execute a command observed (the policy must say observe: full) and propose the narrowest policy
 * as a diff. Applies nothing. The receipt is returned as by croft_execute().
 */
int croft_learn(struct croft_env *e, const struct croft_input *in, enum croft_format f, char **ret,
	struct croft_receipt **ret_receipt);

#ifdef __cplusplus
}
#endif

#endif
