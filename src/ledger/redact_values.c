/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known values in text, as they are and encoded.
 *
 * Needles: each value; and what of its base64 does not depend on its neighbours, for each of the three
 *          places it can have in a group of three bytes, in both alphabets.
 * Escapes: text with %XX, or with JSON's backslashes, is undone once each, and the plain values are
 *          sought in that, with a map back to where it came from. So it does not matter which bytes
 *          the writer chose to escape.
 * Cuts:    a value that the end of the text cuts off, or whose beginning was cut off, is found by what
 *          is left of it, if that is CUT_MIN bytes or more.
 * Time:    linear: one hash of eight bytes per byte, and comparisons only where it is a needle's.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/redact_impl.h"

#define KEY_LEN 8u
#define CUT_MIN 6u
#define FORMS_MAX 7u /* plain, three places in two alphabets */
#define PLAIN 0u

struct needle {
	char *p;
	size_t n;
	uint32_t next; /* of the same slot, +1 */
	bool plain;
};

struct table {
	struct needle *v;
	size_t n;
	uint32_t *slots; /* index + 1 */
	size_t mask;
	size_t longest;
};

static void table_done(struct table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		explicit_bzero(t->v[i].p, t->v[i].n);
		free(t->v[i].p);
	}
	free(t->v);
	free(t->slots);
}

static size_t slot_of(const struct table *t, const char *p)
{
	uint64_t k;

	memcpy(&k, p, sizeof(k));
	return (size_t)(k * 0x9e3779b97f4a7c15u >> 32) & t->mask;
}

static bool table_put(struct table *t, const char *p, size_t n, bool plain)
{
	struct needle *x = &t->v[t->n];
	size_t slot;

	if (n < KEY_LEN)
		return true;
	x->p = malloc(n);
	if (!x->p)
		return false;
	memcpy(x->p, p, n);
	x->n = n;
	x->plain = plain;
	slot = slot_of(t, p);
	x->next = t->slots[slot];
	t->slots[slot] = (uint32_t)++t->n;
	t->longest = MAX_OF(t->longest, n);
	return true;
}

/* The digits of base64 that are the value's alone when `before` bytes stand before it in a group. */
static bool put_base64(struct table *t, const char *value, size_t before)
{
	size_t n = strlen(value), len = base64_len(before + n);
	size_t from = (before * 8 + 5) / 6, to = (before + n) * 8 / 6;
	cleanup_free char *raw = calloc(1, before + n);
	cleanup_free char *text = malloc(len);
	bool ok, differs = false;

	if (!raw || !text)
		return false;
	memcpy(raw + before, value, n);
	base64_encode(text, raw, before + n);
	ok = table_put(t, text + from, to - from, false);
	for (size_t i = from; i < to; i++) {
		differs |= text[i] == '+' || text[i] == '/';
		text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
	}
	if (ok && differs)
		ok = table_put(t, text + from, to - from, false);
	explicit_bzero(raw, before + n);
	explicit_bzero(text, len);
	return ok;
}

static bool table_make(struct table *t, const struct strlist *values)
{
	size_t slots = 64;

	while (slots < 2 * FORMS_MAX * values->n)
		slots *= 2;
	t->v = calloc(FORMS_MAX * values->n, sizeof(*t->v));
	t->slots = calloc(slots, sizeof(*t->slots));
	t->mask = slots - 1;
	if (!t->v || !t->slots)
		return false;
	for (size_t i = 0; i < values->n; i++) {
		const char *s = values->v[i];

		if (!table_put(t, s, strlen(s), true) || !put_base64(t, s, 0) ||
			!put_base64(t, s, 1) || !put_base64(t, s, 2))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ looking */

/* Text, and where each of its bytes came from (NULL: from there itself). */
struct layer {
	const char *p;
	size_t n;
	const uint32_t *from; /* n + 1 of them: the last is the end */
};

static void found(const struct layer *l, size_t start, size_t end, struct redact_spans *ret)
{
	redact_spans_add(
		ret, l->from ? l->from[start] : start, l->from ? l->from[end] : end, REDACT_VALUE);
}

static void look(const struct table *t, const struct layer *l, struct redact_spans *ret)
{
	for (size_t i = 0; i + KEY_LEN <= l->n; i++) {
		size_t longest = 0;

		for (uint32_t k = t->slots[slot_of(t, l->p + i)]; k; k = t->v[k - 1].next) {
			const struct needle *x = &t->v[k - 1];

			if (x->n > longest && x->n <= l->n - i && (x->plain || !l->from) &&
				memcmp(x->p, l->p + i, x->n) == 0)
				longest = x->n;
		}
		if (longest)
			found(l, i, i + longest, ret);
	}
}

/* The most bytes that are both the end of a and the beginning of b. */
static size_t overlap(const char *a, size_t a_n, const char *b, size_t b_n, uint32_t *fail)
{
	size_t k = 0;

	if (b_n == 0)
		return 0;
	fail[0] = 0;
	for (size_t i = 1; i < b_n; i++) {
		while (k > 0 && b[i] != b[k])
			k = fail[k - 1];
		k += b[i] == b[k];
		fail[i] = (uint32_t)k;
	}
	k = 0;
	for (size_t i = 0; i < a_n; i++) {
		while (k > 0 && (k == b_n || a[i] != b[k]))
			k = fail[k - 1];
		k += a[i] == b[k];
	}
	return k;
}

static void look_cut(const struct table *t, const struct layer *l, struct redact_spans *ret)
{
	cleanup_free uint32_t *fail = calloc(t->longest + 1, sizeof(*fail));

	if (!fail) {
		ret->failed = true;
		return;
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct needle *x = &t->v[i];
		size_t most = MIN_OF(x->n - 1, l->n), k;

		if (!x->plain && l->from)
			continue;
		k = overlap(l->p + l->n - most, most, x->p, x->n, fail);
		if (k >= CUT_MIN)
			found(l, l->n - k, l->n, ret);
		k = overlap(x->p + 1, x->n - 1, l->p, most, fail);
		if (k >= CUT_MIN)
			found(l, 0, k, ret);
	}
	explicit_bzero(fail, (t->longest + 1) * sizeof(*fail));
}

/* ------------------------------------------------------------------ escapes */

static size_t put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* One escape or byte at p: how many bytes it takes, and at most four that it gives. */
static size_t undo_percent(const char *p, size_t n, char to[4], size_t *ret_n)
{
	*ret_n = 1;
	if (p[0] == '%' && n >= 3 && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0) {
		to[0] = (char)(hex_digit(p[1]) << 4 | hex_digit(p[2]));
		return 3;
	}
	to[0] = p[0];
	return 1;
}

/* \uXXXX, or -1. */
static int json_unit(const char *p, size_t n)
{
	int c = 0;

	if (n < 6 || p[0] != '\\' || p[1] != 'u')
		return -1;
	for (size_t i = 2; i < 6; i++) {
		if (hex_digit(p[i]) < 0)
			return -1;
		c = c << 4 | hex_digit(p[i]);
	}
	return c;
}

static size_t undo_json(const char *p, size_t n, char to[4], size_t *ret_n)
{
	static const char escaped[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
	const char *at;
	int c, low;

	*ret_n = 1;
	to[0] = p[0];
	if (p[0] != '\\' || n < 2 || !p[1])
		return 1;
	at = strchr(escaped, p[1]);
	if (at) {
		to[0] = plain[at - escaped];
		return 2;
	}
	c = json_unit(p, n);
	if (c < 0)
		return 1;
	/* Beyond the first 65536 a character is two of them. */
	low = c >= 0xd800 && c < 0xdc00 ? json_unit(p + 6, n - 6) : -1;
	if (low >= 0xdc00 && low < 0xe000) {
		*ret_n = put_utf8(
			to, 0x10000 + ((uint32_t)(c - 0xd800) << 10 | (uint32_t)(low - 0xdc00)));
		return 12;
	}
	*ret_n = put_utf8(to, (uint32_t)c);
	return 6;
}

static void look_undone(const struct table *t, const char *p, size_t n,
	size_t (*undo)(const char *, size_t, char *, size_t *), struct redact_spans *ret)
{
	cleanup_free char *text = malloc(n);
	cleanup_free uint32_t *from = calloc(n + 1, sizeof(*from));
	struct layer l = {.p = text, .from = from};

	if (!text || !from) {
		ret->failed = true;
		return;
	}
	for (size_t i = 0; i < n;) {
		size_t made, took;
		char to[4];

		took = undo(p + i, n - i, to, &made);
		for (size_t k = 0; k < made; k++) {
			text[l.n] = to[k];
			from[l.n++] = (uint32_t)i;
		}
		i += took;
	}
	from[l.n] = (uint32_t)n;
	look(t, &l, ret);
	look_cut(t, &l, ret);
	explicit_bzero(text, n);
}

void redact_values(const struct strlist *values, const char *p, size_t n, struct redact_spans *ret)
{
	const struct layer l = {.p = p, .n = n};
	struct table t = {0};

	if (values->n == 0 || n == 0)
		return;
	if (n >= UINT32_MAX || !table_make(&t, values)) {
		ret->failed = true;
	} else {
		look(&t, &l, ret);
		look_cut(&t, &l, ret);
		if (memchr(p, '%', n))
			look_undone(&t, p, n, undo_percent, ret);
		if (memchr(p, '\\', n))
			look_undone(&t, p, n, undo_json, ret);
	}
	table_done(&t);
}
