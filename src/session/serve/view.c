/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of a process's terminal, for who attaches later: a model of it is kept by croft-screen
 * (session/screen/screen.h). Without one, a change of the terminal's size makes the program redraw.
 */
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "session/serve/session_impl.h"

#define DUMP_MS 1000

struct view {
	struct process *process;
	struct screen screen;
	struct watch watch;
	struct timer timer;
	struct reader *asks; /* for whom a redraw is under way */
};

static void sync_view(struct view *v);

static void on_ready(void *arg, uint32_t events)
{
	struct view *v = arg;
	struct pollfd p[SCREEN_FDS];
	int n = screen_fds(&v->screen, p);

	for (int i = 0; i < n; i++)
		p[i].revents = (short)((events & EPOLLIN ? POLLIN : 0) |
				       (events & EPOLLOUT ? POLLOUT : 0) |
				       (events & (EPOLLHUP | EPOLLERR) ? POLLHUP : 0));
	screen_handle(&v->screen, p, n);
	sync_view(v);
}

static void on_time(void *arg)
{
	struct view *v = arg;

	screen_handle(&v->screen, NULL, 0);
	sync_view(v);
}

/* What it waits for may have changed with every call. */
static void sync_view(struct view *v)
{
	struct loop *loop = v->process->session->loop;
	struct pollfd p[SCREEN_FDS];
	int n = screen_fds(&v->screen, p), ms = screen_timeout_ms(&v->screen);
	uint32_t events = n ? (p[0].events & POLLIN ? (uint32_t)EPOLLIN : 0) |
				      (p[0].events & POLLOUT ? (uint32_t)EPOLLOUT : 0)
			    : 0;

	if (!n)
		loop_unwatch(&v->watch);
	else if (!v->watch.loop)
		loop_watch(loop, &v->watch, p[0].fd, events, on_ready, v);
	else
		loop_change(&v->watch, events);
	if (ms >= 0)
		loop_timer(loop, &v->timer, (uint64_t)ms, on_time, v);
	else
		loop_cancel(&v->timer);
}

void view_open(struct process *p, unsigned rows, unsigned cols)
{
	struct err ignored = ERR_INIT; /* attaching does with less */
	char program[4096];
	struct view *v;

	if (screen_program(program, sizeof(program), &ignored) < 0 || !(v = calloc(1, sizeof(*v))))
		return;
	v->process = p;
	v->screen = SCREEN_INIT;
	if (screen_start(&v->screen, program, rows ? rows : 24, cols ? cols : 80, &ignored) < 0) {
		free(v);
		return;
	}
	p->view = v;
	sync_view(v);
}

void view_feed(struct process *p, const void *bytes, size_t n)
{
	if (!p->view)
		return;
	screen_feed(&p->view->screen, bytes, n);
	sync_view(p->view);
}

void view_resize(struct process *p, unsigned rows, unsigned cols)
{
	if (!p->view)
		return;
	screen_resize(&p->view->screen, rows, cols);
	sync_view(p->view);
}

/* Two changes of the size: the program sees a SIGWINCH even when the size is the one it had. */
static void ask_program(struct process *p)
{
	struct winsize w;

	if (p->out[0] < 0 || ioctl(p->out[0], TIOCGWINSZ, &w) < 0 || w.ws_row < 2)
		return;
	w.ws_row--;
	ioctl(p->out[0], TIOCSWINSZ, &w);
	w.ws_row++;
	ioctl(p->out[0], TIOCSWINSZ, &w);
}

static void on_picture(void *arg, const struct screen_picture *pic)
{
	struct view *v = arg;
	struct reader *r = v->asks;

	v->asks = NULL;
	if (!r)
		return;
	for (size_t at = 0; pic && at < pic->n; at += SESSION_CHUNK_MAX) {
		cleanup_buf struct buf b = BUF_INIT(SESSION_CHUNK_MAX + 64);

		pack_u32(&b, 0);
		pack_u64(&b, r->offset);
		pack_bytes(&b, pic->bytes + at, MIN_OF(pic->n - at, (size_t)SESSION_CHUNK_MAX));
		caller_send(r->caller, SESSION_OUTPUT, r->tag, v->process->id, b.data, b.len);
	}
	if (!pic || !pic->exact)
		ask_program(v->process);
	r->waits = false;
	caller_wake(r->caller); /* the rest comes then: it may end the process, and this view */
}

void view_show(struct process *p, struct reader *r)
{
	r->waits = p->view && !p->view->asks &&
		   screen_dump(&p->view->screen, DUMP_MS, on_picture, p->view) == 0;
	if (r->waits) {
		p->view->asks = r;
		sync_view(p->view);
	} else {
		ask_program(p);
	}
}

void view_forget(struct process *p, const struct reader *r)
{
	if (p->view && p->view->asks == r)
		p->view->asks = NULL;
}

void view_close(struct process *p)
{
	struct view *v = p->view;

	if (!v)
		return;
	p->view = NULL;
	v->asks = NULL;
	loop_unwatch(&v->watch);
	loop_cancel(&v->timer);
	screen_stop(&v->screen);
	free(v);
}
