/* SPDX-License-Identifier: Apache-2.0 */
/* FUSE mounts in a user namespace without privilege, and the mount dies with its descriptor. */
#include "platform.h"

static int fuse_mount(void)
{
	char opts[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		CLAIM_SKIP("/dev/fuse: %s", strerror(errno));
	snprintf(opts, sizeof(opts), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fd, geteuid(),
		getegid());
	CLAIM_CHECK(mkdir("m", 0755) == 0);
	if (mount("platform", "m", "fuse", MS_NOSUID | MS_NODEV, opts) < 0)
		CLAIM_SKIP("mount fuse: %s", strerror(errno));
	return fd;
}

static void mounts(void)
{
	enter_scratch(0);
	CLAIM_CHECK(fuse_mount() >= 0);
}

static void dies_with_device(void)
{
	struct stat st;

	enter_scratch(0);
	close(fuse_mount());
	/* A killed supervisor leaves no process hanging in the filesystem: it answers ENOTCONN. */
	CLAIM_CHECK(stat("m/x", &st) < 0 && errno == ENOTCONN);
}

int main(void)
{
	claim("FUSE mounts inside a user namespace", mounts);
	claim("access is ENOTCONN when the server is gone", dies_with_device);
	return claim_result();
}
