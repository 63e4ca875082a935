/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indexes of packs: any bytes in place of one, and one that is made here. Nothing outside of it is read;
 * what is said to be there is there; one that is made has all its names and no other.
 *
 * Input: bits (0: the hash; 1: the whole file follows; 7: objects to make one of follow, 2 bytes each);
 *        without those, 8 counts and what comes after a head that is made of them.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/pack_index.h"
#include "place.h"

#define FILE_MAX_B (1u << 20)
#define NAMES_MAX 256u
#define COUNTS_LEN 8u
#define INDEX "pack-1.idx"
#define PACK "pack-1.pack"

static bool open_file(const struct buf *b, enum git_hash h, struct pack_indexes *ret)
{
	const struct buf none = BUF_INIT(1);

	place_write(PACK, &none);
	place_write(INDEX, b);
	MUST(pack_indexes_open(ret, place_fd(), h) == 0 && ret->n <= 1);
	return ret->n == 1;
}

/* Magic and counts: of the names that begin with 0 to 7, of the others none. */
static void add_head(struct buf *out, const uint8_t *counts)
{
	uint32_t sum = 0;

	buf_add(out, "\xfftOc\0\0\0\2", 8);
	for (size_t i = 0; i < 256; i++) {
		uint8_t be[4];

		sum += i < COUNTS_LEN ? counts[i] : 0;
		be[0] = (uint8_t)(sum >> 24);
		be[1] = (uint8_t)(sum >> 16);
		be[2] = (uint8_t)(sum >> 8);
		be[3] = (uint8_t)sum;
		buf_add(out, be, sizeof(be));
	}
}

/* Asked in memory of exactly its size, where a sanitizer sees a read past its end. */
static void ask(const struct pack_indexes *x, const struct buf *file)
{
	cleanup_free unsigned char *p = malloc(file->len);
	struct pack_map map = {.p = p, .size = file->len};
	struct pack_indexes copy = {.v = &map, .n = 1, .oid_n = x->oid_n};

	MUST(p && x->v[0].size == file->len);
	memcpy(p, file->data, file->len);
	for (unsigned i = 0; i < 256; i++) {
		struct oid o = {.n = (uint8_t)x->oid_n, .v = {(uint8_t)i}};

		for (unsigned fill = 0; fill < 256; fill += 51) {
			memset(o.v + 1, (int)fill, x->oid_n - 1);
			if (pack_indexes_have(&copy, &o))
				MUST(memmem(p, file->len, o.v, o.n));
		}
	}
	/* A name of the other kind is never there. */
	MUST(!pack_indexes_have(&copy, &(struct oid){.n = (uint8_t)(52 - x->oid_n)}));
}

static void read_any(const uint8_t *data, size_t size, enum git_hash h, bool head)
{
	cleanup_buf struct buf file = BUF_INIT(FILE_MAX_B);
	struct pack_indexes x = {0};

	if (head && size < COUNTS_LEN)
		return;
	if (head)
		add_head(&file, data);
	buf_add(&file, data + (head ? COUNTS_LEN : 0), size - (head ? COUNTS_LEN : 0));
	if (file.failed)
		return;
	if (open_file(&file, h, &x))
		ask(&x, &file);
	pack_indexes_done(&x);
}

static void make_one(const uint8_t *data, size_t size, enum git_hash h)
{
	cleanup_buf struct buf file = BUF_INIT(FILE_MAX_B);
	struct oid trailer = {.n = (uint8_t)git_hash_len(h)}, other;
	struct pack_entry v[NAMES_MAX];
	struct pack_indexes x = {0};
	size_t n = MIN_OF(size / 2, NAMES_MAX);

	for (size_t i = 0; i < n; i++) {
		v[i] = (struct pack_entry){.oid = trailer, .at = (uint64_t)data[2 * i] << 24};
		v[i].oid.v[0] = data[2 * i];
		v[i].oid.v[trailer.n - 1] = (uint8_t)(data[2 * i + 1] | 1);
	}
	pack_index_make(v, n, h, &trailer, &file);
	MUST(open_file(&file, h, &x));
	ask(&x, &file);
	for (size_t i = 0; i < n; i++) {
		MUST(pack_indexes_have(&x, &v[i].oid));
		other = v[i].oid;
		other.v[trailer.n - 1] ^= 1;
		MUST(!pack_indexes_have(&x, &other));
	}
	pack_indexes_done(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum git_hash h;

	if (!size)
		return 0;
	h = data[0] & 1 ? GIT_SHA256 : GIT_SHA1;
	if (data[0] & 0x80)
		make_one(data + 1, size - 1, h);
	else
		read_any(data + 1, size - 1, h, !(data[0] & 2));
	return 0;
}
