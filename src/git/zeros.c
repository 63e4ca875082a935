/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of zeros: see zeros.h. */
#include "git/zeros.h"

#include <string.h>

#include "base/cleanup.h"

#define MATCH_B 258u  /* the longest that deflate has */
#define MATCH_BITS 2u /* all of them zero */

struct bits {
	unsigned char *to;
	size_t n; /* bits so far */
};

/* The lowest bit first, as deflate packs numbers; codes are given here in that order, too. */
static void put(struct bits *b, unsigned value, unsigned width)
{
	for (unsigned i = 0; i < width; i++, b->n++)
		if (value >> i & 1)
			b->to[b->n / 8] |= (unsigned char)(1u << b->n % 8);
}

/* Codes of the block: '0' is a match of 258, '10' the byte zero, '11' the end. */
static void put_zero(struct bits *b)
{
	put(b, 1, 2);
}

static void put_head(struct bits *b)
{
	/* Lengths of the codes that describe the others, in deflate's order: 18, 2 and 1 are used. */
	static const unsigned char lengths[] = {
		0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2};

	put(b, 0, 1);  /* not the last block */
	put(b, 2, 2);  /* with codes of its own */
	put(b, 29, 5); /* 286 for bytes and lengths */
	put(b, 0, 5);  /* one for distances */
	put(b, sizeof(lengths) - 4, 4);
	for (size_t i = 0; i < sizeof(lengths); i++)
		put(b, lengths[i], 3);
	/* '0' and seven bits: 11 and more codes are not used; '10': a length of 1; '11': of 2. */
	put(b, 3, 2); /* byte 0 */
	put(b, 0, 1), put(b, 138 - 11, 7);
	put(b, 0, 1), put(b, 117 - 11, 7); /* bytes 1 to 255 */
	put(b, 3, 2);                      /* the end, 256 */
	put(b, 0, 1), put(b, 28 - 11, 7);  /* 257 to 284 */
	put(b, 1, 2);                      /* 285, a match of 258 */
	put(b, 1, 2);                      /* distance 1 */
}

/* An empty stored block fills the last byte, so that what follows begins with one. */
static size_t put_end(struct bits *b)
{
	put(b, 3, 2);
	put(b, 0, 3);
	b->n = (b->n + 7) / 8 * 8;
	put(b, 0, 16);
	put(b, 0xffff, 16);
	return b->n / 8;
}

void zeros_block(struct zeros *ret, uint64_t n)
{
	struct bits before = {.to = ret->before}, after = {.to = ret->after};
	uint64_t matches = (n - 1) / MATCH_B, rest = (n - 1) % MATCH_B, gap;
	struct bits *end = &before;

	memset(ret, 0, sizeof(*ret));
	put_head(&before);
	put_zero(&before);
	gap = (8 - before.n % 8) % 8; /* to the next byte: as zero as the matches are */
	if (MATCH_BITS * matches < gap) {
		before.n += MATCH_BITS * matches;
	} else {
		ret->before_n = (before.n + gap) / 8;
		ret->middle = (MATCH_BITS * matches - gap) / 8;
		after.n = (MATCH_BITS * matches - gap) % 8;
		end = &after;
	}
	while (rest--)
		put_zero(end);
	*(end == &after ? &ret->after_n : &ret->before_n) = put_end(end);
}
