/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a sandbox that stays up, and its loop: see serve.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/init/init.h"
#include "os/clock.h"
#include "os/proctree.h"
#include "os/text_pages.h"
#include "session/run/receipt_data.h"
#include "session/run/settle.h"
#include "session/run/supervise.h"
#include "session/serve/session_impl.h"

#define LOOK_SHARE 20 /* looking at trees takes no more than one part in so many of the time */
#define CALLERS_AGAIN_MS 100 /* until a descriptor may be free */
#define REST_MS 1000 /* after the last command */

enum { AT_CONTROL, AT_SIGNAL, AT_LOOP, AT_OWNER, AT_WATCH };

static void signal_init(struct session *s, int sig)
{
	struct sandbox *b = &s->boundary.sandbox;

	if (b->pidfd < 0 || syscall(SYS_pidfd_send_signal, b->pidfd, sig, NULL, 0) < 0)
		kill(b->pid, sig);
}

static int fail(struct session *s, int r)
{
	if (r < 0 && s->rc == 0)
		s->rc = r;
	s->over = s->over || r < 0;
	return r;
}

/* ---- what others of it ask ---- */

bool session_quiescent(const struct session *s)
{
	return s->alive_n == 0;
}

/* Those that have ended are kept for a while, for who wants their output. */
static void forget_old(struct session *s)
{
	size_t kept = 0, bytes = 0;

	for (struct process **at = &s->processes; *at;) {
		struct process *p = *at;

		if (p->state == PROCESS_OVER && !p->readers &&
			(kept >= SESSION_KEPT_MAX || bytes > SESSION_KEPT_LOGS_B)) {
			*at = p->next;
			process_free(p);
			continue;
		}
		if (p->state == PROCESS_OVER && !p->readers)
			process_shrink(p);
		kept += p->state == PROCESS_OVER;
		bytes += p->state == PROCESS_OVER ? p->log.cost : 0;
		at = &p->next;
	}
}

static void forget_later(void *arg)
{
	forget_old(arg);
}

/* Nothing runs: be small until something does. */
static void on_rest(void *arg)
{
	struct session *s = arg;

	if (s->alive_n || s->over)
		return;
	pool_rest(s);
	text_pages_give_back();
}

void session_quiet(struct session *s)
{
	if (s->alive_n || s->users_n)
		s->quiet_since_ms = 0;
	else if (!s->quiet_since_ms)
		s->quiet_since_ms = clock_ms();
	loop_later(s->loop, forget_later, s);
	if (s->alive_n == 0)
		loop_timer(s->loop, &s->rest, REST_MS, on_rest, s);
}

void session_used(struct session *s)
{
	s->watch_idle_ms = clock_ms();
	if (s->idle_paused)
		session_pause(s, false);
}

void session_stop(struct session *s, uint64_t grace_ms)
{
	uint64_t at = clock_ms() + grace_ms;

	if (s->stopping) {
		s->stop_at_ms = MIN_OF(s->stop_at_ms, at);
		return;
	}
	s->stopping = true;
	s->stop_at_ms = at;
	if (s->paused || s->pausing)
		session_pause(s, false);
	for (struct process *p = s->processes; p; p = p->next)
		process_end(p, UINT64_MAX); /* at stop_at_ms the sandbox ends, whoever is left in it */
}

/* ---- getting up ---- */

static void listen_again(void *arg)
{
	struct session *s = arg;

	loop_change(&s->listener, EPOLLIN);
}

/* Without a free descriptor a caller could not be taken, and would be announced again and again. */
static void on_listener(void *arg, uint32_t events)
{
	struct session *s = arg;
	cleanup_fd int spare = eventfd(0, EFD_CLOEXEC);

	if (spare < 0) {
		if (loop_timer(s->loop, &s->callers_again, CALLERS_AGAIN_MS, listen_again, s) == 0)
			loop_change(&s->listener, 0);
		return;
	}
	close_fd(&spare);
	caller_accept(s);
}

/* Somebody removed the state directory: nobody could end this session any more. */
static void on_reach(void *arg)
{
	struct session *s = arg;

	if (s->o->ops.unreachable(s->o->ops.arg))
		session_stop(s, SESSION_STOP_MS);
	else
		loop_timer(s->loop, &s->reach, SESSION_REACH_MS, on_reach, s);
}

static void attribute(void *arg, const struct notice *n)
{
	process_denied(arg, n);
}

/* What every command's receipt will say of the boundary. */
static void describe(struct session *s)
{
	struct boundary *b = &s->boundary;
	struct receipt *r = s->receipt;

	r->tier = b->engine->name;
	r->enforced = b->sandbox.enforced;
	r->limits = b->q->policy->limits;
	r->observe = b->q->policy->observe;
	r->outcome = s->outcome;
	boundary_note(b);
	plan_seal(&b->plan);
	receipt_seal(r, &b->plan);
	receipt_hide(r);
	s->hidden = &r->hidden;
	s->told_degradations = r->degradations.n;
	s->told_notes = r->network.notes.n;
}

/*
 * Nothing runs now: is there something that the host will execute? Not only at the end, which may be days
 * away. What was found is told then.
 */
static uint64_t look_due_ms(const struct session *s)
{
	return s->look && s->alive_n == 0 ? s->look_at_ms : UINT64_MAX;
}

static void look_meanwhile(struct session *s, uint64_t now)
{
	if (now < look_due_ms(s))
		return;
	boundary_look_after(&s->boundary);
	s->look = false;
	s->look_none = !s->receipt->planted.looked; /* no tree is written in place */
	s->look_at_ms = clock_ms() + LOOK_SHARE * (clock_ms() - now);
}

void session_note_network(const struct session *s, struct receipt *r)
{
	const struct strlist *notes = &s->receipt->network.notes;

	for (size_t i = s->told_notes; i < notes->n; i++)
		receipt_degrade(r, "%s", notes->v[i]);
}

/* Nothing runs any more: what did it leave that the host will execute, and what else must be told? */
static void look_after(struct session *s)
{
	struct receipt *r = s->receipt;

	boundary_look_for_sockets(&s->boundary);
	session_note_network(s, r);
	boundary_look_after(&s->boundary);
	planted_text(&r->planted, &s->left, true);
	for (size_t i = s->told_degradations; i < r->degradations.n; i++)
		buf_addf(&s->left, "  less    %s\n", r->degradations.v[i]);
	r->left_from = s->told_degradations;
}

static int on_started(struct session *s)
{
	const struct session_ops *ops = &s->o->ops;
	int r;

	describe(s);
	if (s->receipt->hidden_unknown)
		return err_set(s->e, EIO, "find out what must be hidden in records");
	if (ops->up && (r = ops->up(ops->arg, s->receipt, s->e)) < 0)
		return r;
	port_take_published(s);
	pause_init(s);
	if (pool_fill(s, 1) < 0 ||
		loop_watch(s->loop, &s->listener, s->o->listener, EPOLLIN, on_listener, s) < 0)
		return err_set(s->e, ENOMEM, "serve callers");
	if (ops->unreachable)
		loop_timer(s->loop, &s->reach, SESSION_REACH_MS, on_reach, s);
	s->up = true;
	session_quiet(s);
	if (s->o->holder >= 0 && caller_adopt(s, s->o->holder) < 0)
		return err_set(s->e, ENOMEM, "serve callers");
	return 0;
}

/* ---- what watchers are told of the whole sandbox ---- */

static void tell_ask(struct session *s, const struct network_ask *a)
{
	cleanup_buf struct buf b = BUF_INIT(SESSION_TEXT_MAX), id = BUF_INIT(128);

	buf_addf(&id, "%s.%llu", s->receipt->network.run_id, (unsigned long long)a->id);
	pack_str(&b, buf_str(&id));
	pack_u32(&b, a->port);
	pack_str(&b, a->host);
	pack_str(&b, a->method);
	pack_str(&b, a->path);
	caller_tell(s, SESSION_WATCH_ASKED, SESSION_ASKED, 0, &b);
}

static void tell_network(struct session *s)
{
	const struct network *n = &s->receipt->network;

	for (size_t i = 0; i < n->asks_n; i++)
		if (n->asks[i].id > s->told_ask) {
			s->told_ask = n->asks[i].id;
			tell_ask(s, &n->asks[i]);
		}
	for (; s->told_hosts < n->denials_n; s->told_hosts++) {
		cleanup_buf struct buf b = BUF_INIT(SESSION_TEXT_MAX);

		receipt_pack_network_denial(&n->denials[s->told_hosts], s->hidden, &b);
		caller_tell(s, SESSION_WATCH_DENIED, SESSION_DENIED, 0, &b);
	}
}

static void tell_recorded(struct session *s)
{
	const struct session_ops *ops = &s->o->ops;
	cleanup_buf struct buf b = BUF_INIT(256);
	char tree[SESSION_TREE_MAX] = "";
	uint64_t event = ops->recorded ? ops->recorded(ops->arg, tree) : 0;

	if (event == s->told_event)
		return;
	s->told_event = event;
	pack_u64(&b, event);
	pack_str(&b, tree);
	caller_tell(s, SESSION_WATCH_CHANGED, SESSION_CHANGED, 0, &b);
}

static int on_ready(struct session *s)
{
	int r = watch_ready(&s->watch, s->e);

	s->outcome.unwatched = s->watch.guard.unwatched;
	planted_settle(&s->boundary.planted);
	clock_gettime(CLOCK_REALTIME_COARSE, &s->boundary.go);
	if (r == 0)
		r = sandbox_go(&s->boundary.sandbox, &s->boundary.cgroup, s->e);
	if (r < 0)
		return r;
	s->go = true;
	watch_go(&s->watch, false);
	return 0;
}

static int on_failed(struct session *s, const struct control_msg *m)
{
	struct err *e = s->e;

	e->kind = m->err_kind < ERR_NUM && m->err_kind ? (enum err_kind)m->err_kind : ERR_FAILED;
	e->boundary = m->err_boundary != 0;
	e->errnum = m->errnum > 0 ? m->errnum : EIO;
	memcpy(e->msg, m->msg, sizeof(e->msg));
	return -e->errnum;
}

/* Before it is up the first process speaks as that of a single command does. */
static int on_set_up(struct session *s)
{
	struct control_msg m;
	int r = control_receive(&s->boundary.sandbox, &m);

	if (r == -EAGAIN)
		return 0;
	if (r <= 0)
		return err_set(s->e, r < 0 ? -r : ECHILD, "the sandbox ended during set-up");
	switch (m.type) {
	case CONTROL_READY:
		return s->go ? err_set(s->e, EPROTO, "the sandbox reported twice") : on_ready(s);
	case CONTROL_ASK_TRUST:
		return s->go ? 0
			     : network_trust_send(&s->receipt->network,
				       s->boundary.sandbox.control, s->e);
	case CONTROL_STARTED:
		return s->go ? on_started(s) : 0;
	case CONTROL_FAILED:
		return on_failed(s, &m);
	default:
		return 0;
	}
}

/* ---- the loop ---- */

/* The end of the first process is the end of the sandbox. */
static void on_message(struct session *s)
{
	struct wire_msg m;
	int n = wire_receive(s->boundary.sandbox.control, s->room, &m);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		s->outcome.lost = !s->stopping;
		s->over = true;
		return;
	}
	switch (m.type) {
	case WIRE_ADDED:
		pool_added(s, m.id, m.value);
		break;
	case WIRE_CONNECTED:
		port_connected(s, m.id, m.value, &m.fd[0]);
		break;
	case WIRE_FROZEN:
		if (m.value == WIRE_CANNOT_STAND)
			pause_failed(s);
		else
			pause_changed(s, m.value == WIRE_STANDS);
		break;
	default: /* LOST: its socket tells the same */
		break;
	}
	for (unsigned i = 0; i < m.fd_n; i++)
		close_fd(&m.fd[i]);
}

bool session_intact(struct session *s)
{
	const char *path = s->outcome.replaced[0] ? NULL : guard_broken(&s->watch.guard);

	if (path) {
		snprintf(s->outcome.replaced, sizeof(s->outcome.replaced), "%s", path);
		signal_init(s, SIGKILL);
	}
	return !s->outcome.replaced[0];
}

static void on_signal(struct session *s)
{
	struct signalfd_siginfo si;
	siginfo_t child = {0};

	while (read(s->signals->fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT || si.ssi_signo == SIGQUIT)
			session_stop(s, SESSION_STOP_MS);
		if (si.ssi_signo != SIGCHLD)
			continue;
		/* The first process never stops by itself: who stops it wants to go on unwatched. */
		if (waitid(P_PID, (id_t)s->boundary.sandbox.pid, &child, WSTOPPED | WNOHANG | WNOWAIT) ==
				0 &&
			child.si_pid && child.si_code == CLD_STOPPED)
			signal_init(s, SIGKILL);
	}
}

static uint64_t after(uint64_t from, uint64_t ms)
{
	return from && ms != UINT64_MAX ? from + ms : UINT64_MAX;
}

static uint64_t due_ms(const struct session *s)
{
	const struct session_options *o = s->o;
	uint64_t at = s->stopping ? s->stop_at_ms : UINT64_MAX;

	if (s->up && !s->stopping) {
		at = MIN_OF(after(s->quiet_since_ms, o->linger_ms), after(s->started_ms, o->lifetime_ms));
		if (!s->paused && !s->pausing && s->alive_n && !s->users_n)
			at = MIN_OF(at, after(s->watch_idle_ms, o->idle_ms));
	}
	if (s->up && !s->stopping)
		at = MIN_OF(at, look_due_ms(s));
	if (s->up && o->ops.due_ms)
		at = MIN_OF(at, o->ops.due_ms(o->ops.arg));
	return at;
}

static void do_due(struct session *s)
{
	const struct session_options *o = s->o;
	uint64_t now = clock_ms();

	if (!s->up)
		return;
	if (o->ops.poll)
		o->ops.poll(o->ops.arg, session_quiescent(s));
	tell_recorded(s);
	tell_network(s);
	if (!s->stopping)
		look_meanwhile(s, now);
	s->watch_idle_ms = s->users_n ? now : s->watch_idle_ms;
	if (s->stopping) {
		s->over = s->over || s->alive_n == 0 || now >= s->stop_at_ms;
	} else if (now >= after(s->quiet_since_ms, o->linger_ms) ||
		   now >= after(s->started_ms, o->lifetime_ms)) {
		session_stop(s, SESSION_STOP_MS);
	} else if (s->alive_n && !s->users_n && !s->paused && !s->pausing &&
		   now >= after(s->watch_idle_ms, o->idle_ms)) {
		s->idle_paused = true;
		session_pause(s, true);
	}
	if (!s->over && diskwatch_look(&s->boundary.disk, now)) {
		s->outcome.disk_full = true;
		for (struct process *p = s->processes; p; p = p->next) {
			if (p->state <= PROCESS_EXITED &&
				!strlist_has(&p->receipt->limits_hit, "disk"))
				strlist_add(&p->receipt->limits_hit, "disk");
			process_signal(p, SIGKILL, WIRE_TO_ALL);
		}
	}
}

static int sooner(int a, int b)
{
	return a < 0 ? b : b < 0 ? a : MIN_OF(a, b);
}

static int wait_ms(const struct session *s)
{
	uint64_t at = due_ms(s), now = clock_ms();
	int ms = at == UINT64_MAX ? -1 : at <= now ? 0 : (int)MIN_OF(at - now, 1u << 30);

	return sooner(sooner(ms, loop_wait_ms(s->loop)), diskwatch_wait_ms(&s->boundary.disk, now));
}

static void turn(struct session *s)
{
	const struct session_ops *ops = &s->o->ops;
	struct sandbox *b = &s->boundary.sandbox;
	struct pollfd p[AT_WATCH + WATCH_FDS_MAX] = {
		[AT_CONTROL] = {.fd = b->control, .events = POLLIN},
		[AT_SIGNAL] = {.fd = s->signals->fd, .events = POLLIN},
		[AT_LOOP] = {.fd = loop_fd(s->loop), .events = POLLIN},
		[AT_OWNER] = {.fd = s->up && ops->fd ? ops->fd(ops->arg) : -1, .events = POLLIN}};
	int n = watch_fds(&s->watch, p + AT_WATCH);

	if (poll(p, (nfds_t)(AT_WATCH + n), wait_ms(s)) < 0 && errno != EINTR)
		return;
	/* Watchers first: what a command did is known before it is known to have ended. */
	if (watch_handle(&s->watch, p + AT_WATCH))
		session_intact(s);
	if (p[AT_SIGNAL].revents)
		on_signal(s);
	if (p[AT_CONTROL].revents && !s->up)
		fail(s, on_set_up(s));
	else if (p[AT_CONTROL].revents)
		on_message(s);
	if (loop_turn(s->loop) < 0)
		fail(s, err_set(s->e, EIO, "wait for callers"));
	do_due(s);
}

/* Nothing of the sandbox survives this; its commands get their receipts. */
static void end_sandbox(struct session *s)
{
	struct boundary *b = &s->boundary;
	bool own_pids = b->engine->can & ENGINE_OWN_PIDS;
	int status;

	if (b->sandbox.pid == 0)
		return;
	signal_init(s, SIGKILL);
	close_fd(&b->sandbox.control);
	network_finish(&s->receipt->network);
	while (waitpid(b->sandbox.pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!own_pids) {
		cgroup_kill(&b->cgroup);
		proctree_kill(b->others, b->others_n);
		prctl(PR_SET_CHILD_SUBREAPER, 0);
	}
	watch_end(&s->watch);
	session_intact(s); /* the last look */
	for (struct process *p = s->processes; p; p = p->next)
		if (p->state != PROCESS_OVER)
			process_finish(p);
	if (s->up)
		look_after(s);
}

static int get_up(struct session *s)
{
	const char *scratch[BOUNDARY_SCRATCH_MAX];
	struct boundary *b = &s->boundary;
	int r = boundary_plan(b, s->e);

	if (r == 0)
		r = boundary_start(b, s->e);
	if (r < 0 && b->sandbox.pid == 0)
		return r;
	boundary_scratch(b, scratch);
	s->watch = (struct watchers){.sandbox = &b->sandbox,
		.plan = &b->plan,
		.network = &s->receipt->network,
		.record = &s->receipt->record,
		.workspace = b->q->workspace,
		.scratch = scratch,
		.pid_namespace = b->engine->can & ENGINE_OWN_PIDS};
	s->receipt->record.tap = attribute;
	s->receipt->record.tap_arg = s;
	watch_init(&s->watch);
	fail(s, r);
	if (r == 0)
		boundary_look_before(b);
	s->loop = loop_new(s->e);
	if (!s->loop)
		fail(s, -ENOMEM);
	s->started_ms = s->watch_idle_ms = clock_ms();
	while (!s->over)
		turn(s);
	end_sandbox(s);
	s->receipt->outcome.lost = s->outcome.lost; /* for its owner's record */
	if (s->loop) {
		loop_unwatch(&s->listener);
		loop_cancel(&s->callers_again);
		loop_cancel(&s->reach);
		port_done(s);
		pool_done(s);
		pause_done(s);
	}
	watch_done(&s->watch);
	return s->rc;
}

static void done(struct session *s)
{
	while (s->processes) {
		struct process *p = s->processes;

		s->processes = p->next;
		process_free(p);
	}
	limits_done(s);
	if (s->loop)
		caller_close_all(s);
	loop_free(s->loop);
	buf_done(&s->left);
	boundary_done(&s->boundary);
}

int session_serve(struct receipt *r, const struct session_options *o, struct err *e)
{
	struct run_request settled = *o->q, *q = &settled;
	const struct engine *engines[ENGINES_MAX];
	struct signals sig = SIGNALS_INIT;
	bool hold = false;
	int n, rc = run_check(q, e);

	if (rc < 0 || (rc = settle(&r->policy, &hold, o->q, e)) < 0)
		return rc;
	settled.policy = &r->policy;
	if ((rc = run_begin_receipt(r, q, e)) < 0 || (rc = boundary_check(q, r, e)) < 0 ||
		(rc = n = boundary_engines(q, engines, e)) < 0 || (rc = signals_take(&sig, e)) < 0)
		return rc;
	for (int i = 0; i < n; i++) {
		struct session *s = calloc(1, sizeof(*s));

		if (!s) {
			rc = err_set(e, ENOMEM, "start a session");
			break;
		}
		*e = ERR_INIT;
		s->o = o;
		s->left = BUF_INIT(SESSION_TEXT_MAX);
		s->receipt = r;
		s->signals = &sig;
		s->e = e;
		s->freezer = FREEZER_INIT;
		boundary_init(&s->boundary, q, engines[i], r);
		s->boundary.hold = hold;
		rc = get_up(s);
		done(s);
		free(s);
		if (rc == 0 || e->kind != ERR_REFUSED || !e->boundary || i + 1 == n)
			break;
		strlist_done(&r->degradations);
		receipt_degrade(r, "fell back to the %s tier: %s", engines[i + 1]->name, e->msg);
		r->fell_back = true;
	}
	sig.ended_by = 0; /* asked to end, and has ended */
	signals_release(&sig);
	return rc;
}
