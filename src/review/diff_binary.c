/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that git takes for binary, shown all the same where a reader would miss something: see diff.h.
 *
 * One NUL makes git call a script binary, and a reviewer would see its size only. So what begins with "#!",
 * what runs on the reader's machine and what is mostly text is compared as text; its bytes are shown
 * escaped, like any others. It stays `binary`: decided as a whole, never hunk by hunk.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "review/diff.h"
#include "git/read.h"

#define PEEK_B ((size_t)64 << 10)       /* of a file that is judged */
#define PEEK_MAX_B ((uint64_t)64 << 20) /* of all of them: git hands over whole files */
#define ODD_SHARE 10                    /* text has at most one odd byte in so many */

/* Bytes that no text has: controls but for white space and form feed, ill-formed UTF-8. */
static bool mostly_text(const char *p, size_t n)
{
	size_t odd = 0, len;

	for (size_t i = 0; i < n; i += len) {
		unsigned char c = (unsigned char)p[i];

		len = utf8_len(p + i, n - i);
		if (len == 0 || (c < 0x20 && !memchr("\t\n\r\f", c, 4)) || c == 0x7f)
			odd++;
		len = len ? len : 1;
	}
	return odd * ODD_SHARE <= n;
}

static bool is_script(const struct buf *b)
{
	return b->len > 2 && b->data[0] == '#' && b->data[1] == '!';
}

/* Does the content of one side look like text? What cannot be read does not. */
static bool looks_like_text(
	struct git_reader *g, const struct oid *o, uint64_t size_b, uint64_t *left_b)
{
	cleanup_buf struct buf b = BUF_INIT(DIFF_SHOW_MAX_B);
	struct err ignored = ERR_INIT;

	if (!o->n || size_b > *left_b)
		return false;
	*left_b -= size_b;
	if (git_read_oid(g, o, GIT_BLOB, &b, &ignored) < 0 || b.len == 0)
		return false;
	return is_script(&b) || mostly_text(b.data, MIN_OF(b.len, PEEK_B));
}

static bool is_candidate(const struct diff_file *f)
{
	const unsigned mode = f->new_mode ? f->new_mode : f->old_mode;

	return f->binary && !f->large && (mode & 0170000) == 0100000;
}

/* Paths to be compared as text. */
static int choose(struct strlist *ret, const struct tree_diff *d, const struct diff_query *q,
	const struct changes *c, bool all, struct err *e)
{
	cleanup_git_reader struct git_reader *g = NULL;
	uint64_t left_b = PEEK_MAX_B;
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->n; i++) {
		const struct diff_file *f = &d->v[i];
		bool new = f->new.n > 0;
		bool wanted;

		if (!is_candidate(f))
			continue;
		wanted = all || diff_runs(c, f);
		if (!wanted && !g)
			r = git_reader_open(&g, q->git_dir, e);
		if (!wanted && r == 0)
			wanted = looks_like_text(g, new ? &f->new : &f->old,
				new ? f->new_size : f->old_size, &left_b);
		if (wanted && !strlist_add(ret, f->path))
			break; /* the others are said not to be shown */
	}
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct diff_file *)a)->path, ((const struct diff_file *)b)->path);
}

static void take_hunks(struct tree_diff *d, struct tree_diff *from)
{
	if (from->n)
		qsort(from->v, from->n, sizeof(*from->v), by_path);
	for (size_t i = 0; i < d->n && from->n; i++) {
		struct diff_file *f = &d->v[i], *x;

		if (f->hunks_n || !is_candidate(f))
			continue;
		x = bsearch(f, from->v, from->n, sizeof(*from->v), by_path);
		if (!x || !x->hunks_n)
			continue;
		f->hunks = take_ptr(x->hunks);
		f->hunks_n = x->hunks_n;
		x->hunks_n = 0;
		f->escaped = true;
	}
	d->more = from->text; /* their lines are in there */
	from->text = (struct buf){0};
}

int tree_diff_binary(struct tree_diff *d, const struct diff_query *q, const struct changes *c,
	bool all, struct err *e)
{
	cleanup_strlist struct strlist paths = STRLIST_INIT(DIFF_PATHS_MAX);
	cleanup_tree_diff struct tree_diff text = {0};
	cleanup_free const char **list = NULL;
	struct diff_query as_text = *q;
	int r = choose(&paths, d, q, c, all, e);

	if (r < 0 || paths.n == 0)
		return r;
	list = calloc(paths.n + 1, sizeof(*list));
	if (!list)
		return err_set(e, ENOMEM, "show binary files");
	for (size_t i = 0; i < paths.n; i++)
		list[i] = paths.v[i];
	as_text.paths = list;
	as_text.what = DIFF_HUNKS;
	as_text.small = as_text.no_renames = as_text.text = true;
	r = tree_diff_get(&text, &as_text, e);
	if (r == 0)
		take_hunks(d, &text);
	return r;
}
