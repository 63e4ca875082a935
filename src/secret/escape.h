/* SPDX-License-Identifier: Apache-2.0 */
/* Percent and JSON escapes, undone one layer at a time. Pure. */
#ifndef CROFT_SECRET_ESCAPE_H
#define CROFT_SECRET_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ESCAPE_LEN_MAX 12u /* \uXXXX, twice for a character beyond 0xffff */

enum escape_which { /* flags */
	ESCAPE_PERCENT = 1 << 0,
	ESCAPE_JSON = 1 << 1,
	ESCAPE_TOKENS =
		1 << 2, /* only those that stand for a character of base64, or of another escape */
};

struct escape_span { /* the bytes that one byte came from */
	uint32_t start, end;
};

struct escape_done {
	size_t n;     /* bytes written */
	size_t used;  /* bytes read; what is left is an escape that is cut off */
	bool changed; /* an escape was undone */
};

/* Where the first escape begins, whole or cut off by the end; n when there is none. */
size_t escape_next(const uint8_t *p, size_t n, unsigned which);
/*
 * out and spans have room for n; spans may be NULL. `from` are the spans of p, NULL when p's bytes
 * are at their own offsets.
 */
struct escape_done escape_undo(const uint8_t *p, size_t n, unsigned which, uint8_t *out,
	struct escape_span *spans, const struct escape_span *from);

#endif
