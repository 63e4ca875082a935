/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums: see sum.h. */
#include "git/sum.h"

#include <pthread.h>

#include "base/cleanup.h"

#define ADLER_MOD 65521u
#define ADLER_RUN 5552u /* so many bytes fit before the sums can overflow 32 bits */
#define CRC_POLY 0xedb88320u

uint32_t sum_adler32(uint32_t sum, const void *p, size_t n)
{
	const unsigned char *u = p;
	uint32_t a = sum & 0xffff, b = sum >> 16;

	while (n > 0) {
		size_t run = MIN_OF(n, (size_t)ADLER_RUN);

		for (size_t i = 0; i < run; i++) {
			a += u[i];
			b += a;
		}
		a %= ADLER_MOD;
		b %= ADLER_MOD;
		u += run;
		n -= run;
	}
	return b << 16 | a;
}

uint32_t sum_adler32_zeros(uint32_t sum, uint64_t n)
{
	uint32_t a = sum & 0xffff, b = sum >> 16;

	b = (uint32_t)((b + n % ADLER_MOD * a) % ADLER_MOD);
	return b << 16 | a;
}

static uint32_t table[256];

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t x = i;

		for (int k = 0; k < 8; k++)
			x = x & 1 ? x >> 1 ^ CRC_POLY : x >> 1;
		table[i] = x;
	}
}

uint32_t sum_crc32(uint32_t sum, const void *p, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const unsigned char *u = p;

	pthread_once(&once, make_table);
	sum = ~sum;
	for (size_t i = 0; i < n; i++)
		sum = table[(sum ^ u[i]) & 255] ^ sum >> 8;
	return ~sum;
}
