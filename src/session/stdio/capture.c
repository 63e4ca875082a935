/* SPDX-License-Identifier: Apache-2.0 */
/* Head and tail of a command's output: see capture.h. */
#include "session/stdio/capture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "os/path.h"

/* Into the ring: of a piece longer than the ring only the end matters. */
static void tail_add(struct capture_file *f, uint64_t at, const char *p, size_t n)
{
	size_t skip = n > CAPTURE_TAIL_B ? n - CAPTURE_TAIL_B : 0, pos, first;

	if (!f->tail && !(f->tail = malloc(CAPTURE_TAIL_B))) {
		f->bad = true;
		return;
	}
	pos = (size_t)((at + skip) % CAPTURE_TAIL_B);
	n -= skip;
	first = MIN_OF(n, CAPTURE_TAIL_B - pos);
	memcpy(f->tail + pos, p + skip, first);
	memcpy(f->tail, p + skip + first, n - first);
}

void capture_add(struct capture_file *f, const void *p, size_t n)
{
	const char *s = p;
	size_t head = MIN_OF(n, CAPTURE_HEAD_B - f->head_n);

	if (f->fd < 0 || f->ended)
		return;
	f->bytes += n;
	if (head && !f->bad) {
		f->bad = fd_write_all(f->fd, s, head) < 0; /* a full disk: the command goes on */
		if (!f->bad)
			f->head_n += head;
	}
	if (!f->bad && n > head)
		tail_add(f, f->bytes - (n - head) - f->head_n, s + head, n - head);
}

static void end_file(struct capture_file *f)
{
	uint64_t rest = f->bytes - f->head_n, tail = MIN_OF(rest, (uint64_t)CAPTURE_TAIL_B);
	size_t pos, first;
	char line[80];

	if (f->fd < 0 || f->ended)
		return;
	f->ended = true;
	if (f->bad || !f->tail)
		tail = 0;
	f->cut = rest - tail;
	if (tail) {
		pos = (size_t)((rest - tail) % CAPTURE_TAIL_B);
		first = (size_t)MIN_OF(tail, (uint64_t)(CAPTURE_TAIL_B - pos));
		snprintf(line, sizeof(line), "\n[croft: %" PRIu64 " bytes left out]\n", f->cut);
		if ((f->cut && fd_write_all(f->fd, line, strlen(line)) < 0) ||
			fd_write_all(f->fd, f->tail + pos, first) < 0 ||
			fd_write_all(f->fd, f->tail, (size_t)tail - first) < 0)
			f->cut = rest;
	}
	free(f->tail);
	f->tail = NULL;
}

void capture_end(struct capture *c)
{
	for (int i = 0; i < CAPTURE_STREAMS; i++)
		end_file(&c->file[i]);
}

void capture_done(struct capture *c)
{
	for (int i = 0; i < CAPTURE_STREAMS; i++) {
		close_fd(&c->file[i].fd);
		free(c->file[i].tail);
	}
	*c = CAPTURE_INIT;
}
