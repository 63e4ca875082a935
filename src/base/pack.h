/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and strings as bytes, for messages between croft's processes: little-endian, each string with its
 * length before it.
 *
 * Trust:   a reader is given bytes from anybody. Each getter checks what is left; the first that does not
 *          fit sets `bad`, and from then on every getter gives zero, "" or nothing. Check once, at the end,
 *          with unpack_good(): everything was there, and nothing is left over.
 * Memory:  strings are not copied: they point into the bytes, which hold a NUL after each.
 */
#ifndef CROFT_BASE_PACK_H
#define CROFT_BASE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

void pack_u32(struct buf *b, uint32_t v);
void pack_u64(struct buf *b, uint64_t v);
void pack_bytes(struct buf *b, const void *p, size_t n);
void pack_str(struct buf *b, const char *s);         /* NULL is packed as "" */
void pack_list(struct buf *b, const char *const *v); /* up to its NULL; NULL: empty */

struct unpack {
	const unsigned char *p, *end;
	bool bad;
};

static inline struct unpack unpack_of(const void *p, size_t n)
{
	return (struct unpack){.p = p, .end = n ? (const unsigned char *)p + n : p};
}

uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
/* The bytes, which a NUL follows; NULL when bad. */
const void *unpack_bytes(struct unpack *u, size_t max, size_t *ret_n);
/* Text without a NUL in it; "" when bad. */
const char *unpack_str(struct unpack *u, size_t max);
/*
 * Strings of at most max_b bytes together, at most max in number, into an array that ends with NULL and
 * that the caller frees (the array alone). NULL when bad or out of memory.
 */
char **unpack_list(struct unpack *u, size_t max, size_t max_b, size_t *ret_n);
bool unpack_good(const struct unpack *u);

#endif
