/* SPDX-License-Identifier: Apache-2.0 */
/* Doctor's checks of namespaces, and why a user namespace cannot be had here. */
#include "doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/tproxy.h"
#include "os/mount.h"
#include "os/path.h"
#include "os/spawn.h"

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

void doctor_read_line(const char *path, char *ret, size_t size)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	size_t n;

	ret[0] = '\0';
	if (file_read_at(AT_FDCWD, path, &b) < 0)
		return;
	n = MIN_OF(strcspn(buf_str(&b), "\n"), size - 1);
	memcpy(ret, buf_str(&b), n);
	ret[n] = '\0';
}

static bool sysctl_is(const char *path, const char *value)
{
	char line[64];

	doctor_read_line(path, line, sizeof(line));
	return str_eq(line, value);
}

bool doctor_in_container(char *ret_what, size_t size)
{
	static const struct {
		const char *path, *what;
	} marks[] = {
		{"/.dockerenv", "a Docker container"},
		{"/run/.containerenv", "a Podman container"},
		{"/run/systemd/container", "a container"},
		{"/var/run/secrets/kubernetes.io", "a Kubernetes pod"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (access(marks[i].path, F_OK) == 0) {
			snprintf(ret_what, size, "%s", marks[i].what);
			return true;
		}
	return false;
}

/* A profile that lets exactly this program make user namespaces; the machine's default stays. */
static void fix_apparmor(struct doctor_answer *a)
{
	char exe[512];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[n > 0 ? n : 0] = '\0';
	doctor_fix(a,
		"AppArmor forbids user namespaces to programs without a profile\n"
		"(kernel.apparmor_restrict_unprivileged_userns). Give croft one: save as\n"
		"/etc/apparmor.d/croft, then run: sudo apparmor_parser -r /etc/apparmor.d/croft\n"
		"\n"
		"  abi <abi/4.0>,\n"
		"  include <tunables/global>\n"
		"  profile croft \"%s\" flags=(unconfined) {\n"
		"    userns,\n"
		"    include if exists <local/croft>\n"
		"  }\n"
		"\n"
		"Until then --tier process works without user namespaces.",
		n > 0 ? exe : "/usr/local/bin/croft");
}

static void fix_userns(struct doctor_answer *a, int errnum)
{
	char where[64];

	if (geteuid() != 0 &&
		sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
		fix_apparmor(a);
	else if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", "0") && geteuid() != 0)
		doctor_fix(a, "sudo sysctl -w kernel.unprivileged_userns_clone=1\n"
			      "(and the same line in /etc/sysctl.d/ to keep it)");
	else if (errnum == ENOSPC || errnum == EUSERS ||
		 sysctl_is("/proc/sys/user/max_user_namespaces", "0"))
		doctor_fix(a, "sudo sysctl -w user.max_user_namespaces=15000\n"
			      "(and the same line in /etc/sysctl.d/ to keep it)");
	else if (errnum == ENOSYS || errnum == EINVAL)
		doctor_fix(a, "the kernel was built without user namespaces (CONFIG_USER_NS);\n"
			      "use --tier process");
	else if (doctor_in_container(where, sizeof(where)))
		doctor_fix(a,
			"this is %s whose seccomp profile refuses user namespaces; use --tier\n"
			"process, or start it with a profile that permits unshare and clone",
			where);
	else
		doctor_fix(a,
			"user namespaces are refused by a security policy of this machine (a\n"
			"seccomp filter, a chroot, SELinux); use --tier process");
}

int doctor_enter_userns(struct doctor_answer *a, int more_flags)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	struct err e = ERR_INIT;
	int r;

	if (unshare(CLONE_NEWUSER) < 0) {
		r = errno;
		doctor_say(a, DOCTOR_NO, "no user namespace: %s", strerror(r));
		fix_userns(a, r);
		return -r;
	}
	/* AppArmor lets the namespace exist and then refuses every capability in it. */
	if (spawn_map_self(uid, gid, &e) < 0) {
		doctor_say(a, DOCTOR_NO, "user namespace without use: %s", e.msg);
		fix_userns(a, e.errnum);
		return -e.errnum;
	}
	if (more_flags && unshare(more_flags) < 0) {
		r = errno;
		doctor_say(a, DOCTOR_NO, "%s", strerror(r));
		if (r == ENOSPC)
			doctor_fix(a,
				"a limit in /proc/sys/user/max_*_namespaces is reached; raise it");
		else if (r == EPERM)
			fix_userns(a, r);
		else
			doctor_fix(a, "this kernel does not have that namespace; a newer one does");
		return -r;
	}
	return 0;
}

void doctor_check_userns(struct doctor_answer *a)
{
	if (doctor_enter_userns(a, CLONE_NEWUTS) < 0)
		return;
	if (sethostname("croft", 5) < 0) {
		int r = errno;

		doctor_say(a, DOCTOR_NO, "created, but without capabilities: %s", strerror(r));
		fix_userns(a, r);
		return;
	}
	doctor_say(a, DOCTOR_YES,
		geteuid() == 0 ? "created and used, as root"
			       : "created and used without privilege");
}

void doctor_check_mntns(struct doctor_answer *a)
{
	struct err e = ERR_INIT;

	if (doctor_enter_userns(a, CLONE_NEWNS) < 0)
		return;
	if (mount_make_private(&e) < 0)
		doctor_say(a, DOCTOR_NO, "%s", e.msg);
	else
		doctor_say(a, DOCTOR_YES, "own mount table, made private");
}

void doctor_check_pidns(struct doctor_answer *a)
{
	int status = 0;
	pid_t pid;

	if (doctor_enter_userns(a, CLONE_NEWPID) < 0)
		return;
	pid = fork();
	if (pid == 0)
		_exit(getpid() == 1 ? 0 : 1);
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		doctor_say(a, DOCTOR_NO, "its first process is not pid 1");
	else
		doctor_say(a, DOCTOR_YES, "its first process is pid 1");
}

void doctor_check_netns(struct doctor_answer *a)
{
	struct err e = ERR_INIT;

	if (doctor_enter_userns(a, CLONE_NEWNET) < 0)
		return;
	if (loopback_up(&e) < 0)
		doctor_say(a, DOCTOR_PARTLY, "created, but %s", e.msg);
	else
		doctor_say(a, DOCTOR_YES, "only a loopback inside");
}

void doctor_check_capture(struct doctor_answer *a)
{
	int fds[CAPTURE_FD_NUM];
	struct err e = ERR_INIT;

	if (doctor_enter_userns(a, CLONE_NEWNET) < 0)
		return;
	if (loopback_up(&e) < 0 || capture_set_up(fds, NULL, 0, &e) < 0) {
		doctor_say(a, DOCTOR_NO, "%s", e.msg);
		doctor_fix(a, "load the kernel modules nf_tables and nft_tproxy (modprobe "
			      "nft_tproxy); without them policies with network rules are refused "
			      "in the namespace tier");
		return;
	}
	doctor_say(a, DOCTOR_YES, "every address lands in the gateway's sockets");
}

void doctor_check_ipcns(struct doctor_answer *a)
{
	if (doctor_enter_userns(a, CLONE_NEWIPC) == 0)
		doctor_say(a, DOCTOR_YES, "own System V IPC and message queues");
}

void doctor_check_utsns(struct doctor_answer *a)
{
	if (doctor_enter_userns(a, CLONE_NEWUTS) == 0)
		doctor_say(a, DOCTOR_YES, "own host name");
}

void doctor_check_cgroupns(struct doctor_answer *a)
{
	if (doctor_enter_userns(a, CLONE_NEWCGROUP) == 0)
		doctor_say(a, DOCTOR_YES, "own view of cgroups");
}

void doctor_check_timens(struct doctor_answer *a)
{
	if (doctor_enter_userns(a, CLONE_NEWTIME) == 0)
		doctor_say(a, DOCTOR_YES, "own boot and monotonic clocks");
	else if (!strstr(a->detail, "user namespace"))
		doctor_fix(a, "time namespaces need Linux 5.6; croft works without");
}
