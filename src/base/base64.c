/* SPDX-License-Identifier: Apache-2.0 */
/* Base64: see base64.h. */
#include "base/base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(char *out, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i += 3, out += 4) {
		uint32_t v = (uint32_t)b[i] << 16;

		if (i + 1 < n)
			v |= (uint32_t)b[i + 1] << 8;
		if (i + 2 < n)
			v |= b[i + 2];
		out[0] = alphabet[v >> 18];
		out[1] = alphabet[v >> 12 & 63];
		out[2] = i + 1 < n ? alphabet[v >> 6 & 63] : '=';
		out[3] = i + 2 < n ? alphabet[v & 63] : '=';
	}
}

static int value(char c)
{
	const char *at = c ? memchr(alphabet, c, sizeof(alphabet) - 1) : NULL;

	return at ? (int)(at - alphabet) : -1;
}

long base64_decode(void *out, size_t max, const char *p, size_t n)
{
	size_t pad = 0, len = 0;
	uint8_t *to = out;

	if (n == 0 || n % 4 != 0)
		return -1;
	while (pad < 2 && p[n - 1 - pad] == '=')
		pad++;
	if (n / 4 * 3 - pad > max)
		return -1;
	for (size_t i = 0; i < n; i += 4) {
		size_t digits = i + 4 == n ? 4 - pad : 4;
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			int d = k < digits ? value(p[i + k]) : 0;

			if (d < 0)
				return -1;
			v = v << 6 | (uint32_t)d;
		}
		/*
		 * Bits behind the last byte must be zero, or one value would have several
		 * spellings.
		 */
		if (digits < 4 && (v & (digits == 3 ? 0xffu : 0xffffu)) != 0)
			return -1;
		for (size_t k = 0; k + 1 < digits; k++)
			to[len++] = (uint8_t)(v >> (16 - 8 * k));
	}
	return (long)len;
}
