/* SPDX-License-Identifier: Apache-2.0 */
/* Two screen models compared, cell by cell, for the unit tests and the fuzz target. */
#ifndef CROFT_TESTS_UNIT_SCREEN_WORLD_H
#define CROFT_TESTS_UNIT_SCREEN_WORLD_H

#include <string.h>

#include "session/screen/screen_message.h"
#include "session/screen/model.h"
#include "session/stdio/terminal.h"

static inline bool same_cursor(const struct cursor *a, const struct cursor *b)
{
	return a->row == b->row && a->col == b->col &&
	       memcmp(&a->pen, &b->pen, sizeof(a->pen)) == 0 &&
	       memcmp(a->charset, b->charset, sizeof(a->charset)) == 0 && a->shift == b->shift &&
	       a->origin == b->origin;
}

static inline bool same_page(const struct model *m, const struct page *a, const struct page *b)
{
	for (unsigned r = 0; r < m->rows; r++)
		if (memcmp(a->row[r], b->row[r], m->cols * sizeof(struct cell)) != 0)
			return false;
	return same_cursor(&a->saved, &b->saved) && a->keys_n == b->keys_n &&
	       memcmp(a->keys, b->keys, a->keys_n + 1u) == 0;
}

/* Not `bad`: where the room for a sequence is used up, the next byte sets it. */
static inline bool same_parser(const struct parser *a, const struct parser *b)
{
	return a->state == b->state && a->string_esc == b->string_esc && a->raw_n == b->raw_n &&
	       memcmp(a->raw, b->raw, a->raw_n) == 0 && a->body == b->body &&
	       a->utf8_n == b->utf8_n && memcmp(a->utf8, b->utf8, a->utf8_n) == 0 &&
	       a->utf8_need == b->utf8_need;
}

/* NULL, or what differs. Of the alternate screen only while it shows: entering it clears it. */
static inline const char *screen_differs(const struct model *a, const struct model *b)
{
	if (a->rows != b->rows || a->cols != b->cols)
		return "size";
	if (a->active != b->active)
		return "which screen";
	if (!same_page(a, &a->page[0], &b->page[0]))
		return "the primary screen";
	if (a->active && !same_page(a, &a->page[1], &b->page[1]))
		return "the alternate screen";
	if (!same_cursor(&a->cur, &b->cur))
		return "the cursor";
	if (a->pending != b->pending)
		return "whether the line is full";
	if (a->last.ch != b->last.ch ||
		(a->last.ch && (a->last.row != b->last.row || a->last.col != b->last.col)))
		return "the last character";
	if (a->top != b->top || a->bottom != b->bottom || a->left != b->left ||
		a->right != b->right)
		return "the margins";
	if (a->modes != b->modes || a->mouse != b->mouse || a->mouse_form != b->mouse_form ||
		a->style != b->style || a->other_keys != b->other_keys)
		return "the modes";
	if (memcmp(a->tabs, b->tabs, a->cols) != 0)
		return "the tab stops";
	return same_parser(&a->parser, &b->parser) ? NULL : "the unfinished sequence";
}

/* What must hold of every model. */
static inline bool screen_sound(const struct model *m)
{
	if (m->cur.row >= m->rows || m->cur.col >= m->cols || m->top > m->bottom ||
		m->bottom >= m->rows || m->left > m->right || m->right >= m->cols)
		return false;
	if (m->cur.origin && (m->cur.row < m->top || m->cur.row > m->bottom ||
				     m->cur.col < m->left || m->cur.col > m->right))
		return false;
	for (int i = 0; i < 2; i++) {
		for (unsigned r = 0; m->page[i].row && r < m->rows; r++) {
			const struct cell *line = m->page[i].row[r];

			for (unsigned c = 0; c < m->cols; c++)
				if ((line[c].ch > 0 && line[c].ch < 0x20) ||
					line[c].ch > 0x10ffff ||
					(line[c].ch >= 0x7f && line[c].ch < 0xa0) ||
					(line[c].ch == 0 && (c == 0 || line[c - 1].ch == 0)))
					return false;
		}
	}
	return m->last.ch == 0 || m->page[m->active].row[m->last.row][m->last.col].ch == m->last.ch;
}

/*
 * Dump m, through the terminal filter as an attached terminal would get it, into a fresh model.
 * The filter keeps the unfinished sequence; it is fed as what it is. NULL, or what differs.
 */
static inline const char *screen_copy(const struct model *m, struct model *ret, bool *ret_trimmed)
{
	struct buf dump = BUF_INIT(SCREEN_DUMP_MAX);
	static unsigned char out[SCREEN_DUMP_MAX + TERMFILTER_HOLD];
	struct termfilter f = {0};
	const char *bad = NULL;
	size_t n, held = m->parser.raw_n + m->parser.utf8_n + m->parser.string_esc;

	if (!model_init(ret, m->rows, m->cols))
		return "memory";
	model_dump(m, &dump, ret_trimmed);
	n = dump.failed || dump.len < held ? 0 : dump.len - held;
	if (dump.failed)
		bad = "the size of the dump";
	else if (termfilter_run(&f, (const unsigned char *)dump.data, n, out) != n ||
		 memcmp(out, dump.data, n) != 0)
		bad = "what the terminal filter lets pass";
	else
		model_feed(ret, dump.data, dump.len);
	buf_done(&dump);
	if (!bad && !*ret_trimmed)
		bad = screen_differs(m, ret);
	return bad;
}

#endif
