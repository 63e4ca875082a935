/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following a symlink of a tmpfs leaves a trace in its access time, also when what it leads to is
 * refused: see src/engine/box/trap.c.
 */
#include <linux/capability.h>

#include "platform.h"

#define ARMED 1 /* access and modification time of a fresh trap */

static void arm(const char *target, const char *path)
{
	const struct timespec old[2] = {{.tv_sec = ARMED}, {.tv_sec = ARMED}};

	CLAIM_CHECK(symlink(target, path) == 0);
	CLAIM_CHECK(utimensat(AT_FDCWD, path, old, AT_SYMLINK_NOFOLLOW) == 0);
}

static bool was_followed(const char *path)
{
	struct stat st;

	CLAIM_CHECK(lstat(path, &st) == 0);
	return st.st_atim.tv_sec != ARMED;
}

/* As the command will be: root in the namespace, perhaps, but without a capability. */
static void enter_without_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	CLAIM_CHECK(syscall(SYS_capset, &h, none) == 0);
}

static void denied_open_is_traced(void)
{
	enter_scratch(0);
	make_file("secret", "x");
	CLAIM_CHECK(chmod("secret", 0) == 0 && mkdir("dir", 0) == 0);
	arm("/tmp/secret", "file");
	arm("/tmp/secret", "other");
	arm("/tmp/dir", "tree");
	enter_without_capabilities();
	CLAIM_CHECK(!was_followed("file") && !was_followed("other") && !was_followed("tree"));
	CLAIM_CHECK(open("file", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
	CLAIM_CHECK(open("tree/name", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
	CLAIM_CHECK(was_followed("file") && was_followed("tree") && !was_followed("other"));
}

/* Walking a tree looks at links, and does not follow them. */
static void looking_is_not_traced(void)
{
	struct stat st;

	enter_scratch(0);
	make_file("secret", "x");
	arm("/tmp/secret", "file");
	CLAIM_CHECK(lstat("file", &st) == 0);
	CLAIM_CHECK(open("file", O_PATH | O_NOFOLLOW | O_CLOEXEC) >= 0);
	CLAIM_CHECK(!was_followed("file"));
}

/* So traps need a mount of their own, below a root that is read-only. */
static void read_only_mount_keeps_no_trace(void)
{
	enter_scratch(0);
	make_file("secret", "x");
	arm("/tmp/secret", "file");
	CLAIM_CHECK(mount(NULL, "/tmp", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
	CLAIM_CHECK(access("file", R_OK) == 0);
	CLAIM_CHECK(!was_followed("file"));
}

/* The supervisor reads the times when the namespace is gone. */
static void trace_outlives_the_mount(void)
{
	struct stat st;
	int dir;

	enter_scratch(0);
	make_file("secret", "x");
	arm("/tmp/secret", "file");
	dir = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLAIM_CHECK(dir >= 0 && access("file", R_OK) == 0 && chdir("/") == 0);
	CLAIM_CHECK(umount2("/tmp", MNT_DETACH) == 0);
	CLAIM_CHECK(fstatat(dir, "file", &st, AT_SYMLINK_NOFOLLOW) == 0);
	CLAIM_CHECK(st.st_atim.tv_sec != ARMED);
}

int main(void)
{
	claim("a refused open through a symlink is traced", denied_open_is_traced);
	claim("looking at a symlink is not traced", looking_is_not_traced);
	claim("a read-only mount keeps no trace", read_only_mount_keeps_no_trace);
	claim("a trace can be read after the mount is gone", trace_outlives_the_mount);
	return claim_result();
}
