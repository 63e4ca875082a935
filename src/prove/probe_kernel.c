/* SPDX-License-Identifier: Apache-2.0 */
/*
 * K1 to K7, K9, K10: kernel interfaces that no build or editor needs.
 *
 * Each is called with arguments that cannot work; "not permitted" or "no such call" means that it
 * was refused, any other error that the kernel looked at them. Nothing here changes anything.
 */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/uapi.h"

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define NOWHERE "/croft-no-such-path"
#define BAD_PTR ((long)8)

struct call {
	const char *name;
	long nr;
	bool root; /* without privilege it is refused before the arguments are looked at */
	long arg[6];
};

static enum probe_result call_all(
	const struct probe_args *a, struct buf *detail, const struct call *c, size_t n)
{
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < n; i++)
		tally_reach(&t, c[i].root,
			syscall(c[i].nr, c[i].arg[0], c[i].arg[1], c[i].arg[2], c[i].arg[3],
				c[i].arg[4], c[i].arg[5]),
			"%s", c[i].name);
	return tally_end(&t);
}

/* ---- K1, K6: namespaces and mounts ---- */

static const struct {
	const char *name;
	unsigned long flag;
	bool root;
} spaces[] = {
	{"user", CLONE_NEWUSER, false},
	{"user and mount", CLONE_NEWUSER | CLONE_NEWNS, false},
	{"user and network", CLONE_NEWUSER | CLONE_NEWNET, false},
	{"mount", CLONE_NEWNS, true},
	{"pid", CLONE_NEWPID, true},
	{"network", CLONE_NEWNET, true},
	{"ipc", CLONE_NEWIPC, true},
	{"uts", CLONE_NEWUTS, true},
	{"cgroup", CLONE_NEWCGROUP, true},
	{"time", CLONE_NEWTIME, true},
};

static long do_unshare(void *arg)
{
	return syscall(SYS_unshare, *(unsigned long *)arg);
}

static long do_clone(void *arg)
{
	long pid = syscall(SYS_clone, *(unsigned long *)arg | SIGCHLD, 0UL, 0UL, 0UL, 0UL);

	if (pid == 0)
		_exit(0);
	return pid;
}

static long do_clone3(void *arg)
{
	uint64_t args[11] = {[0] = *(unsigned long *)arg, [4] = SIGCHLD};
	long pid = syscall(SYS_clone3, args, sizeof(args));

	if (pid == 0)
		_exit(0);
	return pid;
}

static bool userns_off(const struct probe_args *a)
{
	unsigned long flag = CLONE_NEWUSER;

	return a->control && probe_in_child(do_unshare, &flag) < 0;
}

static enum probe_result spaces_all(
	const struct probe_args *a, struct buf *detail, long (*how)(void *), bool skip_time)
{
	struct probe_tally t = tally_start(a, detail);

	if (userns_off(a))
		return probe_skip(detail, "this machine gives nobody a user namespace");
	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		unsigned long flag = spaces[i].flag;

		/* In clone the bit of CLONE_NEWTIME belongs to the exit signal. */
		if (flag == CLONE_NEWTIME && skip_time)
			continue;
		if (spaces[i].root)
			tally_root(&t, probe_in_child(how, &flag), "%s", spaces[i].name);
		else
			tally_try(&t, probe_in_child(how, &flag), "%s", spaces[i].name);
	}
	return tally_end(&t);
}

static enum probe_result k1_unshare(const struct probe_args *a, struct buf *detail)
{
	return spaces_all(a, detail, do_unshare, false);
}

static enum probe_result k1_clone(const struct probe_args *a, struct buf *detail)
{
	return spaces_all(a, detail, do_clone, true);
}

static enum probe_result k6_clone3(const struct probe_args *a, struct buf *detail)
{
	return spaces_all(a, detail, do_clone3, false);
}

static enum probe_result k1_setns(const struct probe_args *a, struct buf *detail)
{
	static const char *const names[] = {
		"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};
	struct probe_tally t = tally_start(a, detail);
	char path[64];

	tally_reach(&t, false, syscall(SYS_setns, -1, 0), "setns without a descriptor");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		cleanup_fd int fd = -1;

		snprintf(path, sizeof(path), "/proc/%ld/ns/%s", probe_num(a, "pid"), names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		tally_try(&t, fd, "open the host's %s namespace", names[i]);
	}
	return tally_end(&t);
}

static enum probe_result k1_mount(const struct probe_args *a, struct buf *detail)
{
	static const struct call calls[] = {
		{"mount", SYS_mount, false, {(long)"none", (long)NOWHERE, (long)"tmpfs", 0, 0}},
		{"umount2", SYS_umount2, false, {(long)NOWHERE}},
		{"pivot_root", SYS_pivot_root, true, {(long)NOWHERE, (long)NOWHERE}},
		{"chroot", SYS_chroot, false, {(long)NOWHERE}},
		{"open_tree", SYS_open_tree, true, {-1, (long)"x", 1}},
		{"move_mount", SYS_move_mount, true, {-1, (long)"x", -1, (long)"x"}},
		{"fsopen", SYS_fsopen, true, {(long)"croft-no-such-fs"}},
		{"fsconfig", SYS_fsconfig, false, {-1, 99}},
		{"fsmount", SYS_fsmount, true, {-1}},
		{"fspick", 433, true, {-1, (long)"x"}},
		{"mount_setattr", SYS_mount_setattr, false, {-1, (long)"x", 0, BAD_PTR, 0}},
		{"open_tree_attr", 467, true, {-1, (long)"x", 1, BAD_PTR, 0}},
	};

	return call_all(a, detail, calls, ARRAY_SIZE(calls));
}

/* ---- K2, K3 ---- */

static enum probe_result k2_io_uring(const struct probe_args *a, struct buf *detail)
{
	static const struct call calls[] = {
		{"io_uring_setup", 425, true, {1, BAD_PTR}},
		{"io_uring_enter", 426, false, {-1, 0, 0, 0, 0}},
		{"io_uring_register", 427, true, {-1, 0, 0, 0}},
	};

	return call_all(a, detail, calls, ARRAY_SIZE(calls));
}

static enum probe_result k3_calls(const struct probe_args *a, struct buf *detail)
{
	static const struct call calls[] = {
		{"bpf", SYS_bpf, true, {0x7fff, 0, 0}},
		{"perf_event_open", SYS_perf_event_open, false, {BAD_PTR, -1, -1, -1, 0x40000000}},
		{"userfaultfd", SYS_userfaultfd, false, {0x40000001}},
		{"kexec_load", SYS_kexec_load, true, {0, 1000, 0, 0x8000}},
#ifdef SYS_kexec_file_load
		{"kexec_file_load", SYS_kexec_file_load, true, {-1, -1, 0, 0, 0x8000}},
#endif
		{"init_module", SYS_init_module, true, {BAD_PTR, 16, (long)""}},
		{"finit_module", SYS_finit_module, true, {-1, (long)"", 0x8000}},
		{"delete_module", SYS_delete_module, true, {(long)"croft_no_such_module", 0}},
		{"open_by_handle_at", SYS_open_by_handle_at, false, {-1, BAD_PTR, 0}},
		{"fanotify_init", SYS_fanotify_init, true, {0x40000000, 0}},
		{"fanotify_mark", SYS_fanotify_mark, false, {-1, 0, 0, -1, 0}},
		{"quotactl", SYS_quotactl, false, {0x7fff0000, 0, 0, 0}},
		{"quotactl_fd", 443, false, {-1, 0x7fff0000, 0, 0}},
		{"acct", SYS_acct, true, {(long)NOWHERE}},
		{"swapon", SYS_swapon, true, {(long)NOWHERE, 0}},
		{"swapoff", SYS_swapoff, true, {(long)NOWHERE}},
		{"reboot", SYS_reboot, true, {0, 0, 0, 0}},
		{"syslog", SYS_syslog, true, {99, 0, 0}},
		{"settimeofday", SYS_settimeofday, false, {BAD_PTR, 0}},
		{"clock_settime", SYS_clock_settime, false, {0, BAD_PTR}},
		{"sethostname", SYS_sethostname, true, {BAD_PTR, -1}},
		{"setdomainname", SYS_setdomainname, true, {BAD_PTR, -1}},
#ifdef SYS_iopl
		{"iopl", SYS_iopl, false, {4}},
		{"ioperm", SYS_ioperm, false, {0, 0, 1}},
#endif
	};

	return call_all(a, detail, calls, ARRAY_SIZE(calls));
}

/* ---- K4 ---- */

static enum probe_result k4_sockets(const struct probe_args *a, struct buf *detail)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} v[] = {
		{"packet", AF_PACKET, SOCK_RAW, 0},
		{"raw IPv4", AF_INET, SOCK_RAW, 1},
		{"raw IPv6", AF_INET6, SOCK_RAW, 58},
		{"vsock", 40, SOCK_STREAM, 0},
		{"alg", 38, SOCK_SEQPACKET, 0},
		{"xdp", 44, SOCK_RAW, 0},
		{"tipc", 30, SOCK_SEQPACKET, 0},
		{"rds", 21, SOCK_SEQPACKET, 0},
		{"smc", 43, SOCK_STREAM, 0},
		{"can", 29, SOCK_RAW, 1},
		{"bluetooth", 31, SOCK_RAW, 1},
		{"nfc", 39, SOCK_SEQPACKET, 0},
		{"kcm", 41, SOCK_DGRAM, 0},
		{"qipcrtr", 42, SOCK_DGRAM, 0},
		{"pppox", 24, SOCK_STREAM, 0},
		{"phonet", 35, SOCK_DGRAM, 0},
		{"caif", 37, SOCK_SEQPACKET, 0},
		{"ax25", 3, SOCK_SEQPACKET, 0},
		{"x25", 9, SOCK_SEQPACKET, 0},
		{"mctp", 45, SOCK_DGRAM, 0},
		{"key", 15, SOCK_RAW, 2},
		{"rxrpc", 33, SOCK_DGRAM, 2},
		{"ieee802154", 36, SOCK_RAW, 0},
		{"sctp", AF_INET, SOCK_STREAM, 132},
		{"mptcp", AF_INET, SOCK_STREAM, 262},
		{"dccp", AF_INET, 6, 33},
		{"netlink generic", AF_NETLINK, SOCK_RAW, 16},
		{"netlink uevent", AF_NETLINK, SOCK_RAW, 15},
		{"netlink netfilter", AF_NETLINK, SOCK_RAW, 12},
		{"netlink xfrm", AF_NETLINK, SOCK_RAW, 6},
		{"netlink audit", AF_NETLINK, SOCK_RAW, 9},
		{"netlink crypto", AF_NETLINK, SOCK_RAW, 21},
		{"netlink connector", AF_NETLINK, SOCK_RAW, 11},
		{"netlink sock_diag", AF_NETLINK, SOCK_RAW, 4},
	};
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		int fd = socket(v[i].family, v[i].type | SOCK_CLOEXEC, v[i].protocol);

		/* Anybody may make a netlink socket; most others take privilege, or a module. */
		if (fd < 0 && a->control && v[i].family != AF_NETLINK && v[i].family != AF_PACKET &&
			v[i].type != SOCK_RAW)
			tally_na(&t);
		else
			tally_root(&t, fd, "%s", v[i].name);
		if (fd >= 0)
			close(fd);
	}
	return tally_end(&t);
}

/* ---- K5: other entries to the kernel, and bits above the ones it reads ---- */

#if defined(__x86_64__)
static long do_int80(void *arg)
{
	long rc;

	(void)arg;
	__asm__ volatile("int $0x80" : "=a"(rc) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
	if (rc <= 0)
		errno = rc ? (int)-rc : ENOSYS;
	return rc > 0 ? 0 : -1;
}

static long do_x32(void *arg)
{
	(void)arg;
	return syscall(0x40000000L | SYS_getpid);
}
#endif

static enum probe_result k5_entries(const struct probe_args *a, struct buf *detail)
{
#if defined(__x86_64__)
	struct probe_tally t = tally_start(a, detail);
	long rc = probe_in_child(do_int80, NULL);

	/* Without 32-bit support in the kernel the instruction faults. */
	if (rc < 0 && errno == PROBE_KILLED)
		errno = ENOSYS;
	tally_try(&t, rc, "int 0x80");
	tally_try(&t, probe_in_child(do_x32, NULL), "x32");
	return tally_end(&t);
#else
	(void)a;
	return probe_skip(detail, "this processor has one entry");
#endif
}

static long do_unshare_high(void *arg)
{
	(void)arg;
	return syscall(SYS_unshare, CLONE_NEWUSER | 0xffUL << 40);
}

static enum probe_result k5_high_bits(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	long fd =
		syscall(SYS_socket, AF_NETLINK | 1UL << 32, SOCK_RAW | 1UL << 40, 16UL | 1UL << 33);

	tally_try(&t, fd, "socket with bits above 32");
	fd = syscall(SYS_socket, AF_PACKET | 1UL << 32, SOCK_RAW, 0UL);
	tally_root(&t, fd, "packet socket with bits above 32");
	/* Flags of unshare are a long: high bits are refused by the kernel itself. */
	if (!a->control)
		tally_reach(&t, false, probe_in_child(do_unshare_high, NULL),
			"unshare with bits above 32");
	return tally_end(&t);
}

/* ---- K7 ---- */

static long new_listener(void *arg)
{
	struct sock_filter insn[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
	struct sock_fprog prog = {1, insn};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, *(unsigned long *)arg, &prog);
}

static enum probe_result k7_listener(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	unsigned long plain = SECCOMP_FILTER_FLAG_NEW_LISTENER, high = plain | 1UL << 32;
	unsigned long killable = plain | 1UL << 5; /* WAIT_KILLABLE_RECV */

	tally_try(&t, probe_in_child(new_listener, &plain), "a listener of our own");
	tally_try(&t, probe_in_child(new_listener, &killable), "with more flags");
	/* seccomp's flags are 32 bits wide to the kernel. */
	tally_try(&t, probe_in_child(new_listener, &high), "with bits above 32");
	return tally_end(&t);
}

/* ---- K9, K10 ---- */

static long do_personality(void *arg)
{
	return personality(*(unsigned long *)arg);
}

static enum probe_result k9_personality(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	unsigned long exec = READ_IMPLIES_EXEC, compat = ADDR_COMPAT_LAYOUT, zero = MMAP_PAGE_ZERO;

	tally_try(&t, probe_in_child(do_personality, &exec), "READ_IMPLIES_EXEC");
	tally_try(&t, probe_in_child(do_personality, &compat), "ADDR_COMPAT_LAYOUT");
	tally_try(&t, probe_in_child(do_personality, &zero), "MMAP_PAGE_ZERO");
	return tally_end(&t);
}

/* Opened, never written. Files that the machine does not have say nothing either way. */
static void open_each(struct probe_tally *t, const char *const *paths, size_t n, int flags)
{
	for (size_t i = 0; i < n; i++) {
		int fd = open(paths[i], flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

		if (fd < 0 && t->a->control &&
			(!(errno == EACCES || errno == EPERM) || geteuid() == 0))
			tally_na(t);
		else
			tally_root(t, fd, "%s", paths[i]);
		if (fd >= 0)
			close(fd);
	}
}

static enum probe_result k9_knobs(const struct probe_args *a, struct buf *detail)
{
	static const char *const writing[] = {"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/fs/protected_symlinks",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces",
		"/proc/sysrq-trigger", "/proc/sys/fs/binfmt_misc/register",
		"/proc/irq/default_smp_affinity", "/proc/kcore", "/proc/1/oom_score_adj",
		"/sys/kernel/uevent_helper", "/sys/power/state",
		"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/cgroup.procs",
		"/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs",
		"/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/cpu/release_agent",
		"/sys/fs/cgroup/unified/cgroup.procs", "/sys/module/kernel/parameters/panic"};
	struct probe_tally t = tally_start(a, detail);

	open_each(&t, writing, ARRAY_SIZE(writing), O_WRONLY);
	return tally_end(&t);
}

/*
 * Addresses and tables of the kernel that root's own user id opens, capabilities or not. The
 * process tier has only the host's /proc, below which Landlock cannot except single files.
 */
static enum probe_result k9_secrets(const struct probe_args *a, struct buf *detail)
{
	static const char *const reading[] = {"/proc/kcore", "/proc/kmsg", "/proc/vmallocinfo",
		"/proc/slabinfo", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
		"/proc/pagetypeinfo", "/proc/kpageflags", "/sys/kernel/debug",
		"/sys/kernel/tracing", "/sys/firmware/efi/efivars", "/sys/firmware/dmi/tables/DMI",
		"/sys/fs/pstore"};
	struct probe_tally t = tally_start(a, detail);

	open_each(&t, reading, ARRAY_SIZE(reading), O_RDONLY);
	return tally_end(&t);
}

static enum probe_result k9_cgroup(const struct probe_args *a, struct buf *detail)
{
	static const char *const roots[] = {"/sys/fs/cgroup/croft-bait",
		"/sys/fs/cgroup/memory/croft-bait", "/sys/fs/cgroup/pids/croft-bait",
		"/sys/fs/cgroup/unified/croft-bait"};
	struct probe_tally t = tally_start(a, detail);

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		long rc = mkdir(roots[i], 0755);

		if (rc == 0)
			rmdir(roots[i]);
		else if (a->control && (errno == ENOENT || errno == EROFS)) {
			tally_na(&t);
			continue;
		}
		tally_root(&t, rc, "mkdir %s", roots[i]);
	}
	return tally_end(&t);
}

/* Not watchdogs: opening one starts it. */
static enum probe_result k10_devices(const struct probe_args *a, struct buf *detail)
{
	static const char *const paths[] = {"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg",
		"/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vhost-net", "/dev/vhost-vsock",
		"/dev/vsock", "/dev/loop-control", "/dev/loop0", "/dev/sda", "/dev/vda",
		"/dev/nvme0n1", "/dev/dm-0", "/dev/mapper/control", "/dev/tty0", "/dev/vcs",
		"/dev/vcsa", "/dev/input/event0", "/dev/uinput", "/dev/snd/timer", "/dev/snapshot",
		"/dev/btrfs-control", "/dev/autofs", "/dev/cpu/0/msr", "/dev/udmabuf",
		"/dev/userfaultfd", "/dev/dri/card0", "/dev/video0", "/dev/rtc0", "/dev/binderfs",
		"/dev/ppp"};
	struct probe_tally t = tally_start(a, detail);

	open_each(&t, paths, ARRAY_SIZE(paths), O_RDONLY);
	return tally_end(&t);
}

static enum probe_result k10_mknod(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	/* The numbers of /dev/zero: harmless, and a device all the same. */
	tally_root(&t, mknod("node", S_IFCHR | 0666, makedev(1, 5)), "make a character device");
	unlink("node");
	tally_root(&t, mknod("node", S_IFBLK | 0600, makedev(7, 255)), "make a block device");
	unlink("node");
	tally_root(&t, mknod("/tmp/croft-bait-node", S_IFCHR | 0600, makedev(1, 5)),
		"make one in /tmp");
	unlink("/tmp/croft-bait-node");
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"K1", "K1-unshare", "make namespaces with unshare", PROBE_BOTH, k1_unshare},
	{"K1", "K1-clone", "make namespaces with clone", PROBE_BOTH, k1_clone},
	{"K1", "K1-setns", "enter the host's namespaces", PROBE_BOTH, k1_setns},
	{"K1", "K1-mount", "mount, pivot, chroot, old and new calls", PROBE_BOTH, k1_mount},
	{"K2", "K2-io-uring", "io_uring, which no filter sees into", PROBE_BOTH, k2_io_uring},
	{"K3", "K3-calls", "bpf, perf, kexec, modules, handles, fanotify…", PROBE_BOTH, k3_calls},
	{"K4", "K4-sockets", "socket families beyond TCP/IP", PROBE_BOTH, k4_sockets},
	{"K5", "K5-entries", "enter the kernel as a 32-bit program", PROBE_BOTH, k5_entries},
	{"K5", "K5-high-bits", "bits above the 32 that the kernel reads", PROBE_BOTH, k5_high_bits},
	{"K6", "K6-clone3", "make namespaces with clone3", PROBE_BOTH, k6_clone3},
	{"K7", "K7-listener", "listen to our own system calls", PROBE_BOTH, k7_listener},
	{"K9", "K9-personality", "change the execution domain", PROBE_BOTH, k9_personality},
	{"K9", "K9-knobs", "write /proc/sys, /sys, sysrq, release_agent", PROBE_BOTH, k9_knobs},
	{"K9", "K9-secrets", "read kernel memory, logs and tables", PROBE_NAMESPACE, k9_secrets},
	{"K9", "K9-cgroup", "make a cgroup outside our own", PROBE_BOTH, k9_cgroup},
	{"K10", "K10-devices", "open devices of the host", PROBE_BOTH, k10_devices},
	{"K10", "K10-mknod", "make device nodes", PROBE_BOTH, k10_mknod},
};
const struct probe_family probes_kernel = {probes, ARRAY_SIZE(probes)};
