/* SPDX-License-Identifier: Apache-2.0 */
/* A mount point can be neither renamed, removed nor replaced from inside; its parent can be
 * renamed. */
#include "platform.h"

static void pinned(void)
{
	enter_scratch(0);
	CLAIM_CHECK(
		mkdir("a", 0755) == 0 && mkdir("a/m", 0755) == 0 && mkdir("a/plain", 0755) == 0);
	CLAIM_CHECK(mount("platform", "a/m", "tmpfs", 0, "size=1m") == 0);
	CLAIM_CHECK(rename("a/m", "a/n") < 0 && errno == EBUSY);
	CLAIM_CHECK(rmdir("a/m") < 0 && errno == EBUSY);
	CLAIM_CHECK(rename("a/plain", "a/m") < 0 && errno == EBUSY);
	CLAIM_CHECK(rename("a/plain", "a/moved") == 0);
}

static void parent_moves(void)
{
	enter_scratch(0);
	CLAIM_CHECK(mkdir("a", 0755) == 0 && mkdir("a/m", 0755) == 0);
	CLAIM_CHECK(mount("platform", "a/m", "tmpfs", 0, "size=1m") == 0);
	make_file("a/m/here", "x");
	/* Why a mask alone does not protect a name below a writable directory: the broker does. */
	CLAIM_CHECK(rename("a", "b") == 0);
	CLAIM_CHECK(access("b/m/here", F_OK) == 0 && mkdir("a", 0755) == 0);
}

static void file_pinned(void)
{
	enter_scratch(0);
	make_file("f", "x");
	make_file("g", "y");
	CLAIM_CHECK(mount("g", "f", NULL, MS_BIND, NULL) == 0);
	make_file("h", "z");
	CLAIM_CHECK(rename("h", "f") < 0 && errno == EBUSY);
	CLAIM_CHECK(unlink("f") < 0 && errno == EBUSY);
	CLAIM_CHECK(unlink("h") == 0);
}

int main(void)
{
	claim("a mounted directory is EBUSY to rename, rmdir and replacement", pinned);
	claim("a mounted file is EBUSY to rename over and unlink", file_pinned);
	claim("an ancestor of a mount point can be renamed away", parent_moves);
	return claim_result();
}
