/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal's screen, as far as a redraw needs it.
 *
 * Purpose: bytes that a program wrote to its pty become cells, a cursor and modes; model_dump()
 *          writes bytes that make a cleared terminal of the same size show and do the same.
 * Shape:   ECMA-48 and what xterm adds to it. Both screens (primary and alternate) are held, because
 *          the program may leave the alternate one after the redraw.
 * Trust:   every byte is hostile. A cell holds printable code points only, so a dump has no sequence
 *          in it that was not composed here, save one: the unfinished sequence at the end of the
 *          stream is repeated, for the terminal is to see its rest.
 * Limits:  MODEL_ROWS_MAX by MODEL_COLS_MAX, MODEL_MARKS_MAX combining characters in a cell,
 *          MODEL_RAW_MAX bytes of a sequence, MODEL_STRING_MAX code points until a string without
 *          an end is text again. The work for one byte is bounded by the size of the screen.
 * Not modelled: titles, hyperlinks, images, lines that were scrolled off, double-width lines,
 *          rectangle operations, character protection, answers to queries.
 */
#ifndef CROFT_SESSION_SCREEN_MODEL_H
#define CROFT_SESSION_SCREEN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define MODEL_ROWS_MAX 500
#define MODEL_COLS_MAX 1000
#define MODEL_MARKS_MAX 3
#define MODEL_RAW_MAX 256
#define MODEL_STRING_MAX (1u << 20)
#define MODEL_KEYS_MAX 8 /* depth of the stack of keyboard flags, as in kitty */

/* A colour: 0 is the terminal's default. */
#define COLOUR_INDEX 0x01000000u /* | 0..255 */
#define COLOUR_RGB 0x02000000u   /* | 0xrrggbb */

enum pen_attr {
	PEN_BOLD = 1 << 0,
	PEN_DIM = 1 << 1,
	PEN_ITALIC = 1 << 2,
	PEN_BLINK = 1 << 3,
	PEN_REVERSE = 1 << 4,
	PEN_CONCEAL = 1 << 5,
	PEN_STRIKE = 1 << 6,
	PEN_OVERLINE = 1 << 7,
	PEN_UNDERLINE = 7 << 8, /* 0: none, 1: single … 5: dashed */
};
#define PEN_UNDERLINE_SHIFT 8

struct pen {
	uint32_t fg, bg, line; /* line: colour of the underline */
	uint32_t attrs;
};

/* ch 0 is the right half of the wide character before it. */
struct cell {
	uint32_t ch;
	struct pen pen;
	uint32_t marks[MODEL_MARKS_MAX]; /* combining characters; 0 ends them */
};

struct cursor {
	unsigned row, col;
	struct pen pen;
	unsigned char charset[2]; /* G0 and G1: 'B' ASCII, '0' line drawing, 'A' British */
	unsigned char shift;      /* which of them is in use */
	bool origin;              /* rows and columns count from the margins */
};

struct page {
	struct cell **row; /* NULL: not used yet */
	struct cell *cells;
	struct cursor saved;
	unsigned char keys[MODEL_KEYS_MAX];
	unsigned char keys_n; /* pushed on top of keys[0] */
};

/* Modes that are on or off, and what a reset makes of them: model_modes[]. */
enum model_mode {
	MODE_INSERT,
	MODE_NEWLINE,
	MODE_APP_CURSOR,
	MODE_REVERSE,
	MODE_WRAP,
	MODE_BLINK,
	MODE_VISIBLE,
	MODE_APP_KEYPAD, /* also ESC = and ESC > */
	MODE_MARGINS,    /* left and right margins */
	MODE_FOCUS,
	MODE_ALT_SCROLL,
	MODE_PASTE,
	MODE_COLOURS,
	MODE_NUM,
};

struct model_mode_info {
	unsigned number;
	bool private; /* CSI ? number h */
	bool initial;
};
extern const struct model_mode_info model_modes[MODE_NUM];

enum parse_state { PARSE_TEXT, PARSE_ESC, PARSE_CSI, PARSE_OSC, PARSE_STRING };

struct parser {
	enum parse_state state;
	bool bad;                         /* too long: nothing comes of it */
	bool string_esc;                  /* ESC was seen in a string */
	unsigned char raw[MODEL_RAW_MAX]; /* the unfinished sequence, in its 7-bit form */
	size_t raw_n, body;               /* body: where its introducer ends */
	size_t string_n;
	unsigned char utf8[4]; /* the unfinished character */
	unsigned char utf8_n, utf8_need, next_lo, next_hi;
};

struct model {
	unsigned rows, cols;
	struct page page[2];
	int active; /* 1: the alternate screen */
	struct cursor cur;
	bool pending; /* the last column is written; the next character wraps */
	/*
	 * The character before the cursor, while nothing else has moved or changed anything: combining
	 * characters join it, REP repeats it, and drawing it again restores `pending`. ch 0: none.
	 */
	struct {
		unsigned row, col;
		uint32_t ch;
	} last;
	unsigned top, bottom, left, right; /* margins, inclusive */
	uint32_t modes;                    /* bits by enum model_mode */
	unsigned mouse, mouse_form;        /* DEC numbers, or 0 */
	unsigned style;                    /* of the cursor */
	unsigned other_keys;               /* xterm's modifyOtherKeys */
	unsigned char tabs[MODEL_COLS_MAX];
	struct parser parser;
	bool lost;   /* bytes are missing and nothing has cleared the screen since */
	bool failed; /* out of memory: of no use any more */
};

/* Sizes are clamped to 1 … MODEL_*_MAX. False: out of memory. */
bool model_init(struct model *m, unsigned rows, unsigned cols);
void model_done(struct model *m);
void model_feed(struct model *m, const void *p, size_t n);
bool model_resize(struct model *m, unsigned rows, unsigned cols);
/* Bytes are missing here. What was begun is forgotten. */
void model_lose(struct model *m);
/*
 * A redraw. out->max bounds it: *ret_trimmed when something had to be left out, first the screen
 * that does not show, then colours, then all text.
 */
void model_dump(const struct model *m, struct buf *out, bool *ret_trimmed);

static inline bool model_mode(const struct model *m, enum model_mode mode)
{
	return m->modes & (1u << mode);
}

#endif
