/* SPDX-License-Identifier: Apache-2.0 */
/*
 * F14: everything that changes a protected file without opening it for writing. Landlock alone
 * governs neither mode nor owner nor times nor attributes, so each call is tried by path, by
 * descriptor, by O_PATH descriptor and through /proc/self/fd.
 */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "base/cleanup.h"
#include "os/uapi.h"

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
/* Calls of kernels 6.13 and 6.17; the common numbers. */
#define NR_SETXATTRAT 463
#define NR_REMOVEXATTRAT 466
#define NR_FILE_SETATTR 469

struct xattr_args_v0 { /* the kernel's struct xattr_args */
	uint64_t value;
	uint32_t size, flags;
};

struct file_attr_v0 { /* the kernel's struct file_attr */
	uint64_t xflags;
	uint32_t extsize, nextents, projid, cowextsize;
};

static const struct timespec epoch[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

/* Mode, owner, times and attributes of one path. Owner and mode become what they are. */
static void by_path(struct probe_tally *t, const char *path, const char *name)
{
	struct xattr_args_v0 xa = {.value = (uint64_t)(uintptr_t) "1", .size = 1};
	uid_t uid = getuid();
	gid_t gid = getgid();

	tally_try(t, chmod(path, 0640), "chmod %s", name);
	tally_try(t, fchmodat(AT_FDCWD, path, 0644, 0), "fchmodat %s", name);
	tally_try(t, syscall(SYS_fchmodat2, AT_FDCWD, path, 0640, 0), "fchmodat2 %s", name);
	tally_try(t, chown(path, uid, gid), "chown %s", name);
	tally_try(t, lchown(path, uid, gid), "lchown %s", name);
	tally_try(t, fchownat(AT_FDCWD, path, uid, gid, 0), "fchownat %s", name);
	tally_try(t, utimensat(AT_FDCWD, path, epoch, 0), "utimensat %s", name);
#ifdef SYS_utime
	tally_try(t, syscall(SYS_utime, path, &(struct utimbuf){1, 1}), "utime %s", name);
	tally_try(t, syscall(SYS_utimes, path, &(struct timeval[2]){{1, 0}, {1, 0}}), "utimes %s",
		name);
	tally_try(t, syscall(SYS_futimesat, AT_FDCWD, path, &(struct timeval[2]){{1, 0}, {1, 0}}),
		"futimesat %s", name);
#endif
	tally_try(t, setxattr(path, "user.croft", "1", 1, 0), "setxattr %s", name);
	tally_try(t, removexattr(path, "user.croft"), "removexattr %s", name);
	tally_try(t, lsetxattr(path, "user.croft", "1", 1, 0), "lsetxattr %s", name);
	tally_try(t, syscall(NR_SETXATTRAT, AT_FDCWD, path, 0, "user.croft", &xa, sizeof(xa)),
		"setxattrat %s", name);
	tally_try(t, syscall(NR_REMOVEXATTRAT, AT_FDCWD, path, 0, "user.croft"), "removexattrat %s",
		name);
	tally_try(t, truncate(path, 0), "truncate %s", name);
}

/* Names: last, because without a sandbox they make the file vanish. */
static void by_name(struct probe_tally *t, const char *path, const char *name)
{
	char other[4200];
	int fd;

	snprintf(other, sizeof(other), "%s.moved", path);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	tally_try(t, fd, "O_TRUNC %s", name);
	if (fd >= 0)
		close(fd);
	tally_try(t, rename(path, other), "rename %s in its directory", name);
	rename(other, path);
	tally_try(t, link(path, other), "link beside %s", name);
	unlink(other);
	tally_try(t, unlink(path), "unlink %s", name);
	tally_try(t, mknod(path, S_IFREG | 0644, 0), "recreate %s", name);
}

static enum probe_result f14_path(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	by_path(&t, "frozen/file", "a read-only file");
	by_path(&t, "denied.env", "a denied file");
	by_name(&t, "frozen/file", "a read-only file");
	by_name(&t, "denied.env", "a denied file");
	tally_try(&t, chmod("frozen", 0700), "chmod a read-only directory");
	tally_try(&t, chmod("private", 0755), "chmod a denied directory");
	tally_try(&t, rmdir("frozen/sub"), "rmdir");
	return tally_end(&t);
}

static enum probe_result f14_outside(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	by_path(&t, probe_path(a, "outside/victim.txt"), "a file outside");
	by_path(&t, probe_path(a, "home/.bashrc"), "~/.bashrc");
	by_path(&t, "outdir/victim.txt", "through a link");
	by_name(&t, probe_path(a, "outside/victim.txt"), "a file outside");
	return tally_end(&t);
}

/* A descriptor opened for reading only, which the policy allows. */
static enum probe_result f14_fd(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	cleanup_fd int fd = open("frozen/file", O_RDONLY | O_CLOEXEC);
	int flags = 0;

	if (fd < 0)
		return probe_skip(detail, "the read-only file cannot be opened here");
	tally_try(&t, fchmod(fd, 0640), "fchmod");
	tally_try(&t, fchown(fd, getuid(), getgid()), "fchown");
	tally_try(&t, futimens(fd, epoch), "futimens");
	tally_try(&t, syscall(SYS_utimensat, fd, NULL, epoch, 0), "utimensat without a path");
	tally_try(&t, fsetxattr(fd, "user.croft", "1", 1, 0), "fsetxattr");
	tally_try(&t, fremovexattr(fd, "user.croft"), "fremovexattr");
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0)
		tally_try(&t, ioctl(fd, FS_IOC_SETFLAGS, &flags), "FS_IOC_SETFLAGS");
	return tally_end(&t);
}

static void by_handle(struct probe_tally *t, const char *path, const char *name)
{
	struct file_attr_v0 attr = {0};
	cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
	char proc[64];
	int again;

	if (fd < 0) {
		tally_try(t, -1, "O_PATH open of %s", name);
		return;
	}
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	tally_try(t, syscall(SYS_fchmodat2, fd, "", 0640, AT_EMPTY_PATH),
		"fchmodat2 empty path, %s", name);
	tally_try(t, fchownat(fd, "", getuid(), getgid(), AT_EMPTY_PATH), "fchownat empty path, %s",
		name);
	tally_try(t, syscall(SYS_utimensat, fd, "", epoch, AT_EMPTY_PATH),
		"utimensat empty path, %s", name);
	tally_try(t, chmod(proc, 0644), "chmod /proc/self/fd, %s", name);
	tally_try(t, chown(proc, getuid(), getgid()), "chown /proc/self/fd, %s", name);
	tally_try(t, utimensat(AT_FDCWD, proc, epoch, 0), "utimensat /proc/self/fd, %s", name);
	tally_try(t, setxattr(proc, "user.croft", "1", 1, 0), "setxattr /proc/self/fd, %s", name);
	tally_try(t, truncate(proc, 0), "truncate /proc/self/fd, %s", name);
	again = open(proc, O_WRONLY | O_CLOEXEC);
	tally_try(t, again, "reopen /proc/self/fd for writing, %s", name);
	if (again >= 0)
		close(again);
	/* Reached but refused for another reason is also reached: the filesystem was asked. */
	if (!t->a->control)
		tally_try(t, syscall(NR_FILE_SETATTR, fd, "", &attr, sizeof(attr), AT_EMPTY_PATH),
			"file_setattr, %s", name);
}

static enum probe_result f14_handle(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	by_handle(&t, "frozen/file", "a read-only file");
	by_handle(&t, "denied.env", "a denied file");
	return tally_end(&t);
}

static enum probe_result f14_handle_outside(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	by_handle(&t, probe_path(a, "outside/victim.txt"), "a file outside");
	by_handle(&t, probe_path(a, "home/.bashrc"), "~/.bashrc");
	return tally_end(&t);
}

/* Standard input came from outside, and with it the mount that it was opened through. */
static enum probe_result f14_given(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	static const char link[] = "/proc/self/fd/0";
	int flags = 0;

	tally_try(&t, fchmod(STDIN_FILENO, 0640), "fchmod");
	tally_try(&t, chmod(link, 04755), "chmod set-user-id /proc/self/fd");
	tally_try(&t, syscall(SYS_fchmodat2, STDIN_FILENO, "", 0644, AT_EMPTY_PATH), "fchmodat2");
	tally_try(&t, fchown(STDIN_FILENO, getuid(), getgid()), "fchown");
	tally_try(&t, chown(link, getuid(), getgid()), "chown /proc/self/fd");
	tally_try(&t, futimens(STDIN_FILENO, epoch), "futimens");
	tally_try(&t, utimensat(AT_FDCWD, link, epoch, 0), "utimensat /proc/self/fd");
	tally_try(&t, fsetxattr(STDIN_FILENO, "user.croft", "1", 1, 0), "fsetxattr");
	tally_try(&t, setxattr("/dev/fd/0", "user.croft", "1", 1, 0), "setxattr /dev/fd");
	tally_try(&t, fremovexattr(STDIN_FILENO, "user.croft"), "fremovexattr");
	if (ioctl(STDIN_FILENO, FS_IOC_GETFLAGS, &flags) == 0)
		tally_try(&t, ioctl(STDIN_FILENO, FS_IOC_SETFLAGS, &flags), "FS_IOC_SETFLAGS");
	tally_try(&t, truncate(link, 0), "truncate /proc/self/fd");
	return tally_end(&t);
}

/* What a descriptor opened for reading still lets a file be asked to do. */
static enum probe_result f14_ask(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	cleanup_fd int fd = open("frozen/file", O_RDONLY | O_CLOEXEC);
	long version = 0;

	if (fd < 0)
		return probe_skip(detail, "the read-only file cannot be opened here");
	tally_try(&t, fcntl(fd, F_SETLEASE, F_RDLCK), "lease for reading");
	fcntl(fd, F_SETLEASE, F_UNLCK);
	if (ioctl(fd, FS_IOC_GETVERSION, &version) == 0)
		tally_try(&t, ioctl(fd, FS_IOC_SETVERSION, &version), "FS_IOC_SETVERSION");
	return tally_end(&t);
}

static enum probe_result f14_device(const struct probe_args *a, struct buf *detail)
{
	static const char *const nodes[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"};
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		cleanup_fd int fd = open(nodes[i], O_RDWR | O_CLOEXEC);
		struct stat st;

		if (fd < 0 || fstat(fd, &st) < 0)
			continue;
		/* To what they are: the control runs on the machine's own nodes. */
		tally_root(&t, chmod(nodes[i], st.st_mode & 07777), "chmod %s", nodes[i]);
		tally_root(&t, fchmod(fd, st.st_mode & 07777), "fchmod %s", nodes[i]);
		tally_root(&t, fchown(fd, st.st_uid, st.st_gid), "fchown %s", nodes[i]);
		tally_try(&t, futimens(fd, NULL), "futimens %s", nodes[i]);
	}
	return tally_end(&t);
}

/* A set-id file in the workspace would run as the user for anybody who starts it. */
static enum probe_result f15_setid(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	cleanup_fd int plain = open("setid-plain", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	int fd;

	if (plain < 0)
		return probe_skip(detail, "the workspace cannot be written here");
	tally_try(&t, chmod("setid-plain", 04755), "chmod set-user-id");
	tally_try(&t, chmod("setid-plain", 02755), "chmod set-group-id");
	tally_try(&t, fchmod(plain, 04755), "fchmod set-user-id");
	tally_try(&t, fchmod(plain, 02755), "fchmod set-group-id");
	tally_try(&t, syscall(SYS_fchmodat2, plain, "", 06755, AT_EMPTY_PATH), "fchmodat2");
	fd = open("setid-open", O_WRONLY | O_CREAT | O_CLOEXEC, 04755);
	tally_try(&t, fd, "open");
	close_fd(&fd);
	tally_try(&t, mknod("setid-node", S_IFREG | 04755, 0), "mknod");
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"F14", "F14-path", "change, rename, truncate or remove protected files", PROBE_BOTH,
		f14_path, .rules = RULES_INNER},
	{"F14", "F14-outside", "the same on files outside the workspace", PROBE_BOTH, f14_outside,
		.outside = true, .rules = RULES_EITHER},
	{"F14", "F14-fd", "change a read-only file by its descriptor", PROBE_BOTH, f14_fd,
		.rules = RULES_INNER},
	{"F14", "F14-handle", "change protected files by O_PATH descriptor", PROBE_BOTH, f14_handle,
		.rules = RULES_INNER},
	{"F14", "F14-handle-outside", "change files outside by O_PATH descriptor", PROBE_BOTH,
		f14_handle_outside, .outside = true, .rules = RULES_EITHER},
	{"F14", "F14-given", "change a file that is standard input", PROBE_BOTH, f14_given,
		.rules = RULES_EITHER, .given = "outside/victim.txt"},
	{"F14", "F14-ask", "leases and ioctls on a file that can only be read", PROBE_BOTH, f14_ask,
		.rules = RULES_INNER},
	{"F14", "F14-device", "change the host's device nodes", PROBE_BOTH, f14_device,
		.rules = RULES_EITHER},
	{"F15", "F15-set-id", "make set-id files in the workspace", PROBE_BOTH, f15_setid,
		.rules = RULES_EITHER},
};
const struct probe_family probes_meta = {probes, ARRAY_SIZE(probes)};
