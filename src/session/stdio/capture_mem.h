/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one stream of a command wrote, kept in memory: its head and its tail, with the same maxima as
 * capture.h; what was between them is counted.
 *
 * Memory: nothing before the first byte; then as much as was written, up to CAPTURE_HEAD_B + CAPTURE_TAIL_B.
 *         Without memory the stream is counted and no more is kept; the command goes on.
 */
#ifndef CROFT_SESSION_STDIO_CAPTURE_MEM_H
#define CROFT_SESSION_STDIO_CAPTURE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "session/stdio/capture.h"

struct capture_mem {
	uint64_t bytes;    /* that the command wrote in all */
	char *head, *tail; /* the tail is a ring when it has CAPTURE_TAIL_B */
	size_t head_n, head_cap, tail_cap;
	bool full; /* there was no memory: what came after the head is counted only */
};

/* All zeros is an empty one. */
void capture_mem_add(struct capture_mem *c, const void *p, size_t n);
/* How many bytes are in neither head nor tail. */
uint64_t capture_mem_cut(const struct capture_mem *c);
/* Head, a line that says how much is missing, tail: the bytes that capture.h writes to a file. */
void capture_mem_text(const struct capture_mem *c, struct buf *out);
/*
 * Bytes of the stream from offset *at on, at most n. When those at *at are not kept any more, *at moves to
 * the next ones that are. 0: there are none.
 */
size_t capture_mem_read(const struct capture_mem *c, uint64_t *at, void *p, size_t n);
void capture_mem_done(struct capture_mem *c); /* frees; it is empty again */

#endif
