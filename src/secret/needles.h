/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words in a haystack, in all their fixed encodings at once: plain, base64 and base64url at each of
 * the three alignments, hexadecimal in both cases.
 *
 * Purpose: placeholders (secret/placeholder.c) and values (net/keeper/scrub.c) are looked for in every byte
 *          that passes, so most bytes must never be looked at: the last four of a window of
 *          NEEDLE_MIN tell how far it can move.
 * Trust:   words are secret in the keeper; needles_free() wipes.
 */
#ifndef CROFT_SECRET_NEEDLES_H
#define CROFT_SECRET_NEEDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NEEDLE_MIN 16u

struct needles;
struct needle_hit {
	size_t at, len;
	int who; /* index of the word */
};

/*
 * Only the first `most` bytes of each word count. NULL: out of memory, or a word shorter than
 * NEEDLE_MIN.
 */
struct needles *needles_new(const char *const *words, const size_t *lens, size_t n, size_t most);
void needles_free(struct needles *s);
size_t needles_longest(const struct needles *s); /* 0 when there are none */
/* The first at or after `from`; of those that begin there the longest. */
bool needles_find(
	const struct needles *s, const uint8_t *p, size_t n, size_t from, struct needle_hit *ret);

#endif
