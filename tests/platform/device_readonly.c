/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and pipes behind a read-only mount are used and not changed; a descriptor keeps its mount. */
#include "platform.h"

#include <sys/stat.h>

static uint64_t mount_of(int fd)
{
	struct k_statx x = {0};

	CLAIM_CHECK(syscall(SYS_statx, fd, "", AT_EMPTY_PATH, 0x1000 /* STATX_MNT_ID */, &x) == 0);
	if (!(x.mask & 0x1000))
		CLAIM_SKIP("statx tells no mount");
	return x.mnt_id;
}

static void make_readonly(const char *path)
{
	CLAIM_CHECK(
		mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID, NULL) == 0);
}

static void device_is_used(void)
{
	char c = 1;
	int fd;

	enter_scratch(0);
	/* In a sticky directory O_CREAT would refuse what belongs to somebody else. */
	CLAIM_CHECK(mkdir("dev", 0755) == 0 && chdir("dev") == 0);
	make_file("null", "");
	if (mount("/dev/null", "null", NULL, MS_BIND, NULL) < 0)
		CLAIM_SKIP("bind /dev/null: %s", strerror(errno));
	if (mount(NULL, "null", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC,
		    NULL) < 0)
		CLAIM_SKIP("remount: %s", strerror(errno));
	fd = open("null", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
	CLAIM_CHECK(fd >= 0 && write(fd, &c, 1) == 1 && read(fd, &c, 1) == 0);
	CLAIM_CHECK(chmod("null", 0666) < 0 && errno == EROFS);
	CLAIM_CHECK(fchmod(fd, 0666) < 0 && errno == EROFS);
	CLAIM_CHECK(futimens(fd, NULL) < 0 && errno == EROFS);
	CLAIM_CHECK(fchown(fd, getuid(), getgid()) < 0 && errno == EROFS);
}

static void descriptor_keeps_mount(void)
{
	int before, after;

	enter_scratch(0);
	CLAIM_CHECK(mkdir("d", 0755) == 0);
	make_file("d/f", "x");
	before = open("d/f", O_RDONLY | O_CLOEXEC);
	CLAIM_CHECK(before >= 0 && mount("d", "d", NULL, MS_BIND, NULL) == 0);
	make_readonly("d");
	after = open("/tmp/d/f", O_RDONLY | O_CLOEXEC);
	CLAIM_CHECK(after >= 0 && mount_of(before) != mount_of(after));
	/* Which is why a descriptor from outside must not be trusted to the private root. */
	CLAIM_CHECK(fchmod(after, 0600) < 0 && errno == EROFS);
	CLAIM_CHECK(fchmod(before, 0600) == 0);
}

int main(void)
{
	claim("a device behind a read-only mount is used and cannot be changed", device_is_used);
	claim("a descriptor keeps the mount that it was opened through", descriptor_keeps_mount);
	return claim_result();
}
