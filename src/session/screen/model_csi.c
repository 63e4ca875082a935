/* SPDX-License-Identifier: Apache-2.0 */
/* What control sequences do to the screen: see model.h. */
#include <string.h>

#include "base/cleanup.h"
#include "session/screen/model_impl.h"

/* A count: absent and 0 mean 1. */
static unsigned count(const struct csi *c)
{
	return MAX_OF(c->param[0], 1u);
}

/* ---- movement ---- */

/* Margins stop the cursor when it is on their inner side. */
static void move_rows(struct model *m, bool up, unsigned n)
{
	unsigned limit;

	model_touch(m);
	if (up) {
		limit = m->cur.row >= m->top ? m->top : 0;
		m->cur.row -= MIN_OF(n, m->cur.row - limit);
	} else {
		limit = m->cur.row <= m->bottom ? m->bottom : m->rows - 1;
		m->cur.row += MIN_OF(n, limit - m->cur.row);
	}
}

static void move_cols(struct model *m, bool back, unsigned n)
{
	unsigned limit;

	model_touch(m);
	if (back) {
		limit = m->cur.col >= m->left ? m->left : 0;
		m->cur.col -= MIN_OF(n, m->cur.col - limit);
	} else {
		limit = m->cur.col <= m->right ? m->right : m->cols - 1;
		m->cur.col += MIN_OF(n, limit - m->cur.col);
	}
}

/* To a column or row of the margins, if so set; the other one stays. */
static void to_col(struct model *m, unsigned col)
{
	model_goto(m, m->cur.row, col + (m->cur.origin ? m->left : 0));
}

static void to_row(struct model *m, unsigned row)
{
	model_goto(m, row + (m->cur.origin ? m->top : 0), m->cur.col);
}

static void tabs(struct model *m, bool back, unsigned n)
{
	unsigned last = m->cur.col <= m->right ? m->right : m->cols - 1;

	model_touch(m);
	for (n = MIN_OF(n, m->cols); n; n--) {
		if (back)
			while (m->cur.col > 0 && !m->tabs[--m->cur.col])
				;
		else
			while (m->cur.col < last && !m->tabs[++m->cur.col])
				;
	}
	if (m->cur.origin)
		m->cur.col = MAX_OF(m->cur.col, m->left);
}

static bool movement(struct model *m, const struct csi *c)
{
	unsigned n = count(c), p = c->param[0];

	switch (c->final) {
	case 'A':
	case 'F':
	case 'B':
	case 'E':
	case 'e':
		move_rows(m, c->final == 'A' || c->final == 'F', n);
		if (c->final == 'E' || c->final == 'F')
			m->cur.col = m->cur.col >= m->left ? m->left : 0;
		return true;
	case 'C':
	case 'a':
	case 'D':
		move_cols(m, c->final == 'D', n);
		return true;
	case 'G':
	case '`':
		to_col(m, n - 1);
		return true;
	case 'd':
		to_row(m, n - 1);
		return true;
	case 'H':
	case 'f':
		model_goto_origin(m, n - 1, MAX_OF(c->param[1], 1u) - 1);
		return true;
	case 'I':
	case 'Z':
		tabs(m, c->final == 'Z', n);
		return true;
	case 'g':
		if (p == 0)
			m->tabs[m->cur.col] = 0;
		else if (p == 3)
			memset(m->tabs, 0, sizeof(m->tabs));
		return true;
	default:
		return false;
	}
}

/* ---- editing ---- */

static void erase_display(struct model *m, unsigned what)
{
	unsigned row = m->cur.row;

	if (what > 2)
		return; /* 3: the lines that were scrolled off */
	if (what == 0)
		model_erase(m, row, m->cur.col, m->cols);
	if (what == 1)
		model_erase(m, row, 0, m->cur.col + 1);
	for (unsigned r = what == 0 ? row + 1 : 0; r < (what == 1 ? row : m->rows); r++)
		model_erase(m, r, 0, m->cols);
	if (what == 2)
		m->lost = false;
}

static void erase_line(struct model *m, unsigned what)
{
	if (what <= 2)
		model_erase(m, m->cur.row, what == 0 ? m->cur.col : 0,
			what == 1 ? m->cur.col + 1 : m->cols);
}

static void lines(struct model *m, bool insert, unsigned n)
{
	if (m->cur.row < m->top || m->cur.row > m->bottom || !model_in_columns(m))
		return;
	if (insert)
		model_scroll_down(m, m->cur.row, n);
	else
		model_scroll_up(m, m->cur.row, n);
	m->cur.col = m->left;
}

static bool editing(struct model *m, const struct csi *c)
{
	unsigned n = count(c);

	if (c->final == 'b') {
		model_repeat(m, n);
		return true;
	}
	if (!strchr("@PXJKLMST", c->final))
		return false;
	if (c->final == 'T' && c->n > 1) /* highlight tracking of the mouse */
		return true;
	model_touch(m);
	switch (c->final) {
	case '@':
		model_insert(m, n);
		break;
	case 'P':
		model_delete(m, n);
		break;
	case 'X':
		model_erase(m, m->cur.row, m->cur.col, m->cur.col + n);
		break;
	case 'J':
		erase_display(m, c->param[0]);
		break;
	case 'K':
		erase_line(m, c->param[0]);
		break;
	case 'L':
	case 'M':
		lines(m, c->final == 'L', n);
		break;
	case 'S':
		model_scroll_up(m, m->top, n);
		break;
	default:
		model_scroll_down(m, m->top, n);
	}
	return true;
}

/* ---- margins and modes ---- */

/* Both at once, or what is absent by its default. False: there is no such region. */
static bool region(const struct csi *c, unsigned size, unsigned *ret_first, unsigned *ret_last)
{
	unsigned first = count(c) - 1, last = c->param[1];

	last = last == 0 || last > size ? size - 1 : last - 1;
	if (first >= last)
		return false;
	*ret_first = first;
	*ret_last = last;
	return true;
}

static void set_ansi(struct model *m, unsigned p, bool on)
{
	if (p == 4)
		model_set_mode(m, MODE_INSERT, on);
	else if (p == 20)
		model_set_mode(m, MODE_NEWLINE, on);
}

static void set_one_of(unsigned *which, unsigned p, bool on)
{
	if (on)
		*which = p;
	else if (*which == p)
		*which = 0;
}

static void set_private(struct model *m, unsigned p, bool on)
{
	switch (p) {
	case 6:
		m->cur.origin = on;
		model_goto_origin(m, 0, 0);
		return;
	case 9:
	case 1000:
	case 1002:
	case 1003:
		set_one_of(&m->mouse, p, on);
		return;
	case 1005:
	case 1006:
	case 1015:
	case 1016:
		set_one_of(&m->mouse_form, p, on);
		return;
	case 1048:
	case 1049:
		if (on && (p == 1048 || m->active == 0))
			model_save(m);
		if (p == 1049)
			model_alternate(m, on);
		if (!on)
			model_restore(m);
		return;
	case 47:
	case 1047:
		model_alternate(m, on);
		return;
	default:
		break;
	}
	for (int i = 0; i < MODE_NUM; i++)
		if (model_modes[i].private && model_modes[i].number == p)
			model_set_mode(m, (enum model_mode)i, on);
}

static void set_modes(struct model *m, const struct csi *c)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->prefix == '?')
			set_private(m, c->param[i], c->final == 'h');
		else
			set_ansi(m, c->param[i], c->final == 'h');
	}
}

/* kitty's keyboard flags: set, push, pop. */
static void keyboard(struct model *m, const struct csi *c)
{
	struct page *p = &m->page[m->active];
	unsigned char flags = c->param[0] & 0x1f, *top = &p->keys[p->keys_n];
	unsigned n = count(c);

	if (c->prefix == '=') {
		unsigned how = c->n > 1 ? c->param[1] : 1;

		*top = how == 2 ? *top | flags : how == 3 ? (unsigned char)(*top & ~flags) : flags;
	} else if (c->prefix == '>') {
		if (p->keys_n == MODEL_KEYS_MAX - 1)
			memmove(p->keys, p->keys + 1, MODEL_KEYS_MAX - 1);
		else
			p->keys_n++;
		p->keys[p->keys_n] = flags;
	} else if (c->prefix == '<') {
		if (n > p->keys_n)
			p->keys[0] = 0;
		p->keys_n -= (unsigned char)MIN_OF(n, p->keys_n);
	}
}

static void settings(struct model *m, const struct csi *c)
{
	switch (c->final) {
	case 'm':
		model_sgr(&m->cur.pen, c);
		break;
	case 'h':
	case 'l':
		set_modes(m, c);
		break;
	case 'r':
		if (region(c, m->rows, &m->top, &m->bottom))
			model_goto_origin(m, 0, 0);
		break;
	case 's':
		if (!model_mode(m, MODE_MARGINS))
			model_save(m);
		else if (region(c, m->cols, &m->left, &m->right))
			model_goto_origin(m, 0, 0);
		break;
	case 'u':
		model_restore(m);
		break;
	default:
		break;
	}
}

static void with_prefix(struct model *m, const struct csi *c)
{
	if (c->prefix == '?' && (c->final == 'h' || c->final == 'l'))
		set_modes(m, c);
	else if (c->prefix == '?' && (c->final == 'J' || c->final == 'K'))
		editing(m, c); /* nothing is protected */
	else if (c->final == 'u')
		keyboard(m, c);
	else if (c->prefix == '>' && c->final == 'm' && (c->param[0] == 4 || c->param[0] == 0))
		m->other_keys = c->param[0] == 4 && c->n > 1 ? MIN_OF(c->param[1], 3u) : 0;
	else if (c->prefix == '>' && c->final == 'n' && c->param[0] == 4)
		m->other_keys = 0;
}

void model_csi(struct model *m, const struct csi *c)
{
	if (c->inter == '!' && !c->prefix && c->final == 'p')
		model_soft_reset(m);
	else if (c->inter == ' ' && !c->prefix && c->final == 'q')
		m->style = c->param[0] <= 6 ? c->param[0] : 0;
	else if (c->inter)
		return;
	else if (c->prefix)
		with_prefix(m, c);
	else if (!movement(m, c) && !editing(m, c))
		settings(m, c);
}
