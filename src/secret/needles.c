/* SPDX-License-Identifier: Apache-2.0 */
/* Many words at once, by how far a window can move: see needles.h. */
#include "secret/needles.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "secret/forms.h"

#define BLOCK 4u                           /* bytes that decide a step */
#define SHIFT_MAX (NEEDLE_MIN - BLOCK + 1) /* when no needle has them */
#define BITS_SMALL 12u
#define BITS_LARGE 14u
#define SMALL_N 64u
#define NONE UINT16_MAX

struct needle {
	uint8_t *text;
	size_t len;
	int who;
	uint16_t same_end; /* next one whose window ends alike */
};

struct needles {
	struct needle *v;
	size_t n, longest;
	unsigned bits;
	uint8_t *shift; /* 1 << bits */
	uint16_t *end;  /* 1 << bits: first needle of those with shift 0, or NONE */
};

static size_t block_hash(const struct needles *s, const uint8_t *p)
{
	uint32_t x;

	memcpy(&x, p, BLOCK);
	return (uint32_t)(x * 2654435761u) >> (32 - s->bits);
}

/* ---- the set ---- */

static bool needles_has(const struct needles *s, int who, const uint8_t *text, size_t len)
{
	for (size_t i = s->n; i > 0 && s->v[i - 1].who == who; i--)
		if (s->v[i - 1].len == len && memcmp(s->v[i - 1].text, text, len) == 0)
			return true;
	return false;
}

static bool word_add(struct needles *s, const uint8_t *w, size_t n, int who)
{
	for (unsigned form = 0; form < FORMS_NUM; form++) {
		uint8_t *text = malloc(FORM_WIDEST * n);
		size_t len;

		if (!text)
			return false;
		len = form_write(text, w, n, form);
		/*
		 * Both alphabets of base64 are one where neither of the two last characters occurs.
		 */
		if (needles_has(s, who, text, len)) {
			explicit_bzero(text, len);
			free(text);
			continue;
		}
		s->v[s->n++] = (struct needle){.text = text, .len = len, .who = who};
		s->longest = MAX_OF(s->longest, len);
	}
	return true;
}

static void needles_index(struct needles *s)
{
	memset(s->shift, SHIFT_MAX, (size_t)1 << s->bits);
	memset(s->end, 0xff, sizeof(*s->end) << s->bits);
	for (size_t i = 0; i < s->n; i++) {
		struct needle *v = &s->v[i];
		size_t last = NEEDLE_MIN - BLOCK, h = block_hash(s, v->text + last);

		for (size_t at = 0; at <= last; at++) {
			uint8_t *shift = &s->shift[block_hash(s, v->text + at)];

			*shift = (uint8_t)MIN_OF(*shift, last - at);
		}
		v->same_end = s->end[h];
		s->end[h] = (uint16_t)i;
	}
}

struct needles *needles_new(const char *const *words, const size_t *lens, size_t n, size_t most)
{
	struct needles *s;

	if (n > NONE / FORMS_NUM)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->bits = n * FORMS_NUM <= SMALL_N ? BITS_SMALL : BITS_LARGE;
	s->v = calloc(n * FORMS_NUM + 1, sizeof(*s->v));
	s->shift = malloc((size_t)1 << s->bits);
	s->end = malloc(sizeof(*s->end) << s->bits);
	if (!s->v || !s->shift || !s->end)
		goto fail;
	for (size_t i = 0; i < n; i++) {
		size_t len = MIN_OF(lens[i], most);

		if (len < NEEDLE_MIN || !word_add(s, (const uint8_t *)words[i], len, (int)i))
			goto fail;
	}
	needles_index(s);
	return s;
fail:
	needles_free(s);
	return NULL;
}

void needles_free(struct needles *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		explicit_bzero(s->v[i].text, s->v[i].len);
		free(s->v[i].text);
	}
	free(s->v);
	/* The tables say which blocks occur, which is something about a value. */
	if (s->shift)
		explicit_bzero(s->shift, (size_t)1 << s->bits);
	if (s->end)
		explicit_bzero(s->end, sizeof(*s->end) << s->bits);
	free(s->shift);
	free(s->end);
	explicit_bzero(s, sizeof(*s));
	free(s);
}

size_t needles_longest(const struct needles *s)
{
	return s->longest;
}

/* The longest needle at p[at], among those whose window ends as this one does. */
static bool window_hit(const struct needles *s, size_t h, const uint8_t *p, size_t n, size_t at,
	struct needle_hit *ret)
{
	bool hit = false;

	for (uint16_t i = s->end[h]; i != NONE; i = s->v[i].same_end) {
		const struct needle *v = &s->v[i];

		if (v->len > n - at || memcmp(p + at, v->text, v->len) != 0)
			continue;
		if (!hit || v->len > ret->len)
			*ret = (struct needle_hit){.at = at, .len = v->len, .who = v->who};
		hit = true;
	}
	return hit;
}

bool needles_find(
	const struct needles *s, const uint8_t *p, size_t n, size_t from, struct needle_hit *ret)
{
	if (!s->n || n < NEEDLE_MIN)
		return false;
	for (size_t at = from; at <= n - NEEDLE_MIN;) {
		size_t h = block_hash(s, p + at + NEEDLE_MIN - BLOCK);

		if (s->shift[h]) {
			at += s->shift[h];
			continue;
		}
		if (window_hit(s, h, p, n, at, ret))
			return true;
		at++;
	}
	return false;
}
