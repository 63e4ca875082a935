/* SPDX-License-Identifier: Apache-2.0 */
/* An overlay in a user namespace changes only its upper layer, deletions included. */
#include "platform.h"

static void discards(void)
{
	enter_scratch(0);
	CLAIM_CHECK(mkdir("l", 0755) == 0 && mkdir("u", 0755) == 0 && mkdir("w", 0755) == 0 &&
		    mkdir("m", 0755) == 0 && mkdir("l/sub", 0755) == 0);
	make_file("l/keep", "old");
	make_file("l/gone", "old");
	make_file("l/sub/f", "old");
	if (mount("overlay", "m", "overlay", 0, "lowerdir=l,upperdir=u,workdir=w,userxattr") < 0)
		CLAIM_SKIP("overlay: %s", strerror(errno));
	make_file("m/keep", "new!");
	make_file("m/created", "new");
	CLAIM_CHECK(unlink("m/gone") == 0 && unlink("m/sub/f") == 0 && rmdir("m/sub") == 0);
	struct stat st;

	CLAIM_CHECK(stat("l/keep", &st) == 0 && st.st_size == 3);
	CLAIM_CHECK(access("l/gone", F_OK) == 0 && access("l/sub/f", F_OK) == 0);
	CLAIM_CHECK(access("l/created", F_OK) < 0);
	CLAIM_CHECK(stat("u/keep", &st) == 0 && st.st_size == 4);
}

int main(void)
{
	claim("writes and deletions stay in the upper layer", discards);
	return claim_result();
}
