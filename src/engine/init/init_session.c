/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of a sandbox that stays up: see init_session.h. */
#include "engine/init/init_session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/broker/starts.h"
#include "engine/init/connecting.h"
#include "engine/init/reaper.h"
#include "engine/init/standstill.h"
#include "engine/wire/wire.h"
#include "os/clock.h"
#include "os/proctree.h"
#include "os/text_pages.h"

/* Every answer that can be owed at once: reapers added and lost, connections, a pause. */
#define UNSAID_MAX (2 * SERVE_REAPERS_MAX + CONNECTING_MAX + 64)

/* What the session is to be told when its socket has room again. */
struct unsaid {
	enum wire_type type;
	uint32_t id;
	int32_t value;
	int fd;
};

struct serve {
	struct init *in;
	int sigfd, held;
	pid_t reapers[SERVE_REAPERS_MAX]; /* 0: that place is free */
	size_t reapers_n;                 /* places up to the last reaper */
	struct standstill still;
	struct connectings connecting;
	struct unsaid *unsaid;
	size_t unsaid_n, unsaid_cap;
	char room[WIRE_PIECE_MAX + 64];
};

/* False: there is no room now. Anything else that goes wrong is the end: of everything, if we are pid 1. */
static bool say(struct serve *s, struct unsaid *u)
{
	struct wire_msg m = {.type = u->type,
		.id = u->id,
		.value = u->value,
		.fd = {u->fd, -1, -1},
		.fd_n = u->fd >= 0};
	int r = wire_send(s->in->control, &m);

	if (r == -ETOOMANYREFS && u->fd >= 0) { /* a command of the same user has so many on their way */
		m.fd_n = 0;
		m.value = ECONNREFUSED;
		r = wire_send(s->in->control, &m);
	}
	if (r == -EAGAIN)
		return false;
	if (r < 0)
		_exit(125);
	close_fd(&u->fd);
	return true;
}

static void say_rest(struct serve *s)
{
	size_t n = 0;

	while (n < s->unsaid_n && say(s, &s->unsaid[n]))
		n++;
	s->unsaid_n -= n;
	memmove(s->unsaid, s->unsaid + n, s->unsaid_n * sizeof(*s->unsaid));
}

/* The session is busy at times, and a hostile command can make much be told at once. Takes the descriptor. */
static void tell(struct serve *s, enum wire_type type, uint32_t id, int32_t value, int fd)
{
	struct unsaid u = {type, id, value, fd};
	size_t cap = MAX_OF(2 * s->unsaid_cap, (size_t)16);
	struct unsaid *more = s->unsaid;

	if (!s->unsaid_n && say(s, &u))
		return;
	if (s->unsaid_n == UNSAID_MAX)
		_exit(125);
	if (s->unsaid_n == s->unsaid_cap) {
		more = reallocarray(s->unsaid, cap, sizeof(*more));
		if (!more)
			_exit(125);
		s->unsaid = more;
		s->unsaid_cap = cap;
	}
	s->unsaid[s->unsaid_n++] = u;
}

static void connected(void *arg, uint32_t id, int error, int *fd)
{
	tell(arg, WIRE_CONNECTED, id, error, take_fd(fd));
}

static void on_add(struct serve *s, uint32_t id, int *sock, int *group)
{
	size_t at = 0;
	pid_t pid;

	while (at < s->reapers_n && s->reapers[at])
		at++;
	if (at == SERVE_REAPERS_MAX)
		return; /* the socket closes: the session is told so */
	s->in->starts_slot = at + 1;
	pid = fork();
	if (pid == 0)
		reaper_main(s->in, take_fd(sock), take_fd(group), s->held);
	if (pid < 0)
		return;
	s->reapers[at] = pid;
	s->reapers_n = MAX_OF(s->reapers_n, at + 1);
	tell(s, WIRE_ADDED, id, pid, -1);
}

static bool is_reaper(const struct serve *s, pid_t pid)
{
	for (size_t i = 0; i < s->reapers_n; i++)
		if (s->reapers[i] == pid)
			return true;
	return false;
}

/* A reaper is gone; what was below it came to us, and nobody accounts for it any more. */
static void lost(struct serve *s, pid_t pid)
{
	size_t at = 0;

	while (at < s->reapers_n && s->reapers[at] != pid)
		at++;
	if (at < s->reapers_n)
		s->reapers[at] = 0;
	while (s->reapers_n && !s->reapers[s->reapers_n - 1])
		s->reapers_n--;
	proctree_kill(s->reapers, s->reapers_n);
	starts_forget(s->in->starts, at + 1);
	tell(s, WIRE_LOST, 0, pid, -1);
}

/* A reaper never stops by itself: a command that stops its own wants to outlive its time limit. */
static void reap(struct serve *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (!is_reaper(s, pid))
			continue;
		if (WIFSTOPPED(status))
			kill(pid, SIGKILL);
		else
			lost(s, pid);
	}
}

static void on_freeze(struct serve *s, bool on)
{
	enum wire_frozen now = WIRE_GOES_ON;

	if (!on)
		standstill_end(&s->still, s->reapers, s->reapers_n);
	else if (standstill_begin(&s->still, s->reapers, s->reapers_n, s->in->control))
		now = WIRE_STANDS;
	else
		now = WIRE_CANNOT_STAND;
	tell(s, WIRE_FROZEN, 0, (int32_t)now, -1);
}

/* False when the session is gone. */
static bool on_message(struct serve *s)
{
	struct wire_msg m;
	int n = wire_receive(s->in->control, s->room, &m);

	if (n == -EAGAIN)
		return true;
	if (n <= 0)
		return false;
	switch (m.type) {
	case WIRE_ADD:
		if (m.fd_n)
			on_add(s, m.id, &m.fd[0], &m.fd[1]);
		break;
	case WIRE_CONNECT:
		connecting_start(&s->connecting, m.id, m.value, clock_ms());
		break;
	case WIRE_FREEZE:
		on_freeze(s, m.value != 0);
		break;
	default:
		break;
	}
	for (unsigned i = 0; i < m.fd_n; i++)
		close_fd(&m.fd[i]);
	return true;
}

/* What there is to wait for, and how long; with a poll() that said nothing we are at rest. */
static size_t wait_for_work(struct serve *s, struct pollfd *p, int *rest_ms)
{
	size_t n = connecting_poll(&s->connecting, p + 2);
	int ms = connecting_wait_ms(&s->connecting, clock_ms()), got;

	p[0] = (struct pollfd){.fd = s->sigfd, .events = POLLIN};
	p[1] = (struct pollfd){
		.fd = s->in->control, .events = (short)(POLLIN | (s->unsaid_n ? POLLOUT : 0))};
	got = poll(p, (nfds_t)(2 + n), ms >= 0 ? ms : *rest_ms);
	if (got < 0 && errno != EINTR)
		_exit(125);
	if (got < 0)
		for (size_t i = 0; i < 2 + n; i++)
			p[i].revents = 0;
	if (got == 0 && n == 0)
		text_pages_give_back();
	*rest_ms = got == 0 && n == 0 ? -1 : REAPER_REST_MS;
	return n;
}

_Noreturn void serve_main(struct init *in, int sigfd, int held)
{
	struct control_msg started = {.type = CONTROL_STARTED, .enforced = in->enforced};
	struct serve *s = calloc(1, sizeof(*s));
	struct pollfd p[2 + CONNECTING_MAX];
	struct signalfd_siginfo si;
	int rest_ms = REAPER_REST_MS;

	if (!s)
		_exit(125);
	s->in = in;
	s->sigfd = sigfd;
	s->held = held;
	s->connecting.done = connected;
	s->connecting.arg = s;
	control_send(in->control, &started, NULL, 0);
	for (;;) {
		size_t n = wait_for_work(s, p, &rest_ms);

		/* Of signals only the deaths matter: nobody's keys reach this process. */
		while (read(sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si))
			;
		reap(s);
		if (p[1].revents & POLLOUT)
			say_rest(s);
		connecting_handle(&s->connecting, p + 2, n, clock_ms());
		if ((p[1].revents & ~POLLOUT) && !on_message(s))
			break;
	}
	if (!in->pid_namespace)
		shield_end_tree(&in->shield);
	_exit(0);
}
