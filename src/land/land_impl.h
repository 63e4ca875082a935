/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside a landing: what the files land*.c share. See land.h for the order of things.
 *
 * A job is made from a selection (what is to land), becomes a list of operations on paths (what is to be
 * done to this checkout), is written down as an intent, and is carried out from the intent alone: a
 * landing that was interrupted is read back from there and goes the same way.
 */
#ifndef CROFT_LAND_LAND_IMPL_H
#define CROFT_LAND_LAND_IMPL_H

#include <stdint.h>
#include <time.h>

#include "land/land.h"
#include "git/read.h"
#include "os/interrupt.h"

/* Files whose text is merged or whose line endings are converted are read whole: not beyond this. */
#define LAND_TEXT_MAX_B (64u << 20)
#define LAND_LIST_MAX_B (768u << 20)
#define LAND_CONFLICTS_MAX 1000u
#define LAND_DIR "landing"
#define LAND_INTENT "intent.json"
#define LAND_LAST "last.json"
#define LAND_BESIDE "beside"

/* What a path is on one side of a merge. */
struct land_side {
	unsigned mode; /* Git's; 0: not there */
	struct oid oid;
};

/* What was found at a path of the checkout. */
struct land_file {
	unsigned mode;  /* Git's; 0: nothing, 040000: a directory, 1: what Git has no name for */
	struct oid raw; /* of the bytes as they are */
	uint64_t ino, size;
	int64_t mtime_s, mtime_ns;
};

struct land_op {
	char *path;
	unsigned old_mode, new_mode; /* Git's */
	struct oid old, new;         /* blobs as Git holds them */
	struct land_file before;
	struct oid raw; /* of the bytes that are to be there; none until staged */
	bool crlf;      /* written with the line endings that this checkout has */
	bool merged;    /* by three-way merge */
	bool still;     /* the file is as it should be already; the index may not be */
	bool placed; /* found in place when an interrupted landing is completed; not written down */
	unsigned exists; /* how many of its leading directories were there before */
	char *beside;    /* staged there (below the workspace): another file system; or NULL */
};

struct land_ops {
	struct land_op *v;
	size_t n, cap;
};

void land_ops_done(struct land_ops *o);
struct land_op *land_ops_add(struct land_ops *o, const char *path);
void land_ops_sort(struct land_ops *o);
struct land_op *land_ops_find(const struct land_ops *o, const char *path);

enum land_kind { LAND_KIND_APPLY, LAND_KIND_REVERT, LAND_KIND_NUM };

/* What is written down before the first file is touched. */
struct land_intent {
	enum land_kind kind;
	enum land_how how;
	struct timespec time;
	uint64_t seq; /* of the ledger's newest event then */
	bool reviewed;
	char *ref; /* "HEAD", "refs/heads/x"; NULL: no commit */
	struct oid ref_old, ref_new;
	bool index;                   /* the checkout's index follows */
	struct oid start, tree, onto; /* changes are start..tree; onto: the tree landed on */
	struct oid landed;            /* the tree that came out */
	char patch_id[OID_HEX_MAX + 1];
	char *stage; /* absolute path of the landing directory; NULL: none */
	struct land_ops ops;
};

void land_intent_done(struct land_intent *in);

struct land_job {
	struct env *v;
	const struct land_request *q;
	struct land_result *ret;
	struct land_intent in;
	struct changes sel; /* what is to land, against the start */
	struct strlist conflicts;
	int lock_fd;  /* the checkout's landing lock */
	int top_fd;   /* the workspace */
	int stage_fd; /* the landing directory */
	int index_fd; /* the host's index.lock is ours */
	struct git_reader *reader;
	struct interrupt watched; /* while contents are made ready: they go before a signal acts */
	struct interrupt held;    /* from the index lock on: no signal ends us in the middle */
	/* the directory that was opened last */
	char *parent;
	int parent_fd;
};

void land_job_init(struct land_job *j, struct env *v, struct land_result *ret);
void land_job_done(struct land_job *j);
#define cleanup_land_job __attribute__((cleanup(land_job_done)))
/* Crash points for tests (os/forced.h). */
void land_step(const char *step);
int land_no_memory(struct err *e);
/* A path for people: printable and short. */
struct land_shown {
	char s[200];
};
struct land_shown land_show(const char *path);

void land_result_init(struct land_result *r);
/* Paths, trees and merges for the caller. */
int land_tell(struct land_job *j, struct err *e);
/* Commits made and files planned; 1: there is nothing left to do. */
int land_commits(struct land_job *j, struct err *e);

/* ---- trees (land_tree.c) ---- */

/* What differs between two trees of the store. */
int land_diff(const struct repo *r, const struct oid *a, const struct oid *b, struct changes *ret,
	struct err *e);
int land_parse_raw(const struct buf *out, enum git_hash h, struct changes *ret, struct err *e);
/* tree with the new side of these changes; empty directories are left out. */
int land_tree_with(const struct repo *r, const struct oid *tree, const struct changes *c,
	struct oid *ret, struct err *e);
int land_tree_of(const struct repo *r, const struct oid *commit, struct oid *ret, struct err *e);
void land_empty_tree(const struct repo *r, struct oid *ret);
/* May this path be written in a checkout at all: no "..", nothing that is taken for .git. */
bool land_path_good(const char *path);
/* Does a symlink at path stay in the workspace, and out of .git? */
bool land_link_good(const char *path, const char *target, size_t n);
/* Is what this commit's tree holds beside c's paths fit to be checked out? (land_names.c) */
int land_check_names(
	struct land_job *j, const struct changes *c, const struct oid *tree, struct err *e);
/* The same for the tree that comes out of it all on a branch: c is onto..landed. */
int land_check_landed(struct land_job *j, const struct changes *c, struct err *e);
/* And for the checkout as it will be; files that need a filter are told (land_beside.c). */
int land_check_beside(struct land_job *j, struct err *e);

/* ---- merging (land_merge.c) ---- */

enum land_verdict { LAND_TAKE, LAND_MERGE, LAND_CONFLICT };
enum land_verdict land_decide(const struct land_side *base, const struct land_side *ours,
	const struct land_side *theirs, struct land_side *ret);
/* Both sides changed the text: 0 merged, 1 they conflict (why says how), -errno. */
int land_merge_text(struct land_job *j, const struct oid *base, const struct oid *ours,
	const struct oid *theirs, struct oid *ret, const char **why, struct err *e);
/* The tree that target becomes with c (start..landed), three-way; conflicts are noted in the job. */
int land_merge_tree(struct land_job *j, const struct changes *c, const struct oid *start,
	const struct oid *landed, const struct oid *target, struct oid *ret, struct err *e);
void land_conflict(struct land_job *j, const char *path, const char *why);
/* -EEXIST with the first conflict and a runbook when there are any, else 0. */
int land_conflicts(struct land_job *j, struct err *e);
int land_reader(struct land_job *j, struct err *e);

/* ---- what is to land (land_select.c) ---- */

int land_select(struct land_job *j, struct err *e);

/* ---- the checkout (land_look.c, land_plan.c) ---- */

/* The directory that holds path, by descriptor (the job's); -ENOENT, -ENOTDIR when it is none. */
int land_parent(struct land_job *j, const char *path, const char **ret_name);
void land_forget_parent(struct land_job *j);
/* The same, made if need be. A descriptor of the caller's. */
int land_make_parent(struct land_job *j, const char *path, const char **ret_name);
int land_look(struct land_job *j, const char *path, struct land_file *ret, struct err *e);
bool land_same_file(const struct land_file *f, unsigned mode, const struct oid *raw);
/* Name the bytes of a file as Git would hold them: CRLF becomes LF. */
int land_name_as_lf(
	struct land_job *j, const char *path, bool write, struct oid *ret, struct err *e);
/* Does the base's own checkout have this file with CRLF? */
bool land_base_crlf(struct land_job *j, const char *path);
/*
 * Operations for changes on the working tree. strict: what is there must be the old side (a commit
 * is made, nothing is merged with what is not committed).
 */
int land_plan(struct land_job *j, const struct changes *c, bool strict, struct err *e);

/* ---- files (land_stage.c, land_place.c) ---- */

int land_open_top(struct land_job *j, struct err *e);
/* Everything new into the landing directory. Nothing of the checkout is touched. */
int land_stage(struct land_job *j, struct err *e);
int land_stage_one(struct land_job *j, struct land_op *op, size_t i, struct err *e);
int land_open_stage(struct land_job *j, bool make, struct err *e);
/* Where operation i is staged: a descriptor of the caller's and a name. */
int land_staged_at(struct land_job *j, const struct land_op *op, size_t i, char ret_name[64]);
void land_unstage(struct land_job *j);
/* Whatever a landing that never got to its intent left lying. */
void land_sweep(struct land_job *j);

int land_place(struct land_job *j, struct err *e);
/* Take back what was placed. What cannot be is named. */
int land_take_back(struct land_job *j, struct err *e);
/* Take away the directories above path that are empty now, but for the first `keep`. */
void land_prune_above(struct land_job *j, const char *path, unsigned keep);
void land_prune(struct land_job *j);

/* ---- the intent (land_intent.c) ---- */

int land_intent_write(struct land_job *j, struct err *e);
/* -ENOENT: there is none. */
int land_intent_read(struct land_intent *ret, int env_fd, const char *name, struct err *e);
/* It is over: kept as the last landing, forgotten, or forgotten together with the last landing. */
enum land_end { LAND_END_LAST, LAND_END_DROP, LAND_END_FORGET };
int land_intent_end(struct land_job *j, enum land_end how, struct err *e);

/* ---- commits (land_commit.c, land_index.c, land_message.c, land_import.c) ---- */

/* Trees and commits for --commit, --squash and --branch; ref, ref_old, ref_new, landed are set. */
int land_make_commits(struct land_job *j, struct err *e);
/* Where commits go: sets ref, ref_old, onto and its tree. */
int land_find_ref(struct land_job *j, const char *branch, struct err *e);
int land_check_ready(struct land_job *j, struct err *e);
int land_check_index(struct land_job *j, struct err *e);
int land_move_ref(struct land_job *j, bool back, struct err *e);
int land_lock_index(struct land_job *j, struct err *e);
void land_unlock_index(struct land_job *j);
/* An index.lock that a crashed landing of this environment left. */
void land_break_index_lock(struct land_job *j);
int land_write_index(struct land_job *j, bool back, struct err *e);
void land_message(struct land_job *j, const char *given, const struct oid *from,
	const struct oid *to, struct buf *out);
/* A message that somebody in the sandbox wrote, made printable, with our trailers for theirs. */
void land_message_of(struct land_job *j, const char *theirs, struct buf *out);

struct land_chain {
	struct oid
		*v; /* commits, oldest first; each the parent of the next, the first on the base */
	size_t n;
};
/* The environment's own commits, checked and in the store. */
int land_import(struct land_job *j, struct land_chain *ret, struct err *e);

/* ---- the end (land_event.c, land_finish.c) ---- */

/* The newest event; refused when there is none, or this version cannot write after it. */
int land_tip(struct env *v, struct err *e);
/* The same, and the repository it was made from is still there. */
int land_able(struct env *v, struct err *e);
int land_patch(struct land_job *j, const struct oid *a, const struct oid *b, struct buf *ret,
	struct err *e);
/* Stable patch id; left empty when the change is too large or has none. */
void land_patch_id(struct land_job *j, const struct oid *a, const struct oid *b);
int land_event(struct land_job *j, struct err *e);
int land_event_recovered(struct land_job *j, bool completed, const char *why, struct err *e);
/* From the plan to the end: stage, intent, files, index, ref, event. */
int land_carry_out(struct land_job *j, struct err *e);
/* How many files are done; all of them: the landing is whole. */
void land_told(const struct land_job *j, size_t done);
/* From the written intent on; also what recovery does. */
int land_complete(struct land_job *j, struct err *e);
int land_finish(struct land_job *j, struct err *e);
/* Take the checkout's landing lock, and see to what another environment left there. */
int land_lock(struct land_job *j, struct err *e);
void land_lock_note(struct land_job *j, bool pending);

#endif
