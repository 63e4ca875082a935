/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of bytes: see fifo.h. One process, one thread: the free list needs no lock. */
#include "net/io/fifo.h"

#include <stdlib.h>
#include <string.h>

#include "base/banned.h"
#include "base/cleanup.h"

#define FREE_MAX 64u /* blocks kept: what a busy turn of the loop uses */

static char *free_blocks[FREE_MAX];
static size_t free_n;
static size_t total_b;

static char *block_new(size_t cap)
{
	char *p;

	if (cap == FIFO_BLOCK_B && free_n > 0) {
		p = free_blocks[--free_n];
	} else {
		p = malloc(cap);
		if (!p)
			return NULL;
	}
	total_b += cap;
	return p;
}

static void block_free(char *p, size_t cap)
{
	if (!p)
		return;
	total_b -= cap;
	if (cap == FIFO_BLOCK_B && free_n < FREE_MAX)
		free_blocks[free_n++] = p;
	else
		free(p);
}

void fifo_done(struct fifo *f)
{
	block_free(f->data, f->cap);
	*f = FIFO_INIT(f->max);
}

/* Make `n` bytes fit behind the end. */
static bool fifo_reserve(struct fifo *f, size_t n)
{
	size_t cap = FIFO_BLOCK_B;
	char *p;

	if (n > fifo_room(f))
		return false;
	if (f->data && f->cap - f->off - f->len >= n)
		return true;
	if (f->data && f->cap - f->len >= n) {
		memmove(f->data, f->data + f->off, f->len);
		f->off = 0;
		return true;
	}
	while (cap < f->len + n)
		cap *= 2;
	p = block_new(cap);
	if (!p)
		return false;
	if (f->len)
		memcpy(p, f->data + f->off, f->len);
	block_free(f->data, f->cap);
	f->data = p;
	f->cap = cap;
	f->off = 0;
	return true;
}

bool fifo_add(struct fifo *f, const void *p, size_t n)
{
	if (!n)
		return true;
	if (!fifo_reserve(f, n))
		return false;
	memcpy(f->data + f->off + f->len, p, n);
	f->len += n;
	return true;
}

char *fifo_space(struct fifo *f, size_t *ret_n)
{
	size_t room = fifo_room(f), tail;

	if (!room)
		return NULL;
	/* A block's worth when the rest of this one is short: small reads cost a call each. */
	tail = f->data ? f->cap - f->off - f->len : 0;
	if (tail < room && tail < FIFO_BLOCK_B / 4 &&
		!fifo_reserve(f, MIN_OF(room, (size_t)FIFO_BLOCK_B)) && !fifo_reserve(f, 1))
		return NULL;
	*ret_n = MIN_OF(f->cap - f->off - f->len, room);
	return f->data + f->off + f->len;
}

void fifo_filled(struct fifo *f, size_t n)
{
	f->len += n;
	if (!f->len)
		fifo_done(f);
}

void fifo_drop(struct fifo *f, size_t n)
{
	n = MIN_OF(n, f->len); /* it may have been emptied under who drops */
	f->off += n;
	f->len -= n;
	if (!f->len)
		fifo_done(f);
}

bool fifo_tight(void)
{
	return total_b >= FIFO_TOTAL_MAX_B;
}

void fifo_trim(void)
{
	while (free_n > 0)
		free(free_blocks[--free_n]);
}
