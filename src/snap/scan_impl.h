/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan in progress: see scan.h. For scan*.c and base_dirty.c.
 *
 * Order:  walk   layers are listed, directory by directory, into items: what is at a path at the end and
 *                what the start had there (scan_layers.c);
 *         ignore added items are asked about, and directories nobody wants to list are held back until
 *                the answer (scan_ignore.c); walk again with those that are wanted;
 *         read   contents get their names, from the cache or by hashing (scan_content.c);
 *         flag   what only the whole tells: submodules of a live start, files that run (scan_flags.c);
 *         settle items that end as they began are dropped, trees are computed (scan.c).
 */
#ifndef CROFT_SNAP_SCAN_IMPL_H
#define CROFT_SNAP_SCAN_IMPL_H

#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/str.h"
#include "snap/eol.h"
#include "snap/name.h"
#include "snap/scan.h"
#include "snap/statcache.h"

#define ITEM_GONE SIZE_MAX /* as a layer: nothing is there at the end */
#define XATTRS_MAX_B 65536u

struct item {
	char *path;
	size_t layer;
	struct stat st; /* of the layer's object */
	unsigned old_mode, new_mode;
	struct oid old, new;
	unsigned flags;
	const char *runs; /* see struct change */
	bool is_dir;      /* as a question about ignoring: a directory */
	bool named;       /* new is known */
	struct eol_rule eol;
};

/* A directory to list. */
struct scan_place {
	char *path;     /* "" is the top */
	size_t *layers; /* those that have it, newest first */
	size_t n;
	bool in_start;  /* the start has a directory here … */
	bool hidden;    /* … but nothing of it shows unless a layer has it again */
	bool unsure;    /* not in the start: it may be ignored, do not list far */
	size_t left;    /* then: how many entries may be listed before asking */
	unsigned flags; /* for everything below */
};

struct walk {
	const struct scan *s;
	bool ask_nothing; /* nothing is ignored: the user's own files */
	bool plain; /* one plain directory, not layers: no whiteouts, no attributes of overlayfs */
	struct scan_place *todo, *held;
	size_t todo_n, todo_cap, held_n, held_cap;
	struct item *v;
	size_t n, cap;
	size_t asked; /* items before this one have their answer */
	uint64_t seen, ignored;
	uint64_t read_b; /* bytes of contents */
	int base_fd;     /* ignore_tree, or -1 */
	char *xattrs;
	struct strlist tracked; /* live: files the user tracks although the rules ignore them */
	bool tracked_known;
	char *parent; /* the last directory asked about by walk_beyond_symlink() … */
	bool beyond;  /* … and the answer */
	struct err *e;
};

int walk_init(struct walk *w, const struct scan *s, bool plain, struct err *e);
void walk_done(struct walk *w);
#define cleanup_walk __attribute__((cleanup(walk_done)))
/* List everything that is to be listed now. */
int walk_layers(struct walk *w);
int walk_ask_ignored(struct walk *w);
/* All of the above until nothing is left to list. layers, layers_n: those of w->s. */
int walk_all(struct walk *w);
int walk_contents(struct walk *w);
/* What only the whole tells: submodules of a live start, files that run (scan_flags.c). */
int walk_flags(struct walk *w);
/* Contents of w as changes, without trees; w is emptied. */
int walk_result(struct walk *w, struct changes *ret);

struct item *walk_item(struct walk *w, const char *dir, const char *name);
int walk_place(struct walk *w, struct scan_place **ret);
int walk_no_memory(struct walk *w);
/* "WHAT PATH: reason", with the path made printable. */
int walk_fail(struct walk *w, int errnum, const char *what, const char *path);
/* A directory or file of the ignore tree that lies behind one of its symlinks. */
bool walk_beyond_symlink(struct walk *w, const char *path, bool is_dir);
bool xattr_has(const char *list, size_t n, const char *name);

/* ---- the start state ---- */

unsigned start_find(const struct walk *w, const char *path, struct oid *ret);
int start_list(const struct walk *w, const char *dir,
	int (*visit)(void *arg, const char *name, unsigned mode, const struct oid *o), void *arg);
/* Everything of the start at or below a path is gone; flags for each. */
int start_gone(
	struct walk *w, const char *path, unsigned mode, const struct oid *o, unsigned flags);
/* Is the start the user's own directory as it is now? … and one that Git knows? */
bool start_is_live(const struct walk *w);
bool start_is_repository(const struct walk *w);
/* lstat below a directory; never behind a symlink. */
int stat_below(int root, const char *path, struct stat *ret);
int read_link_below(int root, const char *path, char target[PATH_MAX]);

/* ---- the user's repository, asked as user: only for a live start (scan_live.c) ---- */

/* Is an ignored path tracked all the same, or (a directory) does it hold what is? <0: error. */
int live_tracked(struct walk *w, const char *path, bool is_dir);
/* Flag what is in submodules and other repositories inside the workspace. */
int live_submodules(struct walk *w);

/* ---- symlinks by which files run under another name (scan_links.c) ---- */

struct alias {
	char *real, *name; /* what is at real, or below it, is also at name */
};

struct aliases {
	struct alias *v;
	size_t n, cap;
	bool too_many;
};

int aliases_find(struct walk *w, struct aliases *ret);
void aliases_done(struct aliases *a);
#define cleanup_aliases __attribute__((cleanup(aliases_done)))

/* ---- names ---- */

/* What follows dir in path when path is dir or below it ("" : all is), else NULL; folded (base/fold.h). */
const char *path_under(const char *dir, const char *path);

/* "a" and "b" as "a/b", or "b" when a is empty. NULL: out of memory. */
char *path_join(const char *a, const char *b);

#endif
