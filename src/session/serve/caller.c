/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks a session for something: see ipc/session_link.h for what can be said.
 *
 * A caller is read only while the input that it sends has somewhere to go, and written to as it
 * reads; one that says something that is no message, or that lets SESSION_OUT_MAX wait, is cut off.
 * When it goes, the commands that only it waits for are ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "croft.h"
#include "session/serve/session_impl.h"

static void on_ready(void *arg, uint32_t events);

static void free_caller(void *arg)
{
	struct caller *c = arg;

	session_link_done(&c->link);
	free(c);
}

static void hear(void *arg)
{
	struct caller *c = arg;

	if (!c->gone)
		on_ready(c, EPOLLIN);
}

/* Whoever was not heard meanwhile is heard now. */
static void release(struct session *s)
{
	s->hold = NULL;
	if (!s->hold_was && !s->stopping)
		session_pause(s, false);
	for (struct caller *c = s->callers; c; c = c->next)
		loop_later(s->loop, hear, c);
}

static void cut_off(struct caller *c)
{
	struct session *s = c->session;
	struct caller **at = &s->callers;
	struct err ignored = ERR_INIT;

	if (c->gone)
		return;
	c->gone = true;
	loop_unwatch(&c->watch);
	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	s->callers_n--;
	s->users_n -= c->user;
	if (s->hold == c)
		release(s);
	if (c->settles) {
		s->settling = false;
		if (s->o->ops.lend)
			s->o->ops.lend(s->o->ops.arg, false, session_quiescent(s), &ignored);
	}
	for (struct process *p = s->processes; p; p = p->next)
		process_forget_caller(p, c);
	loop_later(s->loop, free_caller, c);
	if (c->holder && s->o->held && !s->over)
		session_stop(s, SESSION_STOP_MS);
	session_quiet(s);
}

static void flush_later(void *arg)
{
	struct caller *c = arg;

	if (c->gone)
		return;
	if (c->link.out.failed || session_link_flush(&c->link) < 0) {
		cut_off(c);
		return;
	}
	loop_change(&c->watch,
		EPOLLIN | (session_link_pending(&c->link) || c->starved ? (uint32_t)EPOLLOUT : 0));
}

void caller_wake(struct caller *c)
{
	if (!c->gone)
		loop_change(&c->watch, EPOLLIN | EPOLLOUT);
}

void caller_send(struct caller *c, enum session_type type, uint32_t tag, uint32_t process,
	const void *body, size_t n)
{
	if (c->gone)
		return;
	session_link_put(&c->link, type, tag, process, body, n);
	/* Nobody is cut off in the middle of what is said: when this turn's callbacks are over. */
	loop_change(&c->watch, c->watch.events | EPOLLOUT);
}

void caller_error(struct caller *c, uint32_t tag, uint32_t process, const struct err *e)
{
	session_link_error(&c->link, tag, process, e);
	loop_change(&c->watch, c->watch.events | EPOLLOUT);
}

static void ok(struct caller *c, const struct session_frame *f)
{
	caller_send(c, SESSION_OK, f->tag, f->process, NULL, 0);
}

static void say_text(struct caller *c, const struct session_frame *f, const char *text)
{
	cleanup_buf struct buf b = BUF_INIT(SESSION_BODY_MAX);

	pack_str(&b, text);
	caller_send(c, SESSION_TEXT, f->tag, f->process, b.data, b.len);
}

/* ---- requests ---- */

static int on_hello(struct caller *c, const struct session_frame *f, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t protocol = unpack_u32(&u);
	const char *version = unpack_str(&u, 64);

	if (!unpack_good(&u) || protocol != SESSION_PROTOCOL || strcmp(version, CROFT_VERSION) != 0)
		return err_why(e, ERR_WHY_OTHER_VERSION,
			err_refuse(e,
				"%s is up on croft %s, and this is croft %.64s; end it with the one that "
				"started it, or with: kill %d",
				c->session->o->name, CROFT_VERSION, version, (int)getpid()));
	c->greeted = true;
	pack_str(&b, c->session->o->name);
	caller_send(c, SESSION_OK, f->tag, 0, b.data, b.len);
	return 0;
}

static int on_exec(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct session_exec x;

	if (session_exec_unpack(&x, f->body, f->n) < 0)
		return err_invalid(e, "the command line is not one that can be run");
	process_start(c->session, c, f->tag, &x, e);
	session_exec_done(&x);
	return e->kind ? -e->errnum : 0;
}

static struct process *find(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct process *p = process_find(c->session, f->process);

	if (!p)
		err_invalid(e, "%s has no process %u; croft ps %s lists them", c->session->o->name,
			f->process, c->session->o->name);
	if (!p)
		e->reason = ERR_WHY_NO_PROCESS;
	return p;
}

static int on_signal(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t sig = unpack_u32(&u), scope = unpack_u32(&u);
	struct process *p = find(c, f, e);

	if (!p)
		return -e->errnum;
	if (!unpack_good(&u) || sig == 0 || sig > 64 || scope >= WIRE_SCOPE_NUM)
		return err_invalid(e, "there is no signal %u", sig);
	if (p->state == PROCESS_OVER)
		return err_why(e, ERR_WHY_NO_PROCESS, err_invalid(e, "process %u has ended", p->id));
	process_signal(p, (int)sig, (enum wire_scope)scope);
	ok(c, f);
	return 0;
}

static int on_resize(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t rows = unpack_u32(&u), cols = unpack_u32(&u);
	struct process *p = process_find(c->session, f->process);

	if (p && unpack_good(&u))
		process_resize(p, rows, cols);
	return 0;
}

static void on_unread(struct caller *c, const struct session_frame *f)
{
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t stream = unpack_u32(&u);
	struct process *p = process_find(c->session, f->process);

	if (p && unpack_good(&u))
		process_unread(p, c, stream);
}

static int on_read(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct unpack u = unpack_of(f->body, f->n);
	uint64_t offset = unpack_u64(&u);
	uint32_t how = unpack_u32(&u);
	struct process *p = find(c, f, e);

	if (!p)
		return -e->errnum;
	if (!unpack_good(&u) || process_read(p, c, f->tag, offset, how) < 0)
		return err_invalid(e, "process %u has written %llu bytes, no more yet", p->id,
			(unsigned long long)p->log.end);
	return 0;
}

static int on_port(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t host = unpack_u32(&u), inside = unpack_u32(&u);
	char text[32];
	uint16_t port;

	if (!unpack_good(&u) || host > UINT16_MAX || inside == 0 || inside > UINT16_MAX)
		return err_invalid(e, "a port is a number from 1 to 65535");
	if ((f->type == SESSION_PORT ? port_publish : port_withdraw)(
		    c->session, (uint16_t)host, (uint16_t)inside, &port, e) < 0)
		return -e->errnum;
	snprintf(text, sizeof(text), "%u", port);
	say_text(c, f, text);
	return 0;
}

static int on_policy(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct unpack u = unpack_of(f->body, f->n);
	const char *text = unpack_str(&u, SESSION_BODY_MAX);

	if (!unpack_good(&u))
		return err_invalid(e, "the network policy is not text");
	if (network_swap(&c->session->receipt->network, text, strlen(text), e) < 0)
		return -e->errnum;
	ok(c, f);
	return 0;
}

static void wait_frozen(struct caller *c, const struct session_frame *f, bool on)
{
	struct session *s = c->session;

	c->waits_frozen = true;
	c->frozen_on = on;
	c->frozen_tag = f->tag;
	s->idle_paused = false;
	session_pause(s, on);
}

static int on_hold(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct session *s = c->session;

	if (s->stopping)
		return err_why(e, ERR_WHY_ENDING, err_refuse(e, "%s is going down", s->o->name));
	s->hold = c;
	s->hold_was = s->paused && !s->idle_paused && !s->pausing;
	if (s->hold_was)
		ok(c, f);
	else
		wait_frozen(c, f, true);
	return 0;
}

static int on_release(struct caller *c, const struct session_frame *f, struct err *e)
{
	if (c->session->hold != c)
		return err_invalid(e, "%s is not held", c->session->o->name);
	release(c->session);
	ok(c, f);
	return 0;
}

static int on_pause(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct session *s = c->session;
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t how = unpack_u32(&u);
	bool on = how == SESSION_PAUSE_PAUSE;

	if (!unpack_good(&u) || how > SESSION_PAUSE_RELEASE)
		return err_invalid(e, "there is no such way to pause");
	if (how == SESSION_PAUSE_HOLD)
		return on_hold(c, f, e);
	if (how == SESSION_PAUSE_RELEASE)
		return on_release(c, f, e);
	if (s->paused == on && !s->pausing && !(on && s->idle_paused))
		return err_invalid(e, "%s is %s", s->o->name, on ? "paused already" : "not paused");
	wait_frozen(c, f, on);
	return 0;
}

static int on_stop(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t grace = unpack_u32(&u);

	c->waits_stop = true;
	c->stop_tag = f->tag;
	session_stop(c->session, unpack_good(&u) ? grace : SESSION_STOP_MS);
	return 0;
}

/* Whoever has the environment may have ended: what it said last, and that, is heard first. */
static void hear_settled(struct session *s)
{
	for (struct caller *c = s->callers; c; c = c->next) {
		struct pollfd p = {.fd = c->link.fd, .events = POLLRDHUP};

		if (!c->settles)
			continue;
		while (!c->gone && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP)))
			on_ready(c, EPOLLIN | EPOLLHUP);
		return; /* one at a time */
	}
}

static int on_settle(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct session *s = c->session;
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t what = unpack_u32(&u);
	bool on = what == SESSION_SETTLE_LEND;

	if (!unpack_good(&u) || what >= SESSION_SETTLE_NUM)
		return err_invalid(e, "there is no such use of what is recorded");
	if (what == SESSION_SETTLE_SEAL) {
		c->looks = true;
		if (s->o->ops.seal && s->o->ops.seal(s->o->ops.arg, session_quiescent(s), e) < 0)
			return -e->errnum;
		ok(c, f);
		return 0;
	}
	if (!on && !c->settles) { /* it has nothing; somebody else may */
		ok(c, f);
		return 0;
	}
	if (on && s->settling && !c->settles)
		hear_settled(s);
	if (on && s->settling && !c->settles)
		return err_why(e, ERR_WHY_IN_USE,
			err_refuse(e, "somebody else works on %s; try again", s->o->name));
	if (on != c->settles && s->o->ops.lend &&
		s->o->ops.lend(s->o->ops.arg, on, session_quiescent(s), e) < 0)
		return -e->errnum;
	s->settling = on;
	c->settles = on;
	ok(c, f);
	return 0;
}

static int on_watch(struct caller *c, const struct session_frame *f, struct err *e)
{
	struct unpack u = unpack_of(f->body, f->n);
	uint32_t what = unpack_u32(&u);

	if (!unpack_good(&u) || what & ~(uint32_t)SESSION_WATCH_ALL)
		return err_invalid(e, "there is nothing of this kind to watch");
	c->watches = what;
	c->watch_tag = f->tag;
	ok(c, f);
	return 0;
}

static int on_list(struct caller *c, const struct session_frame *f)
{
	cleanup_buf struct buf b = BUF_INIT(SESSION_BODY_MAX);

	list_processes(c->session, &b);
	say_text(c, f, buf_str(&b));
	return 0;
}

/* Whoever only asks what runs, however often, keeps nothing up and wakes nothing. */
static void count_user(struct caller *c)
{
	if (c->user || c->gone || !c->greeted)
		return;
	c->user = true;
	c->session->users_n++;
	session_quiet(c->session);
}

static void on_frame(struct caller *c, const struct session_frame *f)
{
	struct err e = ERR_INIT;
	struct process *p;
	int r = 0;

	if (f->type != SESSION_HELLO && f->type != SESSION_LIST && f->type != SESSION_SETTLE)
		count_user(c);

	if (!c->greeted && f->type != SESSION_HELLO) {
		cut_off(c);
		return;
	}
	switch (f->type) {
	case SESSION_HELLO:
		r = on_hello(c, f, &e);
		break;
	case SESSION_EXEC:
		r = on_exec(c, f, &e);
		break;
	case SESSION_STDIN:
		p = process_find(c->session, f->process);
		if (p)
			process_input(p, f->body, f->n);
		break;
	case SESSION_SIGNAL:
		r = on_signal(c, f, &e);
		break;
	case SESSION_RESIZE:
		r = on_resize(c, f, &e);
		break;
	case SESSION_READ:
		r = on_read(c, f, &e);
		break;
	case SESSION_LIST:
		c->looks = true;
		r = on_list(c, f);
		break;
	case SESSION_STOP:
		r = on_stop(c, f, &e);
		break;
	case SESSION_PORT:
	case SESSION_UNPORT:
		r = on_port(c, f, &e);
		break;
	case SESSION_PAUSE:
		r = on_pause(c, f, &e);
		break;
	case SESSION_POLICY:
		r = on_policy(c, f, &e);
		break;
	case SESSION_SETTLE:
		r = on_settle(c, f, &e);
		break;
	case SESSION_WATCH:
		r = on_watch(c, f, &e);
		break;
	case SESSION_UNREAD:
		on_unread(c, f);
		break;
	default: /* what a session says */
		cut_off(c);
		return;
	}
	if (r < 0)
		caller_error(c, f->tag, f->process, &e);
}

/* Has some process too much input from callers that waits? Then callers are read later. */
static bool has_room(const struct caller *c)
{
	for (const struct process *p = c->session->processes; p; p = p->next)
		if (!process_input_room(p))
			for (const struct reader *r = p->readers; r; r = r->next)
				if (r->caller == c)
					return false;
	return true;
}

/* Somebody else has everything stand still. */
static bool is_held(const struct caller *c)
{
	return c->session->hold && c->session->hold != c;
}

static void on_ready(void *arg, uint32_t events)
{
	struct caller *c = arg;
	struct session_frame f;
	int n = 1, r;

	if (events & EPOLLOUT) {
		c->starved = false;
		flush_later(c);
		for (struct process *p = c->session->processes; !c->gone && p; p = p->next)
			process_pump(p); /* there may be room again */
		if (!c->gone)
			flush_later(c);
	}
	if (c->gone || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	if (!has_room(c) || is_held(c)) {
		/* It is not read now, so this is how we learn that it is gone. */
		if (events & (EPOLLHUP | EPOLLERR)) {
			cut_off(c);
			return;
		}
		loop_change(&c->watch, c->watch.events & ~(uint32_t)EPOLLIN);
		return;
	}
	r = session_link_fill(&c->link);
	if (r <= 0 && r != -EAGAIN) {
		cut_off(c);
		return;
	}
	while (!c->gone && !is_held(c) && (n = session_link_next(&c->link, &f)) > 0)
		on_frame(c, &f);
	if (n < 0)
		cut_off(c);
	if (!c->looks)
		count_user(c);
	if (!c->gone)
		flush_later(c);
}

static bool is_ours(int fd)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 &&
	       (who.uid == geteuid() || who.uid == 0);
}

/* fd becomes the session's own, whatever happens. */
static int serve(struct session *s, int fd, bool holder)
{
	struct caller *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	*c = (struct caller){
		.session = s, .next = s->callers, .link = SESSION_LINK_INIT, .holder = holder};
	c->link.fd = fd;
	if (loop_watch(s->loop, &c->watch, fd, EPOLLIN, on_ready, c) < 0) {
		free_caller(c);
		return -ENOMEM;
	}
	s->callers = c;
	s->callers_n++;
	on_ready(c, EPOLLIN); /* most have said already what they want */
	return 0;
}

void caller_accept(struct session *s)
{
	int fd = accept4(s->o->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (!is_ours(fd) || s->callers_n >= SESSION_CALLERS_MAX)
		close(fd);
	else
		serve(s, fd, false);
}

int caller_adopt(struct session *s, int fd)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (own < 0)
		return -errno;
	if (s->o->ret_holder_waits)
		*s->o->ret_holder_waits = false; /* from now on what it is told is the session's to say */
	return serve(s, own, true);
}

void caller_tell(struct session *s, enum session_watch what, enum session_type type,
	uint32_t process, const struct buf *body)
{
	for (struct caller *c = s->callers; c; c = c->next)
		if (c->watches & what)
			caller_send(c, type, c->watch_tag, process, body->data, body->len);
}

static void say_left(struct session *s, struct caller *c)
{
	cleanup_buf struct buf b = BUF_INIT(SESSION_BODY_MAX);

	pack_str(&b, buf_str(&s->left));
	caller_send(c, SESSION_TEXT, c->stop_tag, 0, b.data, b.len);
}

/*
 * Those that wait for the end see it when their connection closes with this process: then nothing of the
 * session is left, and whatever comes next has the environment to itself.
 */
void caller_close_all(struct session *s)
{
	while (s->callers) {
		struct caller *c = s->callers;

		if (c->waits_stop && s->left.len && !s->left.failed)
			say_left(s, c);
		session_link_flush(&c->link);
		if (c->holder && s->o->ret_holder_waits)
			*s->o->ret_holder_waits = c->waits_stop && !session_link_pending(&c->link);
		if (c->waits_stop) {
			loop_unwatch(&c->watch);
			c->link.fd = -1; /* left open */
		}
		cut_off(c);
	}
}
