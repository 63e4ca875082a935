/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes of packs, version 2: made for one that is written, and asked what those that are there have. */
#ifndef CROFT_GIT_PACK_INDEX_H
#define CROFT_GIT_PACK_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "git/oid.h"

struct pack_entry {
	struct oid oid;
	uint32_t crc; /* of its bytes in the pack */
	uint64_t at;
};

/* Sorts the entries. trailer: the pack's. */
void pack_index_make(struct pack_entry *v, size_t n, enum git_hash h, const struct oid *trailer,
	struct buf *out);

struct pack_indexes {
	struct pack_map {
		const unsigned char *p;
		size_t size;
	} * v;
	size_t n;
	size_t oid_n;
};

/* Those in an objects/pack directory whose pack is there; what is not of this form is passed over. */
int pack_indexes_open(struct pack_indexes *ret, int dir_fd, enum git_hash h);
bool pack_indexes_have(const struct pack_indexes *x, const struct oid *o);
void pack_indexes_done(struct pack_indexes *x);

#endif
