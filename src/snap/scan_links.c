/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symlinks by which a file runs under another name: ".vscode -> conf" makes conf/tasks.json run.
 *
 * Order:   all symlinks of the start, of the layers and of the checkout, where what is staged would land, are
 *          listed by path. Those whose name, or what may be below it, runs give an alias: what they lead to
 *          is also there. A symlink on the way to the place, or below it, leads on: it gives another alias,
 *          until there are no new ones.
 * Trust:   symlinks of the start count although they are gone at the end, because what lands may be a
 *          part of what was changed. Targets are followed by name only, never by opening them. More
 *          than ALIASES_MAX are not followed: then everything counts as running.
 * Limits:  of a live directory, and of a checkout, LIVE_MAX entries are looked at, those near the top
 *          first, on one file system; nothing below a .git.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/read.h"
#include "os/path.h"
#include "snap/scan_impl.h"

#define ALIASES_MAX 1024u
#define LIVE_MAX 500000u

struct link {
	char *path;
	struct oid oid; /* of the target, in a tree of the start */
	int root;       /* or the directory to read it in; -1 */
};

struct links {
	struct walk *w;
	struct link *v;
	size_t n, cap;
	struct git_reader *reader;
	int checkout; /* or -1 */
	/* while listing */
	struct strlist dirs;
	const char *dir;
	int root; /* of a live directory */
};

static void links_done(struct links *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
	git_reader_close(l->reader);
	close_fd(&l->checkout);
	strlist_done(&l->dirs);
}
#define cleanup_links __attribute__((cleanup(links_done)))

void aliases_done(struct aliases *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->v[i].real);
		free(a->v[i].name);
	}
	free(a->v);
}

/* ------------------------------------------------------------------ listing */

/* Takes path. */
static int add_link(struct links *l, char *path, const struct oid *o, int root)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		struct link *v = realloc(l->v, cap * sizeof(*v));

		if (!v) {
			free(path);
			return walk_no_memory(l->w);
		}
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = (struct link){.path = path, .oid = *o, .root = root};
	return 0;
}

static int tree_visit(void *arg, const char *name, unsigned mode, const struct oid *o)
{
	struct links *l = arg;
	char *path;
	bool fine;

	if (mode != 040000 && mode != 0120000)
		return 0;
	path = path_join(l->dir, name);
	if (path && mode == 0120000)
		return add_link(l, path, o, -1);
	fine = path && strlist_add(&l->dirs, path);
	free(path);
	return fine ? 0 : walk_no_memory(l->w);
}

static int list_tree(struct links *l)
{
	int r = strlist_add(&l->dirs, "") ? 0 : walk_no_memory(l->w);

	while (r == 0 && l->dirs.n > 0) {
		cleanup_free char *dir = l->dirs.v[--l->dirs.n];

		l->dir = dir;
		r = treemap_list(l->w->s->start, dir, tree_visit, l);
	}
	return r;
}

/* One entry of a live directory. */
static int live_entry(struct links *l, int fd, const struct dirent *de)
{
	static const struct oid none;
	unsigned char type = de->d_type;
	char *path;
	bool fine;

	if (type == DT_UNKNOWN) {
		struct stat st;

		if (fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return 0;
		type = S_ISDIR(st.st_mode) ? DT_DIR : S_ISLNK(st.st_mode) ? DT_LNK : DT_REG;
	}
	if ((type != DT_DIR && type != DT_LNK) || str_eq(de->d_name, ".") ||
		str_eq(de->d_name, "..") || str_eq(de->d_name, ".git"))
		return 0;
	path = path_join(l->dir, de->d_name);
	if (path && type == DT_LNK)
		return add_link(l, path, &none, l->root);
	fine = path && (strlen(path) > CHANGE_PATH_MAX || strlist_add(&l->dirs, path));
	free(path);
	return fine ? 0 : walk_no_memory(l->w);
}

static int list_live(struct links *l, int root)
{
	size_t seen = 0;
	struct stat top, st;
	int r = strlist_add(&l->dirs, "") ? 0 : walk_no_memory(l->w);

	l->root = root;
	if (fstat(root, &top) < 0)
		return walk_fail(l->w, errno, "read", "");
	for (size_t i = 0; r == 0 && i < l->dirs.n && seen < LIVE_MAX; i++) {
		cleanup_dir DIR *d = NULL;
		struct dirent *de;
		int fd = path_open(root, *l->dirs.v[i] ? l->dirs.v[i] : ".", O_RDONLY | O_DIRECTORY,
			PATH_NO_SYMLINKS | PATH_BENEATH);

		if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != top.st_dev ||
			!(d = fdopendir(fd))) {
			close_fd(&fd); /* what cannot be read runs nothing, either */
			continue;
		}
		l->dir = l->dirs.v[i];
		while (r == 0 && seen++ < LIVE_MAX && (de = readdir(d)))
			r = live_entry(l, fd, de);
	}
	return r;
}

static int list_checkout(struct links *l)
{
	const char *path = l->w->s->checkout;

	l->checkout = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (l->checkout < 0) /* gone: nothing lands there, either */
		return errno == ENOENT ? 0 : walk_fail(l->w, errno, "open", path);
	return list_live(l, l->checkout);
}

static int list_staged(struct links *l)
{
	static const struct oid none;
	const struct walk *w = l->w;
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n; i++) {
		char *path;

		if (w->v[i].layer == ITEM_GONE || w->v[i].new_mode != 0120000)
			continue;
		path = strdup(w->v[i].path);
		r = path ? add_link(l, path, &none, w->s->layers[w->v[i].layer])
			 : walk_no_memory(l->w);
	}
	return r;
}

/* ------------------------------------------------------------------ following */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct link *)a)->path, ((const struct link *)b)->path);
}

/* The first link that is not before path. */
static size_t first_link(const struct links *l, const char *path)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(l->v[mid].path, path) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Where a target leads from a link, relative to the workspace; false: out of it. */
static bool resolve(const struct repo *r, const char *path, const char *target, struct buf *ret)
{
	const char *slash = strrchr(path, '/');

	if (target[0] == '/') {
		size_t n = r ? strlen(r->workspace) : 0;

		if (!r || strncmp(target, r->workspace, n) != 0 || (target[n] && target[n] != '/'))
			return false;
		target += n;
	} else if (slash) {
		buf_add(ret, path, (size_t)(slash - path));
	}
	while (*target) {
		size_t n = strcspn(target, "/");

		if (n == 2 && target[0] == '.' && target[1] == '.') {
			if (ret->len == 0)
				return false;
			while (ret->len > 0 && ret->data[--ret->len] != '/')
				;
			ret->data[ret->len] = '\0';
		} else if (n > 0 && !(n == 1 && target[0] == '.')) {
			if (ret->len)
				buf_addc(ret, '/');
			buf_add(ret, target, n);
		}
		target += n;
		target += strspn(target, "/");
	}
	return !ret->failed;
}

/* What is at a place, also is at name; rest is what follows the place. */
static int add_alias(
	struct links *l, struct aliases *a, const char *at, const char *rest, const char *name)
{
	cleanup_free char *real = path_join(at, rest), *as = strdup(name);

	if (!real || !as)
		return walk_no_memory(l->w);
	for (size_t i = 0; i < a->n; i++)
		if (str_eq(a->v[i].real, real) && str_eq(a->v[i].name, as))
			return 0;
	if (a->n >= ALIASES_MAX || strlen(real) > CHANGE_PATH_MAX) {
		a->too_many = true;
		return 0;
	}
	if (a->n == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 16;
		struct alias *v = realloc(a->v, cap * sizeof(*v));

		if (!v)
			return walk_no_memory(l->w);
		a->v = v;
		a->cap = cap;
	}
	a->v[a->n++] = (struct alias){.real = take_ptr(real), .name = take_ptr(as)};
	return 0;
}

/* One more alias by way of a link: name (or rest below what the link leads to) stands for it. */
static int follow(struct links *l, struct aliases *a, const struct link *k, const char *rest,
	const char *name)
{
	cleanup_buf struct buf blob = BUF_INIT(PATH_MAX), real = BUF_INIT(2 * CHANGE_PATH_MAX);
	char text[PATH_MAX];
	const char *target = text;

	if (k->root >= 0) {
		if (read_link_below(k->root, k->path, text) < 0)
			return 0; /* not there any more */
	} else {
		if (!l->reader && git_reader_open(&l->reader, l->w->s->repo->store, l->w->e) < 0)
			return err_wrap(l->w->e, "read symlinks of the start");
		if (git_read_oid(l->reader, &k->oid, GIT_BLOB, &blob, l->w->e) < 0)
			return err_wrap(l->w->e, "read a symlink of the start");
		target = buf_str(&blob);
	}
	if (!resolve(l->w->s->repo, k->path, target, &real))
		return 0;
	return add_alias(l, a, buf_str(&real), rest, name);
}

static bool matters(const struct links *l, const char *name)
{
	return change_runs_in(l->w->s->repo, name, 0120000) ||
	       change_runs_below(l->w->s->repo, name);
}

/* Links at the place of an alias or on the way to it. */
static int follow_above(struct links *l, struct aliases *a, const char *real, const char *name)
{
	cleanup_free char *head = strdup(real);
	size_t n = strlen(real);
	int r = head ? 0 : walk_no_memory(l->w);

	for (size_t i = 1; r == 0 && i <= n; i++) {
		if (real[i] && real[i] != '/')
			continue;
		head[i] = '\0';
		for (size_t k = first_link(l, head);
			r == 0 && k < l->n && str_eq(l->v[k].path, head); k++)
			r = follow(l, a, &l->v[k], real[i] ? real + i + 1 : "", name);
		head[i] = real[i];
	}
	return r;
}

/* Links below the place of an alias. */
static int follow_below(struct links *l, struct aliases *a, const char *real, const char *name)
{
	cleanup_free char *dir = NULL;
	int r = 0;

	if (asprintf(&dir, "%s%s", real, *real ? "/" : "") < 0) {
		dir = NULL;
		return walk_no_memory(l->w);
	}
	for (size_t k = first_link(l, dir); r == 0 && !a->too_many && k < l->n; k++) {
		cleanup_free char *as = NULL;

		if (!str_starts(l->v[k].path, dir))
			break;
		as = path_join(name, l->v[k].path + strlen(dir));

		if (!as)
			return walk_no_memory(l->w);
		if (matters(l, as))
			r = follow(l, a, &l->v[k], "", as);
	}
	return r;
}

int aliases_find(struct walk *w, struct aliases *ret)
{
	cleanup_links struct links l = {
		.w = w, .dirs = STRLIST_INIT(CHANGES_MAX), .checkout = -1, .root = -1};
	int r = 0;

	if (w->s->start)
		r = list_tree(&l);
	else if (start_is_live(w))
		r = list_live(&l, w->s->live_fd);
	if (r == 0 && w->s->checkout)
		r = list_checkout(&l);
	if (r == 0)
		r = list_staged(&l);
	if (r == 0 && l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_path);
	for (size_t i = 0; r == 0 && i < l.n && !ret->too_many; i++)
		if (matters(&l, l.v[i].path))
			r = follow(&l, ret, &l.v[i], "", l.v[i].path);
	for (size_t i = 0; r == 0 && i < ret->n && !ret->too_many; i++) {
		/* ret->v may move */
		const char *real = ret->v[i].real, *name = ret->v[i].name;

		r = follow_above(&l, ret, real, name);
		if (r == 0)
			r = follow_below(&l, ret, real, name);
	}
	return r;
}
