/* SPDX-License-Identifier: Apache-2.0 */
/* Looking things up in a treemap: see treemap.h, and treemap_impl.h for the file. */
#include "git/treemap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/treemap_impl.h"
#include "os/path.h"

int tree_name_cmp(
	const char *a, size_t a_n, unsigned a_mode, const char *b, size_t b_n, unsigned b_mode)
{
	size_t n = MIN_OF(a_n, b_n);
	int c = memcmp(a, b, n);
	unsigned char x, y;

	if (c)
		return c;
	x = a_n > n ? (unsigned char)a[n] : a_mode == 0040000 ? '/' : 0;
	y = b_n > n ? (unsigned char)b[n] : b_mode == 0040000 ? '/' : 0;
	return (x > y) - (x < y);
}

bool tree_name_fine(const char *s, size_t n)
{
	if (n == 0 || memchr(s, '/', n) || memchr(s, '\0', n))
		return false;
	if (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')))
		return false;
	return !(n == 4 && strncasecmp(s, ".git", 4) == 0);
}

/* ------------------------------------------------------------------ the file */

static bool dir_fine(const struct treemap *m, uint32_t i)
{
	const struct treemap_head *h = m->head;
	const struct treemap_dir *d = &m->dirs[i];

	if (d->path > h->paths_b || d->path_n > h->paths_b - d->path || d->raw > h->raw_b ||
		d->raw_n > h->raw_b - d->raw || d->entries > h->entries_n ||
		d->entries_n > h->entries_n - d->entries)
		return false;
	if (i == 0)
		return d->path_n == 0;
	/* Sorted, or a search would miss what is there. */
	{
		const struct treemap_dir *b = d - 1;
		int c = memcmp(
			m->paths + b->path, m->paths + d->path, MIN_OF(b->path_n, d->path_n));

		return c < 0 || (c == 0 && b->path_n < d->path_n);
	}
}

static bool parts_fine(struct treemap *m)
{
	const struct treemap_head *h = m->map;
	uint64_t want = sizeof(*h);

	if (m->size < sizeof(*h) || h->magic != TREEMAP_MAGIC || h->hash > GIT_SHA256)
		return false;
	if (h->dirs_n == 0 || h->dirs_n > TREEMAP_DIRS_MAX || h->entries_n > TREEMAP_PART_MAX ||
		h->paths_b > TREEMAP_PART_MAX || h->raw_b > TREEMAP_PART_MAX)
		return false;
	want += (uint64_t)h->dirs_n * sizeof(*m->dirs) + h->entries_n * sizeof(*m->entries) +
		h->paths_b + h->raw_b;
	if (want != m->size)
		return false;
	m->head = h;
	m->dirs = (const struct treemap_dir *)(h + 1);
	m->entries = (const uint32_t *)(m->dirs + h->dirs_n);
	m->paths = (const char *)(m->entries + h->entries_n);
	m->raw = m->paths + h->paths_b;
	for (uint32_t i = 0; i < h->dirs_n; i++)
		if (!dir_fine(m, i))
			return false;
	return true;
}

int treemap_open(struct treemap **ret, int dirfd, const char *name, struct err *e)
{
	cleanup_treemap struct treemap *m = NULL;
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "open %s", name);
	m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, ENOMEM, "open %s", name);
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct treemap_head))
		return err_set(
			e, EBADMSG, "%s is damaged; remove it, and croft makes it again", name);
	m->size = (size_t)st.st_size;
	m->map = mmap(NULL, m->size, PROT_READ, MAP_SHARED, fd, 0);
	if (m->map == MAP_FAILED) {
		m->map = NULL;
		return err_set(e, errno, "map %s", name);
	}
	if (!parts_fine(m))
		return err_set(
			e, EBADMSG, "%s is damaged; remove it, and croft makes it again", name);
	*ret = take_ptr(m);
	return 0;
}

void treemap_close(struct treemap *m)
{
	if (!m)
		return;
	if (m->map)
		munmap(m->map, m->size);
	free(m);
}

void treemap_closep(struct treemap **m)
{
	treemap_close(*m);
}

enum git_hash treemap_hash(const struct treemap *m)
{
	return (enum git_hash)m->head->hash;
}

void treemap_root(const struct treemap *m, struct oid *ret)
{
	*ret = (struct oid){.n = (uint8_t)git_hash_len(treemap_hash(m))};
	memcpy(ret->v, m->head->root, ret->n);
}

/* ------------------------------------------------------------------ finding */

const struct treemap_dir *treemap_dir_find(const struct treemap *m, const char *path, size_t n)
{
	size_t lo = 0, hi = m->head->dirs_n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct treemap_dir *d = &m->dirs[mid];
		int c = memcmp(m->paths + d->path, path, MIN_OF((size_t)d->path_n, n));

		if (c == 0)
			c = (d->path_n > n) - (d->path_n < n);
		if (c == 0)
			return d;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

bool treemap_entry(
	const struct treemap *m, const struct treemap_dir *d, uint32_t i, struct tree_entry *ret)
{
	size_t at = m->entries[d->entries + i];

	return git_tree_next(m->raw + d->raw, d->raw_n, treemap_hash(m), &at, ret) == 1;
}

/* As what it would be sorted: a directory and a file of one name are in different places. */
static int64_t search_as(const struct treemap *m, const struct treemap_dir *d, const char *name,
	size_t n, unsigned mode, struct tree_entry *ret)
{
	uint32_t lo = 0, hi = d->entries_n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int c;

		if (!treemap_entry(m, d, mid, ret))
			return -1;
		c = tree_name_cmp(ret->name, ret->name_n, ret->mode, name, n, mode);
		if (c == 0)
			return ret->name_n == n ? (int64_t)mid : -1;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return -1;
}

int64_t treemap_search(const struct treemap *m, const struct treemap_dir *d, const char *name,
	size_t n, struct tree_entry *ret)
{
	int64_t at = search_as(m, d, name, n, 0100644, ret);

	return at >= 0 ? at : search_as(m, d, name, n, 0040000, ret);
}

/* 0100664 is an ordinary file, written by a very old Git. */
static unsigned shown_mode(unsigned mode)
{
	return mode == 0100664 ? 0100644 : mode;
}

unsigned treemap_find(const struct treemap *m, const char *path, struct oid *ret)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const struct treemap_dir *d;
	struct tree_entry t;

	if (!*path) {
		treemap_root(m, ret);
		return 0040000;
	}
	d = treemap_dir_find(m, path, slash ? (size_t)(slash - path) : 0);
	if (!d || treemap_search(m, d, name, strlen(name), &t) < 0)
		return 0;
	*ret = t.oid;
	return shown_mode(t.mode);
}

int treemap_list(const struct treemap *m, const char *dir,
	int (*visit)(void *arg, const char *name, unsigned mode, const struct oid *o), void *arg)
{
	const struct treemap_dir *d = treemap_dir_find(m, dir, strlen(dir));

	if (!d)
		return 0;
	for (uint32_t i = 0; i < d->entries_n; i++) {
		struct tree_entry t;
		int r;

		if (!treemap_entry(m, d, i, &t))
			return -EBADMSG;
		/* In a raw tree every name ends with a NUL, which git_tree_next has seen. */
		r = visit(arg, t.name, shown_mode(t.mode), &t.oid);
		if (r)
			return r;
	}
	return 0;
}
