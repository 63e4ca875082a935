/* SPDX-License-Identifier: Apache-2.0 */
/* The screen as a whole, its modes, and what is a character, a control or a sequence: see model.h. */
#include "session/screen/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/screen/model_impl.h"

enum { BEL = 0x07, SO = 0x0e, SI = 0x0f, CAN = 0x18, SUB = 0x1a, ESC = 0x1b, DEL = 0x7f };
#define REPLACEMENT 0xfffdu

const struct model_mode_info model_modes[] = {
	[MODE_INSERT] = {4, false, false},
	[MODE_NEWLINE] = {20, false, false},
	[MODE_APP_CURSOR] = {1, true, false},
	[MODE_REVERSE] = {5, true, false},
	[MODE_WRAP] = {7, true, true},
	[MODE_BLINK] = {12, true, false},
	[MODE_VISIBLE] = {25, true, true},
	[MODE_APP_KEYPAD] = {66, true, false},
	[MODE_MARGINS] = {69, true, false},
	[MODE_FOCUS] = {1004, true, false},
	[MODE_ALT_SCROLL] = {1007, true, false},
	[MODE_PASTE] = {2004, true, false},
	[MODE_COLOURS] = {2031, true, false},
};
static_assert(ARRAY_SIZE(model_modes) == MODE_NUM, "one line per mode");

static const struct cursor cursor_home = {.charset = {'B', 'B'}};

/* ---- pages ---- */

static bool page_make(struct page *p, unsigned rows, unsigned cols)
{
	*p = (struct page){.saved = cursor_home};
	p->row = calloc(rows, sizeof(struct cell *));
	p->cells = calloc((size_t)rows * cols, sizeof(struct cell));
	if (!p->row || !p->cells) {
		free(p->row);
		free(p->cells);
		p->row = NULL;
		p->cells = NULL;
		return false;
	}
	for (unsigned r = 0; r < rows; r++)
		p->row[r] = p->cells + (size_t)r * cols;
	model_blank(p->cells, rows * cols, 0);
	return true;
}

static void page_done(struct page *p)
{
	free(p->row);
	free(p->cells);
	*p = (struct page){0};
}

/* As much as fits, from the top unless `keep`, a row of the old page, would be cut off. */
static bool page_resize(
	struct model *m, struct page *p, unsigned rows, unsigned cols, unsigned keep)
{
	unsigned skip = keep >= rows ? keep - rows + 1 : 0;
	struct page n;

	if (!page_make(&n, rows, cols))
		return false;
	for (unsigned r = 0; r < rows && r + skip < m->rows; r++) {
		memcpy(n.row[r], p->row[r + skip], MIN_OF(cols, m->cols) * sizeof(struct cell));
		model_mend(n.row[r], cols);
	}
	n.saved = p->saved;
	n.saved.row -= MIN_OF(n.saved.row, skip);
	n.saved.row = MIN_OF(n.saved.row, rows - 1);
	n.saved.col = MIN_OF(n.saved.col, cols - 1);
	memcpy(n.keys, p->keys, sizeof(n.keys));
	n.keys_n = p->keys_n;
	page_done(p);
	*p = n;
	return true;
}

static void clamp_size(unsigned *rows, unsigned *cols)
{
	*rows = MAX_OF(1u, MIN_OF(*rows, (unsigned)MODEL_ROWS_MAX));
	*cols = MAX_OF(1u, MIN_OF(*cols, (unsigned)MODEL_COLS_MAX));
}

bool model_resize(struct model *m, unsigned rows, unsigned cols)
{
	unsigned keep[2] = {m->page[0].saved.row, m->page[1].saved.row};

	clamp_size(&rows, &cols);
	if (rows == m->rows && cols == m->cols)
		return true;
	model_touch(m);
	keep[m->active] = m->cur.row;
	for (int i = 0; i < 2; i++)
		if (m->page[i].row && !page_resize(m, &m->page[i], rows, cols, keep[i])) {
			m->failed = true;
			return false;
		}
	m->cur.row = MIN_OF(m->cur.row, rows - 1);
	m->cur.col = MIN_OF(m->cur.col, cols - 1);
	m->rows = rows;
	m->cols = cols;
	model_margins_off(m);
	return true;
}

/* ---- modes ---- */

static void default_modes(struct model *m)
{
	m->modes = 0;
	for (int i = 0; i < MODE_NUM; i++)
		if (model_modes[i].initial)
			m->modes |= 1u << i;
}

void model_set_mode(struct model *m, enum model_mode mode, bool on)
{
	m->modes = on ? m->modes | 1u << mode : m->modes & ~(1u << mode);
	if (mode == MODE_WRAP || mode == MODE_MARGINS)
		model_touch(m);
	if (mode == MODE_MARGINS) {
		m->left = 0;
		m->right = m->cols - 1;
	}
}

void model_save(struct model *m)
{
	m->page[m->active].saved = m->cur;
}

void model_restore(struct model *m)
{
	m->cur = m->page[m->active].saved;
	model_goto(m, m->cur.row, m->cur.col);
}

void model_alternate(struct model *m, bool on)
{
	struct page *alt = &m->page[1];

	if (on == (m->active == 1))
		return;
	model_touch(m);
	m->active = on;
	if (!on)
		return;
	/* A fresh one each time: what an earlier program left there is not shown again. */
	if (alt->row) {
		model_blank(alt->cells, m->rows * m->cols, 0);
		alt->saved = cursor_home;
		alt->keys_n = alt->keys[0] = 0;
	} else if (!page_make(alt, m->rows, m->cols)) {
		m->active = 0;
		m->failed = true;
		return;
	}
	m->lost = false;
}

void model_soft_reset(struct model *m)
{
	static const enum model_mode modes[] = {MODE_INSERT, MODE_APP_CURSOR, MODE_APP_KEYPAD,
		MODE_WRAP, MODE_VISIBLE, MODE_MARGINS};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		model_set_mode(m, modes[i], model_modes[modes[i]].initial);
	model_margins_off(m);
	m->cur = (struct cursor){.row = m->cur.row, .col = m->cur.col, .charset = {'B', 'B'}};
	m->page[m->active].saved = cursor_home;
	model_touch(m);
}

void model_reset(struct model *m)
{
	default_modes(m);
	m->active = 0;
	page_done(&m->page[1]);
	m->page[0].saved = m->cur = cursor_home;
	m->page[0].keys_n = m->page[0].keys[0] = 0;
	m->mouse = m->mouse_form = m->style = m->other_keys = 0;
	model_margins_off(m);
	for (unsigned i = 0; i < MODEL_COLS_MAX; i++)
		m->tabs[i] = i > 0 && i % 8 == 0;
	model_blank(m->page[0].cells, m->rows * m->cols, 0);
	model_touch(m);
	m->lost = false;
}

bool model_init(struct model *m, unsigned rows, unsigned cols)
{
	clamp_size(&rows, &cols);
	*m = (struct model){.rows = rows, .cols = cols};
	if (!page_make(&m->page[0], rows, cols))
		return false;
	model_reset(m);
	return true;
}

void model_done(struct model *m)
{
	page_done(&m->page[0]);
	page_done(&m->page[1]);
}

void model_lose(struct model *m)
{
	m->parser = (struct parser){0};
	model_touch(m);
	m->lost = true;
}

/* ---- controls and escapes ---- */

static void tab(struct model *m)
{
	unsigned last = m->cur.col <= m->right ? m->right : m->cols - 1;

	model_touch(m);
	while (m->cur.col < last && !m->tabs[++m->cur.col])
		;
}

static void carriage_return(struct model *m)
{
	model_touch(m);
	m->cur.col = m->cur.col >= m->left ? m->left : 0;
}

static void control(struct model *m, uint32_t c)
{
	switch (c) {
	case '\b':
		model_touch(m);
		if (m->cur.col > 0 && m->cur.col != m->left)
			m->cur.col--;
		break;
	case '\t':
		tab(m);
		break;
	case '\n':
	case '\v':
	case '\f':
		model_index(m);
		if (model_mode(m, MODE_NEWLINE))
			carriage_return(m);
		break;
	case '\r':
		carriage_return(m);
		break;
	case SO:
	case SI:
		m->cur.shift = c == SO;
		break;
	default:
		break;
	}
}

static void align_pattern(struct model *m)
{
	model_margins_off(m);
	model_goto(m, 0, 0);
	for (unsigned r = 0; r < m->rows; r++)
		for (unsigned c = 0; c < m->cols; c++)
			model_line(m, r)[c] = (struct cell){.ch = 'E'};
}

static void charset(struct model *m, unsigned char which, unsigned char set)
{
	if (which == '(' || which == ')')
		m->cur.charset[which == ')'] = set == '0' || set == 'A' ? set : 'B';
	else if (which == '#' && set == '8')
		align_pattern(m);
}

static void escape(struct model *m, unsigned char c)
{
	switch (c) {
	case '7':
		model_save(m);
		break;
	case '8':
		model_restore(m);
		break;
	case '=':
	case '>':
		model_set_mode(m, MODE_APP_KEYPAD, c == '=');
		break;
	case 'D':
		model_index(m);
		break;
	case 'E':
		model_index(m);
		carriage_return(m);
		break;
	case 'H':
		m->tabs[m->cur.col] = 1;
		break;
	case 'M':
		model_reverse_index(m);
		break;
	case 'c':
		model_reset(m);
		break;
	default:
		break;
	}
}

/* ---- sequences ---- */

static void raw_add(struct parser *p, const unsigned char *s, size_t n)
{
	if (p->raw_n + n > sizeof(p->raw)) {
		p->bad = true;
		return;
	}
	memcpy(p->raw + p->raw_n, s, n);
	p->raw_n += n;
}

static void raw_code(struct parser *p, uint32_t c)
{
	unsigned char s[4];

	raw_add(p, s, (size_t)model_utf8(s, c));
}

static void end_sequence(struct parser *p)
{
	p->state = PARSE_TEXT;
	p->bad = p->string_esc = false;
	p->raw_n = p->body = p->string_n = 0;
}

/* ESC and the byte that says what follows. 0: that byte is still to come. */
static void begin(struct parser *p, enum parse_state state, unsigned char introducer)
{
	unsigned char s[2] = {ESC, introducer};

	end_sequence(p);
	p->state = state;
	raw_add(p, s, introducer ? 2 : 1);
	p->body = p->raw_n;
}

/* A control of the set C1, as a byte, as a character, or as ESC and a letter. */
static void c1(struct model *m, unsigned char letter)
{
	struct parser *p = &m->parser;

	if (letter == '[')
		begin(p, PARSE_CSI, letter);
	else if (letter == ']')
		begin(p, PARSE_OSC, letter);
	else if (strchr("PX^_", letter))
		begin(p, PARSE_STRING, letter);
	else
		escape(m, letter);
}

static void text(struct model *m, uint32_t c)
{
	if (c == ESC)
		begin(&m->parser, PARSE_ESC, 0);
	else if (c < 0x20)
		control(m, c);
	else if (c >= 0x80 && c < 0xa0)
		c1(m, (unsigned char)(c - 0x40));
	else if (c != DEL)
		model_print(m, c);
}

/* In ESC and CSI: what breaks the sequence off, and what is executed on the way. */
static bool embedded(struct model *m, uint32_t c)
{
	if (c >= 0x80 || c == ESC || c == CAN || c == SUB) {
		end_sequence(&m->parser);
		text(m, c);
	} else if (c < 0x20) {
		control(m, c);
	} else {
		return c == DEL;
	}
	return true;
}

static void in_esc(struct model *m, uint32_t c)
{
	struct parser *p = &m->parser;
	unsigned char inter;

	if (embedded(m, c))
		return;
	if (c < 0x30) {
		raw_code(p, c);
		return;
	}
	inter = p->raw_n > p->body ? p->raw[p->body] : 0;
	if (inter) {
		bool judge = !p->bad && p->raw_n == p->body + 1;

		end_sequence(p);
		if (judge)
			charset(m, inter, (unsigned char)c);
	} else {
		end_sequence(p);
		c1(m, (unsigned char)c);
	}
}

/* False when it is no well-formed sequence, which terminals take differently. */
static bool csi_parse(struct csi *c, const unsigned char *s, size_t n)
{
	size_t i = 0;
	unsigned v = 0;
	bool sub = false;

	*c = (struct csi){.final = s[--n]};
	if (n && s[0] >= '<' && s[0] <= '?')
		c->prefix = s[i++];
	for (; i <= n; i++) {
		if (i < n && s[i] >= '0' && s[i] <= '9') {
			v = MIN_OF(v * 10 + (unsigned)(s[i] - '0'), 99999u);
			continue;
		}
		if (c->n == CSI_PARAMS_MAX)
			return false;
		c->sub[c->n] = sub;
		c->param[c->n++] = v;
		if (i == n || (s[i] != ';' && s[i] != ':'))
			break;
		sub = s[i] == ':';
		v = 0;
	}
	if (i < n && s[i] >= 0x20 && s[i] <= 0x2f)
		c->inter = s[i++];
	return i == n;
}

static void in_csi(struct model *m, uint32_t c)
{
	struct parser *p = &m->parser;
	struct csi csi;
	bool good;

	if (embedded(m, c))
		return;
	raw_code(p, c);
	if (c < 0x40)
		return;
	good = !p->bad && csi_parse(&csi, p->raw + p->body, p->raw_n - p->body);
	end_sequence(p);
	if (good)
		model_csi(m, &csi);
}

static void in_string(struct model *m, uint32_t c)
{
	struct parser *p = &m->parser;

	if (p->string_esc) {
		end_sequence(p);
		if (c != '\\') {
			begin(p, PARSE_ESC, 0);
			in_esc(m, c);
		}
	} else if (c == 0x9c || (c == BEL && p->state == PARSE_OSC) ||
		   p->string_n == MODEL_STRING_MAX) {
		end_sequence(p);
	} else if (c == CAN || c == SUB || (c >= 0x80 && c < 0xa0)) {
		end_sequence(p);
		text(m, c);
	} else {
		p->string_n++;
		if (c == ESC)
			p->string_esc = true;
		else if (!p->bad)
			raw_code(p, c);
	}
}

static void code(struct model *m, uint32_t c)
{
	switch (m->parser.state) {
	case PARSE_TEXT:
		text(m, c);
		break;
	case PARSE_ESC:
		in_esc(m, c);
		break;
	case PARSE_CSI:
		in_csi(m, c);
		break;
	case PARSE_OSC:
	case PARSE_STRING:
		in_string(m, c);
		break;
	}
}

/* ---- bytes ---- */

int model_utf8(unsigned char out[4], uint32_t ch)
{
	if (ch < 0x80) {
		out[0] = (unsigned char)ch;
		return 1;
	}
	if (ch < 0x800) {
		out[0] = (unsigned char)(0xc0 | ch >> 6);
		out[1] = (unsigned char)(0x80 | (ch & 0x3f));
		return 2;
	}
	if (ch < 0x10000) {
		out[0] = (unsigned char)(0xe0 | ch >> 12);
		out[1] = (unsigned char)(0x80 | (ch >> 6 & 0x3f));
		out[2] = (unsigned char)(0x80 | (ch & 0x3f));
		return 3;
	}
	out[0] = (unsigned char)(0xf0 | ch >> 18);
	out[1] = (unsigned char)(0x80 | (ch >> 12 & 0x3f));
	out[2] = (unsigned char)(0x80 | (ch >> 6 & 0x3f));
	out[3] = (unsigned char)(0x80 | (ch & 0x3f));
	return 4;
}

static uint32_t utf8_code(const unsigned char *s, size_t n)
{
	uint32_t c = s[0] & (n == 2 ? 0x1f : n == 3 ? 0x0f : 0x07);

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

/* The first byte of a character: how many follow, and within which range the next one is. */
static bool utf8_lead(struct parser *p, unsigned char c)
{
	p->utf8_need = c < 0xc2 || c > 0xf4 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	p->next_lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	p->next_hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	p->utf8[0] = c;
	p->utf8_n = p->utf8_need ? 1 : 0;
	return p->utf8_need;
}

static void byte(struct model *m, unsigned char c)
{
	struct parser *p = &m->parser;

	if (p->utf8_need) {
		if (c >= p->next_lo && c <= p->next_hi) {
			p->utf8[p->utf8_n++] = c;
			p->next_lo = 0x80;
			p->next_hi = 0xbf;
			if (--p->utf8_need == 0) {
				size_t n = p->utf8_n;

				p->utf8_n = 0;
				code(m, utf8_code(p->utf8, n));
			}
			return;
		}
		p->utf8_need = p->utf8_n = 0;
		code(m, REPLACEMENT);
	}
	if (c < 0xa0)
		code(m, c);
	else if (!utf8_lead(p, c))
		code(m, REPLACEMENT);
}

void model_feed(struct model *m, const void *p, size_t n)
{
	const unsigned char *s = p;

	for (size_t i = 0; i < n && !m->failed; i++)
		byte(m, s[i]);
}
