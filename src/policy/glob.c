/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wildcards in paths: * ? [abc] [!a-z] within a component, ** for any number of components.
 *
 * A pattern is matched component by component as a small state machine: the state is the set of
 * pattern components that may come next, so time is bounded by pattern length times path length and
 * a hostile pattern cannot make it explode. Two choices make mistakes fail closed: a leading dot is
 * not special ("*" matches ".env"), and a component always matches a name spelled exactly like it,
 * so that a deny of "[id].js" also denies the file that is really called "[id].js".
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy_impl.h"

#define COMPONENTS_MAX (POLICY_PATH_MAX / 2)
#define SET_WORDS (COMPONENTS_MAX / 64 + 1)

struct view {
	const char *p;
	size_t n;
};

bool policy_has_glob(const char *path)
{
	for (; *path; path++)
		if (*path == '*' || *path == '?' || *path == '[' || *path == '\\')
			return true;
	return false;
}

/* ---- one component ---- */

/* The next character as a number; ill-formed bytes count as one character above all code points. */
static uint32_t next_char(const char **p, const char *end)
{
	const unsigned char *s = (const unsigned char *)*p;
	size_t len = utf8_len(*p, (size_t)(end - *p));
	uint32_t c;

	if (len <= 1) {
		*p += 1;
		return len == 1 ? s[0] : 0x110000u + s[0];
	}
	c = s[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++)
		c = c << 6 | (s[i] & 0x3f);
	*p += len;
	return c;
}

static uint32_t next_escaped(const char **p, const char *end)
{
	if (**p == '\\' && *p + 1 < end)
		(*p)++;
	return next_char(p, end);
}

/*
 * *p is just after '['. Moves it behind the closing ']' and says whether c is in the class; NULL
 * when the class does not close or a range runs backwards.
 */
static const char *class_match(const char *p, const char *end, uint32_t c, bool *ret_in)
{
	bool negate = false, in = false, first = true;

	if (p < end && (*p == '!' || *p == '^')) {
		negate = true;
		p++;
	}
	for (; p < end && (*p != ']' || first); first = false) {
		uint32_t lo, hi;

		if (*p == '[' && p + 1 < end && strchr(":.=", p[1]))
			return NULL;
		lo = hi = next_escaped(&p, end);
		if (p + 1 < end && p[0] == '-' && p[1] != ']') {
			p++;
			hi = next_escaped(&p, end);
		}
		if (lo > hi)
			return NULL;
		in |= c >= lo && c <= hi;
	}
	if (p >= end)
		return NULL;
	*ret_in = in != negate;
	return p + 1;
}

/* Match one pattern element (not '*') against the next character; advances both on success. */
static bool element_match(
	const char **pat, const char *pat_end, const char **name, const char *name_end)
{
	const char *p = *pat, *s = *name;
	uint32_t c;
	bool in;

	if (p >= pat_end || s >= name_end)
		return false;
	c = next_char(&s, name_end);
	if (*p == '?') {
		p++;
	} else if (*p == '[') {
		p = class_match(p + 1, pat_end, c, &in);
		if (!p || !in)
			return false;
	} else if (next_escaped(&p, pat_end) != c) {
		return false;
	}
	*pat = p;
	*name = s;
	return true;
}

static bool component_match(struct view pat, struct view name)
{
	const char *p = pat.p, *pe = pat.p + pat.n, *s = name.p, *se = name.p + name.n;
	const char *star = NULL, *back = NULL;

	if (pat.n == name.n && memcmp(pat.p, name.p, pat.n) == 0)
		return true;
	for (;;) {
		if (p < pe && *p == '*') {
			star = ++p;
			back = s;
		} else if (s >= se) {
			return p >= pe;
		} else if (element_match(&p, pe, &s, se)) {
			continue;
		} else if (star && back < se) {
			next_char(&back, se);
			p = star;
			s = back;
		} else {
			return false;
		}
	}
}

/* ---- whole patterns ---- */

static bool next_component(const char **path, struct view *ret)
{
	const char *p = *path + strspn(*path, "/");

	ret->p = p;
	ret->n = strcspn(p, "/");
	*path = p + ret->n;
	return ret->n > 0;
}

struct machine {
	struct view c[COMPONENTS_MAX];
	unsigned n;
	uint64_t set[SET_WORDS]; /* bit i: component i may come next; bit n: the whole pattern
				    matched */
};

static bool is_any(struct view v)
{
	return v.n == 2 && v.p[0] == '*' && v.p[1] == '*';
}

static bool has(const struct machine *m, unsigned i)
{
	return m->set[i / 64] >> (i % 64) & 1;
}

/* Enter state i, and those reachable from it without a name because "**" may match nothing. */
static void enter(struct machine *m, uint64_t *set, unsigned i)
{
	for (;; i++) {
		if (set[i / 64] >> (i % 64) & 1)
			return;
		set[i / 64] |= 1ull << (i % 64);
		if (i >= m->n || !is_any(m->c[i]))
			return;
	}
}

/*
 * A trailing "**" means everything below, so at least one name: `tail` says what stands for it, "*"
 * when the first name below decides (a rule covers what is under it anyway), "*" and "**" when
 * every depth is to match by itself.
 */
static void machine_init(struct machine *m, const char *pattern, bool deep)
{
	static const struct view one = {"*", 1}, any = {"**", 2};
	struct view v;

	m->n = 0;
	memset(m->set, 0, sizeof(m->set));
	while (m->n < COMPONENTS_MAX - 1 && next_component(&pattern, &v)) {
		if (m->n && is_any(v) && is_any(m->c[m->n - 1]))
			continue;
		m->c[m->n++] = v;
	}
	if (m->n && is_any(m->c[m->n - 1])) {
		m->c[m->n - 1] = one;
		if (deep) {
			m->c[m->n - 1] = any;
			m->c[m->n++] = one;
		}
	}
	enter(m, m->set, 0);
}

/* Consume one name; false when nothing can match any more. */
static bool machine_step(struct machine *m, struct view name)
{
	uint64_t next[SET_WORDS] = {0};
	bool alive = false;

	for (unsigned i = 0; i < m->n; i++) {
		if (!has(m, i))
			continue;
		if (is_any(m->c[i])) {
			enter(m, next, i);
			alive = true;
		} else if (component_match(m->c[i], name)) {
			enter(m, next, i + 1);
			alive = true;
		}
	}
	memcpy(m->set, next, sizeof(next));
	return alive;
}

bool policy_glob_covers(const char *pattern, const char *path, unsigned *ret_depth)
{
	struct machine m;
	struct view name;
	unsigned depth = 0;
	bool found;

	machine_init(&m, pattern, false);
	found = has(&m, m.n);
	if (ret_depth)
		*ret_depth = 0;
	while (next_component(&path, &name)) {
		bool alive = machine_step(&m, name);

		depth++;
		if (alive && has(&m, m.n)) {
			found = true;
			if (ret_depth)
				*ret_depth = depth;
		}
		if (!alive)
			break;
	}
	return found;
}

bool policy_glob_match(const char *pattern, const char *path)
{
	struct machine m;
	struct view name;

	machine_init(&m, pattern, true);
	while (next_component(&path, &name))
		if (!machine_step(&m, name))
			return false;
	return has(&m, m.n);
}

bool glob_reaches(const char *pattern, const char *path)
{
	struct machine m;
	struct view name;

	machine_init(&m, pattern, true);
	while (next_component(&path, &name))
		if (!machine_step(&m, name))
			return false;
	return true;
}

/* ---- checks and conversions ---- */

static const char *component_check(struct view v)
{
	const char *p = v.p, *end = v.p + v.n;

	if (is_any(v))
		return NULL;
	while (p < end) {
		bool in;

		if (p[0] == '*' && p + 1 < end && p[1] == '*')
			return "has ** inside a name; ** stands for whole directories, as in "
			       "/a/**/b";
		if (p[0] == '[') {
			p = class_match(p + 1, end, 0, &in);
			if (!p)
				return "has a [ that is not a complete set; write [abc], [a-z] or "
				       "[!x], or \\[ for the character";
			continue;
		}
		if (p[0] == '\\' && (p + 1 >= end || !strchr("*?[]\\", p[1])))
			return "has a backslash before an ordinary character; it may stand only "
			       "before * ? [ ] and backslash";
		p += p[0] == '\\' ? 2 : 1;
	}
	return NULL;
}

const char *glob_check(const char *pattern)
{
	struct view v;
	const char *why;

	while (next_component(&pattern, &v))
		if ((why = component_check(v)))
			return why;
	return NULL;
}

void glob_unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (*s == '\\' && s[1])
			s++;
		*out++ = *s;
	}
	*out = '\0';
}

static bool component_plain(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] == '\\')
			i++;
		else if (strchr("*?[", v.p[i]))
			return false;
	}
	return true;
}

char *policy_glob_base(const char *pattern)
{
	struct buf b = BUF_INIT(POLICY_PATH_MAX);
	struct view v;
	char *s;

	while (next_component(&pattern, &v) && component_plain(v)) {
		buf_addc(&b, '/');
		buf_add(&b, v.p, v.n);
	}
	if (b.len == 0)
		buf_addc(&b, '/');
	s = buf_take(&b);
	if (s)
		glob_unescape(s);
	return s;
}
