/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a base's trees, damaged in any way, and trees edited over it. Nothing outside of it is
 * read; in a directory whose names are in order every one is found, as what it is; without edits the
 * root stays; a tree with something put somewhere is another one than without.
 *
 * Input: the hash, the number of directories, the number of entries (2 bytes), then directories (path, its
 *        length; first entry, their number; start and length of the raw tree: 6 bytes), offsets (1 byte
 *        each), 64 bytes of paths, the rest is raw trees. Or, with 0xff first, the file as it is.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/treemap_impl.h"
#include "place.h"

#define FILE_MAX_B (1u << 20)
#define HEAD_LEN 4u
#define DIR_LEN 6u
#define PATHS_LEN 64u
#define AS_IT_IS 0xffu

/* A file whose parts are where its head says: most of the ways to be damaged come after that. */
static void make(const uint8_t *data, size_t size, struct buf *out)
{
	struct treemap_head h = {.magic = TREEMAP_MAGIC, .paths_b = PATHS_LEN};
	const uint8_t *dirs = data + HEAD_LEN, *offsets, *end = data + size;

	if (size < HEAD_LEN)
		return;
	h.hash = data[0] % 2;
	h.dirs_n = data[1];
	h.entries_n = data[2] | (uint64_t)data[3] << 8;
	if (size - HEAD_LEN < h.dirs_n * DIR_LEN + h.entries_n + PATHS_LEN)
		return;
	offsets = dirs + h.dirs_n * DIR_LEN;
	h.raw_b = (uint64_t)(end - offsets) - h.entries_n - PATHS_LEN;
	memset(h.root, 0x11, sizeof(h.root));
	buf_add(out, &h, sizeof(h));
	for (size_t i = 0; i < h.dirs_n; i++) {
		const uint8_t *d = dirs + i * DIR_LEN;
		struct treemap_dir x = {.path = d[0],
			.path_n = d[1],
			.entries = d[2],
			.entries_n = d[3],
			.raw = d[4],
			.raw_n = d[5]};

		buf_add(out, &x, sizeof(x));
	}
	for (size_t i = 0; i < h.entries_n; i++)
		buf_add(out, &(uint32_t){offsets[i]}, sizeof(uint32_t));
	buf_add(out, offsets + h.entries_n, (size_t)(end - offsets) - h.entries_n);
}

/* ------------------------------------------------------------------ looking */

struct seen {
	const struct treemap *m;
	size_t n;
};

static int visit(void *arg, const char *name, unsigned mode, const struct oid *o)
{
	struct seen *s = arg;

	MUST(name >= s->m->raw && name + strlen(name) < s->m->raw + s->m->head->raw_b);
	MUST(*name && !strchr(name, '/') && mode && o->n == git_hash_len(treemap_hash(s->m)));
	s->n++;
	return 0;
}

/* Are all its names there, each after the one before, and none twice as file and directory? */
static bool in_order(const struct treemap *m, const struct treemap_dir *d)
{
	struct tree_entry t, b = {0};

	for (uint32_t i = 0; i < d->entries_n; i++, b = t) {
		if (!treemap_entry(m, d, i, &t))
			return false;
		if (i && tree_name_cmp(b.name, b.name_n, b.mode, t.name, t.name_n, t.mode) >= 0)
			return false;
		for (uint32_t k = 0; k < i; k++) {
			MUST(treemap_entry(m, d, k, &b));
			if (b.name_n == t.name_n && memcmp(b.name, t.name, t.name_n) == 0)
				return false;
		}
	}
	return true;
}

static void find_all(const struct treemap *m, const struct treemap_dir *d)
{
	cleanup_buf struct buf path = BUF_INIT(FILE_MAX_B);
	struct tree_entry t;

	if (memchr(m->paths + d->path, '\0', d->path_n) || !in_order(m, d))
		return;
	for (uint32_t i = 0; i < d->entries_n; i++) {
		struct oid o = {0};
		unsigned mode;

		MUST(treemap_entry(m, d, i, &t));
		buf_reset(&path);
		buf_add(&path, m->paths + d->path, d->path_n);
		if (d->path_n)
			buf_addc(&path, '/');
		buf_add(&path, t.name, t.name_n);
		mode = treemap_find(m, buf_str(&path), &o);
		MUST(mode == (t.mode == 0100664 ? 0100644 : t.mode) && oid_eq(&o, &t.oid));
	}
}

static void look(const struct treemap *m)
{
	struct oid o;

	treemap_root(m, &o);
	MUST(treemap_find(m, "", &o) == 0040000 && o.n == git_hash_len(treemap_hash(m)));
	treemap_find(m, "a/b/c", &o);
	for (uint32_t i = 0; i < m->head->dirs_n; i++) {
		const struct treemap_dir *d = &m->dirs[i];
		cleanup_free char *path = strndup(m->paths + d->path, d->path_n);
		struct seen s = {.m = m};
		int r;

		MUST(path && treemap_dir_find(m, m->paths + d->path, d->path_n) == d);
		r = treemap_list(m, path, visit, &s);
		MUST(r < 0 || strlen(path) < d->path_n || s.n == d->entries_n);
		find_all(m, d);
	}
}

/* ------------------------------------------------------------------ editing */

static int edited(const struct treemap *m, const char *path, unsigned mode, struct oid *ret)
{
	struct git_store s = {.objects_fd = -1, .hash = treemap_hash(m)};
	struct oid o = {.n = (uint8_t)git_hash_len(s.hash), .v = {0x42}};
	struct tree_edit v[] = {{path, mode, o}, {"z/deep/er", 0, {0}}, {path, mode, o}};
	struct err e = ERR_INIT;
	int r = tree_edit(m, v, mode ? 1 : ARRAY_SIZE(v), &s, ret, &e);

	MUST(r == 0 || (e.kind != ERR_NONE && e.msg[0]));
	return r;
}

static void edit(const struct treemap *m)
{
	static const char *const paths[] = {"a", "b", "sub/a", "sub/new/x", "sub"};
	struct git_store s = {.objects_fd = -1, .hash = treemap_hash(m)};
	struct oid root, now, again;
	struct err e = ERR_INIT;

	treemap_root(m, &root);
	MUST(tree_edit(m, NULL, 0, &s, &now, &e) == 0 && oid_eq(&now, &root));
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		int put = edited(m, paths[i], 0100644, &now);
		int gone = edited(m, paths[i], 0, &again);

		MUST(put < 0 || gone < 0 || !oid_eq(&now, &again));
	}
}

/* The same, in memory of exactly its size, where a sanitizer sees a read past its end. */
static void exactly(const struct treemap *m)
{
	cleanup_free char *p = malloc(m->size);
	struct treemap copy = {.map = p, .size = m->size};

	MUST(p);
	memcpy(p, m->map, m->size);
	copy.head = (const struct treemap_head *)(const void *)p;
	copy.dirs = (const struct treemap_dir *)(copy.head + 1);
	copy.entries = (const uint32_t *)(copy.dirs + copy.head->dirs_n);
	copy.paths = (const char *)(copy.entries + copy.head->entries_n);
	copy.raw = copy.paths + copy.head->paths_b;
	MUST(copy.raw + copy.head->raw_b == p + m->size);
	look(&copy);
	edit(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf file = BUF_INIT(FILE_MAX_B);
	cleanup_treemap struct treemap *m = NULL;
	struct err e = ERR_INIT;

	if (size && data[0] == AS_IT_IS)
		buf_add(&file, data + 1, size - 1);
	else
		make(data, size, &file);
	place_write("trees", &file);
	if (treemap_open(&m, place_fd(), "trees", &e) < 0)
		MUST(e.kind != ERR_NONE && e.msg[0]);
	else
		exactly(m);
	return 0;
}
