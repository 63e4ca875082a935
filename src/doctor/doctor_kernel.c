/* SPDX-License-Identifier: Apache-2.0 */
/* Doctor's checks of Landlock, seccomp, privileges, processes and cgroups. */
#include "doctor/doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/caps.h"
#include "os/cgroup.h"
#include "os/forced.h"
#include "os/landlock.h"
#include "os/uapi.h"

#define SPOOFED_ANSWER 4711

static void fix_landlock(struct doctor_answer *a)
{
	char lsm[256];

	doctor_read_line("/sys/kernel/security/lsm", lsm, sizeof(lsm));
	if (lsm[0] && !strstr(lsm, "landlock"))
		doctor_fix(a,
			"Landlock is built in or missing but not enabled: boot with\n"
			"lsm=landlock,%.200s on the kernel command line",
			lsm);
	else
		doctor_fix(a,
			"Landlock needs Linux 5.13 with CONFIG_SECURITY_LANDLOCK, enabled in the\n"
			"lsm= boot parameter, and a container's seccomp profile that knows it");
}

void doctor_check_landlock(struct doctor_answer *a)
{
	struct landlock l = LANDLOCK_INIT;
	struct err e = ERR_INIT;
	int abi = landlock_abi();

	if (abi <= 0) {
		doctor_say(a, DOCTOR_NO, "the kernel does not offer it");
		fix_landlock(a);
		return;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_open(&l, 0, &e) < 0 ||
		landlock_apply(&l, &e) < 0) {
		doctor_say(a, DOCTOR_NO, "ABI %d, but %s", abi, e.msg);
		fix_landlock(a);
		return;
	}
	if (open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 || errno != EACCES) {
		doctor_say(a, DOCTOR_NO, "ABI %d, but a read it should refuse succeeded", abi);
		return;
	}
	doctor_say(a, DOCTOR_YES, "ABI %d, refused a read%s%s%s", abi,
		abi >= 3 ? "" : "; no truncation control (ABI 3)",
		abi >= 5 ? "" : "; no ioctl control (ABI 5)",
		abi >= 6 ? "" : "; no scoping of signals and abstract sockets (ABI 6)");
}

void doctor_check_landlock_tcp(struct doctor_answer *a)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct landlock l = LANDLOCK_INIT;
	struct err e = ERR_INIT;
	cleanup_fd int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (landlock_abi() == 0) {
		doctor_say(a, DOCTOR_NO, "no Landlock");
		fix_landlock(a);
		return;
	}
	if (landlock_abi() < 4) {
		doctor_say(a, DOCTOR_NO, "ABI %d; TCP rules came with ABI 4", landlock_abi());
		doctor_fix(a,
			"needs Linux 6.7; until then the process tier closes TCP by seccomp only");
		return;
	}
	if (s < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		landlock_open(&l, LANDLOCK_DENY_TCP, &e) < 0 || landlock_apply(&l, &e) < 0) {
		doctor_say(a, DOCTOR_NO, "%s", e.msg);
		return;
	}
	if (bind(s, (struct sockaddr *)&sin, sizeof(sin)) == 0 || errno != EACCES)
		doctor_say(a, DOCTOR_NO, "a bind it should refuse succeeded");
	else
		doctor_say(a, DOCTOR_YES, "refused a bind");
}

/* A filter with one special call. */
static int install_filter(int nr, uint32_t action, unsigned flags)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = ARRAY_SIZE(f), .filter = f};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);

	return r < 0 ? -errno : (int)r;
}

void doctor_check_seccomp(struct doctor_answer *a)
{
	int r = install_filter(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV, 0);

	if (r < 0) {
		doctor_say(a, DOCTOR_NO, "%s", strerror(-r));
		doctor_fix(a, "the kernel needs CONFIG_SECCOMP_FILTER; nothing can be confined "
			      "without it");
	} else if (syscall(SYS_getppid) != -1 || errno != EXDEV) {
		doctor_say(a, DOCTOR_NO, "installed, but the call went through");
	} else {
		doctor_say(a, DOCTOR_YES, "refused the call it was told to");
	}
}

static bool answer_one(int listener)
{
	struct seccomp_notif req;
	struct seccomp_notif_resp resp;
	struct pollfd p = {.fd = listener, .events = POLLIN};

	memset(&req, 0, sizeof(req));
	memset(&resp, 0, sizeof(resp));
	if (poll(&p, 1, 2000) <= 0 || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &req) < 0)
		return false;
	resp.id = req.id;
	resp.val = SPOOFED_ANSWER;
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp) == 0;
}

void doctor_check_seccomp_notify(struct doctor_answer *a)
{
	int listener = install_filter(
		SYS_getppid, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	int status = -1;
	pid_t pid;

	if (listener < 0) {
		doctor_say(a, DOCTOR_NO, "%s", strerror(-listener));
		doctor_fix(a, listener == -EBUSY ? "an outer sandbox already listens; rules that "
						   "need the broker are refused here"
						 : "needs Linux 5.0; without it --direct, observe: "
						   "writes, and rules that need the\n"
						   "broker are refused");
		return;
	}
	pid = fork();
	if (pid == 0)
		_exit(syscall(SYS_getppid) == SPOOFED_ANSWER ? 0 : 1);
	if (!answer_one(listener) || waitpid(pid, &status, 0) < 0 || status != 0)
		doctor_say(a, DOCTOR_NO, "the notification was not answered");
	else
		doctor_say(a, DOCTOR_YES, "a call was caught and answered");
}

void doctor_check_caps(struct doctor_answer *a)
{
	struct err e = ERR_INIT;

	if (caps_drop_all(&e) < 0)
		doctor_say(a, DOCTOR_NO, "%s", e.msg);
	else
		doctor_say(a, DOCTOR_YES, "every set empty, read back");
}

void doctor_check_keyring(struct doctor_answer *a)
{
	struct err e = ERR_INIT;
	int r = keyring_new_session(&e);

	if (r < 0)
		doctor_say(a, DOCTOR_NO, "%s", e.msg);
	else
		doctor_say(
			a, DOCTOR_YES, r == 0 ? "empty one joined" : "the kernel has no keyrings");
}

void doctor_check_yama(struct doctor_answer *a)
{
	char line[64];

	doctor_read_line("/proc/sys/kernel/yama/ptrace_scope", line, sizeof(line));
	doctor_say(a, DOCTOR_FACT,
		line[0] ? "%s (0: any process of the same user may be traced)" : "not present%s",
		line);
}

void doctor_check_clone3(struct doctor_answer *a)
{
	/* Too short a structure is EINVAL where the call exists, and creates nothing. */
	if (forced_fail("clone3"))
		errno = ENOSYS;
	else
		syscall(SYS_clone3, NULL, 0);
	if (errno == ENOSYS || errno == EPERM) {
		doctor_say(a, DOCTOR_NO, "%s; croft uses clone instead", strerror(errno));
		doctor_fix(a,
			"clone3 needs Linux 5.3, and a container's seccomp profile that knows it;\n"
			"croft works without, and starts a little slower");
	} else {
		doctor_say(a, DOCTOR_YES, "present");
	}
}

void doctor_check_pidfd(struct doctor_answer *a)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	if (pid < 0)
		return;
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0 || syscall(SYS_pidfd_send_signal, p.fd, SIGKILL, NULL, 0) < 0 ||
		poll(&p, 1, 2000) != 1) {
		doctor_say(a, DOCTOR_NO, "%s", strerror(errno));
		doctor_fix(a, "pidfd needs Linux 5.3");
		kill(pid, SIGKILL);
	} else {
		doctor_say(a, DOCTOR_YES, "a process was ended and awaited by descriptor");
	}
	waitpid(pid, NULL, 0);
}

/* In the cgroup: fork until refused. 0 when the limit held. */
static int fork_until_refused(int go)
{
	char c;

	if (read(go, &c, 1) != 1)
		return 2;
	for (int i = 0; i < 32; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return errno == EAGAIN ? 0 : 3;
		if (pid == 0)
			for (;;)
				pause();
	}
	return 1;
}

/* Put a child under the pids limit and see it stopped. */
static bool pids_limit_holds(struct cgroup *c)
{
	struct err e = ERR_INIT;
	int p[2], status = -1;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		_exit(fork_until_refused(p[0]));
	if (pid > 0 && cgroup_enter(c, pid, &e) == 0 && write(p[1], "g", 1) == 1)
		waitpid(pid, &status, 0);
	else if (pid > 0)
		kill(pid, SIGKILL);
	close(p[0]);
	close(p[1]);
	return status == 0;
}

static void fix_cgroup(struct doctor_answer *a)
{
	doctor_fix(a,
		"let systemd hand you a group: run croft as\n"
		"  systemd-run --user --scope -p Delegate=yes croft run ...\n"
		"or delegate to your user manager for good: a drop-in for user@.service with\n"
		"[Service] Delegate=cpu memory pids. In a container: mount the cgroup file system\n"
		"writable. Until then memory and processes are limited by rlimits, CPU is not");
}

void doctor_check_cgroup(struct doctor_answer *a)
{
	const unsigned all_limits = CGROUP_HAS_MEMORY | CGROUP_HAS_CPU | CGROUP_HAS_PIDS;
	struct cgroup_limits limits = {.memory_b = 64u << 20, .cpu_milli = 500, .pids = 8};
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;
	char id[32];
	bool held;

	snprintf(id, sizeof(id), "doctor-%d", (int)getpid());
	if (cgroup_make(&c, id, &limits, &e) < 0 || c.kind == CGROUP_NONE) {
		doctor_say(a, DOCTOR_NO, "%s", e.msg[0] ? e.msg : c.why);
		fix_cgroup(a);
		return;
	}
	held = !(c.has & CGROUP_HAS_PIDS) || pids_limit_holds(&c);
	doctor_say(a,
		!held || !c.has       ? DOCTOR_NO
		: c.has == all_limits ? DOCTOR_YES
				      : DOCTOR_PARTLY,
		"%s:%s%s%s%s%s%s", cgroup_kind_names[c.kind],
		c.has & CGROUP_HAS_MEMORY ? " memory" : "", c.has & CGROUP_HAS_CPU ? " cpu" : "",
		c.has & CGROUP_HAS_PIDS ? " pids" : "",
		held ? "" : " but the pids limit did not hold", c.why[0] ? "; " : "", c.why);
	if (c.has != all_limits)
		fix_cgroup(a);
	cgroup_kill(&c);
	cgroup_remove(&c);
}
