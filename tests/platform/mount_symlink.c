/* SPDX-License-Identifier: Apache-2.0 */
/* A symlink can be mounted over a file, and who opens that file follows it: see trust.c. */
#include "platform.h"

static int mount_over(const char *source, const char *target)
{
	int from = open(source, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int to = open(target, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int m = (int)syscall(SYS_open_tree, from, "", AT_EMPTY_PATH | 1u | O_CLOEXEC);

	if (m < 0)
		CLAIM_SKIP("open_tree: %s", strerror(errno));
	/* 0x44: empty path on both sides */
	return (int)syscall(SYS_move_mount, m, "", to, "", 0x44);
}

static void is_followed(void)
{
	char text[8] = "";
	struct stat st;
	int fd;

	enter_scratch(0);
	make_file("old", "old");
	make_file("new", "new");
	CLAIM_CHECK(symlink("/tmp/new", "link") == 0);
	CLAIM_CHECK(mount_over("link", "old") == 0);
	fd = open("old", O_RDONLY | O_CLOEXEC);
	CLAIM_CHECK(fd >= 0 && read(fd, text, sizeof(text)) == 3 && strcmp(text, "new") == 0);
	CLAIM_CHECK(lstat("old", &st) == 0 && S_ISLNK(st.st_mode));
	CLAIM_CHECK(stat("old", &st) == 0 && S_ISREG(st.st_mode));
}

/* Its target need not be there: nothing is looked up before somebody opens it. */
static void is_not_looked_up(void)
{
	enter_scratch(0);
	make_file("old", "old");
	CLAIM_CHECK(symlink("/tmp/later", "link") == 0);
	CLAIM_CHECK(mount_over("link", "old") == 0);
	CLAIM_CHECK(open("old", O_RDONLY | O_CLOEXEC) < 0 && errno == ENOENT);
	make_file("later", "x");
	CLAIM_CHECK(access("old", R_OK) == 0);
}

/* It cannot be taken away from inside a further namespace. */
static void is_locked(void)
{
	enter_scratch(0);
	make_file("old", "old");
	make_file("new", "new");
	CLAIM_CHECK(symlink("/tmp/new", "link") == 0);
	CLAIM_CHECK(mount_over("link", "old") == 0);
	enter_namespaces(CLONE_NEWNS);
	CLAIM_CHECK(umount2("/tmp/old", UMOUNT_NOFOLLOW | MNT_DETACH) < 0);
	CLAIM_CHECK(unlink("/tmp/old") < 0 && errno == EBUSY);
}

int main(void)
{
	claim("a mounted symlink is followed", is_followed);
	claim("a mounted symlink is not looked up before it is used", is_not_looked_up);
	claim("a mounted symlink stays", is_locked);
	return claim_result();
}
