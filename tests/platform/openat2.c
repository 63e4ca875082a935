/* SPDX-License-Identifier: Apache-2.0 */
/* openat2 resolves as os/path.c assumes: no symlink, no magic link, nothing above the start. */
#include "platform.h"

#include <linux/openat2.h>

static int open2(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* ".." in a lookup that may not leave: EAGAIN while anything on the machine is renamed or mounted. */
static int open_beneath(int dir, const char *path)
{
	int fd = -1;

	for (int i = 0; i < 1000; i++) {
		fd = open2(dir, path, O_PATH, RESOLVE_BENEATH);
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd;
}

static void need_openat2(void)
{
	if (open2(AT_FDCWD, "/", O_PATH, 0) < 0 && (errno == ENOSYS || errno == EPERM))
		CLAIM_SKIP("openat2: %s", strerror(errno));
}

static void no_symlinks(void)
{
	char dir[64];

	need_openat2();
	enter_tmpdir(dir);
	CLAIM_CHECK(mkdir("real", 0700) == 0 && symlink("real", "link") == 0);
	make_file("real/f", "x");
	int through = open2(AT_FDCWD, "link/f", O_RDONLY, RESOLVE_NO_SYMLINKS), e1 = errno;
	int last = open2(AT_FDCWD, "link", O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS);
	int plain = open2(AT_FDCWD, "real/f", O_RDONLY, RESOLVE_NO_SYMLINKS);

	unlink("real/f");
	unlink("link");
	rmdir("real");
	rmdir(dir);
	CLAIM_CHECK(through < 0 && e1 == ELOOP);
	CLAIM_CHECK(last >= 0);  /* the link itself, not what it names */
	CLAIM_CHECK(plain >= 0); /* and an honest path opens */
}

static void no_magic_links(void)
{
	need_openat2();
	CLAIM_CHECK(open2(AT_FDCWD, "/proc/self/root/etc", O_PATH, RESOLVE_NO_MAGICLINKS) < 0);
	CLAIM_CHECK(errno == ELOOP);
	CLAIM_CHECK(open("/proc/self/root/etc", O_PATH | O_CLOEXEC) >= 0);
}

static void beneath(void)
{
	int dir = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);

	need_openat2();
	CLAIM_CHECK(dir >= 0);
	CLAIM_CHECK(open_beneath(dir, "../etc") < 0 && errno == EXDEV);
	CLAIM_CHECK(open_beneath(dir, "/etc") < 0 && errno == EXDEV);
	CLAIM_CHECK(open_beneath(dir, "lib/../lib") >= 0);
}

static void unknown_flag(void)
{
	need_openat2();
	/* A kernel that does not know a restriction refuses it, rather than ignoring it. */
	CLAIM_CHECK(open2(AT_FDCWD, "/", O_PATH, 1ull << 40) < 0 && errno == EINVAL);
}

int main(void)
{
	claim("RESOLVE_NO_SYMLINKS is ELOOP through a symlink", no_symlinks);
	claim("RESOLVE_NO_MAGICLINKS stops /proc/self/root", no_magic_links);
	claim("RESOLVE_BENEATH stops .. and absolute paths", beneath);
	claim("an unknown restriction is EINVAL", unknown_flag);
	return claim_result();
}
