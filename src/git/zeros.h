/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of zero bytes as one deflate block (RFC 1951), a thousandth of its length.
 *
 * Why:  zeros are the one content that costs a sandbox nothing to make (a hole in a file), so they must
 *       not cost who keeps them. Everything else is stored as it is, since recording must be quick and
 *       Git compresses when it packs: a compressor in the launcher would gain little more.
 * Form: a block with codes of its own: one bit for "258 bytes like the one before", one for its
 *       distance. These bits are zero, so the middle of the block is zero bytes, too.
 */
#ifndef CROFT_GIT_ZEROS_H
#define CROFT_GIT_ZEROS_H

#include <stddef.h>
#include <stdint.h>

#define ZEROS_ENDS_MAX 160u /* at most this many bytes before, and after, the middle */

struct zeros {
	unsigned char before[ZEROS_ENDS_MAX], after[ZEROS_ENDS_MAX];
	size_t before_n, after_n;
	uint64_t middle; /* zero bytes in between */
};

/* A run of n > 0 bytes; ends at a byte boundary, and is not the last block. */
void zeros_block(struct zeros *ret, uint64_t n);

#endif
