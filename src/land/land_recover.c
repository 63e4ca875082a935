/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a crash: an intent that is still there is completed if every path is as it was or as it should
 * become, and taken back otherwise. What somebody else wrote meanwhile is never touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "git/program.h"

/* Where is the ref now? 1: it has moved (perhaps further), 0: not yet, -1: somewhere else. */
static int ref_state(struct land_job *j, int *ret, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(256);
	struct oid_hex new = oid_hex(&j->in.ref_new);
	const char *parse[] = {"rev-parse", "--verify", "-q", j->in.ref, NULL};
	const char *past[] = {"merge-base", "--is-ancestor", new.s, j->in.ref, NULL};
	struct git_run run = {.argv = parse, .out = &out, .any_status = true};
	struct oid now = {0};
	int rc;

	*ret = 0;
	if (!j->in.ref)
		return 0;
	rc = repo_git(&j->v->repo, &run, e);
	if (rc < 0)
		return rc;
	if (run.status == 0 && !oid_parse(&now, buf_str(&out), strcspn(buf_str(&out), "\n")))
		return err_set(e, EBADMSG, "read what git rev-parse says");
	if (oid_eq(&now, &j->in.ref_old) || (oid_is_none(&now) && oid_is_none(&j->in.ref_old)))
		return 0;
	run = (struct git_run){.argv = past, .any_status = true};
	rc = repo_git(&j->v->repo, &run, e);
	*ret = run.status == 0 ? 1 : -1;
	return rc;
}

/* Between "out" and "in" on a file system that cannot exchange: the old file goes back first. */
static void mend(struct land_job *j, struct land_op *op, size_t i)
{
	cleanup_fd int stage = -1, dir = -1;
	char staged[64], old[80];
	const char *name;

	stage = land_staged_at(j, op, i, staged);
	snprintf(old, sizeof(old), "%s.old", staged);
	if (stage < 0 || faccessat(stage, old, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	dir = land_make_parent(j, op->path, &name);
	if (dir >= 0)
		syscall(SYS_renameat2, stage, old, dir, name, 1u /* NOREPLACE */);
}

/* Is this path as it was, or as it should be? */
static int classify(struct land_job *j, size_t i, bool *ret_good, struct err *e)
{
	struct land_op *op = &j->in.ops.v[i];
	struct land_file f;
	int rc;

	if (op->still)
		return 0;
	rc = land_look(j, op->path, &f, e);
	if (rc == 0 && !f.mode && op->before.mode && op->new_mode) {
		mend(j, op, i);
		land_forget_parent(j);
		rc = land_look(j, op->path, &f, e);
	}
	if (rc < 0)
		return rc;
	/* A directory where a file was to go is one of ours already: the file is gone. */
	if (land_same_file(&f, op->new_mode, &op->raw) || (!op->new_mode && f.mode == 040000)) {
		op->placed = true;
		return 0;
	}
	/* A directory that has to make way may be gone already. */
	if (!land_same_file(&f, op->before.mode, &op->before.raw) &&
		!(op->before.mode == 040000 && !f.mode)) {
		*ret_good = false;
		return 0;
	}
	op->before = f;
	return land_stage_one(j, op, i, e);
}

static void note(struct env *v, const char *text)
{
	cleanup_buf struct buf b = BUF_INIT(1024);

	buf_addf(&b, "a landing of %s had been interrupted; %s", v->name, text);
	strlist_add(&v->notes, buf_str(&b));
}

const char *land_interrupted(const struct env *v)
{
	struct err ignored = ERR_INIT;
	struct land_intent in = {0};
	const char *verb;
	int rc = land_intent_read(&in, v->dir_fd, LAND_INTENT, &ignored);

	if (rc == -ENOENT)
		return NULL;
	verb = rc == 0 && in.kind == LAND_KIND_REVERT ? "revert" : "apply";
	land_intent_done(&in);
	return verb;
}

static int take_back(struct land_job *j, const char *why, struct err *e)
{
	int rc;

	if (j->in.index &&
		((rc = land_lock_index(j, e)) < 0 || (rc = land_write_index(j, true, e)) < 0))
		return rc;
	rc = land_take_back(j, e);
	if (rc < 0)
		return rc;
	if (rc == 0)
		land_unstage(j);
	rc = land_event_recovered(j, false, why, e);
	if (rc == 0)
		rc = land_intent_end(j, LAND_END_DROP, e);
	land_lock_note(j, false);
	note(j->v, "it was taken back, the checkout is as it was before");
	return rc;
}

static void completed(struct land_job *j, const char *text)
{
	note(j->v, text);
	j->v->revert_completed = j->in.kind == LAND_KIND_REVERT;
}

/* Everything that had to be done before the event has been done. */
static int only_finish(struct land_job *j, struct err *e)
{
	int rc = land_finish(j, e);

	if (rc == 0)
		completed(j, "it was complete, and is recorded now");
	return rc;
}

static int go_on(struct land_job *j, struct err *e)
{
	bool good = true, files = false;
	int rc = 0;

	for (size_t i = 0; i < j->in.ops.n; i++)
		files |= !j->in.ops.v[i].still;
	if (files)
		rc = land_open_stage(j, true, e);
	if (rc == 0 && files)
		rc = land_reader(j, e);
	for (size_t i = 0; rc == 0 && good && i < j->in.ops.n; i++)
		rc = classify(j, i, &good, e);
	land_forget_parent(j);
	if (rc < 0)
		return rc;
	if (!good)
		return take_back(j, "a file was changed by somebody else meanwhile", e);
	rc = land_lock_index(j, e);
	if (rc == 0)
		rc = land_complete(j, e);
	if (rc == 0)
		rc = land_event_recovered(j, true, NULL, e);
	if (rc == 0)
		completed(j, "it was completed");
	return rc;
}

int env_recover_landing(struct env *v, struct err *e)
{
	cleanup_land_job struct land_job j;
	int rc, ref = 0;

	land_job_init(&j, v, NULL);
	rc = land_intent_read(&j.in, v->dir_fd, LAND_INTENT, e);
	if (rc == -ENOENT) {
		/* Perhaps it got as far as staging; nothing else can have happened. */
		if (land_open_top(&j, e) == 0)
			land_sweep(&j);
		*e = ERR_INIT;
		return 0;
	}
	if (rc < 0 || (rc = land_lock(&j, e)) < 0 || (rc = land_open_top(&j, e)) < 0 ||
		(rc = land_tip(v, e)) < 0)
		return rc;
	interrupt_hold(&j.held);
	land_break_index_lock(&j);
	if (v->tip.seq > j.in.seq)
		return only_finish(&j, e);
	rc = ref_state(&j, &ref, e);
	if (rc < 0)
		return rc;
	if (ref > 0)
		return only_finish(&j, e);
	if (ref < 0) {
		if (land_open_stage(&j, true, e) < 0)
			return -e->errnum;
		return take_back(&j, "somebody else moved the branch meanwhile", e);
	}
	return go_on(&j, e);
}
