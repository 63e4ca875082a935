/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `croft evidence check`: does every commit of a range have the evidence that a gate asks for?
 *
 * Trust:   commits, ledgers and messages are anybody's. A trailer makes a commit one that needs evidence;
 *          it never is evidence. What counts is content: the commit, its tree, its patch or each of its
 *          files must be what a verified ledger says was landed.
 * Order:   gate file -> range (as the user) -> every ledger of the repository verified and indexed ->
 *          commits looked at, clean, in the store -> judged (ledger/gate.h).
 * Limits:  GATE_COMMITS_MAX commits, GATE_LEDGERS_MAX ledgers.
 */
#ifndef CROFT_CORE_GATE_H
#define CROFT_CORE_GATE_H

#include "base/buf.h"
#include "git/repo.h"
#include "ledger/gate.h"

#define GATE_COMMITS_MAX 100000u
#define GATE_LEDGERS_MAX 100000u
#define GATE_KEYS_MAX 20000000u
#define GATE_ENVS_MAX 64u /* that one commit comes from */

/* ---- what was landed (gate_index.c) ---- */

struct gate_env {
	char id[17];
	struct ledger_verdict verdict;
	struct story story;
};

/* "c" commit, "t" tree, "p" patch id, "f" MODE OID PATH of a file, "d" PATH of a deleted one. */
struct gate_key {
	char *key;
	uint32_t env, landing;
};

struct gate_index {
	struct gate_env *envs;
	size_t envs_n, envs_cap;
	struct gate_key *keys; /* sorted */
	size_t keys_n, keys_cap;
};
void gate_index_done(struct gate_index *x);
#define cleanup_gate_index __attribute__((cleanup(gate_index_done)))
int gate_index_make(struct gate_index *ret, const struct repo *r, struct err *e);
/* The stretch of equal keys; NULL: none. */
const struct gate_key *gate_index_find(const struct gate_index *x, const char *key, size_t *ret_n);
const struct gate_env *gate_index_env(const struct gate_index *x, const char *id);
int gate_index_add(
	struct gate_index *x, uint32_t env, uint32_t landing, const char *key, struct err *e);
void gate_index_sort(struct gate_index *x);

/* ---- commits of the range (gate_commits.c) ---- */

struct gate_path {
	char *path;
	unsigned mode; /* 0: deleted */
	struct oid oid;
};

enum gate_state {
	GATE_IGNORED,   /* by the gate file */
	GATE_MERGE,     /* that adds nothing of its own */
	GATE_UNTOUCHED, /* needs no evidence */
	GATE_GOOD,
	GATE_BAD,
	GATE_STATE_NUM
};
extern const char *const gate_state_names[GATE_STATE_NUM];

struct gate_commit {
	struct oid oid, tree;
	int parents_n;
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
	} from[GATE_ENVS_MAX];
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
/* The text that `diff-tree --stdin -r -c --raw -z` gives; for tests, too. */
int gate_commits_paths(struct gate_commits *c, const char *p, size_t n, struct err *e);

/* ---- judging and telling ---- */

void gate_trace(
	const struct gate *g, const struct gate_index *x, struct gate_commit *c, const char *today);

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
