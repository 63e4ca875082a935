/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indexes of packs: see pack_index.h.
 *
 * Format: gitformat-pack(5): magic, version 2, 256 counts (how many names begin with at most this
 *         byte), names in order, CRC-32s, offsets (the high bit: a place in the table of long ones),
 *         long offsets, the pack's trailer, the hash of all that. Numbers have their high byte first.
 * Limits: MAPS_MAX indexes are asked; an object in another pack is only written once more.
 */
#include "git/pack_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/hash.h"
#include "os/tree.h"

#define MAPS_MAX 4096u
#define FAN 256u
#define HEAD_B (8u + 4u * FAN)
#define LONG_FROM 0x80000000u

static const unsigned char magic[8] = {0xff, 't', 'O', 'c', 0, 0, 0, 2};

/* ------------------------------------------------------------------ making one */

static void add32(struct buf *b, uint32_t x)
{
	const unsigned char v[4] = {(unsigned char)(x >> 24), (unsigned char)(x >> 16),
		(unsigned char)(x >> 8), (unsigned char)x};

	buf_add(b, v, sizeof(v));
}

static int by_oid(const void *a, const void *b)
{
	const struct pack_entry *x = a, *y = b;

	return memcmp(x->oid.v, y->oid.v, sizeof(x->oid.v));
}

static void add_fan(const struct pack_entry *v, size_t n, struct buf *out)
{
	size_t k = 0;

	for (unsigned i = 0; i < FAN; i++) {
		while (k < n && v[k].oid.v[0] <= i)
			k++;
		add32(out, (uint32_t)k);
	}
}

static void add_offsets(const struct pack_entry *v, size_t n, struct buf *out)
{
	uint32_t longs = 0;

	for (size_t i = 0; i < n; i++)
		add32(out, v[i].at < LONG_FROM ? (uint32_t)v[i].at : LONG_FROM | longs++);
	for (size_t i = 0; i < n; i++) {
		if (v[i].at < LONG_FROM)
			continue;
		add32(out, (uint32_t)(v[i].at >> 32));
		add32(out, (uint32_t)v[i].at);
	}
}

void pack_index_make(
	struct pack_entry *v, size_t n, enum git_hash h, const struct oid *trailer, struct buf *out)
{
	struct hasher sum;
	struct oid own;

	if (n)
		qsort(v, n, sizeof(*v), by_oid);
	buf_add(out, magic, sizeof(magic));
	add_fan(v, n, out);
	for (size_t i = 0; i < n; i++)
		buf_add(out, v[i].oid.v, v[i].oid.n);
	for (size_t i = 0; i < n; i++)
		add32(out, v[i].crc);
	add_offsets(v, n, out);
	buf_add(out, trailer->v, trailer->n);
	if (out->failed)
		return;
	hasher_begin_plain(&sum, h);
	hasher_add(&sum, out->data, out->len);
	hasher_end(&sum, &own);
	buf_add(out, own.v, own.n);
}

/* ------------------------------------------------------------------ asking them */

static uint32_t get32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* How many names begin with at most this byte; none do with less than 0. */
static uint32_t fan(const struct pack_map *m, int byte)
{
	return byte < 0 ? 0 : get32(m->p + 8 + 4 * (size_t)byte);
}

static bool form_good(const struct pack_map *m, size_t oid_n)
{
	if (m->size < HEAD_B + 2 * oid_n || memcmp(m->p, magic, sizeof(magic)) != 0)
		return false;
	for (int i = 0; i < (int)FAN; i++)
		if (fan(m, i) < fan(m, i - 1))
			return false;
	return (m->size - HEAD_B - 2 * oid_n) / (oid_n + 8) >= fan(m, FAN - 1);
}

static bool has_pack(int dir_fd, const char *index)
{
	char name[NAME_MAX + 1];
	struct stat st;
	int n = snprintf(name, sizeof(name), "%.*s.pack", (int)(strlen(index) - 4), index);

	return n > 0 && n < (int)sizeof(name) && fstatat(dir_fd, name, &st, 0) == 0;
}

static int map_one(struct pack_indexes *x, int dir_fd, const char *name)
{
	cleanup_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct pack_map m;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= (off_t)HEAD_B)
		return 0; /* gone, or none */
	m.size = (size_t)st.st_size;
	m.p = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (m.p == MAP_FAILED)
		return -errno;
	if (form_good(&m, x->oid_n))
		x->v[x->n++] = m;
	else
		munmap((void *)m.p, m.size);
	return 0;
}

int pack_indexes_open(struct pack_indexes *ret, int dir_fd, enum git_hash h)
{
	struct pack_indexes x = {.oid_n = git_hash_len(h)};
	cleanup_dir DIR *d = dir_list(dir_fd, ".");
	struct dirent *de;
	int r = 0;

	if (!d)
		return -errno;
	x.v = calloc(MAPS_MAX, sizeof(*x.v));
	if (!x.v)
		return -ENOMEM;
	while (r == 0 && x.n < MAPS_MAX && (de = readdir(d)))
		if (str_starts(de->d_name, "pack-") && str_ends(de->d_name, ".idx") &&
			has_pack(dir_fd, de->d_name))
			r = map_one(&x, dir_fd, de->d_name);
	if (r < 0)
		pack_indexes_done(&x);
	else
		*ret = x;
	return r;
}

static bool has_one(const struct pack_map *m, const struct oid *o)
{
	uint32_t low = fan(m, o->v[0] - 1), high = fan(m, o->v[0]);

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		int c = memcmp(o->v, m->p + HEAD_B + (size_t)mid * o->n, o->n);

		if (c == 0)
			return true;
		if (c < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return false;
}

bool pack_indexes_have(const struct pack_indexes *x, const struct oid *o)
{
	for (size_t i = 0; i < x->n; i++)
		if (o->n == x->oid_n && has_one(&x->v[i], o))
			return true;
	return false;
}

void pack_indexes_done(struct pack_indexes *x)
{
	for (size_t i = 0; i < x->n; i++)
		munmap((void *)x->v[i].p, x->v[i].size);
	free(x->v);
	*x = (struct pack_indexes){0};
}
