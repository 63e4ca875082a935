/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reapers that wait for a command, so that none has to be forked on its way: engine/init/reaper.h.
 *
 * One is idle all the time; a burst leaves some more, which are let go when they are not needed.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/serve/session_impl.h"

#define POOL_IDLE_MAX 4

static void unlink_reaper(struct reaper **list, const struct reaper *r)
{
	while (*list && *list != r)
		list = &(*list)->next;
	if (*list)
		*list = r->next;
}

static void free_reaper(void *arg)
{
	free(arg);
}

/* Its socket closes, and with it goes whatever it still has below it. */
void pool_drop(struct reaper *r)
{
	struct session *s = r->session;

	loop_unwatch(&r->watch);
	close_fd(&r->sock);
	if (r->grouped && s->freezer.dir_fd >= 0)
		freezer_remove(&s->freezer, r->id); /* a lost one's may still hold something */
	if (r->process) {
		unlink_reaper(&s->busy, r);
	} else {
		unlink_reaper(&s->idle, r);
		s->idle_n--;
	}
	loop_later(s->loop, free_reaper, r);
}

static void on_ready(void *arg, uint32_t events)
{
	struct reaper *r = arg;
	struct session *s = r->session;
	struct process *p = r->process;
	struct wire_msg m;
	int n = wire_receive(r->sock, s->room, &m);

	if (n == -EAGAIN)
		return;
	if (n == 1 && p) {
		process_message(p, &m); /* may give the reaper back */
		for (unsigned i = 0; i < m.fd_n; i++)
			close_fd(&m.fd[i]);
		return;
	}
	for (unsigned i = 0; n == 1 && i < m.fd_n; i++)
		close_fd(&m.fd[i]);
	if (n == 1)
		return;
	pool_drop(r);
	if (p)
		process_lost(p);
}

/* The group of a reaper's commands; without one for each there is no freezer. -1: it has none. */
static int add_group(struct session *s, struct reaper *r)
{
	int fd = s->freezer.dir_fd < 0 ? -1 : freezer_add(&s->freezer, r->id);

	if (fd < 0 && s->freezer.dir_fd >= 0)
		pause_without_groups(s);
	r->grouped = fd >= 0;
	return MAX_OF(fd, -1);
}

static int add(struct session *s)
{
	struct wire_msg m = {.type = WIRE_ADD, .id = ++s->next_reaper, .fd_n = 1, .fd = {-1, -1, -1}};
	struct reaper *r = calloc(1, sizeof(*r));
	int sv[2], group, rc;

	if (!r)
		return -ENOMEM;
	if (s->freezer.dir_fd >= 0 && (s->paused || s->pausing)) {
		free(r); /* what is stopped by the freezer stays so, whatever groups can be made */
		return -EAGAIN;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0) {
		free(r);
		return -errno;
	}
	m.fd[0] = sv[1];
	*r = (struct reaper){.session = s, .id = m.id, .sock = sv[0]};
	group = m.fd[1] = add_group(s, r);
	m.fd_n += group >= 0;
	rc = wire_send(s->boundary.sandbox.control, &m);
	close(sv[1]);
	close_fd(&group);
	if (rc == 0)
		rc = loop_watch(s->loop, &r->watch, r->sock, EPOLLIN, on_ready, r);
	if (rc < 0) {
		close(sv[0]);
		free(r);
		return rc;
	}
	r->next = s->idle;
	s->idle = r;
	s->idle_n++;
	return 0;
}

int pool_fill(struct session *s, size_t want)
{
	int r = 0;

	while (r == 0 && s->idle_n < want)
		r = add(s);
	return r;
}

static void fill_later(void *arg)
{
	struct session *s = arg;

	if (!s->over)
		pool_fill(s, 1);
}

struct reaper *pool_take(struct session *s)
{
	struct reaper *r;

	if (pool_fill(s, 1) < 0)
		return NULL;
	r = s->idle;
	s->idle = r->next;
	s->idle_n--;
	r->next = s->busy;
	s->busy = r;
	if (!s->idle_n)
		loop_later(s->loop, fill_later, s); /* when the command is on its way */
	return r;
}

void pool_give_back(struct reaper *r)
{
	struct session *s = r->session;

	unlink_reaper(&s->busy, r);
	r->process = NULL;
	r->next = s->idle;
	s->idle = r;
	s->idle_n++;
	if (s->idle_n > POOL_IDLE_MAX)
		pool_drop(r);
}

void pool_added(struct session *s, uint32_t id, pid_t inside)
{
	for (struct reaper *r = s->idle; r; r = r->next)
		if (r->id == id)
			r->inside = inside;
	for (struct reaper *r = s->busy; r; r = r->next)
		if (r->id == id)
			r->inside = inside;
}

struct process *pool_process_inside(struct session *s, pid_t reaper_inside)
{
	for (struct reaper *r = s->busy; r; r = r->next)
		if (r->inside == reaper_inside)
			return r->process;
	return NULL;
}

void pool_rest(struct session *s)
{
	while (s->idle_n > 1)
		pool_drop(s->idle);
}

void pool_done(struct session *s)
{
	while (s->idle)
		pool_drop(s->idle);
	while (s->busy)
		pool_drop(s->busy);
}
