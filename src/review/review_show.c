/* SPDX-License-Identifier: Apache-2.0 */
/* Items of a review for people and for their editor: see review.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "review/review.h"

static char *show_path(const struct review *r, size_t i)
{
	cleanup_buf struct buf b = BUF_INIT(CHANGE_PATH_MAX * 8);
	const char *path = review_path(r, i);

	str_show(&b, path, strlen(path));
	return buf_take(&b);
}

static char *show_title(const struct review *r, const struct review_item *x)
{
	cleanup_buf struct buf b = BUF_INIT(CHANGE_PATH_MAX * 16);
	const struct review_file *f = &r->files[x->file];

	if (f->refused) {
		buf_adds(&b, !f->refused->new_mode  ? "deleted"
			     : f->refused->old_mode ? "modified"
						    : "new");
		if (f->refused->new_mode) {
			buf_adds(&b, ", ");
			diff_size(f->refused->size, &b);
		}
		return buf_take(&b);
	}
	diff_title(f->diff, &b);
	if (x->hunk == REVIEW_WHOLE && f->hunks_n)
		buf_adds(&b, " (name and mode only)");
	else if (f->hunks_n > 1)
		buf_addf(&b, ", %zu hunks", f->hunks_n);
	return buf_take(&b);
}

static char *show_warnings(const struct review *r, const struct review_item *x)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	const struct review_file *f = &r->files[x->file];

	if (f->refused) {
		buf_adds(&b, "cannot land: ");
		diff_flags(f->refused->flags & CHANGE_REFUSED, &b);
	}
	if (x->runs)
		buf_addf(&b, "%sruns on your machine: %s", b.len ? "; " : "", x->runs);
	return buf_take(&b);
}

/* The hunk as it stands: edited or not. */
static struct hunk current_hunk(const struct review *r, const struct review_item *x)
{
	struct hunk h = r->files[x->file].diff->hunks[x->hunk];

	if (x->edited) {
		h.body = x->edited;
		h.body_n = x->edited_n;
	}
	return h;
}

static char *show_text(const struct review *r, const struct review_item *x)
{
	cleanup_buf struct buf b = BUF_INIT(DIFF_TEXT_MAX);
	const struct review_file *f = &r->files[x->file];

	if (!f->diff)
		return buf_take(&b);
	if (x->hunk != REVIEW_WHOLE) {
		struct hunk h = current_hunk(r, x);

		diff_hunk(&h, false, &b);
		return buf_take(&b);
	}
	if (f->diff->old_mode && f->diff->new_mode && f->diff->old_mode != f->diff->new_mode)
		buf_addf(&b, "-mode %06o\n+mode %06o\n", f->diff->old_mode, f->diff->new_mode);
	for (size_t k = 0; k < f->diff->hunks_n && !f->hunks_n; k++)
		diff_hunk(&f->diff->hunks[k], false, &b);
	return buf_take(&b);
}

int review_show(struct review *r, size_t i, struct err *e)
{
	struct review_item *x = &r->items[i];

	if (!x->path)
		x->path = show_path(r, i);
	if (!x->title)
		x->title = show_title(r, x);
	if (!x->warnings)
		x->warnings = show_warnings(r, x);
	if (!x->text)
		x->text = show_text(r, x);
	return x->path && x->title && x->warnings && x->text
		       ? 0
		       : err_set(e, ENOMEM, "show an item of the review");
}

char *review_edit_text(const struct review *r, size_t i)
{
	cleanup_buf struct buf b = BUF_INIT(DIFF_TEXT_MAX);
	const struct review_item *x = &r->items[i];
	struct hunk h;
	struct hunk_line l;
	size_t at = 0;
	bool cr;

	if (x->hunk == REVIEW_WHOLE)
		return show_text(r, x);
	h = current_hunk(r, x);
	cr = hunk_has_cr(&r->files[x->file].diff->hunks[x->hunk]);
	show_line(&b, h.head, h.head_n);
	buf_addc(&b, '\n');
	while (hunk_next(h.body, h.body_n, &at, &l)) {
		buf_addc(&b, l.mark);
		if (x->editable)
			buf_add(&b, l.p, l.n - cr);
		else
			show_line(&b, l.p, l.n);
		buf_addc(&b, '\n');
		if (l.no_newline)
			buf_adds(&b, "\\ No newline at end of file\n");
	}
	return buf_take(&b);
}
