/* SPDX-License-Identifier: Apache-2.0 */
/* base/jsonread: what RFC 8259 allows is read as meant; everything else is refused. */
#include "test.h"

#include <errno.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/jsonread.h"

static struct jdoc *parse(const char *s)
{
	struct jdoc *d = NULL;
	struct err e = ERR_INIT;

	return jdoc_parse(&d, s, strlen(s), &e) == 0 ? d : NULL;
}

TEST(values_come_back)
{
	cleanup_jdoc struct jdoc *d =
		parse(" {\"b\":[1,-2,{\"x\":null}],\"a\":true,\"\":\"e\",\"c\":false}\r\n");
	const struct jnode *r = jdoc_root(d);
	int64_t v = 0;

	CHECK(d);
	CHECK_INT(jtype(r), JOBJECT);
	CHECK_INT(jlen(r), 4);
	CHECK_STR(jkey(r, 0), "b");
	CHECK_STR(jkey(r, 2), "");
	CHECK(!jkey(r, 4) && !jat(r, 4));
	CHECK(jint(jat(jget(r, "b"), 1), &v));
	CHECK_INT(v, -2);
	CHECK_INT(jtype(jget(jat(jget(r, "b"), 2), "x")), JNULL);
	CHECK(jget(jat(jget(r, "b"), 2), "x") != NULL);
	CHECK(jtrue(jget(r, "a")) && !jtrue(jget(r, "c")));
	CHECK_STR(jstr(jget(r, "")), "e");
	CHECK(!jget(jget(jget(r, "no"), "way"), "out"));
	CHECK(!jstr(jget(r, "a")) && !jint(jget(r, "a"), &v) && !jlen(jget(r, "a")));
	CHECK(!jget(jget(r, "b"), "x") && !jkey(jget(r, "b"), 0));
}

TEST(integers_are_exact)
{
	static const struct {
		const char *text;
		bool whole;
		int64_t v;
	} v[] = {{"0", true, 0}, {"-0", true, 0}, {"9223372036854775807", true, INT64_MAX},
		{"-9223372036854775808", true, INT64_MIN}, {"9223372036854775808", false, 0},
		{"-9223372036854775809", false, 0}, {"99999999999999999999999999", false, 0},
		{"1.0", false, 0}, {"1e2", false, 0}, {"1E+2", false, 0}, {"-1.5e-7", false, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		cleanup_jdoc struct jdoc *d = parse(v[i].text);
		int64_t got = 77;

		CHECK(d);
		CHECK_INT(jtype(jdoc_root(d)), JNUMBER);
		CHECK_INT(jint(jdoc_root(d), &got), v[i].whole);
		CHECK(got == (v[i].whole ? v[i].v : 77));
	}
}

TEST(strings_are_decoded)
{
	cleanup_jdoc struct jdoc *d = parse(
		"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00\xc3\xa9\x7f\"");

	CHECK(d);
	CHECK_STR(jstr(jdoc_root(d)),
		"\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9\x7f");
}

TEST(what_is_not_json_is_refused)
{
	static const char *const v[] = {"", " ", "nul", "nulll", "True", "01", "-", "-a", "+1",
		".5", "1.", "1.e1", "1e", "1e+", "0x1", "NaN", "\"", "\"\\", "\"\\x\"", "\"\\u12\"",
		"\"\\u0000\"", "\"\\ud800\"", "\"\\ud800x\"", "\"\\ud800\\u0041\"", "\"\\udc00\"",
		"\"\\u12g4\"", "\"a\nb\"", "\"\x80\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "[", "[1",
		"[1,", "[1,]", "[,1]", "[1 2]", "]", "{", "{\"a\"", "{\"a\":", "{\"a\":1",
		"{\"a\":1,}", "{a:1}", "{1:1}", "{\"a\" 1}", "1 2", "[]]", "/**/1",
		("\xef\xbb\xbf"
		 "1"),
		"'a'", "{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":1,\"\\u0061\":2}"};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		struct jdoc *d = NULL;
		struct err e = ERR_INIT;

		if (jdoc_parse(&d, v[i], strlen(v[i]), &e) != -EINVAL || d || !e.msg[0]) {
			jdoc_free(d);
			test_fail(__FILE__, __LINE__, "taken: %s", v[i]);
			return;
		}
	}
	/* A NUL is no blank and no end. */
	{
		struct jdoc *d = NULL;
		struct err e = ERR_INIT;

		CHECK_INT(jdoc_parse(&d, "1\0", 2, &e), -EINVAL);
		CHECK_INT(jdoc_parse(&d, "\"\0\"", 3, &e), -EINVAL);
		CHECK_INT(jdoc_parse(&d, "\"\\\0\"", 4, &e), -EINVAL);
	}
}

TEST(same_key_in_other_objects_is_fine)
{
	cleanup_jdoc struct jdoc *d = parse("[{\"a\":1},{\"a\":2,\"b\":{\"a\":3}}]");

	CHECK(d);
}

TEST(depth_has_a_maximum)
{
	for (int depth = JSONREAD_DEPTH_MAX; depth <= JSONREAD_DEPTH_MAX + 1; depth++) {
		cleanup_buf struct buf b = BUF_INIT(4096);
		cleanup_jdoc struct jdoc *d = NULL;
		struct err e = ERR_INIT;

		for (int i = 0; i < depth; i++)
			buf_addc(&b, '[');
		for (int i = 0; i < depth; i++)
			buf_addc(&b, ']');
		CHECK_INT(jdoc_parse(&d, b.data, b.len, &e),
			depth <= JSONREAD_DEPTH_MAX ? 0 : -EINVAL);
	}
}

TEST(large_objects_are_found_quickly_and_exactly)
{
	cleanup_buf struct buf b = BUF_INIT((size_t)16 << 20);
	cleanup_jdoc struct jdoc *d = NULL;
	struct err e = ERR_INIT;
	int64_t v;

	buf_addc(&b, '{');
	for (int i = 0; i < 50000; i++)
		buf_addf(&b, "%s\"k%d\":%d", i ? "," : "", i, i);
	buf_addc(&b, '}');
	CHECK_INT(jdoc_parse(&d, b.data, b.len, &e), 0);
	for (int i = 0; i < 50000; i++) {
		char key[16];

		snprintf(key, sizeof(key), "k%d", i);
		CHECK(jint(jget(jdoc_root(d), key), &v) && v == i);
		CHECK_STR(jkey(jdoc_root(d), (size_t)i), key);
	}
	CHECK(!jget(jdoc_root(d), "k50000"));
}

TEST(too_many_bytes_are_refused)
{
	size_t n = JSONREAD_BYTES_MAX + (size_t)1;
	cleanup_free char *p = malloc(n);
	struct jdoc *d = NULL;
	struct err e = ERR_INIT;

	CHECK(p);
	memset(p, ' ', n);
	p[0] = '1';
	CHECK_INT(jdoc_parse(&d, p, n, &e), -EINVAL);
	CHECK_INT(jdoc_parse(&d, p, n - 1, &e), 0);
	jdoc_free(d);
}
