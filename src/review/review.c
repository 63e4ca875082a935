/* SPDX-License-Identifier: Apache-2.0 */
/* Items of a review and decisions about them: see review.h. */
#include "review/review.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define MODE_SYMLINK 0120000u
#define MODE_GITLINK 0160000u

const char *const review_decision_names[4] = {
	[CROFT_UNDECIDED] = "undecided",
	[CROFT_ACCEPTED] = "accepted",
	[CROFT_REJECTED] = "rejected",
	[CROFT_EDITED] = "edited",
};

void review_done(struct review *r)
{
	for (size_t i = 0; i < r->items_n; i++) {
		struct review_item *x = &r->items[i];

		free(x->comment);
		free(x->edited);
		free(x->path);
		free(x->title);
		free(x->text);
		free(x->warnings);
	}
	free(r->items);
	free(r->files);
	free(r->git_dir);
	changes_done(&r->changes);
	tree_diff_done(&r->diff);
	buf_done(&r->context);
	*r = (struct review){0};
}

/* ---- items ---- */

static bool is_special(unsigned mode)
{
	return mode == MODE_SYMLINK || mode == MODE_GITLINK;
}

/* Can it be decided hunk by hunk? */
static bool by_hunks(const struct diff_file *f)
{
	return (f->status == 'A' || f->status == 'M' || f->status == 'R') && !f->binary &&
	       f->hunks_n && !is_special(f->old_mode) && !is_special(f->new_mode);
}

/* Does it need an item of its own beside its hunks, or instead of them? */
static bool has_whole(const struct diff_file *f)
{
	return !by_hunks(f) || f->status == 'R' || (f->status == 'M' && f->old_mode != f->new_mode);
}

static void add_file_items(struct review *r, size_t file, const struct diff_file *f)
{
	struct review_file *x = &r->files[file];
	const char *runs = diff_runs(&r->changes, f);

	*x = (struct review_file){
		.diff = f, .item = r->items_n, .hunks_n = by_hunks(f) ? f->hunks_n : 0};
	if (has_whole(f))
		r->items[r->items_n++] =
			(struct review_item){.file = file, .hunk = REVIEW_WHOLE, .runs = runs};
	for (size_t k = 0; k < x->hunks_n; k++)
		r->items[r->items_n++] = (struct review_item){.file = file,
			.hunk = k,
			.runs = runs,
			.editable = hunk_is_plain(&f->hunks[k])};
	x->items_n = r->items_n - x->item;
}

static void add_refused_item(struct review *r, size_t file, const struct change *c)
{
	r->files[file] = (struct review_file){.refused = c, .item = r->items_n, .items_n = 1};
	r->items[r->items_n++] = (struct review_item){.file = file,
		.hunk = REVIEW_WHOLE,
		.refused = true,
		.runs = c->flags & CHANGE_RUNS ? c->runs : NULL,
		.decision = CROFT_REJECTED};
}

int review_itemize(struct review *r, struct err *e)
{
	size_t files = r->diff.n, items = 0, refused = 0;

	for (size_t i = 0; i < r->diff.n; i++)
		items += 1 + r->diff.v[i].hunks_n;
	for (size_t i = 0; i < r->changes.n; i++)
		refused += (r->changes.v[i].flags & CHANGE_REFUSED) != 0;
	if (items + refused > REVIEW_ITEMS_MAX)
		return err_invalid(e, "there are more than %u hunks to review", REVIEW_ITEMS_MAX);
	r->files = calloc(files + refused + 1, sizeof(*r->files));
	r->items = calloc(items + refused + 1, sizeof(*r->items));
	if (!r->files || !r->items)
		return err_set(e, ENOMEM, "list what there is to review");
	for (size_t i = 0; i < r->diff.n; i++)
		add_file_items(r, r->files_n++, &r->diff.v[i]);
	for (size_t i = 0; i < r->changes.n; i++)
		if (r->changes.v[i].flags & CHANGE_REFUSED)
			add_refused_item(r, r->files_n++, &r->changes.v[i]);
	return 0;
}

const char *review_path(const struct review *r, size_t i)
{
	const struct review_file *f = &r->files[r->items[i].file];

	return f->diff ? f->diff->path : f->refused->path;
}

/* ---- decisions ---- */

static int find(const struct review *r, size_t i, struct err *e)
{
	return i < r->items_n ? 0 : err_invalid(e, "there is no item %zu to review", i);
}

static void forget_text(struct review_item *x)
{
	free(x->text);
	x->text = NULL;
}

int review_decide(struct review *r, size_t i, enum croft_decision d, struct err *e)
{
	cleanup_buf struct buf name = BUF_INIT(CHANGE_PATH_MAX * 8);
	struct review_item *x;

	if (find(r, i, e) < 0)
		return -EINVAL;
	x = &r->items[i];
	if (d == CROFT_EDITED && !x->edited)
		return err_invalid(e, "an edited hunk needs its text");
	if (x->refused && d != CROFT_REJECTED) {
		str_show(&name, review_path(r, i), strlen(review_path(r, i)));
		return err_refuse(
			e, "%.300s cannot land and so cannot be accepted", buf_str(&name));
	}
	x->decision = d;
	if (d != CROFT_EDITED) {
		free(x->edited);
		x->edited = NULL;
		x->edited_n = 0;
		forget_text(x);
	}
	return 0;
}

int review_edit(struct review *r, size_t i, const char *text, struct err *e)
{
	cleanup_buf struct buf body = BUF_INIT(REVIEW_FILE_MAX);
	struct review_item *x;
	const struct hunk *h;
	int rc;

	if (find(r, i, e) < 0)
		return -EINVAL;
	x = &r->items[i];
	if (x->refused || !x->editable || x->hunk == REVIEW_WHOLE)
		return err_invalid(e, "this cannot be edited here: it is not a plain text hunk");
	h = &r->files[x->file].diff->hunks[x->hunk];
	rc = hunk_edit(h, text, strlen(text), hunk_has_cr(h), &body, e);
	if (rc < 0)
		return rc;
	free(x->edited);
	x->edited_n = body.len;
	x->edited = buf_take(&body);
	if (!x->edited)
		return err_set(e, ENOMEM, "keep the edited hunk");
	x->decision = CROFT_EDITED;
	forget_text(x);
	return 0;
}

int review_comment(struct review *r, size_t i, const char *comment, struct err *e)
{
	char *copy = NULL;

	if (find(r, i, e) < 0)
		return -EINVAL;
	if (strlen(comment) > REVIEW_COMMENT_MAX)
		return err_invalid(e, "a comment has at most %u bytes; nothing was changed",
			REVIEW_COMMENT_MAX);
	if (*comment && !(copy = strdup(comment)))
		return err_set(e, ENOMEM, "keep a comment");
	free(r->items[i].comment);
	r->items[i].comment = copy;
	return 0;
}

void review_count(const struct review *r, struct review_counts *ret)
{
	*ret = (struct review_counts){0};
	for (size_t i = 0; i < r->items_n; i++) {
		const struct review_item *x = &r->items[i];

		ret->refused += x->refused;
		if (x->refused)
			continue;
		ret->accepted += x->decision == CROFT_ACCEPTED;
		ret->rejected += x->decision == CROFT_REJECTED;
		ret->edited += x->decision == CROFT_EDITED;
		ret->undecided += x->decision == CROFT_UNDECIDED;
	}
}
