/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an environment changed, path by path, against the tree it started from. Modes are Git's.
 *
 * Nothing is left out silently: what Git cannot hold, or what should not be handed back to a host, is
 * in the list with a flag, and landing refuses it (or, for ignored files, leaves it where it is).
 */
#ifndef CROFT_SNAP_CHANGE_H
#define CROFT_SNAP_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "git/oid.h"
#include "git/repo.h"

#define CHANGES_MAX 2000000u
#define CHANGE_PATH_MAX 4095u
/*
 * A file of zeros costs a sandbox nothing, and whoever reads it minutes: larger ones are not read. Files of
 * which another form is stored (ident, working-tree-encoding) are held in memory by git.
 */
#define CHANGE_FILE_MAX_B ((uint64_t)4 << 30)
#define CHANGE_CONVERT_MAX_B ((uint64_t)64 << 20)
#define CHANGE_PARTS_MAX 250u /* of a path; Git's own limits, and ours for trees, are not far */

enum change_flag {
	CHANGE_IGNORED = 1u << 0, /* the project ignores it: counted, never landed */
	CHANGE_NESTED_GIT =
		1u << 1,          /* a .git (or what a file system takes for one) not at the top */
	CHANGE_SPECIAL = 1u << 2, /* device, FIFO, socket */
	CHANGE_SETID = 1u << 3,   /* set-user-id, set-group-id or sticky file */
	CHANGE_FILECAP = 1u << 4, /* carries security.capability */
	CHANGE_GITLINK = 1u << 5, /* a submodule's commit, new or moved */
	CHANGE_ESCAPES = 1u << 6, /* a symlink that leads out of the workspace, or into .git */
	CHANGE_CASE = 1u << 7,    /* differs from another path only in case or normalisation */
	CHANGE_UNREADABLE = 1u << 8, /* could not be read: new is none */
	CHANGE_EMPTY_DIR = 1u << 9,  /* a directory that holds nothing: new_mode is 040000 */
	CHANGE_BAD_NAME =
		1u << 10, /* no name Git takes (control characters are fine, NUL and so on not) */
	CHANGE_SUBMODULE = 1u << 11, /* inside a submodule's working tree */
	CHANGE_TOO_LARGE = 1u << 12, /* beyond CHANGE_FILE_MAX_B, or what is converted: not read */
	CHANGE_NOT_READ = 1u << 13, /* beyond scan.name_max_b: its old or new content has no name */
	/* The last: would be executed on the host by a tool: hooks, rc files, CI … */
	CHANGE_RUNS = 1u << 14,
};
/* Flags that keep a change from landing. */
#define CHANGE_REFUSED                                                                             \
	(CHANGE_NESTED_GIT | CHANGE_SPECIAL | CHANGE_SETID | CHANGE_FILECAP | CHANGE_GITLINK |     \
		CHANGE_ESCAPES | CHANGE_CASE | CHANGE_UNREADABLE | CHANGE_BAD_NAME |               \
		CHANGE_SUBMODULE | CHANGE_TOO_LARGE)

struct change {
	char *path; /* relative to the workspace, bytes as they are */
	unsigned old_mode,
		new_mode; /* 0: not there; else 0100644, 0100755, 0120000, 0160000, 040000 */
	struct oid old, new;
	uint64_t size;   /* of the new content */
	uint64_t disk_b; /* how much of it is on the disk: less than its size where it has holes */
	unsigned flags;
	const char *runs; /* why CHANGE_RUNS, static text, or NULL */
};

struct changes {
	struct change *v; /* sorted by path, bytewise */
	size_t n, cap;
	uint64_t ignored; /* how many ignored paths were changed (they are not in v) */
	uint64_t unnamed; /* paths that are NOT_READ */
	struct oid start_tree,
		tree; /* start_tree with every change that is neither IGNORED nor REFUSED nor an
				 EMPTY_DIR. With unnamed: none, or (scan.part) without those, too */
};

void changes_done(struct changes *c);
#define cleanup_changes __attribute__((cleanup(changes_done)))
/* Takes a copy of path; NULL when out of memory or beyond CHANGES_MAX. */
struct change *changes_add(struct changes *c, const char *path);
void changes_sort(struct changes *c);
const struct change *changes_find(const struct changes *c, const char *path);
/* Words for flags, in order of their bits: "nested .git", "device or socket" … */
const char *change_flag_text(unsigned one_flag);
/*
 * Why a path runs on the reader's machine once it is there ("Git hook", "shell start-up file", "agent
 * configuration", "CI workflow" …; threats G9-G11), or NULL. By name alone, case-insensitively.
 */
const char *change_runs(const char *path, unsigned mode);
/* The same, and what the user's own configuration of Git makes run: hooks and included files. */
const char *change_runs_in(const struct repo *r, const char *path, unsigned mode);
/* Would something below this path run, though the path alone says nothing? ".config", ".github" */
bool change_runs_below(const struct repo *r, const char *path);

#endif
