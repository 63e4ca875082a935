/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A review: what an environment changed, item by item, and what the reviewer decides about each.
 *
 * Items:   the hunks of a text file; or a file as a whole (binary, symlink, deletion, change of type,
 *          empty). A renamed or re-moded text file has one item for name and mode and one for each
 *          hunk; they are independent: content is where the name ends up.
 * Result:  the base tree (the start, or what an earlier review accepted) with what was accepted; blobs and
 *          trees go to the store. Everything accepted gives exactly the tree that was shown.
 * Trust:   nothing is read from the layers after opening: the tree that was shown is in the store, and
 *          saving refuses when the environment holds another one by then. Refused paths
 *          (snap/change.h) are items that can only be rejected.
 * Order:   open (shared lock, dropped again) -> decisions in memory -> save: exclusive lock, compare,
 *          objects, event in the ledger, record. A crash before the record means: not reviewed.
 */
#ifndef CROFT_REVIEW_REVIEW_H
#define CROFT_REVIEW_REVIEW_H

#include "review/diff.h"
#include "croft.h"
#include "git/treemap.h"

#define REVIEW_WHOLE SIZE_MAX
#define REVIEW_ITEMS_MAX 4000000u
#define REVIEW_COMMENT_MAX 8192u
#define REVIEW_FILE_MAX (64u << 20)

struct review_item {
	size_t file; /* in files */
	size_t hunk; /* of that file; REVIEW_WHOLE: the file, or its name and mode */
	bool refused, editable;
	const char *runs; /* why it runs on the reader's machine, or NULL */
	enum croft_decision decision;
	char *comment; /* or NULL */
	char *edited;  /* body, when EDITED */
	size_t edited_n;
	char *path, *title, *text, *warnings; /* for people; made when asked for */
};

struct review_file {
	const struct diff_file *diff;  /* NULL: a refused path */
	const struct change *refused;  /* then */
	size_t item, items_n, hunks_n; /* its items */
};

struct review {
	char name[ENV_NAME_MAX + 1], id[17];
	bool since;
	char *git_dir;
	enum git_hash hash;
	struct oid start_tree, tree; /* of the environment when it was opened; tree is shown */
	struct oid base;             /* that decisions are applied to */
	struct env_review earlier;
	struct changes changes;
	struct tree_diff diff;
	struct review_file *files;
	size_t files_n;
	struct review_item *items;
	size_t items_n;
	struct buf context;
};

int review_open(struct review *ret, const char *name, bool since, struct err *e);
void review_done(struct review *r);
#define cleanup_review __attribute__((cleanup(review_done)))

/* From changes, diff (with hunks) and the trees above to files and items. */
int review_itemize(struct review *r, struct err *e);

int review_decide(struct review *r, size_t i, enum croft_decision d, struct err *e);
int review_edit(struct review *r, size_t i, const char *text, struct err *e);
int review_comment(struct review *r, size_t i, const char *comment, struct err *e);
/* What an editor is given. Caller frees; NULL when out of memory. */
char *review_edit_text(const struct review *r, size_t i);
/* Make path, title, text and warnings of an item. */
int review_show(struct review *r, size_t i, struct err *e);
/* The path as it is, bytes. */
const char *review_path(const struct review *r, size_t i);

struct review_counts {
	size_t accepted, rejected, edited, undecided, refused;
};
void review_count(const struct review *r, struct review_counts *ret);
/*
 * The tree that the decisions make; undecided is rejected. start: a treemap whose root may be the
 * base, or NULL; otherwise git makes it, with a temporary index in dir.
 */
int review_tree(struct review *r, const struct treemap *start, const char *dir, struct git_store *s,
	struct oid *ret, struct err *e);

struct review_saved {
	struct oid accepted;
	struct review_counts counts;
	char time[40];
	char policy[DIGEST_HEX_LEN + 1]; /* that its last command ran under; "": none did */
};
int review_save(struct review *r, struct review_saved *ret, struct err *e);
void review_saved_text(const struct review *r, const struct review_saved *s, struct buf *out);
void review_saved_json(const struct review *r, const struct review_saved *s, struct buf *out);
/* The members of the event's predicate, and the full account that goes with it as a file. */
void review_predicate(const struct review *r, const struct review_saved *s, const char *verifier,
	const char *previous, struct buf *out);
void review_account(const struct review *r, const struct review_saved *s, struct buf *out);
extern const char *const review_decision_names[4];

#endif
