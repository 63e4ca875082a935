/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is given back all at once: the strings of a layer or of a policy. Loading a policy is
 * on the path of every command, and a hundred small allocations would be most of its cost.
 */
#ifndef CROFT_POLICY_ARENA_H
#define CROFT_POLICY_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_FIRST_B 4000u
#define ARENA_BLOCK_MAX_B (256u << 10)

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(16) char data[];
};

struct arena {
	struct arena_block *head;
};

/* Make sure that the next n bytes need no further allocation. */
static inline bool arena_reserve(struct arena *a, size_t n)
{
	struct arena_block *b = a->head;
	size_t size = b ? b->size * 2 : ARENA_FIRST_B;

	if (b && b->size - b->used >= n)
		return true;
	if (size > ARENA_BLOCK_MAX_B)
		size = ARENA_BLOCK_MAX_B;
	if (size < n)
		size = n;
	b = malloc(sizeof(*b) + size);
	if (!b)
		return false;
	*b = (struct arena_block){.next = a->head, .size = size};
	a->head = b;
	return true;
}

/* n bytes without alignment, for text; NULL when out of memory. */
static inline char *arena_text(struct arena *a, size_t n)
{
	if (!arena_reserve(a, n))
		return NULL;
	a->head->used += n;
	return a->head->data + a->head->used - n;
}

/* n bytes for anything. */
static inline void *arena_alloc(struct arena *a, size_t n)
{
	if (a->head)
		a->head->used = (a->head->used + 15) & ~(size_t)15;
	if (a->head && a->head->used > a->head->size)
		a->head->used = a->head->size;
	return arena_text(a, n);
}

static inline char *arena_join(struct arena *a, const char *s, size_t n, const char *t, size_t m)
{
	char *p = arena_text(a, n + m + 1);

	if (!p)
		return NULL;
	memcpy(p, s, n);
	memcpy(p + n, t, m);
	p[n + m] = '\0';
	return p;
}

static inline char *arena_dup(struct arena *a, const char *s)
{
	return arena_join(a, s, strlen(s), "", 0);
}

static inline void arena_done(struct arena *a)
{
	while (a->head) {
		struct arena_block *b = a->head;

		a->head = b->next;
		free(b);
	}
}

#endif
