/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one growing byte buffer. No buffer exists without a maximum.
 *
 * Invariants: `data` is NUL-terminated whenever it is not NULL and len < cap; bytes may include NUL.
 * Failure is sticky: after running out of memory or over `max`, `failed` stays set, further adds do
 * nothing, and the writer checks once at the end.
 */
#ifndef CROFT_BASE_BUF_H
#define CROFT_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max;
	bool failed;
};

#define BUF_INIT(max_b) ((struct buf){.max = (max_b)})
/*
 * One that writes into `n` bytes of the caller's (at least one) and never asks for memory: for a child after
 * fork, or under a filter. It holds n - 1 bytes. There is nothing to give back: no buf_done(), no buf_take().
 */
struct buf buf_on(char *room, size_t n);
#define cleanup_buf __attribute__((cleanup(buf_done)))

void buf_done(struct buf *b);
void buf_reset(struct buf *b); /* empty, keep memory, clear failure */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* The text, never NULL; "" when empty. */
const char *buf_str(const struct buf *b);
/* Give the memory away (caller frees); NULL if the buffer failed. */
char *buf_take(struct buf *b);

#endif
