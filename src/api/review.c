/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: diff, compare, review. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "review/compare.h"
#include "review/diff.h"
#include "review/review.h"

struct croft_review {
	struct croft *croft;
	struct review review;
	struct croft_review_item shown;
	char *edit_text;
};

int croft_diff(struct croft *c, const char *name, const struct croft_diff_options *o,
	enum croft_format f, char **ret)
{
	static const enum diff_what whats[] = {[CROFT_DIFF_HUNKS] = DIFF_HUNKS,
		[CROFT_DIFF_STAT] = DIFF_STAT,
		[CROFT_DIFF_NAMES] = DIFF_NAMES};
	cleanup_buf struct buf b = BUF_INIT(DIFF_TEXT_MAX);
	cleanup_env struct env v = {.dir_fd = -1, .lock_fd = -1};
	cleanup_diff struct diff d = {0};
	int r;

	c->err = ERR_INIT;
	r = env_open(&v, name, ENV_LOCK_READ, &c->err);
	if (r == 0)
		r = diff_open(&d, &v, whats[o->what], o->since_review, o->text, o->paths, &c->err);
	if (r < 0)
		return r;
	if (f == CROFT_JSON)
		diff_json(&d, &b);
	else
		diff_text(&d, o->color, &b);
	return api_give(c, 0, &b, ret);
}

int croft_compare(
	struct croft *c, const char *const *names, size_t n, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(DIFF_TEXT_MAX);
	cleanup_comparison struct comparison x = {0};
	int r;

	c->err = ERR_INIT;
	r = compare_open(&x, names, n, &c->err);
	if (r < 0)
		return r;
	if (f == CROFT_JSON)
		compare_json(&x, &b);
	else
		compare_text(&x, &b);
	return api_give(c, 0, &b, ret);
}

int croft_review_open(
	struct croft *c, const char *name, bool since_review, struct croft_review **ret)
{
	struct croft_review *r = calloc(1, sizeof(*r));
	int rc;

	c->err = ERR_INIT;
	if (!r)
		return err_set(&c->err, ENOMEM, "open a review");
	r->croft = c;
	rc = review_open(&r->review, name, since_review, &c->err);
	if (rc < 0) {
		free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void croft_review_close(struct croft_review *r)
{
	if (!r)
		return;
	review_done(&r->review);
	free(r->edit_text);
	free(r);
}

size_t croft_review_count(const struct croft_review *r)
{
	return r->review.items_n;
}

const struct croft_review_item *croft_review_at(struct croft_review *r, size_t i)
{
	const struct review_item *x;
	const struct review_file *f;

	r->croft->err = ERR_INIT;
	if (i >= r->review.items_n) {
		err_invalid(&r->croft->err, "there is no item %zu to review", i);
		return NULL;
	}
	if (review_show(&r->review, i, &r->croft->err) < 0)
		return NULL;
	x = &r->review.items[i];
	f = &r->review.files[x->file];
	r->shown = (struct croft_review_item){.path = x->path,
		.title = x->title,
		.text = x->text,
		.warnings = x->warnings,
		.file = x->file,
		.files = r->review.files_n,
		.hunk = x->hunk == REVIEW_WHOLE ? 0 : x->hunk,
		.hunks = x->hunk == REVIEW_WHOLE ? 0 : f->hunks_n,
		.editable = x->editable,
		.refused = x->refused,
		.runs = x->runs != NULL,
		.decision = x->decision,
		.comment = x->comment ? x->comment : ""};
	return &r->shown;
}

int croft_review_is(const struct croft_review *r, size_t i, const char *path)
{
	const char *paths[] = {path, NULL};
	cleanup_strlist struct strlist l = STRLIST_INIT(1);
	struct err ignored = ERR_INIT;

	if (i >= r->review.items_n || diff_paths(&l, paths, &ignored) < 0 ||
		!diff_selects(&l, review_path(&r->review, i)))
		return 0;
	return l.n && strcmp(l.v[0], review_path(&r->review, i)) == 0 ? 2 : 1;
}

const char *croft_review_context(struct croft_review *r)
{
	return buf_str(&r->review.context);
}

int croft_review_decide(struct croft_review *r, size_t i, enum croft_decision d)
{
	r->croft->err = ERR_INIT;
	return review_decide(&r->review, i, d, &r->croft->err);
}

const char *croft_review_text(struct croft_review *r, size_t i)
{
	r->croft->err = ERR_INIT;
	free(r->edit_text);
	r->edit_text = i < r->review.items_n ? review_edit_text(&r->review, i) : NULL;
	if (!r->edit_text)
		err_set(&r->croft->err, i < r->review.items_n ? ENOMEM : EINVAL,
			"show an item of the review");
	return r->edit_text;
}

int croft_review_edit(struct croft_review *r, size_t i, const char *text)
{
	r->croft->err = ERR_INIT;
	return review_edit(&r->review, i, text, &r->croft->err);
}

int croft_review_comment(struct croft_review *r, size_t i, const char *comment)
{
	r->croft->err = ERR_INIT;
	return comment ? review_comment(&r->review, i, comment, &r->croft->err) : 0;
}

int croft_review_save(struct croft_review *r, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(DIFF_TEXT_MAX);
	struct review_saved s;
	int rc;

	r->croft->err = ERR_INIT;
	rc = review_save(&r->review, &s, &r->croft->err);
	if (rc < 0)
		return rc;
	if (f == CROFT_JSON)
		review_saved_json(&r->review, &s, &b);
	else
		review_saved_text(&r->review, &s, &b);
	return api_give(r->croft, 0, &b, ret);
}
