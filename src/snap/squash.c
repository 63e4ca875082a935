/* SPDX-License-Identifier: Apache-2.0 */
/* Several layers as one: see squash.h. */
#include "snap/squash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/interrupt.h"
#include "os/path.h"
#include "snap/change.h"
#include "snap/copy.h"

#define ENTRIES_MAX (2ull * CHANGES_MAX)
#define XATTRS_MAX_B 65536u
#define OVERLAY_PREFIX "user.overlay."

/* A name in one layer's directory. */
struct layer_entry {
	char *name;
	size_t layer;
	mode_t mode;
	dev_t rdev;
};

/* A directory of the result: where it is, and the layers whose directories make it up. */
struct squash_place {
	char *path;
	size_t *layers, n; /* the newest first */
	bool opaque;       /* nothing below these layers shows */
	bool lent;         /* of a copy: its owner could not read it, and `mode` is what it had */
	mode_t mode;
};

struct squash {
	int to;
	const int *layers;
	struct squash_place *v;
	size_t n, cap;
	uint64_t seen;
	bool copy; /* contents, too */
	struct copy_stats *st;
	void *linked; /* of a copy: files with several names (tsearch) */
	struct err *e;
};

static int no_memory(struct squash *s)
{
	return err_set(s->e, ENOMEM, "put layers together");
}

static int fail(struct squash *s, int errnum, const char *what, const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(ERR_MSG_MAX);

	str_show(&b, path, strlen(path));
	return err_set(s->e, errnum, "%s \"%s\" in a layer", what, buf_str(&b));
}

static int open_dir(struct squash *s, int root, const char *path)
{
	int fd = path_open(root, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK,
		PATH_NO_SYMLINKS | PATH_BENEATH);

	return fd < 0 ? fail(s, -fd, "open", path) : fd;
}

/* ---- rights ---- */

static int change_mode(int path_fd, mode_t mode)
{
	char link[40];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	return chmod(link, mode) < 0 ? -errno : 0;
}

/*
 * What stands still is copied, whatever a command did to its rights. The owner has them while it is copied: a
 * mounted overlay keeps the mode that it knows.
 */
static int lend_dir(struct squash *s, int root, const char *path, struct squash_place *p)
{
	cleanup_fd int fd = path_open(
		root, path, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
	struct stat st;
	int r;

	if (!s->copy)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(s, fd < 0 ? -fd : errno, "open", path);
	if (st.st_uid != geteuid() || (st.st_mode & 0500) == 0500)
		return 0;
	p->mode = st.st_mode & 07777;
	r = change_mode(fd, p->mode | 0500);
	p->lent = r == 0;
	return r < 0 ? fail(s, -r, "open", path) : 0;
}

/* Those below it have been given back: it can still be reached. */
static int give_back(struct squash *s, struct squash_place *p)
{
	cleanup_fd int fd = -1;
	int r;

	if (!p->lent)
		return 0;
	fd = path_open(s->layers[p->layers[0]], p->path, O_PATH | O_DIRECTORY,
		PATH_NO_SYMLINKS | PATH_BENEATH);
	r = fd < 0 ? fd : change_mode(fd, p->mode);
	p->lent = r < 0;
	return r < 0 ? fail(s, -r, "set mode and times of", p->path) : 0;
}

static int open_regular(int dir, const char *name)
{
	cleanup_fd int path = -1, fd = -1;
	char link[40];
	struct stat st;
	int r;

	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 || errno != EACCES)
		return fd < 0 ? -errno : take_fd(&fd);
	path = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (path < 0 || fstat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		change_mode(path, (st.st_mode & 07777) | 0400) < 0)
		return -EACCES;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", path);
	fd = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	r = fd < 0 ? -errno : 0;
	if (change_mode(path, st.st_mode & 07777) < 0)
		return -errno;
	return r < 0 ? r : take_fd(&fd);
}

/* ---- attributes ---- */

/* 1: opaque. What croft never makes is refused. */
static int read_opaque(struct squash *s, int fd, const char *path)
{
	static const char *const odd[] = {OVERLAY_PREFIX "redirect", OVERLAY_PREFIX "metacopy"};
	char value[8];
	ssize_t n;

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		if (fgetxattr(fd, odd[i], NULL, 0) >= 0)
			return fail(s, EUCLEAN, "interpret", path);
	n = fgetxattr(fd, OVERLAY_PREFIX "opaque", value, sizeof(value));
	if (n == 1 && value[0] == 'y')
		return 1;
	if (n >= 0 || (errno != ENODATA && errno != ENOTSUP))
		return fail(s, n >= 0 ? EUCLEAN : errno, "interpret", path);
	return 0;
}

static int copy_xattrs(struct squash *s, int from, int to, const char *path)
{
	cleanup_free char *names = malloc(XATTRS_MAX_B), *value = malloc(XATTRS_MAX_B);
	ssize_t n = names && value ? flistxattr(from, names, XATTRS_MAX_B) : 0;

	if (!names || !value)
		return no_memory(s);
	if (n < 0)
		return errno == ENOTSUP ? 0 : fail(s, errno, "read attributes of", path);
	for (const char *p = names; p < names + n; p += strlen(p) + 1) {
		ssize_t len;

		if (str_starts(p, OVERLAY_PREFIX) ||
			(!str_starts(p, "user.") && !str_starts(p, "system.posix_acl_")))
			continue;
		len = fgetxattr(from, p, value, XATTRS_MAX_B);
		if (len < 0 || fsetxattr(to, p, value, (size_t)len, 0) < 0)
			return fail(s, errno, "copy attributes of", path);
	}
	return 0;
}

/* What a directory is besides its entries: as in the newest layer that has it. */
static int finish_place(struct squash *s, struct squash_place *p)
{
	cleanup_fd int to = open_dir(s, s->to, p->path), from = -1;
	struct timespec times[2];
	struct stat st;
	int r;

	if (to < 0 || (from = open_dir(s, s->layers[p->layers[0]], p->path)) < 0)
		return -s->e->errnum;
	if ((r = copy_xattrs(s, from, to, p->path)) < 0)
		return r;
	if (p->opaque && fsetxattr(to, OVERLAY_PREFIX "opaque", "y", 1, 0) < 0)
		return fail(s, errno, "mark as opaque", p->path);
	if (fstat(from, &st) < 0)
		return fail(s, errno, "look at", p->path);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	/* Only another group needs the second; who cannot set it has none of it in the layers either. */
	if (fchown(to, (uid_t)-1, st.st_gid) < 0 && errno != EPERM)
		return fail(s, errno, "set the group of", p->path);
	if (fchmod(to, p->lent ? p->mode : st.st_mode & 07777) < 0 || futimens(to, times) < 0)
		return fail(s, errno, "set mode and times of", p->path);
	return give_back(s, p);
}

/* ---- names ---- */

struct listing {
	struct layer_entry *v;
	size_t n, cap;
};

static void listing_done(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
}

static int list_one(struct squash *s, struct listing *l, size_t layer, const char *path)
{
	int fd = open_dir(s, s->layers[layer], path);
	cleanup_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (fd < 0)
		return fd;
	if (!d) {
		close(fd);
		return no_memory(s);
	}
	while ((errno = 0, de = readdir(d))) {
		struct stat st;

		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		if (s->seen++ > ENTRIES_MAX)
			return err_set(s->e, E2BIG, "put layers together");
		if (fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return fail(s, errno, "look at a name in", path);
		if (l->n == l->cap) {
			size_t cap = l->cap ? l->cap * 2 : 64;
			struct layer_entry *v = realloc(l->v, cap * sizeof(*v));

			if (!v)
				return no_memory(s);
			l->v = v;
			l->cap = cap;
		}
		l->v[l->n] = (struct layer_entry){.name = strdup(de->d_name),
			.layer = layer,
			.mode = st.st_mode,
			.rdev = st.st_rdev};
		if (!l->v[l->n].name)
			return no_memory(s);
		l->n++;
	}
	return errno ? fail(s, errno, "list", path) : 0;
}

/* By name, then the newest layer first. */
static int by_name(const void *a, const void *b)
{
	const struct layer_entry *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : x->layer < y->layer ? 1 : x->layer > y->layer ? -1 : 0;
}

static int add_place(struct squash *s, char *path, size_t layers_max, struct squash_place **ret)
{
	size_t *layers = calloc(layers_max, sizeof(*layers));

	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct squash_place *v = realloc(s->v, cap * sizeof(*v));

		if (v) {
			s->v = v;
			s->cap = cap;
		}
	}
	if (!path || !layers || s->n == s->cap) {
		free(path);
		free(layers);
		return no_memory(s);
	}
	s->v[s->n] = (struct squash_place){.path = path, .layers = layers};
	*ret = &s->v[s->n++];
	return 0;
}

/* A directory at the end: its older ones show through until one is opaque, or is something else. */
static int merge_dir(struct squash *s, int to, const char *parent, const struct layer_entry *en, size_t n)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	struct squash_place *p;
	int r;

	buf_addf(&path, "%s%s%s", parent, *parent ? "/" : "", en->name);
	if (path.failed)
		return fail(s, ENAMETOOLONG, "reach", parent);
	if (mkdirat(to, en->name, 0700) < 0)
		return fail(s, errno, "make", buf_str(&path));
	if ((r = add_place(s, strdup(buf_str(&path)), n, &p)) < 0)
		return r;
	for (size_t i = 0; i < n && !p->opaque; i++) {
		cleanup_fd int fd = -1;

		if (!S_ISDIR(en[i].mode)) {
			p->opaque = true;
			break;
		}
		if ((r = lend_dir(s, s->layers[en[i].layer], p->path, p)) < 0)
			return r;
		fd = open_dir(s, s->layers[en[i].layer], p->path);
		if (fd < 0 || (r = read_opaque(s, fd, p->path)) < 0)
			return -s->e->errnum;
		p->layers[p->n++] = en[i].layer;
		p->opaque = r > 0;
	}
	return 0;
}

/* ---- copies ---- */

struct linked {
	dev_t dev;
	ino_t ino;
	char *path; /* of its first name in the copy */
};

static int by_inode(const void *a, const void *b)
{
	const struct linked *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void linked_free(void *p)
{
	struct linked *l = p;

	free(l->path);
	free(l);
}

/* Another name of a file that is there already: 1; 0: it is new, and noted. */
static int link_again(struct squash *s, int to, const char *name, const char *path, const struct stat *st)
{
	struct linked *l = calloc(1, sizeof(*l)), **at;

	if (!l || !(l->path = strdup(path))) {
		free(l);
		return no_memory(s);
	}
	l->dev = st->st_dev;
	l->ino = st->st_ino;
	at = tsearch(l, &s->linked, by_inode);
	if (at && *at == l)
		return 0;
	linked_free(l);
	if (!at)
		return no_memory(s);
	return linkat(s->to, (*at)->path, to, name, 0) < 0 ? fail(s, errno, "link", path) : 1;
}

static int copy_regular(struct squash *s, int from_dir, int to_dir, const char *name, const char *path)
{
	cleanup_fd int from = open_regular(from_dir, name);
	cleanup_fd int to = -1;
	struct timespec times[2];
	struct stat st;
	int r;

	if (from < 0 || fstat(from, &st) < 0)
		return fail(s, from < 0 ? -from : errno, "read", path);
	if (!S_ISREG(st.st_mode))
		return fail(s, EUCLEAN, "copy", path);
	if (st.st_nlink > 1 && (r = link_again(s, to_dir, name, path, &st)) != 0)
		return r < 0 ? r : 0;
	to = openat(to_dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return fail(s, errno, "make", path);
	if (copy_content(from, to, s->st, s->e) < 0 || copy_xattrs(s, from, to, path) < 0)
		return -s->e->errnum;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (fchown(to, (uid_t)-1, st.st_gid) < 0 && errno != EPERM)
		return fail(s, errno, "set the group of", path);
	return fchmod(to, st.st_mode & 07777) < 0 || futimens(to, times) < 0
		       ? fail(s, errno, "set mode and times of", path)
		       : 0;
}

static int copy_symlink(struct squash *s, int from, int to, const char *name, const char *path)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
	struct timespec times[2];
	struct stat st;

	if (n < 0 || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(s, errno, "read", path);
	target[n] = '\0';
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	return symlinkat(target, to, name) < 0 || utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0
		       ? fail(s, errno, "make", path)
		       : 0;
}

static int copy_name(struct squash *s, int from, int to, const char *parent, const struct layer_entry *en)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);

	buf_addf(&path, "%s%s%s", parent, *parent ? "/" : "", en->name);
	if (path.failed)
		return fail(s, ENAMETOOLONG, "reach", parent);
	if (S_ISREG(en->mode))
		return copy_regular(s, from, to, en->name, buf_str(&path));
	if (S_ISLNK(en->mode))
		return copy_symlink(s, from, to, en->name, buf_str(&path));
	if (!S_ISFIFO(en->mode) && !S_ISSOCK(en->mode))
		return fail(s, EUCLEAN, "copy", buf_str(&path));
	return mknodat(to, en->name, (en->mode & S_IFMT) | (en->mode & 0777), 0) < 0
		       ? fail(s, errno, "make", buf_str(&path))
		       : 0;
}

static int merge_name(
	struct squash *s, int to, const char *parent, const struct layer_entry *en, size_t n)
{
	cleanup_fd int from = -1;

	if (S_ISDIR(en->mode))
		return merge_dir(s, to, parent, en, n);
	/* A new one each: overlayfs itself links them, up to what a file system allows. */
	if (S_ISCHR(en->mode) && en->rdev == makedev(0, 0))
		return copy_whiteout(to, en->name, s->e);
	from = open_dir(s, s->layers[en->layer], parent);
	if (from < 0)
		return from;
	if (s->copy)
		return copy_name(s, from, to, parent, en);
	return linkat(from, en->name, to, en->name, 0) < 0 ? fail(s, errno, "link", en->name) : 0;
}

static int merge_place(struct squash *s, size_t at)
{
	__attribute__((cleanup(listing_done))) struct listing l = {0};
	cleanup_free char *path = strdup(s->v[at].path); /* the places move when more are added */
	cleanup_fd int to = -1;
	int r = path ? interrupt_check(s->e) : no_memory(s);

	for (size_t i = 0; r == 0 && i < s->v[at].n; i++)
		r = list_one(s, &l, s->v[at].layers[i], path);
	if (r == 0 && (to = open_dir(s, s->to, path)) < 0)
		r = to;
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_name);
	for (size_t i = 0, n; r == 0 && i < l.n; i += n) {
		for (n = 1; i + n < l.n && str_eq(l.v[i].name, l.v[i + n].name); n++)
			;
		r = merge_name(s, to, path, &l.v[i], n);
	}
	return r;
}

static int merge(struct squash *s, size_t n)
{
	struct squash_place *root;
	int r = add_place(s, strdup(""), n, &root);

	while (r == 0 && root->n < n) {
		root->layers[root->n] = n - 1 - root->n;
		root->n++;
	}
	for (size_t i = 0; r == 0 && i < s->n; i++)
		r = merge_place(s, i);
	for (size_t i = s->n; r == 0 && i > 0; i--)
		r = finish_place(s, &s->v[i - 1]);
	for (size_t i = s->n; i > 0; i--) { /* what a failure left */
		struct err why = *s->e;

		give_back(s, &s->v[i - 1]);
		*s->e = why;
	}
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].path);
		free(s->v[i].layers);
	}
	free(s->v);
	return r;
}

int squash_layers(int to, const int *layers, size_t n, struct err *e)
{
	struct squash s = {.to = to, .layers = layers, .e = e};

	return merge(&s, n);
}

int squash_copy(int to, int layer, struct copy_stats *st, struct err *e)
{
	struct squash s = {.to = to, .layers = &layer, .copy = true, .st = st, .e = e};
	int r = merge(&s, 1);

	tdestroy(s.linked, linked_free);
	return r;
}
