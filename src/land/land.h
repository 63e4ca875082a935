/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landing: what was accepted goes into the user's checkout, branch or patch; and comes out again.
 *
 * Trust:   content comes from the store, by the object names that were reviewed, never from the layers;
 *          the user's files are opened by descriptor, no symlink followed, no git configuration, filter,
 *          attribute or hook of the sandbox's takes part. Refused flags (snap/change.h) never land;
 *          files that run on the user's machine land only when they were reviewed or named.
 * Order:   plan (everything read, merged and checked; nothing written) -> new contents staged beside
 *          the checkout, in its Git directory or in landing/ -> intent written and synced -> files
 *          renamed into place one by one, old ones kept -> index -> ref -> event -> intent removed.
 * Failure: before the intent: nothing happened. After it: whoever opens the environment next, or lands
 *          anything in this checkout, completes it, or takes it back when the checkout was changed by
 *          somebody else meanwhile; either way it is whole, and recorded.
 * A landing lock per checkout ($STATE/repos/KEY/landing.lock): two landings come one after the other.
 */
#ifndef CROFT_LAND_LAND_H
#define CROFT_LAND_LAND_H

#include "env/env.h"

enum land_how {
	LAND_WORKTREE, /* into the working tree, nothing committed */
	LAND_COMMIT,   /* the environment's own commits, re-authored, then what is uncommitted */
	LAND_SQUASH,   /* one commit */
	LAND_PATCH,    /* a patch on standard output; nothing is changed */
	LAND_HOW_NUM
};

struct land_request {
	enum land_how how;
	const char *
		branch; /* commits go there (made at the base when new); the checkout is left alone */
	const char *message; /* NULL: made from the task and the changes */
	char *const *paths;  /* only these and what is below them; NULL: all */
	size_t paths_n;
	const char *tree; /* refuse unless the staged tree is this one (hex) */
	bool flagged;     /* land files that run on this machine although no review saw them */
	bool dry_run;
	bool sign; /* as the user's configuration says, or forced */
};

struct land_result {
	struct oid commit, tree; /* tree of what landed (worktree: start tree with it) */
	struct strlist paths;    /* what changed in the checkout */
	struct strlist merged;   /* of these, by three-way merge */
	struct strlist notes;
	struct buf patch;
	struct digest evidence; /* of the event */
};

void land_result_done(struct land_result *r);
/* On conflicts: -EEXIST, nothing changed, e names the first and result->notes holds a runbook. */
int land(struct env *v, const struct land_request *q, struct land_result *ret, struct err *e);
/* Take the last landing back out: the reverse change, three-way, under the same rules. */
int land_revert(struct env *v, bool commit, struct land_result *ret, struct err *e);
/* Throw staged work away; it can be brought back for ENV_UNDO_DAYS. */
int land_discard(struct env *v, struct err *e);
int land_undo_discard(struct env *v, struct err *e);
/* Did a crash leave half a landing? "apply" or "revert", which completes it when it is asked for; or NULL. */
const char *land_interrupted(const struct env *v);

#endif
