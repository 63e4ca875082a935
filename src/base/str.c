/* SPDX-License-Identifier: Apache-2.0 */
/* Text helpers: see str.h. */
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/unseen.h"

bool str_ends(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

size_t utf8_put(char to[4], uint32_t c)
{
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = len - 1; i > 0; i--, c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)(first[len] | c);
	return len;
}

uint32_t utf16_pair(uint32_t high, uint32_t low)
{
	if (high < 0xd800 || high >= 0xdc00 || low < 0xdc00 || low >= 0xe000)
		return 0;
	return 0x10000 + ((high - 0xd800) << 10 | (low - 0xdc00));
}

size_t utf8_len(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t len;
	uint32_t cp;
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

	if (n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		len = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (len > n)
		return 0;
	cp = p[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	if (cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	return len;
}

bool utf8_valid(const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(s + i, n - i);

		if (len == 0)
			return false;
		i += len;
	}
	return true;
}

uint32_t utf8_code(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	uint32_t cp = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));

	for (size_t i = 1; i < len; i++)
		cp = cp << 6 | (p[i] & 0x3f);
	return cp;
}

static bool in_ranges(const struct unseen_range *v, size_t n, uint32_t cp)
{
	size_t low = 0;

	while (low < n) {
		size_t mid = low + (n - low) / 2;

		if (cp > v[mid].last)
			low = mid + 1;
		else if (cp < v[mid].first)
			n = mid;
		else
			return true;
	}
	return false;
}

static bool is_unseen(uint32_t cp)
{
	if (cp < 0x7f)
		return cp < 0x20;
	return in_ranges(unseen, ARRAY_SIZE(unseen), cp);
}

static bool is_blank(uint32_t cp)
{
	return cp >= 0x80 && in_ranges(unseen_blank, ARRAY_SIZE(unseen_blank), cp);
}

bool str_unsafe(const char *s, size_t len)
{
	uint32_t cp = utf8_code(s, len);

	return is_unseen(cp) || is_blank(cp);
}

static void show(struct buf *out, const char *s, size_t n, bool blanks)
{
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(s + i, n - i);
		uint32_t cp;

		if (len == 0) {
			buf_addf(out, "\\x%02x", (unsigned char)s[i]);
			i++;
			continue;
		}
		cp = utf8_code(s + i, len);
		if (!is_unseen(cp) && (blanks || !is_blank(cp)))
			buf_add(out, s + i, len);
		else if (len == 1)
			buf_addf(out, "\\x%02x", (unsigned char)s[i]);
		else
			buf_addf(out, "\\u{%x}", cp);
		i += len;
	}
}

void str_show(struct buf *out, const char *s, size_t n)
{
	show(out, s, n, false);
}

void str_show_text(struct buf *out, const char *s, size_t n)
{
	show(out, s, n, true);
}

/* ---- to be typed ---- */

static bool shell_plain(const char *s, size_t n)
{
	if (n == 0 || s[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
			    (s[i] >= '0' && s[i] <= '9') || (s[i] && strchr("/._-:@%+,", s[i]))))
			return false;
	return true;
}

static bool all_seen(const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(s + i, n - i);

		if (len == 0 || str_unsafe(s + i, len))
			return false;
		i += len;
	}
	return true;
}

bool str_shell(struct buf *out, const char *s, size_t n)
{
	bool seen = all_seen(s, n);

	if (memchr(s, '\0', n) || (n && s[n - 1] == '\n'))
		return false; /* no argument holds the first; $(…) would drop the second */
	if (shell_plain(s, n)) {
		buf_add(out, s, n);
		return true;
	}
	buf_adds(out, seen ? "'" : "\"$(printf '");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '\'')
			buf_adds(out, "'\\''");
		else if (!seen && c == '%')
			buf_adds(out, "%%");
		else if (!seen && (c < 0x20 || c >= 0x7f || c == '\\'))
			buf_addf(out, "\\%03o", c);
		else
			buf_addc(out, (char)c);
	}
	buf_adds(out, seen ? "'" : "')\"");
	return true;
}

void str_show_all(struct buf *out, const char *s)
{
	str_show(out, s, strlen(s));
}

bool str_hex(const char *s, size_t min, size_t max)
{
	size_t n = strspn(s, "0123456789abcdef");

	return !s[n] && n >= min && n <= max;
}

bool str_u64(const char *s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		unsigned d = (unsigned)(*s - '0');

		if (d > 9 || v > (UINT64_MAX - d) / 10)
			return false;
		v = v * 10 + d;
	}
	if (v > max)
		return false;
	*ret = v;
	return true;
}

/*
 * Parse "<int>[.<up to 3 digits>]" into thousandths; returns the rest of the string or NULL.
 * The integer part is bounded so that scaling by a unit below cannot overflow.
 */
static const char *parse_milli(const char *s, uint64_t *ret_milli)
{
	uint64_t whole = 0, frac = 0, scale = 100;

	if (*s < '0' || *s > '9')
		return NULL;
	for (; *s >= '0' && *s <= '9'; s++) {
		whole = whole * 10 + (uint64_t)(*s - '0');
		if (whole > 1000000000000ull)
			return NULL;
	}
	if (*s == '.') {
		s++;
		if (*s < '0' || *s > '9')
			return NULL;
		for (; *s >= '0' && *s <= '9'; s++) {
			frac += (uint64_t)(*s - '0') * scale;
			scale /= 10;
		}
	}
	*ret_milli = whole * 1000 + frac;
	return s;
}

bool str_milli(const char *s, uint64_t max_milli, uint64_t *ret_milli)
{
	uint64_t v;
	const char *rest = parse_milli(s, &v);

	if (!rest || *rest || v > max_milli)
		return false;
	*ret_milli = v;
	return true;
}

bool str_size(const char *s, uint64_t *ret_b)
{
	static const char units[] = "KMGT";
	uint64_t milli, mult = 1;
	const char *rest = parse_milli(s, &milli);
	const char *u;

	if (!rest)
		return false;
	if (*rest && (u = strchr(units, *rest & ~0x20)) && *u) {
		for (long i = 0; i <= u - units; i++)
			mult *= 1024;
		rest++;
	}
	if (rest[0] == 'i' && rest[1] == 'B')
		rest++;
	if (*rest == 'B')
		rest++;
	if (*rest || (milli / 1000) > (UINT64_MAX / 2) / mult)
		return false;
	*ret_b = milli / 1000 * mult + milli % 1000 * mult / 1000;
	return true;
}

bool str_duration(const char *s, uint64_t *ret_ms)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {
		{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
	uint64_t milli;
	const char *rest = parse_milli(s, &milli);

	if (!rest || milli > 1000000000000ull)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!str_eq(rest, units[i].unit))
			continue;
		*ret_ms = milli * units[i].ms / 1000;
		return true;
	}
	return false;
}

/* Edit distance with adjacent transpositions, for names shorter than the row. */
static size_t edit_distance(const char *a, const char *b)
{
	enum { ROW = 64 };
	size_t n = strlen(a), m = strlen(b);
	size_t d[3][ROW];

	if (n >= ROW || m >= ROW)
		return ROW;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *cur = d[i % 3], *prev = d[(i + 2) % 3], *prev2 = d[(i + 1) % 3];

		cur[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = prev[j - 1] + (a[i - 1] != b[j - 1]);

			best = MIN_OF(best, prev[j] + 1);
			best = MIN_OF(best, cur[j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MIN_OF(best, prev2[j - 2] + 1);
			cur[j] = best;
		}
	}
	return d[n % 3][m];
}

const char *str_nearest(const char *s, const char *const *names, size_t n)
{
	const char *best = NULL;
	size_t best_d = strlen(s) / 2 + 1;

	for (size_t i = 0; i < n; i++) {
		size_t d = edit_distance(s, names[i]);

		if (d < best_d) {
			best_d = d;
			best = names[i];
		}
	}
	return best;
}

bool str_wild(const char *pattern, const char *name)
{
	const char *star = NULL, *back = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = pattern++;
			back = name;
		} else if (*pattern == '?' || *pattern == *name) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star + 1;
			name = ++back;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool strlist_addn(struct strlist *l, const char *s, size_t n)
{
	char *copy;

	if (l->n >= l->max)
		return false;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 8;
		char **v = realloc(l->v, cap * sizeof(*v));

		if (!v)
			return false;
		l->v = v;
		l->cap = cap;
	}
	copy = strndup(s, n);
	if (!copy)
		return false;
	l->v[l->n++] = copy;
	return true;
}

bool strlist_add(struct strlist *l, const char *s)
{
	return strlist_addn(l, s, strlen(s));
}

bool strlist_has(const struct strlist *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], s))
			return true;
	return false;
}

static int strlist_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strlist_sort(struct strlist *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), strlist_cmp);
}

void strlist_done(struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = STRLIST_INIT(l->max);
}

bool strlist_copy(struct strlist *to, const struct strlist *from)
{
	struct strlist fresh = STRLIST_INIT(from->max);

	for (size_t i = 0; i < from->n; i++)
		if (!strlist_add(&fresh, from->v[i])) {
			strlist_done(&fresh);
			return false;
		}
	strlist_done(to);
	*to = fresh;
	return true;
}
