/* SPDX-License-Identifier: Apache-2.0 */
/* snap/copy: contents, holes, modes, times, links; what is left out. */
#include "test.h"

#include <sys/sysmacros.h>

#include "snap/copy.h"
#include "snap_world.h"

static bool skip_secret(void *arg, const char *path)
{
	return strcmp(path, "t/secret") == 0;
}

static void copy_and_compare(const char *to_name)
{
	cleanup_fd int from = -1, to = -1;
	struct copy_stats st = {0};
	struct err e = ERR_INIT;
	struct stat s;

	from = world_dir("from");
	to = world_dir(to_name);
	CHECK(copy_tree(from, to, "t", skip_secret, NULL, &st, &e) == 0);
	CHECK(world_sh("cd %s/t; test \"$(cat a)\" = hello; test -L l -a \"$(readlink l)\" = "
		       "/nowhere; test \"$(stat -c %%a x)\" = 755; test \"$(stat -c %%Y a)\" = "
		       "1000000000; test \"$(stat -c %%Y d)\" = 1000000001; test ! -e secret -a ! "
		       "-e fifo; cmp hole ../../from/t/hole",
		      to_name) == 0);
	CHECK(fstatat(to, "t/hole", &s, 0) == 0);
	CHECK_INT(s.st_size, (8 << 20) + 5);
	CHECK(s.st_blocks * 512 < (4 << 20)); /* holes are kept */
	CHECK_INT(st.files, 4);
}

TEST(trees_are_copied)
{
	CHECK(world_make());
	CHECK(world_sh("mkdir -p from/t/d; cd from/t; echo hello > a; touch -d @1000000000 a; ln "
		       "-s /nowhere l; echo x > x; chmod 4755 x; echo s > secret; mkfifo fifo; "
		       "truncate -s 8M hole; echo tail >> hole; touch -d @1000000001 d") == 0);
	copy_and_compare("to1");
}

TEST(trees_are_copied_without_the_kernel_s_help)
{
	setenv("CROFT_FORCE_FAIL", "reflink,copy_file_range", 1);
	copy_and_compare("to2");
	unsetenv("CROFT_FORCE_FAIL");
}

TEST(a_file_that_is_there_is_not_overwritten)
{
	cleanup_fd int from = world_dir("from"), to = world_dir("to3");
	struct err e = ERR_INIT;

	CHECK(world_sh("mkdir to3/t; echo keep > to3/t/a") == 0);
	CHECK(copy_tree(from, to, "t", NULL, NULL, NULL, &e) == -EEXIST);
	CHECK(world_sh("grep -qx keep to3/t/a") == 0);
}

TEST(whiteouts)
{
	cleanup_fd int to = world_dir("to4");
	struct err e = ERR_INIT;
	struct stat s;

	CHECK(copy_whiteout(to, "gone", &e) == 0);
	CHECK(fstatat(to, "gone", &s, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(S_ISCHR(s.st_mode) && s.st_rdev == makedev(0, 0));
	CHECK(copy_whiteout(to, "gone", &e) == -EEXIST);
}
