/* SPDX-License-Identifier: Apache-2.0 */
/* A store of its own with trees made by hand, for the tests of diff, review and compare. */
#ifndef CROFT_TESTS_UNIT_DIFF_WORLD_H
#define CROFT_TESTS_UNIT_DIFF_WORLD_H

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "review/review.h"
#include "git/program.h"
#include "git/read.h"
#include "os/tree.h"
#include "test.h"

struct world {
	char dir[64];
	struct git_store s;
	struct err e;
};

static inline bool world_open(struct world *w, enum git_hash h)
{
	char objects[96];
	struct git_run init = {.git_dir = w->dir, .dir = "/"};

	*w = (struct world){.s = {.objects_fd = -1, .hash = h}};
	snprintf(w->dir, sizeof(w->dir), "/tmp/croft-unit-diff.XXXXXX");
	if (!mkdtemp(w->dir))
		return false;
	init.argv = h == GIT_SHA256 ? (const char *const[]){"init", "-q", "--bare",
					      "--object-format=sha256", w->dir, NULL}
				    : (const char *const[]){"init", "-q", "--bare", w->dir, NULL};
	snprintf(objects, sizeof(objects), "%s/objects", w->dir);
	if (git_run(&init, &w->e) < 0)
		return false;
	w->s.objects_fd = open(objects, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return w->s.objects_fd >= 0;
}

static inline void world_close(struct world *w)
{
	close_fd(&w->s.objects_fd);
	if (w->dir[0])
		tree_remove_at(AT_FDCWD, w->dir);
}
#define cleanup_world __attribute__((cleanup(world_close)))

struct world_file {
	const char *path;
	unsigned mode;
	const char *text;
	size_t n; /* 0: strlen(text) */
};

static inline struct oid world_blob(struct world *w, const char *text, size_t n)
{
	struct oid o = {0};

	git_write(&w->s, GIT_BLOB, text, n ? n : strlen(text), &o, &w->e);
	return o;
}

static inline struct oid world_tree(struct world *w, const struct world_file *f, size_t n)
{
	struct tree_edit edits[64];
	struct oid ret = {0};

	for (size_t i = 0; i < n && i < 64; i++)
		edits[i] =
			(struct tree_edit){f[i].path, f[i].mode, world_blob(w, f[i].text, f[i].n)};
	if (tree_edit(NULL, edits, n, &w->s, &ret, &w->e) < 0)
		return (struct oid){0};
	return ret;
}
#define WORLD_TREE(w, ...)                                                                         \
	world_tree((w), (const struct world_file[]){__VA_ARGS__},                                  \
		ARRAY_SIZE(((const struct world_file[]){__VA_ARGS__})))

/* What is at a path of a tree, as text; "(none)" when nothing is. Caller frees. */
static inline char *world_show(struct world *w, const struct oid *tree, const char *path)
{
	cleanup_git_reader struct git_reader *r = NULL;
	cleanup_buf struct buf b = BUF_INIT(1u << 26);
	char spec[512];
	struct err e = ERR_INIT;
	enum git_type t;
	struct oid o;

	snprintf(spec, sizeof(spec), "%s:%s", oid_hex(tree).s, path);
	if (git_reader_open(&r, w->dir, &e) < 0 || git_read(r, spec, &t, &o, &b, &e) < 0)
		return strdup("(none)");
	return buf_take(&b);
}

/* A review of what differs between two trees, as review_open() would make it. */
static inline int world_review(
	struct world *w, struct review *r, const struct oid *from, const struct oid *to)
{
	struct diff_query q = {.git_dir = w->dir, .from = *from, .to = *to, .what = DIFF_HUNKS};
	struct tree_diff names = {0};

	w->e = ERR_INIT;
	*r = (struct review){.hash = w->s.hash,
		.start_tree = *from,
		.base = *from,
		.tree = *to,
		.git_dir = strdup(w->dir)};
	if (tree_diff_get(&r->diff, &q, &w->e) < 0 || tree_diff_sizes(&r->diff, w->dir, &w->e) < 0)
		return -1;
	q.what = DIFF_NAMES;
	q.no_renames = true;
	if (tree_diff_get(&names, &q, &w->e) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		struct change *x = changes_add(&r->changes, names.v[i].path);

		x->old_mode = names.v[i].old_mode;
		x->new_mode = names.v[i].new_mode;
		x->old = names.v[i].old;
		x->new = names.v[i].new;
		x->runs = change_runs(x->path, x->new_mode);
		x->flags = x->runs ? CHANGE_RUNS : 0;
	}
	tree_diff_done(&names);
	changes_sort(&r->changes);
	r->changes.start_tree = *from;
	r->changes.tree = *to;
	return 0;
}

#endif
