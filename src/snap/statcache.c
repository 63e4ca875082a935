/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stat cache's file: see statcache.h.
 *
 * Format:  magic, SHA-256 (hexadecimal) of the rest, digest of the context, then entries sorted by
 *          name: fixed part, name, NUL. Numbers are of this machine: the file never leaves it.
 * Name:    the digest of a path, for a command may put a secret into the name of a file, and the file is
 *          written where nothing is redacted.
 */
#include "snap/statcache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "os/path.h"

static const char magic[8] = "croftst2";
#define HEAD_B (sizeof(magic) + (size_t)2 * DIGEST_HEX_LEN)

struct fixed {
	uint64_t dev, ino, size;
	int64_t mtime_s, ctime_s;
	uint32_t mtime_ns, ctime_ns;
	uint32_t mode, bits;
	uint32_t name_n; /* without its NUL */
	uint8_t oid_n;
	uint8_t oid[32];
	uint8_t pad[3];
};

struct statcache {
	struct buf old; /* the file as read */
	size_t *at, n;  /* offsets of its entries, in order of name */
	struct buf now; /* entries for the next file, in order of their coming */
	size_t *now_at, now_n, now_cap;
	struct digest context;
	struct timespec began;
	bool keep;
};

static void fill(struct fixed *f, const struct stat *st)
{
	memset(f, 0, sizeof(*f));
	f->dev = (uint64_t)st->st_dev;
	f->ino = (uint64_t)st->st_ino;
	f->size = (uint64_t)st->st_size;
	f->mtime_s = (int64_t)st->st_mtim.tv_sec;
	f->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
	f->ctime_s = (int64_t)st->st_ctim.tv_sec;
	f->ctime_ns = (uint32_t)st->st_ctim.tv_nsec;
	f->mode = (uint32_t)st->st_mode;
}

static bool same(const struct fixed *a, const struct fixed *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns && a->ctime_s == b->ctime_s &&
	       a->ctime_ns == b->ctime_ns && a->mode == b->mode;
}

/* The entry at an offset of a buffer; NULL unless all of it is there. */
static const char *entry_at(const struct buf *b, size_t at, struct fixed *ret)
{
	if (at > b->len || b->len - at < sizeof(*ret))
		return NULL;
	memcpy(ret, b->data + at, sizeof(*ret));
	at += sizeof(*ret);
	if (ret->name_n >= b->len - at || b->data[at + ret->name_n] != '\0' ||
		memchr(b->data + at, '\0', ret->name_n))
		return NULL;
	if (ret->oid_n != 20 && ret->oid_n != 32)
		return NULL;
	return b->data + at;
}

/* Offsets of all entries, if the file is one of ours, whole, and for this context. */
static void load(struct statcache *c)
{
	struct digest d;
	const char *before = NULL;
	size_t at = HEAD_B, cap = 0;

	if (c->old.len < HEAD_B || memcmp(c->old.data, magic, sizeof(magic)) != 0)
		return;
	digest_sha256(&d, c->old.data + sizeof(magic) + DIGEST_HEX_LEN,
		c->old.len - sizeof(magic) - DIGEST_HEX_LEN);
	if (memcmp(c->old.data + sizeof(magic), d.hex, DIGEST_HEX_LEN) != 0 ||
		memcmp(c->old.data + sizeof(magic) + DIGEST_HEX_LEN, c->context.hex,
			DIGEST_HEX_LEN) != 0)
		return;
	while (at < c->old.len) {
		struct fixed f;
		const char *name = entry_at(&c->old, at, &f);

		if (c->n == cap) {
			size_t *v = realloc(c->at, (cap = cap ? cap * 2 : 256) * sizeof(*v));

			if (!v)
				name = NULL;
			else
				c->at = v;
		}
		if (!name || (before && strcmp(before, name) >= 0)) {
			c->n = 0;
			return;
		}
		c->at[c->n++] = at;
		before = name;
		at += sizeof(f) + f.name_n + 1;
	}
}

struct statcache *statcache_open(int dirfd, const char *name, const char *context)
{
	struct statcache *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->old = BUF_INIT(STATCACHE_MAX_B);
	c->now = BUF_INIT(STATCACHE_MAX_B);
	clock_gettime(CLOCK_REALTIME, &c->began);
	digest_sha256(&c->context, context, strlen(context));
	if (dirfd >= 0 && name) {
		cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		c->keep = true;
		if (fd >= 0 && file_read_fd(fd, &c->old) == 0)
			load(c);
	}
	return c;
}

void statcache_close(struct statcache *c)
{
	if (!c)
		return;
	buf_done(&c->old);
	buf_done(&c->now);
	free(c->at);
	free(c->now_at);
	free(c);
}

void statcache_closep(struct statcache **c)
{
	statcache_close(*c);
}

bool statcache_find(struct statcache *c, const char *path, const struct stat *st, struct oid *ret,
	uint32_t *ret_bits)
{
	size_t lo = 0, hi = c->n;
	struct fixed want;
	struct digest name;

	fill(&want, st);
	digest_sha256(&name, path, strlen(path));
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		struct fixed f;
		const char *p = entry_at(&c->old, c->at[mid], &f);
		int cmp = p ? strcmp(p, name.hex) : 0;

		if (!p)
			return false;
		if (cmp == 0) {
			struct oid o = {.n = f.oid_n};

			if (!same(&f, &want))
				return false;
			memcpy(o.v, f.oid, f.oid_n);
			*ret = o;
			*ret_bits = f.bits;
			statcache_put(c, path, st, &o, f.bits);
			return true;
		}
		if (cmp < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

/* Is its last change so recent that another may hide in the same tick? */
static bool racy(const struct statcache *c, const struct stat *st)
{
	long long age = (long long)(c->began.tv_sec - st->st_ctim.tv_sec) * 1000000000ll +
			(c->began.tv_nsec - st->st_ctim.tv_nsec);

	return age < STATCACHE_RACY_NS;
}

void statcache_put(struct statcache *c, const char *path, const struct stat *st,
	const struct oid *o, uint32_t bits)
{
	struct digest name;
	struct fixed f;

	if (!c->keep || racy(c, st) || o->n == 0)
		return;
	if (c->now_n == c->now_cap) {
		size_t cap = c->now_cap ? c->now_cap * 2 : 256;
		size_t *v = realloc(c->now_at, cap * sizeof(*v));

		if (!v)
			return;
		c->now_at = v;
		c->now_cap = cap;
	}
	fill(&f, st);
	f.bits = bits;
	f.name_n = DIGEST_HEX_LEN;
	digest_sha256(&name, path, strlen(path));
	f.oid_n = o->n;
	memcpy(f.oid, o->v, o->n);
	c->now_at[c->now_n++] = c->now.len;
	buf_add(&c->now, &f, sizeof(f));
	buf_add(&c->now, name.hex, f.name_n + 1u);
}

static int by_name(const void *a, const void *b, void *arg)
{
	const char *data = arg;

	return strcmp(data + *(const size_t *)a + sizeof(struct fixed),
		data + *(const size_t *)b + sizeof(struct fixed));
}

/* Of a name that was noted twice, the first is kept: offsets grow as entries are added. */
static int by_name_then_age(const void *a, const void *b, void *arg)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	int c = by_name(a, b, arg);

	return c ? c : (x > y) - (x < y);
}

void statcache_save(struct statcache *c, int dirfd, const char *name)
{
	cleanup_buf struct buf out = BUF_INIT(STATCACHE_MAX_B);
	struct digest d;

	if (!c->keep || c->now.failed)
		return;
	if (c->now_n)
		qsort_r(c->now_at, c->now_n, sizeof(*c->now_at), by_name_then_age, c->now.data);
	buf_add(&out, magic, sizeof(magic));
	buf_add(&out, c->context.hex, DIGEST_HEX_LEN); /* room for the digest of the rest */
	buf_add(&out, c->context.hex, DIGEST_HEX_LEN);
	for (size_t i = 0; i < c->now_n; i++) {
		struct fixed f;
		const char *p = entry_at(&c->now, c->now_at[i], &f);

		if (p && (i == 0 || by_name(&c->now_at[i - 1], &c->now_at[i], c->now.data) != 0))
			buf_add(&out, c->now.data + c->now_at[i], sizeof(f) + f.name_n + 1);
	}
	if (out.failed)
		return;
	digest_sha256(&d, out.data + sizeof(magic) + DIGEST_HEX_LEN,
		out.len - sizeof(magic) - DIGEST_HEX_LEN);
	memcpy(out.data + sizeof(magic), d.hex, DIGEST_HEX_LEN);
	if (out.len == c->old.len && memcmp(out.data, c->old.data, out.len) == 0)
		return;
	file_replace_at(dirfd, name, out.data, out.len, 0600);
}
