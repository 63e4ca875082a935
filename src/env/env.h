/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environments: a named, lasting workspace with a pinned start, staged changes, a policy and a ledger.
 *
 * Layout, $STATE/envs/NAME/:
 *   env.json      this record, replaced atomically; what is not in it does not exist
 *   lock          flock: exclusive for whoever changes the environment, shared for readers
 *   start.trees   treemap of a dirty start
 *   stat-cache    see snap/scan.h
 *   journal/RUN/  a command in flight, or one whose event is not yet safely in the ledger (journal.h)
 *   journal/session-ID/  the same of a session, with all its commands (session_journal.h)
 *   landing/      a landing in flight (land.h)
 * $STATE/layers/ID/{tree,work,i0,w0,i1,w1 …}: overlay layers of all environments. An environment is a list
 * of layer names: the last is its upper one, the others are frozen and may be shared (snapshots, forks).
 * iK is the layer of the K-th ignored directory. Layers that no record names are removed by gc.
 * Kinds:  PINNED starts from a commit: base below the layers, the user's edits do not reach it.
 *         LIVE   starts from the directory as it is (no repository; a staged `croft run`): the
 *                directory itself is the lowest layer, what was there is noted as it is changed.
 *         COPY   a whole copy at `copy` (no overlay here), where its commands run: announced.
 * Order:  a new environment is made under a temporary name and renamed; removal renames first.
 * Failure: a record that cannot be read is an error for that environment only, and says so.
 */
#ifndef CROFT_ENV_ENV_H
#define CROFT_ENV_ENV_H

#include <stdbool.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"
#include "git/repo.h"
#include "ledger/chain/ledger.h"
#include "snap/base.h"
#include "snap/change.h"

#define ENV_NAME_MAX 64
#define ENV_LAYERS_MAX 100
#define ENV_LAYERS_SQUASH 32 /* so many are put together before another is added */
#define ENV_SNAPSHOTS_MAX 1000
#define ENV_SCHEMA 1
#define ENV_UNDO_DAYS 7 /* what was discarded can be brought back */

enum env_kind { ENV_PINNED, ENV_LIVE, ENV_COPY, ENV_KIND_NUM };
enum env_state { ENV_OPEN, ENV_LANDED, ENV_DISCARDED, ENV_STATE_NUM };
extern const char *const env_kind_names[ENV_KIND_NUM];
extern const char *const env_state_names[ENV_STATE_NUM];

/* What a reviewer has seen and decided; bound to trees. */
struct env_review {
	struct oid tree;     /* that was shown */
	struct oid accepted; /* tree of what was accepted; none: not decided */
	char time[40];
};

struct env_snapshot {
	char label[ENV_NAME_MAX + 1];
	struct strlist layers;
	char time[40];
};

struct env {
	/* the record */
	char name[ENV_NAME_MAX + 1];
	char id[17];
	enum env_kind kind;
	enum env_state state;
	bool run; /* made by a staged `croft run` */
	char *workspace;
	char *base_key;         /* PINNED */
	char *store_key;        /* which repository (the name of its store): PINNED */
	struct oid base_commit; /* none: no commit */
	struct oid start_tree;  /* what changes are measured against; none: LIVE */
	size_t start_layers;    /* how many of the first layers belong to the start (dirty, git) */
	struct strlist layers;  /* oldest first; the last is the upper one */
	struct strlist undo;    /* layers before the last discard */
	char undo_time[40];
	char *copy; /* COPY: the directory */
	struct strlist
		ignored; /* ignored directories shown; NULL-less list, fixed at the first exec */
	bool ignored_known;
	struct strlist args; /* policy options given to `croft new`, as on a command line */
	char *agent, *model, *task;
	char *parent; /* "NAME" it was forked from */
	char created[40];
	struct env_review review;
	struct env_snapshot *snapshots;
	size_t snapshots_n;
	struct oid landed_commit, landed_tree; /* the last landing */
	char *landed_how;
	/* opened */
	char *state_dir; /* croft's */
	char *home;
	char *dir;
	int dir_fd, lock_fd;
	int beside_fd; /* to the session that lent the lock; -1: it is not up */
	bool copy_made; /* while it is being made: the copy is ours to remove */
	bool named;     /* it exists: what is written must be on the disk */
	struct repo repo;
	struct base base; /* PINNED */
	struct ledger_tip tip;
	bool tip_known;
	char session[24];          /* the session that holds it (session_journal.h); "": none */
	char problem[ERR_MSG_MAX]; /* why the last event is not in the ledger; "" when it is */
	struct strlist notes;  /* sentences for the user: what was recovered, what is left out */
	bool revert_completed; /* opening it completed what a crash had left of a reversal */
	/* Told of a landing's files; done == total: it is whole. Signals are held back meanwhile. */
	void (*progress)(void *arg, size_t done, size_t total);
	void *progress_arg;
};

/* BESIDE: as WRITE, and while it is up as well (env_beside.h); its own layers may not be changed then. */
enum env_lock { ENV_LOCK_NONE, ENV_LOCK_READ, ENV_LOCK_BESIDE, ENV_LOCK_WRITE, ENV_LOCK_FORCE };

bool env_name_good(const char *name);
/* The state directory; home is returned too when wanted. Caller frees. */
int env_state_dir(char **ret, char **ret_home, struct err *e);

/*
 * Open by name. WRITE waits for nobody: an environment in use is refused with who uses it. With WRITE,
 * what a crash left behind is recovered first (journal.h, land.h) and told in notes. FORCE is for removing:
 * what cannot be recovered is told, too.
 */
int env_open(struct env *ret, const char *name, enum env_lock lock, struct err *e);
/*
 * Complete or take back what a crash left of a landing. Called by env_open() and implemented by src/land: the
 * one thing that this room asks of a room above it.
 */
int env_recover_landing(struct env *v, struct err *e);
/* The record alone, which may be all that is left; v is env_init()ed. Then what it speaks of. */
int env_open_record(struct env *v, const char *name, struct err *e);
int env_attach(struct env *v, struct err *e);
void env_init(struct env *v); /* nothing: env_done() may be called on it */
void env_done(struct env *v);
#define cleanup_env __attribute__((cleanup(env_done)))
int env_save(struct env *v, struct err *e);
/* Somebody else may have changed the record (not the layers) while the lock was lent: read that again. */
int env_refresh(struct env *v, struct err *e);
/* Every name, sorted. */
int env_names(struct strlist *ret, struct err *e);

struct policy;

struct env_new {
	const char *name;
	const char *workspace, *home, *state_dir; /* canonical */
	const char *from;                         /* revision; NULL: HEAD */
	bool dirty, run;
	bool copy; /* no overlay: copy */
	char *const *args;
	size_t args_n;
	const char *agent, *model, *task;
	const char *parent_id;                          /* of the environment it was forked from */
	const char *parent_event;                       /* SHA-256 of the newest envelope there */
	const char *policy_text, *policy_digest, *tier; /* for the ledger's first event */
	const struct policy
		*policy; /* decides which objects it may see; NULL: any (no command runs) */
	void (*progress)(void *arg, unsigned percent);
	void *progress_arg;
};
/* Made, with its first event in the ledger, and opened for writing. */
int env_create(struct env *ret, const struct env_new *n, struct err *e);

/* A descriptor of the tree of a layer (0 … layers.n-1), for walking. */
int env_layer_fd(const struct env *v, size_t i, struct err *e);
/* A fresh upper layer on top; the one before is frozen. Saved by the caller with env_save(). */
int env_push_layer(struct env *v, struct err *e);
/* Back to the start; what was there is kept as v->undo. And the other way. Constant time. Both save. */
int env_drop_layers(struct env *v, struct err *e);
int env_undo_layers(struct env *v, struct err *e);
/*
 * What is staged now. write: blobs and trees go to the store (review, landing), else they are only named.
 */
int env_changes(struct env *v, struct changes *ret, bool write, struct err *e);
/*
 * The same to look at: a file of zeros costs a sandbox nothing, so contents beyond ENV_LOOK_MAX_B, those
 * aside that were named before, are not read. They are marked, counted in ret->unnamed, and ret->tree is
 * without them: not a tree to land.
 */
#define ENV_LOOK_MAX_B ((uint64_t)256 << 20)
int env_look(struct env *v, struct changes *ret, bool write, struct err *e);
/*
 * The same, only named, and on the disk afterwards with what was written to its .git after `since`: the
 * overlay itself syncs nothing. (Ignored directories are not evidence and take their chance.) Nobody should
 * have to wait for a record: contents beyond ENV_SETTLE_MAX_B, those aside that were named before, are left
 * for who asks for them, and ret->unnamed says how many; then there is no tree.
 */
#define ENV_SETTLE_MAX_B ((uint64_t)256 << 20)
int env_settle(struct env *v, const struct timespec *since, struct changes *ret, struct err *e);

/* ---- ledger ---- */

/* Append; tip is kept in the environment. Retries when another process was faster. */
int env_event(struct env *v, const struct ledger_event *ev, struct err *e);
/* There is a ledger and this version can write it: asked before work that it shall record. */
int env_need_ledger(struct env *v, struct err *e);
/* As exact as the ledger keeps it. */
void env_now(struct timespec *ret);
/* "2026-01-02T03:04:05.123456Z" as the ledger writes it; "" where it has no such time. */
void env_time_text(const struct timespec *t, char ret[40]);

/* ---- states ---- */

int env_snapshot(struct env *v, const char *label, struct err *e);
int env_restore(struct env *v, const char *label, struct err *e);
int env_fork(struct env *ret, struct env *v, const char *name, struct err *e);
/* Staged work that is neither landed nor discarded is not removed without force. */
int env_remove(struct env *v, bool force, struct err *e);

#endif
