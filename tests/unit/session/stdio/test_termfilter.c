/* SPDX-License-Identifier: Apache-2.0 */
/* The output filter: each rule, at every way of cutting the stream, and random streams. */
#include "test.h"

#include <stdint.h>

#include "base/cleanup.h"
#include "session/stdio/terminal.h"

#define BYTES_MAX 8192

struct bytes {
	size_t n;
	unsigned char p[BYTES_MAX + TERMFILTER_HOLD];
};

/* Filter in pieces of `piece` bytes, the first one of `first` bytes; whole stream including its
 * end. */
static void filter(struct bytes *out, const unsigned char *in, size_t n, size_t first, size_t piece,
	const struct termfilter *like)
{
	struct termfilter f = {.latin = like && like->latin, .console = like && like->console};
	size_t i = 0, take = MIN_OF(first, n);

	out->n = 0;
	for (; i < n; i += take, take = MIN_OF(piece, n - i))
		out->n += termfilter_run(&f, in + i, take, out->p + out->n);
	out->n += termfilter_end(&f, out->p + out->n);
}

static void show(const char *label, const unsigned char *p, size_t n)
{
	printf("# %s:", label);
	for (size_t i = 0; i < n && i < 200; i++)
		printf(p[i] >= 0x20 && p[i] < 0x7f ? " %c" : " %02x", p[i]);
	printf("\n");
}

static bool expect(
	const char *in, size_t n, const char *want, size_t want_n, const struct termfilter *like)
{
	static struct bytes got;

	for (size_t first = 0; first <= n; first++) {
		for (size_t piece = 1; piece <= 2; piece++) {
			filter(&got, (const unsigned char *)in, n, first, piece == 1 ? 1 : n, like);
			if (got.n == want_n && memcmp(got.p, want, want_n) == 0)
				continue;
			show("in  ", (const unsigned char *)in, n);
			show("want", (const unsigned char *)want, want_n);
			show("got ", got.p, got.n);
			printf("# cut after %zu, then %s\n", first, piece == 1 ? "bytes" : "rest");
			return false;
		}
	}
	return true;
}

#define PASS(s) CHECK(expect(s, sizeof(s) - 1, s, sizeof(s) - 1, NULL))
#define DROP(s) CHECK(expect("<" s ">", sizeof(s) + 1, "<>", 2, NULL))
#define BECOMES(s, w) CHECK(expect(s, sizeof(s) - 1, w, sizeof(w) - 1, NULL))
#define BECOMES_LIKE(s, w, like) CHECK(expect(s, sizeof(s) - 1, w, sizeof(w) - 1, like))

TEST(termfilter_passes_what_programs_draw_with)
{
	PASS("plain text\r\n\ttabs \b \a bell \v \f \x0e \x0f \x7f");
	PASS("\033[0m\033[1;38;2;255;128;0;48:2::1:2:3m\033[m");
	PASS("\033[H\033[2J\033[10;20H\033[K\033[3A\033[5;20r\033[4 q\033[!p\033[>4;2m\033[?u");
	PASS("\033[?1049h\033[?25l\033[?2004h\033[?1000;1006h\033[?1l\033[?12;25h\033[?7727h");
	PASS("\033"
	     "7\0338\033=\033>\033D\033E\033M\033H\033c\033(B\033)0\033#8\033 F");
	PASS("\033[c\033[>c\033[=c\033[5n\033[6n\033[?6n\033[>q\033[?2026$p\033[?996n");
	PASS("\033[14t\033[16t\033[18t\033[22;0;0t\033[23;0;0t\033[8;24;80t\033[8;21;20t");
	PASS("\033[1;2;3;4$r\033[5$z\033[1;1;5;5$x\033[2'}\033[1 @");
	PASS("\033kname\033\\");
	PASS("\033[3\n1m"); /* terminals execute the newline on the way */
}

TEST(termfilter_passes_utf8_and_other_bytes)
{
	PASS("h\xc3\xa9llo \xc3\x9d \xe2\x94\x80 \xf0\x9f\x98\x80 \xe4\xb8\x9b");
	PASS("\xc2\xa0 \xef\xbf\xbd \xf4\x8f\xbf\xbf");
	PASS("latin \xe9t\xe9 \xff\xfe \xc2 \xc2\xc2 \xf5 \xc0\xaf");
	PASS("\xe2\x94"); /* cut off at the end */
	PASS("\xc2");
	PASS("\x85\x8d\x84\x99"); /* eight-bit controls that only move */
	PASS("\x9b"
	     "31m\xc2\x9b"
	     "32m");
}

TEST(termfilter_passes_harmless_strings)
{
	PASS("\033]0;title\a\033]2;t\xc3\x9dtle \xe2\x9c\x93\033\\\033]1;icon\x9c");
	PASS("\033]11;?\a\033]4;1;rgb:ff/00/00\033\\\033]10;#fff\a\033]104\a\033]112\a");
	PASS("\033]8;id=1;https://example.org/a?b=c;d\033\\text\033]8;;\033\\");
	PASS("\033]133;A\a\033]9;4;1;50\a\033]22;pointer\a");
	PASS("\x9d"
	     "0;t\x9c\xc2\x9d"
	     "2;t\xc2\x9c");
}

TEST(termfilter_drops_strings_that_act)
{
	DROP("\033]52;c;ZXZpbA==\a");
	DROP("\033]52;c;?\033\\");
	DROP("\033]0052;c;eA==\a");
	DROP("\033]50;?\a");
	DROP("\033]50;font\a");
	DROP("\033]7;file://h/tmp/x\a");
	DROP("\033]9;hello\a");
	DROP("\033]9;45;x\a");
	DROP("\033]9;4\a");
	DROP("\033]777;notify;a;b\a");
	DROP("\033]99;;x\a");
	DROP("\033]1337;File=name=x:eA==\a");
	DROP("\033]1337;Copy=:eA==\a");
	DROP("\033]633;E;rm\a");
	DROP("\033]51;Ax\033\\");
	DROP("\033]3;PROP=x\a");
	DROP("\033]46;/tmp/log\a");
	DROP("\033]22;?__current__\a");
	DROP("\033]\a");
	DROP("\033];\a");
	DROP("\033]Ltitle\033\\");
	DROP("\033]0:x\a");
	DROP("\033]99999999999999999990;x\a");
}

TEST(termfilter_drops_device_strings)
{
	DROP("\033P$qm\033\\");
	DROP("\033P+q544e\033\\");
	DROP("\033P0;1|17/6c730a\033\\"); /* defines a key */
	DROP("\033P1;0;0!zrm\033\\");     /* defines a macro */
	DROP("\033_Gf=24,a=T;AAAA\033\\");
	DROP("\033^pm\033\\");
	DROP("\033Xsos\033\\");
	DROP("\033Pq#0;2;0;0;0~~-~~\x9c");
	DROP("\x90$qm\x9c");
	DROP("\xc2\x90$qm\xc2\x9c");
	DROP("\x9fGx\x9c");
	DROP("\xc2\x9e x \033\\");
	DROP("\x98x\033\\");
	/* Wrapped for a terminal outside of tmux: the inside is dropped by its own rule. */
	BECOMES("<\033Ptmux;\033\033]52;c;eA==\a\033\\>", "<\033\\>");
	BECOMES("<\033P\033]52;c;eA==\a\033\\>", "<\033\\>");
}

TEST(termfilter_drops_questions_that_are_answered_with_text)
{
	DROP("\005");
	DROP("\033[21t");
	DROP("\033[20t");
	DROP("\033[0021;1t");
	DROP("\033[21:0t");
	DROP("\033[2\0001t");
	DROP("\033[2\x7f"
	     "1t");
	DROP("\033[;21t");
	DROP("\033[t");
	DROP("\x9b"
	     "21t");
	DROP("\xc2\x9b"
	     "21t");
	DROP("\033[1;1;1;1;24;80*y");
	DROP("\033[1*z");
	DROP("\033[1$w");
	DROP("\033[1$u");
	BECOMES("\033[3\005"
		"1m",
		"\033[31m");
}

TEST(termfilter_drops_printing_logging_modes_and_oddities)
{
	DROP("\033[5i");
	DROP("\033[?5i");
	DROP("\033[i");
	DROP("\033[?46h");
	DROP("\033[?25;46h");
	DROP("\033[?2l");
	BECOMES("<\033GQ>", "<Q>");
	DROP("\033"
	     "A");
	DROP("\033%@");
	DROP("\033%G");
	DROP("\033!x");
	DROP("\x18");
	DROP("\033[1?5h"); /* prefix in the wrong place */
	DROP("\033[1 2q"); /* parameter after intermediate */
	DROP("\033[1  q");
	BECOMES("**\x18"
		"B00",
		"**B00"); /* would begin a file transfer */
}

TEST(termfilter_drops_the_malformed_and_goes_on)
{
	BECOMES("a\033[3\033[1mb", "a\033[1mb");
	BECOMES("a\033\033[1mb", "a\033[1mb");
	BECOMES("a\033[2\x18"
		"1tb",
		"a1tb");
	BECOMES("a\033[2\x1a"
		"1tb",
		"a\x1a"
		"1tb");
	BECOMES("a\033[2\xc3\xa9"
		"1tb",
		"a\xc3\xa9"
		"1tb");
	BECOMES("a\033]0;x\x18"
		"b",
		"ab");
	BECOMES("a\033]0;x\033[1mb", "a\033[1mb");
	BECOMES("a\033]0;x\033]52;c;eA==\ab", "ab");
	BECOMES("a\033]0;x\xc2\x9d"
		"52;c;eA==\ab",
		"ab");
	BECOMES("a\033]0;x\x9d"
		"52;c;eA==\ab",
		"ab");
	BECOMES("a\033]0;x\xc3\ab", "ab"); /* a terminal might take BEL for part of the character */
	BECOMES("a\033]0;x\xff\ab", "ab");
	BECOMES("a\033]0;x\ny\ab", "ab");
	BECOMES("a\033[3", "a");
	BECOMES("a\033]0;x", "a");
	BECOMES("a\033", "a");
}

TEST(termfilter_sees_eight_bit_controls_only_outside_of_characters)
{
	PASS("\xc3\x9d"
	     "52;c;eA==\a"); /* Y with acute, then text */
	PASS("\xe2\x9d\x93 \xe5\x9b\x9b \xf0\x9d\x90\x80");
	BECOMES("<\xe0\x9d"
		"52;c;eA==\a>",
		"<\xe0>"); /* overlong: 9d stands alone */
	BECOMES("<\xed\xa0\x9d"
		"52;c;eA==\a>",
		"<\xed\xa0>");
	BECOMES("<\xe2\x9d"
		"a\x9d"
		"52;c;eA==\a>",
		"<\xe2\x9d"
		"a>");
	BECOMES("<\xf8\x88\x80\x80\x9d"
		"52;c;eA==\a>",
		"<\xf8\x88\x80\x80>");
	BECOMES("<\xe2\005\x9d\x9d"
		"52;c;eA==\a>",
		"<\xe2>");
}

TEST(termfilter_knows_latin_terminals_and_the_console)
{
	static const struct termfilter latin = {.latin = true}, console = {.console = true};

	BECOMES_LIKE("\xc3\x9d"
		     "52;c;eA==\a\xe9",
		"\xc3\xe9", &latin);
	BECOMES_LIKE("\xe9\xc2\xa0\x9b"
		     "31m",
		"\xe9\xc2\xa0\x9b"
		"31m",
		&latin);
	BECOMES_LIKE("a\033]Rb\033]P1ff00FFc", "a\033]Rb\033]P1ff00FFc", &console);
	BECOMES_LIKE("a\033]P1ff00Fzc\ab", "ab", &console);
	BECOMES_LIKE("a\033]52;c;eA==\ab", "ab", &console);
	BECOMES("a\033]Rb\ac", "ac");
}

/* head, n times fill, tail. */
static size_t blow(unsigned char *p, const char *head, char fill, size_t n, const char *tail)
{
	size_t head_n = strlen(head), tail_n = strlen(tail);

	memcpy(p, head, head_n);
	memset(p + head_n, fill, n);
	memcpy(p + head_n + n, tail, tail_n);
	return head_n + n + tail_n;
}

TEST(termfilter_holds_a_bounded_sequence)
{
	static unsigned char in[BYTES_MAX];
	static struct bytes out;
	size_t n = blow(in, "\033]0;", 'x', TERMFILTER_HOLD - 5, "\a");

	filter(&out, in, n, 100, 333, NULL);
	CHECK_INT(out.n, n); /* the longest that fits */
	n = blow(in, "\033]0;", 'x', TERMFILTER_HOLD - 4, "\aafter");
	filter(&out, in, n, 100, 333, NULL);
	CHECK_INT(out.n, 5);
	n = blow(in, "\033[", '1', 1000, "mafter");
	filter(&out, in, n, 7, 333, NULL);
	CHECK_INT(out.n, 5);
	n = blow(in, "\033", '\0', 1000, "[21tafter"); /* the introducer itself overflows */
	filter(&out, in, n, 7, 333, NULL);
	CHECK_INT(out.n, 5);
	n = blow(in, "\033", '\0', 1000, "]52;c;eA==\aafter");
	filter(&out, in, n, 7, 333, NULL);
	CHECK_INT(out.n, 5);
}

TEST(termfilter_finds_text_again_after_a_string_without_end)
{
	static unsigned char in[4096], out[4096 + TERMFILTER_HOLD];
	static const char *const heads[] = {"\033P", "\033]52;c;", "\033]0;\xff", "\033[?\x01"};
	size_t i;

	memset(in, '7', sizeof(in));
	for (size_t h = 0; h < ARRAY_SIZE(heads); h++) {
		struct termfilter f = {0};
		const unsigned char *head = (const unsigned char *)heads[h];
		size_t got = termfilter_run(&f, head, strlen(heads[h]), out);

		for (i = 0; i < 2 * TERMFILTER_SKIP_MAX / sizeof(in) && !got; i++)
			got = termfilter_run(&f, in, sizeof(in), out);
		CHECK(got > 0);
		CHECK(i >= TERMFILTER_SKIP_MAX / sizeof(in));
		CHECK_INT(termfilter_run(&f, in, sizeof(in), out), sizeof(in));
	}
}

static unsigned rnd(unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return *seed >> 16 & 0x7fff;
}

/* Streams made mostly of what sequences are made of. */
static size_t random_stream(unsigned *seed, unsigned char *p, size_t max)
{
	static const char *const parts[] = {"\033", "\033]", "\033[", "\033P", "\033\\", "\a",
		"52;c;", "0;", "21", "t", "m", ";", "?", "\xc2", "\x9d", "\x9b", "\x9c", "\x90",
		"\xe2", "\xe2\x94", "\x94\x80", "\xf0\x9f", "\005", "\x18", "\x1a", "\n", "x",
		"8;;u", "*y", "\033k", "\033]R", "%@", "\x7f"};
	size_t n = 0;

	while (n + 8 < max) {
		const char *s = parts[rnd(seed) % ARRAY_SIZE(parts)];

		if (rnd(seed) % 8 == 0) {
			p[n++] = (unsigned char)rnd(seed);
		} else {
			memcpy(p + n, s, strlen(s));
			n += strlen(s);
		}
	}
	return n;
}

TEST(termfilter_random_streams_are_stable_and_harmless)
{
	static unsigned char in[512];
	static struct bytes whole, cut, twice;
	unsigned seed = 7;

	for (int round = 0; round < 20000; round++) {
		struct termfilter like = {.latin = round % 5 == 0};
		size_t n = random_stream(&seed, in, 16 + rnd(&seed) % 400);

		filter(&whole, in, n, n, n, &like);
		filter(&cut, in, n, rnd(&seed) % 5, 1 + rnd(&seed) % 7, &like);
		filter(&twice, whole.p, whole.n, whole.n, whole.n, &like);
		CHECK(whole.n <= n);
		CHECK(whole.n == cut.n && memcmp(whole.p, cut.p, whole.n) == 0);
		CHECK(whole.n == twice.n && memcmp(whole.p, twice.p, whole.n) == 0);
		CHECK(!memchr(whole.p, 5, whole.n));
		CHECK(!memmem(whole.p, whole.n, "\033]52", 4));
		CHECK(!memmem(whole.p, whole.n,
			"\xc2\x9d"
			"52",
			4));
		CHECK(!memmem(whole.p, whole.n, "\033P", 2));
		CHECK(!memmem(whole.p, whole.n, "\033[21t", 5));
	}
}
