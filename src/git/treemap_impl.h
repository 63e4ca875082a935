/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file behind a treemap, for treemap.c, treemap_make.c and tree_edit.c.
 *
 * Layout: head | directories, sorted by path | entry offsets | paths | raw trees. Numbers are those of
 *         the machine: the file never leaves it, and the magic number tells when it did. Offsets count
 *         from the start of their part.
 */
#ifndef CROFT_GIT_TREEMAP_IMPL_H
#define CROFT_GIT_TREEMAP_IMPL_H

#include "git/read.h"
#include "git/treemap.h"

#define TREEMAP_MAGIC 0x31306d7474666f72ull
#define TREEMAP_DIRS_MAX (16u << 20)
#define TREEMAP_PART_MAX ((uint64_t)4 << 30)

struct treemap_head {
	uint64_t magic;
	uint32_t hash, dirs_n;
	uint64_t entries_n, paths_b, raw_b;
	uint8_t root[32];
};

struct treemap_dir {
	uint64_t path, raw; /* offsets */
	uint64_t entries;   /* index of the first */
	uint32_t path_n, entries_n;
	uint64_t raw_n;
};

struct treemap {
	void *map;
	size_t size;
	const struct treemap_head *head;
	const struct treemap_dir *dirs;
	const uint32_t *entries; /* offset of each entry in its raw tree */
	const char *paths;
	const char *raw;
};

/* Git's order: bytewise, a directory as if its name ended with a slash. */
int tree_name_cmp(
	const char *a, size_t a_n, unsigned a_mode, const char *b, size_t b_n, unsigned b_mode);
/* ".", "..", ".git" in any case, empty, with a slash: not a name for an entry. */
bool tree_name_fine(const char *s, size_t n);

const struct treemap_dir *treemap_dir_find(const struct treemap *m, const char *path, size_t n);
bool treemap_entry(
	const struct treemap *m, const struct treemap_dir *d, uint32_t i, struct tree_entry *ret);
/* The position of a name in a directory, or -1. */
int64_t treemap_search(const struct treemap *m, const struct treemap_dir *d, const char *name,
	size_t n, struct tree_entry *ret);

#endif
