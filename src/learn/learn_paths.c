/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as patterns: see learn_paths.h. */
#include "learn/learn_paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "policy/net/net.h"

#define METHOD_MAX_B 24u
#define LIST_MAX 256u /* templates that are compared with each other; more are too many anyway */

struct learn_node {
	struct learn_node *child, *next;
	uint32_t methods; /* of the paths that end here */
	unsigned values;  /* children that are neither "*" nor "" */
	bool many;        /* more values than are kept apart */
	char name[];      /* "*": any value. No literal is called that. */
};

/* ---- segments ---- */

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_uuid(const char *s, size_t n)
{
	if (n != 36)
		return false;
	for (size_t i = 0; i < n; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23 ? s[i] != '-' : !is_hex(s[i]))
			return false;
	return true;
}

/* Does it look like the value of something, rather than its name? */
static bool varies(const char *s, size_t n)
{
	size_t hex = 0, digits = 0;

	while (hex < n && is_hex(s[hex]))
		digits += s[hex] >= '0' && s[hex] <= '9', hex++;
	return n > 0 && (is_uuid(s, n) || digits == n || (hex == n && n >= LEARN_HEX_MIN));
}

static bool unreserved(unsigned c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

static int upper_hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Characters of a canonical path, less the wildcard. */
static bool plain_chars(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int hi, lo;

		if (unreserved((unsigned char)s[i]) || (s[i] && strchr("!$&'()+,;=:@", s[i])))
			continue;
		if (s[i] != '%' || n - i < 3)
			return false;
		hi = upper_hex(s[i + 1]);
		lo = upper_hex(s[i + 2]);
		if (hi < 0 || lo < 0 || unreserved((unsigned)(hi * 16 + lo)))
			return false;
		i += 2;
	}
	return true;
}

/* The number of segments, or -EINVAL. */
static int check_path(const char *path)
{
	size_t left = strnlen(path, LEARN_PATH_MAX_B + 1);
	unsigned depth = 0;

	if (path[0] != '/' || left > LEARN_PATH_MAX_B)
		return -EINVAL;
	for (const char *s = path + 1;; depth++) {
		size_t n = strcspn(s, "/");
		bool last = !s[n];

		if ((n == 0 && !last) || (n == 1 && s[0] == '.') ||
			(n == 2 && s[0] == '.' && s[1] == '.') || !plain_chars(s, n) ||
			depth == LEARN_DEPTH_MAX)
			return -EINVAL;
		if (last)
			return (int)depth + 1;
		s += n + 1;
	}
}

/* ---- the tree ---- */

static struct learn_node *node_new(struct learn_paths *t, const char *name, size_t n)
{
	struct learn_node *x = calloc(1, sizeof(*x) + n + 1);

	if (!x)
		return NULL;
	memcpy(x->name, name, n);
	t->nodes++;
	return x;
}

static void node_free(struct learn_node *x)
{
	while (x) {
		struct learn_node *next = x->next;

		node_free(x->child); /* at most LEARN_DEPTH_MAX deep */
		free(x);
		x = next;
	}
}

static struct learn_node *find(const struct learn_node *x, const char *name, size_t n)
{
	struct learn_node *c = x->child;

	while (c && (strncmp(c->name, name, n) != 0 || c->name[n]))
		c = c->next;
	return c;
}

static bool is_value(const struct learn_node *x)
{
	return x->name[0] && !str_eq(x->name, "*");
}

static void link_child(struct learn_node *x, struct learn_node *c)
{
	c->next = x->child;
	x->child = c;
	x->values += is_value(c);
}

static void collapse(struct learn_paths *t, struct learn_node *x);

/* Put c, which belongs to nobody, under x; what is there by its name takes in all of it. */
static void attach(struct learn_paths *t, struct learn_node *x, struct learn_node *c)
{
	struct learn_node *have;

	if (x->many && is_value(c)) {
		c->name[0] = '*'; /* a value is not empty, so there is room */
		c->name[1] = '\0';
	}
	have = find(x, c->name, strlen(c->name));
	if (!have) {
		link_child(x, c);
		if (x->values > LEARN_VALUES_MAX)
			collapse(t, x);
		return;
	}
	have->methods |= c->methods;
	if (c->many && !have->many)
		collapse(t, have);
	while (c->child) {
		struct learn_node *g = c->child;

		c->child = g->next;
		attach(t, have, g);
	}
	free(c);
	t->nodes--;
}

/* Too many values here: all of them are one from now on. */
static void collapse(struct learn_paths *t, struct learn_node *x)
{
	struct learn_node *c = x->child;

	x->many = true;
	x->child = NULL;
	x->values = 0;
	while (c) {
		struct learn_node *next = c->next;

		attach(t, x, c);
		c = next;
	}
}

static struct learn_node *step(struct learn_paths *t, struct learn_node *x, const char *s, size_t n)
{
	bool value = varies(s, n);
	struct learn_node *c;

	c = n > 0 && !value && !x->many ? find(x, s, n) : NULL;
	if (c)
		return c;
	if (n > 0 && !value && !x->many && x->values == LEARN_VALUES_MAX)
		collapse(t, x);
	if (n > 0 && (value || x->many)) {
		s = "*";
		n = 1;
	}
	c = find(x, s, n);
	if (!c && (c = node_new(t, s, n)))
		link_child(x, c);
	return c;
}

static int method_bit(struct learn_paths *t, const char *method, uint32_t *ret)
{
	size_t i = 0, n = strlen(method);

	if (n == 0 || n > METHOD_MAX_B || strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != n ||
		str_eq(method, "CONNECT") || str_eq(method, "TRACE") || str_eq(method, "TRACK"))
		return -EINVAL; /* as for rules; the last three are never carried */
	while (i < t->methods.n && !str_eq(t->methods.v[i], method))
		i++;
	t->methods.max = LEARN_METHODS_MAX;
	if (i == LEARN_METHODS_MAX)
		return -E2BIG;
	if (i == t->methods.n && !strlist_add(&t->methods, method))
		return -ENOMEM;
	*ret = 1u << i;
	return 0;
}

int learn_paths_add(struct learn_paths *t, const char *method, const char *asked)
{
	cleanup_buf struct buf literal = BUF_INIT(3 * LEARN_PATH_MAX_B + 1);
	const char *path;
	struct learn_node *x;
	uint32_t bit = 0;
	int depth, r;

	/* An asterisk that was asked for is that character; in a pattern it is written "%2A". */
	for (const char *s = asked; *s && !literal.failed; s++)
		buf_adds(&literal, *s == '*' ? "%2A" : (char[]){*s, '\0'});
	path = buf_str(&literal);
	depth = literal.failed ? -EINVAL : check_path(path);

	if (depth < 0)
		return depth;
	if (t->nodes + (size_t)depth + 1 > LEARN_NODES_MAX)
		return -E2BIG;
	if ((r = method_bit(t, method, &bit)) < 0)
		return r;
	if (!t->root && !(t->root = node_new(t, "", 0)))
		return -ENOMEM;
	x = t->root;
	for (const char *s = path + 1; x;) {
		size_t n = strcspn(s, "/");

		x = step(t, x, s, n);
		if (!s[n])
			break;
		s += n + 1;
	}
	if (!x)
		return -ENOMEM;
	x->methods |= bit;
	return 0;
}

void learn_paths_done(struct learn_paths *t)
{
	node_free(t->root);
	strlist_done(&t->methods);
	*t = (struct learn_paths){0};
}

/* ---- patterns ---- */

struct listing {
	struct learn_template *v;
	size_t n;
	bool full, failed;
	char path[LEARN_PATH_MAX_B + LEARN_DEPTH_MAX + 8];
};

static void list(struct listing *l, const struct learn_node *x, size_t len)
{
	for (const struct learn_node *c = x->child; c && !l->full && !l->failed; c = c->next) {
		size_t n = strlen(c->name);

		if (len + 1 + n >= sizeof(l->path)) {
			l->failed = true; /* cannot be: no path was that long */
			return;
		}
		l->path[len] = '/';
		memcpy(l->path + len + 1, c->name, n + 1);
		if (c->methods && l->n == LIST_MAX) {
			l->full = true;
			return;
		}
		if (c->methods) {
			l->v[l->n] = (struct learn_template){strdup(l->path), c->methods};
			l->failed = !l->v[l->n].path;
			l->n += !l->failed;
		}
		list(l, c, len + 1 + n);
	}
}

static int template_cmp(const void *a, const void *b)
{
	return strcmp(
		((const struct learn_template *)a)->path, ((const struct learn_template *)b)->path);
}

/* What another pattern allows as well need not be said. */
static void drop_covered(struct listing *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct learn_template t = l->v[i];
		bool covered = false;

		for (size_t k = 0; k < l->n && !covered; k++)
			covered = k != i && l->v[k].path && !(t.methods & ~l->v[k].methods) &&
				  !strstr(l->v[k].path, "%2A") && /* it matches a path's '*' */
				  net_path_matches(l->v[k].path, t.path);
		if (!covered)
			continue;
		free(t.path);
		l->v[i].path = NULL;
	}
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].path)
			l->v[kept++] = l->v[i];
	l->n = kept;
}

static uint32_t all_methods(const struct learn_node *x)
{
	uint32_t m = x->methods;

	for (const struct learn_node *c = x->child; c; c = c->next)
		m |= all_methods(c);
	return m;
}

/* One pattern for all: as far as there is only one way to go, then anything. */
static int share(const struct learn_paths *t, struct learn_template *ret)
{
	cleanup_buf struct buf b = BUF_INIT(sizeof(((struct listing *)0)->path));
	const struct learn_node *x = t->root;

	while (x->child && !x->child->next && !x->methods && x->child->name[0]) {
		x = x->child;
		buf_addf(&b, "/%s", x->name);
	}
	buf_adds(&b, "/**");
	*ret = (struct learn_template){buf_take(&b), all_methods(t->root)};
	return ret->path ? 0 : -ENOMEM;
}

void learn_templates_free(struct learn_template *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].path);
	free(v);
}

int learn_paths_templates(const struct learn_paths *t, struct learn_template **ret, size_t *ret_n)
{
	struct listing l = {.v = calloc(LIST_MAX, sizeof(*l.v))};
	int r = 0;

	if (!l.v)
		return -ENOMEM;
	if (t->root)
		list(&l, t->root, 0);
	if (!l.failed && !l.full)
		drop_covered(&l);
	if (l.failed)
		r = -ENOMEM;
	else if (l.full || l.n > LEARN_TEMPLATES_MAX) {
		for (size_t i = 0; i < l.n; i++)
			free(l.v[i].path);
		l.n = 0;
		r = share(t, &l.v[0]);
		l.n = r == 0;
	}
	if (r < 0) {
		learn_templates_free(l.v, l.n);
		return r;
	}
	qsort(l.v, l.n, sizeof(*l.v), template_cmp);
	*ret = l.v;
	*ret_n = l.n;
	return 0;
}
