/* SPDX-License-Identifier: Apache-2.0 */
/* Head and tail of one stream in memory: see capture_mem.h. */
#include "session/stdio/capture_mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define FIRST_B 4096u

static bool grow(char **p, size_t *cap, size_t need, size_t max)
{
	size_t want = *cap ? *cap : FIRST_B;
	char *more;

	if (need <= *cap)
		return true;
	while (want < need)
		want *= 2;
	want = MIN_OF(want, max);
	more = realloc(*p, want);
	if (!more)
		return false;
	*p = more;
	*cap = want;
	return true;
}

/* What came after the head. */
static uint64_t rest_of(const struct capture_mem *c)
{
	return c->bytes - c->head_n;
}

static size_t tail_len(const struct capture_mem *c)
{
	return c->full ? 0 : (size_t)MIN_OF(rest_of(c), (uint64_t)CAPTURE_TAIL_B);
}

/* Up to its maximum the ring is a plain array: its positions are offsets, so it can grow. */
static bool tail_add(struct capture_mem *c, uint64_t at, const char *p, size_t n)
{
	size_t skip = n > CAPTURE_TAIL_B ? n - CAPTURE_TAIL_B : 0, pos, first;
	uint64_t need = MIN_OF(at + n, (uint64_t)CAPTURE_TAIL_B);

	if (!grow(&c->tail, &c->tail_cap, (size_t)need, CAPTURE_TAIL_B))
		return false;
	pos = (size_t)((at + skip) % CAPTURE_TAIL_B);
	n -= skip;
	first = MIN_OF(n, CAPTURE_TAIL_B - pos);
	memcpy(c->tail + pos, p + skip, first);
	if (n > first)
		memcpy(c->tail, p + skip + first, n - first);
	return true;
}

void capture_mem_add(struct capture_mem *c, const void *p, size_t n)
{
	const char *s = p;
	size_t head = c->full ? 0 : MIN_OF(n, CAPTURE_HEAD_B - c->head_n);

	if (head && grow(&c->head, &c->head_cap, c->head_n + head, CAPTURE_HEAD_B)) {
		memcpy(c->head + c->head_n, s, head);
		c->head_n += head;
		c->bytes += head;
		s += head;
		n -= head;
	} else if (head) {
		c->full = true;
	}
	if (n && !c->full)
		c->full = !tail_add(c, rest_of(c), s, n);
	c->bytes += n;
}

uint64_t capture_mem_cut(const struct capture_mem *c)
{
	return rest_of(c) - tail_len(c);
}

void capture_mem_text(const struct capture_mem *c, struct buf *out)
{
	size_t tail = tail_len(c), pos, first;
	uint64_t cut = capture_mem_cut(c);

	if (c->head_n)
		buf_add(out, c->head, c->head_n);
	if (!tail)
		return;
	if (cut)
		buf_addf(out, "\n[croft: %" PRIu64 " bytes left out]\n", cut);
	pos = (size_t)(cut % CAPTURE_TAIL_B);
	first = MIN_OF(tail, CAPTURE_TAIL_B - pos);
	buf_add(out, c->tail + pos, first);
	if (tail > first)
		buf_add(out, c->tail, tail - first);
}

size_t capture_mem_read(const struct capture_mem *c, uint64_t *at, void *p, size_t n)
{
	uint64_t start = c->head_n + capture_mem_cut(c), off;
	size_t pos;

	if (*at < c->head_n) {
		n = MIN_OF(n, c->head_n - (size_t)*at);
		memcpy(p, c->head + *at, n);
		return n;
	}
	if (*at >= c->bytes || !tail_len(c))
		return 0;
	*at = MAX_OF(*at, start);
	off = *at - c->head_n;
	pos = (size_t)(off % CAPTURE_TAIL_B);
	n = (size_t)MIN_OF((uint64_t)n, c->bytes - *at);
	n = MIN_OF(n, CAPTURE_TAIL_B - pos);
	memcpy(p, c->tail + pos, n);
	return n;
}

void capture_mem_done(struct capture_mem *c)
{
	free(c->head);
	free(c->tail);
	*c = (struct capture_mem){0};
}
