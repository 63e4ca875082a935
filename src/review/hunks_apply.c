/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hunks on content: applying some of them, and checking what an editor returned. See hunks.h.
 *
 * A line's newline counts: "x" at the end of a file and "x\n" are different lines, as they are for git.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "review/hunks.h"

/* The old content, line by line. */
struct source {
	const char *p;
	size_t n, at;
};

static bool source_next(struct source *s, const char **ret, size_t *ret_n)
{
	const char *end;

	if (s->at >= s->n)
		return false;
	end = memchr(s->p + s->at, '\n', s->n - s->at);
	*ret = s->p + s->at;
	*ret_n = end ? (size_t)(end - *ret) + 1 : s->n - s->at;
	s->at += *ret_n;
	return true;
}

/* Is the next line of the source this one, newline and all? */
static bool source_matches(struct source *s, const struct hunk_line *l)
{
	const char *p;
	size_t n;

	return source_next(s, &p, &n) && n == l->n + !l->no_newline && memcmp(p, l->p, l->n) == 0 &&
	       (l->no_newline || p[n - 1] == '\n');
}

static int mismatch(const struct hunk *h, struct err *e)
{
	return err_set(e, EBADMSG, "the hunk at line %u does not fit the content it was made for",
		h->old_start);
}

/* Lines before a hunk are kept. A hunk that removes nothing stands after the line it names. */
static int copy_until(struct source *s, uint64_t *line, uint64_t target, struct buf *ret)
{
	const char *p;
	size_t n;

	for (; *line < target; (*line)++) {
		if (!source_next(s, &p, &n))
			return -EBADMSG;
		buf_add(ret, p, n);
	}
	return 0;
}

static int apply_one(const struct hunk *h, const struct hunk_choice *c, struct source *s,
	struct buf *ret, struct err *e)
{
	const char *body = c->accept && c->edited ? c->edited : h->body;
	size_t n = c->accept && c->edited ? c->edited_n : h->body_n, at = 0, from;
	uint32_t seen = 0;
	struct hunk_line l;

	while (hunk_next(body, n, &at, &l)) {
		from = s->at;
		if (l.mark != '+') {
			if (!source_matches(s, &l))
				return mismatch(h, e);
			seen++;
		}
		if (!c->accept && l.mark != '+')
			buf_add(ret, s->p + from, s->at - from);
		if (c->accept && l.mark != '-') {
			buf_add(ret, l.p, l.n);
			if (!l.no_newline)
				buf_addc(ret, '\n');
		}
	}
	return seen == h->old_n ? 0 : mismatch(h, e);
}

int hunks_apply(const struct hunk *h, const struct hunk_choice *choices, size_t hunks_n,
	const char *old, size_t old_n, struct buf *ret, struct err *e)
{
	struct source s = {.p = old, .n = old_n};
	uint64_t line = 0; /* lines of the old content that are behind us */

	for (size_t i = 0; i < hunks_n; i++) {
		uint64_t first = h[i].old_n ? (uint64_t)h[i].old_start - 1 : h[i].old_start;
		int r;

		if ((h[i].old_n && !h[i].old_start) || first < line ||
			copy_until(&s, &line, first, ret) < 0)
			return mismatch(&h[i], e);
		r = apply_one(&h[i], &choices[i], &s, ret, e);
		if (r < 0)
			return r;
		line += h[i].old_n;
	}
	buf_add(ret, s.p + s.at, s.n - s.at);
	return ret->failed ? err_set(e, EFBIG, "put accepted hunks together") : 0;
}

/* ---- editing ---- */

/* The next line of the hunk that the old content has. */
static bool next_old(const struct hunk *h, size_t *at, struct hunk_line *ret)
{
	while (hunk_next(h->body, h->body_n, at, ret))
		if (ret->mark != '+')
			return true;
	return false;
}

/* Is it known to reach the end of a file that has no newline there? */
static bool reaches_bare_end(const struct hunk *h)
{
	struct hunk_line l;
	size_t at = 0;

	while (hunk_next(h->body, h->body_n, &at, &l))
		if (l.no_newline)
			return true;
	return false;
}

static void put_line(struct buf *ret, char mark, const char *p, size_t n, bool cr, bool bare)
{
	buf_addc(ret, mark);
	buf_add(ret, p, n);
	if (cr)
		buf_addc(ret, '\r');
	buf_addc(ret, '\n');
	if (bare)
		buf_adds(ret, "\\ No newline at end of file\n");
}

static bool same_line(const struct hunk_line *want, const struct hunk_line *got, bool cr)
{
	return want->n == got->n + cr && memcmp(want->p, got->p, got->n) == 0 &&
	       (!cr || want->p[got->n] == '\r');
}

/* One line of the edited text, checked against the hunk. */
static int edit_line(const struct hunk *h, struct hunk_line *l, bool cr, size_t *old_at,
	struct buf *ret, struct err *e)
{
	struct hunk_line want;

	if (l->mark == '+') {
		put_line(ret, '+', l->p, l->n, cr, l->no_newline);
		return 0;
	}
	if (l->mark != ' ' && l->mark != '-')
		return err_invalid(e, "a line of the edited hunk begins with neither ' ', '+' nor "
				      "'-'; nothing was changed");
	if (!next_old(h, old_at, &want) || !same_line(&want, l, cr))
		return err_invalid(e, "the edited hunk changes a ' ' or '-' line; these must stay "
				      "as they are (only '+' lines are free)");
	put_line(ret, l->mark, want.p, want.n, false, want.no_newline);
	return 0;
}

/* Past lines that say nothing: comments and the header. */
static bool skip_comment(const char *text, size_t n, size_t *at)
{
	const char *end;

	if (text[*at] != '#' && (n - *at < 2 || memcmp(text + *at, "@@", 2) != 0))
		return false;
	end = memchr(text + *at, '\n', n - *at);
	*at = end ? (size_t)(end - text) + 1 : n;
	return true;
}

/* The new side of an edited body: a line without newline must be its last, and the file's. */
static int check_new_side(const struct hunk *h, const struct buf *body, struct err *e)
{
	struct hunk_line l;
	size_t at = 0, lines = 0;
	bool ended = false;

	while (hunk_next(buf_str(body), body->len, &at, &l)) {
		if (l.mark == '-')
			continue;
		if (ended)
			return err_invalid(e,
				"the edited hunk goes on after the line that has no newline; "
				"give that line one: '-' it and add it with '+'");
		ended = l.no_newline;
		lines++;
	}
	if (ended && !reaches_bare_end(h))
		return err_invalid(e, "the edited hunk is not at the end of its file; a line there "
				      "cannot be without newline");
	if (!lines && !h->old_n)
		return err_invalid(e, "the edited hunk adds nothing; reject it instead");
	return 0;
}

int hunk_edit(
	const struct hunk *h, const char *text, size_t n, bool cr, struct buf *ret, struct err *e)
{
	size_t at = 0, old_at = 0;
	struct hunk_line l;
	int r;

	while (at < n) {
		if (skip_comment(text, n, &at) || !hunk_next(text, n, &at, &l))
			continue;
		if (l.mark == '\n')
			l = (struct hunk_line){.mark = ' ', .p = l.p, .no_newline = l.no_newline};
		r = edit_line(h, &l, cr, &old_at, ret, e);
		if (r < 0)
			return r;
	}
	if (next_old(h, &old_at, &l))
		return err_invalid(e, "the edited hunk lacks a ' ' or '-' line; these must stay as "
				      "they are (only '+' lines are free)");
	if (ret->failed)
		return err_set(e, EFBIG, "the edited hunk is too large");
	return check_new_side(h, ret, e);
}

/* ---- showing ---- */

bool hunk_has_cr(const struct hunk *h)
{
	struct hunk_line l;
	size_t at = 0, lines = 0;

	while (hunk_next(h->body, h->body_n, &at, &l)) {
		if (l.n == 0 || l.p[l.n - 1] != '\r')
			return false;
		lines++;
	}
	return lines > 0;
}

void show_line(struct buf *out, const char *s, size_t n)
{
	while (n) {
		const char *tab = memchr(s, '\t', n);
		size_t part = tab ? (size_t)(tab - s) : n;

		str_show_text(out, s, part);
		if (tab)
			buf_addc(out, '\t');
		part += tab != NULL;
		s += part;
		n -= part;
	}
}

bool hunk_is_plain(const struct hunk *h)
{
	bool cr = hunk_has_cr(h);
	cleanup_buf struct buf shown = BUF_INIT(SIZE_MAX / 4);
	struct hunk_line l;
	size_t at = 0;

	while (hunk_next(h->body, h->body_n, &at, &l)) {
		buf_reset(&shown);
		show_line(&shown, l.p, l.n - cr);
		if (shown.failed || shown.len != l.n - cr)
			return false;
	}
	return true;
}
