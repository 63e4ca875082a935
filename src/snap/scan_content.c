/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of a scan's items: read once, named, written to the store.
 *
 * Bytes are taken as they are, unless the base's rules had git write other line endings than it stores
 * (base.json says whether there can be any): then a file must be named as it would be stored, or
 * every edit would show as a change of the whole file. The attributes come from the base, which no
 * sandbox can write. Filters never run.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "base/jsonread.h"
#include "base/str.h"
#include "git/program.h"
#include "git/read.h"
#include "os/path.h"
#include "snap/scan_impl.h"

#define READ_TRIES 3
#define LINKED_MAX 256u
#define LINKED_MIN_B ((off_t)256 << 10)
#define ATTRS 5 /* asked for each path */
#define ASK_MAX_B ((size_t)64 << 20)
#define BASE_JSON_MAX_B ((size_t)4 << 20)

enum cache_bit { CACHE_WRITTEN = 1u << 0, CACHE_FILECAP = 1u << 1 };

struct contents {
	struct walk *w;
	struct git_store *store;
	struct git_reader *reader; /* for old contents; opened when needed */
	bool attributes, autocrlf; /* of the base */
	char *git_dir;             /* the base's */
	char *work_tree;           /* "GIT_WORK_TREE=…" */
	struct linked {
		dev_t dev;
		ino_t ino;
		struct timespec ctime;
		struct oid oid;
	} linked[LINKED_MAX]; /* large files with several names: read once */
	size_t linked_n;
};

static void contents_done(struct contents *c)
{
	git_reader_close(c->reader);
	free(c->git_dir);
	free(c->work_tree);
}
#define cleanup_contents __attribute__((cleanup(contents_done)))

/* What base.json beside the ignore tree says; without one, bytes are bytes. */
static int contents_init(struct contents *c, struct walk *w)
{
	cleanup_buf struct buf b = BUF_INIT(BASE_JSON_MAX_B);
	cleanup_jdoc struct jdoc *doc = NULL;

	*c = (struct contents){.w = w, .store = w->s->store};
	if (w->base_fd < 0 || file_read_at(w->base_fd, "../base.json", &b) < 0)
		return 0;
	if (jdoc_parse(&doc, buf_str(&b), b.len, w->e) < 0)
		return err_wrap(w->e, "read base.json of the environment's base");
	c->attributes = jtrue(jget(jdoc_root(doc), "attributes"));
	c->autocrlf = jtrue(jget(jdoc_root(doc), "autocrlf"));
	if (!c->attributes && !c->autocrlf)
		return 0;
	c->git_dir = path_join(w->s->ignore_tree, ".git");
	if (asprintf(&c->work_tree, "GIT_WORK_TREE=%s", w->s->ignore_tree) < 0)
		c->work_tree = NULL;
	return c->git_dir && c->work_tree ? 0 : walk_no_memory(w);
}

/* ------------------------------------------------------------------ attributes */

/* The next NUL-terminated field of an answer, or NULL. */
static const char *next_field(const struct buf *b, size_t *at)
{
	const char *s = b->data + *at;
	const char *end = *at < b->len ? memchr(s, '\0', b->len - *at) : NULL;

	if (!end)
		return NULL;
	*at += (size_t)(end - s) + 1;
	return s;
}

static void put_attr(struct item *it, struct eol_attrs *a, const char *name, const char *value)
{
	bool none = str_eq(value, "unspecified") || str_eq(value, "unset");

	if (str_eq(name, "text"))
		snprintf(a->text, sizeof(a->text), "%s", value);
	else if (str_eq(name, "crlf"))
		snprintf(a->crlf, sizeof(a->crlf), "%s", value);
	else if (str_eq(name, "eol"))
		snprintf(a->eol, sizeof(a->eol), "%s", value);
	else if (!none) /* ident, working-tree-encoding */
		it->eol.by_git = true;
}

static int take_attrs(struct contents *c, const struct buf *out, const size_t *which, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		struct item *it = &c->w->v[which[i]];
		struct eol_attrs a = {0};

		for (int k = 0; k < ATTRS; k++) {
			const char *path = next_field(out, &at), *name = next_field(out, &at);
			const char *value = next_field(out, &at);

			if (!value || !str_eq(path, it->path))
				return err_set(c->w->e, EBADMSG, "git check-attr answered oddly");
			put_attr(it, &a, name, value);
		}
		it->eol.action = eol_action(&a, c->autocrlf);
	}
	return 0;
}

static int ask_attrs(struct contents *c, struct buf *names, const size_t *which, size_t n)
{
	cleanup_buf struct buf out = BUF_INIT((size_t)1 << 30);
	struct git_run g = {.argv = (const char *const[]){"check-attr", "-z", "--stdin", "text",
				    "crlf", "eol", "ident", "working-tree-encoding", NULL},
		.git_dir = c->git_dir,
		.dir = c->w->s->ignore_tree,
		.env = (const char *const[]){c->work_tree, NULL},
		.in = names->data,
		.in_n = names->len,
		.out = &out};
	int r;

	if (n == 0)
		return 0;
	r = git_run(&g, c->w->e);
	if (r < 0)
		return err_wrap(c->w->e, "ask git for attributes of changed files");
	r = take_attrs(c, &out, which, n);
	buf_reset(names);
	return r;
}

static int find_rules(struct contents *c)
{
	cleanup_buf struct buf names = BUF_INIT(ASK_MAX_B + 2 * CHANGE_PATH_MAX);
	cleanup_free size_t *which = NULL;
	size_t n = 0;
	int r = 0;

	if (!c->work_tree)
		return 0;
	which = calloc(c->w->n + 1, sizeof(*which));
	if (!which)
		return walk_no_memory(c->w);
	for (size_t i = 0; r == 0 && i < c->w->n; i++) {
		const struct item *it = &c->w->v[i];

		if (it->layer == ITEM_GONE || it->named || !S_ISREG(it->st.st_mode) ||
			walk_beyond_symlink(c->w, it->path, false))
			continue;
		which[n++] = i;
		buf_add(&names, it->path, strlen(it->path) + 1);
		if (names.len > ASK_MAX_B) {
			r = ask_attrs(c, &names, which, n);
			n = 0;
		}
	}
	return r < 0 ? r : ask_attrs(c, &names, which, n);
}

/* ------------------------------------------------------------------ regular files */

/* Does the old content have CRLF? Then git leaves them in the new one, too. */
static bool old_has_crlf(struct contents *c, const struct item *it)
{
	cleanup_buf struct buf b = BUF_INIT(EOL_CONVERT_MAX_B);
	struct err ignore = ERR_INIT;

	if ((it->old_mode & 0170000) != 0100000 || it->old.n == 0)
		return false;
	if (!c->reader && git_reader_open(&c->reader, c->w->s->repo->store, &ignore) < 0)
		return true; /* nothing is converted that cannot be judged */
	if (git_read_oid(c->reader, &it->old, GIT_BLOB, &b, &ignore) < 0)
		return true;
	return !eol_is_binary(buf_str(&b), b.len) && eol_has_crlf(buf_str(&b), b.len);
}

/*
 * Would the line endings of a file that is too large to be held be changed? Looked for in pieces: what has
 * no CRLF stays as it is, and so does what Git takes for binary, of which a NUL is a sure sign.
 */
static bool large_would_change(int fd, enum eol_action action)
{
	char piece[65536];
	bool crlf = false, cr = false;
	ssize_t n;

	while ((n = read(fd, piece, sizeof(piece))) > 0) {
		if (action == EOL_AUTO && memchr(piece, '\0', (size_t)n))
			return false;
		crlf = crlf || (cr && piece[0] == '\n') || eol_has_crlf(piece, (size_t)n);
		cr = piece[n - 1] == '\r';
	}
	return n < 0 || crlf;
}

/* 1: named with its line endings changed, or refused; 0: take it raw. */
static int write_converted(struct contents *c, struct item *it, int fd)
{
	cleanup_buf struct buf b = BUF_INIT(EOL_CONVERT_MAX_B);
	size_t n;
	int r;

	if ((uint64_t)it->st.st_size > EOL_CONVERT_MAX_B) {
		if (!large_would_change(fd, it->eol.action))
			return 0;
		it->flags |= CHANGE_TOO_LARGE;
		return 1;
	}
	if (file_read_fd(fd, &b) < 0)
		return 0;
	if (b.len == 0 || !eol_has_crlf(b.data, b.len))
		return 0;
	if (it->eol.action == EOL_AUTO && (eol_is_binary(b.data, b.len) || old_has_crlf(c, it)))
		return 0;
	n = eol_to_lf(b.data, b.len);
	r = git_write(c->store, GIT_BLOB, b.data, n, &it->new, c->w->e);
	return r < 0 ? r : 1;
}

/* git stores it: ident and encodings. 1: done; 0: git cannot. */
static int write_by_git(struct contents *c, struct item *it, int fd)
{
	cleanup_buf struct buf out = BUF_INIT(256);
	cleanup_free char *path = NULL, *objects = NULL;
	char dir[PATH_MAX];
	bool write = c->store->objects_fd >= 0;
	struct err ignore = ERR_INIT;
	struct git_run g = {
		.git_dir = c->git_dir, .dir = c->w->s->ignore_tree, .in_fd = fd, .out = &out};

	if (write && path_of_fd(c->store->objects_fd, dir, sizeof(dir)) < 0)
		return 0;
	if (asprintf(&path, "--path=%s", it->path) < 0 ||
		asprintf(&objects, "GIT_OBJECT_DIRECTORY=%s", write ? dir : "/nonexistent") < 0)
		return walk_no_memory(c->w);
	g.argv = (const char *const[]){"hash-object", path, "--stdin", write ? "-w" : NULL, NULL};
	g.env = (const char *const[]){c->work_tree, write ? objects : NULL, NULL};
	if (lseek(fd, 0, SEEK_SET) < 0 || git_run(&g, &ignore) < 0 || out.len < 41)
		return 0;
	return oid_parse(&it->new, out.data, out.len - 1) ? 1 : 0;
}

/* Is there still something to spend on so many bytes? What is left out is marked. */
static bool may_read(struct walk *w, struct item *it, off_t size)
{
	uint64_t n = (uint64_t)size, max = w->s->name_max_b;

	if (max && (n > max || w->read_b > max - n)) {
		it->flags |= CHANGE_NOT_READ;
		return false;
	}
	w->read_b += n;
	return true;
}

static bool too_large(const struct item *it)
{
	return (uint64_t)it->st.st_size >
	       (it->eol.by_git ? CHANGE_CONVERT_MAX_B : CHANGE_FILE_MAX_B);
}

/* The file's content under another of its names, if it was read for that. */
static const struct linked *find_linked(const struct contents *c, const struct stat *st)
{
	for (size_t i = 0; i < c->linked_n; i++) {
		const struct linked *l = &c->linked[i];

		if (l->dev == st->st_dev && l->ino == st->st_ino &&
			l->ctime.tv_sec == st->st_ctim.tv_sec &&
			l->ctime.tv_nsec == st->st_ctim.tv_nsec)
			return l;
	}
	return NULL;
}

static void note_linked(struct contents *c, const struct item *it)
{
	if (c->linked_n < LINKED_MAX && it->st.st_nlink > 1 && it->st.st_size >= LINKED_MIN_B)
		c->linked[c->linked_n++] =
			(struct linked){it->st.st_dev, it->st.st_ino, it->st.st_ctim, it->new};
}

/* Bytes as they are. */
static int write_raw(struct contents *c, struct item *it, int fd)
{
	int r = git_write_file(c->store, fd, &it->new, c->w->e);

	if (r == 0)
		note_linked(c, it);
	return r;
}

/* On the disk where that is wanted; and named, if it may be. */
static int write_content(struct contents *c, struct item *it, int fd)
{
	bool raw = !it->eol.by_git && it->eol.action == EOL_RAW;
	const struct linked *l = raw ? find_linked(c, &it->st) : NULL;
	int r = c->w->s->sync ? fd_send_to_disk(fd) : 0;

	if (r < 0)
		return err_set(c->w->e, -r, "write staged files to the disk");
	if (too_large(it)) {
		it->flags |= CHANGE_TOO_LARGE;
		return 0;
	}
	if (l) {
		it->new = l->oid;
		it->named = true;
		return 0;
	}
	if (!may_read(c->w, it, it->st.st_size))
		return 0;
	if (it->eol.by_git && (r = write_by_git(c, it, fd)) == 0) {
		it->flags |= CHANGE_UNREADABLE; /* nor could git add */
		return 0;
	}
	if (r == 0 && it->eol.action != EOL_RAW)
		r = write_converted(c, it, fd);
	if (r == 0)
		r = raw ? write_raw(c, it, fd) : git_write_file(c->store, fd, &it->new, c->w->e);
	it->named = r >= 0 && !(it->flags & CHANGE_TOO_LARGE);
	return r < 0 ? r : 0;
}

/* Capabilities are a flag; attributes with which overlayfs would show something else are an error. */
static int look_at_xattrs(struct walk *w, struct item *it, int fd)
{
	ssize_t n = flistxattr(fd, w->xattrs, XATTRS_MAX_B);

	if (n <= 0)
		return 0;
	if (xattr_has(w->xattrs, (size_t)n, "security.capability"))
		it->flags |= CHANGE_FILECAP;
	if (!w->plain && (xattr_has(w->xattrs, (size_t)n, "user.overlay.metacopy") ||
				 xattr_has(w->xattrs, (size_t)n, "user.overlay.redirect") ||
				 xattr_has(w->xattrs, (size_t)n, "user.overlay.whiteout"))) {
		cleanup_buf struct buf b = BUF_INIT(ERR_MSG_MAX);

		str_show(&b, it->path, strlen(it->path));
		return err_refuse(w->e,
			"the layer has a metadata-only copy or unknown whiteout at %s, which croft "
			"never makes: its changes cannot be trusted",
			buf_str(&b));
	}
	return 0;
}

static int read_file(struct contents *c, struct item *it)
{
	int r = -EAGAIN;

	for (int tries = 0; r == -EAGAIN && tries < READ_TRIES; tries++) {
		cleanup_fd int fd = path_open(c->w->s->layers[it->layer], it->path,
			O_RDONLY | O_NONBLOCK | O_NOCTTY, PATH_NO_SYMLINKS | PATH_BENEATH);

		if (fd < 0 || fstat(fd, &it->st) < 0 || !S_ISREG(it->st.st_mode)) {
			it->flags |= CHANGE_UNREADABLE;
			return 0;
		}
		it->new_mode = it->st.st_mode & 0100 ? 0100755 : 0100644;
		r = look_at_xattrs(c->w, it, fd);
		if (r == 0)
			r = write_content(c, it, fd);
	}
	if (r == -EAGAIN) { /* somebody keeps writing to it */
		*c->w->e = ERR_INIT;
		it->flags |= CHANGE_UNREADABLE;
		return 0;
	}
	return r < 0 ? err_wrap(c->w->e, "read a changed file") : 0;
}

/* ------------------------------------------------------------------ symlinks, old contents */

static int name_link(struct contents *c, struct item *it)
{
	char target[PATH_MAX];

	if (read_link_below(c->w->s->layers[it->layer], it->path, target) < 0) {
		it->flags |= CHANGE_UNREADABLE;
		return 0;
	}
	it->st.st_size = (off_t)strlen(target);
	if (link_escapes(it->path, target))
		it->flags |= CHANGE_ESCAPES;
	it->named = true;
	return git_write(c->store, GIT_BLOB, target, strlen(target), &it->new, c->w->e);
}

/* A live start: what was there is read now, so that it is kept. */
static int name_old(struct contents *c, struct item *it)
{
	char target[PATH_MAX];
	cleanup_fd int fd = -1;
	struct stat st;
	int r;

	if (!start_is_live(c->w) || it->old_mode == 0 || it->old_mode == 040000)
		return 0;
	if (it->old_mode == 0120000) {
		if (read_link_below(c->w->s->live_fd, it->path, target) < 0)
			return walk_fail(c->w, errno, "read the symlink", it->path);
		return git_write(c->store, GIT_BLOB, target, strlen(target), &it->old, c->w->e);
	}
	fd = path_open(c->w->s->live_fd, it->path, O_RDONLY | O_NONBLOCK | O_NOCTTY,
		PATH_NO_SYMLINKS | PATH_BENEATH);
	if (fd < 0 || fstat(fd, &st) < 0)
		return walk_fail(c->w, fd < 0 ? -fd : errno, "read what was at", it->path);
	if ((uint64_t)st.st_size > CHANGE_FILE_MAX_B) {
		it->flags |= CHANGE_TOO_LARGE; /* what was there could not be given back */
		return 0;
	}
	if (!may_read(c->w, it, st.st_size))
		return 0;
	r = git_write_file(c->store, fd, &it->old, c->w->e);
	return r < 0 ? err_wrap(c->w->e, "keep a file's old content") : 0;
}

/* ------------------------------------------------------------------ the cache */

/* Is the object that the cache names still in the store? */
static bool is_written(const struct git_store *s, const struct oid *o)
{
	struct oid_hex h = oid_hex(o);
	char name[OID_HEX_MAX + 4];

	snprintf(name, sizeof(name), "%.2s/%s", h.s, h.s + 2);
	/* As in object.c: what is used again is not old any more. */
	return utimensat(s->objects_fd, name, NULL, AT_SYMLINK_NOFOLLOW) == 0 ||
	       (errno != ENOENT && faccessat(s->objects_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

static void ask_cache(struct contents *c, struct statcache *cache, struct item *it)
{
	uint32_t bits;
	struct oid o;

	if (it->layer == ITEM_GONE || !S_ISREG(it->st.st_mode) ||
		!statcache_find(cache, it->path, &it->st, &o, &bits))
		return;
	if (c->store->objects_fd >= 0 && !oid_eq(&o, &it->old) &&
		(!(bits & CACHE_WRITTEN) || !is_written(c->store, &o)))
		return;
	it->new = o;
	it->named = true;
	if (bits & CACHE_FILECAP)
		it->flags |= CHANGE_FILECAP;
}

static int name_item(struct contents *c, struct statcache *cache, struct item *it)
{
	int r = name_old(c, it);

	if (r < 0 || it->layer == ITEM_GONE || it->named || (it->flags & CHANGE_SUBMODULE))
		return r;
	if ((it->flags & CHANGE_NESTED_GIT) && it->old_mode == 0)
		return 0; /* it never lands; only that it is the same could be of interest */
	if (S_ISLNK(it->st.st_mode))
		return name_link(c, it);
	if (!S_ISREG(it->st.st_mode))
		return 0;
	r = read_file(c, it);
	if (r == 0 && it->named)
		statcache_put(cache, it->path, &it->st, &it->new,
			(c->store->objects_fd >= 0 ? CACHE_WRITTEN : 0u) |
				(it->flags & CHANGE_FILECAP ? CACHE_FILECAP : 0u));
	return r;
}

int walk_contents(struct walk *w)
{
	const struct scan *s = w->s;
	cleanup_statcache struct statcache *cache = NULL;
	cleanup_contents struct contents c;
	cleanup_free char *context = NULL;
	struct oid root = {0};
	int r = contents_init(&c, w);

	if (r < 0)
		return r;
	if (s->start)
		treemap_root(s->start, &root);
	if (asprintf(&context, "%s %s", oid_hex(&root).s, s->ignore_tree ? s->ignore_tree : "") < 0)
		context = NULL;
	cache = context ? statcache_open(s->cache_fd, s->cache_name, context) : NULL;
	if (!cache)
		return walk_no_memory(w);
	for (size_t i = 0; i < w->n; i++)
		ask_cache(&c, cache, &w->v[i]);
	r = find_rules(&c);
	for (size_t i = 0; r == 0 && i < w->n; i++)
		r = name_item(&c, cache, &w->v[i]);
	if (r == 0)
		statcache_save(cache, s->cache_fd, s->cache_name);
	return r;
}
