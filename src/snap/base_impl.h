/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make bases know in common: see base.h. */
#ifndef CROFT_SNAP_BASE_IMPL_H
#define CROFT_SNAP_BASE_IMPL_H

#include "base/buf.h"
#include "base/str.h"
#include "snap/base.h"

#define BASE_FORMAT 2 /* 1: submodules may have been taken from behind a symlink */
#define BASE_KEY_LEN 32
#define BASE_OBJECTS_MAX 256u /* object directories, submodules' among them */
#define BASE_SUBMODULE_DEPTH_MAX 8
#define BASE_FILE_MAX_B ((size_t)4 << 20) /* a small file of a Git directory */
#define BASE_LIST_MAX_B ((size_t)1 << 30)

/* What of the user's repository shapes a checkout. */
struct base_settings {
	struct buf core;       /* text of a config file: format, line endings, identity */
	struct buf remotes;    /* the same: remotes and branches, for the top repository only */
	struct buf exclude;    /* patterns to ignore: the user's own, then the repository's */
	struct buf attributes; /* info/attributes */
	struct buf sparse;     /* info/sparse-checkout; empty: none */
	bool autocrlf;
};

void base_settings_done(struct base_settings *s);
#define cleanup_base_settings __attribute__((cleanup(base_settings_done)))
int base_settings_read(struct base_settings *ret, const struct repo *r, struct err *e);

/* A base in the making. */
struct base_maker {
	const struct repo *repo;
	const struct base_settings *settings;
	char *tree;             /* absolute path of tree/ */
	struct strlist objects; /* as base.objects */
	bool attributes;        /* some .gitattributes was seen */
	void (*progress)(void *arg, unsigned percent);
	void *arg;
	struct err *e;
};

/* One repository of the checkout: the top, or a submodule. */
struct base_checkout {
	const char *work_tree;      /* absolute */
	const char *git_dir;        /* work_tree/.git */
	const struct strlist *from; /* object directories of the host */
	const char *treeish;
	bool top;
};

struct base_link {
	char *path;
	struct oid commit;
};

struct base_links {
	struct base_link *v;
	size_t n, cap;
};

void base_links_done(struct base_links *l);
#define cleanup_base_links __attribute__((cleanup(base_links_done)))

/* The .git of a checkout, without objects. head is the whole text of HEAD. */
int base_skeleton(struct base_maker *k, const char *git_dir, const char *head, bool top);
/* Files and index; *ret gets the gitlinks. */
int base_checkout(struct base_maker *k, const struct base_checkout *c, struct base_links *ret);
/* Last: where the objects will be inside. first: number of the first of these directories. */
int base_alternates(struct base_maker *k, const char *git_dir, size_t first, size_t n);
/* Check out those submodules that the host has populated. modules: "…/modules" or NULL, tried in turn. */
int base_submodules(struct base_maker *k, const char *work_tree, const char *host_tree,
	const char *const *modules, const struct base_links *links, int depth);

/* Make the base under state_dir/bases; what another made meanwhile is as good. */
int base_make(const struct repo *r, const struct base_settings *s, const struct oid *tree,
	const char *state_dir, const char *key, void (*progress)(void *arg, unsigned percent),
	void *arg, struct err *e);

#endif
