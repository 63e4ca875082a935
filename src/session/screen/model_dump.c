/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that redraw a screen: see model.h.
 *
 * Order: what draws comes before what changes how drawing works (insert mode, character sets), and
 *        what moves the cursor (margins, origin mode) before the cursor. The character before the
 *        cursor is drawn last, so that the terminal, too, wraps or combines after it.
 *        The alternate screen is entered by 1049, which every terminal knows; it saves the cursor,
 *        which therefore is where the primary screen's saved one is.
 */
#include <string.h>

#include "base/cleanup.h"
#include "session/screen/model_impl.h"

#define GAP_MIN 8 /* blanks that are skipped rather than drawn */

enum trim { TRIM_NOTHING, TRIM_HIDDEN, TRIM_PENS, TRIM_TEXT };

struct dump {
	const struct model *m;
	struct buf *out;
	enum trim trim;
	struct pen pen; /* what the terminal has now */
};

/* ---- pens ---- */

static bool same_pen(const struct pen *a, const struct pen *b)
{
	return a->fg == b->fg && a->bg == b->bg && a->line == b->line && a->attrs == b->attrs;
}

static void add_colour(struct buf *out, uint32_t colour, unsigned base)
{
	unsigned v = colour & 0xffffff;

	if (colour & COLOUR_RGB)
		buf_addf(out, ";%u;2;%u;%u;%u", base + 8, v >> 16, v >> 8 & 0xff, v & 0xff);
	else if (colour && base != 50 && v < 8)
		buf_addf(out, ";%u", base + v);
	else if (colour && base != 50 && v < 16)
		buf_addf(out, ";%u", base + 60 + v - 8);
	else if (colour)
		buf_addf(out, ";%u;5;%u", base + 8, v);
}

static void use_pen(struct dump *d, const struct pen *pen)
{
	static const struct {
		uint32_t attr;
		const char *code;
	} plain[] = {{PEN_BOLD, ";1"}, {PEN_DIM, ";2"}, {PEN_ITALIC, ";3"}, {PEN_BLINK, ";5"},
		{PEN_REVERSE, ";7"}, {PEN_CONCEAL, ";8"}, {PEN_STRIKE, ";9"},
		{PEN_OVERLINE, ";53"}};
	unsigned line = (pen->attrs & PEN_UNDERLINE) >> PEN_UNDERLINE_SHIFT;

	if (same_pen(pen, &d->pen) || d->trim >= TRIM_PENS)
		return;
	buf_adds(d->out, "\033[0");
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (pen->attrs & plain[i].attr)
			buf_adds(d->out, plain[i].code);
	if (line == 1)
		buf_adds(d->out, ";4");
	else if (line)
		buf_addf(d->out, ";4:%u", line);
	add_colour(d->out, pen->fg, 30);
	add_colour(d->out, pen->bg, 40);
	add_colour(d->out, pen->line, 50);
	buf_addc(d->out, 'm');
	d->pen = *pen;
}

/* ---- cells ---- */

static void add_code(struct buf *out, uint32_t ch)
{
	unsigned char s[4];

	buf_add(out, s, (size_t)model_utf8(s, ch));
}

static void add_cell(struct dump *d, const struct cell *c)
{
	use_pen(d, &c->pen);
	add_code(d->out, c->ch);
	for (int i = 0; i < MODEL_MARKS_MAX && c->marks[i]; i++)
		add_code(d->out, c->marks[i]);
}

static bool is_blank(const struct dump *d, const struct cell *c)
{
	static const struct pen none;

	return c->ch == ' ' && !c->marks[0] && (d->trim >= TRIM_PENS || same_pen(&c->pen, &none));
}

static unsigned blanks(const struct dump *d, const struct cell *line, unsigned col)
{
	unsigned n = 0;

	while (col + n < d->m->cols && is_blank(d, &line[col + n]))
		n++;
	return n;
}

/* Terminals disagree about widths: after what may not be one column the place is said again. */
static void draw_line(struct dump *d, const struct cell *line, unsigned row)
{
	bool placed = false;

	for (unsigned col = 0; col < d->m->cols; col++) {
		unsigned n = blanks(d, line, col);

		if (col + n == d->m->cols)
			return;
		if (n >= GAP_MIN || (n && !placed)) {
			col += n;
			placed = false;
		}
		if (!placed)
			buf_addf(d->out, "\033[%u;%uH", row + 1, col + 1);
		add_cell(d, &line[col]);
		placed = line[col].ch < 0x10000 && !line[col].marks[0];
		if (col + 1 < d->m->cols && line[col + 1].ch == 0) {
			placed = false;
			col++;
		}
	}
}

static void draw(struct dump *d, const struct page *p)
{
	if (d->trim >= TRIM_TEXT)
		return;
	for (unsigned r = 0; r < d->m->rows; r++)
		draw_line(d, p->row[r], r);
}

/* ---- cursors ---- */

static void use_charsets(struct dump *d, const struct cursor *c)
{
	if (c->charset[0] != 'B')
		buf_addf(d->out, "\033(%c", c->charset[0]);
	if (c->charset[1] != 'B')
		buf_addf(d->out, "\033)%c", c->charset[1]);
	if (c->shift)
		buf_addc(d->out, '\016');
}

/* With the margins as they are without any, where origin mode changes no place. */
static void put_saved(struct dump *d, const struct cursor *c)
{
	if (c->origin)
		buf_adds(d->out, "\033[?6h");
	buf_addf(d->out, "\033[%u;%uH", c->row + 1, c->col + 1);
	use_pen(d, &c->pen);
	use_charsets(d, c);
}

static void plain_cursor(struct dump *d)
{
	buf_adds(d->out, "\033[?6l\033(B\033)B\017\033[m");
	d->pen = (struct pen){0};
}

static bool is_home(const struct cursor *c)
{
	static const struct pen none;

	return c->row == 0 && c->col == 0 && same_pen(&c->pen, &none) && c->charset[0] == 'B' &&
	       c->charset[1] == 'B' && !c->shift && !c->origin;
}

static void put_keys(struct dump *d, const struct page *p)
{
	if (p->keys[0])
		buf_addf(d->out, "\033[=%uu", p->keys[0]);
	for (unsigned i = 1; i <= p->keys_n; i++)
		buf_addf(d->out, "\033[>%uu", p->keys[i]);
}

static void go(struct dump *d, unsigned row, unsigned col)
{
	const struct model *m = d->m;

	if (m->cur.origin) {
		row -= m->top;
		col -= m->left;
	}
	buf_addf(d->out, "\033[%u;%uH", row + 1, col + 1);
}

static void put_cursor(struct dump *d)
{
	const struct model *m = d->m;

	if (m->last.ch) {
		go(d, m->last.row, m->last.col);
		add_cell(d, &model_line(m, m->last.row)[m->last.col]);
	} else {
		go(d, m->cur.row, m->cur.col);
	}
	use_pen(d, &m->cur.pen);
	use_charsets(d, &m->cur);
}

/* ---- modes ---- */

static void put_tabs(struct dump *d)
{
	const struct model *m = d->m;
	bool same = true;

	for (unsigned i = 0; i < m->cols; i++)
		same = same && m->tabs[i] == (i > 0 && i % 8 == 0);
	if (same)
		return;
	buf_adds(d->out, "\033[3g");
	for (unsigned i = 0; i < m->cols; i++)
		if (m->tabs[i])
			buf_addf(d->out, "\033[1;%uH\033H", i + 1);
}

static void put_margins(struct dump *d)
{
	const struct model *m = d->m;

	if (m->top != 0 || m->bottom != m->rows - 1)
		buf_addf(d->out, "\033[%u;%ur", m->top + 1, m->bottom + 1);
	if (!model_mode(m, MODE_MARGINS))
		return;
	buf_adds(d->out, "\033[?69h");
	if (m->left != 0 || m->right != m->cols - 1)
		buf_addf(d->out, "\033[%u;%us", m->left + 1, m->right + 1);
}

static void put_mode(struct dump *d, enum model_mode mode)
{
	bool on = model_mode(d->m, mode);

	if (on != model_modes[mode].initial)
		buf_addf(d->out, "\033[%s%u%c", model_modes[mode].private ? "?" : "",
			model_modes[mode].number, on ? 'h' : 'l');
}

/* All that neither draws differently nor moves the cursor. */
static void put_modes(struct dump *d)
{
	const struct model *m = d->m;

	for (int i = 0; i < MODE_NUM; i++)
		if (i != MODE_INSERT && i != MODE_NEWLINE && i != MODE_VISIBLE &&
			i != MODE_MARGINS && i != MODE_APP_KEYPAD)
			put_mode(d, (enum model_mode)i);
	if (model_mode(m, MODE_APP_KEYPAD))
		buf_adds(d->out, "\033=");
	if (m->mouse)
		buf_addf(d->out, "\033[?%uh", m->mouse);
	if (m->mouse_form)
		buf_addf(d->out, "\033[?%uh", m->mouse_form);
	if (m->style)
		buf_addf(d->out, "\033[%u q", m->style);
	if (m->other_keys)
		buf_addf(d->out, "\033[>4;%um", m->other_keys);
}

/* ---- all of it ---- */

static void dump(struct dump *d)
{
	const struct model *m = d->m;
	const struct parser *p = &m->parser;

	/* What a terminal that somebody else used may have been left with. */
	buf_adds(d->out, "\033[?69l\033[r\033[4l\033[20l\033[?7h\033[?25l");
	plain_cursor(d);
	buf_adds(d->out, "\033[H\033[2J");
	if (m->active == 1) {
		if (d->trim < TRIM_HIDDEN)
			draw(d, &m->page[0]);
		put_keys(d, &m->page[0]);
		put_saved(d, &m->page[0].saved);
		buf_adds(d->out, "\033[?1049h");
		plain_cursor(d);
		buf_adds(d->out, "\033[H\033[2J");
	}
	draw(d, &m->page[m->active]);
	put_tabs(d);
	if (!is_home(&m->page[m->active].saved)) {
		put_saved(d, &m->page[m->active].saved);
		buf_adds(d->out, "\0337");
		plain_cursor(d);
	}
	put_keys(d, &m->page[m->active]);
	put_margins(d);
	put_modes(d);
	if (m->cur.origin)
		buf_adds(d->out, "\033[?6h");
	put_cursor(d);
	put_mode(d, MODE_INSERT);
	put_mode(d, MODE_NEWLINE);
	if (model_mode(m, MODE_VISIBLE))
		buf_adds(d->out, "\033[?25h");
	buf_add(d->out, p->raw, p->raw_n);
	if (p->string_esc)
		buf_addc(d->out, '\033');
	buf_add(d->out, p->utf8, p->utf8_n);
}

void model_dump(const struct model *m, struct buf *out, bool *ret_trimmed)
{
	enum trim trim = TRIM_NOTHING;

	for (;; trim++) {
		struct dump d = {.m = m, .out = out, .trim = trim};

		buf_reset(out);
		dump(&d);
		if (!out->failed || trim == TRIM_TEXT)
			break;
	}
	*ret_trimmed = trim != TRIM_NOTHING;
}
