/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox writes to the user's terminal, minus the sequences that make the terminal act.
 *
 * Purpose:   a terminal obeys its output. It can be told to set the clipboard, to print, to log to
 *            a file, to download, and to answer questions by typing; answers that contain text of
 *            the asker's choice are commands typed into the user's shell after the sandbox has
 *            ended.
 * Shape:     ECMA-48: text, ESC sequences, CSI sequences, and strings (OSC, DCS, SOS, PM, APC) up
 *            to ST. A sequence is held until it is complete and then goes out whole or not at all.
 *            So an escape byte in the output always begins a complete sequence that was judged;
 *            nothing that the terminal and this parser might understand differently is left open
 *            between them. What is malformed is dropped, because terminals disagree about what it
 *            means.
 * Encodings: the eight-bit controls 80–9f are honoured by terminals as single bytes, and by some
 *            in UTF-8 as c2 80–c2 9f. A byte in that range that continues a valid UTF-8 character
 *            is text. That holds only while the terminal stays in UTF-8, so it cannot be switched
 *            from here.
 * Limits:    TERMFILTER_HOLD bytes of one sequence; a longer one is dropped to its end, or for
 *            TERMFILTER_SKIP_MAX bytes, after which the rest is text: harmless, as the terminal
 *            never saw its beginning.
 */
#include <string.h>

#include "base/cleanup.h"
#include "session/stdio/terminal.h"

#define CSI_MAX 256u /* longest control sequence; real ones stay below 100 bytes */

enum {
	C0_ENQ = 0x05,
	C0_BEL = 0x07,
	C0_CAN = 0x18,
	C0_SUB = 0x1a,
	C0_ESC = 0x1b,
	DEL = 0x7f,
	C1_DCS = 0x90,
	C1_SOS = 0x98,
	C1_CSI = 0x9b,
	C1_ST = 0x9c,
	C1_OSC = 0x9d,
	C1_PM = 0x9e,
	C1_APC = 0x9f,
	UNIT_TEXT = 0x100, /* part of a well-formed character beyond ASCII */
	UNIT_JUNK,         /* a byte that is no part of one */
};

/* The unit of parsing: an ASCII byte, an eight-bit control in either form, or a piece of text. */
struct unit {
	int code;
	unsigned char bytes[2];
	size_t n;
};

struct out {
	unsigned char *p;
	size_t n;
};

static void emit(struct out *o, const void *p, size_t n)
{
	memcpy(o->p + o->n, p, n);
	o->n += n;
}

/* ---- judging complete sequences ---- */

/* ESC followed by one byte: only what ECMA-48 and DEC terminals know. Not among them: G, with which
 * rxvt answers a line of text, and A, with which Emacs' terminal begins a command of its own. */
static bool esc_allowed(const unsigned char *s, size_t n)
{
	if (n == 0)
		return false;
	if (n == 1)
		return strchr("6789<=>DEFHMNOZ\\cgklmno|}~", s[0]) != NULL;
	/* With intermediates: character sets, line size, 7-bit replies. Not %: it leaves UTF-8. */
	return strchr(" #$()*+-./", s[0]) != NULL;
}

/* A control sequence, taken apart. Parameters past the last slot are of no interest here. */
struct csi {
	unsigned char prefix, inter, final;
	unsigned param[32];
	size_t param_n;
	bool malformed;
};

static void csi_parse(struct csi *c, const unsigned char *s, size_t n)
{
	size_t i = 0;
	unsigned v = 0;

	*c = (struct csi){0};
	if (n == 0) {
		c->malformed = true;
		return;
	}
	c->final = s[--n];
	if (n && s[0] >= '<' && s[0] <= '?')
		c->prefix = s[i++];
	for (; i < n && s[i] >= '0' && s[i] <= ';'; i++) {
		if (s[i] <= '9') {
			v = v * 10 + (unsigned)(s[i] - '0');
			v = MIN_OF(v, 99999u);
			continue;
		}
		if (c->param_n < ARRAY_SIZE(c->param))
			c->param[c->param_n++] = v;
		v = 0;
	}
	if (c->param_n < ARRAY_SIZE(c->param))
		c->param[c->param_n++] = v;
	else
		c->malformed = c->prefix == '?'; /* a mode we could not look at */
	if (i < n && s[i] >= 0x20 && s[i] <= 0x2f)
		c->inter = s[i++];
	c->malformed = c->malformed || i != n;
}

static bool csi_has(const struct csi *c, unsigned v)
{
	for (size_t i = 0; i < c->param_n; i++)
		if (c->param[i] == v)
			return true;
	return false;
}

static bool csi_allowed(const unsigned char *s, size_t n)
{
	struct csi c;

	csi_parse(&c, s, n);
	if (c.malformed)
		return false;
	if (c.inter == '*') /* y: checksum of an area, which reads the screen; z: run a macro */
		return c.final != 'y' && c.final != 'z';
	if (c.inter == '$') /* u, w: reports of state that contain what was put there */
		return c.final != 'u' && c.final != 'w';
	if (c.inter)
		return true;
	if (c.final == 'i') /* print; or send all that follows to the printer's command */
		return false;
	if (c.final == 't' && !c.prefix) /* 20, 21: type the window's title; the rest is sizes */
		return c.param[0] != 0 && c.param[0] != 20 && c.param[0] != 21;
	if (c.prefix == '?' && (c.final == 'h' || c.final == 'r')) /* 46: log to a file */
		return !csi_has(&c, 46);
	if (c.prefix == '?' && c.final == 'l') /* 2: VT52, where the same bytes mean other things */
		return !csi_has(&c, 2);
	return true;
}

/*
 * OSC by number. Passed: titles, colours, hyperlinks, pointer shape, prompt marks, progress.
 * Dropped among others: 7 (directory in which the terminal opens the next shell), 9 and 99 and 777
 * (desktop notifications, and in some terminals macros and programs), 50 (font, answered with the
 * text that was set), 51 (commands to Emacs), 52 (clipboard), 633 and 1337 (files, clipboard,
 * editor).
 */
static bool osc_allowed(const unsigned char *s, size_t n)
{
	unsigned v = 0;
	size_t i = 0;

	for (; i < n && i < 5 && s[i] >= '0' && s[i] <= '9'; i++)
		v = v * 10 + (unsigned)(s[i] - '0');
	if (i == 0 || (i < n && s[i] != ';'))
		return false;
	switch (v) {
	case 0:
	case 1:
	case 2:
	case 4:
	case 5:
	case 8:
	case 104:
	case 105:
	case 133:
		return true;
	case 9: /* only "9;4;…", progress */
		return n - i >= 3 && s[i + 1] == '4' && s[i + 2] == ';';
	case 22:
		return !memchr(s, '?', n);
	default:
		return (v >= 10 && v <= 19) || (v >= 110 && v <= 119);
	}
}

/* ---- holding ---- */

static void hold_start(struct termfilter *f, enum vt_state state, const struct unit *u)
{
	f->state = state;
	f->bad = false;
	f->skipped = 0;
	memcpy(f->hold, u->bytes, u->n);
	f->hold_n = u->n;
	f->body = u->n;
}

/* ESC has turned out to introduce something longer: its body begins here. */
static void hold_become(struct termfilter *f, enum vt_state state)
{
	f->state = state;
	f->body = f->hold_n;
}

static void hold_add(struct termfilter *f, const struct unit *u)
{
	size_t max = f->state == VT_OSC || f->state == VT_OSC_ESC ? sizeof(f->hold) : CSI_MAX;

	if (f->hold_n + u->n > max) {
		f->bad = true;
		return;
	}
	memcpy(f->hold + f->hold_n, u->bytes, u->n);
	f->hold_n += u->n;
}

static void hold_drop(struct termfilter *f)
{
	f->state = VT_TEXT;
	f->hold_n = 0;
	f->body = 0;
	f->bad = false;
}

static void hold_end(struct termfilter *f, struct out *o, bool allowed)
{
	if (allowed && !f->bad)
		emit(o, f->hold, f->hold_n);
	hold_drop(f);
}

/* The held sequence after its introducer, without the controls that a terminal executes in the
 * middle of it. Returns the length. */
static size_t hold_body(const struct termfilter *f, unsigned char body[CSI_MAX])
{
	size_t n = 0;

	for (size_t i = f->body; i < f->hold_n && n < CSI_MAX; i++)
		if (f->hold[i] >= 0x20 && f->hold[i] != DEL)
			body[n++] = f->hold[i];
	return n;
}

/* ---- states ---- */

static void feed(struct termfilter *f, const struct unit *u, struct out *o);

/* DCS, SOS, PM, APC: terminfo, settings and keys by question and answer, macros, key
 * definitions, files, images, pass-through to the terminal outside of tmux. No ordinary program
 * depends on them. */
static void string_start(struct termfilter *f)
{
	hold_drop(f);
	f->state = VT_STRING;
	f->bad = true;
	f->skipped = 0;
}

static void feed_text(struct termfilter *f, const struct unit *u, struct out *o)
{
	switch (u->code) {
	case C0_ESC:
		hold_start(f, VT_ESC, u);
		break;
	case C1_CSI:
		hold_start(f, VT_CSI, u);
		break;
	case C1_OSC:
		hold_start(f, VT_OSC, u);
		break;
	case C1_DCS:
	case C1_SOS:
	case C1_PM:
	case C1_APC:
		string_start(f);
		break;
	case C0_ENQ: /* the terminal types its answerback text */
	case C0_CAN: /* ends a sequence, and none is open; in text it begins a ZMODEM download */
		break;
	default:
		emit(o, u->bytes, u->n);
	}
}

/* Drop what is held and take this unit as text: it begins or is something else. */
static void refeed(struct termfilter *f, const struct unit *u, struct out *o)
{
	hold_drop(f);
	feed_text(f, u, o);
}

/* Inside ESC and CSI: true when the unit was dealt with. */
static bool feed_embedded(struct termfilter *f, const struct unit *u, struct out *o)
{
	if (u->code >= 0x80 || u->code == C0_ESC || u->code == C0_CAN || u->code == C0_SUB)
		refeed(f, u, o);
	else if (u->code < 0x20 || u->code == DEL) { /* executed, or ignored, on the way */
		if (u->code != C0_ENQ)
			hold_add(f, u);
	} else {
		return false;
	}
	return true;
}

static void feed_esc(struct termfilter *f, const struct unit *u, struct out *o)
{
	unsigned char body[CSI_MAX];
	bool first = hold_body(f, body) == 0;

	if (feed_embedded(f, u, o))
		return;
	hold_add(f, u);
	if (first && u->code == '[')
		hold_become(f, VT_CSI);
	else if (first && u->code == ']')
		hold_become(f, VT_OSC);
	else if (first && strchr("PX^_", u->code))
		string_start(f);
	else if (u->code >= 0x30)
		hold_end(f, o, esc_allowed(body, hold_body(f, body)));
}

static void feed_csi(struct termfilter *f, const struct unit *u, struct out *o)
{
	unsigned char body[CSI_MAX];

	if (feed_embedded(f, u, o))
		return;
	hold_add(f, u);
	if (u->code >= 0x40)
		hold_end(f, o, csi_allowed(body, hold_body(f, body)));
}

/* Linux's console has two OSCs without an end: R, and P with seven hexadecimal digits. To any other
 * terminal they would open a string that we take for closed. */
static bool osc_console(const struct termfilter *f)
{
	const unsigned char *s = f->hold + f->body;
	size_t n = f->hold_n - f->body;

	if (!f->console || f->bad || n == 0)
		return false;
	if (s[0] == 'R')
		return n == 1;
	if (s[0] != 'P' || n != 8)
		return false;
	for (size_t i = 1; i < n; i++)
		if (!memchr("0123456789abcdefABCDEF", s[i], 22))
			return false;
	return true;
}

static void feed_osc(struct termfilter *f, const struct unit *u, struct out *o)
{
	if (u->code == C0_ESC) {
		f->state = VT_OSC_ESC;
	} else if (u->code == C0_BEL || u->code == C1_ST) {
		bool allowed = osc_allowed(f->hold + f->body, f->hold_n - f->body);

		hold_add(f, u);
		hold_end(f, o, allowed);
	} else if (u->code == C0_CAN || u->code == C0_SUB || (u->code >= 0x80 && u->code < 0xa0)) {
		refeed(f, u, o);
	} else {
		if (u->code < 0x20 || u->code == DEL || u->code == UNIT_JUNK)
			f->bad = true;
		hold_add(f, u);
		if (osc_console(f))
			hold_end(f, o, true);
	}
}

static void feed_string(struct termfilter *f, const struct unit *u, struct out *o)
{
	if (u->code == C0_ESC)
		f->state = VT_STRING_ESC;
	else if (u->code == C1_ST)
		hold_drop(f);
	else if (u->code == C0_CAN || u->code == C0_SUB || (u->code >= 0x80 && u->code < 0xa0))
		refeed(f, u, o);
}

/* After ESC in a string: its end, or the string is broken off and a new sequence has begun. */
static void feed_string_esc(struct termfilter *f, const struct unit *u, struct out *o)
{
	static const struct unit esc = {C0_ESC, {C0_ESC}, 1};

	if (u->code != '\\') {
		hold_start(f, VT_ESC, &esc);
		feed(f, u, o);
	} else if (f->state == VT_OSC_ESC) {
		bool allowed = osc_allowed(f->hold + f->body, f->hold_n - f->body);

		hold_add(f, &esc);
		hold_add(f, u);
		hold_end(f, o, allowed);
	} else {
		hold_drop(f);
	}
}

static void feed(struct termfilter *f, const struct unit *u, struct out *o)
{
	if (f->bad && (f->skipped += u->n) > TERMFILTER_SKIP_MAX)
		hold_drop(f);
	switch (f->state) {
	case VT_TEXT:
		feed_text(f, u, o);
		break;
	case VT_ESC:
		feed_esc(f, u, o);
		break;
	case VT_CSI:
		feed_csi(f, u, o);
		break;
	case VT_OSC:
		feed_osc(f, u, o);
		break;
	case VT_STRING:
		feed_string(f, u, o);
		break;
	case VT_OSC_ESC:
	case VT_STRING_ESC:
		feed_string_esc(f, u, o);
		break;
	}
}

/* ---- bytes to units ---- */

static void feed_byte(struct termfilter *f, int code, unsigned char c, struct out *o)
{
	feed(f, &(struct unit){code, {c}, 1}, o);
}

/* A byte that begins a character: how many follow, and within which range the first of them is. */
static bool utf8_lead(struct termfilter *f, unsigned char c)
{
	f->next_lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	f->next_hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	f->need = c < 0xc2 || c > 0xf4 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	return f->need > 0;
}

static void step(struct termfilter *f, unsigned char c, struct out *o)
{
	if (f->lead_c2) {
		f->lead_c2 = false;
		if (c >= 0x80 && c <= 0xbf) {
			feed(f, &(struct unit){c < 0xa0 ? c : UNIT_TEXT, {0xc2, c}, 2}, o);
			return;
		}
		feed_byte(f, UNIT_JUNK, 0xc2, o);
	}
	if (f->need) {
		if (c >= f->next_lo && c <= f->next_hi) {
			f->need--;
			f->next_lo = 0x80;
			f->next_hi = 0xbf;
			feed_byte(f, UNIT_TEXT, c, o);
			return;
		}
		f->need = 0; /* a character broken off: in an OSC it spoils the whole */
		f->bad = f->bad || f->state == VT_OSC;
	}
	if (c < 0xa0) /* ASCII, or a control that continues no character */
		feed_byte(f, c, c, o);
	else if (f->latin)
		feed_byte(f, UNIT_TEXT, c, o);
	else if (c == 0xc2)
		f->lead_c2 = true;
	else
		feed_byte(f, utf8_lead(f, c) ? UNIT_TEXT : UNIT_JUNK, c, o);
}

size_t termfilter_run(struct termfilter *f, const unsigned char *in, size_t n, unsigned char *out)
{
	struct out o = {.p = out};
	size_t i = 0;

	while (i < n) {
		size_t run = i;

		/* Plain text is nearly everything: copy it in one piece. */
		if (f->state == VT_TEXT && !f->lead_c2 && !f->need)
			while (run < n && ((in[run] >= 0x20 && in[run] < DEL) || in[run] == '\n' ||
						  in[run] == '\r' || in[run] == '\t'))
				run++;
		if (run > i) {
			emit(&o, in + i, run - i);
			i = run;
		} else {
			step(f, in[i++], &o);
		}
	}
	return o.n;
}

size_t termfilter_end(struct termfilter *f, unsigned char *out)
{
	struct out o = {.p = out};

	if (f->lead_c2 && f->state == VT_TEXT)
		emit(&o, "\xc2", 1);
	*f = (struct termfilter){.latin = f->latin, .console = f->console};
	return o.n;
}
