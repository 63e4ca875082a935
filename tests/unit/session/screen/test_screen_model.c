/* SPDX-License-Identifier: Apache-2.0 */
/* The screen model: what programs write, as cells; and its dump, which makes an equal screen. */
#include "test.h"

#include "base/cleanup.h"
#include "screen_world.h"

#define ROWS 12
#define COLS 40

/* Text of a row without trailing blanks, characters beyond ASCII as '?'. */
static const char *row_text(const struct model *m, unsigned row)
{
	static char s[MODEL_COLS_MAX + 1];
	size_t n = 0;

	for (unsigned c = 0; c < m->cols; c++) {
		uint32_t ch = m->page[m->active].row[row][c].ch;

		if (ch)
			s[n++] = ch < 0x80 ? (char)ch : '?';
	}
	while (n && s[n - 1] == ' ')
		n--;
	s[n] = '\0';
	return s;
}

static const struct cell *cell_at(const struct model *m, unsigned row, unsigned col)
{
	return &m->page[m->active].row[row][col];
}

static void feed(struct model *m, const char *s)
{
	model_feed(m, s, strlen(s));
}

/* ---- what programs write ---- */

TEST(text_wraps_and_scrolls)
{
	struct model m;

	CHECK(model_init(&m, 3, 5));
	feed(&m, "abcdefg\r\nx\r\ny");
	CHECK_STR(row_text(&m, 0), "fg");
	CHECK_STR(row_text(&m, 1), "x");
	CHECK_STR(row_text(&m, 2), "y");
	feed(&m, "\033[1;1H12345");
	CHECK(m.pending);
	CHECK_INT(m.cur.col, 4);
	feed(&m, "\r\033[?7l123456");
	CHECK_STR(row_text(&m, 0), "12346");
	CHECK(!m.pending);
	model_done(&m);
}

TEST(colours_and_attributes)
{
	struct model m;

	CHECK(model_init(&m, ROWS, COLS));
	feed(&m, "\033[1;2;31;48;5;200mA\033[38;2;1;2;3;4:3mB\033[38:2::9:8:7;58:5:4mC\033[22;24;"
		 "39;49;59mD");
	CHECK_INT(cell_at(&m, 0, 0)->pen.fg, COLOUR_INDEX | 1);
	CHECK_INT(cell_at(&m, 0, 0)->pen.bg, COLOUR_INDEX | 200);
	CHECK_INT(cell_at(&m, 0, 0)->pen.attrs, PEN_BOLD | PEN_DIM);
	CHECK_INT(cell_at(&m, 0, 1)->pen.fg, COLOUR_RGB | 0x010203);
	CHECK_INT(cell_at(&m, 0, 1)->pen.attrs & PEN_UNDERLINE, 3 << PEN_UNDERLINE_SHIFT);
	CHECK_INT(cell_at(&m, 0, 2)->pen.fg, COLOUR_RGB | 0x090807);
	CHECK_INT(cell_at(&m, 0, 2)->pen.line, COLOUR_INDEX | 4);
	CHECK_INT(cell_at(&m, 0, 3)->pen.fg | cell_at(&m, 0, 3)->pen.bg, 0);
	CHECK_INT(cell_at(&m, 0, 3)->pen.attrs, 0);
	feed(&m, "\033[44m\033[K"); /* what is erased has the background */
	CHECK_INT(cell_at(&m, 0, 9)->pen.bg, COLOUR_INDEX | 4);
	model_done(&m);
}

TEST(wide_and_combining_characters)
{
	struct model m;

	CHECK(model_init(&m, ROWS, 6));
	feed(&m, "\xe4\xb8\xad"
		 "e\xcc\x81\xcc\xa3"
		 "\xe6\x96\x87\xe5\xad\x97");
	CHECK_INT(cell_at(&m, 0, 0)->ch, 0x4e2d);
	CHECK_INT(cell_at(&m, 0, 1)->ch, 0);
	CHECK_INT(cell_at(&m, 0, 2)->marks[0], 0x301);
	CHECK_INT(cell_at(&m, 0, 2)->marks[1], 0x323);
	CHECK_INT(cell_at(&m, 0, 3)->ch, 0x6587);
	CHECK_INT(cell_at(&m, 0, 5)->ch, ' '); /* no room for half of one */
	CHECK_INT(cell_at(&m, 1, 0)->ch, 0x5b57);
	feed(&m, "\033[1;2Hx"); /* over the right half */
	CHECK_STR(row_text(&m, 0), " xe?");
	feed(&m, "\033[1;4H\033[X");
	CHECK_STR(row_text(&m, 0), " xe");
	feed(&m, "\033[1;1H\xcc\x81"); /* nothing to join */
	CHECK_INT(cell_at(&m, 0, 0)->marks[0], 0);
	model_done(&m);
}

TEST(broken_text_is_replaced)
{
	struct model m;

	CHECK(model_init(&m, ROWS, COLS));
	feed(&m, "a\xff\xe4\xb8"
		 "b\xc0\xaf\xed\xa0\x80");
	CHECK_STR(row_text(&m, 0), "a??b????");
	CHECK_INT(cell_at(&m, 0, 1)->ch, 0xfffd);
	CHECK(screen_sound(&m));
	model_done(&m);
}

TEST(scroll_region_and_lines)
{
	struct model m;

	CHECK(model_init(&m, 6, 4));
	feed(&m, "0\r\n1\r\n2\r\n3\r\n4\r\n5\033[2;4r\033[4;1H\n");
	CHECK_STR(row_text(&m, 0), "0");
	CHECK_STR(row_text(&m, 1), "2");
	CHECK_STR(row_text(&m, 3), "");
	CHECK_STR(row_text(&m, 5), "5");
	feed(&m, "\033[2;1H\033M");
	CHECK_STR(row_text(&m, 1), "");
	CHECK_STR(row_text(&m, 2), "2");
	feed(&m, "\033[3;1H\033[L");
	CHECK_STR(row_text(&m, 3), "2");
	CHECK_STR(row_text(&m, 4), "4");
	feed(&m, "\033[?6h\033[1;1Hx");
	CHECK_STR(row_text(&m, 1), "x");
	feed(&m, "\033[99;1H");
	CHECK_INT(m.cur.row, 3);
	model_done(&m);
}

TEST(left_and_right_margins)
{
	struct model m;

	CHECK(model_init(&m, 4, 8));
	feed(&m, "abcdefgh\r\nijklmnop\033[?69h\033[3;5s\033[1;3H12345");
	CHECK_STR(row_text(&m, 0), "ab123fgh");
	CHECK_STR(row_text(&m, 1), "ij45mnop");
	feed(&m, "\033[1;3H\033[P\033[S");
	CHECK_STR(row_text(&m, 0), "ab45mfgh");
	CHECK_STR(row_text(&m, 1), "ij   nop");
	model_done(&m);
}

TEST(line_drawing_tabs_and_repeat)
{
	struct model m;

	CHECK(model_init(&m, ROWS, COLS));
	feed(&m, "\033(0lq\033[3bk\033(Bq\ty");
	CHECK_INT(cell_at(&m, 0, 0)->ch, 0x250c);
	CHECK_INT(cell_at(&m, 0, 4)->ch, 0x2500);
	CHECK_INT(cell_at(&m, 0, 5)->ch, 0x2510);
	CHECK_STR(row_text(&m, 0), "??????q y");
	feed(&m, "\r\n\033[3g\033[4G\033H\rX\tY");
	CHECK_STR(row_text(&m, 1), "X  Y");
	model_done(&m);
}

TEST(the_primary_screen_is_there_after_the_alternate)
{
	struct model m, copy;
	bool trimmed;

	CHECK(model_init(&m, ROWS, COLS));
	feed(&m, "$ vi\r\n\033[?1049h\033[H\033[2J~\033[5;5Hin");
	CHECK_STR(row_text(&m, 0), "~");
	CHECK(!screen_copy(&m, &copy, &trimmed));
	feed(&copy, "\033[?1049l");
	CHECK_STR(row_text(&copy, 0), "$ vi");
	CHECK_INT(copy.cur.row, 1);
	CHECK_INT(copy.cur.col, 0);
	model_done(&m);
	model_done(&copy);
}

TEST(modes_of_keys_mouse_and_paste)
{
	struct model m, copy;
	bool trimmed;

	CHECK(model_init(&m, ROWS, COLS));
	feed(&m, "\033[?1;2004;1002;1006;1004h\033=\033[4 q\033[>1u\033[>4;2m\033[?25l");
	CHECK(!screen_copy(&m, &copy, &trimmed));
	CHECK(model_mode(&copy, MODE_APP_CURSOR) && model_mode(&copy, MODE_PASTE));
	CHECK(model_mode(&copy, MODE_APP_KEYPAD) && model_mode(&copy, MODE_FOCUS));
	CHECK(!model_mode(&copy, MODE_VISIBLE));
	CHECK_INT(copy.mouse, 1002);
	CHECK_INT(copy.mouse_form, 1006);
	CHECK_INT(copy.style, 4);
	CHECK_INT(copy.other_keys, 2);
	CHECK_INT(copy.page[0].keys[1], 1);
	model_done(&m);
	model_done(&copy);
}

TEST(titles_clipboard_and_graphics_leave_no_trace)
{
	struct model m, fresh;

	CHECK(model_init(&m, ROWS, COLS) && model_init(&fresh, ROWS, COLS));
	feed(&m, "\033]0;title\a\033]52;c;ZXZpbA==\033\\\033Pq#0;2~\033\\\033_Gx\033\\\033^y\033\\"
		 "\033[6n\033[c\033[21t\033[?46h\033[2i\x9dz\x9c");
	CHECK(!screen_differs(&m, &fresh));
	model_done(&m);
	model_done(&fresh);
}

/* ---- sizes ---- */

TEST(sizes_are_clamped)
{
	struct model m;

	CHECK(model_init(&m, 0, 0));
	CHECK_INT(m.rows * m.cols, 1);
	feed(&m, "ab\xe4\xb8\xad\r\n\033[5L\033[9@\033[2;3r\033[?69h\033[1;9s");
	CHECK(screen_sound(&m));
	CHECK(model_resize(&m, 100000, 100000));
	CHECK_INT(m.rows, MODEL_ROWS_MAX);
	CHECK_INT(m.cols, MODEL_COLS_MAX);
	feed(&m, "\033[99999;99999Hxy\033[99999S\033[99999b");
	CHECK(screen_sound(&m));
	model_done(&m);
}

TEST(resize_keeps_what_fits_and_the_line_of_the_cursor)
{
	struct model m, copy;
	bool trimmed;

	CHECK(model_init(&m, 6, 8));
	feed(&m, "0\r\n1\r\n2\r\n3\r\n4\r\n5 \xe4\xb8\xad\033[2;4r\033[6;2H");
	CHECK(model_resize(&m, 4, 3)); /* through the wide character */
	CHECK_STR(row_text(&m, 0), "2");
	CHECK_STR(row_text(&m, 3), "5");
	CHECK_INT(m.cur.row, 3);
	CHECK_INT(m.bottom, 3);
	CHECK(screen_sound(&m));
	CHECK(model_resize(&m, 9, 20));
	CHECK_STR(row_text(&m, 3), "5");
	CHECK(!screen_copy(&m, &copy, &trimmed));
	model_done(&m);
	model_done(&copy);
}

/* ---- the dump ---- */

static const char *const streams[] = {
	/* a shell */
	"\033[?2004h\033]0;me: ~\a\033[1;32mme@box\033[0m:\033[34m~\033[0m$ ls\r\n"
	"\033[0m\033[01;34msrc\033[0m  \033[01;32mrun\033[0m\tx\xc3\xa9\r\n$ ",
	/* an editor with a status line, in the middle of a line that is full */
	"$ "
	"vi\r\n\033[?1049h\033[22;0;0t\033[?1h\033=\033[1;11r\033[?12h\033[?12l\033[27m\033[H\033["
	"2J"
	"int main\r\n\033[94m~\033[3;1H~\033[m\033[12;1H\033[1;7m-- INSERT --\033[m"
	"\033[4;35Habcdef\033[?25h",
	/* wide, combining, joined and flagged characters */
	"\xe4\xb8\xad\xe6\x96\x87 e\xcc\x81 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb "
	"\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa \xe2\x9d\xa4\xef\xb8\x8f\033[1;39H\xe5\xad\x97"
	"\033[2;40H\xe5\xad\x97\r\n\033[1;2Hx",
	/* regions, origin, saved cursors */
	"\033[3;8r\033[8;1Ha\nb\nc\033M\033[2L\033[M\033[?6h\033[2;2H\033[31mo\0337\033[S\033["
	"2T\033[m"
	"\033[?6l\0338p",
	/* left and right margins */
	"\033[?69h\033[5;14s\033[2;7r\033[2;5Habcdefghijklmnopqrst\033[2@\033[3P\033[2L\xe4\xb8\xad"
	"\033[?6h\033[3;4H\033[41m\033[J",
	/* line drawing, in G0 and G1 */
	"\033(0lqqqk\r\nx   x\r\nmqqqj\033(B \033)0\016x\017y\016",
	/* colours of every kind */
	"\033[1;2;3;4;5;7;8;9;53;38;2;1;2;3;48:2::4:5:6;58;5;9mA\033[22;24;38;5;200mB\033[91;107mC"
	"\033[4:5mD\033[21mE\033[44m\033[K\033[mF\033[2;1H\033[45m\033[1J\033[5X",
	/* keyboard, mouse, cursor */
	"\033[>1u\033[=5;2u\033[?1049h\033[>3u\033[<u\033[>9u\033[>4;2m\033[?1000;1006h\033[?"
	"1004h\033[3 q"
	"\033[?25l\033[?5h\033[?2031h",
	/* full lines: without wrapping, with marks, inserting, repeated */
	"\033[?7l0123456789012345678901234567890123456789ab\033[?7h\r\n"
	"0123456789012345678901234567890123456789\xcc\x81\xcc\xa3",
	"abc\033[1;2H\033[4hxy\033[3b\033[20h\n-",
	/* tab stops */
	"\033[3g\033[5G\033H\033[21G\033H\r\033[2Ia\033[Zb\tc\033[g",
	/* both screens with cursors of their own */
	"one\033[5;5H\0337\033[?47h\033[2;2Htwo\0337\033[?6h\033[?1048h\033[35m",
	/* resets and broken sequences */
	"\033[?1049hx\033[31;1\030y\033[5\033[2;2Hz\033[!p\033[3\n1mq\302\2334mr\x9b"
	"2ms\033]0;t\033[1mu\033P1$r\033",
	"\033[7mx\033cfresh\033#8\033[2;2H",
};

/*
 * Cut anywhere, the same comes of it; and at each cut a dump makes an equal screen, which goes on
 * equal with the rest of the stream.
 */
static bool check_stream(const char *s)
{
	struct model whole, m, copy;
	size_t n = strlen(s);
	bool trimmed = false, good = model_init(&whole, ROWS, COLS);
	const char *bad = NULL;

	model_feed(&whole, s, n);
	for (size_t cut = 0; good && !bad && cut <= n; cut++) {
		good = model_init(&m, ROWS, COLS);
		model_feed(&m, s, cut);
		bad = screen_copy(&m, &copy, &trimmed);
		model_feed(&m, s + cut, n - cut);
		if (!bad)
			bad = screen_differs(&whole, &m);
		model_feed(&copy, s + cut, n - cut);
		if (!bad)
			bad = screen_differs(&whole, &copy);
		if (bad || trimmed)
			printf("# cut at %zu of %zu: %s\n", cut, n, bad ? bad : "trimmed");
		model_done(&m);
		model_done(&copy);
	}
	model_done(&whole);
	return good && !bad && !trimmed;
}

TEST(dump_makes_an_equal_screen_at_every_byte)
{
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
		bool good = check_stream(streams[i]);

		if (!good)
			printf("# stream %zu\n", i);
		CHECK(good);
	}
}

/* The negative control: one wrong cell, mode or place is seen. */
TEST(comparison_sees_a_difference)
{
	struct model a, b;

	CHECK(model_init(&a, ROWS, COLS) && model_init(&b, ROWS, COLS));
	CHECK(!screen_differs(&a, &b));
	feed(&a, "\033[7m \033[m\r");
	CHECK(screen_differs(&a, &b));
	feed(&a, "\033c");
	CHECK(!screen_differs(&a, &b));
	feed(&a, "\033[?2004h");
	CHECK(screen_differs(&a, &b));
	feed(&b, "\033[?2004h\033[C");
	CHECK(screen_differs(&a, &b));
	model_done(&a);
	model_done(&b);
}

/* What was composed elsewhere could act on a terminal; from cells nothing can. */
TEST(dump_holds_no_sequence_of_the_program)
{
	struct model m;
	struct buf dump = BUF_INIT(SCREEN_DUMP_MAX);
	bool trimmed;

	CHECK(model_init(&m, ROWS, COLS));
	feed(&m, "\033]52;c;ZXZpbA==\a\033]0;zqzq\a\033P+q544e\033\\\033[21t\xc2\x9d"
		 "52;c;x\xc2\x9c\005\033[5i text");
	model_dump(&m, &dump, &trimmed);
	CHECK(strstr(dump.data, "text"));
	CHECK(!strstr(dump.data, "52;") && !strstr(dump.data, "zqzq") &&
		!strstr(dump.data, "\033P"));
	CHECK(!strstr(dump.data, "\033]") && !strstr(dump.data, "\033[21t") &&
		!strchr(dump.data, 5));
	buf_done(&dump);
	model_done(&m);
}

TEST(dump_is_bounded_and_says_what_is_missing)
{
	struct model m;
	struct buf dump = BUF_INIT(SCREEN_DUMP_MAX);
	bool trimmed = false;
	char cell[80];

	CHECK(model_init(&m, MODEL_ROWS_MAX, 200));
	for (unsigned i = 0; i < m.rows * m.cols; i++) {
		snprintf(
			cell, sizeof(cell), "\033[1;4;38;2;%u;1;2;48;2;%u;3;4mx", i % 251, i % 241);
		feed(&m, cell);
	}
	model_dump(&m, &dump, &trimmed);
	CHECK(trimmed && !dump.failed);
	CHECK(dump.len > 100000 && dump.len <= SCREEN_DUMP_MAX);
	CHECK(strstr(dump.data, "xxxxxxxx")); /* the text is there, its colours are not */
	buf_done(&dump);
	model_done(&m);
}

TEST(lost_bytes_are_said_until_the_screen_is_cleared)
{
	struct model m;

	CHECK(model_init(&m, ROWS, COLS));
	feed(&m, "a\033]0;begun");
	model_lose(&m);
	CHECK(m.lost);
	feed(&m, "b\033[K\033[J");
	CHECK_STR(row_text(&m, 0), "ab");
	CHECK(m.lost);
	feed(&m, "\033[2J");
	CHECK(!m.lost);
	model_lose(&m);
	feed(&m, "\033[?1049h");
	CHECK(!m.lost);
	model_done(&m);
}

/* A string without an end does not swallow the terminal for good. */
TEST(string_without_an_end_is_text_again)
{
	static char long_text[4096];
	struct model m;

	memset(long_text, 'x', sizeof(long_text));
	CHECK(model_init(&m, ROWS, COLS));
	feed(&m, "\033]0;");
	for (unsigned i = 0; i < MODEL_STRING_MAX / sizeof(long_text) - 1; i++)
		model_feed(&m, long_text, sizeof(long_text));
	CHECK_STR(row_text(&m, 0), "");
	model_feed(&m, long_text, sizeof(long_text));
	feed(&m, "12345 here");
	CHECK(strstr(row_text(&m, 0), "here"));
	model_done(&m);
}
