/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All trees of one commit in one mapped file, so that a path can be looked up, and the tree that
 * results from some changes computed, without starting git and in time that grows with the changes.
 *
 * File: header, directory paths sorted bytewise ("" is the root) with offsets, raw tree objects. Made
 * once for a base, read-only afterwards, checked on opening and on every access.
 */
#ifndef CROFT_GIT_TREEMAP_H
#define CROFT_GIT_TREEMAP_H

#include "base/err.h"
#include "git/object.h"
#include "git/oid.h"
#include "git/repo.h"

struct treemap;

/* From a tree in the repository; into dirfd/name, whole or not at all. */
int treemap_make(
	const struct repo *r, const struct oid *tree, int dirfd, const char *name, struct err *e);
int treemap_open(struct treemap **ret, int dirfd, const char *name, struct err *e);
void treemap_close(struct treemap *m);
void treemap_closep(struct treemap **m);
#define cleanup_treemap __attribute__((cleanup(treemap_closep)))
void treemap_root(const struct treemap *m, struct oid *ret);
enum git_hash treemap_hash(const struct treemap *m);
/* What is at a path: mode (040000, 0100644, 0100755, 0120000, 0160000) and name; 0: nothing. */
unsigned treemap_find(const struct treemap *m, const char *path, struct oid *ret);
/* Every entry directly in a directory, in order, until visit returns non-zero; that value. */
int treemap_list(const struct treemap *m, const char *dir,
	int (*visit)(void *arg, const char *name, unsigned mode, const struct oid *o), void *arg);

/* One path of the tree to be: mode 0 takes it (a directory: with all below) away. */
struct tree_edit {
	const char *path; /* no leading slash, no ".", "..", empty parts */
	unsigned mode;
	struct oid oid;
};

/*
 * The tree that m (NULL: the empty one) becomes with these edits. Edits are sorted here; deletions of
 * directories come before what is put below them again; a file in place of a directory replaces it.
 * Directories that become empty go. New trees are written to s, or only named when s->objects_fd is
 * -1.
 */
int tree_edit(const struct treemap *m, struct tree_edit *v, size_t n, struct git_store *s,
	struct oid *ret, struct err *e);

#endif
