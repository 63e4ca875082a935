/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and strings as bytes: see pack.h. */
#include "base/pack.h"

#include <stdlib.h>
#include <string.h>

void pack_u32(struct buf *b, uint32_t v)
{
	const unsigned char le[4] = {(unsigned char)v, (unsigned char)(v >> 8),
		(unsigned char)(v >> 16), (unsigned char)(v >> 24)};

	buf_add(b, le, sizeof(le));
}

void pack_u64(struct buf *b, uint64_t v)
{
	pack_u32(b, (uint32_t)v);
	pack_u32(b, (uint32_t)(v >> 32));
}

void pack_bytes(struct buf *b, const void *p, size_t n)
{
	if (n > UINT32_MAX) {
		b->failed = true;
		return;
	}
	pack_u32(b, (uint32_t)n);
	buf_add(b, p, n);
	buf_addc(b, '\0');
}

void pack_str(struct buf *b, const char *s)
{
	pack_bytes(b, s ? s : "", s ? strlen(s) : 0);
}

void pack_list(struct buf *b, const char *const *v)
{
	uint32_t n = 0;

	while (v && v[n])
		n++;
	pack_u32(b, n);
	for (uint32_t i = 0; i < n; i++)
		pack_str(b, v[i]);
}

static const unsigned char *take(struct unpack *u, size_t n)
{
	const unsigned char *p = u->p;

	if (u->bad || (size_t)(u->end - u->p) < n) {
		u->bad = true;
		return NULL;
	}
	u->p += n;
	return p;
}

uint32_t unpack_u32(struct unpack *u)
{
	const unsigned char *p = take(u, 4);

	if (!p)
		return 0;
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t unpack_u64(struct unpack *u)
{
	uint64_t low = unpack_u32(u);

	return low | (uint64_t)unpack_u32(u) << 32;
}

const void *unpack_bytes(struct unpack *u, size_t max, size_t *ret_n)
{
	uint32_t n = unpack_u32(u);
	const unsigned char *p;

	*ret_n = 0;
	/* More than n must be left, so that n + 1 cannot wrap. */
	if (u->bad || n > max || (size_t)(u->end - u->p) <= n || u->p[n] != '\0') {
		u->bad = true;
		return NULL;
	}
	p = take(u, (size_t)n + 1);
	*ret_n = n;
	return p;
}

const char *unpack_str(struct unpack *u, size_t max)
{
	size_t n;
	const char *s = unpack_bytes(u, max, &n);

	if (s && memchr(s, '\0', n)) {
		u->bad = true;
		s = NULL;
	}
	return s ? s : "";
}

char **unpack_list(struct unpack *u, size_t max, size_t max_b, size_t *ret_n)
{
	uint32_t n = unpack_u32(u);
	char **v;

	*ret_n = 0;
	/* Each takes five bytes at least: a number that cannot be true asks for no memory. */
	if (u->bad || n > max || n > (size_t)(u->end - u->p) / 5) {
		u->bad = true;
		return NULL;
	}
	v = calloc((size_t)n + 1, sizeof(*v));
	for (uint32_t i = 0; v && i < n; i++) {
		const char *s = unpack_str(u, max_b);

		max_b -= strlen(s);
		v[i] = (char *)(uintptr_t)s;
	}
	if (!v || u->bad) {
		free(v);
		u->bad = true;
		return NULL;
	}
	*ret_n = n;
	return v;
}

bool unpack_good(const struct unpack *u)
{
	return !u->bad && u->p == u->end;
}
