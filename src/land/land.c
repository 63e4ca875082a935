/* SPDX-License-Identifier: Apache-2.0 */
/* Landing, from the request to the end: see land.h for the order, land_impl.h for the parts. */
#include "land/land.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "land/land_impl.h"

#define PATCH_MAX_B (2047u << 20)

void land_result_init(struct land_result *r)
{
	*r = (struct land_result){.paths = STRLIST_INIT(CHANGES_MAX),
		.merged = STRLIST_INIT(CHANGES_MAX),
		.notes = STRLIST_INIT(100000),
		.patch = BUF_INIT(PATCH_MAX_B)};
}

void land_result_done(struct land_result *r)
{
	strlist_done(&r->paths);
	strlist_done(&r->merged);
	strlist_done(&r->notes);
	buf_done(&r->patch);
}

/* What the caller is told: paths, trees, merges. */
int land_tell(struct land_job *j, struct err *e)
{
	cleanup_changes struct changes c = {0};
	struct land_result *ret = j->ret;
	int rc = 0;

	ret->tree = j->in.landed;
	if (j->in.ref)
		ret->commit = j->in.ref_new;
	for (size_t i = 0; i < j->in.ops.n; i++)
		if (!strlist_add(&ret->paths, j->in.ops.v[i].path))
			return land_no_memory(e);
	if (j->in.ref && j->in.ops.n == 0)
		rc = land_diff(&j->v->repo, &j->in.onto, &j->in.landed, &c, e);
	for (size_t i = 0; rc == 0 && i < c.n; i++)
		if (!strlist_add(&ret->paths, c.v[i].path))
			return land_no_memory(e);
	for (size_t i = 0; i < j->in.ops.n; i++) /* a merge of trees has no operations of its own */
		j->in.ops.v[i].merged |= strlist_has(&ret->merged, j->in.ops.v[i].path);
	return rc;
}

/* Commits are made and files planned; 1: there is nothing left to do. */
int land_commits(struct land_job *j, struct err *e)
{
	cleanup_changes struct changes c = {0};
	bool here = str_eq(j->in.ref, "HEAD");
	int rc;

	if (here && (rc = land_check_ready(j, e)) < 0)
		return rc;
	if ((rc = land_make_commits(j, e)) < 0)
		return rc;
	if (oid_eq(&j->in.landed, &j->in.onto))
		return 1;
	land_patch_id(j, &j->in.onto, &j->in.landed);
	if ((rc = land_diff(&j->v->repo, &j->in.onto, &j->in.landed, &c, e)) < 0 ||
		(rc = land_check_landed(j, &c, e)) < 0)
		return rc;
	if (!here)
		return 0;
	if ((rc = land_plan(j, &c, true, e)) < 0 || (rc = land_check_beside(j, e)) < 0)
		return rc;
	return land_check_index(j, e);
}

static void note_empty(struct land_job *j)
{
	char text[128];
	size_t n = 0;

	for (size_t i = 0; i < j->sel.n; i++)
		n += j->sel.v[i].new_mode == 040000;
	if (!n)
		return;
	snprintf(text, sizeof(text), "%zu empty director%s not landed: Git does not hold such", n,
		n == 1 ? "y is" : "ies are");
	strlist_add(&j->ret->notes, text);
}

static int prepare(struct land_job *j, struct err *e)
{
	int rc;

	if (j->in.how == LAND_WORKTREE) {
		j->in.landed = j->in.tree;
		rc = land_plan(j, &j->sel, false, e);
		if (rc == 0)
			rc = land_check_beside(j, e);
		if (rc < 0 || j->in.ops.n == 0)
			return rc < 0 ? rc : 1;
		land_patch_id(j, &j->in.start, &j->in.tree);
		return 0;
	}
	note_empty(j);
	rc = land_find_ref(j, j->q->branch, e);
	return rc < 0 ? rc : land_commits(j, e);
}

static int check_request(const struct env *v, struct land_request *q, struct err *e)
{
	size_t hex = 2 * git_hash_len(v->repo.hash);

	if (q->branch && q->how == LAND_WORKTREE)
		q->how = LAND_SQUASH;
	if (q->how == LAND_PATCH && (q->branch || q->message || q->sign))
		return err_invalid(e, "a patch has no branch, message or signature");
	if (q->how == LAND_WORKTREE && (q->message || q->sign))
		return err_invalid(
			e, "a message and a signature need a commit: --commit or --squash");
	if (q->tree && !str_hex(q->tree, hex, hex))
		return err_invalid(e, "%s is not the full id of a tree", land_show(q->tree).s);
	if (v->state == ENV_DISCARDED)
		return err_invalid(e,
			"the work of %s was discarded; croft discard %s --undo brings it back",
			v->name, v->name);
	return 0;
}

/* Asked before anything is touched: the place is still there, and what is done can be recorded. */
int land_able(struct env *v, struct err *e)
{
	if (v->kind != ENV_LIVE && !v->repo.git_dir)
		return err_refuse(e,
			"%s is no Git repository any more; put it back, and apply %s again",
			v->workspace, v->name);
	if (v->repo.stand_in)
		return err_set(e, EROFS, "land %s: %s", v->name, v->state_dir);
	return land_tip(v, e);
}

int land(struct env *v, const struct land_request *q, struct land_result *ret, struct err *e)
{
	cleanup_land_job struct land_job j;
	struct land_request req = *q;
	int rc;

	land_result_init(ret);
	land_job_init(&j, v, ret);
	j.q = &req;
	if ((rc = check_request(v, &req, e)) < 0)
		return rc;
	j.in.how = req.how;
	if (req.how != LAND_PATCH && (rc = land_able(v, e)) < 0)
		return rc;
	if ((rc = land_select(&j, e)) < 0)
		return rc;
	if (req.how == LAND_PATCH) {
		ret->tree = j.in.tree;
		for (size_t i = 0; i < j.sel.n; i++)
			if (!strlist_add(&ret->paths, j.sel.v[i].path))
				return land_no_memory(e);
		return land_patch(&j, &j.in.start, &j.in.tree, &ret->patch, e);
	}
	if ((rc = land_lock(&j, e)) < 0 || (rc = land_open_top(&j, e)) < 0 ||
		(rc = prepare(&j, e)) < 0)
		return rc;
	if (rc > 0) {
		ret->tree = j.in.landed;
		strlist_add(&ret->notes, "everything is there already: nothing was changed");
		return 0;
	}
	rc = land_tell(&j, e);
	return rc < 0 || req.dry_run ? rc : land_carry_out(&j, e);
}
