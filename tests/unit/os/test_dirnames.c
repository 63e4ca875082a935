/* SPDX-License-Identifier: Apache-2.0 */
/* os/dirnames: every name once, also when they do not fit one call. */
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/dirnames.h"
#include "os/tree.h"

#define NAMES 1000

static char dir[] = "/tmp/croft-unit-dirnames-XXXXXX";

TEST(lists_every_name_once)
{
	static bool seen[NAMES];
	struct dirnames l;
	const struct dirent *de;
	unsigned n = 0;
	char name[64];
	int fd;

	CHECK(mkdtemp(dir) != NULL);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "a name of some length %d", i);
		close(openat(fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	dirnames_init(&l, fd);
	for (; (de = dirnames_next(&l)); n++) {
		int i = atoi(de->d_name + strlen("a name of some length "));

		CHECK(i >= 0 && i < NAMES && !seen[i]);
		CHECK(de->d_type == DT_REG || de->d_type == DT_UNKNOWN);
		seen[i] = true;
	}
	CHECK_INT(n, NAMES);
	CHECK(!l.failed);
	CHECK(dirnames_next(&l) == NULL);
	dirnames_done(&l);
	tree_remove_at(AT_FDCWD, dir);
}

TEST(what_cannot_be_read_fails)
{
	struct dirnames l;

	dirnames_init(&l, -1);
	CHECK(dirnames_next(&l) == NULL && l.failed);
	dirnames_done(&l);
	dirnames_init(&l, open("/dev/null", O_RDONLY | O_CLOEXEC));
	CHECK(dirnames_next(&l) == NULL && l.failed);
	CHECK(dirnames_next(&l) == NULL && l.failed);
	dirnames_done(&l);
}
