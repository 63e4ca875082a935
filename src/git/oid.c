/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Git objects: see oid.h. Hashes are libmd's. */
#include "git/oid.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "git/hash.h"

const char *const git_type_names[GIT_TYPE_NUM] = {
	[GIT_COMMIT] = "commit", [GIT_TREE] = "tree", [GIT_BLOB] = "blob", [GIT_TAG] = "tag"};
static_assert(GIT_TYPE_NUM == 4, "a type of object without a name");

size_t git_hash_len(enum git_hash h)
{
	return h == GIT_SHA256 ? 32 : 20;
}

bool oid_eq(const struct oid *a, const struct oid *b)
{
	return a->n == b->n && memcmp(a->v, b->v, MIN_OF(a->n, sizeof(a->v))) == 0;
}

bool oid_is_none(const struct oid *o)
{
	for (size_t i = 0; i < o->n && i < sizeof(o->v); i++)
		if (o->v[i])
			return false;
	return true;
}

struct oid_hex oid_hex(const struct oid *o)
{
	static const char hex[] = "0123456789abcdef";
	struct oid_hex ret = {0};

	for (size_t i = 0; i < o->n && i < sizeof(o->v); i++) {
		ret.s[2 * i] = hex[o->v[i] >> 4];
		ret.s[2 * i + 1] = hex[o->v[i] & 15];
	}
	return ret;
}

static int lower_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool oid_parse(struct oid *ret, const char *hex, size_t n)
{
	struct oid o = {.n = (uint8_t)(n / 2)};

	if (n != 40 && n != 64)
		return false;
	for (size_t i = 0; i < n / 2; i++) {
		int a = lower_digit(hex[2 * i]), b = lower_digit(hex[2 * i + 1]);

		if (a < 0 || b < 0)
			return false;
		o.v[i] = (uint8_t)(a << 4 | b);
	}
	*ret = o;
	return true;
}

void hasher_begin_plain(struct hasher *h, enum git_hash kind)
{
	h->kind = kind;
	if (kind == GIT_SHA256)
		SHA256Init(&h->sha256);
	else
		SHA1Init(&h->sha1);
}

void hasher_begin(struct hasher *h, enum git_hash kind, enum git_type t, uint64_t size)
{
	char head[HASHER_HEAD_MAX];

	hasher_begin_plain(h, kind);
	hasher_add(h, head, hasher_head(head, t, size));
}

size_t hasher_head(char head[HASHER_HEAD_MAX], enum git_type t, uint64_t size)
{
	int n = snprintf(
		head, HASHER_HEAD_MAX, "%s %llu", git_type_names[t], (unsigned long long)size);

	return (size_t)n + 1; /* with its NUL */
}

void hasher_add(struct hasher *h, const void *p, size_t n)
{
	if (n == 0)
		return;
	if (h->kind == GIT_SHA256)
		SHA256Update(&h->sha256, p, n);
	else
		SHA1Update(&h->sha1, p, n);
}

void hasher_end(struct hasher *h, struct oid *ret)
{
	struct oid o = {.n = (uint8_t)git_hash_len(h->kind)};

	if (h->kind == GIT_SHA256)
		SHA256Final(o.v, &h->sha256);
	else
		SHA1Final(o.v, &h->sha1);
	*ret = o;
}

void oid_of(struct oid *ret, enum git_hash h, enum git_type t, const void *p, size_t n)
{
	struct hasher s;

	hasher_begin(&s, h, t, n);
	hasher_add(&s, p, n);
	hasher_end(&s, ret);
}
