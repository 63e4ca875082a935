/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON reader: see jsonread.h.
 *
 * Memory: decoded text is never longer than its source, so one pool as long as the source holds all
 *         strings. Nodes and the tables of containers come from blocks that are freed together.
 * Limits: recursion is bounded by JSONREAD_DEPTH_MAX; duplicate keys are found by sorting, so that no
 *         document costs more than n log n.
 */
#include "base/jsonread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define BLOCK_MIN_B 2048u
#define BLOCK_MAX_B 65536u

struct jnode {
	uint8_t type;
	bool flag;  /* true, or: this number is an integer */
	bool milli; /* a number: not an integer, and `i` holds its thousandths */
	uint32_t n;
	const char *key;
	struct jnode *next; /* while the container is being read */
	union {
		int64_t i;
		const char *s;
		struct jnode **kids; /* n in order; of an object n more, sorted by key */
	};
};

struct block {
	struct block *next;
	size_t used, size;
	/* What follows is aligned for a pointer: the header is a multiple of one. */
	char data[];
};

struct jdoc {
	struct block *blocks;
	char *text;
	struct jnode *root;
};

struct reader {
	struct jdoc *doc;
	const char *p;
	size_t n, at;
	char *pool; /* next free byte of doc->text */
	uint32_t nodes;
	int depth;
	struct err *e;
};

/* ------------------------------------------------------------------ memory */

void jdoc_free(struct jdoc *d)
{
	if (!d)
		return;
	while (d->blocks) {
		struct block *b = d->blocks;

		d->blocks = b->next;
		free(b);
	}
	free(d->text);
	free(d);
}

void jdoc_freep(struct jdoc **d)
{
	jdoc_free(*d);
}

static void *take(struct reader *r, size_t size)
{
	struct block *b = r->doc->blocks;
	void *p;

	size = (size + 7) & ~(size_t)7;
	if (!b || b->size - b->used < size) {
		size_t room = b ? 2 * b->size : BLOCK_MIN_B; /* most documents are small */

		room = room > BLOCK_MAX_B ? BLOCK_MAX_B : room;
		room = room < size ? size : room;
		b = malloc(sizeof(*b) + room);
		if (!b)
			return NULL;
		*b = (struct block){.next = r->doc->blocks, .size = room};
		r->doc->blocks = b;
	}
	p = b->data + b->used;
	b->used += size;
	return p;
}

static int out_of_memory(struct reader *r)
{
	return err_set(r->e, ENOMEM, "read JSON");
}

static int bad(struct reader *r, const char *what)
{
	return err_invalid(r->e, "this is not the JSON it should be: %s at byte %zu", what, r->at);
}

/* ------------------------------------------------------------------ words, numbers, strings */

static int peek(const struct reader *r)
{
	return r->at < r->n ? (unsigned char)r->p[r->at] : -1;
}

static void skip_blanks(struct reader *r)
{
	for (int c; (c = peek(r)) == ' ' || c == '\t' || c == '\n' || c == '\r';)
		r->at++;
}

static bool word(struct reader *r, const char *w)
{
	size_t n = strlen(w);

	if (r->n - r->at < n || memcmp(r->p + r->at, w, n))
		return false;
	r->at += n;
	return true;
}

static bool digits(struct reader *r)
{
	size_t from = r->at;

	for (int c; (c = peek(r)) >= '0' && c <= '9';)
		r->at++;
	return r->at > from;
}

/* The digits from..to as a number, if it fits. */
static bool integer(const char *p, size_t n, bool minus, int64_t *ret)
{
	uint64_t v = 0, max = (uint64_t)INT64_MAX + minus;

	for (size_t i = 0; i < n; i++) {
		unsigned d = (unsigned)(p[i] - '0');

		if (v > (max - d) / 10)
			return false;
		v = v * 10 + d;
	}
	*ret = minus ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

/* Thousandths of a whole part with the fraction that begins at p; false when they do not fit. */
static bool thousandths(const char *p, size_t n, bool minus, int64_t *v)
{
	int64_t part = 0;

	if (*v > INT64_MAX / 1000 - 1 || *v < INT64_MIN / 1000 + 1)
		return false;
	for (size_t i = 0; i < 3; i++)
		part = part * 10 + (i < n ? p[i] - '0' : 0);
	*v = *v * 1000 + (minus ? -part : part);
	return true;
}

/* Only what is written without fraction and exponent counts as an integer. */
static int read_number(struct reader *r, struct jnode *node)
{
	bool minus = peek(r) == '-', whole = true, milli = false;
	size_t from;
	int64_t v = 0;

	r->at += minus;
	from = r->at;
	if (!digits(r))
		return bad(r, "a number without digits");
	if (r->p[from] == '0' && r->at - from > 1)
		return bad(r, "a number with a leading zero");
	whole = integer(r->p + from, r->at - from, minus, &v);
	if (peek(r) == '.') {
		milli = whole;
		whole = false;
		from = ++r->at;
		if (!digits(r))
			return bad(r, "a fraction without digits");
		milli = milli && thousandths(r->p + from, r->at - from, minus, &v);
	}
	if (peek(r) == 'e' || peek(r) == 'E') {
		whole = milli = false;
		r->at++;
		if (peek(r) == '+' || peek(r) == '-')
			r->at++;
		if (!digits(r))
			return bad(r, "an exponent without digits");
	}
	node->type = JNUMBER;
	node->flag = whole;
	node->milli = milli;
	node->i = whole || milli ? v : 0;
	return 0;
}

static bool hex4(struct reader *r, uint32_t *ret)
{
	uint32_t v = 0;

	if (r->n - r->at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		int d = hex_digit(r->p[r->at + (size_t)i]);

		if (d < 0)
			return false;
		v = v << 4 | (uint32_t)d;
	}
	r->at += 4;
	*ret = v;
	return true;
}

/* After "\u". A pair of surrogates is one character; half a pair is none. */
static int read_escaped_char(struct reader *r)
{
	uint32_t cp, low;

	if (!hex4(r, &cp))
		return bad(r, "\\u without four hexadecimal digits");
	if (cp == 0)
		return bad(r, "a NUL in a string");
	if (cp >= 0xd800 && cp <= 0xdfff) {
		if (!word(r, "\\u") || !hex4(r, &low) || !(cp = utf16_pair(cp, low)))
			return bad(r, "half a surrogate pair");
	}
	r->pool += utf8_put(r->pool, cp);
	return 0;
}

static int read_escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	int c = peek(r);
	const char *f;

	if (c < 0)
		return bad(r, "a string that does not end");
	r->at++;
	if (c == 'u')
		return read_escaped_char(r);
	f = c ? strchr(from, c) : NULL;
	if (!f)
		return bad(r, "an unknown escape");
	*r->pool++ = to[f - from];
	return 0;
}

static int read_string(struct reader *r, const char **ret)
{
	char *from = r->pool;

	if (peek(r) != '"')
		return bad(r, "something else where a string belongs");
	r->at++;
	for (;;) {
		int c = peek(r), rc;
		size_t n;

		if (c < 0)
			return bad(r, "a string that does not end");
		if (c == '"')
			break;
		if (c < 0x20)
			return bad(r, "a control character in a string");
		if (c == '\\') {
			r->at++;
			rc = read_escape(r);
			if (rc < 0)
				return rc;
			continue;
		}
		n = utf8_len(r->p + r->at, r->n - r->at);
		if (n == 0)
			return bad(r, "text that is not UTF-8");
		memcpy(r->pool, r->p + r->at, n);
		r->pool += n;
		r->at += n;
	}
	r->at++;
	*r->pool++ = '\0';
	*ret = from;
	return 0;
}

/* ------------------------------------------------------------------ containers */

static int by_key(const void *a, const void *b)
{
	return strcmp((*(struct jnode *const *)a)->key, (*(struct jnode *const *)b)->key);
}

/* The list of children becomes a table; keys are put in order and must differ. */
static int settle(struct reader *r, struct jnode *node, struct jnode *first, bool keyed)
{
	size_t n = node->n, i = 0;
	struct jnode **sorted;

	node->kids = NULL;
	if (n == 0)
		return 0;
	node->kids = take(r, n * (keyed ? 2 : 1) * sizeof(*node->kids));
	if (!node->kids)
		return out_of_memory(r);
	for (; first; first = first->next)
		node->kids[i++] = first;
	if (!keyed)
		return 0;
	sorted = node->kids + n;
	memcpy(sorted, node->kids, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_key);
	for (i = 1; i < n; i++)
		if (str_eq(sorted[i - 1]->key, sorted[i]->key))
			return bad(r, "an object with the same key twice, which ends");
	return 0;
}

static int read_value(struct reader *r, struct jnode **ret);

static int read_member(struct reader *r, bool keyed, struct jnode **ret)
{
	const char *key = NULL;
	int rc;

	skip_blanks(r);
	if (keyed) {
		rc = read_string(r, &key);
		if (rc < 0)
			return rc;
		skip_blanks(r);
		if (peek(r) != ':')
			return bad(r, "no colon after a key");
		r->at++;
	}
	rc = read_value(r, ret);
	if (rc < 0)
		return rc;
	(*ret)->key = key;
	return 0;
}

static int read_container(struct reader *r, struct jnode *node, bool keyed)
{
	struct jnode *first = NULL, **end = &first;
	char close = keyed ? '}' : ']';
	int rc;

	if (r->depth >= JSONREAD_DEPTH_MAX)
		return bad(r, "too many levels");
	r->depth++;
	r->at++;
	node->type = keyed ? JOBJECT : JARRAY;
	skip_blanks(r);
	if (peek(r) == close) {
		r->at++;
		r->depth--;
		return settle(r, node, NULL, keyed);
	}
	for (;;) {
		rc = read_member(r, keyed, end);
		if (rc < 0)
			return rc;
		end = &(*end)->next;
		node->n++;
		skip_blanks(r);
		if (peek(r) == close)
			break;
		if (peek(r) != ',')
			return bad(r, "neither a comma nor the end");
		r->at++;
	}
	r->at++;
	r->depth--;
	return settle(r, node, first, keyed);
}

static int read_value(struct reader *r, struct jnode **ret)
{
	struct jnode *node;
	int c, rc = 0;

	skip_blanks(r);
	if (r->nodes >= JSONREAD_NODES_MAX)
		return bad(r, "too many values");
	node = take(r, sizeof(*node));
	if (!node)
		return out_of_memory(r);
	r->nodes++;
	*node = (struct jnode){.type = JNULL};
	c = peek(r);
	if (c == '{' || c == '[') {
		rc = read_container(r, node, c == '{');
	} else if (c == '"') {
		node->type = JSTRING;
		rc = read_string(r, &node->s);
	} else if (c == '-' || (c >= '0' && c <= '9')) {
		rc = read_number(r, node);
	} else if (word(r, "true") || word(r, "false")) {
		node->type = JBOOL;
		node->flag = c == 't';
	} else if (!word(r, "null")) {
		rc = bad(r, "no value");
	}
	if (rc < 0)
		return rc;
	*ret = node;
	return 0;
}

int jdoc_parse(struct jdoc **ret, const void *p, size_t n, struct err *e)
{
	cleanup_jdoc struct jdoc *d = NULL;
	struct reader r = {.p = p, .n = n, .e = e};
	int rc;

	if (n > JSONREAD_BYTES_MAX)
		return err_invalid(e, "a JSON document of %zu bytes is too long (at most %u)", n,
			JSONREAD_BYTES_MAX);
	d = calloc(1, sizeof(*d));
	if (!d)
		return out_of_memory(&r);
	d->text = malloc(n + 1);
	if (!d->text)
		return out_of_memory(&r);
	r.doc = d;
	r.pool = d->text;
	rc = read_value(&r, &d->root);
	if (rc < 0)
		return rc;
	skip_blanks(&r);
	if (r.at != n)
		return bad(&r, "something after the value");
	*ret = take_ptr(d);
	return 0;
}

/* ------------------------------------------------------------------ getters */

const struct jnode *jdoc_root(const struct jdoc *d)
{
	return d ? d->root : NULL;
}

enum jtype jtype(const struct jnode *n)
{
	return n ? (enum jtype)n->type : JNULL;
}

size_t jlen(const struct jnode *n)
{
	return n && (n->type == JARRAY || n->type == JOBJECT) ? n->n : 0;
}

const struct jnode *jget(const struct jnode *n, const char *key)
{
	size_t lo = 0, hi = jlen(n);

	if (jtype(n) != JOBJECT)
		return NULL;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = strcmp(n->kids[n->n + mid]->key, key);

		if (c == 0)
			return n->kids[n->n + mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

const struct jnode *jat(const struct jnode *n, size_t i)
{
	return i < jlen(n) ? n->kids[i] : NULL;
}

const char *jkey(const struct jnode *n, size_t i)
{
	return jtype(n) == JOBJECT && i < n->n ? n->kids[i]->key : NULL;
}

const char *jstr(const struct jnode *n)
{
	return jtype(n) == JSTRING ? n->s : NULL;
}

bool jint(const struct jnode *n, int64_t *ret)
{
	if (jtype(n) != JNUMBER || !n->flag)
		return false;
	*ret = n->i;
	return true;
}

bool jmilli(const struct jnode *n, int64_t *ret)
{
	if (jtype(n) != JNUMBER || (!n->flag && !n->milli))
		return false;
	if (n->flag && (n->i > INT64_MAX / 1000 || n->i < INT64_MIN / 1000))
		return false;
	*ret = n->flag ? n->i * 1000 : n->i;
	return true;
}

bool jtrue(const struct jnode *n)
{
	return jtype(n) == JBOOL && n->flag;
}
