/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking the last landing back out: its operations the other way round, three-way against what is there
 * now. What was committed is reverted by a commit; history is not rewritten.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"

static void intent_done(struct land_intent *in)
{
	land_intent_done(in);
}

static int add_reverse(struct land_job *j, const char *path, const struct land_side *now,
	const struct land_side *then, struct err *e)
{
	struct change *c;

	if (now->mode == 040000 || then->mode == 040000)
		return 0;
	c = changes_add(&j->sel, path);
	if (!c)
		return land_no_memory(e);
	c->old_mode = now->mode;
	c->old = now->oid;
	c->new_mode = then->mode;
	c->new = then->oid;
	return 0;
}

static int reverse(struct land_job *j, const struct land_intent *last, struct err *e)
{
	cleanup_changes struct changes c = {0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < last->ops.n; i++) {
		const struct land_op *op = &last->ops.v[i];
		const struct land_side now = {op->new_mode, op->new},
				       then = {op->old_mode, op->old};

		rc = add_reverse(j, op->path, &now, &then, e);
	}
	if (rc < 0 || last->ops.n || !last->ref)
		return rc;
	/* It went to a branch: there were no files. */
	rc = land_diff(&j->v->repo, &last->onto, &last->landed, &c, e);
	for (size_t i = 0; rc == 0 && i < c.n; i++) {
		const struct land_side now = {c.v[i].new_mode, c.v[i].new},
				       then = {c.v[i].old_mode, c.v[i].old};

		rc = add_reverse(j, c.v[i].path, &now, &then, e);
	}
	return rc;
}

/* The old side of the selection as changes, to make the tree that it starts from. */
static int old_side(const struct changes *sel, struct changes *ret, struct err *e)
{
	for (size_t i = 0; i < sel->n; i++) {
		struct change *c = changes_add(ret, sel->v[i].path);

		if (!c)
			return land_no_memory(e);
		c->new_mode = sel->v[i].old_mode;
		c->new = sel->v[i].old;
	}
	changes_sort(ret);
	return 0;
}

static int revert_message(struct land_job *j, const struct land_intent *last, struct buf *out)
{
	buf_addf(out, "Revert croft env %s\n\n", j->v->name);
	if (last->ref && !oid_is_none(&last->ref_new)) {
		buf_addf(out, "This reverts commit %s", oid_hex(&last->ref_new).s);
		if (last->how == LAND_COMMIT && !oid_is_none(&last->ref_old))
			buf_addf(out, " and all\nthat landed with it, back to %s",
				oid_hex(&last->ref_old).s);
		buf_adds(out, ".\n");
	} else {
		buf_adds(out, "This takes its changes out of the working tree again.\n");
	}
	return out->failed ? -ENOMEM : 0;
}

static int revert_commit(
	struct land_job *j, const struct land_intent *last, struct land_request *q, struct err *e)
{
	cleanup_changes struct changes old = {0};
	cleanup_buf struct buf message = BUF_INIT(8192);
	int rc;

	if (last->ref && !str_eq(last->ref, "HEAD"))
		q->branch = last->ref + strlen("refs/heads/");
	if (revert_message(j, last, &message) < 0)
		return land_no_memory(e);
	q->message = buf_str(&message);
	if ((rc = land_find_ref(j, q->branch, e)) < 0 || (rc = old_side(&j->sel, &old, e)) < 0 ||
		(rc = land_tree_with(&j->v->repo, &j->in.onto, &old, &j->in.start, e)) < 0 ||
		(rc = land_tree_with(&j->v->repo, &j->in.start, &j->sel, &j->in.tree, e)) < 0)
		return rc;
	rc = land_commits(j, e);
	q->message = NULL;
	return rc;
}

static bool made_directories(const struct land_intent *last)
{
	for (size_t i = 0; i < last->ops.n; i++)
		if (last->ops.v[i].new_mode == 040000)
			return true;
	return false;
}

/* Directories that were made because they were empty, and still are. */
static void remove_made(struct land_job *j, const struct land_intent *last)
{
	for (size_t i = last->ops.n; i-- > 0;) {
		const struct land_op *op = &last->ops.v[i];
		const char *name;
		int dir;

		if (op->new_mode != 040000 || op->old_mode)
			continue;
		land_forget_parent(j);
		dir = land_parent(j, op->path, &name);
		if (dir >= 0 && unlinkat(dir, name, AT_REMOVEDIR) == 0)
			land_prune_above(j, op->path, op->exists);
	}
	land_forget_parent(j);
}

static int plan_revert(struct land_job *j, const struct land_intent *last, bool commit,
	struct land_request *q, struct err *e)
{
	int rc;

	j->in.kind = LAND_KIND_REVERT;
	j->in.start = last->tree;
	j->in.tree = j->in.landed = last->start;
	rc = reverse(j, last, e);
	if (rc < 0)
		return rc;
	changes_sort(&j->sel);
	if (last->ref || commit) {
		j->in.how = q->how = LAND_SQUASH;
		return revert_commit(j, last, q, e);
	}
	j->in.how = LAND_WORKTREE;
	return land_plan(j, &j->sel, false, e);
}

int land_revert(struct env *v, bool commit, struct land_result *ret, struct err *e)
{
	__attribute__((cleanup(intent_done))) struct land_intent last = {0};
	struct land_request q = {0};
	cleanup_land_job struct land_job j;
	int rc;

	land_result_init(ret);
	land_job_init(&j, v, ret);
	j.q = &q;
	rc = land_intent_read(&last, v->dir_fd, LAND_LAST, e);
	if (rc == -ENOENT && v->revert_completed)
		return 0; /* what was asked for was completed just now; the notes say so */
	if (rc == -ENOENT)
		return err_invalid(
			e, "nothing of %s has landed that could be taken back out", v->name);
	if (rc < 0 || (rc = land_able(v, e)) < 0 || (rc = land_lock(&j, e)) < 0 ||
		(rc = land_open_top(&j, e)) < 0 || (rc = plan_revert(&j, &last, commit, &q, e)) < 0)
		return rc;
	if (rc > 0 || (j.in.ops.n == 0 && !j.in.ref && !made_directories(&last))) {
		strlist_add(&ret->notes,
			"nothing of it is here any more: there is nothing to take out");
		return 0;
	}
	rc = land_tell(&j, e);
	if (rc == 0)
		rc = land_carry_out(&j, e);
	if (rc == 0)
		remove_made(&j, &last);
	return rc;
}
