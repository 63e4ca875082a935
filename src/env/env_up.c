/* SPDX-License-Identifier: Apache-2.0 */
/* An environment that is up: see env_up.h. */
#include "env/env_up.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "env/session_journal.h"
#include "os/clock.h"
#include "session/join/join.h"

#define LOCK_AGAIN_MS 20
#define LOCK_AGAIN_TRIES 1500

struct up {
	struct env *v;
	const struct policy *policy;
	struct sjournal *journal;
	bool lent;   /* the lock is somebody else's for now */
	bool wanted; /* it is to be taken back, as soon as they let it go */
	const struct env_up *u;
};

static int on_up(void *arg, const struct receipt *r, struct err *e)
{
	struct up *up = arg;
	struct sjournal_session s = {.id = r->id,
		.tier = r->tier,
		.policy_digest = r->policy_digest.hex,
		.enforced_digest = r->enforced_digest.hex,
		.degradations = &r->degradations,
		.policy = &r->policy};

	return sjournal_open(&up->journal, up->v, &s, e);
}

static int on_started(void *arg, const struct session_started *s, struct err *e)
{
	struct up *up = arg;
	struct sjournal_start st = {.process = s->process,
		.run_id = s->run_id,
		.time = s->time,
		.argv = s->argv,
		.cwd = s->cwd,
		.label = s->label,
		.as_test = s->as_test,
		.tty = s->tty,
		.hidden = s->hidden};
	struct sjournal_ref ref;

	return sjournal_started(up->journal, &st, &ref, e);
}

static void on_dropped(void *arg, uint32_t process, const char *why)
{
	struct up *up = arg;
	struct err ignored = ERR_INIT;

	sjournal_dropped(up->journal, process, why, &ignored);
}

static int on_ended(void *arg, uint32_t process, struct receipt *r,
	const struct capture_mem out[CAPTURE_STREAMS], char ret_event[SESSION_EVENT_MAX], struct err *e)
{
	struct up *up = arg;
	struct sjournal_ref ref;

	if (sjournal_ended(up->journal, process, r, out, &ref, e) < 0)
		return -e->errnum;
	snprintf(ret_event, SESSION_EVENT_MAX, "%llu.%u", (unsigned long long)ref.event, ref.entry);
	return 0;
}

/* Without waiting: who has it may want to say something to us first. */
static int take_back(struct up *up, struct err *e)
{
	if (flock(up->v->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, errno, "lock environment %s again", up->v->name);
	if (env_refresh(up->v, e) < 0)
		return -e->errnum;
	up->lent = up->wanted = false;
	return 0;
}

static uint64_t on_due(void *arg)
{
	struct up *up = arg;

	if (up->wanted)
		return clock_ms() + LOCK_AGAIN_MS;
	return up->journal && !up->lent ? sjournal_due_ms(up->journal) : UINT64_MAX;
}

static int on_fd(void *arg)
{
	struct up *up = arg;

	return up->journal && sjournal_busy(up->journal) ? sjournal_fd(up->journal) : -1;
}

static void on_poll(void *arg, bool quiescent)
{
	struct up *up = arg;
	struct err ignored = ERR_INIT; /* it is tried again */

	if (up->wanted)
		take_back(up, &ignored);
	if (up->journal && !up->lent)
		sjournal_poll(up->journal, quiescent, &ignored);
}

/* Somebody works on the environment beside us: everything is written down, and nothing more until then. */
static int on_lend(void *arg, bool lend, bool quiescent, struct err *e)
{
	struct up *up = arg;
	int r;

	up->wanted = !lend && up->lent;
	if (!lend || up->lent) {
		if (up->wanted)
			take_back(up, e);
		return 0;
	}
	r = sjournal_flush(up->journal, quiescent, e);
	if (r == 0 && flock(up->v->lock_fd, LOCK_UN) < 0)
		r = err_set(e, errno, "unlock environment %s", up->v->name);
	up->lent = r == 0;
	return r;
}

/* While it is lent, everything was written down, or cannot be now. */
static int on_seal(void *arg, bool quiescent, struct err *e)
{
	struct up *up = arg;

	return up->lent ? 0 : sjournal_flush(up->journal, quiescent, e);
}

static uint64_t on_recorded(void *arg, char ret_tree[SESSION_TREE_MAX])
{
	struct up *up = arg;
	struct oid tree = {0};
	uint64_t event = up->journal ? sjournal_recorded(up->journal, &tree) : 0;

	if (!oid_is_none(&tree))
		snprintf(ret_tree, SESSION_TREE_MAX, "%s", oid_hex(&tree).s);
	return event;
}

static bool on_unreachable(void *arg)
{
	struct up *up = arg;

	return faccessat(up->v->dir_fd, JOIN_SOCKET, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static int serve(struct up *up, struct run_request *q, int listener, struct receipt *r, struct err *e)
{
	struct session_options o = {.q = q,
		.name = up->v->name,
		.words = up->u->words,
		.notes = &up->v->notes,
		.listener = listener,
		.linger_ms = up->u->linger_ms,
		.lifetime_ms = up->u->lifetime_ms,
		.idle_ms = up->u->idle_ms,
		.holder = up->u->holder,
		.held = up->u->held,
		.ret_holder_waits = up->u->ret_holder_waits,
		.ops = {.arg = up,
			.up = on_up,
			.started = on_started,
			.dropped = on_dropped,
			.ended = on_ended,
			.due_ms = on_due,
			.fd = on_fd,
			.poll = on_poll,
			.recorded = on_recorded,
			.lend = on_lend,
			.seal = on_seal,
			.unreachable = on_unreachable}};
	struct err last = ERR_INIT;
	int rc = session_serve(r, &o, e);

	for (int i = 0; up->lent && take_back(up, &last) < 0 && i < LOCK_AGAIN_TRIES; i++)
		poll(NULL, 0, LOCK_AGAIN_MS);
	if (up->journal && r->outcome.lost && !up->lent) {
		sjournal_leave(up->journal);
		return rc;
	}
	if (up->lent) { /* the journal tells the next one */
		sjournal_abandon(up->journal);
		return rc;
	}
	if (up->journal && sjournal_left(up->journal, r, &last) < 0 && rc == 0) {
		*e = last;
		rc = -e->errnum;
	}
	if (up->journal && sjournal_close(up->journal, &last) < 0 && rc == 0) {
		*e = last;
		rc = -e->errnum;
	}
	return rc;
}

int env_up(struct env *v, const struct env_up *u, struct receipt *r, struct err *e)
{
	struct env_exec x = {.policy = u->policy,
		.cwd = u->cwd,
		.stdio = {-1, -1, -1},
		.allow_degraded = u->allow_degraded};
	struct up up = {.v = v, .policy = u->policy, .u = u};
	struct run_request q = env_request(v, &x);
	struct env_stage stage = {0};
	cleanup_fd int listener = -1;
	int rc = env_need_ledger(v, e);

	q.serve = true;
	if (rc == 0)
		rc = env_reopen(v, e);
	if (rc == 0 && v->kind != ENV_COPY) {
		rc = env_stage(v, false, &stage, e);
		q.staging = &stage.staging;
	}
	if (rc == 0 && v->kind != ENV_LIVE)
		rc = env_check_objects(v, &x, &stage, e);
	if (rc == 0)
		rc = listener = join_listen(v->dir_fd, e);
	if (rc >= 0)
		rc = serve(&up, &q, listener, r, e);
	if (!up.lent)
		env_let_go(v);
	if (listener >= 0)
		unlinkat(v->dir_fd, JOIN_SOCKET, 0);
	/* Left open: who is not accepted yet sees the end with this process, as all others who wait do. */
	listener = -1;
	env_stage_done(&stage);
	return rc;
}

bool env_is_up(const struct env *v)
{
	return v->dir_fd >= 0 && join_up(v->dir_fd) > 0;
}
