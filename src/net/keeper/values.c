/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searching for values: see values.h.
 *
 * Every VALUE_STEP bytes a window of the text is hashed and looked up in a map of bits; what is there
 * is looked up in the rows, and only then is the whole form hashed. Of a form so many windows are
 * known, each one byte further, that one of them is looked up wherever the form stands. They are
 * its last ones: what tokens begin with is often known.
 */
#include "net/keeper/values.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/siphash.h"

_Static_assert(
	VALUE_WINDOW_B + VALUE_STEP - 1 <= VALUE_MIN_B, "all windows are in the shortest form");
_Static_assert(VALUES_MAX *FORMS_NUM *VALUE_STEP < UINT16_MAX, "16 bits are enough");

int values_init(struct values *s)
{
	uint64_t keys[4];

	explicit_bzero(s, sizeof(*s));
	if (getrandom(keys, sizeof(keys), 0) != sizeof(keys))
		return errno ? -errno : -EIO;
	s->window_key[0] = keys[0] | 1;
	s->window_key[1] = keys[1] | 1;
	s->sum_key[0] = keys[2];
	s->sum_key[1] = keys[3];
	explicit_bzero(keys, sizeof(keys));
	return 0;
}

/* No branch and no table here: it is done all the time. */
static inline uint64_t window_hash(const uint64_t key[2], const uint8_t *p)
{
	uint64_t a, b;

	memcpy(&a, p, sizeof(a));
	memcpy(&b, p + VALUE_WINDOW_B - sizeof(b), sizeof(b));
#ifdef __SIZEOF_INT128__
	/* Not linear: which texts share a hash says little about the key. */
	unsigned __int128 m = (unsigned __int128)(a ^ key[0]) * (b ^ key[1]);

	return (uint64_t)(m >> 64) ^ (uint64_t)m;
#else
	return a * key[0] + b * key[1];
#endif
}

static size_t row_of(uint64_t hash)
{
	return (size_t)(hash >> (64 - VALUE_ROW_BITS));
}

static void window_add(struct values *s, size_t form, const uint8_t *p, unsigned behind)
{
	uint64_t hash = window_hash(s->window_key, p), bit = hash >> (64 - VALUE_MAP_BITS);
	uint16_t *row = &s->rows[row_of(hash)];

	s->windows[s->windows_n++] = (struct value_window){
		.hash = hash, .form = (uint16_t)form, .next = *row, .behind = (uint16_t)behind};
	*row = (uint16_t)s->windows_n;
	s->map[bit / 8] |= (uint8_t)(1u << bit % 8);
}

static void form_add(struct values *s, size_t len)
{
	uint64_t sum = siphash(s->sum_key, s->form, len);

	for (size_t i = 0; i < s->forms_n; i++)
		if (s->forms[i].sum == sum && s->forms[i].len == len)
			return;
	for (unsigned behind = 0; behind < VALUE_STEP; behind++)
		window_add(s, s->forms_n, s->form + len - VALUE_WINDOW_B - behind, behind);
	s->forms[s->forms_n++] = (struct value_form){.sum = sum, .len = (uint32_t)len};
	s->longest = MAX_OF(s->longest, len);
}

/* Without branches, so that it takes the same time for every text. */
void values_fold(uint8_t *out, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t c = p[i];

		c = (uint8_t)(c + ((uint8_t)(c - 'A') < 26 ? 'a' - 'A' : 0));
		out[i] = c == '+' ? ' ' : c;
	}
}

bool values_add(struct values *s, const char *value, size_t n)
{
	size_t before = s->forms_n;

	if (n < VALUE_MIN_B || n > VALUE_MAX_B || s->n == VALUES_MAX)
		return false;
	for (unsigned form = 0; form < FORMS_NUM; form++) {
		size_t len = form_write(s->form, (const uint8_t *)value, n, form);

		values_fold(s->form, s->form, len);
		form_add(s, len);
	}
	explicit_bzero(s->form, FORM_WIDEST * n);
	s->n += s->forms_n > before;
	s->escapes |= memchr(value, '%', n) || memchr(value, '\\', n);
	return true;
}

/* All forms that have this window, which ends at `end`, where they have it. */
static bool window_hit(const struct values *s, uint64_t hash, const uint8_t *p, size_t n,
	size_t end, struct value_hit *ret)
{
	bool hit = false;

	for (uint16_t i = s->rows[row_of(hash)]; i; i = s->windows[i - 1].next) {
		const struct value_window *w = &s->windows[i - 1];
		const struct value_form *f = &s->forms[w->form];
		size_t to = end + w->behind;

		if (w->hash != hash || to > n || f->len > to ||
			siphash(s->sum_key, p + to - f->len, f->len) != f->sum)
			continue;
		ret->start = hit ? MIN_OF(ret->start, to - f->len) : to - f->len;
		ret->end = hit ? MAX_OF(ret->end, to) : to;
		hit = true;
	}
	return hit;
}

bool values_find(
	const struct values *s, const uint8_t *p, size_t n, size_t *at, struct value_hit *ret)
{
	for (size_t i = *at; i + VALUE_WINDOW_B <= n; i += VALUE_STEP) {
		uint64_t hash = window_hash(s->window_key, p + i);
		uint64_t bit = hash >> (64 - VALUE_MAP_BITS);

		if ((s->map[bit / 8] >> bit % 8 & 1) &&
			window_hit(s, hash, p, n, i + VALUE_WINDOW_B, ret)) {
			*at = i + VALUE_STEP;
			return true;
		}
	}
	return false;
}
