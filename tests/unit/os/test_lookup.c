/* SPDX-License-Identifier: Apache-2.0 */
/* os/lookup: the same answers as lstat, and nothing behind a symlink. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/lookup.h"
#include "os/tree.h"

static char dir[] = "/tmp/croft-unit-lookup-XXXXXX";

static const char *at(const char *name)
{
	static char path[2][PATH_MAX];
	static unsigned turn;
	char *p = path[turn++ % 2];

	snprintf(p, PATH_MAX, "%s/%s", dir, name);
	return p;
}

TEST(sees_what_is_there)
{
	static const char *const names[] = {"a", "a/file", "a/none", "b", "b/c", "b/c/d", "file/x"};
	struct lookup l = LOOKUP_INIT;
	struct stat st, want;

	CHECK(mkdtemp(dir) != NULL);
	CHECK(mkdir(at("a"), 0755) == 0 && mkdir(at("b"), 0755) == 0);
	close(open(at("a/file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	close(open(at("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	for (size_t round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			int r = lstat(at(names[i]), &want) < 0 ? -errno : 0;

			CHECK_INT(lookup_path(&l, at(names[i]), &st), r);
			CHECK(r < 0 || (st.st_ino == want.st_ino && st.st_dev == want.st_dev));
		}
	CHECK_INT(lookup_path(&l, "/usr", &st), 0);
	CHECK_INT(lookup_path(&l, "/proc", &st), 0);
	CHECK_INT(lookup_path(&l, "/no such name", &st), -ENOENT);
	lookup_done(&l);
}

TEST(leaves_symlinks_to_others)
{
	struct lookup l = LOOKUP_INIT;
	struct stat st;

	CHECK(symlink("a", at("link")) == 0 && symlink("nowhere", at("dangling")) == 0);
	CHECK_INT(lookup_path(&l, at("link"), &st), LOOKUP_LINK);
	CHECK_INT(lookup_path(&l, at("dangling"), &st), LOOKUP_LINK);
	CHECK_INT(lookup_path(&l, at("link/file"), &st), LOOKUP_UNPLAIN);
	CHECK_INT(lookup_path(&l, at("a/file"), &st), 0);
	CHECK_INT(lookup_path(&l, at("a/../a/file"), &st), LOOKUP_UNPLAIN);
	CHECK_INT(lookup_path(&l, "/", &st), LOOKUP_UNPLAIN);
	CHECK_INT(lookup_path(&l, "a/file", &st), LOOKUP_UNPLAIN);
	CHECK_INT(lookup_path(&l, "/proc/self/cwd", &st), LOOKUP_UNPLAIN);
	lookup_done(&l);
}

/* What the kernel would make of it, or nothing. */
TEST(follows_what_leads_to_a_plain_path)
{
	static const struct {
		const char *name, *target;
		bool plain;
	} links[] = {{"to-a", "a", true}, {"to-file", "a/file", true},
		{"to-to-file", "to-file", true}, {"up", "a/../a", false},
		{"through", "to-a/file", false}, {"loop", "loop", false}};
	struct lookup l = LOOKUP_INIT;
	char got[PATH_MAX], want[PATH_MAX];
	struct stat st, there;

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		int r;

		CHECK(symlink(links[i].target, at(links[i].name)) == 0);
		r = lookup_follow(&l, at(links[i].name), got, sizeof(got), &st);
		CHECK_INT(r, links[i].plain ? LOOKUP_PLAIN : LOOKUP_UNPLAIN);
		if (!links[i].plain)
			continue;
		CHECK(realpath(at(links[i].name), want) && stat(want, &there) == 0);
		CHECK_STR(got, want);
		CHECK(st.st_ino == there.st_ino);
	}
	CHECK_INT(lookup_follow(&l, at("dangling"), got, sizeof(got), &st), -ENOENT);
	CHECK_INT(lookup_follow(&l, at("a/file"), got, sizeof(got), &st), LOOKUP_PLAIN);
	CHECK_INT(lookup_follow(&l, at("a/file"), got, 4, &st), LOOKUP_UNPLAIN);
	lookup_done(&l);
}

/* More directories than are kept, and names below a directory that is not there. */
TEST(keeps_few_directories)
{
	struct lookup l = LOOKUP_INIT;
	struct stat st;
	char name[32];

	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 2 * LOOKUP_DIRS + 1; i++) {
			snprintf(name, sizeof(name), "dir%d", i);
			if (round == 0)
				CHECK(mkdir(at(name), 0755) == 0);
			snprintf(name, sizeof(name), "dir%d/none", i);
			CHECK_INT(lookup_path(&l, at(name), &st), -ENOENT);
			CHECK_INT(lookup_path(&l, at("missing/x"), &st), -ENOENT);
			CHECK_INT(lookup_path(&l, at("missing/x/y/z"), &st), -ENOENT);
			CHECK_INT(lookup_path(&l, at("missingnot"), &st), -ENOENT);
		}
	lookup_done(&l);
	tree_remove_at(AT_FDCWD, dir);
}
