/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading refs: see repo.h.
 *
 * Order:  a ref's own file first, then packed-refs. Packing writes packed-refs before it removes the
 *         file, so in this order a ref that is being packed is always seen.
 * Limits: a name has REF_NAME_MAX bytes, packed-refs PACKED_MAX, a listing REFS_MAX.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/repo_impl.h"
#include "os/path.h"
#include "os/tree.h"

#define PACKED_MAX ((size_t)256 << 20)
#define REFS_MAX 1000000u
#define WALK_TRIES 5

/* What git-check-ref-format(1) says, for full names below refs/. */
bool ref_name_fine(const char *ref)
{
	size_t n = strlen(ref);

	if (!str_starts(ref, "refs/") || n >= REF_NAME_MAX || ref[n - 1] == '/' ||
		ref[n - 1] == '.')
		return false;
	if (strstr(ref, "..") || strstr(ref, "//") || strstr(ref, "@{"))
		return false;
	for (const char *p = ref; *p; p++) {
		if ((unsigned char)*p < 0x21 || *p == 0x7f || strchr("~^:?*[\\", *p))
			return false;
		if (*p == '/' && p[1] == '.')
			return false;
	}
	for (const char *p = ref; (p = strstr(p, ".lock")); p++)
		if (p[5] == '/' || !p[5])
			return false;
	return true;
}

int ref_dir_open(const struct repo *r, struct err *e)
{
	int fd = open(repo_ledger_dir(r), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_set(e, errno, "open %s", repo_ledger_dir(r)) : fd;
}

int ref_read_loose(int dir_fd, const char *ref, struct oid *ret)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	int r = file_read_at(dir_fd, ref, &b);

	/* A directory, or a file where a directory would be: no such ref. */
	if (r == -EISDIR || r == -ENOTDIR)
		return -ENOENT;
	if (r < 0)
		return r;
	while (b.len > 0 && (b.data[b.len - 1] == '\n' || b.data[b.len - 1] == ' '))
		b.len--;
	return oid_parse(ret, buf_str(&b), b.len) ? 0 : -EBADMSG;
}

/* ------------------------------------------------------------------ packed-refs */

static int packed_load(int dir_fd, struct buf *ret)
{
	int r = file_read_at(dir_fd, "packed-refs", ret);

	return r == -ENOENT ? 0 : r;
}

/* Every "NAME REF" line; others are headers ('#') and what a tag points at ('^'). */
static bool packed_next(
	const struct buf *b, size_t *at, struct oid *ret, const char **ret_ref, size_t *ret_n)
{
	while (*at < b->len) {
		const char *line = b->data + *at;
		const char *nl = memchr(line, '\n', b->len - *at);
		size_t n = nl ? (size_t)(nl - line) : b->len - *at;
		const char *space = memchr(line, ' ', n);

		*at += n + 1;
		if (n == 0 || line[0] == '#' || line[0] == '^' || !space ||
			!oid_parse(ret, line, (size_t)(space - line)))
			continue;
		*ret_ref = space + 1;
		*ret_n = n - (size_t)(space + 1 - line);
		return true;
	}
	return false;
}

int ref_read_packed(int dir_fd, const char *ref, struct oid *ret)
{
	cleanup_buf struct buf b = BUF_INIT(PACKED_MAX);
	size_t at = 0, n, want = strlen(ref);
	const char *name;
	struct oid o;
	int r = packed_load(dir_fd, &b);

	if (r < 0)
		return r;
	while (packed_next(&b, &at, &o, &name, &n)) {
		if (n != want || memcmp(name, ref, n))
			continue;
		*ret = o;
		return 0;
	}
	return -ENOENT;
}

/* ------------------------------------------------------------------ a list */

struct ref_entry {
	char *name;
	struct oid oid;
	bool loose;
};

struct ref_set {
	struct ref_entry *v;
	size_t n, cap;
	const char *prefix, *base; /* names start with; where the walk is, "" or with a slash */
	int dir_fd;
	int rc;
};

static void ref_set_done(struct ref_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].name);
	free(s->v);
	s->v = NULL;
	s->n = s->cap = 0;
}

static int ref_set_add(
	struct ref_set *s, const char *name, size_t n, const struct oid *o, bool loose)
{
	if (s->n >= REFS_MAX)
		return -E2BIG;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct ref_entry *v = realloc(s->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n] = (struct ref_entry){.name = strndup(name, n), .oid = *o, .loose = loose};
	return s->v[s->n].name ? (s->n++, 0) : -ENOMEM;
}

static bool take_loose(void *arg, const char *path, const struct stat *st)
{
	struct ref_set *s = arg;
	char name[REF_NAME_MAX];
	struct oid o;

	(void)st;
	if (snprintf(name, sizeof(name), "%s%s", s->base, path) >= (int)sizeof(name) ||
		!str_starts(name, s->prefix) || !ref_name_fine(name))
		return true;
	s->rc = ref_read_loose(s->dir_fd, name, &o);
	if (s->rc == -ENOENT) /* deleted or packed just now */
		s->rc = 0;
	else if (s->rc == 0)
		s->rc = ref_set_add(s, name, strlen(name), &o, true);
	else if (s->rc == -EBADMSG) /* a symbolic one has no object of its own */
		s->rc = 0;
	return s->rc == 0;
}

static int list_loose(struct ref_set *s)
{
	for (int tries = 0; tries < WALK_TRIES; tries++) {
		cleanup_fd int fd = openat(
			s->dir_fd, *s->base ? s->base : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
		ref_set_done(s);
		s->rc = 0;
		if (tree_walk(fd, REFS_MAX, take_loose, s))
			return 0;
		if (s->rc < 0)
			return s->rc;
		/* A directory may have gone while we were about to look into it. */
	}
	return -EIO;
}

static int list_packed(struct ref_set *s)
{
	cleanup_buf struct buf b = BUF_INIT(PACKED_MAX);
	size_t at = 0, n, prefix_n = strlen(s->prefix);
	const char *name;
	struct oid o;
	int r = packed_load(s->dir_fd, &b);

	while (r == 0 && packed_next(&b, &at, &o, &name, &n))
		if (n >= prefix_n && memcmp(name, s->prefix, prefix_n) == 0)
			r = ref_set_add(s, name, n, &o, false);
	return r;
}

/* "NAME REF" lines from git itself. */
static int list_by_git(const struct repo *r, struct ref_set *s, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(PACKED_MAX);
	struct git_run run = {.argv = (const char *const[]){"for-each-ref",
				      "--format=%(objectname) %(refname)", NULL},
		.out = &out};
	size_t at = 0, n;
	const char *name;
	struct oid o;
	int rc = repo_git(r, &run, e);

	while (rc == 0 && packed_next(&out, &at, &o, &name, &n))
		if (n >= strlen(s->prefix) && memcmp(name, s->prefix, strlen(s->prefix)) == 0 &&
			ref_set_add(s, name, n, &o, true) < 0)
			return err_set(e, ENOMEM, "list refs");
	return rc;
}

static int by_name(const void *a, const void *b)
{
	const struct ref_entry *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : y->loose - x->loose;
}

int ref_list(const struct repo *r, const char *prefix,
	int (*visit)(void *arg, const char *ref, const struct oid *o), void *arg, struct err *e)
{
	__attribute__((cleanup(ref_set_done))) struct ref_set s = {.prefix = prefix, .dir_fd = -1};
	cleanup_fd int dir = ref_dir_open(r, e);
	char base[REF_NAME_MAX] = "";
	const char *slash = strrchr(prefix, '/');
	int rc = 0;

	if (dir < 0)
		return dir;
	if (!str_starts(prefix, "refs/") || strlen(prefix) >= sizeof(base) || strstr(prefix, ".."))
		return err_invalid(e, "refs can be listed below refs/ only");
	memcpy(base, prefix, (size_t)(slash - prefix) + 1);
	s.base = base;
	s.dir_fd = dir;
	if (r->reftable && r->git_dir) {
		rc = list_by_git(r, &s, e);
		if (rc < 0)
			return rc;
	} else {
		rc = list_loose(&s);
		if (rc == 0)
			rc = list_packed(&s);
		if (rc < 0)
			return err_set(e, -rc, "list refs in %s", repo_ledger_dir(r));
	}
	if (s.n)
		qsort(s.v, s.n, sizeof(*s.v), by_name);
	for (size_t i = 0; i < s.n; i++) {
		if (i > 0 && str_eq(s.v[i].name, s.v[i - 1].name))
			continue;
		rc = visit(arg, s.v[i].name, &s.v[i].oid);
		if (rc)
			return rc;
	}
	return 0;
}

/* ------------------------------------------------------------------ one */

static int read_by_git(const struct repo *r, const char *ref, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct git_run run = {
		.argv = (const char *const[]){"rev-parse", "--verify", "--quiet", ref, NULL},
		.out = &out,
		.any_status = true};
	int rc = repo_git(r, &run, e);

	if (rc < 0)
		return rc;
	if (run.status != 0)
		return -ENOENT;
	return out.len > 0 && oid_parse(ret, out.data, out.len - 1) ? 0 : -EBADMSG;
}

int ref_read(const struct repo *r, const char *ref, struct oid *ret, struct err *e)
{
	cleanup_fd int dir = -1;
	struct oid o = {0};
	int rc;

	if (!ref_name_fine(ref))
		return err_invalid(e, "this cannot be the name of a ref");
	if (r->reftable && r->git_dir) {
		rc = read_by_git(r, ref, &o, e);
	} else {
		dir = ref_dir_open(r, e);
		if (dir < 0)
			return dir;
		rc = ref_read_loose(dir, ref, &o);
		if (rc == -ENOENT)
			rc = ref_read_packed(dir, ref, &o);
	}
	if (rc == 0 && o.n != git_hash_len(r->hash))
		rc = -EBADMSG;
	if (rc < 0)
		return err_set(e, -rc, "read %s in %s", ref, repo_ledger_dir(r));
	*ret = o;
	return 0;
}
