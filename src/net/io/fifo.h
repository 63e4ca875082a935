/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes on their way: a queue in one piece, with a maximum.
 *
 * Purpose: what was read and not yet understood, what was written and not yet sent.
 * Limits:  `max` each; all together FIFO_TOTAL_MAX_B, beyond which fifo_tight() says so and no
 *          new exchange begins. An empty queue holds no memory: blocks go back to a short free
 *          list, so that idle connections cost nothing and busy ones do not allocate.
 */
#ifndef CROFT_NET_IO_FIFO_H
#define CROFT_NET_IO_FIFO_H

#include <stdbool.h>
#include <stddef.h>

#define FIFO_BLOCK_B (16u << 10)
#define FIFO_TOTAL_MAX_B (128u << 20)

struct fifo { /* zero-initialised but for max */
	char *data;
	size_t off, len, cap, max;
};

#define FIFO_INIT(max_b) ((struct fifo){.max = (max_b)})

void fifo_done(struct fifo *f);
/* How much may still be added. */
static inline size_t fifo_room(const struct fifo *f)
{
	return f->len < f->max ? f->max - f->len : 0;
}
static inline const char *fifo_head(const struct fifo *f)
{
	return f->data ? f->data + f->off : "";
}
/* All or nothing; false when over the maximum or out of memory. */
bool fifo_add(struct fifo *f, const void *p, size_t n);
/*
 * Room for at least one byte behind the end, to be filled by the caller; NULL when there is none.
 */
char *fifo_space(struct fifo *f, size_t *ret_n);
void fifo_filled(struct fifo *f, size_t n); /* of what fifo_space() gave */
void fifo_drop(struct fifo *f, size_t n);   /* from the front */

bool fifo_tight(void);
void fifo_trim(void); /* gives the free list back */

#endif
