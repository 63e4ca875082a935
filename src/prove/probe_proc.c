/* SPDX-License-Identifier: Apache-2.0 */
/*
 * F8 and I9: reaching the host or croft's own helpers through /proc, signals and debugging.
 *
 * Targets are the lure (a process of the same user, outside), our parent, and inside a pid
 * namespace every process we can see, which are croft's. Never anything else of the user's.
 */
#include "prove/prove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/uapi.h"

#define TARGETS_MAX 64
#define UID_NOBODY_HAS 2147483001
#define NICE_MAX 19

struct target {
	pid_t pid;
	char name[24];
};

static size_t targets(const struct probe_args *a, struct target ret[TARGETS_MAX])
{
	cleanup_dir DIR *d = NULL;
	struct dirent *e;
	size_t n = 0;

	ret[n++] = (struct target){(pid_t)probe_num(a, "pid"), "the lure"};
	if (a->control)
		return n;
	if (getppid() > 1)
		ret[n++] = (struct target){getppid(), "our parent"};
	if (!a->namespaced)
		return n;
	ret[n++] = (struct target){1, "pid 1"};
	d = opendir("/proc");
	while (d && n < TARGETS_MAX && (e = readdir(d))) {
		uint64_t pid;

		if (!str_u64(e->d_name, INT32_MAX, &pid) || pid <= 1 || (pid_t)pid == getpid() ||
			(pid_t)pid == getppid())
			continue;
		ret[n].pid = (pid_t)pid;
		snprintf(ret[n].name, sizeof(ret[n].name), "process %d", (int)pid);
		n++;
	}
	return n;
}

static int try_proc(const struct probe_args *a, pid_t pid, const char *fmt_tail)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, fmt_tail);
	return probe_read_token(a, open(path, O_RDONLY | O_CLOEXEC));
}

/* ---- F8 ---- */

static enum probe_result f8_root(const struct probe_args *a, struct buf *detail)
{
	static const char *const self[] = {"/proc/self/root", "/proc/thread-self/root",
		"/proc/self/task/../root", "/dev/fd/../root"};
	const char *secret = probe_path(a, "outside/.env");
	struct probe_tally t = tally_start(a, detail);
	struct target who[TARGETS_MAX];
	size_t n = targets(a, who);
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(self); i++) {
		snprintf(path, sizeof(path), "%s%s", self[i], secret);
		tally_try(&t, probe_read_token(a, open(path, O_RDONLY | O_CLOEXEC)), "%s", self[i]);
	}
	tally_try(&t,
		probe_read_token(a, open("/proc/self/cwd/../outside/.env", O_RDONLY | O_CLOEXEC)),
		"/proc/self/cwd");
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "root%s", secret);
		tally_try(&t, try_proc(a, who[i].pid, path), "root of %s", who[i].name);
		tally_try(
			&t, try_proc(a, who[i].pid, "cwd/outside/.env"), "cwd of %s", who[i].name);
		snprintf(path, sizeof(path), "task/%d/root%s", (int)who[i].pid, secret);
		tally_try(&t, try_proc(a, who[i].pid, path), "task root of %s", who[i].name);
	}
	return tally_end(&t);
}

static enum probe_result f8_environ(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	struct target who[TARGETS_MAX];
	size_t n = targets(a, who);

	for (size_t i = 0; i < n; i++) {
		int rc = try_proc(a, who[i].pid, "environ");

		/* Of a helper any text is too much: it may hold what its caller had. */
		if (rc < 0 && errno == ENODATA && i > 0)
			rc = 0;
		tally_try(&t, rc, "environ of %s", who[i].name);
	}
	return tally_end(&t);
}

/* Any descriptor of another, named or opened. Their numbers alone are no secret. */
static int try_fds(pid_t pid)
{
	char path[64], name[PATH_MAX];
	cleanup_dir DIR *d = NULL;
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	if (!d)
		return -1;
	while ((e = readdir(d))) {
		int fd;

		if (e->d_name[0] == '.')
			continue;
		if (readlinkat(dirfd(d), e->d_name, name, sizeof(name)) >= 0)
			return 0;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0) {
			close(fd);
			return 0;
		}
	}
	errno = EACCES;
	return -1;
}

static enum probe_result f8_fds(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	struct target who[TARGETS_MAX];
	size_t n = targets(a, who);
	char path[64];

	for (size_t i = 0; i < n; i++)
		tally_try(&t, try_fds(who[i].pid), "descriptors of %s", who[i].name);
	snprintf(path, sizeof(path), "fd/%ld", probe_num(a, "secretfd"));
	tally_try(&t, try_proc(a, (pid_t)probe_num(a, "pid"), path), "open the lure's descriptor");
	return tally_end(&t);
}

/* Some are refused when opened, some only when read. */
static int try_look(pid_t pid, const char *file, bool dir, int flags)
{
	char path[64], c[64];
	cleanup_fd int fd = -1;
	long n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, flags | (dir ? O_DIRECTORY : 0) | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (dir) {
		char names[4096];

		n = syscall(SYS_getdents64, fd, names, sizeof(names));
		/* "." and ".." take 48 bytes. */
		if (n >= 0 && n <= 48)
			errno = EACCES;
		return n > 48 ? 0 : -1;
	}
	/* For these the opening is what is checked. */
	if (flags != O_RDONLY || str_eq(file, "exe") || str_eq(file, "ns/mnt"))
		return 0;
	n = read(fd, c, sizeof(c));
	if (n == 0)
		errno = EACCES;
	return n > 0 ? 0 : -1;
}

static enum probe_result f8_mem(const struct probe_args *a, struct buf *detail)
{
	static const struct {
		const char *name;
		bool dir, root;
		int flags;
	} files[] = {
		{"mem", false, false, O_RDWR},
		{"maps", false, false, O_RDONLY},
		{"auxv", false, false, O_RDONLY},
		{"exe", false, false, O_RDONLY},
		{"ns/mnt", false, false, O_RDONLY},
		{"map_files", true, false, O_RDONLY},
		{"stack", false, true, O_RDONLY},
		{"syscall", false, true, O_RDONLY},
	};
	struct probe_tally t = tally_start(a, detail);
	struct target who[TARGETS_MAX];
	size_t n = targets(a, who);

	for (size_t i = 0; i < n; i++) {
		for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
			int rc = try_look(who[i].pid, files[f].name, files[f].dir, files[f].flags);

			/* A kernel may be built without the last two. */
			if (rc < 0 && a->control && errno == ENOENT)
				tally_na(&t);
			else if (files[f].root)
				tally_root(&t, rc, "%s of %s", files[f].name, who[i].name);
			else
				tally_try(&t, rc, "%s of %s", files[f].name, who[i].name);
		}
	}
	return tally_end(&t);
}

/*
 * Our own image is the launcher: writing to it would reach the next run. While it runs the file is
 * busy, so that opening says ETXTBSY before it says anything else; truncate asks the mount first.
 */
static enum probe_result f8_exe(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	cleanup_fd int ro = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st = {0};
	char path[64];
	long rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", ro);
	fstat(ro, &st);
	if (!a->control) {
		tally_try(&t, open("/proc/self/exe", O_WRONLY | O_CLOEXEC),
			"/proc/self/exe for writing");
		tally_try(&t, open(path, O_WRONLY | O_CLOEXEC), "reopened descriptor for writing");
	}
	rc = truncate("/proc/self/exe", st.st_size);
	if (rc < 0 && errno == ETXTBSY && (a->namespaced || a->control))
		rc = 0;
	tally_root(&t, rc, "truncate");
	tally_root(&t, chmod("/proc/self/exe", st.st_mode & 07777), "chmod");
	tally_root(&t, fchmod(ro, st.st_mode & 07777), "fchmod");
	return tally_end(&t);
}

/*
 * A helper that opens files for us must not mistake itself for us: "self" is the caller. What it
 * would hand out is its own memory, and the descriptors by which it judges.
 */
static enum probe_result f8_self(const struct probe_args *a, struct buf *detail)
{
	static const char *const spell[] = {
		"/proc/self", "/proc/thread-self", "self-link", "/dev/fd/.."};
	struct probe_tally t = tally_start(a, detail);
	volatile unsigned long mark = 0x63726f6674000000UL | (unsigned long)getpid();
	unsigned long seen = 0;
	char path[64];

	symlink("/proc/self", "self-link");
	for (size_t i = 0; i < ARRAY_SIZE(spell); i++) {
		cleanup_fd int mem = -1;

		snprintf(path, sizeof(path), "%s/mem", spell[i]);
		mem = open(path, O_RDWR | O_CLOEXEC);
		/* Ours, or none at all. */
		errno = EACCES;
		tally_try(&t,
			mem >= 0 && (pread(mem, &seen, sizeof(seen), (off_t)(uintptr_t)&mark) !=
						    sizeof(seen) ||
					    seen != mark)
				? 0
				: -1,
			"%s is another's memory", path);
		for (int fd = 3; fd < 64; fd++) {
			int got;

			if (fcntl(fd, F_GETFD) >= 0)
				continue;
			snprintf(path, sizeof(path), "%s/fd/%d", spell[i], fd);
			got = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
			if (got < 0)
				got = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
			if (got < 0)
				continue;
			tally_try(&t, 0, "%s is another's descriptor", path);
			close(got);
		}
	}
	if (a->control)
		return probe_skip(detail, "without a helper there is nobody to be mistaken for");
	return tally_end(&t);
}

/* ---- I9 ---- */

static enum probe_result i9_signal(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	pid_t pid = (pid_t)probe_num(a, "pid");
	siginfo_t info = {.si_signo = SIGWINCH, .si_code = SI_QUEUE};
	cleanup_fd int pidfd = -1;
	int pair[2];

	/* The lure counts these: they do nothing to a process that does not ask for them. */
	tally_try(&t, kill(pid, 0), "kill with signal 0");
	tally_try(&t, kill(pid, SIGWINCH), "kill");
	tally_try(&t, syscall(SYS_tkill, pid, SIGWINCH), "tkill");
	tally_try(&t, syscall(SYS_tgkill, pid, pid, SIGWINCH), "tgkill");
	tally_try(&t, syscall(SYS_rt_sigqueueinfo, pid, SIGWINCH, &info), "rt_sigqueueinfo");
	tally_try(&t, kill(-pid, SIGWINCH), "kill its process group");
	/* Who could end it would outlive croft. A pid namespace protects its first process by itself. */
	if (!a->control && !a->namespaced)
		tally_try(&t, kill(getppid(), 0), "signal the sandbox's first process");
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd >= 0 || a->control)
		tally_try(&t, syscall(SYS_pidfd_send_signal, pidfd, SIGWINCH, NULL, 0),
			"pidfd_send_signal");
	/* The owner of a descriptor gets SIGIO from the kernel; only the lure can tell. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
		if (fcntl(pair[0], F_SETOWN, pid) == 0 && fcntl(pair[0], F_SETFL, O_ASYNC) == 0)
			(void)!write(pair[1], "x", 1);
		close(pair[0]);
		close(pair[1]);
	}
	return tally_end(&t);
}

static long seize(void *arg)
{
	pid_t pid = *(pid_t *)arg;

	return ptrace(PTRACE_SEIZE, pid, NULL, NULL);
}

static void debug_one(struct probe_tally *t, const struct target *who)
{
	char local[16];
	struct iovec here = {local, sizeof(local)}, there = {(void *)(uintptr_t)8, sizeof(local)};
	cleanup_fd int pidfd = -1;
	pid_t pid = who->pid;
	long rc;
	int fd;

	tally_try(t, probe_in_child(seize, &pid), "ptrace %s", who->name);
	/* A wrong address is EFAULT, but only once the kernel has agreed to look. */
	rc = syscall(SYS_process_vm_readv, pid, &here, 1UL, &there, 1UL, 0UL);
	tally_try(t, rc < 0 && errno == EFAULT ? 0 : rc, "process_vm_readv %s", who->name);
	rc = syscall(SYS_process_vm_writev, pid, &here, 1UL, &there, 1UL, 0UL);
	tally_try(t, rc < 0 && errno == EFAULT ? 0 : rc, "process_vm_writev %s", who->name);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		tally_try(t, -1, "pidfd_open %s", who->name);
		return;
	}
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, 0, 0);
	tally_try(t, fd, "pidfd_getfd %s", who->name);
	if (fd >= 0)
		close(fd);
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, probe_num(t->a, "secretfd"), 0);
	tally_try(t, pid == probe_num(t->a, "pid") ? probe_read_token(t->a, fd) : fd,
		"pidfd_getfd of a secret, %s", who->name);
}

static enum probe_result i9_debug(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	struct target who[TARGETS_MAX];
	size_t n = targets(a, who);

	for (size_t i = 0; i < n; i++)
		debug_one(&t, &who[i]);
	return tally_end(&t);
}

/* Limits, priority and placement of a host process: a way to stop it without a signal. */
static enum probe_result i9_steer(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	pid_t pid = (pid_t)probe_num(a, "pid");
	struct sched_param param = {0};
	struct rlimit limit = {0};
	unsigned long mask[16] = {0}, node = 1;
	long size, prio;

	/* Each sets what is there already. */
	tally_try(&t, syscall(SYS_prlimit64, pid, RLIMIT_CORE, NULL, &limit), "prlimit read");
	if (limit.rlim_max || !a->control)
		tally_try(
			&t, syscall(SYS_prlimit64, pid, RLIMIT_CORE, &limit, NULL), "prlimit set");
	size = syscall(SYS_sched_getaffinity, pid, sizeof(mask), mask);
	tally_try(&t,
		syscall(SYS_sched_setaffinity, pid, size > 0 ? size : (long)sizeof(mask), mask),
		"sched_setaffinity");
	tally_try(&t, syscall(SYS_sched_setscheduler, pid, SCHED_OTHER, &param),
		"sched_setscheduler");
	prio = syscall(SYS_getpriority, PRIO_PROCESS, pid);
	tally_try(&t, setpriority(PRIO_PROCESS, (id_t)pid, prio > 0 ? 20 - (int)prio : 0),
		"setpriority");
	tally_try(&t, syscall(SYS_ioprio_set, 1, pid, (2 << 13) | 4), "ioprio_set");
	tally_try(&t, syscall(SYS_kcmp, pid, getpid(), 0, 0UL, 0UL), "kcmp");
#ifdef SYS_migrate_pages
	tally_try(&t, syscall(SYS_migrate_pages, pid, 64UL, &node, &node), "migrate_pages");
	tally_try(&t, syscall(SYS_move_pages, pid, 0UL, NULL, NULL, NULL, 0), "move_pages");
#endif
	return tally_end(&t);
}

/*
 * The same for a whole user or group. Harmless by its targets: the lure is a group of its own, and
 * UID_NOBODY_HAS has no process, so that "no such process" says that the kernel would have done it.
 * Inside a pid namespace a user's processes are those of the sandbox.
 */
static enum probe_result i9_renice(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	long group = probe_num(a, "pid"), best_effort = (2 << 13) | 7;

	if (!a->namespaced) {
		tally_reach(&t, false, setpriority(PRIO_USER, UID_NOBODY_HAS, 0),
			"setpriority of a user");
		tally_reach(&t, false, syscall(SYS_ioprio_set, 3, UID_NOBODY_HAS, best_effort),
			"ioprio_set of a user");
	}
	tally_try(&t, syscall(SYS_ioprio_set, 2, group, best_effort), "ioprio_set of a group");
	tally_try(&t, setpriority(PRIO_PGRP, (id_t)group, NICE_MAX), "setpriority of a group");
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"F8", "F8-proc-root", "reach the host through /proc/*/root and cwd", PROBE_BOTH, f8_root},
	{"F8", "F8-proc-environ", "read the environment of host and helper processes", PROBE_BOTH,
		f8_environ},
	{"F8", "F8-proc-fd", "list and open the descriptors of others", PROBE_BOTH, f8_fds},
	{"F8", "F8-proc-mem", "open the memory and maps of others", PROBE_BOTH, f8_mem},
	{"F8", "F8-proc-exe", "overwrite the launcher through /proc/self/exe", PROBE_BOTH, f8_exe},
	{"F8", "F8-proc-self", "get a helper's memory or descriptors as our own", PROBE_BOTH,
		f8_self, .rules = RULES_EITHER},
	{"I9", "I9-signal", "signal a host process", PROBE_BOTH, i9_signal},
	{"I9", "I9-debug", "debug, read or rob host and helper processes", PROBE_BOTH, i9_debug},
	{"I9", "I9-steer", "change limits and scheduling of a host process", PROBE_BOTH, i9_steer},
	{"I9", "I9-renice", "change the priority of a user's or group's processes", PROBE_BOTH,
		i9_renice},
};
const struct probe_family probes_proc = {probes, ARRAY_SIZE(probes)};
