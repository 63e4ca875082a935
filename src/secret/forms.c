/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings of a whole word: see forms.h. */
#include "secret/forms.h"

#include <stdbool.h>
#include <string.h>

static size_t hex_form(uint8_t *out, const uint8_t *w, size_t n, bool upper)
{
	const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = (uint8_t)digits[w[i] >> 4];
		out[2 * i + 1] = (uint8_t)digits[w[i] & 15];
	}
	return 2 * n;
}

/*
 * The characters that only the word decides, when `before` bytes (mod 3) stand in front of it: its
 * bits from the first whole group of six on. What is left of the first and the last byte is mixed
 * with neighbours.
 */
static size_t base64_form(uint8_t *out, const uint8_t *w, size_t n, unsigned before, bool url)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	static const unsigned skip[3] = {0, 4, 2};
	size_t bit = skip[before], len = (8 * n - bit) / 6;

	for (size_t i = 0; i < len; i++, bit += 6) {
		unsigned two = (unsigned)w[bit / 8] << 8 | (bit / 8 + 1 < n ? w[bit / 8 + 1] : 0u);
		unsigned v = two >> (10 - bit % 8) & 63;

		out[i] = (uint8_t)(v < 62    ? letters[v]
				   : v == 62 ? (url ? '-' : '+')
				   : url     ? '_'
					     : '/');
	}
	return len;
}

size_t form_write(uint8_t *out, const uint8_t *w, size_t n, unsigned form)
{
	if (form == 0) {
		memcpy(out, w, n);
		return n;
	}
	if (form <= 6)
		return base64_form(out, w, n, (form - 1) % 3, form > 3);
	return hex_form(out, w, n, form == 8);
}
