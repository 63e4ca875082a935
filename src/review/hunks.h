/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of two trees, file by file and hunk by hunk, as `git diff-tree --raw -z -p` tells it.
 *
 * Trust:  git's form is relied upon, the content is not: a hunk's extent is what its header counts, so
 *         no line of a file can pass for the beginning of another one; sections are matched with the
 *         list of files by order and by object names. Anything else is -EBADMSG, never a guess.
 * Memory: hunks point into the patch, which the difference owns.
 */
#ifndef CROFT_REVIEW_HUNKS_H
#define CROFT_REVIEW_HUNKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "git/oid.h"

#define HUNKS_FILES_MAX 2000000u
#define HUNKS_MAX 4000000u

struct hunk {
	uint32_t old_start, old_n, new_start, new_n; /* lines, counted from 1; as in the header */
	uint32_t added, deleted;
	const char *head; /* "@@ -1,6 +1,6 @@ section", no newline */
	size_t head_n;
	const char *body; /* lines with their marks: ' ', '+', '-', '\\' */
	size_t body_n;
};

struct diff_file {
	char *path;
	char *from;                  /* renamed from there; else NULL */
	char status;                 /* A D M T (another type) R */
	unsigned old_mode, new_mode; /* Git's; 0: not there */
	struct oid old, new;
	bool binary;  /* or too large to show: */
	bool large;   /* known when sizes are */
	bool escaped; /* binary, and it has hunks all the same, to be looked at */
	bool counted; /* added and deleted are known */
	uint64_t added, deleted;
	uint64_t old_size, new_size; /* DIFF_SIZE_UNKNOWN unless somebody asked */
	struct hunk *hunks;          /* of T: those that take away, then those that put there */
	size_t hunks_n;
};
#define DIFF_SIZE_UNKNOWN UINT64_MAX

struct tree_diff {
	struct diff_file *v; /* in git's order */
	size_t n, cap;
	struct buf text;    /* what git said */
	struct buf more;    /* and about binary files that are shown */
	uint64_t shown_max; /* files larger than this have no hunks */
};

/* One more, all zeros but for unknown sizes; NULL: too many, or out of memory. */
struct diff_file *tree_diff_add(struct tree_diff *d);
void tree_diff_done(struct tree_diff *d);
#define cleanup_tree_diff __attribute__((cleanup(tree_diff_done)))

enum hunks_form { HUNKS_RAW, HUNKS_NUMSTAT, HUNKS_PATCH };
/* Parse d->text: the raw list, and after it nothing, `--numstat -z`, or the patch. */
int tree_diff_parse(struct tree_diff *d, enum hunks_form form, struct err *e);

/* One line of a hunk. */
struct hunk_line {
	char mark; /* ' ', '+' or '-' */
	const char *p;
	size_t n;        /* without newline */
	bool no_newline; /* the file ends here, without one */
};
/* Walk a body with *at from 0: true and a line, false at its end. */
bool hunk_next(const char *body, size_t n, size_t *at, struct hunk_line *ret);

/* ---- applying ---- */

/* What to do with one hunk. */
struct hunk_choice {
	bool accept;
	const char *edited; /* with accept: this body instead of the hunk's own, or NULL */
	size_t edited_n;
};
/*
 * The old content with some of its hunks applied, appended to ret. Context and removed lines must be
 * there exactly (-EBADMSG). choices has hunks_n members.
 */
int hunks_apply(const struct hunk *h, const struct hunk_choice *choices, size_t hunks_n,
	const char *old, size_t old_n, struct buf *ret, struct err *e);
/*
 * Check what a person made of a hunk's body: its context and removed lines must still be those of the
 * hunk, in order (a '-' may become ' ', and back); '+' lines are free. Lines that begin with '#' or
 * "@@" are dropped, an empty line is an empty context line. cr: the file's lines end in CR LF, which
 * the text leaves out. The body that hunks_apply takes is appended to ret.
 */
int hunk_edit(
	const struct hunk *h, const char *text, size_t n, bool cr, struct buf *ret, struct err *e);

/* ---- showing ---- */

/* Does every line end in CR? Then it is left out when shown. */
bool hunk_has_cr(const struct hunk *h);
/* Can an editor be trusted with it: UTF-8 without control characters (tabs and CR LF aside)? */
bool hunk_is_plain(const struct hunk *h);
/* A line of a file for people: as str_show_text(), but tabs stay. */
void show_line(struct buf *out, const char *s, size_t n);

#endif
