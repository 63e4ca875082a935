/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From decisions to a tree: see review.h.
 *
 * Exact or refused: content that is accepted or rejected as a whole keeps its object name; only a mixture
 * is put together here, from the old content and the hunks that were shown. A set of decisions that
 * makes one path both a file and a directory is refused with both names.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "review/review.h"
#include "git/program.h"
#include "git/read.h"

/* What becomes of the files; two edits at most for each (a rename). */
struct outcome_tree {
	struct tree_edit *edits;
	size_t edits_n;
	const char **present; /* paths among the changed ones that will be there */
	size_t present_n;
	struct git_reader *reader; /* started when needed */
};

static void outcome_tree_done(struct outcome_tree *o)
{
	free(o->edits);
	free(o->present);
	git_reader_close(o->reader);
}

static bool accepted(const struct review_item *x)
{
	return x->decision == CROFT_ACCEPTED || x->decision == CROFT_EDITED;
}

/* The content when some hunks are accepted and others not, or one was edited. */
static int mixed_content(struct review *r, struct outcome_tree *o, const struct review_file *f,
	const struct review_item *hunks, struct git_store *s, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf old = BUF_INIT(REVIEW_FILE_MAX), new = BUF_INIT(REVIEW_FILE_MAX);
	cleanup_free struct hunk_choice *c = calloc(f->hunks_n, sizeof(*c));
	int rc = 0;

	if (!c)
		return err_set(e, ENOMEM, "put accepted hunks together");
	for (size_t k = 0; k < f->hunks_n; k++)
		c[k] = (struct hunk_choice){
			accepted(&hunks[k]), hunks[k].edited, hunks[k].edited_n};
	if (f->diff->old.n && !o->reader)
		rc = git_reader_open(&o->reader, r->git_dir, e);
	if (rc == 0 && f->diff->old.n)
		rc = git_read_oid(o->reader, &f->diff->old, GIT_BLOB, &old, e);
	if (rc == 0)
		rc = hunks_apply(f->diff->hunks, c, f->hunks_n, buf_str(&old), old.len, &new, e);
	if (rc == 0)
		rc = git_write(s, GIT_BLOB, buf_str(&new), new.len, ret, e);
	return rc < 0 ? err_wrap(e, "put accepted hunks together") : 0;
}

/* The object that the file's content becomes; none: nothing of an added file was accepted. */
static int content_of(struct review *r, struct outcome_tree *o, const struct review_file *f,
	struct git_store *s, struct oid *ret, struct err *e)
{
	const struct review_item *hunks = &r->items[f->item + f->items_n - f->hunks_n];
	size_t yes = 0, edited = 0;

	for (size_t k = 0; k < f->hunks_n; k++) {
		yes += accepted(&hunks[k]);
		edited += hunks[k].decision == CROFT_EDITED;
	}
	if (yes == 0)
		*ret = f->diff->old;
	else if (yes == f->hunks_n && !edited)
		*ret = f->diff->new;
	else
		return mixed_content(r, o, f, hunks, s, ret, e);
	return 0;
}

static void put(struct outcome_tree *o, const char *path, unsigned mode, const struct oid *oid)
{
	o->edits[o->edits_n++] = (struct tree_edit){
		.path = path, .mode = mode, .oid = mode ? *oid : (struct oid){0}};
}

/* Name, mode and content of one file after the decisions, as edits of the base. */
static int settle_file(struct review *r, struct outcome_tree *o, const struct review_file *f,
	struct git_store *s, struct err *e)
{
	const struct diff_file *d = f->diff;
	bool whole = f->items_n > f->hunks_n;
	bool named = whole ? accepted(&r->items[f->item]) : true;
	const char *old_path = d->from ? d->from : d->path, *path = named ? d->path : old_path;
	unsigned mode = named ? d->new_mode : d->old_mode;
	struct oid content = named ? d->new : d->old;
	int rc = 0;

	if (f->hunks_n)
		rc = content_of(r, o, f, s, &content, e);
	if (rc < 0)
		return rc;
	if (!content.n)
		mode = 0;
	if (mode)
		o->present[o->present_n++] = path;
	if (mode == d->old_mode && oid_eq(&content, &d->old) && str_eq(path, old_path))
		return 0;
	if (d->old_mode && !str_eq(path, old_path))
		put(o, old_path, 0, NULL);
	put(o, path, mode, &content);
	return 0;
}

/* ---- one path, one thing ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_collisions(struct outcome_tree *o, struct err *e)
{
	char parent[CHANGE_PATH_MAX + 1];

	qsort(o->present, o->present_n, sizeof(*o->present), by_name);
	for (size_t i = 0; i < o->present_n; i++) {
		size_t n = strlen(o->present[i]);
		const char *key = parent;

		if (n > CHANGE_PATH_MAX)
			return err_set(e, ENAMETOOLONG, "put accepted files together");
		memcpy(parent, o->present[i], n + 1);
		for (char *slash; (slash = strrchr(parent, '/'));) {
			cleanup_buf struct buf b = BUF_INIT(CHANGE_PATH_MAX * 16);

			*slash = '\0';
			if (!bsearch(&key, o->present, o->present_n, sizeof(*o->present), by_name))
				continue;
			str_show(&b, parent, strlen(parent));
			buf_adds(&b, " and ");
			str_show(&b, o->present[i], strlen(o->present[i]));
			return err_invalid(e,
				"%.600s cannot both be there; accept or reject both changes",
				buf_str(&b));
		}
	}
	return 0;
}

/* ---- the tree ---- */

static int index_step(const char *git_dir, const char *index, struct git_run run, struct err *e)
{
	cleanup_buf struct buf setting = BUF_INIT(8192);

	buf_addf(&setting, "GIT_INDEX_FILE=%s", index);
	if (setting.failed)
		return err_set(e, ENOMEM, "make the accepted tree");
	run.git_dir = git_dir;
	run.env = (const char *const[]){buf_str(&setting), NULL};
	return git_run(&run, e);
}

/* "mode oid\tpath\0"; what goes comes first, so that a file can take a directory's place. */
static void index_info(const struct review *r, const struct outcome_tree *o, struct buf *out)
{
	static const char zeros[OID_HEX_MAX + 1] =
		"0000000000000000000000000000000000000000000000000000000000000000";

	for (int gone = 1; gone >= 0; gone--) {
		for (size_t i = 0; i < o->edits_n; i++) {
			const struct tree_edit *x = &o->edits[i];

			if (gone != (x->mode == 0))
				continue;
			buf_addf(out, "%o %.*s\t%s", x->mode,
				gone ? (int)git_hash_len(r->hash) * 2 : OID_HEX_MAX,
				gone ? zeros : oid_hex(&x->oid).s, x->path);
			buf_addc(out, '\0');
		}
	}
}

/* With git and an index of its own: for bases that have no treemap. */
static int tree_by_index(struct review *r, const struct outcome_tree *o, const char *index,
	struct oid *ret, struct err *e)
{
	cleanup_buf struct buf info = BUF_INIT(DIFF_PATCH_MAX), out = BUF_INIT(256);
	const struct oid_hex base = oid_hex(&r->base);
	int rc;

	index_info(r, o, &info);
	if (info.failed)
		return err_set(e, ENOMEM, "make the accepted tree");
	rc = index_step(r->git_dir, index,
		(struct git_run){.argv = (const char *const[]){"read-tree", base.s, NULL}}, e);
	if (rc == 0 && info.len)
		rc = index_step(r->git_dir, index,
			(struct git_run){.argv = (const char *const[]){"update-index", "-z",
						 "--index-info", NULL},
				.in = info.data,
				.in_n = info.len},
			e);
	if (rc == 0)
		rc = index_step(r->git_dir, index,
			(struct git_run){
				.argv = (const char *const[]){"write-tree", NULL}, .out = &out},
			e);
	if (rc < 0)
		return rc;
	return oid_parse(ret, buf_str(&out), strcspn(buf_str(&out), "\n"))
		       ? 0
		       : err_set(e, EBADMSG, "read the accepted tree's name");
}

static int make_tree(struct review *r, struct outcome_tree *o, const struct treemap *start,
	const char *dir, struct git_store *s, struct oid *ret, struct err *e)
{
	cleanup_free char *index = NULL, *lock = NULL;
	struct oid root = {0};
	int rc;

	if (start)
		treemap_root(start, &root);
	if (o->edits_n == 0) {
		*ret = r->base;
		return 0;
	}
	if (start && oid_eq(&root, &r->base))
		return tree_edit(start, o->edits, o->edits_n, s, ret, e);
	if (asprintf(&index, "%s/review-index.%d", dir, (int)getpid()) < 0 ||
		asprintf(&lock, "%s.lock", index) < 0)
		return err_set(e, ENOMEM, "make the accepted tree");
	unlink(index);
	unlink(lock);
	rc = git_store_name(s, e); /* git looks for them */
	if (rc == 0)
		rc = tree_by_index(r, o, index, ret, e);
	unlink(index);
	unlink(lock);
	return rc;
}

int review_tree(struct review *r, const struct treemap *start, const char *dir, struct git_store *s,
	struct oid *ret, struct err *e)
{
	__attribute__((cleanup(outcome_tree_done))) struct outcome_tree o = {0};
	struct review_counts counts;
	struct oid tree;
	int rc = 0;

	o.edits = calloc(r->files_n * 2 + 1, sizeof(*o.edits));
	o.present = calloc(r->files_n + 1, sizeof(*o.present));
	if (!o.edits || !o.present)
		return err_set(e, ENOMEM, "put accepted files together");
	for (size_t i = 0; i < r->files_n && rc == 0; i++)
		if (r->files[i].diff)
			rc = settle_file(r, &o, &r->files[i], s, e);
	if (rc == 0)
		rc = check_collisions(&o, e);
	if (rc == 0)
		rc = make_tree(r, &o, start, dir, s, &tree, e);
	if (rc < 0)
		return rc;
	review_count(r, &counts);
	if (!r->since && !counts.rejected && !counts.undecided && !counts.edited &&
		!oid_eq(&tree, &r->tree))
		return err_set(e, EBADMSG,
			"everything was accepted, and yet the tree is not the one that was shown; "
			"nothing was saved");
	*ret = tree;
	return 0;
}
