/* SPDX-License-Identifier: Apache-2.0 */
/* What a process writes: read into its log, its capture and the model of its screen, while there is room. */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/serve/process_impl.h"

/* What is polled for: output while there is room for it; of a terminal also room for input that waits. */
void process_set_events(struct process *p)
{
	uint32_t in = log_has_room(&p->log, process_held_from(p)) ? EPOLLIN : 0;

	for (int i = 0; i < 2; i++)
		if (p->out[i] >= 0)
			loop_change(&p->out_watch[i],
				in | (p->tty && p->input.len ? (uint32_t)EPOLLOUT : 0));
}

static void end_output(struct process *p, int i)
{
	loop_unwatch(&p->out_watch[i]);
	if (p->out[i] == p->in) /* a terminal */
		p->in = -1;
	close_fd(&p->out[i]);
}

void process_unread(struct process *p, const struct caller *c, unsigned stream)
{
	for (const struct reader *r = p->readers; r && stream < 2; r = r->next)
		if (r->owner && r->caller == c && !p->tty && p->out[stream] >= 0) {
			end_output(p, (int)stream);
			process_pump(p);
			return;
		}
}

/* One piece: how many bytes, 0 nothing now, -1 the end, -2 no room. */
int process_read_piece(struct process *p, int i)
{
	char piece[SESSION_CHUNK_MAX];
	uint64_t held = process_held_from(p);
	ssize_t n;

	if (p->out[i] < 0)
		return -1;
	if (!log_has_room(&p->log, held))
		return -2;
	n = read(p->out[i], piece, sizeof(piece));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) { /* a terminal that nobody has open any more is EIO */
		end_output(p, i);
		return -1;
	}
	capture_mem_add(&p->capture[i], piece, (size_t)n);
	log_add(&p->log, (unsigned)i, piece, (size_t)n, held);
	view_feed(p, piece, (size_t)n);
	return (int)n;
}

static void on_output(void *arg, uint32_t events)
{
	struct process *p = arg;

	if (p->tty && events & EPOLLOUT)
		process_give_input(p);
	for (int i = 0; i < 2; i++)
		process_read_piece(p, i);
	process_pump(p);
}

int process_watch_output(struct process *p, struct err *e)
{
	for (int i = 0; i < 2; i++)
		if (p->out[i] >= 0 && loop_watch(p->session->loop, &p->out_watch[i], p->out[i],
					      EPOLLIN, on_output, p) < 0)
			return err_set(e, ENOMEM, "watch the output of a command");
	return 0;
}
