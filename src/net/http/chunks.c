/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunked bodies, as they come. Nothing is kept but a few numbers: payload is pointed at where it
 * lies. A size is digits and CR LF; whatever else some readers skip (extensions, blanks, a lone LF)
 * is malformed.
 */
#include "net/http/http1.h"

#include "base/str.h"

#include "base/cleanup.h"

#define CHUNK_DIGITS_MAX 15u /* so that a size cannot overflow */

/* Each takes one byte; false: malformed. */
static bool size_byte(struct chunks *c, char b)
{
	int digit = hex_digit(b);

	if (c->cr) {
		if (b != '\n')
			return false;
		c->cr = false;
		c->digits = 0;
		c->line_b = 0;
		c->state = c->left ? CHUNK_DATA : CHUNK_TRAILER;
		return true;
	}
	if (b == '\r' && c->digits) {
		c->cr = true;
		return true;
	}
	if (digit < 0 || c->digits == CHUNK_DIGITS_MAX)
		return false;
	c->left = c->left * 16 + (uint64_t)digit;
	c->digits++;
	return true;
}

static bool data_end_byte(struct chunks *c, char b)
{
	if (b != (c->cr ? '\n' : '\r'))
		return false;
	if (c->cr)
		c->state = CHUNK_SIZE;
	c->cr = !c->cr;
	return true;
}

static bool trailer_byte(struct chunks *c, char b)
{
	unsigned char u = (unsigned char)b;

	if (++c->trailer_b > HTTP_HEAD_MAX_B)
		return false;
	if (c->trailers)
		buf_addc(c->trailers, b);
	if (c->cr) {
		if (b != '\n')
			return false;
		c->cr = false;
		if (!c->line_b)
			c->state = CHUNK_DONE;
		c->line_b = 0;
		return true;
	}
	if (b == '\r') {
		c->cr = true;
		return true;
	}
	if ((u < 0x20 && b != '\t') || u == 0x7f)
		return false;
	c->line_b++;
	return true;
}

long chunks_read(
	struct chunks *c, const char *p, size_t n, const char **ret_data, size_t *ret_data_n)
{
	size_t at = 0;
	bool good = true;

	*ret_data = p;
	*ret_data_n = 0;
	while (at < n && good && c->state != CHUNK_DONE) {
		switch (c->state) {
		case CHUNK_SIZE:
			good = size_byte(c, p[at++]);
			break;
		case CHUNK_DATA:
			*ret_data = p + at;
			*ret_data_n = MIN_OF(c->left, (uint64_t)(n - at));
			c->left -= *ret_data_n;
			at += *ret_data_n;
			if (!c->left)
				c->state = CHUNK_DATA_END;
			return (long)at;
		case CHUNK_DATA_END:
			good = data_end_byte(c, p[at++]);
			break;
		case CHUNK_TRAILER:
			good = trailer_byte(c, p[at++]);
			break;
		case CHUNK_DONE:
			break;
		}
	}
	return good ? (long)at : -1;
}

size_t chunk_head(char out[20], size_t n)
{
	static const char hex[] = "0123456789abcdef";
	size_t len = 1;

	for (size_t v = n; v >> 4; v >>= 4)
		len++;
	for (size_t i = len; i > 0; i--, n >>= 4)
		out[i - 1] = hex[n & 15];
	out[len] = '\r';
	out[len + 1] = '\n';
	return len + 2;
}
