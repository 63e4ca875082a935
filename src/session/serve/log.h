/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process of a session has written, for those who look at it: the caller that started it, and any who
 * come later. In memory, in the order it came; each byte has an offset from the beginning.
 *
 * Limits: at most LOG_MAX_B bytes are kept, in LOG_COST_B of memory, and the oldest go first, except those
 *         that a reader who holds the process back (the one that started it) has not had: then there is
 *         no room, and the session reads no more from the process until there is. A process that changes
 *         between its streams with every byte fills the memory first.
 */
#ifndef CROFT_SESSION_SERVE_LOG_H
#define CROFT_SESSION_SERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_MAX_B (1u << 20)
#define LOG_COST_B (LOG_MAX_B + LOG_MAX_B / 2)
#define LOG_PIECE_B (16u << 10)

struct log_piece;

struct log {
	struct log_piece *first, *last;
	uint64_t begin, end; /* offsets of what is kept */
	size_t n;            /* end - begin, without what a reader holds back */
	size_t cost;         /* memory that its pieces take */
};

/* `held`: the offset from which on nothing may be dropped; UINT64_MAX: nobody holds it. False: no memory. */
bool log_add(struct log *l, unsigned stream, const void *p, size_t n, uint64_t held);
/* Is there room, when nothing at or after `held` may be dropped? */
bool log_has_room(struct log *l, uint64_t held);
/* The bytes at `offset`, of one stream: how many, 0 when there are none (yet, or any more). */
size_t log_at(const struct log *l, uint64_t offset, unsigned *ret_stream, const void **ret);
void log_done(struct log *l);

#endif
