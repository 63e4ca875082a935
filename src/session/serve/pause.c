/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping every command of a session, and letting them go on.
 *
 * Purpose: by the cgroup v2 freezer (os/freezer.h) where the sandbox is in such a group; else the first
 *          process does it by signals (engine/init/init_session.c). Neither stops it, its broker or reapers.
 * Order:   asked -> the kernel or the first process tells that all have stopped -> whoever asked is told.
 * Failure: what the kernel cannot freeze in time (a process that waits in it for a dead disk) goes on, as
 *          do all others, and whoever asked is told so.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "os/clock.h"
#include "session/serve/session_impl.h"

#define FREEZE_LATE_MS 5000
#define AGAIN_MS 20

static bool by_freezer(const struct session *s)
{
	return s->freezer.dir_fd >= 0;
}

const char *pause_means(const struct session *s)
{
	return by_freezer(s) ? "cgroup freezer" : "signals";
}

void pause_init(struct session *s)
{
	freezer_open(&s->freezer, &s->boundary.cgroup);
}

void pause_done(struct session *s)
{
	loop_unwatch(&s->frozen_watch);
	loop_cancel(&s->frozen_late);
	loop_cancel(&s->freeze_again);
	freezer_close(&s->freezer);
}

void pause_without_groups(struct session *s)
{
	if (by_freezer(s))
		freezer_set(&s->freezer, false);
	pause_done(s);
}

void pause_changed(struct session *s, bool on)
{
	loop_unwatch(&s->frozen_watch);
	loop_cancel(&s->frozen_late);
	s->paused = on;
	s->pausing = s->resuming = false;
	for (struct caller *c = s->callers; c; c = c->next)
		if (c->waits_frozen && c->frozen_on == on) {
			c->waits_frozen = false;
			caller_send(c, SESSION_OK, c->frozen_tag, 0, NULL, 0);
		}
}

static void on_frozen(void *arg, uint32_t events)
{
	struct session *s = arg;

	if (freezer_is(&s->freezer))
		pause_changed(s, true);
}

void pause_failed(struct session *s)
{
	struct err e = ERR_INIT;

	err_set(&e, ETIMEDOUT, "a process in %s cannot be stopped now; nothing is paused", s->o->name);
	for (struct caller *c = s->callers; c; c = c->next)
		if (c->waits_frozen && c->frozen_on) {
			c->waits_frozen = false;
			caller_error(c, c->frozen_tag, 0, &e);
		}
	s->idle_paused = false;
	s->watch_idle_ms = clock_ms();
	pause_changed(s, false);
}

static void on_late(void *arg)
{
	struct session *s = arg;

	freezer_set(&s->freezer, false);
	pause_failed(s);
}

static int freeze(struct session *s, bool on)
{
	int r = freezer_set(&s->freezer, on);

	if (r < 0)
		return r;
	if (!on) {
		pause_changed(s, false);
		return 0;
	}
	if (!s->frozen_watch.loop)
		r = loop_watch(s->loop, &s->frozen_watch, freezer_fd(&s->freezer), EPOLLPRI, on_frozen, s);
	if (r == 0)
		r = loop_timer(s->loop, &s->frozen_late, FREEZE_LATE_MS, on_late, s);
	if (r == 0)
		on_frozen(s, 0);
	return r;
}

/* The first process is asked to; while its socket is full it is asked again. */
static void ask_first_process(void *arg)
{
	struct session *s = arg;
	struct wire_msg m = {.type = WIRE_FREEZE, .value = !s->resuming, .fd = {-1, -1, -1}};
	int r = wire_send(s->boundary.sandbox.control, &m);

	if (r == -EAGAIN)
		r = loop_timer(s->loop, &s->freeze_again, AGAIN_MS, ask_first_process, s);
	if (r < 0)
		s->over = true;
}

void session_pause(struct session *s, bool on)
{
	s->pausing = true;
	s->resuming = !on;
	if (!on)
		s->idle_paused = false;
	if (by_freezer(s) && freeze(s, on) == 0)
		return;
	if (by_freezer(s) && !s->paused)
		pause_without_groups(s);
	ask_first_process(s);
}
