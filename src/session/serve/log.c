/* SPDX-License-Identifier: Apache-2.0 */
/* What a process has written: see log.h. Pieces grow as they are needed: most commands write little. */
#include "session/serve/log.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define PIECE_FIRST_B 64u

struct log_piece {
	struct log_piece *next;
	uint64_t begin;
	unsigned stream;
	size_t n, cap;
	char data[];
};

static struct log_piece *new_piece(struct log *l, unsigned stream, size_t want)
{
	size_t cap = MIN_OF(MAX_OF(want, (size_t)PIECE_FIRST_B), (size_t)LOG_PIECE_B);
	struct log_piece *p = malloc(sizeof(*p) + cap);

	if (!p)
		return NULL;
	*p = (struct log_piece){.begin = l->end, .stream = stream, .cap = cap};
	l->cost += sizeof(*p) + cap;
	if (l->last)
		l->last->next = p;
	else
		l->first = p;
	l->last = p;
	return p;
}

static void drop_old(struct log *l, uint64_t held)
{
	while ((l->n > LOG_MAX_B || l->cost > LOG_COST_B) && l->first != l->last &&
		l->first->begin + l->first->n <= held) {
		struct log_piece *p = l->first;

		l->first = p->next;
		l->n -= p->n;
		l->cost -= sizeof(*p) + p->cap;
		l->begin = l->first->begin;
		free(p);
	}
}

bool log_add(struct log *l, unsigned stream, const void *p, size_t n, uint64_t held)
{
	const char *from = p;

	while (n) {
		struct log_piece *to = l->last;
		size_t part;

		if (!to || to->stream != stream)
			to = new_piece(l, stream, n);
		else if (to->n == to->cap)
			to = new_piece(l, stream, MAX_OF(n, to->cap * 2));
		if (!to)
			return false;
		part = MIN_OF(n, to->cap - to->n);
		memcpy(to->data + to->n, from, part);
		to->n += part;
		l->end += part;
		l->n += part;
		from += part;
		n -= part;
		drop_old(l, held);
	}
	return true;
}

bool log_has_room(struct log *l, uint64_t held)
{
	drop_old(l, held);
	return held == UINT64_MAX ||
	       (l->end - MAX_OF(held, l->begin) < LOG_MAX_B && l->cost < LOG_COST_B);
}

size_t log_at(const struct log *l, uint64_t offset, unsigned *ret_stream, const void **ret)
{
	if (offset < l->begin || offset >= l->end)
		return 0;
	for (const struct log_piece *p = l->first; p; p = p->next)
		if (offset < p->begin + p->n) {
			*ret_stream = p->stream;
			*ret = p->data + (offset - p->begin);
			return p->n - (size_t)(offset - p->begin);
		}
	return 0;
}

void log_done(struct log *l)
{
	while (l->first) {
		struct log_piece *p = l->first;

		l->first = p->next;
		free(p);
	}
	*l = (struct log){0};
}
