/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the start of one run: what it gives, and what it leaves to the C library. */
#include "test.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/heap.h"

#define REQUIRE(c)                                                                                 \
	do {                                                                                       \
		if (!(c))                                                                          \
			return __LINE__ % 256 ? __LINE__ % 256 : 1;                                \
	} while (0)

/* Each test has a child of its own. As the launcher's linker does it: these stand for the C library's. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size_b);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size_b);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static size_t freed; /* by the C library */

void *__real_malloc(size_t n)
{
	return malloc(n);
}

void *__real_calloc(size_t n, size_t size_b)
{
	return calloc(n, size_b);
}

void *__real_realloc(void *p, size_t n)
{
	return realloc(p, n);
}

void __real_free(void *p)
{
	freed += p != NULL;
	free(p);
}

static int try_before(void)
{
	char *p;

	heap_resume(); /* there is none */
	p = __wrap_malloc(10);
	REQUIRE(p && !heap_has(p));
	__wrap_free(p);
	REQUIRE(freed == 1);
	return 0;
}

static int try_pieces(void)
{
	char *p = __wrap_malloc(10), *q = __wrap_malloc(0), *r = __wrap_calloc(3, 5);

	REQUIRE(heap_has(p) && heap_has(q) && heap_has(r));
	REQUIRE(p != q && q != r);
	REQUIRE((uintptr_t)p % 16 == 0 && (uintptr_t)r % 16 == 0);
	memset(p, 'p', 10);
	for (int i = 0; i < 15; i++)
		REQUIRE(r[i] == 0);
	freed = 0;
	__wrap_free(p);
	__wrap_free(p);
	REQUIRE(freed == 0 && p[9] == 'p');
	REQUIRE(__wrap_malloc(10) != p); /* nothing is given twice */
	return 0;
}

static int try_grow(void)
{
	char *last = __wrap_malloc(100), *other, *moved;

	memset(last, 'a', 100);
	REQUIRE(__wrap_realloc(last, 5000) == last);
	REQUIRE(last[99] == 'a');
	other = __wrap_malloc(1);
	*other = 'o';
	moved = __wrap_realloc(last, 6000);
	REQUIRE(moved && moved != last && heap_has(moved) && moved[99] == 'a' && *other == 'o');
	REQUIRE(__wrap_realloc(moved, 10) == moved);
	REQUIRE(heap_has(__wrap_realloc(NULL, 10)));
	return 0;
}

static int try_limits(void)
{
	char *large = __wrap_malloc(HEAP_ONE_MAX_B + 1), *p = __wrap_malloc(64), *q;
	size_t taken = 0;

	REQUIRE(large && !heap_has(large));
#if !defined(__SANITIZE_ADDRESS__) /* whose own malloc() ends the program there */
	REQUIRE(!__wrap_calloc(SIZE_MAX / 2, 3));
	REQUIRE(!__wrap_malloc(SIZE_MAX - 3));
#endif
	q = __wrap_realloc(p, HEAP_ONE_MAX_B + 1); /* moves to the C library's */
	REQUIRE(q && !heap_has(q));
	__wrap_free(q);
	__wrap_free(large);
	while ((p = __wrap_malloc(HEAP_ONE_MAX_B / 4)) && heap_has(p) && taken < 2 * HEAP_B)
		taken += HEAP_ONE_MAX_B / 4;
	REQUIRE(taken > 0 && taken < HEAP_B);
	REQUIRE(p && !heap_has(p)); /* it is full */
	__wrap_free(p);
	return 0;
}

static void *elsewhere(void *arg)
{
	char **ret = arg;

	*ret = __wrap_malloc(8);
	return arg;
}

static int try_one_thread(void)
{
	pthread_t t;
	char *p = NULL;

	REQUIRE(pthread_create(&t, NULL, elsewhere, &p) == 0 && pthread_join(t, NULL) == 0);
	REQUIRE(p && !heap_has(p));
	__wrap_free(p);
	return 0;
}

static int try_rest(void)
{
	char *p = __wrap_malloc(8), *q;

	REQUIRE(heap_has(p));
	heap_rest();
	q = __wrap_malloc(8);
	REQUIRE(q && !heap_has(q));
	__wrap_free(q);
	memset(p, 1, 8);
	q = __wrap_realloc(p, 4096); /* the last piece, but it does not grow any more */
	REQUIRE(q && !heap_has(q) && q[7] == 1);
	__wrap_free(q);
	heap_resume();
	q = __wrap_calloc(1, 8);
	REQUIRE(heap_has(q) && q > p + 7 && q[0] == 0);
	return 0;
}

struct handed {
	const char *text, *before;
};

/* What a child that was forked before sees of what was taken since, and of what is written afterwards. */
static int try_hand_over(void)
{
	int to[2], from[2], status;
	struct handed *h;
	char *text, *before, byte;
	pid_t pid;

	heap_quick(true);
	REQUIRE(heap_fd() >= 0 && pipe(to) == 0 && pipe(from) == 0);
	before = __wrap_malloc(16);
	memset(before, 'b', 16);
	REQUIRE(heap_share());
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		const struct handed *got;
		char *q;

		heap_rest();
		q = __wrap_malloc(8);
		if (heap_has(q) || read(to[0], &byte, 1) != 1 || !(got = heap_adopt()))
			_exit(1);
		if (got->text[0] != 't' || got->before[15] != 'B')
			_exit(2);
		((char *)(uintptr_t)got->text)[0] = 'c'; /* its own from now on */
		if (write(from[1], "", 1) != 1 || read(to[0], &byte, 1) != 1)
			_exit(3);
		_exit(got->text[0] == 'c' && got->before[15] == 'B' ? 0 : 4);
	}
	text = __wrap_malloc(5000); /* on pages that the child never saw */
	memset(text, 't', 5000);
	before[15] = 'B';
	h = __wrap_malloc(sizeof(*h));
	*h = (struct handed){text, before};
	REQUIRE(heap_hand_over(h) == 0);
	REQUIRE(write(to[1], "", 1) == 1 && heap_part() == 0 && heap_fd() < 0);
	REQUIRE(read(from[0], &byte, 1) == 1);
	REQUIRE(text[0] == 't'); /* what the child writes is not seen here */
	before[15] = 'x';
	REQUIRE(write(to[1], "", 1) == 1 && waitpid(pid, &status, 0) == pid);
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	text = __wrap_calloc(1, 100);
	REQUIRE(heap_has(text) && text[0] == 0 && text[99] == 0);
	return 0;
}

/* What a child could not see whole is not handed over. */
static int try_spilled(void)
{
	char *outside = __wrap_malloc(8), *root;

	heap_quick(true);
	REQUIRE(heap_share());
	root = __wrap_malloc(8);
	REQUIRE(heap_hand_over(outside) < 0);
	REQUIRE(heap_hand_over(root) == 0);
	__wrap_free(__wrap_malloc(HEAP_ONE_MAX_B + 1));
	REQUIRE(heap_hand_over(root) < 0);
	REQUIRE(heap_share() && heap_hand_over(root) == 0);
	outside = __wrap_realloc(outside, 100);
	REQUIRE(heap_hand_over(root) < 0);
	__wrap_free(outside);
	return 0;
}

/* Without a file it is memory like any other. */
static int try_no_file(void)
{
	struct rlimit l = {HEAP_B - 1, HEAP_B - 1};

	REQUIRE(setrlimit(RLIMIT_FSIZE, &l) == 0);
	heap_quick(true);
	REQUIRE(heap_has(__wrap_malloc(8)));
	REQUIRE(heap_fd() < 0 && !heap_share());
	return 0;
}

static int in_child(int (*f)(void), bool quick)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (quick)
			heap_quick(false);
		_exit(f());
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(nothing_is_taken_before)
{
	CHECK_INT(in_child(try_before, false), 0);
}

TEST(no_byte_is_given_twice)
{
	CHECK_INT(in_child(try_pieces, true), 0);
}

TEST(the_last_piece_grows_in_place)
{
	CHECK_INT(in_child(try_grow, true), 0);
}

TEST(what_does_not_fit_is_the_c_librarys)
{
	CHECK_INT(in_child(try_limits, true), 0);
}

TEST(other_threads_have_the_c_librarys)
{
	CHECK_INT(in_child(try_one_thread, true), 0);
}

TEST(nothing_is_taken_after_rest)
{
	CHECK_INT(in_child(try_rest, true), 0);
}

TEST(a_child_is_handed_what_was_taken_since)
{
	CHECK_INT(in_child(try_hand_over, false), 0);
}

TEST(what_is_not_whole_is_not_handed_over)
{
	CHECK_INT(in_child(try_spilled, false), 0);
}

TEST(a_limit_on_files_makes_no_file)
{
	CHECK_INT(in_child(try_no_file, false), 0);
}
