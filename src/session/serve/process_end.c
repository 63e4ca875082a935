/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process from its start to its end, as its reaper tells it: started, or failed; exit; what was written
 * before that; its record; the answer; nothing left of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "os/clock.h"
#include "session/run/whereis.h"
#include "session/serve/process_impl.h"

#define DRAIN_MAX_B (8u << 20) /* more than pipes hold: what comes after that was written later */
#define TTY_DRAIN_MS 50 /* a terminal hands over what was written a moment after its writer ended */

static void on_kill(void *arg)
{
	process_signal(arg, SIGKILL, WIRE_TO_ALL);
}

void process_end(struct process *p, uint64_t grace_ms)
{
	if (p->signalled || p->state == PROCESS_OVER)
		return;
	p->signalled = true;
	if (p->tty) /* shells on a terminal take no notice of SIGTERM */
		process_signal(p, SIGHUP, WIRE_TO_GROUP);
	process_signal(p, SIGTERM, WIRE_TO_ALL);
	process_signal(p, SIGCONT, WIRE_TO_ALL);
	if (grace_ms != UINT64_MAX)
		loop_timer(p->session->loop, &p->kill, grace_ms, on_kill, p);
}

void process_on_timeout(void *arg)
{
	struct process *p = arg;

	if (p->state < PROCESS_LEFT) {
		p->receipt->outcome.timed_out = true;
		strlist_add(&p->receipt->limits_hit, "timeout");
	}
	process_end(p, PROCESS_GRACE_MS);
}

/* Nothing of it is left: only what it wrote is kept. */
static void let_go(struct process *p)
{
	view_close(p);
	process_close_input(p);
	loop_cancel(&p->timeout); /* the limit holds for what it leaves behind, too */
	loop_cancel(&p->kill);
	limits_end(p);
}

/* What happened before its end may have been told since we last listened. */
static void hear_watchers(struct session *s)
{
	struct pollfd p[WATCH_FDS_MAX];
	int n = s->over ? 0 : watch_fds(&s->watch, p);

	if (n > 0 && poll(p, (nfds_t)n, 0) > 0)
		watch_handle(&s->watch, p);
}

/* The sandbox's limits are shared: one that was reached while a command lived is in its receipt. */
static void note_limits(struct process *p)
{
	struct cgroup_hits now;

	cgroup_hits(&p->session->boundary.cgroup, &now);
	if (now.oom_kills > p->hits.oom_kills)
		strlist_add(&p->receipt->limits_hit, "memory");
	if (now.pids_refused > p->hits.pids_refused)
		strlist_add(&p->receipt->limits_hit, "pids");
	/* The layers are walked for it: only when something went wrong. */
	if (p->receipt->outcome.status != 0 && !strlist_has(&p->receipt->limits_hit, "disk") &&
		diskwatch_full(&p->session->boundary.disk))
		strlist_add(&p->receipt->limits_hit, "disk");
}

/* Recorded first, told afterwards. */
static void answer(struct process *p)
{
	struct session *s = p->session;
	struct receipt *r = p->receipt;
	struct err e = ERR_INIT;

	loop_cancel(&p->drain);
	hear_watchers(s);
	note_limits(p);
	session_note_network(s, r);
	network_since(&s->receipt->network, &p->refused, !p->alone, &r->network);
	if (!session_intact(s))
		snprintf(r->outcome.replaced, sizeof(r->outcome.replaced), "%s",
			s->outcome.replaced);
	boundary_note_replaced(r);
	r->wall_us = clock_us() - p->t0_us;
	r->cpu_us = r->outcome.cpu_us;
	r->peak_memory_b = r->outcome.maxrss_kb * 1024;
	limits_note(p);
	receipt_seal(r, &s->boundary.plan);
	hidden_know_stored(s->hidden, &s->stored, &e); /* a failure is the record's to say */
	e = ERR_INIT;
	if (s->o->ops.ended &&
		s->o->ops.ended(s->o->ops.arg, p->id, r, p->capture, p->event, &e) < 0)
		receipt_degrade(r, "the record of this command is incomplete: %s", e.msg);
	for (int i = 0; i < CAPTURE_STREAMS; i++)
		capture_mem_done(&p->capture[i]);
	p->state = p->reaper ? PROCESS_LEFT : PROCESS_OVER;
	if (p->state == PROCESS_OVER)
		let_go(p);
	s->alive_n -= p->state == PROCESS_OVER;
	process_pump(p);
	session_quiet(s);
}

static void on_drained(void *arg)
{
	struct process *p = arg;

	if (p->state == PROCESS_EXITED && process_held_from(p) >= p->log.end)
		answer(p);
}

/* Everything that was written before it ended has been read, and whoever waits for it has had it. */
void process_finish_if_drained(struct process *p)
{
	bool waits = false, got = true;
	size_t left = DRAIN_MAX_B;
	int n = 0;

	while (got && left) {
		got = false;
		for (int i = 0; i < 2; i++) {
			while (left && (n = process_read_piece(p, i)) > 0) {
				left -= MIN_OF((size_t)n, left);
				got = true;
			}
			if (n == -2)
				return; /* a reader has to take some first */
			waits |= n == 0 && p->tty && p->reaper;
		}
		if (got)
			process_feed_all(p);
	}
	if (process_held_from(p) < p->log.end)
		return;
	if (!waits)
		answer(p);
	else if (!p->drain.slot)
		loop_timer(p->session->loop, &p->drain, TTY_DRAIN_MS, on_drained, p);
}

static void release_reaper(struct process *p)
{
	struct reaper *r = p->reaper;

	p->reaper = NULL;
	if (r)
		pool_give_back(r);
}

static void over(struct process *p)
{
	if (p->state != PROCESS_LEFT)
		return;
	p->state = PROCESS_OVER;
	p->session->alive_n--;
	let_go(p);
	session_quiet(p->session);
}

static void on_main_exit(struct process *p, const struct wire_msg *m)
{
	struct outcome *o = &p->receipt->outcome;

	o->started = true;
	o->status = m->value;
	o->cpu_us = m->utime_us + m->stime_us;
	o->maxrss_kb = m->maxrss_kb;
	p->state = PROCESS_EXITED;
	/* What was told to end with it and has not ended yet is still killed: let_go() takes that back. */
	process_pump(p);
}

static void on_failed(struct process *p, const struct wire_msg *m)
{
	cleanup_buf struct buf b = BUF_INIT(8192);
	struct err e = {.kind = m->kind < ERR_NUM ? (enum err_kind)m->kind : ERR_FAILED};
	struct session *s = p->session;
	struct session_exit x;

	snprintf(e.msg, sizeof(e.msg), "%s", m->text);
	if (e.kind == ERR_REFUSED && m->errnum != EPERM)
		e.reason = ERR_WHY_NOT_EXECUTABLE; /* what exec said, not what a rule says */
	if (e.kind == ERR_NOT_FOUND && p->receipt->command.n)
		whereis_uncommitted(&e, p->receipt->command.v[0], p->receipt->cwd, s->o->name);
	x = (struct session_exit){
		.code = err_exit_code(&e), .failed = err_reason(&e), .text = e.msg};
	if (s->o->ops.dropped)
		s->o->ops.dropped(s->o->ops.arg, p->id, e.msg);
	session_exit_pack(&b, &x);
	while (p->readers) {
		caller_send(
			p->readers->caller, SESSION_EXITED, p->readers->tag, p->id, b.data, b.len);
		process_free_reader(p, &p->readers);
	}
	release_reaper(p);
	loop_cancel(&p->timeout);
	limits_end(p);
	p->receipt->exit_code = x.code;
	p->state = PROCESS_OVER;
	process_close_input(p);
	s->alive_n--;
	session_quiet(s);
}

static void on_started(struct process *p, struct wire_msg *m)
{
	struct err e = ERR_INIT;

	p->told_started = true;
	p->inside = m->value;
	limits_started(p, m);
	if (p->tty && p->master < 0 && m->fd_n == 1) {
		p->master = take_fd(&m->fd[0]);
		m->fd_n = 0;
	}
	if (p->tty && p->master >= 0) {
		p->out[0] = p->in = take_fd(&p->master);
		fcntl(p->in, F_SETFL, O_NONBLOCK);
		view_open(p, p->rows, p->cols);
		if (process_watch_output(p, &e) < 0)
			process_end(p, PROCESS_GRACE_MS);
		process_push_input(p);
	}
	for (struct reader *r = p->readers; r; r = r->next)
		caller_send(r->caller, SESSION_STARTED, r->tag, p->id, p->receipt->id,
			strlen(p->receipt->id) + 1);
	/* Whoever started a detached one has what it wanted: a number. */
	for (struct reader **at = &p->readers; *at;) {
		if ((*at)->starter && p->detached)
			process_free_reader(p, at);
		else
			at = &(*at)->next;
	}
	process_pump(p);
}

void process_message(struct process *p, struct wire_msg *m)
{
	if (m->id != p->id)
		return;
	switch (m->type) {
	case WIRE_STARTED:
		if (!p->told_started)
			on_started(p, m);
		break;
	case WIRE_FAILED:
		if (!p->told_started)
			on_failed(p, m);
		break;
	case WIRE_EXIT:
		if (p->state == PROCESS_RUNNING)
			on_main_exit(p, m);
		break;
	case WIRE_EMPTY:
		release_reaper(p);
		if (p->state == PROCESS_EXITED)
			process_pump(p);
		over(p);
		break;
	default:
		break;
	}
}

void process_lost(struct process *p)
{
	p->reaper = NULL;
	if (p->state == PROCESS_RUNNING) {
		struct wire_msg m = {.value = SIGKILL};

		on_main_exit(p, &m);
	} else if (p->state == PROCESS_EXITED) {
		process_pump(p);
	}
	over(p);
}

void process_finish(struct process *p)
{
	process_lost(p);
	if (p->state == PROCESS_EXITED)
		answer(p);
	over(p);
}

void process_signal(struct process *p, int sig, enum wire_scope scope)
{
	struct wire_msg m = {
		.type = WIRE_SIGNAL, .id = p->id, .value = sig, .scope = scope, .fd = {-1, -1, -1}};

	if (p->reaper)
		wire_send(p->reaper->sock, &m);
}
