/* SPDX-License-Identifier: Apache-2.0 */
/* snap/copy: contents, holes, modes, times, links; what is left out. */
#include "test.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "snap/copy.h"
#include "snap/squash.h"
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

/* A layer that is in use, with all that an overlay and a sandbox may have put there. */
TEST(a_layer_is_copied_as_it_is)
{
	cleanup_fd int from = world_dir("layer"), to = world_dir("to5"), dir = -1;
	struct copy_stats st = {0};
	struct err e = ERR_INIT;
	struct stat a, b;
	char value[8];

	CHECK(world_sh("cd layer; echo one > a; ln a b; mkdir d; ln a d/c; echo x > run; chmod 4750 run; "
		       "ln -s /etc/passwd l; mkfifo p; touch -d @1000000000 run; mkdir o") == 0);
	CHECK(copy_whiteout(from, "gone", &e) == 0);
	dir = openat(from, "o", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fsetxattr(dir, "user.overlay.opaque", "y", 1, 0) < 0 && errno == ENOTSUP)
		SKIP("the file system here has no user attributes");
	CHECK(squash_copy(to, from, &st, &e) == 0);
	CHECK(world_sh("set -e; cd to5; grep -qx one a; test \"$(stat -c %%h a)\" = 3; test a -ef b; "
		       "test a -ef d/c; test \"$(stat -c %%a run)\" = 4750; "
		       "test \"$(stat -c %%Y run)\" = 1000000000; "
		       "test \"$(readlink l)\" = /etc/passwd; test -p p") == 0);
	CHECK(fstatat(from, "a", &a, 0) == 0 && fstatat(to, "a", &b, 0) == 0);
	CHECK(a.st_ino != b.st_ino); /* what is written to one is not in the other */
	CHECK(fstatat(to, "gone", &b, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(S_ISCHR(b.st_mode) && b.st_rdev == makedev(0, 0));
	close_fd(&dir);
	dir = openat(to, "o", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(fgetxattr(dir, "user.overlay.opaque", value, sizeof(value)), 1);
	CHECK_INT(st.files, 2);
	CHECK_INT(st.bytes, 6);
}

TEST(a_layer_that_croft_never_makes_is_not_copied)
{
	cleanup_fd int from = world_dir("odd"), to = world_dir("to6"), dir = -1;
	struct copy_stats st = {0};
	struct err e = ERR_INIT;

	CHECK(world_sh("mkdir odd/d") == 0);
	dir = openat(from, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fsetxattr(dir, "user.overlay.redirect", "/etc", 4, 0) < 0 && errno == ENOTSUP)
		SKIP("the file system here has no user attributes");
	CHECK(squash_copy(to, from, &st, &e) < 0);
}
