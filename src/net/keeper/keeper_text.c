/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 and percent-encoding: see keeper_text.h. */
#include "net/keeper/keeper_text.h"

#include <string.h>

#include "base/base64.h"
#include "base/str.h"

bool text_basic(
	struct secret *out, const char *user, size_t user_n, const char *value, size_t value_n)
{
	size_t n = user_n + 1 + value_n;
	unsigned char in[3];
	char four[4];
	bool ok = true;

	for (size_t i = 0; ok && i < n; i += 3) {
		size_t k = n - i < 3 ? n - i : 3;

		for (size_t b = 0; b < k; b++) {
			size_t at = i + b;

			in[b] = (unsigned char)(at < user_n    ? user[at]
						: at == user_n ? ':'
							       : value[at - user_n - 1]);
		}
		base64_encode(four, in, k);
		ok = secret_add(out, four, sizeof(four));
	}
	explicit_bzero(in, sizeof(in));
	explicit_bzero(four, sizeof(four));
	return ok;
}

/* ---- percent-encoding ---- */

static bool unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

/* One character as it stands in a query; returns its length, 1 or 3. */
static size_t escape_one(char out[3], char c)
{
	static const char hex[] = "0123456789ABCDEF";

	if (unreserved(c)) {
		out[0] = c;
		return 1;
	}
	out[0] = '%';
	out[1] = hex[(unsigned char)c >> 4];
	out[2] = hex[(unsigned char)c & 15];
	return 3;
}

void text_escape(struct buf *out, const char *p, size_t n)
{
	char c[3];

	for (size_t i = 0; i < n; i++)
		buf_add(out, c, escape_one(c, p[i]));
}

bool text_escape_secret(struct secret *out, const char *p, size_t n)
{
	char c[3];
	bool ok = true;

	for (size_t i = 0; ok && i < n; i++)
		ok = secret_add(out, c, escape_one(c, p[i]));
	explicit_bzero(c, sizeof(c));
	return ok;
}

bool text_escaped_is(const char *p, size_t n, const char *want, size_t want_n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++, at++) {
		char c = p[i];

		if (c == '%') {
			int hi = n - i > 2 ? hex_digit(p[i + 1]) : -1,
			    lo = n - i > 2 ? hex_digit(p[i + 2]) : -1;

			if (hi < 0 || lo < 0)
				return false;
			c = (char)(hi << 4 | lo);
			i += 2;
		}
		if (at == want_n || c != want[at])
			return false;
	}
	return at == want_n;
}
