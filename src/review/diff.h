/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an environment changed, for people and programs to look at.
 *
 * Two sources: git's difference of two trees in the store (content, renames), and the list of changes
 * (snap/change.h) for what no tree holds: refused paths, empty directories, ignored files. Time grows
 * with the change; git is started at most twice, once for the differences and once for the sizes of
 * binary files.
 */
#ifndef CROFT_REVIEW_DIFF_H
#define CROFT_REVIEW_DIFF_H

#include "env/env.h"
#include "review/hunks.h"
#include "snap/change.h"

#define DIFF_PATCH_MAX (256u << 20)
#define DIFF_TEXT_MAX (1024u << 20)
#define DIFF_PATHS_MAX 1024u
#define DIFF_SHOW_MAX_B ((uint64_t)8 << 20) /* larger files are not shown line by line */
#define DIFF_WITHOUT_MAX 4096u              /* paths that git is told to leave out */
/* With more files than this, lines are not counted for --stat: that would read every file. */
#define DIFF_STAT_MAX 20000u

enum diff_what { DIFF_HUNKS, DIFF_STAT, DIFF_NAMES };

struct diff_query {
	const char *git_dir; /* the store */
	struct oid from, to; /* trees there */
	enum diff_what what;
	bool no_renames;
	bool text;                /* compare what git takes for binary as well */
	bool small;               /* the caller knows that no file came or went that is large */
	const char *const *paths; /* NULL-terminated, literal; NULL: all */
	const struct strlist *without; /* these are left out, and not listed; or NULL */
};
/*
 * NAMES reads no file; STAT counts lines; HUNKS has them. Files too large to show are `binary`, and not
 * read: git would hold one that came or went, or looks like another that did, in memory.
 */
int tree_diff_get(struct tree_diff *ret, const struct diff_query *q, struct err *e);
/*
 * Hunks for binary files, whose sizes are known, that a reader must see: scripts, what runs on the reader's
 * machine, what is mostly text; or all. c: the changes that say what runs.
 */
int tree_diff_binary(struct tree_diff *d, const struct diff_query *q, const struct changes *c,
	bool all, struct err *e);
/* Fill old_size and new_size of binary files. */
int tree_diff_sizes(struct tree_diff *d, const char *git_dir, struct err *e);

struct diff {
	char name[ENV_NAME_MAX + 1];
	enum diff_what what;
	bool since, text;
	char since_time[40];
	struct oid from, to;
	struct changes changes;
	struct tree_diff tree;
	struct strlist paths;    /* asked for; none: all */
	struct strlist not_read; /* paths of changes that are NOT_READ */
	uint64_t added, deleted; /* of text files */
	bool counted;
};

/* text: binary files are shown, too, escaped. */
int diff_open(struct diff *ret, struct env *v, enum diff_what what, bool since, bool text,
	const char *const *paths, struct err *e);
void diff_done(struct diff *d);
#define cleanup_diff __attribute__((cleanup(diff_done)))
void diff_text(const struct diff *d, bool color, struct buf *out);
void diff_json(const struct diff *d, struct buf *out);

/* ---- shared with review and compare ---- */

/* Paths as users write them ("./a/", "a") into the form that changes have. */
int diff_paths(struct strlist *ret, const char *const *paths, struct err *e);
/* Is path one of these, or below one? An empty list holds everything. */
bool diff_selects(const struct strlist *paths, const char *path);
/* Why the file runs on the reader's machine, or NULL. */
const char *diff_runs(const struct changes *c, const struct diff_file *f);
/* "modified", "new executable file", "binary, 12 KB → 14 KB", "renamed from x" …; printable. */
void diff_title(const struct diff_file *f, struct buf *out);
/* Header and lines of one hunk, printable; color adds escape sequences of our own. */
void diff_hunk(const struct hunk *h, bool color, struct buf *out);
/* "nested .git, device or socket" */
void diff_flags(unsigned flags, struct buf *out);
/* "12 KB" */
void diff_size(uint64_t size_b, struct buf *out);

#endif
