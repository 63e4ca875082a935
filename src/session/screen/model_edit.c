/* SPDX-License-Identifier: Apache-2.0 */
/* Cells that move, go and come: scrolling, inserting, deleting, erasing. See model.h. */
#include <string.h>

#include "base/cleanup.h"
#include "session/screen/model_impl.h"

void model_touch(struct model *m)
{
	m->pending = false;
	m->last.ch = 0;
}

void model_blank(struct cell *c, unsigned n, uint32_t bg)
{
	for (unsigned i = 0; i < n; i++)
		c[i] = (struct cell){.ch = ' ', .pen.bg = bg};
}

void model_mend(struct cell *line, unsigned cols)
{
	for (unsigned i = 0; i < cols; i++) {
		bool wide = line[i].ch && model_width(line[i].ch) == 2;

		if (wide && i + 1 < cols && line[i + 1].ch == 0) {
			i++;
		} else if (wide || line[i].ch == 0) {
			line[i].ch = ' ';
			memset(line[i].marks, 0, sizeof(line[i].marks));
		}
	}
}

/* ---- the cursor ---- */

void model_goto(struct model *m, unsigned row, unsigned col)
{
	bool in = m->cur.origin;

	model_touch(m);
	m->cur.row = MIN_OF(row, in ? m->bottom : m->rows - 1);
	m->cur.col = MIN_OF(col, in ? m->right : m->cols - 1);
	if (in) {
		m->cur.row = MAX_OF(m->cur.row, m->top);
		m->cur.col = MAX_OF(m->cur.col, m->left);
	}
}

void model_goto_origin(struct model *m, unsigned row, unsigned col)
{
	if (m->cur.origin)
		model_goto(m, row + m->top, col + m->left);
	else
		model_goto(m, row, col);
}

void model_index(struct model *m)
{
	model_touch(m);
	if (m->cur.row == m->bottom) {
		if (model_in_columns(m))
			model_scroll_up(m, m->top, 1);
	} else if (m->cur.row + 1 < m->rows) {
		m->cur.row++;
	}
}

void model_reverse_index(struct model *m)
{
	model_touch(m);
	if (m->cur.row == m->top) {
		if (model_in_columns(m))
			model_scroll_down(m, m->top, 1);
	} else if (m->cur.row > 0) {
		m->cur.row--;
	}
}

void model_margins_off(struct model *m)
{
	m->top = m->left = 0;
	m->bottom = m->rows - 1;
	m->right = m->cols - 1;
}

/* ---- scrolling ---- */

static bool full_width(const struct model *m)
{
	return m->left == 0 && m->right == m->cols - 1;
}

static void erase_between(struct model *m, unsigned row)
{
	struct cell *line = model_line(m, row);

	model_blank(line + m->left, m->right - m->left + 1, m->cur.pen.bg);
	if (!full_width(m))
		model_mend(line, m->cols);
}

/* Full lines only change places: a flood of output costs one line of blanks per line. */
static void rotate(struct cell **row, unsigned n, unsigned by)
{
	struct cell *held[MODEL_ROWS_MAX];

	memcpy(held, row, by * sizeof(*row));
	memmove(row, row + by, (n - by) * sizeof(*row));
	memcpy(row + (n - by), held, by * sizeof(*row));
}

static void copy_between(struct model *m, unsigned to, unsigned from)
{
	struct cell *line = model_line(m, to);

	memcpy(line + m->left, model_line(m, from) + m->left,
		(m->right - m->left + 1) * sizeof(*line));
	model_mend(line, m->cols);
}

void model_scroll_up(struct model *m, unsigned top, unsigned n)
{
	unsigned height = m->bottom - top + 1;

	model_touch(m);
	n = MIN_OF(n, height);
	if (full_width(m))
		rotate(m->page[m->active].row + top, height, n);
	else
		for (unsigned r = top; r + n <= m->bottom; r++)
			copy_between(m, r, r + n);
	for (unsigned r = m->bottom + 1 - n; r <= m->bottom; r++)
		erase_between(m, r);
}

void model_scroll_down(struct model *m, unsigned top, unsigned n)
{
	unsigned height = m->bottom - top + 1;

	model_touch(m);
	n = MIN_OF(n, height);
	if (full_width(m))
		rotate(m->page[m->active].row + top, height, height - n);
	else
		for (unsigned r = m->bottom; r >= top + n; r--)
			copy_between(m, r, r - n);
	for (unsigned r = top; r < top + n; r++)
		erase_between(m, r);
}

/* ---- in a line ---- */

void model_insert(struct model *m, unsigned n)
{
	struct cell *line = model_line(m, m->cur.row);
	unsigned col = m->cur.col, room;

	if (!model_in_columns(m))
		return;
	room = m->right - col + 1;
	n = MIN_OF(n, room);
	memmove(line + col + n, line + col, (room - n) * sizeof(*line));
	model_blank(line + col, n, m->cur.pen.bg);
	model_mend(line, m->cols);
}

void model_delete(struct model *m, unsigned n)
{
	struct cell *line = model_line(m, m->cur.row);
	unsigned col = m->cur.col, room;

	if (!model_in_columns(m))
		return;
	room = m->right - col + 1;
	n = MIN_OF(n, room);
	memmove(line + col, line + col + n, (room - n) * sizeof(*line));
	model_blank(line + m->right + 1 - n, n, m->cur.pen.bg);
	model_mend(line, m->cols);
}

void model_erase(struct model *m, unsigned row, unsigned from, unsigned to)
{
	struct cell *line = model_line(m, row);

	to = MIN_OF(to, m->cols);
	if (from >= to)
		return;
	model_blank(line + from, to - from, m->cur.pen.bg);
	if (from > 0 || to < m->cols)
		model_mend(line, m->cols);
}
