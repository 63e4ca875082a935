/* SPDX-License-Identifier: Apache-2.0 */
/* base/pack: what is packed comes back, and no bytes make a reader go past their end. */
#include "test.h"

#include <limits.h>

#include "base/pack.h"

TEST(numbers_are_little_endian)
{
	cleanup_buf struct buf b = BUF_INIT(64);
	struct unpack u;

	pack_u32(&b, 0x01020384u);
	pack_u64(&b, 0xf102030405060708u);
	CHECK_INT(b.len, 12);
	CHECK(memcmp(b.data, "\x84\x03\x02\x01\x08\x07\x06\x05\x04\x03\x02\xf1", 12) == 0);
	u = unpack_of(b.data, b.len);
	CHECK_INT(unpack_u32(&u), 0x01020384);
	CHECK(!unpack_good(&u)); /* something is left over */
	CHECK(unpack_u64(&u) == 0xf102030405060708u);
	CHECK(unpack_good(&u));
	CHECK_INT(unpack_u32(&u), 0);
	CHECK(u.bad && !unpack_good(&u));
}

TEST(strings_and_bytes_come_back)
{
	cleanup_buf struct buf b = BUF_INIT(256);
	struct unpack u;
	const char *p;
	size_t n;

	pack_str(&b, "caf\xe9\n");
	pack_str(&b, NULL);
	pack_bytes(&b, "a\0b", 3);
	pack_bytes(&b, NULL, 0);
	u = unpack_of(b.data, b.len);
	CHECK_STR(unpack_str(&u, 5), "caf\xe9\n");
	CHECK_STR(unpack_str(&u, 0), "");
	p = unpack_bytes(&u, 3, &n);
	CHECK(p && n == 3 && memcmp(p, "a\0b", 4) == 0);
	p = unpack_bytes(&u, 0, &n);
	CHECK(p && n == 0 && *p == '\0');
	CHECK(unpack_good(&u));
}

TEST(text_has_a_maximum_a_nul_after_it_and_none_in_it)
{
	static const char long_[] = "\x03\0\0\0abc", other[] = "\x03\0\0\0abcd",
			  nul[] = "\x03\0\0\0a\0c";
	struct unpack u = unpack_of(long_, sizeof(long_));
	size_t n = 9;

	CHECK_STR(unpack_str(&u, 2), "");
	CHECK(u.bad);
	u = unpack_of(long_, sizeof(long_));
	CHECK_STR(unpack_str(&u, 3), "abc");
	CHECK(unpack_good(&u));
	u = unpack_of(other, sizeof(other) - 1);
	CHECK(!unpack_bytes(&u, 9, &n) && n == 0 && u.bad);
	u = unpack_of(nul, sizeof(nul));
	CHECK_STR(unpack_str(&u, 3), "");
	CHECK(u.bad);
	u = unpack_of(nul, sizeof(nul)); /* bytes may have one */
	CHECK(unpack_bytes(&u, 3, &n) && n == 3 && unpack_good(&u));
	/* The longest length there is, and what follows it nowhere. */
	u = unpack_of("\xff\xff\xff\xff"
		      "a",
		6);
	CHECK(!unpack_bytes(&u, SIZE_MAX, &n) && u.bad);
	u = unpack_of("\x01\0\0\0a", 5);
	CHECK(!unpack_bytes(&u, SIZE_MAX, &n) && u.bad);
}

TEST(what_follows_something_bad_is_nothing)
{
	static const char v[] = "\xff\0\0\0abcdabcdabcd\x01\0\0\0a";
	struct unpack u = unpack_of(v, sizeof(v));
	size_t n = 7;

	CHECK_STR(unpack_str(&u, 1000), "");
	CHECK_INT(unpack_u32(&u), 0);
	CHECK(unpack_u64(&u) == 0);
	CHECK_STR(unpack_str(&u, 1000), "");
	CHECK(!unpack_bytes(&u, 1000, &n) && n == 0);
	n = 7;
	CHECK(!unpack_list(&u, 10, 1000, &n) && n == 0);
	CHECK(!unpack_good(&u));
	/* Half of a 64-bit number is none of it. */
	u = unpack_of("abcdabc", 7);
	CHECK(unpack_u64(&u) <= UINT32_MAX && u.bad);
	u = unpack_of(NULL, 0);
	CHECK(unpack_good(&u) && unpack_u32(&u) == 0 && u.bad);
}

static bool list_is(struct unpack *u, const char *const *want, size_t want_n)
{
	size_t n = 99;
	char **v = unpack_list(u, want_n, 64, &n);
	bool same = v && n == want_n && !v[n];

	for (size_t i = 0; same && i < n; i++)
		same = strcmp(v[i], want[i]) == 0;
	free(v);
	return same;
}

TEST(lists_come_back_with_their_empty_strings)
{
	const char *const some[] = {"", "x", "", "\xff\xfe", NULL}, *const none[] = {NULL};
	cleanup_buf struct buf b = BUF_INIT(256);
	struct unpack u;

	pack_list(&b, some);
	pack_list(&b, none);
	pack_list(&b, NULL);
	CHECK(!b.failed);
	u = unpack_of(b.data, b.len);
	CHECK(list_is(&u, some, 4));
	CHECK(list_is(&u, none, 0));
	CHECK(list_is(&u, none, 0));
	CHECK(unpack_good(&u));
}

TEST(lists_have_a_maximum_of_strings_and_of_bytes)
{
	const char *const some[] = {"abc", "de", "", NULL};
	static const struct {
		size_t max, max_b;
		bool good;
	} try[] = {{3, 5, true}, {2, 5, false}, {3, 4, false}, {3, 2, false}, {9, 9, true}};
	cleanup_buf struct buf b = BUF_INIT(256);

	pack_list(&b, some);
	for (size_t i = 0; i < sizeof(try) / sizeof(try[0]); i++) {
		struct unpack u = unpack_of(b.data, b.len);
		size_t n;
		char **v = unpack_list(&u, try[i].max, try[i].max_b, &n);

		CHECK_INT(v != NULL, try[i].good);
		CHECK_INT(unpack_good(&u), try[i].good);
		CHECK_INT(n, try[i].good ? 3 : 0);
		free(v);
	}
	/* A number of strings that the bytes cannot hold asks for no memory. */
	for (size_t i = 0; i < 2; i++) {
		const char *many = i ? "\xff\xff\xff\xff\0\0\0\0" : "\x02\0\0\0\0\0\0\0";
		struct unpack u = unpack_of(many, 9);
		size_t n;

		CHECK(!unpack_list(&u, SIZE_MAX, SIZE_MAX, &n) && u.bad);
	}
}

TEST(every_truncation_is_seen)
{
	const char *const some[] = {"abc", "", "de", NULL};
	cleanup_buf struct buf b = BUF_INIT(256);

	pack_u32(&b, 7);
	pack_u64(&b, 7);
	pack_str(&b, "text");
	pack_list(&b, some);
	for (size_t len = 0; len <= b.len; len++) {
		char *exact = malloc(len ? len : 1); /* a sanitizer sees a read past it */
		struct unpack u = unpack_of(exact, len);
		size_t n;

		CHECK(exact);
		memcpy(exact, b.data, len);
		unpack_u32(&u);
		unpack_u64(&u);
		unpack_str(&u, 100);
		free(unpack_list(&u, 100, 100, &n));
		CHECK_INT(unpack_good(&u), len == b.len);
		free(exact);
	}
}

TEST(a_packer_without_room_fails_once_and_for_all)
{
	char room[8];
	struct buf on = buf_on(room, sizeof(room));
	cleanup_buf struct buf b = BUF_INIT(6);

	CHECK_STR(buf_str(&on), "");
	pack_u32(&on, 1);
	CHECK(!on.failed && on.len == 4 && on.data == room);
	buf_add(&on, "abc", 3);
	CHECK(!on.failed && on.len == 7 && room[7] == '\0'); /* full, with its NUL */
	buf_addc(&on, 'x');
	CHECK(on.failed && on.len == 7 && on.data == room);
	pack_u64(&b, 1);
	CHECK(b.failed);
	buf_reset(&b);
	pack_str(&b, "abc");
	CHECK(b.failed);
}
