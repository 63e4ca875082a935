/* SPDX-License-Identifier: Apache-2.0 */
/* From a start state and layers to a list of changes and the tree they make: see scan.h, scan_impl.h. */
#include "snap/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"
#include "snap/scan_impl.h"

/* ------------------------------------------------------------------ the walk's memory */

int walk_no_memory(struct walk *w)
{
	if (w->n >= CHANGES_MAX)
		return err_refuse(w->e,
			"more than %u paths were changed: remove what is not needed, or have the "
			"project ignore it",
			CHANGES_MAX);
	return w->e->kind != ERR_NONE ? -w->e->errnum : err_set(w->e, ENOMEM, "list changes");
}

int walk_fail(struct walk *w, int errnum, const char *what, const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(ERR_MSG_MAX);

	str_show(&b, *path ? path : ".", *path ? MIN_OF(strlen(path), (size_t)400) : 1);
	return err_set(w->e, errnum, "%s %s", what, buf_str(&b));
}

struct item *walk_item(struct walk *w, const char *dir, const char *name)
{
	if (w->n >= CHANGES_MAX)
		return NULL;
	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		struct item *v = realloc(w->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		w->v = v;
		w->cap = cap;
	}
	w->v[w->n] = (struct item){.path = path_join(dir, name)};
	return w->v[w->n].path ? &w->v[w->n++] : NULL;
}

int walk_place(struct walk *w, struct scan_place **ret)
{
	if (w->todo_n == w->todo_cap) {
		size_t cap = w->todo_cap ? w->todo_cap * 2 : 64;
		struct scan_place *v = realloc(w->todo, cap * sizeof(*v));

		if (!v)
			return walk_no_memory(w);
		w->todo = v;
		w->todo_cap = cap;
	}
	w->todo[w->todo_n] = (struct scan_place){0};
	*ret = &w->todo[w->todo_n++];
	return 0;
}

static void places_done(struct scan_place *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].path);
		free(v[i].layers);
	}
	free(v);
}

void walk_done(struct walk *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i].path);
	free(w->v);
	places_done(w->todo, w->todo_n);
	places_done(w->held, w->held_n);
	free(w->xattrs);
	free(w->parent);
	strlist_done(&w->tracked);
	close_fd(&w->base_fd);
}

int walk_init(struct walk *w, const struct scan *s, bool plain, struct err *e)
{
	struct scan_place *top = NULL;

	*e = ERR_INIT;
	*w = (struct walk){.s = s, .plain = plain, .base_fd = -1, .e = e};
	w->xattrs = malloc(XATTRS_MAX_B);
	if (!w->xattrs || walk_place(w, &top) < 0)
		return walk_no_memory(w);
	top->path = strdup("");
	top->layers = calloc(s->layers_n + 1, sizeof(*top->layers));
	if (!top->path || !top->layers)
		return walk_no_memory(w);
	for (size_t i = s->layers_n; i > 0; i--)
		top->layers[top->n++] = i - 1;
	top->in_start = true;
	top->hidden = plain;
	if (s->ignore_tree) {
		w->base_fd = open(s->ignore_tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (w->base_fd < 0)
			return walk_fail(w, errno, "open", s->ignore_tree);
	}
	return 0;
}

int walk_all(struct walk *w)
{
	int r;

	do {
		r = walk_layers(w);
		if (r == 0 && (w->n > w->asked || w->held_n))
			r = walk_ask_ignored(w);
	} while (r == 0 && w->todo_n > 0);
	return r < 0 ? r : walk_contents(w);
}

/* ------------------------------------------------------------------ the result */

/*
 * A path of the start that is gone and where a directory is now that is a change by itself: one change.
 * That the directory is empty is the lesser news; anything else keeps the whole from landing.
 */
static void join_doubles(struct changes *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct change *was = n ? &c->v[n - 1] : NULL, *ch = &c->v[i];

		if (!was || strcmp(was->path, ch->path) != 0) {
			if (n != i)
				c->v[n] = *ch;
			n++;
			continue;
		}
		if (!was->old_mode) { /* either may come first */
			was->old_mode = ch->old_mode;
			was->old = ch->old;
		}
		was->new_mode = was->new_mode ? was->new_mode : ch->new_mode;
		was->flags |= ch->flags;
		was->runs = was->runs ? was->runs : ch->runs;
		if (was->flags & CHANGE_EMPTY_DIR) {
			was->flags &= ~(unsigned)CHANGE_EMPTY_DIR;
			was->new_mode = 0;
		}
		free(ch->path);
	}
	c->n = n;
}

int walk_result(struct walk *w, struct changes *ret)
{
	for (size_t i = 0; i < w->n; i++) {
		struct item *it = &w->v[i];
		struct change *ch;

		if (it->named && it->new_mode == it->old_mode && oid_eq(&it->new, &it->old)) {
			/* the start had it */
			it->flags &=
				~(unsigned)(CHANGE_ESCAPES | CHANGE_NESTED_GIT | CHANGE_SUBMODULE);
			if (!it->flags)
				continue;
		}
		if (it->layer == ITEM_GONE)
			it->new_mode = 0;
		ch = changes_add(ret, it->path);
		if (!ch)
			return walk_no_memory(w);
		ch->old_mode = it->old_mode;
		ch->new_mode = it->new_mode;
		ch->old = it->old;
		ch->new = it->new;
		ch->size = it->layer != ITEM_GONE && it->new_mode != 040000
				   ? (uint64_t)it->st.st_size
				   : 0;
		ch->disk_b = ch->size ? MIN_OF((uint64_t)it->st.st_blocks * 512, ch->size) : 0;
		ch->flags = it->flags | (it->runs ? CHANGE_RUNS : 0u);
		ch->runs = it->runs;
	}
	ret->ignored = w->ignored;
	changes_sort(ret);
	join_doubles(ret);
	for (size_t i = 0; i < ret->n; i++)
		ret->unnamed += (ret->v[i].flags & CHANGE_NOT_READ) != 0;
	return 0;
}

static bool lands(const struct change *ch)
{
	return !(
		ch->flags & (CHANGE_REFUSED | CHANGE_IGNORED | CHANGE_EMPTY_DIR | CHANGE_NOT_READ));
}

/* Old or new side of what lands, on top of m (NULL: of nothing). */
static int side_tree(const struct changes *c, const struct treemap *m, bool old,
	struct git_store *store, struct oid *ret, struct err *e)
{
	cleanup_free struct tree_edit *v = calloc(c->n + 1, sizeof(*v));
	size_t n = 0;

	if (!v)
		return err_set(e, ENOMEM, "compute a tree");
	for (size_t i = 0; i < c->n; i++) {
		const struct change *ch = &c->v[i];
		unsigned mode = old ? ch->old_mode : ch->new_mode;

		/* without a map there is nothing to take away */
		if (!lands(ch) || (!m && mode == 0))
			continue;
		v[n++] = (struct tree_edit){
			.path = ch->path, .mode = mode, .oid = old ? ch->old : ch->new};
	}
	return tree_edit(m, v, n, store, ret, e);
}

static int compute_trees(struct changes *c, const struct scan *s, struct err *e)
{
	int r = 0;

	if (s->start)
		treemap_root(s->start, &c->start_tree);
	if (c->unnamed && !s->part)
		return 0;
	if (!s->start) /* a live start: the tree of what was changed, as it was */
		r = side_tree(c, NULL, true, s->store, &c->start_tree, e);
	return r < 0 ? r : side_tree(c, s->start, false, s->store, &c->tree, e);
}

static int run(struct changes *ret, const struct scan *s, bool plain, struct err *e)
{
	cleanup_changes struct changes c = {0};
	cleanup_walk struct walk w;
	int r = walk_init(&w, s, plain, e);

	if (r == 0)
		r = walk_all(&w);
	if (r == 0)
		r = walk_flags(&w);
	if (r == 0)
		r = walk_result(&w, &c);
	if (r == 0)
		r = compute_trees(&c, s, e);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct changes){0};
	return 0;
}

int scan_layers(struct changes *ret, const struct scan *s, struct err *e)
{
	return run(ret, s, false, e);
}

int scan_copy(struct changes *ret, const struct scan *s, int copy_fd, struct err *e)
{
	struct scan one = *s;

	/* A copy is one layer through which nothing of the start shows. */
	one.layers = &copy_fd;
	one.layers_n = 1;
	return run(ret, &one, true, e);
}
