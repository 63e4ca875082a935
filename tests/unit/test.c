/* SPDX-License-Identifier: Apache-2.0 */
/* The harness's main: runs every registered test, or those whose name contains argv[1]. */
#include "test.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

struct test *test_list;
bool test_failed;
const char *test_skipped;

void test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	test_failed = true;
	printf("# %s:%d: ", file, line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

bool test_invert(int dirfd, const char *name, long at)
{
	int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC);
	unsigned char b;
	bool done = fd >= 0 && pread(fd, &b, 1, at) == 1;

	b = done ? (unsigned char)~b : 0;
	done = done && pwrite(fd, &b, 1, at) == 1;
	if (fd >= 0)
		close(fd);
	return done;
}

int main(int argc, char **argv)
{
	struct test *rev = NULL;
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (test_list) { /* constructors run last to first: restore source order */
		struct test *t = test_list;

		test_list = t->next;
		t->next = rev;
		rev = t;
	}
	for (struct test *t = rev; t; t = t->next) {
		if (argc > 1 && !strstr(t->name, argv[1]))
			continue;
		test_failed = false;
		test_skipped = NULL;
		t->run();
		if (test_skipped) /* also by what a check needed and could not have */
			printf("skip - %s: %s\n", t->name, test_skipped);
		else if (test_failed)
			printf("not ok - %s\n", t->name);
		else
			printf("ok - %s\n", t->name);
		failed += test_failed && !test_skipped;
	}
	return failed ? 1 : 0;
}
