/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small harness: TEST(name) { CHECK(...); } registers itself; one line per test on stdout
 * ("ok - name", "not ok - name", "skip - name: reason"), which tools/run-tests adds up.
 */
#ifndef CROFT_TESTS_UNIT_TEST_H
#define CROFT_TESTS_UNIT_TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};
extern struct test *test_list;
extern bool test_failed;
extern const char *test_skipped;

void test_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define TEST(id)                                                                                   \
	static void test_##id(void);                                                               \
	__attribute__((constructor)) static void test_register_##id(void)                          \
	{                                                                                          \
		static struct test t = {.name = #id, .run = test_##id};                            \
		t.next = test_list;                                                                \
		test_list = &t;                                                                    \
	}                                                                                          \
	static void test_##id(void)

/* Inverts one byte of a file: a fixed value could be what is there already. */
bool test_invert(int dirfd, const char *name, long at);

/* Each stops the test that fails. */
#define CHECK(c)                                                                                   \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			test_fail(__FILE__, __LINE__, "%s", #c);                                   \
			return;                                                                    \
		}                                                                                  \
	} while (0)
#define CHECK_INT(a, b)                                                                            \
	do {                                                                                       \
		long long check_a_ = (long long)(a), check_b_ = (long long)(b);                    \
		if (check_a_ != check_b_) {                                                        \
			test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #a, check_a_,        \
				check_b_);                                                         \
			return;                                                                    \
		}                                                                                  \
	} while (0)
#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *check_a_ = (a), *check_b_ = (b);                                       \
		if (!check_a_ || strcmp(check_a_, check_b_) != 0) {                                \
			test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #a,              \
				check_a_ ? check_a_ : "(null)", check_b_);                         \
			return;                                                                    \
		}                                                                                  \
	} while (0)
#define SKIP(reason)                                                                               \
	do {                                                                                       \
		test_skipped = (reason);                                                           \
		return;                                                                            \
	} while (0)

#endif
