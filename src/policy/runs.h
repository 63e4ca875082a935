/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that some tool on the host executes, or takes instructions from, merely because a file of that
 * name is there.
 *
 * Purpose: one list, as data (runs_table.c), for two questions: which changes are marked "runs on your
 *          machine" in a review, and which names stay read-only when a command writes in place.
 * Limits:  names only. A list of names is never complete, and says nothing about content.
 * Case:    ASCII letters are compared without their case, as file systems of other machines do; for marks,
 *          names are folded (base/fold.h), for holding on this machine they are not.
 */
#ifndef CROFT_POLICY_RUNS_H
#define CROFT_POLICY_RUNS_H

#include <stdbool.h>
#include <stddef.h>

enum runs_why {
	RUNS_HOOK,
	RUNS_GITCONF,
	RUNS_GITHIDE,
	RUNS_VCS,
	RUNS_SHELL,
	RUNS_SSH,
	RUNS_LOGIN,
	RUNS_PACKAGE,
	RUNS_PYTHON,
	RUNS_AGENT,
	RUNS_IDE,
	RUNS_DIRENV,
	RUNS_DEVCON,
	RUNS_CI,
	RUNS_DEBUG,
	RUNS_BUILD,
	RUNS_WHY_NUM,
};
extern const char *const runs_why_text[RUNS_WHY_NUM];

#define RUNS_TABLE_MAX 512

/* Where a name stays read-only inside a wider grant: see runs_table.c. */
enum runs_hold { HOLD_NOT, HOLD_AT_HOME, HOLD_ANYWHERE };

struct runs_entry {
	const char *pattern;
	enum runs_why why;
	enum runs_hold hold;
	const char *source; /* the manual that says which tool reads it */
};
extern const struct runs_entry runs_table[];
extern const size_t runs_table_n;

/* For marks: the entry that a path matches (any path, relative or absolute), or NULL. */
const struct runs_entry *runs_find(const char *path);
/* Would something below this path match, though the path alone does not? ".config", ".github" */
bool runs_begin(const char *path);

/*
 * For holding: the entry that holds this absolute path inside a grant, or NULL. `granted` is how many
 * bytes of the path the grant spells out: a name within them was granted by name. Trees of installed
 * packages (node_modules and the like) below the grant are left alone, since installing makes such names.
 */
const struct runs_entry *runs_held(
	const char *path, const char *home, size_t granted, size_t *ret_end);
/*
 * Is this absolute path a directory whose contents run on the host, or does it lie in one? The entry, of
 * those that are held; a repository's hooks are one, too. *ret_end: where the directory's name ends.
 */
const struct runs_entry *runs_inside(const char *path, const char *home, size_t *ret_end);
/* May this pattern spell out a held name? Only its last part is compared, and may be any name's last part. */
bool runs_pattern(const char *pattern);
/* The same for any entry of the list, held or not: what to name after a command wrote in place. */
const struct runs_entry *runs_marked(const char *path, size_t granted);
/* The name of a directory of installed packages. */
bool runs_inert(const char *name);
/* Is this absolute path a directory on the way to a held name? Then nothing else may stand there. */
bool runs_held_below(const char *path, const char *home);
/* Are the names below these two directories held alike, so that one may become the other? */
bool runs_held_alike(const char *a, const char *b, const char *home);
/* The next held entry, after `after` (NULL: from the first), whose pattern begins with this name. */
const struct runs_entry *runs_next_held(const char *name, const struct runs_entry *after);
/* How many bytes of `path` the entry's pattern spells, up to the end of its last part; 0: no match. */
size_t runs_match_end(const struct runs_entry *x, const char *path);

#endif
