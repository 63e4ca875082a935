/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 as published by Aumasson and Bernstein (2012): see siphash.h. */
#include "base/siphash.h"

#include <string.h>

static uint64_t rotate(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], unsigned n)
{
	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32) + v[3];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

/* Up to eight bytes, the first one lowest. */
static uint64_t word(const uint8_t *p, size_t n)
{
	uint64_t x = 0;

	for (size_t i = 0; i < n; i++)
		x |= (uint64_t)p[i] << (8 * i);
	return x;
}

uint64_t siphash(const uint64_t key[2], const void *p, size_t n)
{
	uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
		key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
	const uint8_t *b = p;
	size_t left = n;

	for (;; b += 8, left -= 8) {
		uint64_t m = left >= 8 ? word(b, 8) : word(b, left) | (uint64_t)n << 56;

		v[3] ^= m;
		rounds(v, 2);
		v[0] ^= m;
		if (left < 8)
			break;
	}
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
