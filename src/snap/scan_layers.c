/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk through overlay layers: see scan_impl.h for where it stands in a scan.
 *
 * Merging: within one directory, entries of all layers are sorted by name, the newest first. The newest
 *          says what is there. A directory goes on with the next older layer's directory of that name
 *          until one is opaque, or something else is in the way; then nothing of the start shows.
 * Trust:   every directory is opened from its layer's root by its whole path, beneath and without
 *          symlinks; no recursion, so depth costs neither stack nor descriptors. What overlayfs would
 *          understand and we do not (redirects, metadata-only copies) is refused by name: croft never
 *          mounts with it, and guessing would show another tree than the sandbox had.
 * Limits:  paths of CHANGE_PATH_MAX bytes and CHANGE_PARTS_MAX parts; 2 * CHANGES_MAX entries in all. What
 *          lies deeper is one change with CHANGE_BAD_NAME.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "base/fold.h"
#include "base/str.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/scan_impl.h"

#define UNSURE_LIST_MAX 128u /* entries of a new directory that are listed before asking about it */

struct entry {
	char *name;
	size_t layer;
	struct stat st;
	bool opaque;
};

struct listing {
	struct entry *v;
	size_t n, cap;
};

static void listing_done(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
}
#define cleanup_listing __attribute__((cleanup(listing_done)))

static struct entry *listing_add(struct listing *l, const char *name)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 32;
		struct entry *v = realloc(l->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n] = (struct entry){.name = strdup(name)};
	return l->v[l->n].name ? &l->v[l->n++] : NULL;
}

/* By name, then the newest layer first. */
static int by_name(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : x->layer < y->layer ? 1 : x->layer > y->layer ? -1 : 0;
}

static bool is_whiteout(const struct walk *w, const struct entry *en)
{
	return !w->plain && S_ISCHR(en->st.st_mode) && en->st.st_rdev == makedev(0, 0);
}

/* ------------------------------------------------------------------ attributes */

/* Names of extended attributes of dir_fd/name; -1 when they cannot be read. */
static ssize_t list_xattrs(struct walk *w, int dir_fd, const char *name)
{
	char p[64 + 256];

	if (snprintf(p, sizeof(p), "/proc/self/fd/%d/%s", dir_fd, name) >= (int)sizeof(p))
		return -1;
	return llistxattr(p, w->xattrs, XATTRS_MAX_B);
}

bool xattr_has(const char *list, size_t n, const char *name)
{
	for (size_t at = 0; at < n;) {
		size_t len = strnlen(list + at, n - at);

		if (len == strlen(name) && memcmp(list + at, name, len) == 0)
			return true;
		at += len + 1;
	}
	return false;
}

/* Is a layer's directory opaque? What we cannot interpret is an error. */
static int read_opaque(struct walk *w, int dir_fd, struct entry *en, const char *dir)
{
	ssize_t n = list_xattrs(w, dir_fd, en->name);
	char p[64 + 256], value[8] = {0};
	const char *odd = NULL;

	if (n < 0 && errno != ENOTSUP && errno != ENOENT && errno != EPERM && errno != EACCES)
		return walk_fail(w, errno, "read attributes of a directory in", dir);
	if (n <= 0)
		return 0;
	if (xattr_has(w->xattrs, (size_t)n, "user.overlay.redirect"))
		odd = "a redirect";
	else if (xattr_has(w->xattrs, (size_t)n, "user.overlay.metacopy"))
		odd = "a metadata-only copy";
	if (!odd && xattr_has(w->xattrs, (size_t)n, "user.overlay.opaque")) {
		snprintf(p, sizeof(p), "/proc/self/fd/%d/%s", dir_fd, en->name);
		n = lgetxattr(p, "user.overlay.opaque", value, sizeof(value));
		if (n == 1 && value[0] == 'y')
			en->opaque = true;
		else
			odd = "an unknown kind of opaque directory";
	}
	if (odd) {
		cleanup_buf struct buf b = BUF_INIT(ERR_MSG_MAX);

		str_show(&b, dir, strlen(dir));
		str_show(&b, "/", *dir ? 1 : 0);
		str_show(&b, en->name, strlen(en->name));
		return err_refuse(w->e,
			"the layer has %s at %s, which croft never makes: the environment was "
			"changed by something else, so its changes cannot be trusted",
			odd, buf_str(&b));
	}
	return 0;
}

/* ------------------------------------------------------------------ listing */

static bool is_dots(const char *n)
{
	return n[0] == '.' && (!n[1] || (n[1] == '.' && !n[2]));
}

/* 1: more entries than may be listed before asking. */
static int list_layer(struct walk *w, struct listing *l, const struct scan_place *pl, size_t layer)
{
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	/* the environment's own; but where the user has no repository, none comes to be */
	bool own_git = !*pl->path && (!start_is_live(w) || start_is_repository(w));
	int fd = path_open(w->s->layers[layer], *pl->path ? pl->path : ".",
		O_RDONLY | O_DIRECTORY | O_NONBLOCK, PATH_NO_SYMLINKS | PATH_BENEATH);
	int r;

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while ((errno = 0, de = readdir(d))) {
		struct entry *en;

		if (is_dots(de->d_name) || (own_git && str_eq(de->d_name, ".git")))
			continue;
		if (pl->unsure && l->n >= pl->left)
			return 1;
		if (w->seen++ > 2ull * CHANGES_MAX)
			return -E2BIG;
		en = listing_add(l, de->d_name);
		if (!en)
			return -ENOMEM;
		en->layer = layer;
		if (fstatat(fd, de->d_name, &en->st, AT_SYMLINK_NOFOLLOW) < 0) {
			free(en->name); /* gone again */
			l->n--;
			continue;
		}
		r = S_ISDIR(en->st.st_mode) && !w->plain ? read_opaque(w, fd, en, pl->path) : 0;
		if (r < 0)
			return r;
	}
	return -errno;
}

/* ------------------------------------------------------------------ one name */

/* A change to a submodule: anything in its files, or where its HEAD is; not its index and caches. */
static int submodule_touched(struct walk *w, const char *path, const size_t *layers, size_t n)
{
	static const char *const moved[] = {"HEAD", "refs", "packed-refs", "modules"};

	for (size_t i = 0; i < n; i++) {
		cleanup_fd int fd = path_open(w->s->layers[layers[i]], path, O_RDONLY | O_DIRECTORY,
			PATH_NO_SYMLINKS | PATH_BENEATH);
		cleanup_dir DIR *d = fd < 0 ? NULL : dir_list(fd, ".");
		struct dirent *de;

		if (!d)
			return 1;
		while ((de = readdir(d)))
			if (!is_dots(de->d_name) && !str_eq(de->d_name, ".git"))
				return 1;
		for (size_t k = 0; k < ARRAY_SIZE(moved); k++) {
			char name[32];
			struct stat st;

			snprintf(name, sizeof(name), ".git/%s", moved[k]);
			if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
				return 1;
		}
	}
	return 0;
}

/* What kind of change the object of a layer is at a path; contents come later. */
static int add_object(struct walk *w, const struct scan_place *pl, const struct entry *en,
	unsigned old_mode, const struct oid *old, unsigned flags)
{
	struct item *it = walk_item(w, pl->path, en->name);

	if (!it)
		return walk_no_memory(w);
	it->layer = en->layer;
	it->st = en->st;
	it->old_mode = old_mode;
	it->old = *old;
	it->flags = flags | pl->flags;
	if (S_ISREG(en->st.st_mode))
		it->new_mode = en->st.st_mode & 0100 ? 0100755 : 0100644;
	else if (S_ISLNK(en->st.st_mode))
		it->new_mode = 0120000;
	else if (S_ISDIR(en->st.st_mode))
		it->new_mode = old_mode == 0160000 ? 0160000 : 040000;
	else
		it->flags |= CHANGE_SPECIAL;
	it->is_dir = S_ISDIR(en->st.st_mode);
	if (S_ISREG(en->st.st_mode) && (en->st.st_mode & (S_ISUID | S_ISGID | S_ISVTX)))
		it->flags |= CHANGE_SETID;
	return 0;
}

/* A directory at the end: go on there later. en[0..n) are its entries, the newest first. */
static int add_dir(struct walk *w, const struct scan_place *pl, const struct entry *en, size_t n,
	unsigned old_mode, unsigned flags)
{
	struct scan_place *p;
	int r = walk_place(w, &p);

	if (r < 0)
		return r;
	p->path = path_join(pl->path, en->name);
	p->layers = calloc(n, sizeof(*p->layers));
	if (!p->path || !p->layers)
		return walk_no_memory(w);
	p->hidden = pl->hidden;
	p->in_start = old_mode == 040000;
	p->flags = pl->flags | flags;
	for (size_t i = 0; i < n; i++) {
		if (!S_ISDIR(en[i].st.st_mode)) {
			p->hidden = true;
			break;
		}
		p->layers[p->n++] = en[i].layer;
		if (en[i].opaque) {
			p->hidden = true;
			break;
		}
	}
	p->unsure =
		(!p->in_start || start_is_repository(w)) && w->s->ignore_tree && !w->ask_nothing;
	p->left = pl->unsure ? pl->left : UNSURE_LIST_MAX;
	return 0;
}

/* All entries of one name. */
static int one_name(struct walk *w, const struct scan_place *pl, const struct entry *en, size_t n,
	unsigned flags)
{
	cleanup_free char *path = path_join(pl->path, en->name);
	cleanup_free size_t *layers = calloc(n, sizeof(*layers));
	unsigned old_mode = 0;
	struct oid old = {0};
	size_t dirs = 0;
	int r = 0;

	if (!path || !layers)
		return walk_no_memory(w);
	if (strlen(path) > CHANGE_PATH_MAX)
		return 0; /* said by its directory */
	if (pl->in_start)
		old_mode = start_find(w, path, &old);
	if (is_whiteout(w, en))
		return old_mode ? start_gone(w, path, old_mode, &old, pl->flags) : 0;
	while (dirs < n && S_ISDIR(en[dirs].st.st_mode)) {
		layers[dirs] = en[dirs].layer;
		if (en[dirs++].opaque)
			break;
	}
	if (old_mode == 0160000) {
		if (dirs && !submodule_touched(w, path, layers, dirs))
			return 0;
		return add_object(w, pl, en, old_mode, &old, CHANGE_SUBMODULE);
	}
	if (name_is_git(en->name))
		return add_object(w, pl, en, old_mode, &old, CHANGE_NESTED_GIT);
	if (dirs) {
		if (old_mode && old_mode != 040000)
			r = start_gone(w, path, old_mode, &old, pl->flags);
		return r < 0 ? r : add_dir(w, pl, en, n, old_mode, flags);
	}
	if (old_mode == 040000) {
		r = start_gone(w, path, old_mode, &old, pl->flags);
		old_mode = 0;
		old = (struct oid){0};
	}
	return r < 0 ? r : add_object(w, pl, en, old_mode, &old, flags);
}

/* ------------------------------------------------------------------ names of the start */

/* Names that are twins (base/fold.h) of one that is new here. */
struct twins {
	struct walk *w;
	const struct listing *l;
	const struct fold_list *v; /* new or kept names, each of an entry */
	struct buf key;            /* of the name that is looked for */
	bool *hit;
	const struct scan_place *pl;
};

static const struct entry *listed(const struct listing *l, const char *name)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) { /* the first, which is the newest, of that name */
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(l->v[mid].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < l->n && str_eq(l->v[lo].name, name) ? &l->v[lo] : NULL;
}

static void hit(const struct twins *t, size_t i)
{
	t->hit[(const struct entry *)t->v->v[i].of - t->l->v] = true;
}

/* A name of the start that still shows: every listed twin of it is in its way. */
static int twin_visit(void *arg, const char *name, unsigned mode, const struct oid *o)
{
	struct twins *t = arg;
	const struct entry *same = listed(t->l, name);

	if (same ? is_whiteout(t->w, same) : t->pl->hidden)
		return 0;
	t->key.max = FOLD_KEY_MAX_B(strlen(name));
	buf_reset(&t->key);
	fold_key(&t->key, name, strlen(name));
	if (t->key.failed)
		return walk_no_memory(t->w);
	for (size_t i = fold_list_at(t->v, buf_str(&t->key));
		i < t->v->n && str_eq(t->v->v[i].key, buf_str(&t->key)); i++)
		if (!str_eq(t->v->v[i].name, name))
			hit(t, i);
	return 0;
}

/* ret_hit[i]: the name at i of the listing is a twin of another that will be there. */
static int find_twins(
	struct walk *w, const struct scan_place *pl, const struct listing *l, bool *ret_hit)
{
	cleanup_fold_list struct fold_list v = {0};
	struct twins t = {.w = w, .l = l, .v = &v, .hit = ret_hit, .pl = pl};
	int r = 0;

	for (size_t i = 0; i < l->n; i++)
		if ((i == 0 || !str_eq(l->v[i - 1].name, l->v[i].name)) &&
			!is_whiteout(w, &l->v[i]) && !fold_list_add(&v, l->v[i].name, &l->v[i]))
			return walk_no_memory(w);
	fold_list_sort(&v);
	for (size_t i = 0; i + 1 < v.n; i++)
		if (fold_list_twins(&v, i)) {
			hit(&t, i);
			hit(&t, i + 1);
		}
	if (pl->in_start && v.n)
		r = start_list(w, pl->path, twin_visit, &t);
	buf_done(&t.key);
	return r;
}

struct missing {
	struct walk *w;
	const struct scan_place *pl;
	const struct listing *l;
};

static int missing_visit(void *arg, const char *name, unsigned mode, const struct oid *o)
{
	struct missing *m = arg;
	cleanup_free char *path = NULL;

	if (listed(m->l, name))
		return 0;
	path = path_join(m->pl->path, name);
	return path ? start_gone(m->w, path, mode, o, m->pl->flags) : walk_no_memory(m->w);
}

/* ------------------------------------------------------------------ one directory */

/* Was this name in the start's directory? Then its spelling is not this scan's affair. */
static bool is_new(struct walk *w, const struct scan_place *pl, const char *name)
{
	cleanup_free char *path = pl->in_start ? path_join(pl->path, name) : NULL;
	struct oid o;

	return !path || start_find(w, path, &o) == 0;
}

static int merge(struct walk *w, const struct scan_place *pl, struct listing *l)
{
	cleanup_free bool *twin = calloc(l->n + 1, sizeof(bool));
	size_t shown = 0;
	int r = twin ? 0 : walk_no_memory(w);

	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_name);
	if (r == 0)
		r = find_twins(w, pl, l, twin);
	for (size_t i = 0, k; r == 0 && i < l->n; i = k) {
		bool clash = twin[i] && is_new(w, pl, l->v[i].name);

		for (k = i + 1; k < l->n && str_eq(l->v[k].name, l->v[i].name);)
			k++;
		shown += !is_whiteout(w, &l->v[i]);
		r = one_name(w, pl, &l->v[i], k - i, clash ? CHANGE_CASE : 0);
	}
	if (r == 0 && pl->in_start && pl->hidden) {
		struct missing m = {.w = w, .pl = pl, .l = l};

		r = start_list(w, pl->path, missing_visit, &m);
	}
	if (r == 0 && !shown && !pl->in_start && *pl->path) {
		struct item *it = walk_item(w, "", pl->path);

		if (!it)
			return walk_no_memory(w);
		it->layer = pl->layers[0];
		it->new_mode = 040000;
		it->is_dir = true;
		it->flags = pl->flags | CHANGE_EMPTY_DIR;
	}
	return r;
}

/* A directory that cannot be listed, or whose entries have no path, is a change by itself. */
static int flag_place(struct walk *w, const struct scan_place *pl, unsigned flag)
{
	struct item *it = walk_item(w, "", pl->path);

	if (!it)
		return walk_no_memory(w);
	it->layer = pl->layers[0];
	it->new_mode = 040000;
	it->is_dir = true;
	it->flags = pl->flags | flag;
	return 0;
}

static int hold(struct walk *w, struct scan_place *pl)
{
	if (w->held_n == w->held_cap) {
		size_t cap = w->held_cap ? w->held_cap * 2 : 16;
		struct scan_place *v = realloc(w->held, cap * sizeof(*v));

		if (!v)
			return walk_no_memory(w);
		w->held = v;
		w->held_cap = cap;
	}
	w->held[w->held_n++] = *pl;
	*pl = (struct scan_place){0};
	return 0;
}

/*
 * Git takes a directory for a repository by what is in it. Names of the start count although they are
 * gone or hidden at the end, because what lands may be a part of what was changed. At the top a .git
 * comes first.
 */
static bool looks_like_git_dir(struct walk *w, const struct scan_place *pl, const struct listing *l)
{
	unsigned bits = 0;
	const char *name;

	if (w->ask_nothing || (!*pl->path && (!start_is_live(w) || start_is_repository(w))))
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (!is_whiteout(w, &l->v[i]))
			bits |= git_dir_bit(l->v[i].name);
	for (unsigned i = 0; pl->in_start && (name = git_dir_name(i)); i++) {
		cleanup_free char *path = path_join(pl->path, name);
		struct oid o;

		if (!path || start_find(w, path, &o))
			bits |= git_dir_bit(name);
		if (!(bits & GIT_DIR_HEAD))
			break;
	}
	return git_dir_like(bits);
}

static int list_place(struct walk *w, struct scan_place *pl)
{
	cleanup_listing struct listing l = {0};
	size_t parts = 1;
	int r;

	for (const char *p = pl->path; (p = strchr(p, '/')); p++)
		parts++;
	if (parts >= CHANGE_PARTS_MAX)
		return flag_place(w, pl, CHANGE_BAD_NAME);
	for (size_t i = 0; i < pl->n; i++) {
		r = list_layer(w, &l, pl, pl->layers[i]);
		if (r == 1)
			return hold(w, pl);
		if (r == -EACCES || r == -EPERM)
			return w->e->kind != ERR_NONE ? r : flag_place(w, pl, CHANGE_UNREADABLE);
		if (r == -E2BIG)
			return err_refuse(w->e,
				"the environment holds more than %u entries: remove what is not "
				"needed, or have the project ignore it",
				2 * CHANGES_MAX);
		if (r < 0 && r != -ENOENT)
			return w->e->kind != ERR_NONE ? r : walk_fail(w, -r, "list", pl->path);
	}
	for (size_t i = 0; i < l.n; i++) {
		if (strlen(pl->path) + 1 + strlen(l.v[i].name) <= CHANGE_PATH_MAX)
			continue;
		r = flag_place(w, pl, CHANGE_BAD_NAME);
		if (r < 0)
			return r;
		break;
	}
	if (pl->unsure)
		pl->left -= MIN_OF(pl->left, l.n);
	if (looks_like_git_dir(w, pl, &l))
		pl->flags |= CHANGE_NESTED_GIT;
	return merge(w, pl, &l);
}

int walk_layers(struct walk *w)
{
	int r = 0;

	while (r == 0 && w->todo_n > 0) {
		struct scan_place pl = w->todo[--w->todo_n];

		r = list_place(w, &pl);
		free(pl.path);
		free(pl.layers);
	}
	return r;
}
