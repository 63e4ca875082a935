/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree that results from some changes: see treemap.h.
 *
 * How:    edits are sorted so that all below one directory are neighbours; one pass per directory that
 *         has edits merges its old entries with what became of the edited names. Directories without
 *         edits are never looked at: their names are copied.
 * Trust:  paths come from a sandbox. They are checked before anything is sorted.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "git/treemap_impl.h"

#define EDIT_DEPTH_MAX 256
#define EDIT_RAW_MAX ((size_t)1 << 30)

struct editor {
	const struct treemap *m;
	struct git_store *s;
	struct err *e;
};

/* Edits of one directory: v[0..n), of whose paths the first `skip` bytes name it, with the slash. */
struct span {
	struct tree_edit *v;
	size_t n, skip;
};

/* What one edited name becomes. */
struct edit_outcome {
	const char *name;
	size_t name_n;
	int64_t was;   /* its old position; -1: new */
	unsigned mode; /* 0: gone */
	struct oid oid;
};

/* ------------------------------------------------------------------ checking and sorting */

static int bad_edit(struct editor *ed, const struct tree_edit *t, const char *what)
{
	cleanup_buf struct buf shown = BUF_INIT(8 * PATH_MAX);

	str_show(&shown, t->path, strnlen(t->path, PATH_MAX));
	return err_invalid(
		ed->e, "the path \"%.400s\" cannot be put into a tree: %s", buf_str(&shown), what);
}

static bool mode_settable(unsigned m)
{
	return m == 0040000 || m == 0100644 || m == 0100755 || m == 0120000 || m == 0160000;
}

static int check_edit(struct editor *ed, const struct tree_edit *t)
{
	int depth = 0;

	if (strnlen(t->path, PATH_MAX) >= PATH_MAX)
		return bad_edit(ed, t, "it is too long");
	for (const char *p = t->path;; p++) {
		size_t n = strcspn(p, "/");
		bool git = n == 4 && !tree_name_fine(p, n);

		/* What is not put there may have any name. */
		if (!tree_name_fine(p, n) && !(git && t->mode == 0))
			return bad_edit(ed, t, "it has a part that no entry may be called");
		if (++depth > EDIT_DEPTH_MAX)
			return bad_edit(ed, t, "it has too many parts");
		p += n;
		if (!*p)
			break;
	}
	if (t->mode == 0)
		return 0;
	if (!mode_settable(t->mode))
		return bad_edit(ed, t, "its mode is none that Git knows");
	if (t->oid.n != git_hash_len(ed->s->hash) || oid_is_none(&t->oid))
		return bad_edit(ed, t, "its object has no name");
	return 0;
}

/* A slash before every other byte: whatever is below a name follows right after it. */
static int path_cmp(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	if (*a == *b)
		return 0;
	if (!*a || !*b)
		return *a ? 1 : -1;
	if (*a == '/' || *b == '/')
		return *a == '/' ? -1 : 1;
	return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}

static int by_path(const void *a, const void *b)
{
	const struct tree_edit *x = a, *y = b;
	int c = path_cmp(x->path, y->path);

	return c ? c : (x->mode != 0) - (y->mode != 0); /* deletions first */
}

/* ------------------------------------------------------------------ one name */

static int edit_dir(struct editor *ed, const struct treemap_dir *base, const struct span *sp,
	const struct oid *was, struct oid *ret);

static bool all_deletions(const struct span *sp)
{
	for (size_t i = 0; i < sp->n; i++)
		if (sp->v[i].mode)
			return false;
	return true;
}

/* What is said about the name itself: at most one thing to put there. */
static int take_exact(
	struct editor *ed, const struct span *own, bool *ret_gone, const struct tree_edit **ret_set)
{
	for (size_t i = 0; i < own->n; i++) {
		const struct tree_edit *t = &own->v[i];

		if (t->mode == 0)
			*ret_gone = true;
		else if (!*ret_set)
			*ret_set = t;
		else if ((*ret_set)->mode != t->mode || !oid_eq(&(*ret_set)->oid, &t->oid))
			return bad_edit(ed, t, "two different things are to be there");
	}
	return 0;
}

/*
 * own: edits of this very name; below: edits of what is in it; old: what it is now (mode 0: nothing).
 * Fills mode and oid of out.
 */
static int edit_name(struct editor *ed, const struct span *own, const struct span *below,
	const struct tree_entry *old, struct edit_outcome *out)
{
	const struct treemap_dir *base = NULL;
	const struct tree_edit *set = NULL;
	bool gone = false, was_dir = old->mode == 0040000;
	int r = take_exact(ed, own, &gone, &set);

	if (r < 0)
		return r;
	if (set) {
		if (!all_deletions(below))
			return bad_edit(ed, set, "there are to be files below it, too");
		out->mode = set->mode;
		out->oid = set->oid;
		return 0;
	}
	out->mode = gone ? 0 : old->mode;
	out->oid = old->oid;
	/* Nothing can be taken away below what is no directory. */
	if (below->n == 0 || (all_deletions(below) && (gone || !was_dir)))
		return 0;
	if (was_dir && !gone) {
		base = treemap_dir_find(ed->m, below->v[0].path, below->skip - 1);
		if (!base)
			return err_set(ed->e, EBADMSG,
				"the map of the base's trees is damaged: a directory is missing");
	}
	r = edit_dir(ed, base, below, base ? &old->oid : NULL, &out->oid);
	if (r < 0)
		return r;
	out->mode = out->oid.n ? 0040000 : 0;
	return 0;
}

/* ------------------------------------------------------------------ one directory */

/* How many of the edits from the first on are about the same name, exactly and below it. */
static void split(const struct span *sp, struct span *own, struct span *below, size_t *ret_name_n)
{
	const char *name = sp->v[0].path + sp->skip;
	size_t n = strcspn(name, "/"), i = 0;

	*own = *below = (struct span){.v = sp->v, .skip = sp->skip + n + 1};
	while (i < sp->n && strncmp(sp->v[i].path + sp->skip, name, n) == 0 &&
		sp->v[i].path[sp->skip + n] == '\0')
		i++;
	own->n = i;
	below->v = sp->v + i;
	while (i < sp->n && strncmp(sp->v[i].path + sp->skip, name, n) == 0 &&
		sp->v[i].path[sp->skip + n] == '/')
		i++;
	below->n = i - own->n;
	*ret_name_n = n;
}

/* Every edited name of a directory. Returns how many. */
static int64_t edit_names(struct editor *ed, const struct treemap_dir *base, const struct span *sp,
	struct edit_outcome *out)
{
	struct span left = *sp;
	int64_t n = 0;

	while (left.n > 0) {
		struct tree_entry old = {0};
		struct edit_outcome *o = &out[n++];
		struct span own, below;
		size_t name_n;
		int r;

		split(&left, &own, &below, &name_n);
		*o = (struct edit_outcome){
			.name = left.v[0].path + left.skip, .name_n = name_n, .was = -1};
		if (base)
			o->was = treemap_search(ed->m, base, o->name, name_n, &old);
		if (o->was < 0)
			old = (struct tree_entry){0};
		r = edit_name(ed, &own, &below, &old, o);
		if (r < 0)
			return r;
		left.v += own.n + below.n;
		left.n -= own.n + below.n;
	}
	return n;
}

static int by_position(const void *a, const void *b)
{
	const struct edit_outcome *x = a, *y = b;

	return (x->was > y->was) - (x->was < y->was);
}

static int by_order(const void *a, const void *b)
{
	const struct edit_outcome *x = a, *y = b;

	return tree_name_cmp(x->name, x->name_n, x->mode, y->name, y->name_n, y->mode);
}

static void put(struct buf *raw, unsigned mode, const char *name, size_t n, const struct oid *o)
{
	buf_addf(raw, "%o ", mode);
	buf_add(raw, name, n);
	buf_addc(raw, '\0');
	buf_add(raw, o->v, o->n);
}

/* Old entries that nobody edited, as they are, and the new ones, in Git's order. */
static int merge(struct editor *ed, const struct treemap_dir *base, struct edit_outcome *out,
	size_t n, struct buf *raw)
{
	size_t olds = base ? base->entries_n : 0, skip_n = 0, next = 0;
	cleanup_free int64_t *skip = malloc((n + 1) * sizeof(*skip));
	const char *from = base ? ed->m->raw + base->raw : NULL;

	if (!skip)
		return -ENOMEM;
	qsort(out, n, sizeof(*out), by_position);
	for (size_t i = 0; i < n; i++)
		if (out[i].was >= 0)
			skip[skip_n++] = out[i].was;
	qsort(out, n, sizeof(*out), by_order);
	for (size_t i = 0, s = 0; i < olds; i++) {
		size_t at = ed->m->entries[base->entries + i], start = at;
		struct tree_entry t;

		if (git_tree_next(from, base->raw_n, treemap_hash(ed->m), &at, &t) != 1)
			return -EBADMSG;
		if (s < skip_n && skip[s] == (int64_t)i) {
			s++;
			continue;
		}
		for (; next < n && tree_name_cmp(out[next].name, out[next].name_n, out[next].mode,
					   t.name, t.name_n, t.mode) < 0;
			next++)
			if (out[next].mode)
				put(raw, out[next].mode, out[next].name, out[next].name_n,
					&out[next].oid);
		buf_add(raw, from + start, at - start);
	}
	for (; next < n; next++)
		if (out[next].mode)
			put(raw, out[next].mode, out[next].name, out[next].name_n, &out[next].oid);
	return raw->failed ? -ENOMEM : 0;
}

/* ret is none when the directory becomes empty. was: its name now, if it is there. */
static int edit_dir(struct editor *ed, const struct treemap_dir *base, const struct span *sp,
	const struct oid *was, struct oid *ret)
{
	cleanup_free struct edit_outcome *out = calloc(sp->n, sizeof(*out));
	cleanup_buf struct buf raw = BUF_INIT(EDIT_RAW_MAX);
	struct oid now;
	int64_t n;
	int r;

	if (!out)
		return err_set(ed->e, ENOMEM, "make a tree");
	n = edit_names(ed, base, sp, out);
	if (n < 0)
		return (int)n;
	r = merge(ed, base, out, (size_t)n, &raw);
	if (r < 0)
		return err_set(ed->e, -r, "make a tree");
	if (raw.len == 0) {
		*ret = (struct oid){0};
		return 0;
	}
	oid_of(&now, ed->s->hash, GIT_TREE, raw.data, raw.len);
	if (!was || !oid_eq(&now, was)) {
		r = git_write(ed->s, GIT_TREE, raw.data, raw.len, &now, ed->e);
		if (r < 0)
			return r;
	}
	*ret = now;
	return 0;
}

int tree_edit(const struct treemap *m, struct tree_edit *v, size_t n, struct git_store *s,
	struct oid *ret, struct err *e)
{
	struct editor ed = {.m = m, .s = s, .e = e};
	const struct treemap_dir *base = m ? treemap_dir_find(m, "", 0) : NULL;
	struct span all = {.v = v, .n = n};
	struct oid was, now = {0};
	int r;

	if (m && treemap_hash(m) != s->hash)
		return err_invalid(e, "the base and the store name objects in different ways");
	for (size_t i = 0; i < n; i++) {
		r = check_edit(&ed, &v[i]);
		if (r < 0)
			return r;
	}
	if (n == 0 && m) {
		treemap_root(m, ret);
		return 0;
	}
	if (m)
		treemap_root(m, &was);
	if (n > 0) {
		qsort(v, n, sizeof(*v), by_path);
		r = edit_dir(&ed, base, &all, m ? &was : NULL, &now);
		if (r < 0)
			return r;
	}
	if (now.n == 0) { /* the empty tree is an object, too */
		r = git_write(s, GIT_TREE, "", 0, &now, e);
		if (r < 0)
			return r;
	}
	*ret = now;
	return 0;
}
