/* SPDX-License-Identifier: Apache-2.0 */
/* base/fold: which names are one name to some file system. */
#include "test.h"

#include "base/cleanup.h"
#include "base/fold.h"
#include "base/str.h"

#define ACUTE "\xcc\x81"      /* U+0301, above: class 230 */
#define DIAERESIS "\xcc\x88"  /* U+0308, above: class 230 */
#define DOT_BELOW "\xcc\xa3"  /* U+0323, below: class 220 */
#define IOTA_BELOW "\xcd\x85" /* U+0345, class 240, whose folded form is a letter */

static bool same(const char *a, const char *b)
{
	bool forth = fold_same(a, strlen(a), b, strlen(b));

	return forth == fold_same(b, strlen(b), a, strlen(a)) && forth;
}

static const struct {
	const char *what, *a, *b;
} twins[] = {
	{"nothing", "", ""},
	{"ASCII case", "Makefile", "MAKEFILE"},
	{"e acute, composed and not", "caf\xc3\xa9", "cafe" ACUTE},
	{"and in another case", "caf\xc3\x89.TXT", "Cafe" ACUTE ".txt"},
	{"Angstrom sign, A ring, A and a ring", "\xe2\x84\xab", "\xc3\x85"},
	{"Angstrom sign, taken apart", "\xe2\x84\xab", "a\xcc\x8a"},
	{"Kelvin sign",
		"ma\xe2\x84\xaa"
		"efile",
		"makefile"},
	{"long s", "package.j\xc5\xbfon", "package.json"},
	{"Hangul of two parts", "\xea\xb0\x80", "\xe1\x84\x80\xe1\x85\xa1"},
	{"Hangul of three", "\xed\x95\x9c", "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"},
	{"Hangul: two parts and a third", "\xed\x95\x98\xe1\x86\xab", "\xed\x95\x9c"},
	{"the last syllable", "\xed\x9e\xa3", "\xe1\x84\x92\xe1\x85\xb5\xe1\x87\x82"},
	{"order of marks", "e" DOT_BELOW ACUTE, "e" ACUTE DOT_BELOW},
	{"order of marks, partly composed", "\xe1\xba\xb9" ACUTE, "\xc3\xa9" DOT_BELOW},
	{"a mark that is two", "\xcd\x84", DIAERESIS ACUTE},
	{"a letter of four parts", "\xe1\xbe\x82", "\xce\xb1\xcc\x93\xcc\x80" IOTA_BELOW},
	{"a mark that folds to a letter", "\xce\xb1" IOTA_BELOW ACUTE, "\xce\xb1" ACUTE IOTA_BELOW},
	{"Greek sigma at the end", "\xcf\x82", "\xce\xa3"},
	{"Cyrillic", "\xd0\x99", "\xd0\xb8\xcc\x86"},
	{"Cherokee", "\xea\xad\xb0", "\xe1\x8e\xa0"},
	{"capital sharp s", "\xe1\xba\x9e", "\xc3\x9f"},
	{"beyond U+FFFF", "\xf0\x90\x90\x80", "\xf0\x90\x90\xa8"},
	{"a CJK character encoded twice", "\xef\xa4\x80", "\xe8\xb1\x88"},
	{"bytes that are no character",
		"\xff"
		"A\xc3",
		"\xff"
		"a\xc3"},
	{"characters among such bytes", "\xff\xc3\xa9\xff",
		"\xff"
		"e" ACUTE "\xff"},
};

static const struct {
	const char *what, *a, *b;
} others[] = {
	{"another letter", "a", "b"},
	{"a longer name", "a", "aa"},
	{"nothing and a mark", "", ACUTE},
	{"with and without accent", "cafe", "caf\xc3\xa9"},
	{"another accent", "caf\xc3\xa9", "caf\xc3\xa8"},
	{"order of marks of one class", "e" ACUTE DIAERESIS, "e" DIAERESIS ACUTE},
	{"marks of different letters", "e" ACUTE "a" DOT_BELOW, "e" DOT_BELOW "a" ACUTE},
	{"the fi ligature, a compatibility form", "\xef\xac\x81le", "file"},
	{"a wide letter, another", "\xef\xbc\xa1", "A"},
	{"superscript two", "\xc2\xb2", "2"},
	{"full case folding",
		"stra\xc3\x9f"
		"e",
		"strasse"},
	{"dotless i", "\xc4\xb1", "i"},
	{"Hangul of another syllable", "\xea\xb0\x80", "\xea\xb0\x81"},
	{"Latin a and Cyrillic a", "a", "\xd0\xb0"},
	{"different bytes that are no character", "\xff", "\xfe"},
	{"half of a character", "\xc3", "\xc3\xa9"},
	{"a mark moved over a byte that is none", "\xff" ACUTE DOT_BELOW, ACUTE "\xff" DOT_BELOW},
	{"a surrogate in UTF-8", "\xed\xa0\x80", "\xed\xa0\x81"},
};

TEST(twins_are_the_same)
{
	for (size_t i = 0; i < ARRAY_SIZE(twins); i++)
		if (!same(twins[i].a, twins[i].b))
			test_fail(__FILE__, __LINE__, "%s differ", twins[i].what);
}

TEST(other_names_are_not)
{
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (same(others[i].a, others[i].b))
			test_fail(__FILE__, __LINE__, "%s: the same", others[i].what);
}

/* A key is its own key, and never longer than is said. Nothing is folded beyond U+2FFFF. */
TEST(keys_are_stable_and_bounded)
{
	for (unsigned c = 1; c < 0x30100; c++) {
		char name[16];
		size_t n = utf8_put(name, c);
		cleanup_buf struct buf once = BUF_INIT(FOLD_KEY_MAX_B(n + 4)),
				       twice = BUF_INIT(FOLD_KEY_MAX_B(FOLD_KEY_MAX_B(n + 4)));

		memcpy(name + n, ACUTE DOT_BELOW, 4);
		fold_key(&once, name, n + 4);
		CHECK(!once.failed && once.len <= 3 * (n + 4));
		fold_key(&twice, once.data, once.len);
		if (twice.len != once.len || memcmp(twice.data, once.data, once.len) != 0)
			test_fail(__FILE__, __LINE__, "U+%04X has another key at second sight", c);
	}
}

TEST(many_marks_are_put_in_order)
{
	char a[2 * FOLD_MARKS_MAX + 1], b[2 * FOLD_MARKS_MAX + 1];

	/* as many as a name can have, each kind in one half: first the one, then the other */
	for (size_t i = 0; i < FOLD_MARKS_MAX; i++) {
		memcpy(a + 2 * i, i % 2 ? ACUTE : DOT_BELOW, 2);
		memcpy(b + 2 * i, i < FOLD_MARKS_MAX / 2 ? ACUTE : DOT_BELOW, 2);
	}
	CHECK(fold_same(a, 2 * FOLD_MARKS_MAX, b, 2 * FOLD_MARKS_MAX));
	CHECK(!fold_same(a, 2 * FOLD_MARKS_MAX, b, 2 * FOLD_MARKS_MAX - 2));
}

TEST(a_list_has_twins_side_by_side)
{
	static const char *const names[] = {
		"z", "caf\xc3\xa9", "Readme", "a", ("CAFE" ACUTE), "README", "cafe"};
	cleanup_fold_list struct fold_list l = {0};
	char order[64] = "";

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK(fold_list_add(&l, names[i], &names[i]));
	fold_list_sort(&l);
	for (size_t i = 0; i < l.n; i++)
		snprintf(order + strlen(order), sizeof(order) - strlen(order), "%zu%s ",
			(size_t)((const char *const *)l.v[i].of - names),
			fold_list_twins(&l, i) ? "=" : "");
	CHECK_STR(order, "3 6 4= 1 5= 2 0 ");
	CHECK_INT(fold_list_at(&l, "readme"), 4);
	CHECK_INT(fold_list_at(&l, "b"), 1);
	CHECK_INT(fold_list_at(&l, "zz"), 7);
}
