/* SPDX-License-Identifier: Apache-2.0 */
/* Processes in new namespaces: see spawn.h. */
#include "os/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/path.h"
#include "os/uapi.h"

#define K_CLONE_NEWTIME 0x00000080ull
#define K_CLONE_INTO_CGROUP 0x200000000ull
#define K_CLONE_PIDFD 0x00001000ull

struct k_clone_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
		set_tid_size, cgroup;
};

static pid_t try_clone3(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
	struct k_clone_args a = {
		.flags = flags | K_CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
	};

	if (cgroup_fd >= 0) {
		a.flags |= K_CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)cgroup_fd;
	}
	return (pid_t)syscall(SYS_clone3, &a, sizeof(a));
}

/* Legacy clone: raw, with a NULL stack it behaves as fork. */
static pid_t try_clone(uint64_t flags, int *ret_pidfd)
{
#if defined(__x86_64__) || defined(__aarch64__)
	return (pid_t)syscall(
		SYS_clone, flags | K_CLONE_PIDFD | SIGCHLD, NULL, ret_pidfd, NULL, 0ul);
#else
#error "clone argument order unknown for this architecture"
#endif
}

int spawn_in_namespaces(struct spawned *ret, uint64_t ns_flags, int cgroup_fd, struct err *e)
{
	int pidfd = -1;
	pid_t pid = -1;

	*ret = (struct spawned){.pidfd = -1, .ns_flags = ns_flags};
	if (!forced_fail("clone3")) {
		pid = try_clone3(ns_flags, cgroup_fd, &pidfd);
		ret->in_cgroup = cgroup_fd >= 0;
		if (pid < 0 && cgroup_fd >= 0 && errno != ENOSYS && errno != EPERM) {
			pid = try_clone3(ns_flags, -1, &pidfd);
			ret->in_cgroup = 0;
		}
		if (pid < 0 && errno == EINVAL && (ns_flags & K_CLONE_NEWTIME)) {
			ret->ns_flags = ns_flags &= ~K_CLONE_NEWTIME;
			pid = try_clone3(ns_flags, -1, &pidfd);
			ret->in_cgroup = 0;
		}
	} else {
		errno = ENOSYS;
	}
	if (pid < 0 && (errno == ENOSYS || (errno == EPERM && !(ns_flags & CLONE_NEWUSER)))) {
		ret->in_cgroup = 0;
		ret->ns_flags = ns_flags &= ~K_CLONE_NEWTIME;
		pid = try_clone(ns_flags, &pidfd);
	}
	if (pid < 0)
		return err_set(e, errno, "create namespaces");
	if (pid == 0)
		return 0;
	ret->pid = pid;
	ret->pidfd = pidfd;
	return 1;
}

struct id_map id_map_one(uid_t uid, gid_t gid)
{
	return (struct id_map){
		.uid = {{uid, uid, 1}}, .uid_n = 1, .gid = {{gid, gid, 1}}, .gid_n = 1};
}

static int write_map(const char *file, const struct id_line *line, size_t n, struct err *e)
{
	char text[ID_LINES_MAX * 40];
	size_t len = 0;
	int r;

	if (n == 0 || n > ID_LINES_MAX)
		return err_set(e, EINVAL, "map %zu ranges of ids in %s", n, file);
	/* One write(): the kernel takes no second. */
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u %u %u", i ? "\n" : "",
			line[i].inside, line[i].outside, line[i].count);
	r = file_poke_at(AT_FDCWD, file, text);
	return r < 0 ? err_set(e, -r, "write %s", file) : 0;
}

int spawn_map(const struct id_map *m, struct err *e)
{
	int r = m->setgroups ? 0 : file_poke_at(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "write /proc/self/setgroups");
	r = write_map("/proc/self/uid_map", m->uid, m->uid_n, e);
	return r < 0 ? r : write_map("/proc/self/gid_map", m->gid, m->gid_n, e);
}

int spawn_map_self(uid_t uid, gid_t gid, struct err *e)
{
	struct id_map one = id_map_one(uid, gid);

	return spawn_map(&one, e);
}

int loopback_up(struct err *e)
{
	cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {0};

	if (fd < 0)
		return err_set(e, errno, "open socket");
	memcpy(ifr.ifr_name, "lo", 3);
	ifr.ifr_flags = IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_set(e, errno, "bring up loopback");
	return 0;
}
