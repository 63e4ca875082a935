/* SPDX-License-Identifier: Apache-2.0 */
/* A mount made from a descriptor is of the object opened, whatever its name means by then. */
#include "platform.h"

static int clone_tree(int fd)
{
	return (int)syscall(SYS_open_tree, fd, "", AT_EMPTY_PATH | 1u | O_CLOEXEC);
}

static void keeps_identity(void)
{
	int fd, m;

	enter_scratch(0);
	CLAIM_CHECK(mkdir("good", 0755) == 0 && mkdir("evil", 0755) == 0);
	make_file("good/mark", "x");
	fd = open("good", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLAIM_CHECK(fd >= 0);
	CLAIM_CHECK(rename("good", "aside") == 0 && symlink("evil", "good") == 0);
	m = clone_tree(fd);
	if (m < 0 && errno == ENOSYS)
		CLAIM_SKIP("open_tree: %s", strerror(errno));
	CLAIM_CHECK(m >= 0 && faccessat(m, "mark", F_OK, 0) == 0);
	CLAIM_CHECK(access("good/mark", F_OK) < 0); /* the name now leads elsewhere */
}

static void attach_to_fd(void)
{
	int target, m;

	enter_scratch(0);
	CLAIM_CHECK(mkdir("src", 0755) == 0 && mkdir("dst", 0755) == 0 && mkdir("trap", 0755) == 0);
	make_file("src/mark", "x");
	target = open("dst", O_PATH | O_DIRECTORY | O_CLOEXEC);
	m = clone_tree(open("src", O_PATH | O_CLOEXEC));
	if (m < 0)
		CLAIM_SKIP("open_tree: %s", strerror(errno));
	CLAIM_CHECK(rename("dst", "moved") == 0 && symlink("trap", "dst") == 0);
	/* 0x44: empty path on both sides */
	CLAIM_CHECK(syscall(SYS_move_mount, m, "", target, "", 0x44) == 0);
	CLAIM_CHECK(access("moved/mark", F_OK) == 0 && access("trap/mark", F_OK) < 0);
}

int main(void)
{
	claim("a clone is of the opened object, not of its name", keeps_identity);
	claim("a mount lands on the opened target, not on its name", attach_to_fd);
	return claim_result();
}
