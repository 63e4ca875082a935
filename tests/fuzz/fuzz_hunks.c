/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git says about two trees: any bytes, or the patch of two files that are made here. What is
 * understood has the lines its headers count and nothing else. All hunks accepted give the new file,
 * none the old one, some what is accepted; a hunk that comes back from the editor untouched is the same,
 * and one that was taken back can be applied.
 *
 * Input: form (0 to 2: parsed as it is; 3: a patch is made), and for a made one: lines of context, ends of
 *        the files, choices (2 bytes), the number of lines, a byte per line, what an editor returns.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "review/hunks.h"
#include "must.h"

#define TEXT_MAX (16u << 20)
#define LINES_MAX 255u
#define FILL_MAX 1000u
#define HEAD_LEN 6u
#define MADE 3u
#define BARE "\\ No newline at end of file\n"

/* ------------------------------------------------------------------ any bytes */

/* The lines are those that the header counts. */
static void check_hunk(const struct hunk *h)
{
	uint64_t old_n = 0, new_n = 0, added = 0, deleted = 0;
	struct hunk_line l;
	size_t at = 0;

	while (hunk_next(h->body, h->body_n, &at, &l)) {
		MUST(l.mark == ' ' || l.mark == '+' || l.mark == '-');
		MUST(l.p > h->body && l.p + l.n <= h->body + h->body_n);
		old_n += l.mark != '+';
		new_n += l.mark != '-';
		added += l.mark == '+';
		deleted += l.mark == '-';
	}
	MUST(old_n == h->old_n && new_n == h->new_n);
	MUST(added == h->added && deleted == h->deleted);
}

/* A file that the hunks fit: what is between them is empty lines. false: there is none. */
static bool fitting(const struct diff_file *f, struct buf *ret)
{
	uint64_t line = 0;
	bool ended = false;

	for (size_t i = 0; i < f->hunks_n; i++) {
		const struct hunk *h = &f->hunks[i];
		uint64_t first = h->old_n ? (uint64_t)h->old_start - 1 : h->old_start;
		struct hunk_line l;
		size_t at = 0;

		if ((h->old_n && !h->old_start) || first < line || first - line > FILL_MAX)
			return false;
		if (ended && (first > line || h->old_n))
			return false;
		for (; line < first; line++)
			buf_addc(ret, '\n');
		while (hunk_next(h->body, h->body_n, &at, &l)) {
			if (l.mark == '+')
				continue;
			if (ended || (l.no_newline && l.n == 0))
				return false;
			buf_add(ret, l.p, l.n);
			if (!l.no_newline)
				buf_addc(ret, '\n');
			ended = l.no_newline;
			line++;
		}
	}
	return true;
}

static void check_none(const struct diff_file *f)
{
	cleanup_buf struct buf old = BUF_INIT(TEXT_MAX), got = BUF_INIT(TEXT_MAX);
	cleanup_free struct hunk_choice *c = calloc(f->hunks_n + 1, sizeof(*c));
	struct err e = ERR_INIT;

	MUST(c);
	if (!fitting(f, &old))
		return;
	MUST(hunks_apply(f->hunks, c, f->hunks_n, buf_str(&old), old.len, &got, &e) == 0);
	MUST(got.len == old.len && memcmp(buf_str(&got), buf_str(&old), old.len) == 0);
}

static void parse_any(const uint8_t *data, size_t size, enum hunks_form form)
{
	cleanup_tree_diff struct tree_diff d = {.text = BUF_INIT(TEXT_MAX)};
	struct err e = ERR_INIT;

	buf_add(&d.text, data, size);
	if (tree_diff_parse(&d, form, &e) < 0) {
		MUST(e.kind != ERR_NONE && e.msg[0]);
		return;
	}
	for (size_t i = 0; i < d.n; i++) {
		const struct diff_file *f = &d.v[i];

		MUST(f->path && *f->path && strchr("ADMTR", f->status));
		MUST((f->status == 'R') == (f->from != NULL));
		for (size_t k = 0; k < f->hunks_n; k++) {
			check_hunk(&f->hunks[k]);
			hunk_is_plain(&f->hunks[k]);
		}
		if (f->status != 'T')
			check_none(f);
	}
}

/* ------------------------------------------------------------------ a patch of two files */

static const char *const texts[] = {"", "a", "b", "a\r", "-", "+", "\\", " ", "@@ -1 +1 @@",
	"diff --git a/x b/x", "\\ No newline at end of file", "--- a/f", "\t", "# x", "\xff\xfe",
	"index 0"};

struct line {
	char mark;
	bool bare;
	int hunk; /* -1: in none */
	const char *text;
};

struct made {
	struct line v[LINES_MAX];
	size_t n;
	size_t context;
	int hunks_n;
};

/* The last line of a file may be without newline; where it is both files', it is so in both. */
static void set_ends(struct made *m, unsigned flags)
{
	size_t old = m->n, new = m->n;

	for (size_t i = 0; i < m->n; i++) {
		old = m->v[i].mark != '+' ? i : old;
		new = m->v[i].mark != '-' ? i : new;
	}
	if (old < m->n && *m->v[old].text && (m->v[old].mark == '-' || old == new))
		m->v[old].bare = flags & 1;
	if (new < m->n && * m->v[new].text && m->v[new].mark == '+')
		m->v[new].bare = flags & 2;
}

/* Changes and the lines around them; those whose lines meet are one hunk. */
static void set_hunks(struct made *m)
{
	size_t end = 0; /* of the hunk before */

	m->hunks_n = 0;
	for (size_t i = 0; i < m->n; i++) {
		size_t from = i - MIN_OF(i, m->context);

		if (m->v[i].mark == ' ')
			continue;
		if (m->hunks_n == 0 || from > end)
			m->hunks_n++;
		else
			from = end;
		end = MIN_OF(i + m->context + 1, m->n);
		for (size_t k = from; k < end; k++)
			m->v[k].hunk = m->hunks_n - 1;
	}
}

static void make(struct made *m, const uint8_t *data)
{
	*m = (struct made){.n = data[5], .context = data[1] % 4};
	for (size_t i = 0; i < m->n; i++) {
		uint8_t b = data[HEAD_LEN + i];

		m->v[i] = (struct line){
			.mark = "  +-"[b & 3], .hunk = -1, .text = texts[b >> 2 & 15]};
	}
	set_ends(m, data[2]);
	set_hunks(m);
}

static void put_range(struct buf *out, size_t before, size_t n)
{
	buf_addf(out, "%zu", n ? before + 1 : before);
	if (n != 1)
		buf_addf(out, ",%zu", n);
}

static void put_hunk(struct buf *out, const struct made *m, int hunk)
{
	size_t old_before = 0, new_before = 0, old_n = 0, new_n = 0;

	for (size_t i = 0; i < m->n; i++) {
		old_before += m->v[i].hunk < hunk && m->v[i].mark != '+' && old_n + new_n == 0;
		new_before += m->v[i].hunk < hunk && m->v[i].mark != '-' && old_n + new_n == 0;
		old_n += m->v[i].hunk == hunk && m->v[i].mark != '+';
		new_n += m->v[i].hunk == hunk && m->v[i].mark != '-';
	}
	buf_adds(out, "@@ -");
	put_range(out, old_before, old_n);
	buf_adds(out, " +");
	put_range(out, new_before, new_n);
	buf_adds(out, " @@ f\n");
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].hunk == hunk)
			buf_addf(out, "%c%s\n%s", m->v[i].mark, m->v[i].text,
				m->v[i].bare ? BARE : "");
}

static void put_patch(struct buf *out, const struct made *m)
{
	static const char old[] = "1111111111111111111111111111111111111111";
	static const char new[] = "2222222222222222222222222222222222222222";

	buf_addf(out, ":100644 100644 %s %s M", old, new);
	buf_add(out, "\0f\0\0", 4);
	buf_addf(out, "diff --git a/f b/f\nindex %s..%s 100644\n--- a/f\n+++ b/f\n", old, new);
	for (int i = 0; i < m->hunks_n; i++)
		put_hunk(out, m, i);
}

static bool accepted(uint64_t choices, int hunk)
{
	return hunk >= 0 && choices >> hunk % 16 & 1;
}

static void put_file(struct buf *out, const struct made *m, uint64_t choices)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct line *l = &m->v[i];

		if (l->mark == (accepted(choices, l->hunk) ? '-' : '+'))
			continue;
		buf_adds(out, l->text);
		if (!l->bare)
			buf_addc(out, '\n');
	}
}

static void check_choice(const struct made *m, const struct diff_file *f, uint64_t choices)
{
	cleanup_buf struct buf old = BUF_INIT(TEXT_MAX), want = BUF_INIT(TEXT_MAX);
	cleanup_buf struct buf got = BUF_INIT(TEXT_MAX);
	struct hunk_choice c[LINES_MAX + 1] = {0};
	struct err e = ERR_INIT;

	put_file(&old, m, 0);
	put_file(&want, m, choices);
	for (int i = 0; i < m->hunks_n; i++)
		c[i].accept = accepted(choices, i);
	MUST(hunks_apply(f->hunks, c, f->hunks_n, buf_str(&old), old.len, &got, &e) == 0);
	MUST(got.len == want.len && memcmp(buf_str(&got), buf_str(&want), want.len) == 0);
}

static void check_edited(
	const struct made *m, const struct diff_file *f, const char *text, size_t n)
{
	cleanup_buf struct buf old = BUF_INIT(TEXT_MAX);

	put_file(&old, m, 0);
	for (size_t i = 0; i < f->hunks_n; i++) {
		cleanup_buf struct buf same = BUF_INIT(TEXT_MAX), body = BUF_INIT(TEXT_MAX);
		cleanup_buf struct buf got = BUF_INIT(TEXT_MAX);
		const struct hunk *h = &f->hunks[i];
		struct hunk_choice c[LINES_MAX + 1] = {0};
		struct err e = ERR_INIT;

		MUST(hunk_edit(h, h->body, h->body_n, false, &same, &e) == 0);
		MUST(same.len == h->body_n && memcmp(same.data, h->body, same.len) == 0);
		if (hunk_edit(h, text, n, hunk_has_cr(h), &body, &e) < 0)
			continue;
		c[i] = (struct hunk_choice){true, buf_str(&body), body.len};
		MUST(hunks_apply(f->hunks, c, f->hunks_n, buf_str(&old), old.len, &got, &e) == 0);
	}
}

static void parse_made(const uint8_t *data, size_t size)
{
	cleanup_tree_diff struct tree_diff d = {.text = BUF_INIT(TEXT_MAX)};
	struct err e = ERR_INIT;
	struct made m;

	if (size < HEAD_LEN || size - HEAD_LEN < data[5])
		return;
	make(&m, data);
	put_patch(&d.text, &m);
	MUST(tree_diff_parse(&d, HUNKS_PATCH, &e) == 0 && d.n == 1);
	MUST(d.v[0].hunks_n == (size_t)m.hunks_n);
	for (int i = 0; i < m.hunks_n; i++)
		check_hunk(&d.v[0].hunks[i]);
	check_choice(&m, &d.v[0], 0);
	check_choice(&m, &d.v[0], UINT64_MAX);
	check_choice(&m, &d.v[0], data[3] | (uint64_t)data[4] << 8);
	check_edited(&m, &d.v[0], (const char *)data + HEAD_LEN + m.n, size - HEAD_LEN - m.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] % 4 == MADE)
		parse_made(data, size);
	else if (size)
		parse_any(data + 1, size - 1, (enum hunks_form)(data[0] % 4));
	return 0;
}
