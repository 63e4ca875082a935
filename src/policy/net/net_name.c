/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and addresses in their one spelling, and patterns over them.
 *
 * A resolver accepts many spellings of one address (127.1, 0x7f.1, 2130706433) and a matcher that
 * sees text would be passed by any of them, so a name whose last label could be read as a number is
 * no name here, and an address has exactly one form per family. Patterns are compared label by
 * label or segment by segment, never as text: "evilexample.com" does not end in ".example.com".
 */
#include <string.h>

#include "policy/net/net_impl.h"

/* ---- names ---- */

static bool label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool label_ok(const char *s, size_t n)
{
	if (n == 0 || n > 63 || s[0] == '-' || s[n - 1] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!label_char(s[i]))
			return false;
	return true;
}

/* "10", "0x7f", "0x": what some resolver might take for a part of an IPv4 address. */
static bool label_numeric(const char *s, size_t n)
{
	size_t i = 0;
	bool hex = n >= 2 && s[0] == '0' && s[1] == 'x';

	for (i = hex ? 2 : 0; i < n; i++)
		if (!((s[i] >= '0' && s[i] <= '9') || (hex && s[i] >= 'a' && s[i] <= 'f')))
			return false;
	return true;
}

bool net_name(char ret[NET_NAME_MAX + 1], const char *text, size_t n)
{
	char name[NET_NAME_MAX + 1];
	size_t start = 0;

	if (n > 0 && text[n - 1] == '.')
		n--; /* the root, said explicitly */
	if (n == 0 || n > NET_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		name[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
	name[n] = '\0';
	for (;;) {
		const char *dot = memchr(name + start, '.', n - start);
		size_t len = dot ? (size_t)(dot - name) - start : n - start;

		if (!label_ok(name + start, len))
			return false;
		if (!dot) {
			if (label_numeric(name + start, len))
				return false;
			break;
		}
		start += len + 1;
	}
	memcpy(ret, name, n + 1);
	return true;
}

/* The literal part of a pattern, and how its wildcard works: 0 none, 1 one label, 2 one or more. */
static int pattern_split(const char *pattern, const char **ret_rest)
{
	int wild = str_starts(pattern, "**.") ? 2 : str_starts(pattern, "*.") ? 1 : 0;

	*ret_rest = pattern + (wild ? wild + 1 : 0); /* behind the dot */
	return wild;
}

/*
 * Labels of `name` above `suffix`: 0 when it is the suffix itself, -1 when it does not end in it.
 */
static int labels_above(const char *suffix, const char *name)
{
	size_t n = strlen(name), m = strlen(suffix);
	int labels = 1;

	if (n < m || memcmp(name + n - m, suffix, m) != 0)
		return -1;
	if (n == m)
		return 0;
	if (n - m < 2 || name[n - m - 1] != '.')
		return -1;
	for (size_t i = 0; i + 1 < n - m; i++)
		labels += name[i] == '.';
	return labels;
}

bool net_host_matches(const char *pattern, const char *name)
{
	const char *rest;
	int wild = pattern_split(pattern, &rest), above;

	if (name[0] == '*')
		return false; /* a pattern is no name */
	if (!wild)
		return str_eq(pattern, name);
	above = labels_above(rest, name);
	return wild == 2 ? above >= 1 : above == 1;
}

bool net_host_covers(const char *outer, const char *inner)
{
	const char *a, *b;
	int aw = pattern_split(outer, &a), bw = pattern_split(inner, &b);

	if (!bw)
		return net_host_matches(outer, inner);
	if (bw == 2 && aw != 2)
		return false;
	return aw == 2 ? labels_above(a, b) >= 0 : aw == 1 && str_eq(a, b);
}

bool net_host_overlap(const char *x, const char *y)
{
	const char *a, *b;
	int aw = pattern_split(x, &a), bw = pattern_split(y, &b);

	if (!aw)
		return net_host_covers(y, x);
	if (!bw)
		return net_host_covers(x, y);
	if (aw == 1 && bw == 1)
		return str_eq(a, b);
	return (bw == 2 && labels_above(b, a) >= 0) || (aw == 2 && labels_above(a, b) >= 0);
}

/* ---- addresses ---- */

static bool parse_v4(uint8_t ret[4], const char *s, size_t n)
{
	size_t i = 0;

	for (int part = 0; part < 4; part++) {
		unsigned v = 0;
		size_t digits = 0;

		for (; i < n && s[i] >= '0' && s[i] <= '9' && digits < 4; i++, digits++)
			v = v * 10 + (unsigned)(s[i] - '0');
		if (digits == 0 || digits > 3 || v > 255 || (digits > 1 && s[i - digits] == '0'))
			return false;
		ret[part] = (uint8_t)v;
		if (part < 3 && (i >= n || s[i++] != '.'))
			return false;
	}
	return i == n;
}

/* Groups until the end or until "::", at most `room`; how many, or -1. */
static int parse_groups(uint8_t *out, int room, const char *s, size_t n)
{
	int groups = 0;
	size_t i = 0;

	while (i < n) {
		const char *colon = memchr(s + i, ':', n - i);
		size_t len = colon ? (size_t)(colon - (s + i)) : n - i;
		unsigned v = 0;

		if (!colon && memchr(s + i, '.', len)) {
			if (groups + 2 > room || !parse_v4(out + 2 * groups, s + i, len))
				return -1;
			return groups + 2;
		}
		if (len == 0 || len > 4 || groups >= room)
			return -1;
		for (size_t k = 0; k < len; k++) {
			int d = hex_digit(s[i + k]);

			if (d < 0)
				return -1;
			v = v << 4 | (unsigned)d;
		}
		out[2 * groups] = (uint8_t)(v >> 8);
		out[2 * groups + 1] = (uint8_t)v;
		groups++;
		i += len;
		if (colon && ++i == n)
			return -1; /* ends in a single colon */
	}
	return groups;
}

static bool parse_v6(uint8_t ret[16], const char *s, size_t n)
{
	const char *gap = NULL;
	uint8_t head[16] = {0}, tail[16] = {0};
	int h, t;

	for (size_t i = 0; i + 1 < n && !gap; i++)
		if (s[i] == ':' && s[i + 1] == ':')
			gap = s + i;
	if (!gap) {
		if (parse_groups(head, 8, s, n) != 8)
			return false;
		memcpy(ret, head, 16);
		return true;
	}
	h = parse_groups(head, 7, s, (size_t)(gap - s));
	t = parse_groups(tail, 7, gap + 2, n - (size_t)(gap - s) - 2);
	if (h < 0 || t < 0 || h + t > 7 || memchr(s, '.', (size_t)(gap - s)))
		return false;
	memset(ret, 0, 16);
	memcpy(ret, head, (size_t)h * 2);
	memcpy(ret + 16 - 2 * t, tail, (size_t)t * 2);
	return true;
}

bool net_addr_parse(struct net_addr *ret, const char *text, size_t n)
{
	struct net_addr a = {0};

	if (n > 45 || n < 2)
		return false;
	a.v6 = memchr(text, ':', n) != NULL;
	if (!(a.v6 ? parse_v6(a.b, text, n) : parse_v4(a.b, text, n)))
		return false;
	*ret = a;
	return true;
}

struct net_addr net_addr_unmapped(const struct net_addr *a)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	struct net_addr v4 = {0};

	if (!a->v6 || memcmp(a->b, mapped, sizeof(mapped)) != 0)
		return *a;
	memcpy(v4.b, a->b + sizeof(mapped), 4);
	return v4;
}

bool net_addr_text(struct net_addr *ret, const char *text)
{
	size_t n = strlen(text);
	struct net_addr a;

	if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
		if (!memchr(text, ':', n))
			return false;
	}
	if (!net_addr_parse(&a, text, n))
		return false;
	*ret = net_addr_unmapped(&a);
	return true;
}

void net_addr_show(struct buf *out, const struct net_addr *a)
{
	int gap = -1, gap_n = 1; /* the longest run of zero groups, at least two */

	if (!a->v6) {
		buf_addf(out, "%u.%u.%u.%u", a->b[0], a->b[1], a->b[2], a->b[3]);
		return;
	}
	for (int i = 0; i < 8; i++) {
		int k = i;

		while (k < 8 && !a->b[2 * k] && !a->b[2 * k + 1])
			k++;
		if (k - i > gap_n) {
			gap = i;
			gap_n = k - i;
		}
	}
	for (int i = 0; i < 8; i++) {
		if (i == gap) {
			buf_adds(out, "::");
			i += gap_n - 1;
			continue;
		}
		if (i > 0 && i != gap + gap_n)
			buf_addc(out, ':');
		buf_addf(out, "%x", (unsigned)a->b[2 * i] << 8 | a->b[2 * i + 1]);
	}
}

bool net_addr_within(const struct net_addr *a, const struct net_cidr *c)
{
	size_t bytes = c->bits / 8, rest = c->bits % 8;

	if (a->v6 != c->addr.v6 || c->bits > (a->v6 ? 128 : 32))
		return false;
	if (memcmp(a->b, c->addr.b, bytes) != 0)
		return false;
	return rest == 0 || (uint8_t)((a->b[bytes] ^ c->addr.b[bytes]) >> (8 - rest)) == 0;
}

bool net_cidr_within(const struct net_cidr *inner, const struct net_cidr *outer)
{
	return inner->bits >= outer->bits && net_addr_within(&inner->addr, outer);
}

bool net_cidr_overlap(const struct net_cidr *a, const struct net_cidr *b)
{
	return net_cidr_within(a, b) || net_cidr_within(b, a);
}

void net_cidr_show(struct buf *out, const struct net_cidr *c)
{
	net_addr_show(out, &c->addr);
	buf_addf(out, "/%u", c->bits);
}

/* ---- paths ---- */

static char fold(char c, bool on)
{
	return on && c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* "%2A" in a pattern is the character itself, as a path may have it raw or escaped. */
static bool escaped_star(const char *p, size_t n)
{
	return n >= 3 && memcmp(p, "%2A", 3) == 0;
}

static bool wild(const char *p, size_t pn, const char *s, size_t n, bool fold_case)
{
	size_t i = 0, k = 0, star = 0, back = 0;
	bool have = false;

	while (k < n) {
		if (i < pn && p[i] == '*') {
			have = true;
			star = ++i;
			back = k;
		} else if (s[k] == '*' && escaped_star(p + i, pn - i)) {
			i += 3;
			k++;
		} else if (i < pn && fold(p[i], fold_case) == fold(s[k], fold_case)) {
			i++;
			k++;
		} else if (have) {
			i = star;
			k = ++back;
		} else {
			return false;
		}
	}
	while (i < pn && p[i] == '*')
		i++;
	return i == pn;
}

bool net_wild(const char *pattern, size_t pattern_n, const char *s, size_t n)
{
	return wild(pattern, pattern_n, s, n, false);
}

/* One segment of a '/'-separated text; next is past its slash, or NULL behind the last. */
struct segment {
	const char *s;
	size_t n;
	const char *next;
};

static struct segment segment_at(const char *s)
{
	const char *slash = strchr(s, '/');

	return (struct segment){
		s, slash ? (size_t)(slash - s) : strlen(s), slash ? slash + 1 : NULL};
}

bool net_segments_match(const char *pattern, const char *text, bool fold_case)
{
	const char *p = pattern, *t = text;
	const char *star_p = NULL, *star_t = NULL;
	bool star = false;

	while (t) {
		struct segment ts = segment_at(t);
		struct segment ps = p ? segment_at(p) : (struct segment){0};

		if (p && ps.n == 2 && ps.s[0] == '*' && ps.s[1] == '*') {
			star = true;
			star_p = p = ps.next;
			star_t = t;
		} else if (p && wild(ps.s, ps.n, ts.s, ts.n, fold_case)) {
			p = ps.next;
			t = ts.next;
		} else if (star) {
			p = star_p;
			t = star_t = segment_at(star_t).next;
		} else {
			return false;
		}
	}
	while (p) { /* only "**" may be left */
		struct segment ps = segment_at(p);

		if (ps.n != 2 || ps.s[0] != '*' || ps.s[1] != '*')
			return false;
		p = ps.next;
	}
	return true;
}

bool net_path_matches(const char *pattern, const char *path)
{
	return pattern[0] == '/' && path[0] == '/' &&
	       net_segments_match(pattern + 1, path + 1, false);
}
