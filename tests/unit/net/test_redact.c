/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/redact: values are covered however they are written and wherever they are cut; nothing else
 * is.
 */
#include "test.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "net/placeholder.h"

static const char token[] = "ghp_S3cret/Va+lue=\"0\\1%20end~x";
static const char second[] = "ghp_S3cret/Va+lue=\"0\\1%20end~x-and-longer";

static struct redact *redact_two(void)
{
	const char *v[2] = {token, second};
	size_t n[2] = {sizeof(token) - 1, sizeof(second) - 1};

	return redact_new(v, n, 2);
}

/* All of `text` in pieces of `step`; what came out is in out. */
static size_t feed(const char *text, size_t n, size_t step, struct buf *out)
{
	struct redact *r = redact_two();
	size_t replaced = 0;

	if (!r)
		return SIZE_MAX;
	for (size_t at = 0; at < n; at += step)
		replaced += redact_feed(r, text + at, MIN_OF(step, n - at), at + step >= n, out);
	redact_free(r);
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
	size_t n = strlen(text), len = strlen(value), stars = 0;
	struct redact *r = redact_new(&value, &len, 1);

	for (size_t at = 0; r && at < n; at += step)
		redact_feed(r, text + at, MIN_OF(step, n - at), at + step >= n, out);
	redact_free(r);
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

TEST(other_text_is_given_out_as_it_came_and_at_once)
{
	static const char text[] =
		"data: {\"delta\": \"hello\\nworld\\u0020%20\"}\n\nghp_S3cret/Va+lue ghp_ 100% \\";
	struct redact *r = redact_two();
	uint32_t x = 3;

	CHECK(r);
	for (size_t step = 1; step < sizeof(text); step++) {
		cleanup_buf struct buf out = BUF_INIT(4096);

		CHECK_INT(feed(text, sizeof(text) - 1, step, &out), 0);
		CHECK_STR(buf_str(&out), text);
	}
	for (int i = 0; i < 100; i++) {
		cleanup_buf struct buf out = BUF_INIT(1u << 20);

		/* A line that ends in nothing that begins a value does not wait. */
		CHECK_INT(redact_feed(r, "data: x\n\n", 9, false, &out), 0);
		CHECK_STR(buf_str(&out), "data: x\n\n");
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
	redact_free(r);
}

TEST(what_may_be_a_value_waits_and_then_does_not)
{
	struct redact *r = redact_two();
	cleanup_buf struct buf out = BUF_INIT(4096);

	CHECK(r);
	redact_feed(r, "abc ghp_S3c", 11, false, &out);
	CHECK_STR(buf_str(&out), "abc ");
	redact_feed(r, "on.", 3, false, &out);
	CHECK_STR(buf_str(&out), "abc ghp_S3con.");
	redact_feed(r, "%6", 2, false, &out);
	CHECK_STR(buf_str(&out), "abc ghp_S3con.");
	redact_feed(r, "", 0, true, &out);
	CHECK_STR(buf_str(&out), "abc ghp_S3con.%6");
	redact_free(r);
}

TEST(redact_has_limits)
{
	cleanup_free char *big = malloc(PLACEHOLDER_MAX + 1);
	cleanup_buf struct buf out = BUF_INIT(1u << 20), text = BUF_INIT(1u << 20);
	const char *v[1] = {big};
	size_t n = PLACEHOLDER_MAX + 1;
	struct redact *r;

	CHECK(big);
	memset(big, 'a', PLACEHOLDER_MAX + 1);
	CHECK(!redact_new(v, &n, 1));
	n = PLACEHOLDER_MIN - 1;
	CHECK(!redact_new(v, &n, 1));
	n = PLACEHOLDER_MAX;
	r = redact_new(v, &n, 1);
	CHECK(r);
	for (size_t i = 0; i < PLACEHOLDER_MAX; i++)
		buf_adds(&text, "\\u0061");
	for (size_t at = 0; at < text.len; at += 1000)
		redact_feed(r, text.data + at, MIN_OF((size_t)1000, text.len - at), false, &out);
	redact_feed(r, "b", 1, true, &out);
	CHECK_INT(out.len, text.len + 1);
	CHECK(!memchr(out.data, 'a', out.len) && !memchr(out.data, '0', out.len));
	redact_free(r);
	r = redact_new(v, &n, 0);
	CHECK(r);
	buf_reset(&out);
	CHECK_INT(redact_feed(r, big, 100, false, &out), 0);
	CHECK_INT(out.len, 100);
	redact_free(r);
	redact_free(NULL);
}
