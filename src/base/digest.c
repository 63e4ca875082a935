/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 through libmd, or through the processor's own instructions where it has them: a policy and a
 * plan are digested on the path of every command, and that takes libmd longer than a good part of the
 * set-up. Both give the same bytes; tests/unit/base/test_digest.c compares them.
 */
#include "base/digest.h"

#include <sha2.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

#define BLOCK_B 64
#define CPUID_7_EBX_SHA (1u << 29)

/* The round constants of FIPS 180-4, section 4.2.2. */
static const uint32_t k[64] __attribute__((aligned(16))) = {0x428a2f98, 0x71374491, 0xb5c0fbcf,
	0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
	0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1,
	0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351,
	0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb,
	0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
	0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
	0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814,
	0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* Every processor with these instructions has SSE4.1, too. */
static bool has_instructions(void)
{
	static int known = -1;
	unsigned a, b, c, d;

	if (known < 0)
		known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & CPUID_7_EBX_SHA);
	return known;
}

/* Four rounds an iteration; w[] holds the last sixteen words of the message schedule. */
__attribute__((target("sha,sse4.1"))) static void compress(
	uint32_t h[8], const uint8_t *p, size_t blocks)
{
	const __m128i big_endian =
		_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
	__m128i abef = _mm_set_epi32((int)h[0], (int)h[1], (int)h[4], (int)h[5]);
	__m128i cdgh = _mm_set_epi32((int)h[2], (int)h[3], (int)h[6], (int)h[7]);
	uint32_t x[4], y[4];

	for (; blocks; blocks--, p += BLOCK_B) {
		const __m128i abef_before = abef, cdgh_before = cdgh;
		__m128i w[4];

		for (int i = 0; i < 16; i++) {
			__m128i now, sum;

			if (i < 4) {
				now = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
				now = _mm_shuffle_epi8(now, big_endian);
			} else {
				const __m128i last = w[(i + 3) % 4];

				now = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);
				now = _mm_add_epi32(now, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
				now = _mm_sha256msg2_epu32(now, last);
			}
			w[i % 4] = now;
			sum = _mm_add_epi32(
				now, _mm_load_si128((const __m128i *)(const void *)(k + 4 * i)));
			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
			sum = _mm_shuffle_epi32(sum, 0x0e); /* the upper two words */
			abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
		}
		abef = _mm_add_epi32(abef, abef_before);
		cdgh = _mm_add_epi32(cdgh, cdgh_before);
	}
	_mm_storeu_si128((__m128i *)(void *)x, abef);
	_mm_storeu_si128((__m128i *)(void *)y, cdgh);
	h[0] = x[3], h[1] = x[2], h[4] = x[1], h[5] = x[0];
	h[2] = y[3], h[3] = y[2], h[6] = y[1], h[7] = y[0];
}

/* The last bytes, one bit that is set, zeros, and the length in bits. */
static void by_instructions(uint8_t ret[DIGEST_RAW_B], const uint8_t *p, size_t n)
{
	uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
		0x1f83d9ab, 0x5be0cd19};
	size_t whole = n / BLOCK_B, rest = n % BLOCK_B, blocks = rest + 9 > BLOCK_B ? 2 : 1;
	uint8_t end[2 * BLOCK_B] = {0};

	if (rest)
		memcpy(end, p + whole * BLOCK_B, rest);
	end[rest] = 0x80;
	for (size_t i = 0; i < 8; i++)
		end[blocks * BLOCK_B - 1 - i] = (uint8_t)((uint64_t)n * 8 >> 8 * i);
	compress(h, p, whole);
	compress(h, end, blocks);
	for (size_t i = 0; i < DIGEST_RAW_B; i++)
		ret[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}
#else
static bool has_instructions(void)
{
	return false;
}

static void by_instructions(uint8_t ret[DIGEST_RAW_B], const uint8_t *p, size_t n)
{
	digest_raw_libmd(ret, p, n);
}
#endif

void digest_raw_libmd(uint8_t ret[DIGEST_RAW_B], const void *p, size_t n)
{
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	SHA256Update(&ctx, p, n);
	SHA256Final(ret, &ctx);
}

void digest_sha256(struct digest *ret, const void *p, size_t n)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t raw[DIGEST_RAW_B];

	if (has_instructions())
		by_instructions(raw, p, n);
	else
		digest_raw_libmd(raw, p, n);
	for (size_t i = 0; i < sizeof(raw); i++) {
		ret->hex[2 * i] = hex[raw[i] >> 4];
		ret->hex[2 * i + 1] = hex[raw[i] & 15];
	}
	ret->hex[DIGEST_HEX_LEN] = '\0';
}
