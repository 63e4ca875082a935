/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcroft: run commands behind a boundary.
 *
 * The path through this header is policy -> environment -> execute(name, input) -> receipt. Callers
 * see environments, commands and receipts, never engines. Functions return 0 (or a value) on
 * success and a negative errno on failure with croft_error() holding one sentence; nothing here
 * prints or exits. A struct croft is not thread-safe; use one per thread.
 */
#ifndef CROFT_H
#define CROFT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CROFT_VERSION "0.1.0"

/* Exit statuses that croft itself gives; stable. */
enum croft_exit {
	CROFT_EXIT_TIMEOUT = 124,
	CROFT_EXIT_FAILED = 125,
	CROFT_EXIT_REFUSED = 126,
	CROFT_EXIT_NOT_FOUND = 127,
};

enum croft_format { CROFT_TEXT, CROFT_JSON };

struct croft;
struct croft_policy;
struct croft_env;
struct croft_receipt;

/*
 * Bind this process to its parent: whatever runs in a sandbox ends when `parent` does. For programs that
 * are run by another one, at their start, with getppid(); 0 takes it back. Not bound by default.
 */
void croft_end_with(int parent);

struct croft *croft_new(void);
void croft_free(struct croft *c);
/* The last failure: one sentence, and the exit status that stands for it. */
const char *croft_error(const struct croft *c);
int croft_error_exit(const struct croft *c);

/* ---- policy ---- */

/* Where the layers come from. Zero-initialise; unset members mean "as usual". */
struct croft_policy_options {
	const char
		*directory; /* work there; the project is sought from it; NULL: current directory */
	const char *policy_file; /* --policy: replaces the user and project layers */
	const char *profile;     /* --profile */
	const char *tier;        /* --tier */
	const char *const *read; /* each list NULL-terminated, or NULL */
	const char *const *write;
	const char *const *deny;
	const char *const *hosts;      /* "host[:port]" to allow */
	const char *const *use;        /* bundles: "npm", "github-read" … */
	const char *const *secrets;    /* "NAME@HOST[:PORT]" */
	const char *const *publish;    /* "HOSTPORT:PORT" */
	const char *const *host_ports; /* "PORT" */
	const char *const *env;        /* "K" passes the caller's value, "K=V" sets */
	const char *const *set;        /* "limits.memory=2G" and other dotted keys */
};

/* Resolve the layers into one policy. Nothing has run or been created when this fails. */
int croft_policy_load(
	struct croft *c, const struct croft_policy_options *o, struct croft_policy **ret);
void croft_policy_free(struct croft_policy *p);
const char *croft_policy_digest(const struct croft_policy *p);
/* Reports: caller frees *ret. */
int croft_policy_show(
	struct croft *c, const struct croft_policy *p, enum croft_format f, char **ret);
/* path: of a file, or "host:port". */
int croft_policy_explain(struct croft *c, const struct croft_policy *p, const char *path,
	enum croft_format f, char **ret);
int croft_policy_diff(struct croft *c, const struct croft_policy *a, const struct croft_policy *b,
	enum croft_format f, char **ret); /* returns the number of differences */
/* Check one file as the layer it would be, without resolving. */
int croft_policy_check(struct croft *c, const char *file);
/*
 * Record the user's approval of the exact bytes of a project file (default: the project's
 * croft.yaml).
 */
int croft_policy_trust(struct croft *c, const char *file, bool revoke, char **ret_text);
/*
 * The same for a directory of Git objects that the repository of the current directory takes objects
 * from, and that is not part of it.
 */
int croft_policy_trust_objects(struct croft *c, const char *dir, bool revoke, char **ret_text);

/* ---- running sandboxes ---- */

/*
 * Connections that wait for a decision (network.ask), in every run of this user's. Caller frees
 * *ret.
 */
int croft_pending(struct croft *c, enum croft_format f, char **ret);
/* id as croft_pending() says; for_ms 0: this once. */
int croft_decide(struct croft *c, const char *id, bool allow, unsigned long long for_ms);
/* Swap the network rules of a running sandbox; what the new ones do not allow is closed. */
int croft_policy_set(struct croft *c, const char *run, const struct croft_policy *p);

/* ---- environment ---- */

struct croft_env_options {
	bool discard;       /* changes to the workspace are thrown away */
	bool prefer_staged; /* as staged, where the tier that was chosen can; else in place, recorded */
	bool staged;    /* name NULL: changes are kept for review, as an environment of their own */
	bool read_only; /* a named one: look, change nothing; beside a writer */
	bool as_test;   /* what is executed is a test: its result is evidence */
	bool allow_degraded; /* accept what the machine cannot enforce; recorded */
};

/* How a named environment begins. Zero-initialise; unset members mean "as usual". */
struct croft_new_options {
	const char *from; /* a revision; NULL: HEAD */
	bool dirty;       /* with what is not committed */
	const char *agent, *model, *task;
	const char *const *args; /* policy options as they were given: used again by every exec */
	void (*progress)(void *arg, unsigned percent);
	void *progress_arg;
};

/* Make one, from the directory that p was loaded for. *ret: a report. Caller frees. */
int croft_env_new(struct croft *c, const char *name, struct croft_policy *p,
	const struct croft_new_options *o, enum croft_format f, char **ret);
/* The options `croft_env_new` was given and the directory; for loading its policy again. */
int croft_env_args(struct croft *c, const char *name, char **ret_directory, char ***ret_args);

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
 * A file to be written on the user's behalf when the command has ended, such as a receipt. What is
 * below the workspace may have been planted there by a sandbox: no symlink in it is followed, and
 * the file is put in place whole, by rename, so that the command cannot have a hand in it.
 */
struct croft_output;
int croft_output_open(struct croft_env *e, const char *path, struct croft_output **ret);
int croft_output_write(struct croft_output *o, const char *text);
void croft_output_free(struct croft_output *o);

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

/* ---- environments: looking, keeping, forking. Reports: caller frees *ret ---- */

int croft_env_list(struct croft *c, bool all, enum croft_format f, char **ret);
int croft_env_status(struct croft *c, const char *name, enum croft_format f, char **ret);
/* One line an event; the last n (0: all). */
int croft_env_log(struct croft *c, const char *name, size_t n, enum croft_format f, char **ret);
int croft_env_snapshot(
	struct croft *c, const char *name, const char *label, enum croft_format f, char **ret);
int croft_env_restore(
	struct croft *c, const char *name, const char *label, enum croft_format f, char **ret);
int croft_env_fork(
	struct croft *c, const char *name, const char *fresh, enum croft_format f, char **ret);
int croft_env_remove(struct croft *c, const char *name, bool force, char **ret);
/* Reclaim what is provably landed or discarded, and what crashes left. */
int croft_gc(struct croft *c, bool dry_run, enum croft_format f, char **ret);

/* ---- review ---- */

enum croft_diff_what { CROFT_DIFF_HUNKS, CROFT_DIFF_STAT, CROFT_DIFF_NAMES };

struct croft_diff_options {
	enum croft_diff_what what;
	bool since_review; /* only what changed after the last review */
	bool color;
	bool text;                /* binary files are shown, too, escaped */
	const char *const *paths; /* only these; NULL: all */
};

int croft_diff(struct croft *c, const char *name, const struct croft_diff_options *o,
	enum croft_format f, char **ret);
/* Several environments on one task, side by side. */
int croft_compare(
	struct croft *c, const char *const *names, size_t n, enum croft_format f, char **ret);

/*
 * A review walks hunks (or whole files: binary, mode, deletion) and collects decisions; saving binds
 * them to the tree that was shown, and records them.
 */
struct croft_review;
enum croft_decision {
	CROFT_UNDECIDED,
	CROFT_ACCEPTED,
	CROFT_REJECTED,
	CROFT_EDITED, /* accepted with another content */
};
struct croft_review_item {
	const char *path;                /* made printable */
	const char *title;               /* "modified, 3 hunks", "new symlink -> x" … */
	const char *text;                /* the hunk as a diff, made printable */
	const char *warnings;            /* "runs on your machine: Git hook" …, "" when none */
	size_t file, files, hunk, hunks; /* counted from 0; hunks 0: the file as a whole */
	bool editable, refused;          /* refused: it cannot land, whatever is decided */
	bool runs;                       /* on this machine, once landed: decide by itself */
	enum croft_decision decision;
	const char *comment;
};
int croft_review_open(
	struct croft *c, const char *name, bool since_review, struct croft_review **ret);
void croft_review_close(struct croft_review *r);
size_t croft_review_count(const struct croft_review *r);
const struct croft_review_item *croft_review_at(struct croft_review *r, size_t i);
/* Is the item about this path of the workspace (as it is, not as shown)? 2: yes; 1: it is below; 0. */
int croft_review_is(const struct croft_review *r, size_t i, const char *path);
/* Denials, network, commands of the environment, for the reviewer's eye; several lines. */
const char *croft_review_context(struct croft_review *r);
int croft_review_decide(struct croft_review *r, size_t i, enum croft_decision d);
/* The hunk's lines (as of croft_review_text) in another wording; comment NULL: unchanged. */
const char *croft_review_text(struct croft_review *r, size_t i);
int croft_review_edit(struct croft_review *r, size_t i, const char *text);
int croft_review_comment(struct croft_review *r, size_t i, const char *comment);
/* Record the decisions; refused when the environment changed meanwhile. Caller frees *ret. */
int croft_review_save(struct croft_review *r, enum croft_format f, char **ret);

/* ---- landing ---- */

enum croft_land { CROFT_LAND_WORKTREE, CROFT_LAND_COMMIT, CROFT_LAND_SQUASH, CROFT_LAND_PATCH };

struct croft_apply_options {
	enum croft_land how;
	const char *branch, *message, *tree;
	const char *const *paths;
	bool flagged; /* also files that run on this machine and were not reviewed */
	bool dry_run, sign;
};

/*
 * Who wants to see a landing move: told before each file, and with done == total when it is whole. SIGINT,
 * SIGTERM, SIGHUP and SIGQUIT are held back in the calling thread from then on, and act when everything is
 * done or taken back: tell() is the last chance to say so.
 */
void croft_on_progress(
	struct croft *c, void (*tell)(void *arg, size_t done, size_t total), void *arg);
/* On failure *ret is NULL, or lines that say what conflicts and what to do about it. */
int croft_apply(struct croft *c, const char *name, const struct croft_apply_options *o,
	enum croft_format f, char **ret);
int croft_revert(struct croft *c, const char *name, bool commit, enum croft_format f, char **ret);
int croft_discard(struct croft *c, const char *name, bool undo, char **ret);

/* ---- evidence ---- */

/* event 0: all. */
int croft_evidence_show(struct croft *c, const char *name, unsigned long long event,
	enum croft_format f, char **ret);
/* what: an environment, an id, a ref or a landed commit. key_file: PEM, or NULL. 0 good, 1 bad. */
int croft_evidence_verify(
	struct croft *c, const char *what, const char *key_file, enum croft_format f, char **ret);
int croft_evidence_key(struct croft *c, enum croft_format f, char **ret);
int croft_evidence_push(
	struct croft *c, const char *remote, const char *const *names, bool all, char **ret);
int croft_evidence_fetch(
	struct croft *c, const char *remote, const char *const *names, bool all, char **ret);

struct croft_export_options {
	const char *directory;    /* made; refused when it holds anything */
	bool output;              /* with captured output */
	bool git_ai, agent_trace; /* also write refs/notes/ai, .agent-trace records */
};
int croft_evidence_export(
	struct croft *c, const char *name, const struct croft_export_options *o, char **ret);
/* Does every commit of the range have the evidence that the gate asks for? 0 yes, 1 no. */
int croft_evidence_check(struct croft *c, const char *gate_file, const char *range,
	const char *sarif_file, enum croft_format f, char **ret);

struct croft_replay_options {
	unsigned long long event;    /* 0: all commands; else this one, after those before it */
	struct croft_policy *policy; /* a candidate; NULL: as recorded */
	bool keep;                   /* the fresh environment */
	bool verbose;                /* the commands' output to standard error */
};
/* Run recorded commands again in a fresh environment. 0: every claim holds, 1: not. */
int croft_replay(struct croft *c, const char *name, const struct croft_replay_options *o,
	enum croft_format f, char **ret);

/* ---- secrets ---- */

/* A value on its way into the store: in locked memory, wiped when freed, given to no caller. */
struct croft_secret;

/* Where a value comes from: the first that is set. Zero-initialise; then it is `fd`. */
struct croft_secret_source {
	const char *file;    /* a file's content */
	const char *command; /* what a shell command prints; it must end with status 0 */
	const char *env;     /* a variable of the caller */
	int fd;              /* what can be read there */
	bool line;           /* fd: one line only, as from a terminal */
};

/* Is this a name that a secret may have? */
int croft_secret_name(struct croft *c, const char *name);
/* 16 to 4096 bytes without NUL, CR and LF; one newline at the end is cut. */
int croft_secret_read(
	struct croft *c, const struct croft_secret_source *s, struct croft_secret **ret);
bool croft_secret_same(const struct croft_secret *a, const struct croft_secret *b);
void croft_secret_free(struct croft_secret *s);
/* Store under this name, in place of what was there. */
int croft_secret_set(struct croft *c, const char *name, const struct croft_secret *s);
int croft_secret_remove(struct croft *c, const char *name);
/* Names, lengths and when they were set; never values. Caller frees *ret. */
int croft_secret_list(struct croft *c, enum croft_format f, char **ret);

/* ---- questions ---- */

/* The word of the list that was probably meant, or NULL. */
const char *croft_suggest(const char *word, const char *const *names, size_t n);

/*
 * Why was this denied ("RUN" or "RUN.N"; NULL: the latest that is kept), and what would allow it.
 * Only runs with denials or limits hit are kept, the last 128.
 */
int croft_why(struct croft *c, const char *id, enum croft_format f, char **ret);
/* What this machine can enforce. Returns 0 when the default tier holds, 1 when not. */
int croft_doctor(struct croft *c, enum croft_format f, char **ret);
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
