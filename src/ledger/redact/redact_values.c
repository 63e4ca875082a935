/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known values in text, as they are and encoded.
 *
 * Needles: each value and its hex, in either case (a host name has lost its case) and with '+' for ' ';
 *          and what of its base64 does not depend on its neighbours, for each of the three places it
 *          can have in a group of three bytes, in both alphabets.
 * Escapes: text with %XX, or with JSON's backslashes, is undone once each, and the needles are sought in
 *          that, with a map back to where it came from. So it does not matter which bytes the writer
 *          chose to escape.
 * Cuts:    a value that the end of the text cuts off, or whose beginning was cut off, is found by what
 *          is left of it, if that is CUT_MIN bytes or more.
 * Time:    linear: for each byte a hash of the next ones, and comparisons only where it is a needle's.
 *          The table is made once, since a receipt has thousands of small texts.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/redact/redact_impl.h"

#define KEY_LEN 8u
#define CUT_MIN 6u
#define FORMS_MAX 8u /* plain, hex, three places in two alphabets */
/* The smallest maximum that a text of the sandbox's is cut at, and the smallest but for that one. */
#define FIELD_CUT_B 31u
#define FIELD_LONG_B 159u

/* Needles by their first eight bytes, by the first six and by the last six. */
enum { BY_START, BY_HEAD, BY_TAIL, INDEX_NUM };

struct needle {
	char *p;
	size_t n;
	uint32_t next[INDEX_NUM]; /* of the same slot, +1 */
	bool fold;                /* in either case */
	uint64_t looked;          /* in which search its overlap was computed */
};

struct redact_table {
	struct needle *v;
	size_t n;
	uint32_t *slots[INDEX_NUM]; /* index + 1 */
	size_t mask;
	size_t longest;
	uint64_t searches;
};

void redact_table_free(struct redact_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++) {
		explicit_bzero(t->v[i].p, t->v[i].n);
		free(t->v[i].p);
	}
	for (int i = 0; i < INDEX_NUM; i++)
		free(t->slots[i]);
	free(t->v);
	free(t);
}

/* The same for both cases of a letter, for ' ' and '+', and for others: what is found is compared. */
static uint32_t *slot_of(const struct redact_table *t, int index, const char *p)
{
	uint64_t k = 0;

	memcpy(&k, p, index == BY_START ? KEY_LEN : CUT_MIN);
	k |= 0x2b2b2b2b2b2b2b2bu;
	return &t->slots[index][(size_t)(k * 0x9e3779b97f4a7c15u >> 32) & t->mask];
}

/* Forms of web pages have '+' for ' '. */
static char folded(char c)
{
	if (c == '+')
		return ' ';
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same(char a, char b, bool fold)
{
	return a == b || (fold && folded(a) == folded(b));
}

static bool equal(const char *a, const char *b, size_t n, bool fold)
{
	if (!fold)
		return memcmp(a, b, n) == 0;
	for (size_t i = 0; i < n; i++)
		if (!same(a[i], b[i], true))
			return false;
	return true;
}

static bool table_put(struct redact_table *t, const char *p, size_t n, bool fold)
{
	struct needle *x = &t->v[t->n];
	const char *keys[INDEX_NUM];

	if (n < KEY_LEN)
		return true;
	x->p = malloc(n);
	if (!x->p)
		return false;
	memcpy(x->p, p, n);
	x->n = n;
	x->fold = fold;
	keys[BY_START] = keys[BY_HEAD] = x->p;
	keys[BY_TAIL] = x->p + n - CUT_MIN;
	t->n++;
	for (int i = 0; i < INDEX_NUM; i++) {
		uint32_t *slot = slot_of(t, i, keys[i]);

		x->next[i] = *slot;
		*slot = (uint32_t)t->n;
	}
	t->longest = MAX_OF(t->longest, n);
	return true;
}

/* The digits of base64 that are the value's alone when `before` bytes stand before it in a group. */
static bool put_base64(struct redact_table *t, const char *value, size_t before)
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

static bool put_hex(struct redact_table *t, const char *value)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = strlen(value);
	cleanup_free char *text = malloc(2 * n);
	bool ok;

	if (!text)
		return false;
	for (size_t i = 0; i < n; i++) {
		text[2 * i] = digits[(unsigned char)value[i] >> 4];
		text[2 * i + 1] = digits[(unsigned char)value[i] & 15];
	}
	ok = table_put(t, text, 2 * n, true);
	explicit_bzero(text, 2 * n);
	return ok;
}

static bool table_fill(struct redact_table *t, const struct strlist *values)
{
	size_t slots = 64;

	while (slots < 2 * FORMS_MAX * values->n)
		slots *= 2;
	t->v = calloc(FORMS_MAX * values->n, sizeof(*t->v));
	t->mask = slots - 1;
	for (int i = 0; i < INDEX_NUM; i++)
		if (!(t->slots[i] = calloc(slots, sizeof(*t->slots[i]))))
			return false;
	for (size_t i = 0; t->v && i < values->n; i++) {
		const char *s = values->v[i];

		if (!table_put(t, s, strlen(s), true) || !put_hex(t, s) || !put_base64(t, s, 0) ||
			!put_base64(t, s, 1) || !put_base64(t, s, 2))
			return false;
	}
	return t->v != NULL;
}

static struct redact_table *table_of(struct redact *r)
{
	if (r->table)
		return r->table;
	r->table = calloc(1, sizeof(*r->table));
	if (r->table && !table_fill(r->table, &r->values)) {
		redact_table_free(r->table);
		r->table = NULL;
	}
	return r->table;
}

/* ------------------------------------------------------------------ looking */

/* Text, and where each of its bytes came from (NULL: from there itself). */
struct layer {
	const char *p;
	size_t n;
	const uint32_t *from; /* n + 1 of them: the last is the end */
	struct redact_ends ends;
};

static void found(const struct layer *l, size_t start, size_t end, struct redact_spans *ret)
{
	redact_spans_add(
		ret, l->from ? l->from[start] : start, l->from ? l->from[end] : end, REDACT_VALUE);
}

static void look(const struct redact_table *t, const struct layer *l, struct redact_spans *ret)
{
	for (size_t i = 0; i + KEY_LEN <= l->n; i++) {
		size_t longest = 0;

		for (uint32_t k = *slot_of(t, BY_START, l->p + i); k;
			k = t->v[k - 1].next[BY_START]) {
			const struct needle *x = &t->v[k - 1];

			if (x->n > longest && x->n <= l->n - i &&
				equal(x->p, l->p + i, x->n, x->fold))
				longest = x->n;
		}
		if (longest)
			found(l, i, i + longest, ret);
	}
}

/* The most bytes that are both the end of a and the beginning of b. */
static size_t overlap(
	const char *a, size_t a_n, const char *b, size_t b_n, bool fold, uint32_t *fail)
{
	size_t k = 0;

	if (b_n == 0)
		return 0;
	fail[0] = 0;
	for (size_t i = 1; i < b_n; i++) {
		while (k > 0 && !same(b[i], b[k], fold))
			k = fail[k - 1];
		k += same(b[i], b[k], fold);
		fail[i] = (uint32_t)k;
	}
	k = 0;
	for (size_t i = 0; i < a_n; i++) {
		while (k > 0 && (k == b_n || !same(a[i], b[k], fold)))
			k = fail[k - 1];
		k += same(a[i], b[k], fold);
	}
	return k;
}

/* Is what is left of a needle, k bytes, enough to take it for the needle? */
static bool enough(const struct layer *l, const struct needle *x, size_t k)
{
	if (k < CUT_MIN)
		return false;
	return !l->ends.field || l->n >= FIELD_LONG_B || (l->n >= FIELD_CUT_B && 2 * k >= x->n);
}

/* One needle that is cut off at an end of the text, if it is. */
static void look_overlap(
	const struct layer *l, const struct needle *x, int index, struct redact_spans *ret)
{
	size_t most = MIN_OF(x->n - 1, l->n), k;
	cleanup_free uint32_t *fail = calloc(x->n, sizeof(*fail));

	if (!fail) {
		ret->failed = true;
		return;
	}
	if (index == BY_HEAD) {
		k = overlap(l->p + l->n - most, most, x->p, x->n, x->fold, fail);
		if (enough(l, x, k))
			found(l, l->n - k, l->n, ret);
	} else {
		k = overlap(x->p + 1, x->n - 1, l->p, most, x->fold, fail);
		if (enough(l, x, k))
			found(l, 0, k, ret);
	}
	explicit_bzero(fail, x->n * sizeof(*fail));
}

/* Needles whose beginning (BY_HEAD) or end (BY_TAIL) stands at p: their overlap, once each. */
static void look_at_cut(struct redact_table *t, const struct layer *l, const char *p, int index,
	struct redact_spans *ret)
{
	for (uint32_t k = *slot_of(t, index, p); k; k = t->v[k - 1].next[index]) {
		struct needle *x = &t->v[k - 1];
		const char *key = index == BY_HEAD ? x->p : x->p + x->n - CUT_MIN;

		if (x->looked == t->searches || !equal(key, p, CUT_MIN, x->fold))
			continue;
		x->looked = t->searches;
		look_overlap(l, x, index, ret);
	}
}

static void look_cut(struct redact_table *t, const struct layer *l, struct redact_spans *ret)
{
	size_t most = MIN_OF(t->longest - 1, l->n);

	t->searches++;
	if (l->ends.cut & REDACT_CUT_BEHIND)
		for (size_t i = l->n - most; i + CUT_MIN <= l->n; i++)
			look_at_cut(t, l, l->p + i, BY_HEAD, ret);
	t->searches++;
	if (l->ends.cut & REDACT_CUT_BEFORE)
		for (size_t i = 0; i + CUT_MIN <= most; i++)
			look_at_cut(t, l, l->p + i, BY_TAIL, ret);
}

/* ------------------------------------------------------------------ escapes */

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

size_t redact_undo_json(const char *p, size_t n, char to[4], size_t *ret_n)
{
	static const char escaped[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
	const char *at;
	uint32_t pair;
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
	pair = low < 0 ? 0 : utf16_pair((uint32_t)c, (uint32_t)low);
	*ret_n = utf8_put(to, pair ? pair : (uint32_t)c);
	if (pair)
		return 12;
	return 6;
}

static void look_undone(struct redact_table *t, const struct layer *of,
	size_t (*undo)(const char *, size_t, char *, size_t *), struct redact_spans *ret)
{
	cleanup_free char *text = malloc(of->n);
	cleanup_free uint32_t *from = calloc(of->n + 1, sizeof(*from));
	struct layer l = {.p = text, .from = from, .ends = of->ends};

	if (!text || !from) {
		ret->failed = true;
		return;
	}
	for (size_t i = 0; i < of->n;) {
		size_t made, took;
		char to[4];

		took = undo(of->p + i, of->n - i, to, &made);
		for (size_t k = 0; k < made; k++) {
			text[l.n] = to[k];
			from[l.n++] = (uint32_t)i;
		}
		i += took;
	}
	from[l.n] = (uint32_t)of->n;
	look(t, &l, ret);
	look_cut(t, &l, ret);
	explicit_bzero(text, of->n);
}

void redact_values(struct redact *r, const char *p, size_t n, struct redact_ends ends,
	struct redact_spans *ret)
{
	const struct layer l = {.p = p, .n = n, .ends = ends};
	struct redact_table *t;

	if (r->values.n == 0 || n == 0)
		return;
	t = n < UINT32_MAX ? table_of(r) : NULL;
	if (!t) {
		ret->failed = true;
		return;
	}
	look(t, &l, ret);
	look_cut(t, &l, ret);
	if (memchr(p, '%', n))
		look_undone(t, &l, undo_percent, ret);
	if (memchr(p, '\\', n))
		look_undone(t, &l, redact_undo_json, ret);
}
