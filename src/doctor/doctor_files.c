/* SPDX-License-Identifier: Apache-2.0 */
/* Doctor's checks of mounts, proc, overlay, FUSE and path walking. */
#include "doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/fuse.h"
#include "os/mount.h"
#include "os/path.h"
#include "os/uapi.h"

/* A private tmpfs on /tmp to play on; only this check's mount namespace sees it. */
static int scratch_mount(struct doctor_answer *a, int more_flags)
{
	struct err e = ERR_INIT;
	int r = doctor_enter_userns(a, CLONE_NEWNS | more_flags);

	if (r < 0)
		return r;
	if (mount_make_private(&e) < 0) {
		doctor_say(a, DOCTOR_NO, "%s", e.msg);
		return -e.errnum;
	}
	if (mount("croft", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0) {
		r = errno;
		doctor_say(a, DOCTOR_NO, "cannot mount a tmpfs: %s", strerror(r));
		return -r;
	}
	return 0;
}

void doctor_check_mount_api(struct doctor_answer *a)
{
	static const char *const opts[] = {"size=1m", NULL};
	cleanup_fd int m = -1, dir = -1, ro = -1, f = -1, target = -1;
	struct err e = ERR_INIT;

	if (scratch_mount(a, 0) < 0)
		return;
	if (mount_new("tmpfs", opts, 0, &m, &e) < 0)
		goto failed;
	if (mkdirat(m, "d", 0755) < 0 || (dir = openat(m, "d", O_PATH | O_CLOEXEC)) < 0) {
		err_set(&e, errno, "use a detached mount");
		goto failed;
	}
	target = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (mount_attach(m, target, "", &e) < 0 || mount_clone(dir, MOUNT_RO, &ro, &e) < 0)
		goto failed;
	f = openat(ro, "x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (f >= 0 || errno != EROFS) {
		doctor_say(a, DOCTOR_NO, "a read-only clone could be written");
		return;
	}
	doctor_say(a, DOCTOR_YES, "detached mounts, read-only clones");
	return;
failed:
	doctor_say(a, DOCTOR_NO, "%s", e.msg);
	doctor_fix(
		a, "needs Linux 5.12 (fsopen, open_tree, mount_setattr); use --tier process here");
}

static void try_proc(struct doctor_answer *a)
{
	cleanup_fd int m = -1, f = -1;
	struct err e = ERR_INIT;
	char where[64] = "this machine";

	if (mount_new("proc", NULL, MOUNT_NODEV | MOUNT_NOEXEC, &m, &e) < 0) {
		doctor_say(a, DOCTOR_NO, "%s", e.msg);
		doctor_in_container(where, sizeof(where));
		doctor_fix(a,
			"%s hides parts of its own /proc, so the kernel refuses a fresh one; start "
			"the\n"
			"container with an unmasked /proc (Docker: --security-opt "
			"systempaths=unconfined,\n"
			"Podman: --security-opt unmask=ALL), or use --tier process",
			where);
		return;
	}
	f = openat(m, "1/stat", O_RDONLY | O_CLOEXEC);
	doctor_say(a, f >= 0 ? DOCTOR_YES : DOCTOR_PARTLY,
		f >= 0 ? "shows only the sandbox's processes" : "mounted, but shows no processes");
}

void doctor_check_proc(struct doctor_answer *a)
{
	int p[2], status;
	struct doctor_answer got;
	pid_t pid;

	if (doctor_enter_userns(a, CLONE_NEWNS | CLONE_NEWPID) < 0 || pipe2(p, O_CLOEXEC) < 0)
		return;
	pid = fork(); /* a new pid namespace begins with the next child */
	if (pid == 0) {
		try_proc(a);
		_exit(write(p[1], a, sizeof(*a)) == (ssize_t)sizeof(*a) ? 0 : 1);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid &&
		read(p[0], &got, sizeof(got)) == sizeof(got))
		*a = got;
	else
		doctor_say(a, DOCTOR_NO, "the check gave no answer");
}

void doctor_check_overlay(struct doctor_answer *a)
{
	struct stat st;
	int f;

	if (scratch_mount(a, 0) < 0)
		return;
	if (mkdir("/tmp/l", 0755) < 0 || mkdir("/tmp/u", 0755) < 0 || mkdir("/tmp/w", 0755) < 0 ||
		mkdir("/tmp/m", 0755) < 0) {
		doctor_say(a, DOCTOR_NO, "make directories: %s", strerror(errno));
		return;
	}
	if (mount("overlay", "/tmp/m", "overlay", MS_NOSUID | MS_NODEV,
		    "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w,userxattr") < 0) {
		doctor_say(a, DOCTOR_NO, "mount overlay in a user namespace: %s", strerror(errno));
		doctor_fix(a, "overlay in user namespaces needs Linux 5.11 and the overlay module\n"
			      "(sudo modprobe overlay); without it --discard is refused");
		return;
	}
	f = open("/tmp/m/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (f >= 0)
		close(f);
	if (f < 0 || stat("/tmp/u/x", &st) < 0 || stat("/tmp/l/x", &st) == 0)
		doctor_say(a, DOCTOR_NO, "mounted, but a write did not land in the upper layer");
	else
		doctor_say(a, DOCTOR_YES, "writes land in the upper layer only");
}

static void count_touch(void *arg, size_t slot, const char *name, enum decoy_op op, pid_t pid)
{
	(*(int *)arg)++;
}

/* Serve one decoy until the child that opens it is done. */
static void serve_decoy(int dev, pid_t pid, int *touches)
{
	static const enum decoy_kind kinds[] = {DECOY_SECRET};
	struct decoyfs d = {.dev_fd = dev,
		.slots_n = 1,
		.kinds = kinds,
		.touched = count_touch,
		.arg = touches};
	int status;

	for (int i = 0; i < 1000 && waitpid(pid, &status, WNOHANG) == 0; i++) {
		struct pollfd p = {.fd = dev, .events = POLLIN};

		if (poll(&p, 1, 5) > 0 && decoyfs_serve(&d) < 0)
			break;
	}
}

void doctor_check_fuse(struct doctor_answer *a)
{
	cleanup_fd int dev = -1, m = -1, target = -1;
	struct err e = ERR_INIT;
	int touches = 0;
	pid_t pid;

	if (scratch_mount(a, 0) < 0)
		return;
	target = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (decoyfs_mount(&dev, &m, &e) < 0 || mount_attach(m, target, "", &e) < 0) {
		doctor_say(a, DOCTOR_NO, "%s", e.msg);
		doctor_fix(a,
			"needs /dev/fuse readable by you (sudo modprobe fuse; in a container:\n"
			"--device /dev/fuse); without it, reads of secret paths are refused and\n"
			"reported, but not how often or by which process");
		return;
	}
	pid = fork();
	if (pid == 0)
		_exit(open("/tmp/0", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : 1);
	serve_decoy(dev, pid, &touches);
	if (touches > 0)
		doctor_say(a, DOCTOR_YES, "a decoy refused and told");
	else
		doctor_say(a, DOCTOR_NO, "mounted, but a decoy did not tell");
}

void doctor_check_openat2(struct doctor_answer *a)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
	long r;

	if (forced_fail("openat2")) {
		errno = ENOSYS;
		r = -1;
	} else {
		/* /proc/self is a symlink: refusing it is the point. */
		r = syscall(SYS_openat2, AT_FDCWD, "/proc/self", &how, sizeof(how));
	}
	if (r >= 0) {
		doctor_say(a, DOCTOR_NO, "followed a symlink it was told not to");
	} else if (errno == ELOOP) {
		doctor_say(a, DOCTOR_YES, "refuses symlinks when told to");
	} else {
		doctor_say(a, DOCTOR_NO, "%s; croft walks component by component instead",
			strerror(errno));
		doctor_fix(a,
			"openat2 needs Linux 5.6, and a container's seccomp profile that knows it");
	}
}
