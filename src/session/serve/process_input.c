/* SPDX-License-Identifier: Apache-2.0 */
/* What callers send to a process, until it takes it; and the size of its terminal. */
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/serve/process_impl.h"

#define INPUT_LOW (256u << 10)

void process_give_input(struct process *p)
{
	while (p->in >= 0 && p->input_off < p->input.len) {
		ssize_t n = write(p->in, p->input.data + p->input_off, p->input.len - p->input_off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { /* it reads no more */
			p->input_off = p->input.len;
			p->input_ended = true;
			break;
		}
		p->input_off += (size_t)n;
	}
	if (p->in < 0 || p->input_off == p->input.len) {
		buf_reset(&p->input);
		p->input_off = 0;
	}
}

static void on_input(void *arg, uint32_t events);

void process_push_input(struct process *p)
{
	if (p->in < 0)
		return;
	process_give_input(p);
	if (p->tty) {
		process_set_events(p);
	} else if (p->input.len) {
		if (!p->in_watch.loop)
			loop_watch(p->session->loop, &p->in_watch, p->in, EPOLLOUT, on_input, p);
	} else {
		loop_unwatch(&p->in_watch);
		if (p->input_ended)
			close_fd(&p->in);
	}
	for (struct reader *r = p->readers; !p->input.len && r; r = r->next)
		caller_wake(r->caller); /* it may be read again */
}

static void on_input(void *arg, uint32_t events)
{
	process_push_input(arg);
}

void process_input(struct process *p, const void *bytes, size_t n)
{
	if (p->in < 0 && (p->told_started || !p->tty))
		return; /* nobody reads it any more */
	if (n == 0)
		p->input_ended = true;
	else if (!p->input_ended)
		buf_add(&p->input, bytes, n);
	process_push_input(p);
}

void process_close_input(struct process *p)
{
	loop_unwatch(&p->in_watch);
	if (!p->tty) /* a terminal's one descriptor goes with its output */
		close_fd(&p->in);
	buf_done(&p->input);
	p->input_off = 0;
	for (struct reader *r = p->readers; r; r = r->next)
		caller_wake(r->caller);
}

bool process_input_room(const struct process *p)
{
	return p->input.len - p->input_off < INPUT_LOW;
}

void process_resize(struct process *p, unsigned rows, unsigned cols)
{
	struct winsize w = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

	if (p->tty && p->out[0] >= 0 && rows && cols && rows <= UINT16_MAX && cols <= UINT16_MAX)
		ioctl(p->out[0], TIOCSWINSZ, &w);
	view_resize(p, rows, cols);
}
