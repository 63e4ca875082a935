/* SPDX-License-Identifier: Apache-2.0 */
/* Undoing escapes: see escape.h. What is not a well-formed escape stays as it is. */
#include "secret/escape.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define MARK_NEAR 8u /* text that has escapes has them close together: no call for those */

enum { ESCAPE_NONE = 0, ESCAPE_CUT = -1 };

struct piece { /* what one escape stands for */
	uint8_t b[4];
	size_t n;
};

/* Value plus one, 0 when it is no hexadecimal digit. */
static const uint8_t hex_values[256] = {['0'] = 1,
	['1'] = 2,
	['2'] = 3,
	['3'] = 4,
	['4'] = 5,
	['5'] = 6,
	['6'] = 7,
	['7'] = 8,
	['8'] = 9,
	['9'] = 10,
	['a'] = 11,
	['b'] = 12,
	['c'] = 13,
	['d'] = 14,
	['e'] = 15,
	['f'] = 16,
	['A'] = 11,
	['B'] = 12,
	['C'] = 13,
	['D'] = 14,
	['E'] = 15,
	['F'] = 16};

/* `digits` hexadecimal digits at p; *ret_cut: all are, as far as there are any. */
static bool hex_read(const uint8_t *p, size_t n, size_t digits, unsigned *ret, bool *ret_cut)
{
	unsigned v = 0;

	*ret_cut = false;
	for (size_t i = 0; i < digits; i++) {
		if (i == n) {
			*ret_cut = true;
			return false;
		}
		if (!hex_values[p[i]])
			return false;
		v = v * 16 + hex_values[p[i]] - 1;
	}
	*ret = v;
	return true;
}

static const bool token_bytes[256] = {['a' ... 'z'] = true,
	['A' ... 'Z'] = true,
	['0' ... '9'] = true,
	['+'] = true,
	['/'] = true,
	['-'] = true,
	['_'] = true,
	['='] = true,
	['%'] = true,
	['\\'] = true};

/* What a backslash makes of the letter after it, 0 when nothing. */
static const uint8_t backslash_makes[256] = {['"'] = '"',
	['\\'] = '\\',
	['/'] = '/',
	['b'] = '\b',
	['f'] = '\f',
	['n'] = '\n',
	['r'] = '\r',
	['t'] = '\t'};

static void piece_char(struct piece *x, uint32_t c)
{
	x->n = utf8_put((char *)x->b, c);
}

/* \uXXXX; its length, ESCAPE_NONE or ESCAPE_CUT. */
static int unit_read(const uint8_t *p, size_t n, unsigned *ret)
{
	bool cut;

	if (n < 2)
		return n == 0 || p[0] == '\\' ? ESCAPE_CUT : ESCAPE_NONE;
	if (p[0] != '\\' || p[1] != 'u')
		return ESCAPE_NONE;
	if (!hex_read(p + 2, n - 2, 4, ret, &cut))
		return cut ? ESCAPE_CUT : ESCAPE_NONE;
	return 6;
}

static int backslash_read(const uint8_t *p, size_t n, struct piece *ret)
{
	unsigned c, low;
	int len;

	if (n < 2)
		return ESCAPE_CUT;
	if (p[1] == 'u') {
		len = unit_read(p, n, &c);
		if (len <= 0)
			return len;
		if (c < 0xd800 || c >= 0xe000) {
			piece_char(ret, c);
			return len;
		}
		if (c >= 0xdc00)
			return ESCAPE_NONE;
		len = unit_read(p + 6, n - 6, &low);
		if (len <= 0)
			return len;
		if (!utf16_pair(c, low))
			return ESCAPE_NONE;
		piece_char(ret, utf16_pair(c, low));
		return 12;
	}
	ret->b[0] = backslash_makes[p[1]];
	ret->n = 1;
	return ret->b[0] ? 2 : ESCAPE_NONE;
}

/* Length of the escape at p, which begins with '%' or '\\'; or ESCAPE_NONE or ESCAPE_CUT. */
static int escape_read(const uint8_t *p, size_t n, unsigned which, struct piece *ret)
{
	int len = 3;
	unsigned c;
	bool cut;

	if (p[0] == '\\') {
		len = backslash_read(p, n, ret);
	} else {
		if (!hex_read(p + 1, n - 1, 2, &c, &cut))
			return cut ? ESCAPE_CUT : ESCAPE_NONE;
		ret->b[0] = (uint8_t)c;
		ret->n = 1;
	}
	if (len > 0 && (which & ESCAPE_TOKENS) && (ret->n != 1 || !token_bytes[ret->b[0]]))
		return ESCAPE_NONE;
	return len;
}

/*
 * The next '%' or '\\'. Each is looked for again only after the one that was found has been passed.
 */
struct marks {
	const uint8_t *p;
	size_t n, percent, backslash; /* n: none is left, or it is not looked for */
};

static size_t mark_find(const struct marks *m, size_t from, uint8_t c)
{
	size_t near = MIN_OF(m->n, from + MARK_NEAR);
	const uint8_t *at;

	for (; from < near; from++)
		if (m->p[from] == c)
			return from;
	at = from < m->n ? memchr(m->p + from, c, m->n - from) : NULL;

	return at ? (size_t)(at - m->p) : m->n;
}

static void marks_init(struct marks *m, const uint8_t *p, size_t n, unsigned which)
{
	*m = (struct marks){.p = p, .n = n, .percent = n, .backslash = n};
	if (which & ESCAPE_PERCENT)
		m->percent = mark_find(m, 0, '%');
	if (which & ESCAPE_JSON)
		m->backslash = mark_find(m, 0, '\\');
}

static size_t marks_next(struct marks *m, size_t from)
{
	if (m->percent < from)
		m->percent = mark_find(m, from, '%');
	if (m->backslash < from)
		m->backslash = mark_find(m, from, '\\');
	return MIN_OF(m->percent, m->backslash);
}

size_t escape_next(const uint8_t *p, size_t n, unsigned which)
{
	struct piece x;
	struct marks m;

	if (!n)
		return 0;
	marks_init(&m, p, n, which);
	for (size_t at = 0; (at = marks_next(&m, at)) < n; at++)
		if (escape_read(p + at, n - at, which, &x) != ESCAPE_NONE)
			return at;
	return n;
}

/* What came out of p[at..at+len) as x. */
static void piece_put(struct escape_done *d, const struct piece *x, size_t at, size_t len,
	uint8_t *out, struct escape_span *spans, const struct escape_span *from)
{
	for (size_t i = 0; i < x->n; i++) {
		if (spans)
			spans[d->n] = (struct escape_span){
				.start = from ? from[at].start : (uint32_t)at,
				.end = from ? from[at + len - 1].end : (uint32_t)(at + len)};
		out[d->n++] = x->b[i];
	}
}

/* p[at..to) has no escape. */
static void run_put(struct escape_done *d, const uint8_t *p, size_t at, size_t to, uint8_t *out,
	struct escape_span *spans, const struct escape_span *from)
{
	memcpy(out + d->n, p + at, to - at);
	for (size_t i = at; spans && i < to; i++)
		spans[d->n + i - at] =
			from ? from[i]
			     : (struct escape_span){.start = (uint32_t)i, .end = (uint32_t)i + 1};
	d->n += to - at;
}

struct escape_done escape_undo(const uint8_t *p, size_t n, unsigned which, uint8_t *out,
	struct escape_span *spans, const struct escape_span *from)
{
	struct escape_done d = {0};
	struct marks m;
	size_t at = 0;

	if (!n)
		return d;
	marks_init(&m, p, n, which);
	while (at < n) {
		size_t mark = marks_next(&m, at);
		struct piece x;
		int len;

		run_put(&d, p, at, mark, out, spans, from);
		at = mark;
		if (at == n)
			break;
		len = escape_read(p + at, n - at, which, &x);
		if (len == ESCAPE_CUT)
			break;
		if (len == ESCAPE_NONE) {
			x = (struct piece){.b = {p[at]}, .n = 1};
			len = 1;
		} else {
			d.changed = true;
		}
		piece_put(&d, &x, at, (size_t)len, out, spans, from);
		at += (size_t)len;
	}
	d.used = at;
	return d;
}
