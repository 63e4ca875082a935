/* SPDX-License-Identifier: Apache-2.0 */
/* The private root: writable binds on a tmpfs that is itself read-only; locked mounts stay locked.
 */
#include "platform.h"

struct k_mount_attr {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};

static int set_readonly(const char *path, bool on, unsigned at_flags)
{
	struct k_mount_attr a = {.attr_set = on ? 1 : 0, .attr_clr = on ? 0 : 1};

	return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, at_flags, &a, sizeof(a));
}

static void bind_stays_writable(void)
{
	enter_scratch(0);
	CLAIM_CHECK(mkdir("scratch", 0755) == 0 && mkdir("at", 0755) == 0);
	CLAIM_CHECK(mount("scratch", "at", NULL, MS_BIND, NULL) == 0);
	if (set_readonly("/tmp", true, 0) < 0)
		CLAIM_SKIP("mount_setattr: %s", strerror(errno));
	CLAIM_CHECK(open("/tmp/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EROFS);
	CLAIM_CHECK(open("/tmp/at/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
	/* And what is written there is in the subdirectory of the read-only tree. */
	CLAIM_CHECK(access("/tmp/scratch/new", F_OK) == 0);
	CLAIM_CHECK(
		open("/tmp/scratch/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EROFS);
}

static void readonly_is_locked(void)
{
	enter_scratch(0);
	CLAIM_CHECK(mkdir("d", 0755) == 0 && mount("d", "d", NULL, MS_BIND, NULL) == 0);
	if (set_readonly("d", true, 0) < 0)
		CLAIM_SKIP("mount_setattr: %s", strerror(errno));
	/* A further user namespace inherits the mount and may not undo what it was given. */
	enter_namespaces(CLONE_NEWNS);
	CLAIM_CHECK(set_readonly("/tmp/d", false, 0) < 0 && errno == EPERM);
	CLAIM_CHECK(umount2("/tmp/d", MNT_DETACH) < 0 && errno == EINVAL);
}

static void mask_is_locked(void)
{
	enter_scratch(0);
	CLAIM_CHECK(mkdir("d", 0755) == 0);
	make_file("d/secret", "x");
	CLAIM_CHECK(mount("mask", "d", "tmpfs", 0, "size=4k") == 0);
	enter_namespaces(CLONE_NEWNS);
	CLAIM_CHECK(umount2("/tmp/d", 0) < 0 && access("/tmp/d/secret", F_OK) < 0);
}

int main(void)
{
	claim("a bind of a tmpfs's own directory is writable under a read-only root",
		bind_stays_writable);
	claim("read-only cannot be undone in a nested namespace", readonly_is_locked);
	claim("a mask cannot be unmounted in a nested namespace", mask_is_locked);
	return claim_result();
}
