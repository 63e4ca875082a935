/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `croft evidence check`: does every commit of a range have the evidence that a gate asks for?
 *
 * Trust:   commits, ledgers and messages are anybody's. A trailer makes a commit one that needs evidence;
 *          it never is evidence. What counts is what the commit changes: the commit itself, both of its
 *          trees, its patch, or each of its files from what it was to what it is, must be what a
 *          verified ledger says was landed. Where a commit ends up says nothing: the same tree is
 *          reached by adding what nobody reviewed, and by taking back what somebody did.
 *          Where the gate names keys, ledgers of others count for nothing: anybody may push one.
 * Order:   gate file -> range (its ends as the user names them, the rest clean) -> every ledger of the
 *          repository verified and indexed -> commits looked at, clean, in the store -> judged
 *          (evidence/gate_rules.h).
 * Failure: a flaw of one ledger is that ledger's; a history that cannot be seen to its end (shallow) is
 *          refused.
 * Limits:  GATE_COMMITS_MAX commits, GATE_LEDGERS_MAX ledgers, GATE_FORKS_MAX generations of forks.
 */
#ifndef CROFT_EVIDENCE_GATE_H
#define CROFT_EVIDENCE_GATE_H

#include "base/buf.h"
#include "git/patch_id.h"
#include "git/repo.h"
#include "evidence/gate_rules.h"

#define GATE_COMMITS_MAX 100000u
#define GATE_LEDGERS_MAX 100000u
#define GATE_KEYS_MAX 20000000u
#define GATE_FROM_MAX 256u /* landings that one commit comes from */
#define GATE_FORKS_MAX 64u
#define GATE_PARENTS_MAX 16

/* A clean run that sees the whole history or fails. */
#define GATE_WHOLE_HISTORY "GIT_SHALLOW_FILE=/nonexistent"

/* ---- what was landed (gate_index.c) ---- */

struct gate_env {
	char id[17];
	bool foreign; /* of a key that the gate does not name: no story, no keys */
	struct ledger_verdict verdict;
	struct story story;
	unsigned char *judged; /* one per landing: 0 not yet, 1 passes, 2 does not */
};

/* What a path is at one moment. */
struct gate_file {
	unsigned mode; /* 0: not there */
	struct oid oid;
};

/* "c" commit, "t" TREE TREE of its parent and its own, "p" patch id, "f" MODE OID PATH of a file. */
struct gate_key {
	char *key;
	uint32_t env, landing;
	bool old_known; /* "f": … and what the path was before */
	struct gate_file old;
};

struct gate_index {
	struct gate_env *envs;
	size_t envs_n, envs_cap;
	struct gate_key *keys; /* sorted */
	size_t keys_n, keys_cap;
};
void gate_index_done(struct gate_index *x);
#define cleanup_gate_index __attribute__((cleanup(gate_index_done)))
int gate_index_make(
	struct gate_index *ret, const struct repo *r, const struct gate *g, struct err *e);
/* The stretch of equal keys; NULL: none. */
const struct gate_key *gate_index_find(const struct gate_index *x, const char *key, size_t *ret_n);
#define GATE_KEY_MAX_B 16384u
void gate_file_key(struct buf *out, const char *path, const struct gate_file *f);
const struct gate_env *gate_index_env(const struct gate_index *x, const char *id);
int gate_index_add(struct gate_index *x, const struct gate_key *k, struct err *e);
void gate_index_sort(struct gate_index *x);

/* ---- commits of the range (gate_commits.c) ---- */

struct gate_path {
	char *path;
	struct gate_file old, new;
};

enum gate_state {
	GATE_IGNORED,   /* by the gate file */
	GATE_MERGE,     /* that is what git makes of its parents */
	GATE_UNTOUCHED, /* needs no evidence */
	GATE_GOOD,
	GATE_BAD,
	GATE_STATE_NUM
};
extern const char *const gate_state_names[GATE_STATE_NUM];

struct gate_commit {
	struct oid oid, tree, parent_tree; /* parent_tree: none for merges */
	struct oid parents[GATE_PARENTS_MAX];
	int parents_n;
	bool plain_merge; /* git alone comes to the same tree */
	char *message;
	char patch_id[OID_HEX_MAX + 1];
	struct gate_path *paths;
	size_t paths_n, paths_cap;
	/* the judgement */
	enum gate_state state;
	const char *matched; /* "commit", "tree", "patch", "files"; NULL: nothing */
	struct gate_from {
		uint32_t env;
		uint64_t seq;
	} from[GATE_FROM_MAX];
	size_t from_n;
	struct gate_problems problems;
};

struct gate_commits {
	struct gate_commit *v;
	size_t n;
};
void gate_commits_done(struct gate_commits *c);
#define cleanup_gate_commits __attribute__((cleanup(gate_commits_done)))
int gate_commits_read(
	struct gate_commits *ret, const struct repo *r, const char *range, struct err *e);
/* The same for a list of names, one per line. */
int gate_commits_load(
	struct gate_commits *ret, const struct repo *r, const struct buf *list, struct err *e);
/* The text that `diff-tree --stdin -r --raw -z` gives. */
int gate_commits_paths(struct gate_commits *c, const char *p, size_t n, struct err *e);
/* What a merge does beyond merging (gate_merge.c): its paths, or plain_merge. */
int gate_merge_look(struct gate_commit *c, const struct repo *r, struct err *e);

/* ---- judging and telling ---- */

void gate_trace(
	const struct gate *g, struct gate_index *x, struct gate_commit *c, const char *today);
/* One landing, with what its environment was forked from (gate_origin.c). */
void gate_judge_landing(const struct gate *g, const struct gate_index *x,
	const struct gate_from *from, const char *today, struct gate_problems *ret);

struct gate_result {
	struct gate gate;
	struct gate_index index;
	struct gate_commits commits;
	const char *range;
	size_t bad;
};
void gate_result_done(struct gate_result *r);
/* 0: whatever the judgement; see ret->bad. */
int gate_check(struct gate_result *ret, const char *gate_file, const char *range, struct err *e);
void gate_text(const struct gate_result *r, struct buf *out);
void gate_json(const struct gate_result *r, struct buf *out);
void gate_sarif(const struct gate_result *r, struct buf *out);

#endif
