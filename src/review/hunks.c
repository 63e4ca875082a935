/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what git says about two trees: see hunks.h. */
#include "review/hunks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* A checked reader: never beyond the end, and stuck once something was not as expected. */
struct reader {
	const char *p;
	size_t n, at;
	bool bad;
};

static bool starts(const struct reader *r, const char *word)
{
	size_t n = strlen(word);

	return !r->bad && r->n - r->at >= n && memcmp(r->p + r->at, word, n) == 0;
}

static bool skip(struct reader *r, const char *word)
{
	if (!starts(r, word))
		return false;
	r->at += strlen(word);
	return true;
}

/* Up to a delimiter, which is passed; NULL when it does not come. */
static const char *until(struct reader *r, char end, size_t *ret_n)
{
	const char *from = r->p + r->at, *to;

	if (r->bad || r->at >= r->n || !(to = memchr(from, end, r->n - r->at))) {
		r->bad = true;
		return NULL;
	}
	*ret_n = (size_t)(to - from);
	r->at += *ret_n + 1;
	return from;
}

static uint64_t number(struct reader *r, uint64_t max)
{
	uint64_t v = 0;
	size_t from = r->at;

	while (!r->bad && r->at < r->n && r->p[r->at] >= '0' && r->p[r->at] <= '9') {
		v = v * 10 + (uint64_t)(r->p[r->at++] - '0');
		if (v > max)
			r->bad = true;
	}
	if (r->at == from)
		r->bad = true;
	return r->bad ? 0 : v;
}

static unsigned mode(struct reader *r)
{
	unsigned v = 0;

	for (int i = 0; i < 6; i++, r->at++) {
		if (r->bad || r->at >= r->n || r->p[r->at] < '0' || r->p[r->at] > '7') {
			r->bad = true;
			return 0;
		}
		v = v * 8 + (unsigned)(r->p[r->at] - '0');
	}
	return v;
}

static void need(struct reader *r, const char *word)
{
	if (!skip(r, word))
		r->bad = true;
}

static void object_name(struct reader *r, char end, struct oid *ret)
{
	size_t n = 0;
	const char *hex = until(r, end, &n);

	if (!hex || !oid_parse(ret, hex, n)) {
		r->bad = true;
		return;
	}
	if (oid_is_none(ret))
		*ret = (struct oid){0};
}

static char *name(struct reader *r)
{
	size_t n = 0;
	const char *p = until(r, '\0', &n);
	char *copy;

	if (!p || n == 0) {
		r->bad = true;
		return NULL;
	}
	copy = strndup(p, n);
	if (!copy)
		r->bad = true;
	return copy;
}

void tree_diff_done(struct tree_diff *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->v[i].path);
		free(d->v[i].from);
		free(d->v[i].hunks);
	}
	free(d->v);
	buf_done(&d->text);
	buf_done(&d->more);
	*d = (struct tree_diff){.text = {.max = d->text.max}};
}

struct diff_file *tree_diff_add(struct tree_diff *d)
{
	if (d->n >= HUNKS_FILES_MAX)
		return NULL;
	if (d->n == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 64;
		struct diff_file *v = realloc(d->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		d->v = v;
		d->cap = cap;
	}
	d->v[d->n] =
		(struct diff_file){.old_size = DIFF_SIZE_UNKNOWN, .new_size = DIFF_SIZE_UNKNOWN};
	return &d->v[d->n++];
}

/* ":100644 100755 OLD NEW M\0path\0", or R with two paths. */
static void raw_entry(struct reader *r, struct tree_diff *d)
{
	struct diff_file *f = tree_diff_add(d);
	size_t n = 0;
	const char *status;

	if (!f) {
		r->bad = true;
		return;
	}
	need(r, ":");
	f->old_mode = mode(r);
	need(r, " ");
	f->new_mode = mode(r);
	need(r, " ");
	object_name(r, ' ', &f->old);
	object_name(r, ' ', &f->new);
	status = until(r, '\0', &n);
	if (!status || n == 0 || !strchr("ADMTR", status[0])) {
		r->bad = true;
		return;
	}
	f->status = status[0];
	if (f->status == 'R')
		f->from = name(r);
	f->path = name(r);
}

/* "3\t4\tpath\0", "-\t-\tpath\0" for a binary one, "3\t4\t\0old\0new\0" for a renamed one. */
static void numstat_entry(struct reader *r, struct diff_file *f)
{
	size_t n = 0;
	const char *p;

	if (skip(r, "-\t-\t")) {
		f->binary = true;
	} else {
		f->added = number(r, UINT32_MAX);
		need(r, "\t");
		f->deleted = number(r, UINT32_MAX);
		need(r, "\t");
		f->counted = true;
	}
	p = until(r, '\0', &n);
	if (p && n == 0 && f->from) {
		until(r, '\0', &n);
		p = until(r, '\0', &n);
	}
	if (!p || n != strlen(f->path) || memcmp(p, f->path, n) != 0)
		r->bad = true;
}

/* "12,3" or "12" */
static void range(struct reader *r, uint32_t *ret_start, uint32_t *ret_n)
{
	*ret_start = (uint32_t)number(r, UINT32_MAX);
	*ret_n = 1;
	if (skip(r, ","))
		*ret_n = (uint32_t)number(r, UINT32_MAX);
}

static struct hunk *add_hunk(struct diff_file *f)
{
	struct hunk *v;

	/* Room grows by doubling: at every power of two. */
	if (f->hunks_n >= HUNKS_MAX)
		return NULL;
	if ((f->hunks_n & (f->hunks_n - 1)) == 0) {
		v = realloc(f->hunks, (f->hunks_n ? f->hunks_n * 2 : 1) * sizeof(*v));
		if (!v)
			return NULL;
		f->hunks = v;
	}
	f->hunks[f->hunks_n] = (struct hunk){0};
	return &f->hunks[f->hunks_n++];
}

/* The lines that the header counts; the mark for a missing newline belongs to the line before. */
static void hunk_body(struct reader *r, struct hunk *h)
{
	uint32_t old_n = 0, new_n = 0;
	size_t n = 0, from = r->at;
	bool marked = true;

	while (!r->bad && (old_n < h->old_n || new_n < h->new_n)) {
		const char *line = until(r, '\n', &n);

		if (!line || n == 0 || !memchr(" +-\\", line[0], 4) ||
			(line[0] == '\\' && marked)) {
			r->bad = true;
			return;
		}
		marked = line[0] == '\\';
		h->added += line[0] == '+';
		h->deleted += line[0] == '-';
		old_n += line[0] == ' ' || line[0] == '-';
		new_n += line[0] == ' ' || line[0] == '+';
	}
	if (starts(r, "\\ "))
		until(r, '\n', &n);
	if (old_n != h->old_n || new_n != h->new_n)
		r->bad = true;
	h->body = r->p + from;
	h->body_n = r->at - from;
}

static void one_hunk(struct reader *r, struct diff_file *f)
{
	struct hunk *h = add_hunk(f);
	size_t head = r->at, n = 0;

	if (!h) {
		r->bad = true;
		return;
	}
	need(r, "@@ -");
	range(r, &h->old_start, &h->old_n);
	need(r, " +");
	range(r, &h->new_start, &h->new_n);
	need(r, " @@");
	until(r, '\n', &n);
	if (r->bad)
		return;
	h->head = r->p + head;
	h->head_n = r->at - head - 1;
	hunk_body(r, h);
	f->added += h->added;
	f->deleted += h->deleted;
}

/* "index OLD..NEW[ mode]": these must be the objects that the list names. */
static void index_line(struct reader *r, const struct diff_file *f, int part)
{
	struct oid old = {0}, new = {0};
	size_t n = 0, width;
	const char *line = until(r, '\n', &n);

	if (!line || n < 2)
		return;
	width = strcspn(line, ".");
	if (width * 2 + 2 > n || memcmp(line + width, "..", 2) != 0 ||
		!oid_parse(&old, line, width) || !oid_parse(&new, line + width + 2, width)) {
		r->bad = true;
		return;
	}
	if (part == 0 && f->old.n && !oid_eq(&old, &f->old))
		r->bad = true;
	if (part == (f->status == 'T') && f->new.n && !oid_eq(&new, &f->new))
		r->bad = true;
}

/* "diff --git …" to the next one. part: 0, or 1 for the second half of a change of type. */
static void section(struct reader *r, struct diff_file *f, int part)
{
	size_t n = 0;

	need(r, "diff --git ");
	until(r, '\n', &n);
	while (!r->bad && r->at < r->n && !starts(r, "diff --git ")) {
		if (starts(r, "@@ -"))
			one_hunk(r, f);
		else if (skip(r, "index "))
			index_line(r, f, part);
		else if (starts(r, "Binary files ")) {
			f->binary = true;
			until(r, '\n', &n);
		} else if (starts(r, "--- ") || starts(r, "+++ ") || starts(r, "old mode ") ||
			   starts(r, "new mode ") || starts(r, "deleted file mode ") ||
			   starts(r, "new file mode ") || starts(r, "similarity index ") ||
			   starts(r, "dissimilarity index ") || starts(r, "rename from ") ||
			   starts(r, "rename to ")) {
			until(r, '\n', &n);
		} else {
			r->bad = true;
		}
	}
	f->counted = !f->binary;
}

int tree_diff_parse(struct tree_diff *d, enum hunks_form form, struct err *e)
{
	struct reader r = {.p = buf_str(&d->text), .n = d->text.len};

	while (!r.bad && r.at < r.n && starts(&r, ":"))
		raw_entry(&r, d);
	/* A NUL stands between the list and the patch. */
	if (form == HUNKS_PATCH && d->n && (r.at >= r.n || r.p[r.at++] != '\0'))
		r.bad = true;
	for (size_t i = 0; i < d->n && !r.bad && form != HUNKS_RAW; i++) {
		if (form == HUNKS_NUMSTAT) {
			numstat_entry(&r, &d->v[i]);
			continue;
		}
		section(&r, &d->v[i], 0);
		if (d->v[i].status == 'T')
			section(&r, &d->v[i], 1);
	}
	if (!r.bad && r.at == r.n)
		return 0;
	return err_set(e, EBADMSG, "git's list of differences is not understood at byte %zu", r.at);
}

bool hunk_next(const char *body, size_t n, size_t *at, struct hunk_line *ret)
{
	const char *line, *end;

	if (*at >= n)
		return false;
	line = body + *at;
	end = memchr(line, '\n', n - *at);
	if (!end)
		end = body + n;
	*ret = (struct hunk_line){
		.mark = *line, .p = line + 1, .n = end > line ? (size_t)(end - line) - 1 : 0};
	*at = MIN_OF((size_t)(end - body) + 1, n);
	if (*at < n && body[*at] == '\\') {
		const char *next = memchr(body + *at, '\n', n - *at);

		ret->no_newline = true;
		*at = next ? (size_t)(next - body) + 1 : n;
	}
	return true;
}
