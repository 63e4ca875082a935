/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcroft: run commands behind a boundary.
 *
 * A program starts a sandbox, starts processes in it, polls one descriptor and takes events from it: see
 * "sandboxes" below, and docs/LIBRARY.md for a whole program. Callers see environments, processes and
 * receipts, never engines. Functions return 0 (or a value) on success and a negative errno on failure, with
 * croft_error() holding one sentence for people and croft_error_reason() the reason for programs; nothing
 * here prints or exits.
 *
 * Threads: a struct croft, and what was made with it, is used by one thread at a time; any number of threads
 *          may have their own.
 * Process: nothing here takes over signals, changes the process's groups, directory, mask or dispositions,
 *          makes it a subreaper, or is tied to the life of the calling thread. What does is in croft_run.h.
 * Version: functions, enumerators and members are added, at the end of what is there, and do not change their
 *          meaning while the first number of the version is the same; before 1.0.0 the second number counts
 *          as the first. The library is static only: a program has the one that it was built with. It talks
 *          to a croft program of exactly its own version.
 */
#ifndef CROFT_H
#define CROFT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CROFT_VERSION "0.1.0"
#define CROFT_VERSION_NUMBER 0x000100 /* major, minor, patch: eight bits each */

/* Of the library that was linked. */
const char *croft_version(void);

/* Exit statuses that croft itself gives; stable. */
enum croft_exit {
	CROFT_EXIT_TIMEOUT = 124,
	CROFT_EXIT_FAILED = 125,
	CROFT_EXIT_REFUSED = 126,
	CROFT_EXIT_NOT_FOUND = 127,
};

/* Why something failed. Stable: a program decides by this, never by a sentence. */
enum croft_reason {
	CROFT_REASON_NONE,           /* nothing has failed */
	CROFT_REASON_FAILED,         /* croft could not do its work; the sentence says what the system said */
	CROFT_REASON_INVALID,        /* what the caller gave is wrong */
	CROFT_REASON_REFUSED,        /* a policy, or croft's own rules, do not permit it */
	CROFT_REASON_NO_COMMAND,     /* the command does not exist inside the sandbox */
	CROFT_REASON_NOT_EXECUTABLE, /* it exists and cannot be executed */
	CROFT_REASON_UNENFORCEABLE,  /* this machine cannot enforce what the policy asks for */
	CROFT_REASON_UNTRUSTED,      /* a project's policy widens, and the user has not approved it */
	CROFT_REASON_NO_ENVIRONMENT, /* there is none of this name */
	CROFT_REASON_EXISTS,         /* there is one of this name already */
	CROFT_REASON_IN_USE,         /* another command or session has it; try again later */
	CROFT_REASON_UP,             /* its session is up already */
	CROFT_REASON_NOT_UP,         /* it has no session that is up */
	CROFT_REASON_OTHER_VERSION,  /* its session is that of another version of croft */
	CROFT_REASON_NOT_YOURS,      /* it belongs to another user */
	CROFT_REASON_OTHER_BOUNDARY, /* its session is up with other options than these */
	CROFT_REASON_PAUSED,         /* its session is paused */
	CROFT_REASON_ENDING,         /* its session is going down */
	CROFT_REASON_NO_PROCESS,     /* there is no process of this number, or it has ended */
	CROFT_REASON_LIMIT,          /* there are as many as there can be */
	CROFT_REASON_ENDED,          /* the session ended, and the connection with it */
	CROFT_REASON_TIMED_OUT,      /* no answer in time */
	CROFT_REASON_NO_MEMORY,
	CROFT_REASON_NO_SPACE, /* the disk is full */
	CROFT_REASON_CONFLICT, /* what is to land was changed on both sides */
	CROFT_REASON_NUM
};
/* "not-up" …: the word for it in JSON; NULL: not a reason. */
const char *croft_reason_name(enum croft_reason why);
/* The exit status that stands for it. */
int croft_reason_exit(enum croft_reason why);

enum croft_format { CROFT_TEXT, CROFT_JSON };

struct croft;
struct croft_policy;

struct croft *croft_new(void);
void croft_free(struct croft *c);
/* The last failure: one sentence, the reason, and the exit status that stands for it. */
const char *croft_error(const struct croft *c);
enum croft_reason croft_error_reason(const struct croft *c);
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
	const char *added;             /* text of a policy file, between the files and all of the above */
	const char *added_name;        /* what it is called in messages */
	const char *const *view;       /* paths of which the sandbox gets a private copy to write */
	const char *const *write_runs; /* paths to write although their contents run on the host */
	int git; /* 1: what committing needs of the workspace's repository, written in place */
};

/*
 * Write a first croft.yaml for the project around a directory (NULL: the current one), never over one that is
 * there; print: give its text and write nothing.
 */
int croft_init(struct croft *c, const char *directory, bool print, char **ret);

/* Resolve the layers into one policy. Nothing has run or been created when this fails. */
int croft_policy_load(
	struct croft *c, const struct croft_policy_options *o, struct croft_policy **ret);
void croft_policy_free(struct croft_policy *p);
const char *croft_policy_digest(const struct croft_policy *p);
/* Reports: caller frees *ret. */
int croft_policy_show(
	struct croft *c, const struct croft_policy *p, enum croft_format f, char **ret);
/* Every key that a policy file may have, one in each line. */
int croft_policy_keys(struct croft *c, enum croft_format f, char **ret);
/* What --use takes: each bundle and the hosts that it lets a command reach. */
int croft_policy_bundles(struct croft *c, enum croft_format f, char **ret);
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

/* How a named environment begins. Zero-initialise; unset members mean "as usual". */
struct croft_new_options {
	const char *from; /* a revision; NULL: HEAD */
	bool dirty;       /* with what is not committed */
	const char *agent, *model, *task;
	const char *const *args; /* policy options as they were given: used again by every exec */
	void (*progress)(void *arg, unsigned percent);
	void *progress_arg;
	/* Nothing can be laid over the directory here, so it was copied: each sentence about that. */
	void (*copied)(void *arg, const char *sentence);
	void *copied_arg;
};

/* Make one, from the directory that p was loaded for. *ret: a report. Caller frees. */
int croft_env_new(struct croft *c, const char *name, struct croft_policy *p,
	const struct croft_new_options *o, enum croft_format f, char **ret);
/* The options `croft_env_new` was given and the directory; for loading its policy again. */
int croft_env_args(struct croft *c, const char *name, char **ret_directory, char ***ret_args);

/* ---- sandboxes: started or joined, and processes in them ---- */

/*
 * A sandbox is held by a process of its own, its session, in which any number of processes run at once. A
 * struct croft_sandbox is a connection to it with one descriptor to poll; nothing about it waits. Whatever
 * happens is an event, also that it is up, or could not be started. Requests may be made before it is up:
 * they are done in their order.
 */
struct croft_sandbox;

enum croft_sandbox_flags {
	CROFT_SANDBOX_STAYS = 1,   /* goes on when this connection ends; else it ends with it */
	CROFT_SANDBOX_JOIN = 2,    /* where the environment is up already, join it: then it stays */
	CROFT_SANDBOX_DISCARD = 4, /* without a name: it is removed whatever it has changed */
	CROFT_SANDBOX_ALLOW_DEGRADED = 8, /* accept what the machine cannot enforce; recorded */
};

/* Zero-initialise; unset members mean "as usual". */
struct croft_sandbox_options {
	/*
	 * An environment that is there. NULL: a short-lived one is made from policy->directory as it is now.
	 * When it ends it is removed, except when something in its workspace has changed: then it stays,
	 * under the name that CROFT_EVENT_UP tells, for croft_diff(), croft_apply() and the rest.
	 */
	const char *name;
	const struct croft_policy_options *policy; /* of a named one: on top of its own */
	const char *const *args; /* the same as words, as for `croft up`; after those of policy */
	unsigned flags;
	unsigned long long linger_ms;   /* ends after so long without process or caller; 0: never */
	unsigned long long lifetime_ms; /* ends after so long; 0: never */
	unsigned long long idle_ms;     /* pauses after so long without a caller; 0: never */
	const char *program;            /* the croft to run; NULL: the one this is, or that of PATH */
};

/* Begin to start one. What goes wrong later is CROFT_EVENT_ERROR with tag 0. */
int croft_sandbox_start(
	struct croft *c, const struct croft_sandbox_options *o, struct croft_sandbox **ret);
/* Connect to the session of an environment: 1, or 0 when it is not up. */
int croft_sandbox_open(struct croft *c, const char *name, struct croft_sandbox **ret);
/* Ends the processes that only this connection waits for, and what it started without STAYS. */
void croft_sandbox_close(struct croft_sandbox *s);
int croft_sandbox_fd(const struct croft_sandbox *s);
bool croft_sandbox_wants_write(const struct croft_sandbox *s); /* poll for writing, too */
/*
 * End it: its processes get SIGTERM, and SIGKILL after grace_ms. The last event is CROFT_EVENT_DOWN; then
 * nothing of it runs, and what it recorded is on the disk.
 */
int croft_sandbox_stop(struct croft_sandbox *s, unsigned long long grace_ms);

enum croft_watch { CROFT_WATCH_DENIED = 1, CROFT_WATCH_ASKED = 2, CROFT_WATCH_CHANGED = 4 };
/* Which of these events to get, of the whole sandbox, from now on; 0: none, as at the beginning. */
int croft_sandbox_watch(struct croft_sandbox *s, unsigned what);

enum croft_process_flags {
	CROFT_PROCESS_TTY = 1,      /* a terminal of its own */
	CROFT_PROCESS_DETACH = 2,   /* goes on when the connection ends; its output is kept for readers */
	CROFT_PROCESS_TEST = 4,     /* its result is evidence */
	CROFT_PROCESS_INPUT = 8,    /* it reads what croft_process_write() sends; else nothing */
	CROFT_PROCESS_VERBOSE = 16, /* in the receipt as text */
	CROFT_PROCESS_JSON = 32,    /* the receipt also as JSON */
	CROFT_PROCESS_TEXT = 64,    /* and as text */
};

/* Of one process and all that it starts: at most the sandbox's. 0: none of its own. */
struct croft_limits {
	unsigned long long memory_b;
	unsigned long long cpu_milli; /* 1000: one CPU */
	unsigned long long pids, open_files, file_size_b;
};
/* Set one from text: key and value as in a policy's `limits` ("memory" and "2G", "none"). */
int croft_limits_set(struct croft *c, struct croft_limits *l, const char *key, const char *value);

struct croft_process {
	const char *const *argv;
	const char *cwd;                 /* NULL: the workspace */
	const char *const *environ;      /* "K=V", of which the policy passes what it allows */
	const char *const *set;          /* "K=V", in any case */
	const char *label;
	unsigned flags;
	unsigned rows, cols;             /* of its terminal */
	unsigned long long timeout_ms;   /* 0: as the policy says */
	struct croft_limits limits;
};

/* Ask for a process. *ret_tag is in every event about it. */
int croft_process_start(struct croft_sandbox *s, const struct croft_process *p, unsigned *ret_tag);
/* How far a reader is told: from a byte on (or the end), until it ends or not. */
enum croft_read_flags { CROFT_READ_FOLLOW = 1, CROFT_READ_SCREEN = 2, CROFT_READ_END = 4 };
int croft_process_read(struct croft_sandbox *s, unsigned process, unsigned long long offset,
	unsigned flags, unsigned *ret_tag);
int croft_process_write(struct croft_sandbox *s, unsigned process, const void *p, size_t n);
/* Nobody reads its output (1) or errors (2) any more: what it writes there fails, as in a broken pipe. */
int croft_process_end_output(struct croft_sandbox *s, unsigned process, int stream);
int croft_process_end_input(struct croft_sandbox *s, unsigned process);
int croft_process_resize(struct croft_sandbox *s, unsigned process, unsigned rows, unsigned cols);
enum croft_scope { CROFT_TO_MAIN, CROFT_TO_GROUP, CROFT_TO_ALL };
int croft_process_signal(struct croft_sandbox *s, unsigned process, int signal, enum croft_scope to);

/* ---- receipts ---- */

enum croft_attempt {
	CROFT_ATTEMPT_READ,
	CROFT_ATTEMPT_LOOK, /* read, listed or only looked at: not known which */
	CROFT_ATTEMPT_WRITE,
	CROFT_ATTEMPT_CREATE,
	CROFT_ATTEMPT_DELETE,
	CROFT_ATTEMPT_RENAME,
	CROFT_ATTEMPT_META, /* mode, owner, times, extended attributes */
	CROFT_ATTEMPT_EXEC,
	CROFT_ATTEMPT_CONNECT, /* or a request of HTTP: then method and path are told */
	CROFT_ATTEMPT_NUM
};

/* Something that was refused. Its text comes from the sandbox: escape it before it is shown. */
struct croft_denial {
	enum croft_attempt attempt;
	const char *target;        /* a path; of CONNECT a host or an address */
	unsigned port;             /* CONNECT; 0: none */
	const char *method, *path; /* of a request; else "" */
	const char *rule;          /* that decided; "": none covers it */
	const char *fix;           /* the option or rule that would have allowed it; "": none would */
	unsigned long long count;
};

enum croft_change { CROFT_CREATED, CROFT_MODIFIED, CROFT_DELETED, CROFT_CHANGE_NUM };
struct croft_changed {
	const char *path;
	enum croft_change change;
};

/* What a process did, and under what. Lists of strings end with NULL. */
struct croft_receipt_info {
	const char *id;    /* of the run: for croft_why() */
	const char *event; /* "12.3": entry 3 of event 12 of the ledger will have it; "": not known */
	int exit;          /* as a shell sees it */
	int signal;        /* that ended it; 0: none */
	bool timed_out;
	unsigned long long wall_us, cpu_us, peak_memory_b;
	const char *tier, *policy_digest, *enforced_digest;
	struct croft_limits limits;      /* its own, or the sandbox's; 0: unlimited */
	const char *const *limits_hit;   /* "timeout", "memory", "disk" … */
	const char *const *degradations; /* sentences: what could not be had, or is held by weaker means */
	const struct croft_denial *denials;
	size_t denials_n;
	unsigned long long denials_lost; /* different ones, beyond those in the list */
	/* Of a session's process there are none: changes belong to the interval, not to one of many. */
	const struct croft_changed *changed;
	size_t changed_n;
};

/* ---- events ---- */

/* A connection that waits for a decision: croft_decide() with its id. */
struct croft_ask {
	const char *id, *host, *method, *path; /* of a request; else "" */
	unsigned port;
};

enum croft_event_kind {
	CROFT_EVENT_UP,      /* the sandbox serves; text: its environment's name */
	CROFT_EVENT_STARTED, /* process, text: the run's id */
	CROFT_EVENT_OUTPUT,  /* stream 1 or 2, offset, data, size */
	CROFT_EVENT_GONE,    /* offset: bytes before it are not kept any more */
	CROFT_EVENT_EXITED,  /* exit, signal, receipt; json and text if asked for; failed: see there */
	CROFT_EVENT_DONE,    /* a request is done; of croft_process_read() without FOLLOW: that was all */
	CROFT_EVENT_ERROR,   /* reason, exit, text: a request failed; tag 0: the connection, for good */
	CROFT_EVENT_DENIED,  /* process (0: not known which), denial: the first of its kind */
	CROFT_EVENT_ASKED,   /* ask */
	CROFT_EVENT_CHANGED, /* the record got event `offset`; text: the tree the workspace had, "" unknown */
	CROFT_EVENT_DOWN,    /* the end that was asked for; text: the environment that is left, or "" */
};

/* Valid until the next call on this connection. */
struct croft_event {
	enum croft_event_kind kind;
	unsigned tag, process;
	int stream;
	unsigned long long offset;
	const void *data;
	size_t size;
	int exit; /* as a shell sees it; of an error: the status that stands for it */
	int signal;
	bool failed; /* EXITED: it never existed; reason and text say why, and there is no receipt */
	enum croft_reason reason;
	const char *text, *json;
	const struct croft_receipt_info *receipt;
	const struct croft_denial *denial;
	const struct croft_ask *ask;
};

/* Write and read what can be without waiting: 1 and an event, 0 none now, -ECONNRESET it is over. */
int croft_sandbox_next(struct croft_sandbox *s, struct croft_event *ret);

/* ---- sessions by name: these ask and wait for the answer ---- */

enum croft_session_state { CROFT_SESSION_UP, CROFT_SESSION_PAUSED, CROFT_SESSION_ENDING };
enum croft_process_state {
	CROFT_PROCESS_RUNNING,
	CROFT_PROCESS_EXITED, /* output may still be on its way */
	CROFT_PROCESS_LEFT,   /* answered; something that it started still lives */
	CROFT_PROCESS_OVER,   /* nothing of it is left */
};

struct croft_process_info {
	unsigned process;
	const char *run;
	enum croft_process_state state;
	int exit; /* from LEFT on */
	long long started_s; /* Unix time */
	unsigned long long wall_ms;
	const char *const *argv;
	const char *cwd, *label; /* label: "" none */
	bool terminal, detached;
	struct croft_limits limits; /* of its own */
	unsigned long long output_b, output_from_b; /* written; kept from this byte on */
};

struct croft_port {
	unsigned host, inside;
};

struct croft_session_info {
	const char *name, *id, *tier, *policy_digest, *workspace;
	const char *const *options; /* of the boundary: what `croft up` was given; NULL-terminated */
	const char *const *notes;   /* sentences: what was found when it came up; NULL-terminated */
	enum croft_session_state state;
	int pid;
	long long up_since_s; /* Unix time */
	unsigned long long linger_ms, lifetime_ms, idle_ms; /* as it was started with; 0: none */
	const struct croft_port *ports;
	size_t ports_n;
	const struct croft_process_info *processes; /* newest first */
	size_t processes_n;
};

struct croft_sessions {
	const struct croft_session_info *v;
	size_t n;
};

/* name NULL: all that are up. */
int croft_sessions(struct croft *c, const char *name, struct croft_sessions **ret);
void croft_sessions_free(struct croft_sessions *s);
/* The same as a report. */
int croft_session_list(struct croft *c, const char *name, enum croft_format f, char **ret);

/* Bring an environment up, to stay: waits until it is, or says why not. -EALREADY: it was. */
int croft_session_start(
	struct croft *c, const char *name, const struct croft_sandbox_options *o);
int croft_session_stop(struct croft *c, const char *name, unsigned long long grace_ms);
int croft_session_pause(struct croft *c, const char *name, bool pause);
int croft_session_port(struct croft *c, const char *name, unsigned host, unsigned inside,
	unsigned *ret_host);
/* The other way round: nobody is let in at that port any more. host 0: whichever shows this one. */
int croft_session_unport(struct croft *c, const char *name, unsigned host, unsigned inside,
	unsigned *ret_host);
int croft_session_policy(struct croft *c, const char *name, const struct croft_policy *p);
int croft_session_signal(struct croft *c, const char *name, unsigned process, int signal);

/*
 * What a sandbox writes may make a terminal act. Through this it only shows: *ret is as long as in at most
 * and CROFT_FILTER_MORE, and says how much it is by the result.
 */
#define CROFT_FILTER_MORE 4096
struct croft_filter;
struct croft_filter *croft_filter_new(void); /* for the terminal that TERM names */
void croft_filter_free(struct croft_filter *f);
size_t croft_filter_run(struct croft_filter *f, const void *in, size_t n, void *ret);

/* Bare names, one in each line: for completions, and for lists to choose from. of: an environment. */
enum croft_names {
	CROFT_NAMES_ENVS, /* of this directory */
	CROFT_NAMES_ALL_ENVS,
	CROFT_NAMES_LAST_ENV,  /* of this directory: the one that was made last */
	CROFT_NAMES_SNAPSHOTS, /* of one */
	CROFT_NAMES_CHANGES,   /* paths that are staged in one */
	CROFT_NAMES_SECRETS,
	CROFT_NAMES_BUNDLES,
	CROFT_NAMES_PROFILES,
	CROFT_NAMES_AGENTS
};
int croft_names(struct croft *c, enum croft_names what, const char *of, char **ret);

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
/* The same for all of this directory that are older; those that hold work are kept, unless forced. */
int croft_env_remove_older(
	struct croft *c, unsigned long long older_ms, bool force, char **ret);
/*
 * Reclaim what is provably landed or discarded, and what crashes left. runs: also staged runs that left
 * nothing which could land, however young.
 */
int croft_gc(struct croft *c, bool dry_run, bool runs, enum croft_format f, char **ret);

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
	bool shown; /* a patch is for a terminal: what would act on that is escaped, so it may not apply */
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
/* One entry of an event of a session ("7.3" is entry 3 of event 7), both counted from 1. */
int croft_evidence_show_entry(struct croft *c, const char *name, unsigned long long event,
	unsigned long long entry, enum croft_format f, char **ret);
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

/* ---- coding agents ---- */

/* A coding agent that is known by a data file, with its program found. Strings are its own. */
struct croft_agent;

/*
 * Find the agent's program, and what its sandbox needs beyond `given`: to read what it consists of, to reach
 * its hosts, its keys. Nothing is run.
 */
int croft_agent_prepare(struct croft *c, const char *name, const struct croft_policy_options *given,
	struct croft_agent **ret);
void croft_agent_free(struct croft_agent *a);
/* For croft_policy_load(): `given` and what the agent needs. As long as both live. */
const struct croft_policy_options *croft_agent_options(const struct croft_agent *a);
/* The program and its first arguments, ended by NULL. */
const char *const *croft_agent_argv(const struct croft_agent *a);
const char *croft_agent_name(const struct croft_agent *a);
/* Three lines for people: what it can see, reach and change. "" from the second time in a project on. */
const char *croft_agent_told(struct croft_agent *a, bool direct);
/* Those that are known, and what is known of one. Caller frees *ret. */
int croft_agent_list(struct croft *c, enum croft_format f, char **ret);
int croft_agent_show(struct croft *c, const char *name, enum croft_format f, char **ret);
/*
 * What this agent changed in its private version of the user's configuration, in the project of `directory`
 * (NULL: the current one): a line each. With paths ("~/.claude/settings.json", as the lines name them)
 * these are taken over: the user's own files become that.
 */
int croft_agent_save(struct croft *c, const char *name, const char *directory, const char *const *paths,
	char **ret);
/* Check a data file and keep it beside the user's policy. *ret: where. */
int croft_agent_add(struct croft *c, const char *file, char **ret);

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
#ifdef __cplusplus
}
#endif

#endif
