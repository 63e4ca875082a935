/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/scrub: values are covered however they are written and wherever they are cut; nothing else
 * is.
 */
#include "test.h"

#include <malloc.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "net/keeper/scrub.h"
#include "net/keeper/values.h"

static const char token[] = "ghp_S3cret/Va+lue=\"0\\1%20end~x";
static const char second[] = "ghp_S3cret/Va+lue=\"0\\1%20end~x-and-longer";

struct hidden {
	struct scrubber *d;
	struct scrub *r;
};

static void hidden_done(struct hidden *h)
{
	scrub_free(h->r);
	scrubber_free(h->d);
}
#define cleanup_hidden __attribute__((cleanup(hidden_done)))

static struct hidden hide(const char *const *values, size_t n)
{
	struct hidden h = {.d = scrubber_new()};

	for (size_t i = 0; h.d && i < n; i++)
		if (!scrubber_add(h.d, values[i], strlen(values[i])))
			return h;
	h.r = h.d ? scrub_new(h.d) : NULL;
	return h;
}

static struct hidden hide_two(void)
{
	const char *v[2] = {token, second};

	return hide(v, 2);
}

/* All of `text` in pieces of `step`; what came out is in out. */
static size_t feed(const char *text, size_t n, size_t step, struct buf *out)
{
	static struct hidden h; /* one stream after the other */
	size_t replaced = 0;

	if (!h.r)
		h = hide_two();
	if (!h.r)
		return SIZE_MAX;
	for (size_t at = 0; at < n; at += step)
		replaced += scrub_feed(h.r, text + at, MIN_OF(step, n - at), at + step >= n, out);
	return replaced;
}

/* The forms of the token, by hand so that they are not made by what is tested. */
static const char *const forms[] = {
	"ghp_S3cret/Va+lue=\"0\\1%20end~x", "ghp_S3cret%2FVa%2Blue%3D%220%5C1%2520end~x",
	"ghp_S3cret%2fVa%2blue%3d%220%5c1%2520end%7ex",
	("%67%68%70%5f%53%33%63%72%65%74%2f%56%61%2b%6c%75%65%3d%22%30%5c%31%25%32%30%65%6e%64%7e%"
	 "78"),
	"ghp_S3cret/Va+lue=\\\"0\\\\1%20end~x", "ghp_S3cret\\/Va+lue=\\\"0\\\\1%20end~x",
	"\\u0067hp_S3cret\\u002fVa\\u002Blue=\\u00220\\u005c1%20end~\\u0078",
	"ghp_S3cret\\\\/Va+lue=\\\\\\\"0\\\\\\\\1%20end~x",
	"6768705f5333637265742f56612b6c75653d22305c31253230656e647e78",
	"6768705F5333637265742F56612B6C75653D22305C31253230656E647E78",
	"Z2hwX1MzY3JldC9WYStsdWU9IjBcMSUyMGVuZH54",        /* base64 of it alone */
	"dTpnaHBfUzNjcmV0L1ZhK2x1ZT0iMFwxJTIwZW5kfng=",    /* "u:" before it */
	"eGdocF9TM2NyZXQvVmErbHVlPSIwXDElMjBlbmR+eA==",    /* "x" before it */
	"eGdocF9TM2NyZXQvVmErbHVlPSIwXDElMjBlbmR-eA",      /* the same in base64url */
	"eGdocF9TM2NyZXQvVmErbHVlPSIwXDElMjBlbmR%2BeA%3D", /* and in a query */
};

TEST(every_form_is_covered_at_every_split)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		cleanup_buf struct buf text = BUF_INIT(4096);

		buf_adds(&text, "{\"a\": \"");
		buf_adds(&text, forms[i]);
		buf_adds(&text, "\", \"b\": 1}\n");
		for (size_t step = 1; step <= text.len; step++) {
			cleanup_buf struct buf out = BUF_INIT(4096);
			size_t stars = 0;

			if (feed(text.data, text.len, step, &out) != 1)
				test_fail(__FILE__, __LINE__, "form %zu in steps of %zu: %s", i,
					step, buf_str(&out));
			CHECK_INT(out.len, text.len);
			CHECK(str_starts(buf_str(&out), "{\"a\": \"") &&
				str_ends(buf_str(&out), "\", \"b\": 1}\n"));
			for (size_t k = 0; k < out.len; k++)
				stars += out.data[k] == '*';
			/* In base64 the first and last characters are shared with neighbours. */
			CHECK(stars == strlen(forms[i]) ||
				(i >= 10 && stars + 8 >= strlen(forms[i])));
		}
	}
}

static size_t feed_one(const char *value, const char *text, size_t step, struct buf *out)
{
	cleanup_hidden struct hidden h = hide(&value, 1);
	size_t n = strlen(text), stars = 0;

	for (size_t at = 0; h.r && at < n; at += step)
		scrub_feed(h.r, text + at, MIN_OF(step, n - at), at + step >= n, out);
	for (size_t i = 0; i < out->len; i++)
		stars += out->data[i] == '*';
	return stars;
}

/* Escapes that pair up one way from the beginning and another way from the middle. */
TEST(where_a_stream_is_cut_changes_nothing)
{
	static const char with[] = "sk-9/Va%6c+\"e\\u0041==x", without[] = "n0041/Vb6c-rt+u/25==";
	cleanup_buf struct buf escaped = BUF_INIT(4096);
	const struct {
		const char *value, *before, *text;
		size_t stars;
	} cases[] = {
		{with, "%5c\\", NULL, 6 * (sizeof(with) - 1)},
		{with, "%5c\\\\\\", NULL, 6 * (sizeof(with) - 1)},
		{without, "", "\\n0041/Vb6c-rt%2Bu/25==", sizeof(without) + 1}, /* no line feed */
		{without, "", "\\\\n0041/Vb6c-rt%2Bu/25==", sizeof(without) + 1},
		{without, "", "%6e303034312f5662%336632d72742b752f32353d3d", 0}, /* "n303034" */
		{without, "", "x6e303034312f5662%336632d72742b752f32353d3d",
			2 * (sizeof(without) - 1) + 2},
	};

	for (size_t i = 0; i < sizeof(with) - 1; i++)
		buf_addf(&escaped, "\\u%04x", (unsigned char)with[i]);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup_buf struct buf text = BUF_INIT(4096), whole = BUF_INIT(4096);

		buf_addf(&text, "<%s%s>", cases[i].before,
			cases[i].text ? cases[i].text : buf_str(&escaped));
		CHECK_INT(
			feed_one(cases[i].value, buf_str(&text), text.len, &whole), cases[i].stars);
		for (size_t step = 1; step < text.len; step++) {
			cleanup_buf struct buf out = BUF_INIT(4096);

			feed_one(cases[i].value, buf_str(&text), step, &out);
			if (!str_eq(buf_str(&out), buf_str(&whole)))
				test_fail(__FILE__, __LINE__, "case %zu in steps of %zu: %s", i,
					step, buf_str(&out));
		}
	}
}

/* JSON writes characters beyond 0xffff as two units. */
TEST(pairs_of_units_are_one_character)
{
	static const char value[] = "key-\xf0\x9f\x98\x80-\xf0\x90\x80\x80-0123456789";
	static const struct {
		const char *text;
		bool hidden;
	} cases[] = {
		{"\"key-\\ud83d\\ude00-\\uD800\\uDC00-0123456789\"", true},
		{"\"\\u006bey-\\uD83D\\uDE00-\\ud800\\udc00-01234567\\u00389\"", true},
		{"\"key-%5cud83d%5Cude00-%5cuD800\\uDC00-0123456789\"", true},
		{"\"key-\\\\ud83d\\\\ude00-\\\\uD800\\\\uDC00-0123456789\"", true},
		{"\"key-\xf0\x9f\x98\x80-\\ud800\\udc00-0123456789\"", true},
		{"\"key-\\ude00\\ud83d-\\uD800\\uDC00-0123456789\"",
			false}, /* in the wrong order */
		{"\"key-\\ud83d-\\uD800\\uDC00-0123456789\"", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t step = 1; step <= strlen(cases[i].text); step++) {
			cleanup_buf struct buf out = BUF_INIT(4096);
			size_t stars = feed_one(value, cases[i].text, step, &out);

			CHECK_INT(out.len, strlen(cases[i].text));
			if (stars != (cases[i].hidden ? out.len - 2 : 0))
				test_fail(__FILE__, __LINE__, "case %zu in steps of %zu: %s", i,
					step, buf_str(&out));
		}
}

/* In capitals, in small letters, and as forms of web pages are sent. */
TEST(case_and_blanks_do_not_hide_a_value)
{
	static const char value[] = "Pass Phrase+With \"Blanks\" 0aF";
	static const char *const cases[] = {
		"PASS PHRASE+WITH \"BLANKS\" 0AF", "pass phrase+with \"blanks\" 0af",
		"Pass+Phrase%2BWith+%22Blanks%22+0aF", "Pass+Phrase%2bWith+%22BLANKS%22%200aF",
		"Pass%20Phrase+With%20%22Blanks%22%200aF",
		"PASS+PHRASE\\u002bWITH+\\u0022BLANKS\\\"+0AF",
		"50617373205068726173652B576974682022426c616e6B732220306146",
		"UGFzcyBQaHJhc2UrV2l0aCAiQmxhbmtzIiAwYU", /* base64, less what the neighbours decide */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t step = 1; step <= strlen(cases[i]); step++) {
			cleanup_buf struct buf out = BUF_INIT(4096);

			if (feed_one(value, cases[i], step, &out) != strlen(cases[i]))
				test_fail(__FILE__, __LINE__, "case %zu in steps of %zu: %s", i,
					step, buf_str(&out));
		}
}

TEST(the_longest_value_is_covered_whole)
{
	cleanup_buf struct buf out = BUF_INIT(4096), text = BUF_INIT(4096);

	buf_addf(&text, "<%s> <%s>", second, token);
	for (size_t step = 1; step <= text.len; step++) {
		buf_reset(&out);
		feed(text.data, text.len, step, &out);
		CHECK(!strstr(buf_str(&out), "ghp") && !strstr(buf_str(&out), "longer") &&
			!strstr(buf_str(&out), "end"));
		CHECK_INT(out.len, text.len);
		CHECK(str_ends(buf_str(&out), ">"));
	}
}

TEST(other_text_is_given_out_as_it_came)
{
	static const char text[] =
		"data: {\"delta\": \"hello\\nworld\\u0020%20\"}\n\nghp_S3cret/Va+lue ghp_ 100% \\";
	uint32_t x = 3;

	for (size_t step = 1; step < sizeof(text); step++) {
		cleanup_buf struct buf out = BUF_INIT(4096);

		CHECK_INT(feed(text, sizeof(text) - 1, step, &out), 0);
		CHECK_STR(buf_str(&out), text);
	}
	for (int round = 0; round < 50; round++) {
		cleanup_buf struct buf out = BUF_INIT(1u << 20);
		char noise[10000];

		for (size_t i = 0; i < sizeof(noise); i++) {
			x = x * 1664525u + 1013904223u;
			noise[i] = round % 2 ? (char)(x >> 24) : "%25\\u0067hp_ghp_"[x >> 24 & 15];
		}
		CHECK_INT(feed(noise, sizeof(noise), 777, &out), 0);
		CHECK(out.len == sizeof(noise) && memcmp(out.data, noise, sizeof(noise)) == 0);
	}
}

/* Lines do not wait; what is no line does, whatever it looks like, and then not longer. */
TEST(a_tail_waits_whatever_it_is)
{
	cleanup_hidden struct hidden h = hide_two();
	cleanup_buf struct buf out = BUF_INIT(65536);
	size_t tail = 2 * (sizeof(second) - 1) - 1; /* hexadecimal, less one */
	char plain[1000];

	CHECK(h.r);
	for (int i = 0; i < 100; i++) {
		buf_reset(&out);
		scrub_feed(h.r, "data: ghp_\n\n", 12, false, &out);
		CHECK_STR(buf_str(&out), "data: ghp_\n\n");
		CHECK(!scrub_waits(h.r));
	}
	memset(plain, 'z', sizeof(plain));
	buf_reset(&out);
	scrub_feed(h.r, plain, sizeof(plain), false, &out);
	CHECK_INT(out.len, sizeof(plain) - tail);
	scrub_feed(h.r, plain, 10, false, &out);
	CHECK_INT(out.len, sizeof(plain) - tail + 10);
	CHECK(scrub_waits(h.r));
	scrub_release(h.r, &out);
	CHECK_INT(out.len, sizeof(plain) + 10);
	CHECK(!scrub_waits(h.r));
	scrub_feed(h.r, "z", 1, false, &out);
	CHECK_INT(out.len, sizeof(plain) + 10);
	scrub_feed(h.r, "", 0, true, &out);
	CHECK_INT(out.len, sizeof(plain) + 11);
}

/* Of a value that was released in part the rest is covered, in every form, wherever it was cut. */
TEST(a_release_does_not_lose_a_value)
{
	cleanup_hidden struct hidden h = hide_two();

	CHECK(h.r);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		for (size_t cut = 1; cut + 8 < strlen(forms[i]); cut++) {
			cleanup_buf struct buf out = BUF_INIT(4096);

			scrub_feed(h.r, "{\"a\": \"", 7, false, &out);
			scrub_feed(h.r, forms[i], cut, false, &out);
			scrub_release(h.r, &out);
			CHECK_INT(out.len, cut + 7);
			scrub_feed(h.r, forms[i] + cut, strlen(forms[i]) - cut, false, &out);
			scrub_feed(h.r, "\"}", 2, true, &out);
			CHECK_INT(out.len, strlen(forms[i]) + 9);
			if (!str_starts(buf_str(&out) + 7 + cut, i < 10 ? "*" : "") ||
				!strstr(buf_str(&out) + 7 + cut, "*****"))
				test_fail(__FILE__, __LINE__, "form %zu cut at %zu: %s", i, cut,
					buf_str(&out));
		}
}

/* Values that come while streams are under way are looked for in them; nothing waits without any. */
TEST(values_come_and_go)
{
	cleanup_hidden struct hidden h = hide(NULL, 0);
	cleanup_buf struct buf out = BUF_INIT(65536);

	CHECK(h.r);
	scrub_feed(h.r, "ghp_S3", 6, false, &out);
	CHECK_STR(buf_str(&out), "ghp_S3");
	CHECK(scrubber_add(h.d, token, sizeof(token) - 1));
	CHECK(scrubber_add(h.d, token, sizeof(token) - 1));
	scrub_feed(h.r, " abc ", 5, false, &out);
	CHECK(scrubber_add(h.d, "another-value-0123", 18));
	scrub_feed(h.r, "another-value-0123", 18, false, &out);
	scrub_feed(h.r, token, sizeof(token) - 1, true, &out);
	CHECK(str_starts(buf_str(&out), "ghp_S3 abc ****") && str_ends(buf_str(&out), "*****"));
	CHECK(!strstr(buf_str(&out), "another") && !strstr(buf_str(&out), "end"));
	scrub_feed(h.r, "abc", 3, false, &out);
	CHECK_INT(scrubber_reset(h.d), 0);
	buf_reset(&out);
	scrub_feed(h.r, "def", 3, false, &out);
	CHECK_STR(buf_str(&out), "abcdef");
}

#define STREAMS 1024

/* 64 values and 1,024 connections: what is compiled is there once, and nothing of it is a value. */
TEST(streams_share_what_is_compiled)
{
	static const char text[] = "{\\\"a\\\": \\\"b\\u0041 %20 without an end of line\\\"} ";
	static struct scrub *r[STREAMS];
	static struct values v;
	struct scrubber *d = scrubber_new();
	size_t before;

	CHECK(d && values_init(&v) == 0);
	for (unsigned i = 0; i < 64; i++) {
		char value[64];

		snprintf(value, sizeof(value), "ghp_%02uAbCdEfGh0123456789XyZwVuTsRqPoNm", i);
		CHECK(scrubber_add(d, value, strlen(value)));
		CHECK(values_add(&v, value, strlen(value)));
		CHECK(!memmem(&v, sizeof(v), value + 4, 8));
		values_fold((uint8_t *)value, (uint8_t *)value, strlen(value));
		CHECK(!memmem(&v, sizeof(v), value + 4, 8));
	}
	before = mallinfo2().uordblks;
	for (size_t i = 0; i < STREAMS; i++) {
		cleanup_buf struct buf out = BUF_INIT(4096);

		r[i] = scrub_new(d);
		CHECK(r[i]);
		for (int k = 0; k < 20; k++)
			scrub_feed(r[i], text, sizeof(text) - 1, false, &out);
		CHECK(scrub_waits(r[i]));
	}
	CHECK(mallinfo2().uordblks - before < STREAMS * (size_t)(16u << 10));
	for (size_t i = 0; i < STREAMS; i++)
		scrub_free(r[i]);
	scrubber_free(d);
}

TEST(redact_has_limits)
{
	cleanup_free char *big = malloc(VALUE_MAX_B + 1);
	cleanup_buf struct buf out = BUF_INIT(1u << 20), text = BUF_INIT(1u << 20);
	cleanup_hidden struct hidden h = hide(NULL, 0);

	CHECK(big && h.r);
	memset(big, 'a', VALUE_MAX_B + 1);
	CHECK(!scrubber_add(h.d, big, VALUE_MAX_B + 1));
	CHECK(!scrubber_add(h.d, big, VALUE_MIN_B - 1));
	CHECK(scrubber_add(h.d, big, VALUE_MAX_B));
	for (size_t i = 0; i < VALUE_MAX_B; i++)
		buf_adds(&text, "\\u0061");
	for (size_t at = 0; at < text.len; at += 1000)
		scrub_feed(h.r, text.data + at, MIN_OF((size_t)1000, text.len - at), false, &out);
	scrub_feed(h.r, "b", 1, true, &out);
	CHECK_INT(out.len, text.len + 1);
	CHECK(!memchr(out.data, 'a', out.len) && !memchr(out.data, '0', out.len));
	for (unsigned i = 1; i < VALUES_MAX; i++) {
		char value[24];

		snprintf(value, sizeof(value), "value-number-%06u", i);
		CHECK(scrubber_add(h.d, value, strlen(value)));
	}
	CHECK(!scrubber_add(h.d, "one-more-than-there-may-be", 26));
	buf_reset(&out);
	scrub_feed(h.r, "value-number-000001 value-number-000127", 39, true, &out);
	CHECK_STR(buf_str(&out), "******************* *******************");
	scrub_free(NULL);
	scrubber_free(NULL);
}
