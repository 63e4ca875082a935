/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/placeholder: made, and found in every encoding, at every split; and not found where there is
 * none.
 */
#include "test.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "secret/placeholder.h"

static const uint8_t seed[32] = {7, 1, 2, 3};

/* Three placeholders of different lengths, the last as long as they come. */
static char words[3][PLACEHOLDER_MAX];
static const size_t lens[3] = {PLACEHOLDER_MIN, 40, PLACEHOLDER_MAX};
static const char *const names[3] = {"A_TOKEN", "B_TOKEN", "C_TOKEN"};

static struct placeholder_set *set_of_three(void)
{
	const char *v[3];

	for (size_t i = 0; i < 3; i++) {
		placeholder_make(words[i], lens[i], seed, names[i]);
		v[i] = words[i];
	}
	return placeholder_set_new(v, lens, 3);
}

TEST(placeholders_are_of_their_run_their_name_and_their_length)
{
	char a[64], b[64], c[64], d[64], e[64];
	uint8_t other[32] = {8};

	placeholder_make(a, 40, seed, "X");
	placeholder_make(b, 40, seed, "X");
	placeholder_make(c, 40, seed, "Y");
	placeholder_make(d, 40, other, "X");
	placeholder_make(e, 41, seed, "X");
	CHECK(memcmp(a, b, 40) == 0);
	CHECK(memcmp(a, c, 40) != 0 && memcmp(a, d, 40) != 0 && memcmp(a, e, 40) != 0);
	CHECK(memcmp(a, "croft", 5) == 0);
	for (size_t i = 0; i < 40; i++)
		CHECK((a[i] >= 'a' && a[i] <= 'z') || (a[i] >= 'A' && a[i] <= 'Z') ||
			(a[i] >= '0' && a[i] <= '9'));
	memset(a, '!', sizeof(a));
	placeholder_make(a, 16, seed, "X");
	CHECK_INT(a[16], '!');
}

TEST(sets_have_limits)
{
	const char *v[PLACEHOLDERS_MAX + 1];
	size_t n[PLACEHOLDERS_MAX + 1];
	struct placeholder_set *s;
	struct placeholder_scan scan = {0};

	for (size_t i = 0; i <= PLACEHOLDERS_MAX; i++) {
		v[i] = "croft0123456789abcdef";
		n[i] = 21;
	}
	CHECK(!placeholder_set_new(v, n, PLACEHOLDERS_MAX + 1));
	s = placeholder_set_new(v, n, PLACEHOLDERS_MAX);
	CHECK(s);
	placeholder_set_free(s);
	n[0] = PLACEHOLDER_MIN - 1;
	CHECK(!placeholder_set_new(v, n, 1));
	s = placeholder_set_new(v, n, 0);
	CHECK(s);
	CHECK_INT(placeholder_find(s, &scan, "croft0123456789abcdef", 21), -1);
	placeholder_set_free(s);
	placeholder_set_free(NULL);
}

/* ---- encodings ---- */

static void base64(struct buf *out, const char *p, size_t n, bool url)
{
	const char *letters =
		url ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		    : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)(unsigned char)p[i] << 16;

		v |= i + 1 < n ? (unsigned)(unsigned char)p[i + 1] << 8 : 0;
		v |= i + 2 < n ? (unsigned)(unsigned char)p[i + 2] : 0;
		buf_addc(out, letters[v >> 18]);
		buf_addc(out, letters[v >> 12 & 63]);
		buf_addc(out, i + 1 < n ? letters[v >> 6 & 63] : '=');
		buf_addc(out, i + 2 < n ? letters[v & 63] : '=');
	}
}

enum form {
	PLAIN,
	PERCENT,
	PERCENT_MIX,
	PERCENT_TWICE,
	PERCENT_THRICE,
	JSON,
	JSON_MIX,
	JSON_TWICE,
	JSON_IN_PERCENT,
	CROSSED,
	MIX,
	BASE64_0,
	BASE64_1,
	BASE64_2,
	BASE64URL_0,
	BASE64URL_1,
	BASE64URL_2,
	BASE64_IN_PERCENT,
	HEX,
	HEX_UPPER,
	FORM_NUM
};

static void mixed(struct buf *out, enum form f, size_t i, unsigned char c)
{
	static const struct {
		const char *before;
		int digits;
	} forms[] = {[PERCENT] = {"%", 2},
		[PERCENT_MIX] = {"%", 2},
		[PERCENT_TWICE] = {"%25", 2},
		[PERCENT_THRICE] = {"%2525", 2},
		[JSON] = {"\\u", 4},
		[JSON_MIX] = {"\\u", 4},
		[JSON_TWICE] = {"\\\\u", 4},
		[JSON_IN_PERCENT] = {"%5cu", 4}};
	static const enum form turns[] = {PERCENT, JSON, PERCENT_TWICE, PLAIN, JSON_TWICE};
	enum form turn = f == MIX ? turns[i % ARRAY_SIZE(turns)] : f;

	if (turn == CROSSED) /* an escape whose digits are escaped and whose mark is not */
		buf_addf(out, "%%%%%02x%%%02x", (unsigned)"0123456789abcdef"[c >> 4],
			(unsigned)"0123456789abcdef"[c & 15]);
	else if (turn == PLAIN || ((f == PERCENT_MIX || f == JSON_MIX) && i % 3))
		buf_addc(out, (char)c);
	else
		buf_addf(out, i % 2 ? "%s%0*x" : "%s%0*X", forms[turn].before, forms[turn].digits,
			c);
}

static void encode(struct buf *out, enum form f, const char *w, size_t n)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);

	if (f >= BASE64_0 && f <= BASE64_IN_PERCENT) {
		unsigned before = f == BASE64_IN_PERCENT ? 1 : (unsigned)(f - BASE64_0) % 3;

		buf_add(&b, "\xff:", before);
		buf_add(&b, w, n);
		buf_adds(&b, "tail");
		if (f != BASE64_IN_PERCENT) {
			base64(out, b.data, b.len, f >= BASE64URL_0);
			return;
		}
		cleanup_buf struct buf c = BUF_INIT(1u << 20);

		base64(&c, b.data, b.len, false);
		for (size_t i = 0; i < c.len; i++)
			buf_addf(out, strchr("+/=", c.data[i]) ? "%%%02X" : "%c", c.data[i]);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (f == HEX || f == HEX_UPPER)
			buf_addf(out, f == HEX ? "%02x" : "%02X", (unsigned char)w[i]);
		else
			mixed(out, f, i, (unsigned char)w[i]);
	}
}

TEST(every_encoding_is_found_at_every_split)
{
	struct placeholder_set *set = set_of_three();

	CHECK(set);
	for (size_t i = 0; i < 2; i++) {
		for (int f = PLAIN; f < FORM_NUM; f++) {
			cleanup_buf struct buf b = BUF_INIT(1u << 20);

			buf_adds(&b, "{\"k\": \"%c%");
			encode(&b, f, words[i], lens[i]);
			buf_adds(&b, "\"}");
			for (size_t cut = 0; cut <= b.len; cut++) {
				struct placeholder_scan s = {0};
				int who = placeholder_find(set, &s, b.data, cut);

				if (who < 0)
					who = placeholder_find(set, &s, b.data + cut, b.len - cut);
				if (who != (int)i)
					test_fail(__FILE__, __LINE__,
						"form %d, word %zu, split %zu", f, i, cut);
				CHECK_INT(who, i);
				placeholder_scan_done(&s);
			}
		}
	}
	placeholder_set_free(set);
}

TEST(every_encoding_is_found_byte_by_byte_and_in_bulk)
{
	struct placeholder_set *set = set_of_three();
	size_t pad = 10000;

	CHECK(set);
	for (size_t i = 0; i < 3; i++) {
		for (int f = PLAIN; f < FORM_NUM; f++) {
			cleanup_buf struct buf b = BUF_INIT(1u << 20);
			struct placeholder_scan s = {0};
			int who = -1;

			for (size_t j = 0; j < pad; j++)
				buf_addc(&b, "ab%\\cro\n "[j % 9]);
			encode(&b, f, words[i], lens[i]);
			CHECK_INT(placeholder_find(set, &s, b.data, b.len), i);
			placeholder_scan_done(&s);
			for (size_t at = pad - 100; at < b.len && who < 0; at++)
				who = placeholder_find(set, &s, b.data + at, 1);
			CHECK_INT(who, i);
		}
	}
	placeholder_set_free(set);
}

TEST(what_is_no_placeholder_is_not_found)
{
	struct placeholder_set *set = set_of_three();
	uint32_t x = 1;

	CHECK(set);
	for (int f = PLAIN; f < FORM_NUM; f++) {
		cleanup_buf struct buf b = BUF_INIT(1u << 20);
		struct placeholder_scan s = {0};
		char other[40];

		memcpy(other, words[1], 40);
		other[12] = other[12] == 'x' ? 'y' : 'x';
		encode(&b, f, other, 40);
		encode(&b, f, words[0], lens[0] - 1); /* cut short */
		buf_adds(&b, " ");
		CHECK_INT(placeholder_find(set, &s, b.data, b.len), -1);
		/* The stream goes on and then does hold one. */
		CHECK_INT(placeholder_find(set, &s, words[1], 40), 1);
	}
	for (int round = 0; round < 200; round++) {
		struct placeholder_scan s = {0};
		uint8_t noise[5000];

		for (size_t i = 0; i < sizeof(noise); i++) {
			x = x * 1664525u + 1013904223u;
			noise[i] = round % 2 ? (uint8_t)(x >> 24)
					     : (uint8_t) "%25\\u0063croft"[(x >> 24) % 14];
		}
		CHECK_INT(placeholder_find(set, &s, noise, sizeof(noise)), -1);
		CHECK_INT(placeholder_find(set, &s, noise, sizeof(noise)), -1);
	}
	placeholder_set_free(set);
}

TEST(a_gap_between_writes_is_not_bridged)
{
	struct placeholder_set *set = set_of_three();
	struct placeholder_scan s = {0};

	CHECK(set);
	CHECK_INT(placeholder_find(set, &s, words[1], 10), -1);
	CHECK_INT(placeholder_find(set, &s, " ", 1), -1);
	CHECK_INT(placeholder_find(set, &s, words[1] + 10, 30), -1);
	placeholder_scan_done(&s);
	CHECK_INT(placeholder_find(set, &s, words[1], 10), -1);
	CHECK_INT(placeholder_find(set, &s, "", 0), -1);
	CHECK_INT(placeholder_find(set, &s, words[1] + 10, 30), 1);
	placeholder_set_free(set);
}

TEST(one_placeholder_does_not_hide_another)
{
	struct placeholder_set *set = set_of_three();
	struct placeholder_scan s = {0};
	cleanup_buf struct buf b = BUF_INIT(1u << 20);

	CHECK(set);
	buf_add(&b, words[1], lens[1]);
	buf_adds(&b, " ");
	encode(&b, JSON_IN_PERCENT, words[0], lens[0]);
	encode(&b, BASE64_1, words[2], lens[2]);
	CHECK_INT(placeholder_find_all(set, &s, b.data, b.len), 7);
	CHECK_INT(placeholder_find(set, &s, b.data, b.len), 0);
	placeholder_scan_done(&s);
	CHECK_INT(placeholder_find_all(set, &s, words[1], lens[1]), 2);
	CHECK_INT(placeholder_find_all(set, &s, "%", 1) & ~2u, 0);
	placeholder_set_free(set);
}
