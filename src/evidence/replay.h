/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running recorded commands again, in a fresh environment from the same commit, and saying which of the
 * ledger's claims still hold: exit status, test result, the tree that was left, and what was denied.
 *
 * Trust:   the evidence must verify before anything of it is run. Commands run behind the same kind of
 *          boundary as before, under the policy options recorded with the environment or a candidate.
 * Order:   verify -> fresh environment -> what led to a fork, if it is one -> each event in order: a
 *          command as `croft exec` would; snapshots, restores, discards as they were -> its ledger read
 *          back and compared, command by command -> removed, unless it is to be kept.
 * Signals: one that asks to end ends the replay: the fresh environment is removed, nothing is judged.
 * Limits:  what cannot be run again (interactive, interrupted, arguments that were redacted) is listed.
 */
#ifndef CROFT_EVIDENCE_REPLAY_H
#define CROFT_EVIDENCE_REPLAY_H

#include "base/buf.h"
#include "env/env.h"
#include "ledger/chain/story.h"
#include "policy/policy.h"

struct replay_request {
	const char *name;
	uint64_t event;        /* 0: all; else this one, those before it being run to get there */
	struct policy *policy; /* a candidate; NULL: as recorded */
	bool keep;
	bool verbose; /* the commands' output to standard error */
	char *const *environ;
};

enum replay_state {
	REPLAY_HOLDS,
	REPLAY_DIFFERS,
	REPLAY_REFUSED,  /* it could not be started */
	REPLAY_NOT,      /* cannot be run again */
	REPLAY_PREPARED, /* run to get there, not judged */
	REPLAY_STATE_NUM
};
extern const char *const replay_state_names[REPLAY_STATE_NUM];

struct replay_command {
	const struct story_command *old, *new; /* new NULL: not run */
	enum replay_state state;
	char why[512]; /* refused, not */
	bool exit_same, tree_same, tree_known, test_same;
	size_t denials_new, denials_gone;
	const struct story_denial *first_new;
	uint64_t seq; /* of the new event */
};

struct replay {
	struct export_source *source;
	struct ledger_verdict verdict;
	struct story old, new;
	struct replay_command *commands;
	size_t commands_n;
	char env_name[ENV_NAME_MAX + 1];
	struct digest policy;
	struct strlist notes;
	bool candidate, kept;
	size_t failed; /* claims that do not hold */
};
void replay_done(struct replay *r);
#define cleanup_replay __attribute__((cleanup(replay_done)))
int replay(struct replay *ret, const struct replay_request *q, struct err *e);
/* Compare what was with what is; sets the state. For tests, too. */
void replay_judge(struct replay *r, struct replay_command *c);
/* Why a command cannot be run again; NULL: it can. */
const char *replay_cannot(const struct story_command *c);
void replay_text(const struct replay *r, struct buf *out);
void replay_json(const struct replay *r, struct buf *out);

/* ---- what is not a command (replay_step.c) ---- */

#define REPLAY_FORKS_MAX 64

/* Do again what changed the list of layers; other events change nothing that is staged. */
int replay_step(struct env *v, const struct ledger_entry *x, struct err *e);
/* Behind the events of an origin: a fork begins with its layers, and with none of its snapshots. */
int replay_forked(struct env *v, struct err *e);
/* The story that a fork continues, verified, and its last event before the fork. */
int replay_origin(struct story *ret, uint64_t *ret_last, const struct repo *repo,
	const struct story *s, struct err *e);

/* The policy that options, as on a command line, give (replay_policy.c). */
int replay_policy(
	struct policy *ret, const char *directory, char *const *args, size_t n, struct err *e);

#endif
