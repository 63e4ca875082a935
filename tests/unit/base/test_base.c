/* SPDX-License-Identifier: Apache-2.0 */
/* base: buffers, text, JSON, errors, digests. */
#include "test.h"

#include <errno.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

TEST(base64_both_ways)
{
	static const char *const plain[] = {"a", "ab", "abc", "abcd", "user:pass", "\xff\x00\x10"};
	char text[64], back[64];

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		size_t len = strlen(plain[i]);

		base64_encode(text, plain[i], len);
		CHECK_INT(base64_decode(back, sizeof(back), text, base64_len(len)), (long)len);
		CHECK(memcmp(back, plain[i], len) == 0);
	}
	CHECK_INT(base64_decode(back, sizeof(back), "YWI", 3), -1);
	CHECK_INT(base64_decode(back, sizeof(back), "YW=I", 4), -1);
	CHECK_INT(base64_decode(back, sizeof(back), "Y===", 4), -1);
	CHECK_INT(base64_decode(back, sizeof(back), "YWJ=", 4), -1); /* bits left over */
	CHECK_INT(base64_decode(back, sizeof(back), "YW I", 4), -1);
	CHECK_INT(base64_decode(back, sizeof(back), "YW-_", 4), -1);
	CHECK_INT(base64_decode(back, 2, "YWJj", 4), -1);
	CHECK_INT(base64_decode(back, 3, "YWJj", 4), 3);
}

TEST(buf_has_a_maximum_and_sticky_failure)
{
	cleanup_buf struct buf b = BUF_INIT(4);

	buf_adds(&b, "abcd");
	CHECK(!b.failed);
	buf_addc(&b, 'e');
	CHECK(b.failed);
	CHECK_STR(buf_str(&b), "abcd");
	CHECK(buf_take(&b) == NULL);
}

TEST(utf8_rejects_overlong_surrogates_and_truncation)
{
	CHECK_INT(utf8_len("\xc0\xaf", 2), 0);
	CHECK_INT(utf8_len("\xed\xa0\x80", 3), 0);
	CHECK_INT(utf8_len("\xf4\x90\x80\x80", 4), 0);
	CHECK_INT(utf8_len("\xe2\x82", 2), 0);
	CHECK_INT(utf8_len("\xe2\x82\xac", 3), 3);
}

TEST(show_makes_terminal_and_bidi_text_harmless)
{
	cleanup_buf struct buf b = BUF_INIT(256);

	str_show(&b, "a\033[2J\xe2\x80\xae\xff", 9);
	CHECK_STR(buf_str(&b), "a\\x1b[2J\\u{202e}\\xff");
}

static const char *shown(struct buf *b, const char *s)
{
	buf_reset(b);
	str_show(b, s, strlen(s));
	return buf_str(b);
}

TEST(show_follows_the_unicode_property)
{
	/* One of each kind: format, tag, variation selector, filler, unassigned, private, separators. */
	static const struct {
		const char *raw, *want;
	} all[] = {{"a\u200bb", "a\\u{200b}b"}, {"a\U000e0041b", "a\\u{e0041}b"},
		{"a\ufe0fb", "a\\u{fe0f}b"}, {"a\U000e0100b", "a\\u{e0100}b"},
		{"a\u3164b", "a\\u{3164}b"}, {"a\u115fb", "a\\u{115f}b"},
		{"a\uffa0b", "a\\u{ffa0}b"}, {"a\u034fb", "a\\u{34f}b"},
		{"a\u17b5b", "a\\u{17b5}b"}, {"a\u180eb", "a\\u{180e}b"},
		{"a\ue000b", "a\\u{e000}b"}, {"a\uffffb", "a\\u{ffff}b"},
		{"a\u2028b", "a\\u{2028}b"}, {"a\U000110bdb", "a\\u{110bd}b"},
		{"a\U0001d173b", "a\\u{1d173}b"}, {"a\u0600b", "a\\u{600}b"},
		{"a\u00a0b", "a\\u{a0}b"}, {"a\u3000b", "a\\u{3000}b"}, {"a\u2800b", "a\\u{2800}b"},
		{"a b", "a b"}, {"\u00e9\u4e2d", "\u00e9\u4e2d"}, {"\U0001f600", "\U0001f600"},
		{"\u0301", "\u0301"}};
	cleanup_buf struct buf b = BUF_INIT(256);

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		CHECK_STR(shown(&b, all[i].raw), all[i].want);
	buf_reset(&b);
	str_show_text(&b, "a\u3000b\u200bc", strlen("a\u3000b\u200bc"));
	CHECK_STR(buf_str(&b), "a\u3000b\\u{200b}c");
}

static const char *typed(struct buf *b, const char *s)
{
	buf_reset(b);
	return str_shell(b, s, strlen(s)) ? buf_str(b) : "no";
}

TEST(a_word_for_the_shell_is_quoted_when_needed)
{
	cleanup_buf struct buf b = BUF_INIT(1024);

	CHECK_STR(typed(&b, "/usr/share/a-b_c.d+e"), "/usr/share/a-b_c.d+e");
	CHECK_STR(typed(&b, "/etc/$(id)"), "'/etc/$(id)'");
	CHECK_STR(typed(&b, "/it's"), "'/it'\\''s'");
	CHECK_STR(typed(&b, "-x"), "'-x'");
	CHECK_STR(typed(&b, ""), "''");
	CHECK_STR(typed(&b, "~/x"), "'~/x'");
	CHECK_STR(typed(&b, "a=b"), "'a=b'");
	CHECK_STR(typed(&b, "/\u00e9"), "'/\u00e9'");
	CHECK_STR(typed(&b, "/\033'%\\$(id)\u202e"),
		"\"$(printf '/\\033'\\''%%\\134$(id)\\342\\200\\256')\"");
	CHECK_STR(typed(&b, "/a\n"), "no");
	CHECK_STR(typed(&b, "/a\nb"), "\"$(printf '/a\\012b')\"");
}

TEST(sizes_and_durations)
{
	uint64_t v = 0;

	CHECK(str_size("1.5G", &v));
	CHECK_INT(v, 1610612736);
	CHECK(str_size("64KiB", &v));
	CHECK_INT(v, 65536);
	CHECK(!str_size("-1", &v));
	CHECK(!str_size("1X", &v));
	CHECK(!str_size("99999999999999T", &v));
	CHECK(str_duration("500ms", &v));
	CHECK_INT(v, 500);
	CHECK(str_duration("2h", &v));
	CHECK_INT(v, 7200000);
	CHECK(!str_duration("10 s", &v));
	CHECK(!str_u64("18446744073709551616", UINT64_MAX, &v));
}

TEST(nearest_name_helps_but_does_not_guess_wildly)
{
	static const char *const names[] = {"filesystem", "environment", "limits"};

	CHECK_STR(str_nearest("filesytem", names, 3), "filesystem");
	CHECK(str_nearest("zzz", names, 3) == NULL);
}

TEST(json_is_valid_whatever_comes_in)
{
	cleanup_buf struct buf b = BUF_INIT(256);
	struct json j;

	json_init(&j, &b, false);
	json_object(&j, NULL);
	json_str(&j, "k\"", "\x01\xff\n");
	json_array(&j, "a");
	json_int(&j, NULL, -1);
	json_fixed(&j, NULL, 1005, 3);
	json_end(&j);
	json_end(&j);
	CHECK_STR(buf_str(&b), "{\"k\\\"\":\"\\u0001\\ufffd\\n\",\"a\":[-1,1.005]}");
}

TEST(errors_read_as_one_sentence)
{
	struct err e = ERR_INIT;

	CHECK_INT(err_set(&e, ENOENT, "open %s", "/x"), -ENOENT);
	CHECK_INT(err_wrap(&e, "start"), -ENOENT);
	CHECK_STR(e.msg, "start: open /x: No such file or directory");
	CHECK_INT(err_exit_code(&e), 125);
	err_refuse(&e, "no");
	CHECK_INT(err_exit_code(&e), 126);
}

TEST(digest_matches_the_standard_vector)
{
	struct digest d;

	digest_sha256(&d, "abc", 3);
	CHECK_STR(d.hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(wildcards_match_names)
{
	CHECK(str_wild("LC_*", "LC_ALL"));
	CHECK(str_wild("*", ""));
	CHECK(!str_wild("LC_*", "LANG"));
	CHECK(str_wild("a?c*e", "abcde"));
}

TEST(lists_are_copied_whole_and_written_as_json)
{
	cleanup_buf struct buf b = BUF_INIT(256);
	cleanup_strlist struct strlist from = STRLIST_INIT(4), to = STRLIST_INIT(1);
	struct json j;

	CHECK(strlist_add(&from, "a\"") && strlist_add(&from, "") && strlist_add(&to, "old"));
	CHECK(strlist_copy(&to, &from));
	CHECK_INT(to.n, 2);
	CHECK_INT(to.max, 4);
	CHECK(to.v[0] != from.v[0]);
	json_init(&j, &b, false);
	json_object(&j, NULL);
	json_list(&j, "l", &to);
	strlist_done(&to);
	json_list(&j, "none", &to);
	json_end(&j);
	CHECK_STR(buf_str(&b), "{\"l\":[\"a\\\"\",\"\"],\"none\":[]}");
}

TEST(hexadecimal_digits_are_counted_to_the_end)
{
	CHECK(str_hex("0af9", 4, 4));
	CHECK(str_hex("0af9", 1, 40));
	CHECK(!str_hex("", 1, 40));
	CHECK(!str_hex("0af9", 5, 40));
	CHECK(!str_hex("0af9", 1, 3));
	CHECK(!str_hex("0aF9", 4, 4));
	CHECK(!str_hex("0af9\n", 4, 4));
	CHECK(!str_hex("0af9/..", 4, 4));
}
