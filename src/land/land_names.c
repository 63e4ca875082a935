/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a commit that mean something only beside each other: a directory that Git takes for a
 * repository, names that some file system takes for one.
 *
 * Trust: the commit was made in a sandbox. It is in the history for good, and whoever checks it out has
 *        its files, so it is held to the rules that the scan has for the end (snap/scan_layers.c), also
 *        where a later commit takes them away again.
 * Cost:  only directories are read in which, or below which, the commit changed something.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fold.h"
#include "land/land_impl.h"
#include "git/read.h"
#include "snap/name.h"

#define NAMES_TREE_MAX_B ((size_t)256 << 20) /* one tree object */

/* A tree object: its entries, sorted by name. */
struct names {
	struct buf raw;
	struct tree_entry *v; /* names are in raw, each ended by a NUL */
	size_t n;
};

static void names_done(struct names *t)
{
	buf_done(&t->raw);
	free(t->v);
}
#define cleanup_names __attribute__((cleanup(names_done)))

static int by_name(const void *a, const void *b)
{
	const struct tree_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* o none: there is no such directory, and so there are no names. */
static int names_read(struct land_job *j, const struct oid *o, struct names *ret, struct err *e)
{
	size_t cap = 0, at = 0;
	int rc;

	*ret = (struct names){.raw = BUF_INIT(NAMES_TREE_MAX_B)};
	if (oid_is_none(o))
		return 0;
	rc = land_reader(j, e);
	if (rc == 0)
		rc = git_read_oid(j->reader, o, GIT_TREE, &ret->raw, e);
	if (rc < 0)
		return rc;
	for (;;) {
		if (ret->n == cap) {
			struct tree_entry *v;

			cap = cap ? 2 * cap : 64;
			v = reallocarray(ret->v, cap, sizeof(*v));
			if (!v)
				return land_no_memory(e);
			ret->v = v;
		}
		rc = git_tree_next(
			ret->raw.data, ret->raw.len, j->v->repo.hash, &at, &ret->v[ret->n]);
		if (rc <= 0)
			break;
		ret->n++;
	}
	if (rc < 0)
		return err_set(e, -rc, "read a tree of %s", j->v->name);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_name);
	return 0;
}

static const struct tree_entry *names_find(const struct names *t, const char *name)
{
	const struct tree_entry key = {.name = name};

	return t->n ? bsearch(&key, t->v, t->n, sizeof(*t->v), by_name) : NULL;
}

/* The directory of this name, or none. */
static struct oid names_dir(const struct names *t, const char *name)
{
	const struct tree_entry *x = names_find(t, name);

	return x && x->mode == 040000 ? x->oid : (struct oid){0};
}

static unsigned names_bits(const struct names *t)
{
	unsigned bits = 0;

	for (size_t i = 0; i < t->n; i++)
		bits |= git_dir_bit(t->v[i].name);
	return bits;
}

/* ---- one directory ---- */

struct check {
	struct land_job *j;
	const struct changes *c;
	bool whole; /* all that lands, not one commit of the environment's */
	struct err *e;
};

static int refuse(const struct check *k, const char *dir, size_t dir_n, const char *name)
{
	cleanup_buf struct buf path = BUF_INIT(2 * CHANGE_PATH_MAX);

	buf_add(&path, dir, dir_n);
	buf_adds(&path, name);
	if (k->whole)
		return err_refuse(k->e, "%s does not land: with what the branch has already, it %s",
			land_show(buf_str(&path)).s,
			*name ? "differs from another name only in case or Unicode normalisation"
			      : "is a repository for Git, whose configuration runs programs");
	return err_refuse(k->e,
		"a commit of %s holds %s, which %s, and does not land; use --squash for what is "
		"staged",
		k->j->v->name, land_show(buf_str(&path)).s,
		*name ? "differs from another name only in case or Unicode normalisation"
		      : "Git takes for a repository of its own");
}

/*
 * dir: its path with a slash at the end, in the path of some change. As in the scan, names of the start
 * count beside those of the commit, and what was there at the start may collide. At the top a .git comes
 * first.
 */
static int check_dir(const struct check *k, const char *dir, size_t dir_n, const struct names *now,
	const struct names *start)
{
	cleanup_fold_list struct fold_list folded = {0};

	if (dir_n && git_dir_like(names_bits(now) | names_bits(start)))
		return refuse(k, dir, dir_n, "");
	for (size_t i = 0; i < now->n; i++)
		if (!fold_list_add(&folded, now->v[i].name, NULL))
			return land_no_memory(k->e);
	fold_list_sort(&folded);
	for (size_t i = 0; i + 1 < folded.n; i++) {
		const char *a = folded.v[i].name, *b = folded.v[i + 1].name;

		if (fold_list_twins(&folded, i) && (!names_find(start, a) || !names_find(start, b)))
			return refuse(k, dir, dir_n, names_find(start, b) ? a : b);
	}
	return 0;
}

/* Changes [from, to) are all of those in dir, or below. */
static int check_below(const struct check *k, size_t from, size_t to, size_t dir_n,
	const struct oid *now, const struct oid *start, unsigned depth)
{
	cleanup_names struct names n, s;
	const char *dir = k->c->v[from].path;
	int rc = names_read(k->j, now, &n, k->e), rs = names_read(k->j, start, &s, k->e);

	if (rc < 0 || rs < 0)
		return rc < 0 ? rc : rs;
	if (depth >= CHANGE_PARTS_MAX)
		return err_refuse(k->e,
			"a commit of %s has more than %u directories in each other; use --squash",
			k->j->v->name, CHANGE_PARTS_MAX);
	rc = check_dir(k, dir, dir_n, &n, &s);
	for (size_t i = from, next; rc == 0 && i < to; i = next) {
		const char *name = k->c->v[i].path + dir_n, *slash = strchr(name, '/');
		cleanup_free char *part = slash ? strndup(name, (size_t)(slash - name)) : NULL;
		size_t len = slash ? (size_t)(slash - k->c->v[i].path) + 1 : 0;
		struct oid below, below_start;

		next = i + 1;
		if (!slash)
			continue;
		if (!part)
			return land_no_memory(k->e);
		while (next < to && strncmp(k->c->v[next].path, k->c->v[i].path, len) == 0)
			next++;
		below = names_dir(&n, part);
		below_start = names_dir(&s, part);
		if (!oid_is_none(&below)) /* else it is gone, with all that was in it */
			rc = check_below(k, i, next, len, &below, &below_start, depth + 1);
	}
	return rc;
}

int land_check_names(
	struct land_job *j, const struct changes *c, const struct oid *tree, struct err *e)
{
	const struct check k = {.j = j, .c = c, .e = e};

	return c->n ? check_below(&k, 0, c->n, 0, tree, &j->in.start, 0) : 0;
}

int land_check_landed(struct land_job *j, const struct changes *c, struct err *e)
{
	const struct check k = {.j = j, .c = c, .whole = true, .e = e};

	return c->n ? check_below(&k, 0, c->n, 0, &j->in.landed, &j->in.onto, 0) : 0;
}
