/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loose objects of the stores: contents that were only looked at, or whose environment is gone.
 *
 * Kept:    what a ref of the store reaches (ledgers of directories without a repository), what any record
 *          below envs/ names, with everything in it, and what is younger than the grace. Records are not
 *          interpreted: every word in them that could be an object's name counts as one.
 * Order:   names of records -> trees and blobs among them -> everything these reach, by git -> the loose
 *          files that are not among that.
 * Failure: closed. A store in which something cannot be read keeps all it has.
 * Limits:  packs stay: they hold many small objects, and the large ones are loose.
 */
#include "env/env_gc_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "git/oid.h"
#include "git/program.h"
#include "os/path.h"
#include "os/tree.h"

#define RECORD_MAX_B ((size_t)64 << 20)
#define RECORDS_MAX 4000000u
#define NAMES_MAX_B ((size_t)256 << 20)
#define REACHED_MAX_B ((size_t)1 << 30)

/* ------------------------------------------------------------------ what records name */

struct names {
	int envs_fd;
	struct buf hex; /* one to a line */
	bool failed;
};

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static void add_words(struct buf *out, const char *p, size_t n)
{
	for (size_t i = 0, from; i < n;) {
		for (from = i; i < n && is_hex(p[i]);)
			i++;
		if (i - from == 40 || i - from == 64) {
			buf_add(out, p + from, i - from);
			buf_addc(out, '\n');
		}
		i += i == from;
	}
}

static bool add_record(void *arg, const char *path, const struct stat *st)
{
	cleanup_buf struct buf b = BUF_INIT(RECORD_MAX_B);
	cleanup_fd int fd = -1;
	struct names *x = arg;

	/* A layer's cache names what is staged, which is in the layer. */
	if (!S_ISREG(st->st_mode) || str_ends(path, "/stat-cache") || str_ends(path, ".trees"))
		return true;
	fd = path_open(x->envs_fd, path, O_RDONLY | O_NONBLOCK, PATH_NO_SYMLINKS | PATH_BENEATH);
	if (fd == -ENOENT) /* of a command that has just ended */
		return true;
	x->failed = fd < 0 || file_read_fd(fd, &b) < 0;
	if (!x->failed)
		add_words(&x->hex, buf_str(&b), b.len);
	x->failed |= x->hex.failed;
	return !x->failed;
}

static int read_names(struct names *x, const char *state, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_fd int fd = -1;

	buf_addf(&path, "%s/envs", state);
	fd = open(buf_str(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "open %s", buf_str(&path));
	x->envs_fd = fd;
	if (!tree_walk(fd, RECORDS_MAX, add_record, x) || x->failed)
		return err_set(e, EIO, "read what the records below %s name", buf_str(&path));
	return 0;
}

/* ------------------------------------------------------------------ what these reach */

/* Trees and blobs among the names; a commit is in a repository, and its history is not asked for. */
static int find_roots(const char *store, const struct names *x, struct buf *ret, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(REACHED_MAX_B);
	struct git_run r = {.argv = (const char *const[]){"cat-file",
				    "--batch-check=%(objecttype) %(objectname)", NULL},
		.git_dir = store,
		.in = x->hex.data,
		.in_n = x->hex.len,
		.out = &out};
	int rc = x->hex.len ? git_run(&r, e) : 0;

	for (const char *p = buf_str(&out); rc == 0 && *p;) {
		size_t n = strcspn(p, "\n");

		if ((str_starts(p, "tree ") || str_starts(p, "blob ")) && n > 5) {
			buf_add(ret, p + 5, n - 5);
			buf_addc(ret, '\n');
		}
		p += n + (p[n] == '\n');
	}
	return rc == 0 && ret->failed ? err_set(e, ENOMEM, "find what is in use") : rc;
}

static int find_reached(const char *store, const struct buf *roots, struct buf *ret, struct err *e)
{
	struct git_run r = {
		.argv = (const char *const[]){"rev-list", "--objects", "--no-object-names",
			"--missing=allow-any", "--all", "--stdin", NULL},
		.git_dir = store,
		.in = roots->len ? roots->data : "\n",
		.in_n = roots->len ? roots->len : 1,
		.out = ret};

	return git_run(&r, e);
}

/* ------------------------------------------------------------------ loose files */

struct loose {
	struct oid oid;
	uint64_t size_b;
	bool kept;
};

struct sweep {
	int64_t before; /* older ones may go */
	struct loose *v;
	size_t n, cap;
	uint64_t temps_n, temps_b;
	int objects_fd;
	bool dry_run, failed;
};

static bool add_loose(void *arg, const char *path, const struct stat *st)
{
	struct sweep *s = arg;
	char hex[OID_HEX_MAX + 1];
	struct oid o;

	if (!S_ISREG(st->st_mode) || st->st_mtim.tv_sec >= s->before)
		return true;
	if (str_starts(path, "tmp_obj_")) { /* of a croft that was killed */
		s->temps_n++;
		s->temps_b += (uint64_t)st->st_blocks * 512;
		if (!s->dry_run)
			unlinkat(s->objects_fd, path, 0);
		return true;
	}
	if (strlen(path) < 4 || strlen(path) > OID_HEX_MAX + 1 || path[2] != '/')
		return true;
	snprintf(hex, sizeof(hex), "%.2s%s", path, path + 3);
	if (!oid_parse(&o, hex, strlen(hex)))
		return true;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 256;
		struct loose *v = realloc(s->v, cap * sizeof(*v));

		s->failed = !v;
		if (!v)
			return false;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct loose){.oid = o, .size_b = (uint64_t)st->st_blocks * 512};
	return true;
}

static int by_oid(const void *a, const void *b)
{
	return memcmp(((const struct loose *)a)->oid.v, ((const struct loose *)b)->oid.v,
		sizeof(((const struct loose *)a)->oid.v));
}

static void keep_reached(struct sweep *s, const struct buf *reached)
{
	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_oid);
	for (const char *p = buf_str(reached); *p;) {
		size_t n = strcspn(p, "\n");
		struct loose key = {0}, *found;

		if (s->n && oid_parse(&key.oid, p, n)) {
			found = bsearch(&key, s->v, s->n, sizeof(*s->v), by_oid);
			if (found)
				found->kept = true;
		}
		p += n + (p[n] == '\n');
	}
}

static void remove_others(struct sweep *s, struct gc_objects *ret)
{
	for (size_t i = 0; i < s->n; i++) {
		struct oid_hex h = oid_hex(&s->v[i].oid);
		char name[OID_HEX_MAX + 4];

		if (s->v[i].kept)
			continue;
		snprintf(name, sizeof(name), "%.2s/%s", h.s, h.s + 2);
		if (!s->dry_run && unlinkat(s->objects_fd, name, 0) < 0)
			continue;
		ret->n++;
		ret->size_b += s->v[i].size_b;
	}
	ret->n += s->temps_n;
	ret->size_b += s->temps_b;
}

static int sweep_store(struct gc_objects *ret, const char *store, const struct names *x,
	struct sweep *s, struct err *e)
{
	cleanup_buf struct buf roots = BUF_INIT(NAMES_MAX_B), reached = BUF_INIT(REACHED_MAX_B);
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_fd int objects = -1;
	int r = 0;

	buf_addf(&path, "%s/objects", store);
	objects = s->objects_fd = open(buf_str(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (objects < 0)
		return err_set(e, errno, "open %s", buf_str(&path));
	if (!tree_walk(objects, RECORDS_MAX, add_loose, s) || s->failed)
		return err_set(e, ENOMEM, "list the objects of %s", store);
	if (s->n)
		r = find_roots(store, x, &roots, e);
	if (s->n && r == 0)
		r = find_reached(store, &roots, &reached, e);
	if (r < 0)
		return r;
	keep_reached(s, &reached);
	remove_others(s, ret);
	return 0;
}

int gc_stores(
	struct gc_objects *ret, const char *state, int64_t grace_s, bool dry_run, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	struct names x = {.envs_fd = -1, .hex = BUF_INIT(NAMES_MAX_B)};
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	int r;

	*ret = (struct gc_objects){0};
	buf_addf(&path, "%s/repos", state);
	d = opendir(buf_str(&path));
	r = d ? read_names(&x, state, e) : 0;
	while (r == 0 && d && (de = readdir(d))) {
		struct sweep s = {.before = (int64_t)time(NULL) - grace_s, .dry_run = dry_run};
		cleanup_buf struct buf store = BUF_INIT(PATH_MAX);
		struct err why = ERR_INIT;

		if (!str_hex(de->d_name, 16, 16))
			continue;
		buf_addf(&store, "%s/%s", buf_str(&path), de->d_name);
		if (sweep_store(ret, buf_str(&store), &x, &s, &why) < 0)
			ret->left++;
		free(s.v);
	}
	buf_done(&x.hex);
	return r;
}
