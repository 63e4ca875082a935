/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bases: one read-only checkout per tree, shared by every environment that starts there.
 *
 * Layout:  $STATE/bases/KEY/{tree/, trees, base.json}. tree/ is the lowest overlay layer: the files as
 *          Git would check them out here (line endings, sparse checkout, submodules that the host has
 *          populated), and .git/, a real repository whose objects are reached through alternates at
 *          BASE_OBJECTS_DIR, its index already refreshed for these very files. trees is the treemap.
 * Order:   made under a temporary name, by git run clean with a Git directory of its own, then
 *          renamed: two makers race to one result, a crash leaves rubbish that is swept.
 * Trust:   never writable to a sandbox. Nothing of the host's configuration that executes is copied
 *          (identity, remotes' addresses without credentials, line-ending settings are).
 */
#ifndef CROFT_SNAP_BASE_H
#define CROFT_SNAP_BASE_H

#include "base/err.h"
#include "git/repo.h"
#include "git/treemap.h"

/* Inside: where the host's object directories appear, as BASE_OBJECTS_DIR/0, /1 … */
#define BASE_OBJECTS_DIR "/.croft/git"

struct base {
	char *key;
	char *tree;            /* absolute path of tree/ */
	struct treemap *trees; /* opened */
	struct strlist
		objects; /* object directories of the host to show, in order; submodules' too */
};

void base_done(struct base *b);
#define cleanup_base __attribute__((cleanup(base_done)))
/* Find or make the base of this commit. progress (or NULL) is told percent of a long checkout. */
int base_get(struct base *ret, const struct repo *r, const struct oid *commit,
	const struct oid *tree, const char *state_dir,
	void (*progress)(void *arg, unsigned percent), void *arg, struct err *e);
int base_open(struct base *ret, const char *state_dir, const char *key, struct err *e);
/*
 * Remove bases that `used` does not name (NULL: none), and leftovers of crashed makers. Returns how many
 * bases; with dry_run nothing goes.
 */
int base_sweep(const char *state_dir, bool (*used)(void *arg, const char *key), void *arg,
	bool dry_run, struct err *e);

/*
 * The environment's own first layer: HEAD (branch "refs/heads/x", or NULL for detached at commit),
 * refs as they are on the host now without croft's, shallow. Written below layer_fd/.git.
 */
int base_git_layer(const struct repo *r, int layer_fd, const char *branch, const struct oid *commit,
	struct err *e);
/*
 * The host's uncommitted state as a layer: changed and new files copied, whiteouts for what is gone.
 * *ret_tree is the tree that the environment then starts from; it is written to the store, with a
 * treemap at dirfd/name.
 */
int base_dirty_layer(const struct repo *r, const struct base *b, int layer_fd, int dirfd,
	const char *name, struct oid *ret_tree, struct err *e);

#endif
