/* SPDX-License-Identifier: Apache-2.0 */
/* Characters into cells: widths, combining, wrapping. See model.h. */
#include <string.h>

#include "base/cleanup.h"
#include "session/screen/model_impl.h"
#include "session/screen/width.h"

static bool in_ranges(const struct width_range *r, size_t n, uint32_t ch)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ch > r[mid].last)
			lo = mid + 1;
		else if (ch < r[mid].first)
			hi = mid;
		else
			return true;
	}
	return false;
}

int model_width(uint32_t ch)
{
	if (ch < 0x300)
		return 1;
	if (in_ranges(width_none, ARRAY_SIZE(width_none), ch))
		return 0;
	return in_ranges(width_two, ARRAY_SIZE(width_two), ch) ? 2 : 1;
}

/* DEC's line drawing, from '_' to '~'. */
static const uint16_t drawing[] = {0x00a0, 0x25c6, 0x2592, 0x2409, 0x240c, 0x240d, 0x240a, 0x00b0,
	0x00b1, 0x2424, 0x240b, 0x2518, 0x2510, 0x250c, 0x2514, 0x253c, 0x23ba, 0x23bb, 0x2500,
	0x23bc, 0x23bd, 0x251c, 0x2524, 0x2534, 0x252c, 0x2502, 0x2264, 0x2265, 0x03c0, 0x2260,
	0x00a3, 0x00b7};

static uint32_t translate(const struct model *m, uint32_t ch)
{
	unsigned char set = m->cur.charset[m->cur.shift];

	if (set == '0' && ch >= '_' && ch <= '~')
		return drawing[ch - '_'];
	return set == 'A' && ch == '#' ? 0x00a3 : ch;
}

static void add_mark(struct model *m, uint32_t ch)
{
	struct cell *c;

	if (!m->last.ch)
		return;
	c = &model_line(m, m->last.row)[m->last.col];
	for (int i = 0; i < MODEL_MARKS_MAX; i++) {
		if (!c->marks[i]) {
			c->marks[i] = ch;
			return;
		}
	}
}

/* A character over half of a wide one leaves a blank where its other half was. */
static void split_wide(struct cell *line, unsigned from, unsigned to, unsigned cols)
{
	if (line[from].ch == 0)
		model_blank(&line[from - 1], 1, line[from - 1].pen.bg);
	if (to < cols && line[to].ch == 0)
		model_blank(&line[to], 1, line[to].pen.bg);
}

static void wrap(struct model *m)
{
	unsigned left = model_in_columns(m) ? m->left : 0;

	model_index(m);
	m->cur.col = left;
}

static unsigned right_limit(const struct model *m)
{
	return m->cur.col > m->right ? m->cols - 1 : m->right;
}

static void put(struct model *m, uint32_t ch, unsigned w)
{
	bool wraps = model_mode(m, MODE_WRAP);
	unsigned right = right_limit(m), left = m->cur.col >= m->left ? m->left : 0;
	struct cell *line;

	if (w == 2 && right <= left)
		return; /* no room for it anywhere */
	if ((m->pending && wraps) || (w == 2 && m->cur.col >= right && wraps)) {
		wrap(m);
		right = right_limit(m);
	}
	if (w == 2 && m->cur.col >= right) { /* no wrapping, or a narrow strip beside the margins */
		if (right == 0)
			return;
		m->cur.col = right - 1;
	}
	if (model_mode(m, MODE_INSERT))
		model_insert(m, w);
	line = model_line(m, m->cur.row);
	split_wide(line, m->cur.col, m->cur.col + w, m->cols);
	line[m->cur.col] = (struct cell){.ch = ch, .pen = m->cur.pen};
	if (w == 2)
		line[m->cur.col + 1] = (struct cell){.pen = m->cur.pen};
	m->last.row = m->cur.row;
	m->last.col = m->cur.col;
	m->last.ch = ch;
	m->pending = m->cur.col + w > right && wraps;
	m->cur.col = MIN_OF(m->cur.col + w, right);
}

void model_print(struct model *m, uint32_t ch)
{
	int w;

	ch = translate(m, ch);
	w = model_width(ch);
	if (w == 0)
		add_mark(m, ch);
	else
		put(m, ch, (unsigned)w);
}

void model_repeat(struct model *m, unsigned n)
{
	uint32_t ch = m->last.ch;

	n = MIN_OF(n, m->cols); /* who repeats it, fills a line */
	for (unsigned i = 0; ch && i < n; i++)
		put(m, ch, (unsigned)model_width(ch));
}
