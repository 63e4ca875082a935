/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A planned landing carried out: staged, written down, files, index, ref, event, done.
 *
 * Failure: up to the intent, nothing happened. From there on, a step that fails takes back what was
 *          done before it; once the ref has moved there is no way but forward, and what is left then
 *          (event, record) is left to recovery if it fails.
 * Signals: one that asks to end stops the staging, and what was staged goes first. From the lock of the
 *          index on it is held back until everything is done or taken back: half a landing would be
 *          completed by whoever opens the environment next, unasked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "os/forced.h"
#include "os/path.h"

void land_step(const char *step)
{
	forced_crash(step);
}

void land_job_init(struct land_job *j, struct env *v, struct land_result *ret)
{
	*j = (struct land_job){.v = v,
		.ret = ret,
		.conflicts = STRLIST_INIT(LAND_CONFLICTS_MAX),
		.lock_fd = -1,
		.top_fd = -1,
		.stage_fd = -1,
		.index_fd = -1,
		.parent_fd = -1};
	clock_gettime(CLOCK_REALTIME, &j->in.time);
}

void land_job_done(struct land_job *j)
{
	land_unlock_index(j);
	land_forget_parent(j);
	git_reader_close(j->reader);
	close_fd(&j->stage_fd);
	close_fd(&j->top_fd);
	close_fd(&j->lock_fd);
	strlist_done(&j->conflicts);
	changes_done(&j->sel);
	land_intent_done(&j->in);
	interrupt_release(&j->held);
	interrupt_release(&j->watched);
}

/* ---- the lock of the checkout ---- */

static int open_lock(struct land_job *j, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(8192);

	buf_addf(&path, "%s/landing.lock", j->v->repo.store);
	j->lock_fd = open(buf_str(&path), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (j->lock_fd < 0)
		return err_set(e, errno, "open %s", buf_str(&path));
	while (flock(j->lock_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "lock %s", buf_str(&path));
	return 0;
}

void land_lock_note(struct land_job *j, bool pending)
{
	size_t n = pending ? strlen(j->v->name) : 0;

	/* It only says whom to ask first: without it, that environment recovers when it is opened. */
	if (ftruncate(j->lock_fd, 0) == 0 && n && pwrite(j->lock_fd, j->v->name, n, 0) < 0)
		return;
	if (pending)
		fdatasync(j->lock_fd);
}

/* The other environment's interrupted landing is seen to by opening it. */
static int see_to(struct land_job *j, const char *name, struct err *e)
{
	struct err why = ERR_INIT;
	struct env other;

	close_fd(&j->lock_fd);
	env_init(&other);
	if (env_open(&other, name, ENV_LOCK_WRITE, &why) < 0 && why.kind != ERR_INVALID)
		return err_refuse(e,
			"the landing of %s in this checkout was interrupted and must be recovered "
			"first: %s",
			name, why.msg);
	for (size_t i = 0; i < other.notes.n; i++)
		strlist_add(&j->v->notes, other.notes.v[i]);
	env_done(&other);
	return 0;
}

int land_lock(struct land_job *j, struct err *e)
{
	for (int tries = 0; tries < 16; tries++) {
		char name[ENV_NAME_MAX + 2] = "";
		ssize_t n;
		int rc = open_lock(j, e);

		if (rc < 0)
			return rc;
		n = pread(j->lock_fd, name, sizeof(name) - 1, 0);
		name[n > 0 ? n : 0] = '\0';
		if (!name[0] || str_eq(name, j->v->name) || !env_name_good(name))
			return 0;
		rc = see_to(j, name, e);
		if (rc < 0)
			return rc;
		/* Gone or recovered: nobody else's name is there now, or it is of no use. */
		rc = open_lock(j, e);
		if (rc < 0)
			return rc;
		n = pread(j->lock_fd, name, sizeof(name) - 1, 0);
		if (n > 0 && !str_eq(name, j->v->name))
			land_lock_note(j, false);
		return 0;
	}
	return err_set(e, EBUSY, "lock the checkout for landing");
}

/* ---- from the intent to the end ---- */

void land_told(const struct land_job *j, size_t done)
{
	const struct env *v = j->v;

	if (v->progress)
		v->progress(v->progress_arg, done, j->in.ops.n);
}

static int set_record(struct land_job *j, struct err *e)
{
	static const char *const names[] = {"worktree", "commit", "squash", "patch"};
	struct env *v = j->v;

	free(take_ptr(v->landed_how));
	if (j->in.kind == LAND_KIND_REVERT) {
		v->landed_commit = v->landed_tree = (struct oid){0};
		v->state = ENV_OPEN;
		return env_save(v, e);
	}
	v->landed_commit = j->in.ref ? j->in.ref_new : (struct oid){0};
	v->landed_tree = j->in.landed;
	v->landed_how = strdup(names[j->in.how]);
	v->state = ENV_LANDED;
	return v->landed_how ? env_save(v, e) : land_no_memory(e);
}

int land_finish(struct land_job *j, struct err *e)
{
	int rc = land_tip(j->v, e);

	/* The event of this landing may be there already: nothing else comes between. */
	if (rc == 0 && j->v->tip.seq <= j->in.seq)
		rc = land_event(j, e);
	land_step("land.event");
	if (rc == 0)
		rc = set_record(j, e);
	if (rc < 0)
		return rc;
	if (j->ret)
		j->ret->evidence = j->v->tip.envelope;
	land_prune(j);
	land_unstage(j);
	rc = land_intent_end(
		j, j->in.kind == LAND_KIND_REVERT ? LAND_END_FORGET : LAND_END_LAST, e);
	if (rc == 0)
		land_lock_note(j, false);
	land_step("land.done");
	return rc;
}

static const char *land_kind_verb(const struct land_job *j)
{
	return j->in.kind == LAND_KIND_REVERT ? "revert" : "apply";
}

/* Undo what was done; the first failure is the one that is told. */
static int give_up(struct land_job *j, bool index_done, int rc, struct err *e)
{
	struct err second = ERR_INIT;
	int back = 0;

	if (index_done &&
		(land_lock_index(j, &second) < 0 || land_write_index(j, true, &second) < 0))
		back = -EIO;
	land_unlock_index(j);
	if (back == 0)
		back = land_take_back(j, &second);
	if (back < 0) {
		/* The intent stays: opening the environment for writing tries again. */
		err_wrap(e,
			"landing failed, and taking it back failed, too (%s); croft %s %s tries "
			"again to complete it or to take it back; it failed because",
			second.msg, land_kind_verb(j), j->v->name);
		return rc;
	}
	if (back == 0)
		land_unstage(j);
	if (land_intent_end(j, LAND_END_DROP, &second) == 0)
		land_lock_note(j, false);
	return rc;
}

int land_complete(struct land_job *j, struct err *e)
{
	bool index_done = false;
	int rc = land_place(j, e);

	if (rc == 0) {
		rc = land_write_index(j, false, e);
		index_done = rc == 0 && j->in.index;
		land_step("land.index");
	}
	if (rc == 0) {
		rc = land_move_ref(j, false, e);
		land_step("land.ref");
	}
	if (rc < 0)
		return give_up(j, index_done, rc, e);
	rc = land_finish(j, e);
	return rc < 0 ? err_wrap(e, "%s landed, but the end of it is not recorded yet", j->v->name)
		      : 0;
}

int land_carry_out(struct land_job *j, struct err *e)
{
	int rc;

	land_step("land.planned");
	if ((rc = land_tip(j->v, e)) < 0)
		return rc;
	j->in.seq = j->v->tip.seq;
	interrupt_watch(&j->watched);
	rc = land_stage(j, e);
	land_step("land.staged");
	if (rc == 0)
		rc = interrupt_check(e);
	interrupt_hold(&j->held);
	if (rc == 0)
		rc = land_lock_index(j, e);
	if (rc == 0)
		rc = land_intent_write(j, e);
	if (rc < 0) {
		land_unlock_index(j);
		land_unstage(j);
		return rc;
	}
	land_lock_note(j, true);
	land_step("land.intent");
	rc = land_complete(j, e);
	if (rc == 0)
		land_told(j, j->in.ops.n);
	return rc;
}
