/* SPDX-License-Identifier: Apache-2.0 */
/* Names that differ only in case or in Unicode normalisation: see fold.h. */
#include "base/fold.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fold_table.h"
#include "base/str.h"

static_assert(FOLD_KEY_MAX_B(1u) > FOLD_GROWS_MAX, "the table and the header agree");

/* Hangul syllables are computed from their parts (The Unicode Standard, section 3.12). */
#define HANGUL_FIRST 0xac00u
#define HANGUL_NUM 11172u
#define HANGUL_L 0x1100u
#define HANGUL_V 0x1161u
#define HANGUL_T 0x11a7u
#define HANGUL_V_NUM 21u
#define HANGUL_T_NUM 28u

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_ascii(char c)
{
	return (unsigned char)c < 0x80;
}

/* ---- one character ---- */

static const struct fold_split *find_split(uint32_t c)
{
	size_t lo = 0, hi = ARRAY_SIZE(fold_splits);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (fold_splits[mid].from == c)
			return &fold_splits[mid];
		if (fold_splits[mid].from < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static size_t split_hangul(uint32_t syllable, uint32_t parts[static FOLD_PARTS_MAX])
{
	uint32_t t = syllable % HANGUL_T_NUM;

	parts[0] = HANGUL_L + syllable / (HANGUL_V_NUM * HANGUL_T_NUM);
	parts[1] = HANGUL_V + syllable / HANGUL_T_NUM % HANGUL_V_NUM;
	parts[2] = HANGUL_T + t;
	return t ? 3 : 2;
}

/* The canonical decomposition of a character, which is mostly the character itself. */
static size_t split(uint32_t c, uint32_t parts[static FOLD_PARTS_MAX])
{
	const struct fold_split *x = NULL;

	if (c - HANGUL_FIRST < HANGUL_NUM)
		return split_hangul(c - HANGUL_FIRST, parts);
	if (c >= fold_splits[0].from)
		x = find_split(c);
	if (!x) {
		parts[0] = c;
		return 1;
	}
	memcpy(parts, fold_parts + x->at, x->n * sizeof(*parts));
	return x->n;
}

static uint32_t combining_class(uint32_t c)
{
	size_t lo = 0, hi = c < fold_classes[0].first ? 0 : ARRAY_SIZE(fold_classes);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c > fold_classes[mid].last)
			lo = mid + 1;
		else if (c < fold_classes[mid].first)
			hi = mid;
		else
			return fold_classes[mid].class;
	}
	return 0;
}

static uint32_t fold_case(uint32_t c)
{
	size_t lo = 0, hi = ARRAY_SIZE(fold_cases);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct fold_case *x = &fold_cases[mid];

		if (c > x->last)
			lo = mid + 1;
		else if (c < x->first)
			hi = mid;
		else
			return (c - x->first) % x->step ? c : (uint32_t)((int32_t)c + x->delta);
	}
	return c;
}

/* ---- a name ---- */

/* Marks since the last character that is none, in canonical order. */
struct marks {
	struct {
		uint32_t c, class;
	} v[FOLD_MARKS_MAX];
	size_t n;
};

static void put(struct buf *out, uint32_t c)
{
	char text[4];

	buf_add(out, text, utf8_put(text, fold_case(c)));
}

static void marks_put(struct marks *m, struct buf *out)
{
	for (size_t i = 0; i < m->n; i++)
		put(out, m->v[i].c);
	m->n = 0;
}

/* Behind those of the same class and of lower ones. */
static void marks_add(struct marks *m, uint32_t c, uint32_t class, struct buf *out)
{
	size_t i;

	if (m->n == FOLD_MARKS_MAX)
		marks_put(m, out);
	for (i = m->n++; i > 0 && m->v[i - 1].class > class; i--)
		m->v[i] = m->v[i - 1];
	m->v[i].c = c;
	m->v[i].class = class;
}

static void add_character(struct buf *out, struct marks *m, uint32_t c)
{
	uint32_t parts[FOLD_PARTS_MAX];
	size_t n = split(c, parts);

	for (size_t i = 0; i < n; i++) {
		uint32_t class = combining_class(parts[i]);

		if (class) {
			marks_add(m, parts[i], class, out);
			continue;
		}
		marks_put(m, out);
		put(out, parts[i]);
	}
}

void fold_key(struct buf *out, const char *name, size_t n)
{
	struct marks m;

	m.n = 0; /* not all of it is cleared: most names have no marks */
	for (size_t i = 0, len; i < n; i += len) {
		len = is_ascii(name[i]) ? 1 : utf8_len(name + i, n - i);
		if (len > 1) {
			add_character(out, &m, utf8_code(name + i, len));
			continue;
		}
		len = 1; /* ASCII, or a byte that is no character */
		marks_put(&m, out);
		buf_addc(out, lower(name[i]));
	}
	marks_put(&m, out);
}

bool fold_same(const char *a, size_t a_n, const char *b, size_t b_n)
{
	cleanup_buf struct buf x = BUF_INIT(FOLD_KEY_MAX_B(a_n)), y = BUF_INIT(FOLD_KEY_MAX_B(b_n));
	size_t i = 0;

	/* An ASCII character stays at its place, whatever follows. */
	for (; i < a_n && i < b_n && is_ascii(a[i]) && is_ascii(b[i]); i++)
		if (lower(a[i]) != lower(b[i]))
			return false;
	if (i == a_n || i == b_n)
		return a_n == b_n; /* a key is empty only when the name is */
	fold_key(&x, a + i, a_n - i);
	fold_key(&y, b + i, b_n - i);
	return x.failed || y.failed || (x.len == y.len && memcmp(x.data, y.data, x.len) == 0);
}

/* ---- many names ---- */

static int by_key(const void *a, const void *b)
{
	const struct fold_name *x = a, *y = b;
	int c = strcmp(x->key, y->key);

	return c ? c : strcmp(x->name, y->name);
}

bool fold_list_add(struct fold_list *l, const char *name, const void *of)
{
	size_t n = strlen(name);
	cleanup_buf struct buf key = BUF_INIT(FOLD_KEY_MAX_B(n));
	bool own;

	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		struct fold_name *v = reallocarray(l->v, cap, sizeof(*v));

		if (!v)
			return false;
		l->v = v;
		l->cap = cap;
	}
	fold_key(&key, name, n);
	if (key.failed)
		return false;
	own = key.len != n || (n && memcmp(key.data, name, n) != 0);
	l->v[l->n] =
		(struct fold_name){.name = name, .key = own ? strdup(key.data) : name, .of = of};
	return l->v[l->n].key && ++l->n;
}

void fold_list_sort(struct fold_list *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_key);
}

bool fold_list_twins(const struct fold_list *l, size_t i)
{
	return i + 1 < l->n && str_eq(l->v[i].key, l->v[i + 1].key);
}

size_t fold_list_at(const struct fold_list *l, const char *key)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(l->v[mid].key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

void fold_list_done(struct fold_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].key != l->v[i].name)
			free((char *)l->v[i].key);
	free(l->v);
	*l = (struct fold_list){0};
}
