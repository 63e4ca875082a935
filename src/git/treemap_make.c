/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a treemap from one listing of git: see treemap.h.
 *
 * Order:  `git ls-tree -r -t` names every directory before what is in it. So one stack of open
 *         directories is enough: each collects its raw tree, and is closed when the listing leaves it.
 * Trust:  a closed directory's bytes must hash to the name that its parent gave it. Where they do not
 *         (trees of very old versions of Git, whose modes the listing tidies up) the object itself is
 *         read, and must hash to it. So whatever the listing said, the result is that tree.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/program.h"
#include "git/treemap_impl.h"
#include "os/path.h"

#define LISTING_MAX ((size_t)2 << 30)
#define DEPTH_MAX 4096u
#define RAW_MAX ((size_t)1 << 30) /* one directory */

/* A directory while the listing is in it. */
struct open_dir {
	size_t path_n; /* of the path of whoever is on top */
	struct oid oid;
	struct buf raw;
};

struct maker {
	const struct repo *repo;
	struct git_reader *reader; /* only when an object must be read */
	struct open_dir *stack;
	size_t depth, cap;
	char path[PATH_MAX];
	struct treemap_dir *dirs;
	size_t dirs_n, dirs_cap;
	struct buf paths, raw, entries;
	struct err *e;
};

static void maker_done(struct maker *k)
{
	for (size_t i = 0; i < k->depth; i++)
		buf_done(&k->stack[i].raw);
	free(k->stack);
	free(k->dirs);
	buf_done(&k->paths);
	buf_done(&k->raw);
	buf_done(&k->entries);
	git_reader_close(k->reader);
}

static int bad_tree(struct maker *k, const char *what)
{
	cleanup_buf struct buf shown = BUF_INIT(8 * PATH_MAX);

	str_show(&shown, k->path, strlen(k->path));
	return err_invalid(k->e, "the commit has a directory \"%.300s\" that croft cannot use: %s",
		buf_str(&shown), what);
}

/* ------------------------------------------------------------------ opening and closing directories */

static int open_dir(struct maker *k, const char *path, size_t n, const struct oid *oid)
{
	if (k->depth >= DEPTH_MAX || n >= sizeof(k->path))
		return bad_tree(k, "too deep");
	if (k->depth == k->cap) {
		size_t cap = k->cap ? 2 * k->cap : 32;
		struct open_dir *s = realloc(k->stack, cap * sizeof(*s));

		if (!s)
			return err_set(k->e, ENOMEM, "read the tree");
		k->stack = s;
		k->cap = cap;
	}
	memcpy(k->path, path, n);
	k->path[n] = '\0';
	k->stack[k->depth++] =
		(struct open_dir){.path_n = n, .oid = *oid, .raw = BUF_INIT(RAW_MAX)};
	return 0;
}

/* The entries of a finished directory: in order, each name once, whatever it is. */
static int index_dir(struct maker *k, const struct buf *raw, uint32_t *ret_n)
{
	struct tree_entry prev = {0}, t;
	struct treemap_dir d = {.raw_n = raw->len};
	struct treemap m = {
		.raw = raw->data, .head = &(struct treemap_head){.hash = k->repo->hash}};
	size_t at = 0, from = k->entries.len;
	int r;

	for (;;) {
		uint32_t offset = (uint32_t)at;

		r = git_tree_next(raw->data, raw->len, k->repo->hash, &at, &t);
		if (r <= 0)
			break;
		if (!tree_name_fine(t.name, t.name_n))
			return bad_tree(k, "it has an entry \".git\"");
		if (prev.name && tree_name_cmp(prev.name, prev.name_n, prev.mode, t.name, t.name_n,
					 t.mode) >= 0)
			return bad_tree(k, "its entries are not in order");
		buf_add(&k->entries, &offset, sizeof(offset));
		prev = t;
		d.entries_n++;
	}
	if (r < 0)
		return bad_tree(k, "it has an entry with a bad name or mode");
	if (k->entries.failed)
		return err_set(k->e, ENOMEM, "read the tree");
	/* A file and a directory of one name need not be neighbours. */
	m.entries = (const uint32_t *)(const void *)(buf_str(&k->entries) + from);
	for (uint32_t i = 0; i < d.entries_n; i++) {
		struct tree_entry other;

		if (!treemap_entry(&m, &d, i, &t) || t.mode != 0040000)
			continue;
		if (treemap_search(&m, &d, t.name, t.name_n, &other) != (int64_t)i)
			return bad_tree(k, "it has two entries of one name");
	}
	*ret_n = d.entries_n;
	return 0;
}

/* The raw tree as it really is. */
static int settle_raw(struct maker *k, struct open_dir *o)
{
	struct oid is;
	int r;

	oid_of(&is, k->repo->hash, GIT_TREE, o->raw.data ? o->raw.data : "", o->raw.len);
	if (oid_eq(&is, &o->oid))
		return 0;
	if (!k->reader) {
		r = git_reader_open(&k->reader, k->repo->store, k->e);
		if (r < 0)
			return r;
	}
	buf_reset(&o->raw);
	return git_read_oid(k->reader, &o->oid, GIT_TREE, &o->raw, k->e);
}

static int close_dir(struct maker *k)
{
	struct open_dir *o = &k->stack[k->depth - 1];
	struct treemap_dir *d;
	uint32_t entries_n = 0;
	size_t first;
	int r;

	k->path[o->path_n] = '\0';
	r = settle_raw(k, o);
	if (r < 0)
		return r;
	if (k->dirs_n == k->dirs_cap) {
		size_t cap = k->dirs_cap ? 2 * k->dirs_cap : 256;

		d = cap <= TREEMAP_DIRS_MAX ? realloc(k->dirs, cap * sizeof(*d)) : NULL;
		if (!d)
			return err_set(k->e, ENOMEM, "read the tree");
		k->dirs = d;
		k->dirs_cap = cap;
	}
	first = k->entries.len / sizeof(uint32_t);
	r = index_dir(k, &o->raw, &entries_n);
	if (r < 0)
		return r;
	k->dirs[k->dirs_n++] = (struct treemap_dir){.path = k->paths.len,
		.path_n = (uint32_t)o->path_n,
		.raw = k->raw.len,
		.raw_n = o->raw.len,
		.entries = first,
		.entries_n = entries_n};
	buf_add(&k->paths, k->path, o->path_n);
	buf_add(&k->raw, o->raw.data, o->raw.len);
	buf_done(&o->raw);
	k->depth--;
	return k->paths.failed || k->raw.failed ? err_set(k->e, ENOMEM, "read the tree") : 0;
}

/* ------------------------------------------------------------------ the listing */

/* "MODE TYPE NAME\tPATH", NUL-terminated. */
static bool parse_record(const char *s, size_t hash_n, unsigned *ret_mode, struct oid *ret_oid,
	const char **ret_path)
{
	unsigned mode = 0;
	size_t n;

	for (; *s >= '0' && *s <= '7' && mode <= 0177777; s++)
		mode = mode << 3 | (unsigned)(*s - '0');
	if (*s++ != ' ')
		return false;
	n = strcspn(s, " ");
	if (!s[n])
		return false;
	s += n + 1;
	n = strcspn(s, "\t");
	if (!s[n] || n != 2 * hash_n || !oid_parse(ret_oid, s, n))
		return false;
	*ret_mode = mode;
	*ret_path = s + n + 1;
	return true;
}

/* Leave directories until the one on top is the parent of this path. */
static int leave_for(struct maker *k, const char *path, size_t parent_n)
{
	while (k->depth > 1) {
		size_t top = k->stack[k->depth - 1].path_n;
		int r;

		if (top == parent_n && memcmp(k->path, path, parent_n) == 0)
			return 0;
		r = close_dir(k);
		if (r < 0)
			return r;
	}
	return parent_n == 0 ? 0 : bad_tree(k, "the listing of git is out of order");
}

static int take_record(struct maker *k, const char *record)
{
	const char *path, *slash, *name;
	struct open_dir *top;
	struct oid oid;
	unsigned mode;
	int r;

	if (!parse_record(record, git_hash_len(k->repo->hash), &mode, &oid, &path))
		return err_set(k->e, EBADMSG, "read the listing of git");
	slash = strrchr(path, '/');
	name = slash ? slash + 1 : path;
	if (!tree_name_fine(name, strlen(name)))
		return bad_tree(k, "it has an entry with a bad name");
	r = leave_for(k, path, slash ? (size_t)(slash - path) : 0);
	if (r < 0)
		return r;
	top = &k->stack[k->depth - 1];
	buf_addf(&top->raw, "%o %s", mode, name);
	buf_add(&top->raw, "", 1);
	buf_add(&top->raw, oid.v, oid.n);
	if (top->raw.failed)
		return err_set(k->e, EFBIG, "a directory of the commit");
	return mode == 0040000 ? open_dir(k, path, strlen(path), &oid) : 0;
}

static int take_listing(struct maker *k, const struct oid *tree)
{
	cleanup_buf struct buf out = BUF_INIT(LISTING_MAX);
	struct oid_hex hex = oid_hex(tree);
	struct git_run run = {.argv = (const char *const[]){"ls-tree", "-r", "-t", "-z",
				      "--full-tree", hex.s, NULL},
		.git_dir = k->repo->store,
		.out = &out};
	int r;

	r = open_dir(k, "", 0, tree);
	if (r == 0)
		r = git_run(&run, k->e);
	if (r < 0)
		return r;
	if (out.len && out.data[out.len - 1] != '\0')
		return err_set(k->e, EBADMSG, "read the listing of git");
	for (size_t at = 0; at < out.len; at += strlen(out.data + at) + 1) {
		r = take_record(k, out.data + at);
		if (r < 0)
			return r;
	}
	while (k->depth > 0) {
		r = close_dir(k);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ------------------------------------------------------------------ the file */

static int by_path(const void *a, const void *b, void *arg)
{
	const struct treemap_dir *x = a, *y = b;
	const char *paths = ((struct maker *)arg)->paths.data;
	int c;

	if (x->path_n && y->path_n) {
		c = memcmp(paths + x->path, paths + y->path, MIN_OF(x->path_n, y->path_n));
		if (c)
			return c;
	}
	return (x->path_n > y->path_n) - (x->path_n < y->path_n);
}

static int write_parts(struct maker *k, const struct oid *tree, int fd)
{
	struct treemap_head h = {.magic = TREEMAP_MAGIC,
		.hash = k->repo->hash,
		.dirs_n = (uint32_t)k->dirs_n,
		.entries_n = k->entries.len / sizeof(uint32_t),
		.paths_b = k->paths.len,
		.raw_b = k->raw.len};
	int r;

	memcpy(h.root, tree->v, tree->n);
	r = fd_write_all(fd, &h, sizeof(h));
	if (r == 0)
		r = fd_write_all(fd, k->dirs, k->dirs_n * sizeof(*k->dirs));
	if (r == 0)
		r = fd_write_all(fd, buf_str(&k->entries), k->entries.len);
	if (r == 0)
		r = fd_write_all(fd, buf_str(&k->paths), k->paths.len);
	if (r == 0)
		r = fd_write_all(fd, buf_str(&k->raw), k->raw.len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r;
}

static int write_file(struct maker *k, const struct oid *tree, int dirfd, const char *name)
{
	static atomic_uint serial;
	cleanup_fd int fd = -1;
	char temp[NAME_MAX + 1];
	int r;

	if (snprintf(temp, sizeof(temp), ".%.200s.%d.%u.tmp", name, getpid(),
		    atomic_fetch_add(&serial, 1)) >= (int)sizeof(temp))
		return err_set(k->e, ENAMETOOLONG, "write %s", name);
	unlinkat(dirfd, temp, 0); /* left by a process that died with our number */
	fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(k->e, errno, "write %s", name);
	r = write_parts(k, tree, fd);
	if (r == 0 && renameat(dirfd, temp, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dirfd, temp, 0);
		return err_set(k->e, -r, "write %s", name);
	}
	return 0;
}

int treemap_make(
	const struct repo *r, const struct oid *tree, int dirfd, const char *name, struct err *e)
{
	__attribute__((cleanup(maker_done))) struct maker k = {.repo = r, .e = e};
	int rc;

	k.paths = BUF_INIT(TREEMAP_PART_MAX);
	k.raw = BUF_INIT(TREEMAP_PART_MAX);
	k.entries = BUF_INIT(TREEMAP_PART_MAX);
	if (tree->n != git_hash_len(r->hash))
		return err_invalid(
			e, "%s is not the name of a tree of this repository", oid_hex(tree).s);
	rc = take_listing(&k, tree);
	if (rc < 0)
		return rc;
	qsort_r(k.dirs, k.dirs_n, sizeof(*k.dirs), by_path, &k);
	return write_file(&k, tree, dirfd, name);
}
