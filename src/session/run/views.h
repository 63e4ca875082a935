/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private versions of what a sandbox may see and write for itself: its configuration, most of the time.
 *
 * Purpose: for every rule with a view, a layer (of a directory) or a copy (of a file) in croft's state,
 *          kept for this project from run to run.
 * Trust:   what is kept was written by a sandbox. Nothing here follows it or writes it back.
 * Order:   views_open() before the plan -> the sandbox -> views_close(). One run at a time writes a view;
 *          what another run of the same project writes meanwhile is lost in its end, and it says so.
 */
#ifndef CROFT_SESSION_RUN_VIEWS_H
#define CROFT_SESSION_RUN_VIEWS_H

#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"

#define VIEW_FILE_MAX_B (16u << 20) /* of a single file */

struct views {
	struct request_view v[REQUEST_VIEWS_MAX];
	int lock[REQUEST_VIEWS_MAX]; /* held as long as the run lasts; -1: somebody else has it */
	size_t n;
	struct strlist texts; /* what the paths in v are */
	struct strlist notes; /* degradations */
};

/* discard: nothing is kept. workspace and state may not lie in a view, nor a view in the workspace. */
int views_open(struct views *ret, const struct policy *p, const char *home, const char *workspace,
	bool discard, struct err *e);
void views_close(struct views *v);

/*
 * What sandboxes of this project changed in their version of `path`, one line each: "new", "changed" or
 * "deleted", and the name below it ("." for a file itself); "unreadable" for what nobody can look into. A
 * version that a run has just now is refused.
 */
int views_list(const char *home, const char *workspace, const char *path, struct strlist *ret,
	struct err *e);
/*
 * Take one of these over: the user's own file becomes what the version has, whole or not at all. Nothing is
 * followed on either side; what is no regular file is refused.
 */
int views_save(const char *home, const char *workspace, const char *path, const char *name,
	struct err *e);

#endif
