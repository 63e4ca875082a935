/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter is run here by a small classic-BPF interpreter for every number, entry and argument
 * trick, against a list of expectations written by name; then installed in a child of the real
 * kernel.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/seccomp.h"
#include "os/syscalls.h"
#include "os/uapi.h"

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#define FOREIGN AUDIT_ARCH_I386
#else
#define NATIVE AUDIT_ARCH_AARCH64
#define FOREIGN AUDIT_ARCH_ARM
#endif

#define ALLOW SECCOMP_RET_ALLOW
#define NOTIFY SECCOMP_RET_USER_NOTIF
#define FAIL(n) (SECCOMP_RET_ERRNO | (n))
#define HIGH (1ULL << 32)
#define STEPS_MAX 48 /* instructions for any call; a plain answer takes far fewer */
#define TREE_STEPS_MAX 16
#define O_PATH_KERNEL 010000000 /* musl's O_PATH has the access mode in it */

static const unsigned all_flags[] = {
	0,
	SECCOMP_NOTIFY_WRITES,
	SECCOMP_NOTIFY_READS,
	SECCOMP_BROKER,
	SECCOMP_BROKER | SECCOMP_NOTIFY_WRITES,
	SECCOMP_BROKER | SECCOMP_NOTIFY_READS,
	SECCOMP_PROCESS_TIER,
	SECCOMP_PROCESS_TIER | SECCOMP_NOTIFY_WRITES,
	SECCOMP_PROCESS_TIER | SECCOMP_BROKER | SECCOMP_NOTIFY_READS,
	SECCOMP_PROCESS_TIER | SECCOMP_NO_INET | SECCOMP_NO_PTRACE,
	SECCOMP_PROCESS_TIER | SECCOMP_BROKER | SECCOMP_NO_INET | SECCOMP_NO_PTRACE,
	SECCOMP_NOTIFY_META,
	SECCOMP_NOTIFY_META | SECCOMP_NOTIFY_WRITES,
	SECCOMP_NOTIFY_META | SECCOMP_NOTIFY_READS | SECCOMP_DEVICES,
	SECCOMP_PROCESS_TIER | SECCOMP_BROKER | SECCOMP_DEVICES,
	SECCOMP_NO_SETID,
	SECCOMP_NO_SETID | SECCOMP_NOTIFY_WRITES,
	SECCOMP_NO_SETID | SECCOMP_NOTIFY_META | SECCOMP_NOTIFY_READS | SECCOMP_DEVICES,
	SECCOMP_PROCESS_TIER | SECCOMP_BROKER | SECCOMP_NOTIFY_NETWORK,
	SECCOMP_PROCESS_TIER | SECCOMP_BROKER | SECCOMP_NOTIFY_NETWORK | SECCOMP_NO_INET |
		SECCOMP_NOTIFY_READS | SECCOMP_DEVICES,
};

/* --- the interpreter --- */

#define BAD 0xdeadbeefu /* no verdict of seccomp's: the program is wrong */

static uint32_t interpret(
	const struct seccomp_prog *p, const struct seccomp_data *d, unsigned *steps)
{
	uint32_t a = 0;
	size_t pc = 0;

	for (*steps = 0; pc < p->n; (*steps)++) {
		const struct sock_filter *f = &p->insn[pc++];
		bool hit = false;

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (f->k % 4 != 0 || f->k + 4 > sizeof(*d))
				return BAD;
			memcpy(&a, (const char *)d + f->k, sizeof(a));
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			continue;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			continue;
		case BPF_RET | BPF_K:
			(*steps)++;
			return f->k;
		case BPF_JMP | BPF_JEQ | BPF_K:
			hit = a == f->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			hit = a >= f->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			hit = (a & f->k) != 0;
			break;
		default:
			return BAD;
		}
		pc += hit ? f->jt : f->jf;
	}
	return BAD;
}

struct call {
	unsigned flags;
	long nr;
	uint64_t args[6];
	uint32_t want;
};

static uint32_t verdict_on(unsigned flags, uint32_t arch, long nr, const uint64_t args[6])
{
	static struct seccomp_prog p;
	static unsigned built = ~0u;
	struct seccomp_data d = {.nr = (int)nr, .arch = arch};
	struct err e = ERR_INIT;
	unsigned steps;
	uint32_t v;

	if (flags != built && seccomp_build(&p, flags, &e) < 0)
		return BAD;
	built = flags;
	if (args)
		memcpy(d.args, args, sizeof(d.args));
	v = interpret(&p, &d, &steps);
	return steps <= STEPS_MAX ? v : BAD;
}

#define CHECK_CALLS(calls)                                                                         \
	do {                                                                                       \
		for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {                                   \
			uint32_t got = verdict_on(                                                 \
				(calls)[i].flags, NATIVE, (calls)[i].nr, (calls)[i].args);         \
                                                                                                   \
			if (got != (calls)[i].want) {                                              \
				test_fail(__FILE__, __LINE__,                                      \
					#calls "[%zu]: flags %#x nr %ld: %#x, not %#x", i,         \
					(calls)[i].flags, (calls)[i].nr, got, (calls)[i].want);    \
				return;                                                            \
			}                                                                          \
		}                                                                                  \
	} while (0)

/* --- every number --- */

/* clang-format off */
/* Calls whose answer depends on nothing: the whole allowlist is compared, so none can slip in. */
static const long always_allowed[] = {
	SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv,
	SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_close, SYS_close_range, SYS_dup,
	SYS_dup3, SYS_flock, SYS_fsync, SYS_fdatasync, SYS_sync, SYS_syncfs,
	SYS_sync_file_range, SYS_ftruncate, SYS_fallocate, SYS_fadvise64, SYS_readahead,
	SYS_copy_file_range, SYS_sendfile, SYS_splice, SYS_tee, SYS_pipe2, 451 /* cachestat */,
	SYS_io_setup, SYS_io_destroy, SYS_io_submit, SYS_io_cancel, SYS_io_getevents,
	SYS_io_pgetevents, SYS_pselect6, SYS_ppoll, SYS_epoll_create1, SYS_epoll_ctl,
	SYS_epoll_pwait, 441 /* epoll_pwait2 */, SYS_eventfd2, SYS_signalfd4,
	SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_inotify_init1,
	SYS_inotify_add_watch, SYS_inotify_rm_watch, SYS_nanosleep, SYS_clock_nanosleep,
	SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_getitimer, SYS_setitimer,
	SYS_timer_create, SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun,
	SYS_timer_delete, SYS_times, SYS_adjtimex, SYS_clock_adjtime, SYS_newfstatat, SYS_fstat,
	SYS_statx, SYS_statfs, SYS_fstatfs, SYS_faccessat, 439 /* faccessat2 */, SYS_readlinkat,
	SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_umask, SYS_getxattr,
	SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr,
	464 /* getxattrat */, 465 /* listxattrat */, SYS_mmap, SYS_munmap, SYS_mprotect,
	SYS_mremap, SYS_madvise, SYS_brk, SYS_msync, SYS_mincore, SYS_mlock, SYS_mlock2,
	SYS_munlock, SYS_mlockall, SYS_munlockall, 462 /* mseal */, SYS_remap_file_pages,
	SYS_memfd_create, SYS_membarrier, SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect,
	453 /* map_shadow_stack */, SYS_get_mempolicy, SYS_exit, SYS_exit_group, SYS_wait4,
	SYS_waitid, SYS_set_tid_address, SYS_futex, 449 /* futex_waitv */, 454 /* futex_wake */,
	455 /* futex_wait */, 456 /* futex_requeue */, SYS_set_robust_list, SYS_get_robust_list,
	SYS_rseq, SYS_gettid, SYS_getpid, SYS_getppid, SYS_getpgid, SYS_setpgid, SYS_getsid,
	SYS_setsid, SYS_prctl, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending,
	SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_sigreturn, SYS_sigaltstack,
	SYS_restart_syscall, SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo, SYS_pidfd_open, SYS_pidfd_send_signal,
	SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam,
	SYS_sched_getscheduler,
	SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_rr_get_interval,
	SYS_sched_getattr, SYS_getpriority, SYS_ioprio_get, SYS_getrlimit,
	SYS_setrlimit, SYS_getrusage, SYS_getcpu, SYS_getuid, SYS_geteuid, SYS_getgid,
	SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_setuid, SYS_setgid,
	SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid,
	SYS_setgroups, SYS_capget, SYS_capset, SYS_uname, SYS_sysinfo, SYS_getrandom,
	SYS_accept, SYS_accept4, SYS_getsockname, SYS_getpeername, SYS_recvfrom,
	SYS_setsockopt, SYS_getsockopt, SYS_shutdown, SYS_recvmsg, SYS_recvmmsg,
#ifdef __x86_64__
	SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_getdents, SYS_poll, SYS_select,
	SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_signalfd, SYS_inotify_init, SYS_pipe,
	SYS_dup2, SYS_fork, SYS_vfork, SYS_getpgrp, SYS_pause, SYS_alarm, SYS_time,
	SYS_arch_prctl, 335 /* uretprobe */, 336 /* uprobe */,
#endif
};

static const long always_denied[] = {
	SYS_settimeofday, SYS_clock_settime, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
	SYS_open_tree, 467 /* open_tree_attr */, SYS_move_mount, SYS_fsopen, SYS_fsconfig,
	SYS_fsmount, 433 /* fspick */, SYS_mount_setattr, 457 /* statmount */,
	458 /* listmount */, SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_quotactl,
	443 /* quotactl_fd */, SYS_swapon, SYS_swapoff, SYS_fanotify_init, SYS_fanotify_mark,
	SYS_acct, SYS_set_mempolicy, SYS_mbind, 450 /* set_mempolicy_home_node */,
	SYS_migrate_pages, SYS_move_pages, SYS_userfaultfd, 440 /* process_madvise */,
	448 /* process_mrelease */, SYS_setns, SYS_kcmp, 460 /* lsm_set_self_attr */,
	SYS_sethostname, SYS_setdomainname, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_bpf,
	SYS_perf_event_open, SYS_init_module, SYS_finit_module, SYS_delete_module,
	SYS_kexec_load, SYS_kexec_file_load, SYS_reboot, SYS_syslog, SYS_vhangup,
	SYS_lookup_dcookie,
#ifdef __x86_64__
	SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS_sysfs,
#endif
};

/* Judged by argument or flags: each has its own list below. */
static const long judged[] = {
	SYS_ioctl, SYS_fcntl, SYS_openat, SYS_openat2, SYS_truncate, SYS_renameat, SYS_renameat2,
	SYS_unlinkat, SYS_linkat, SYS_symlinkat, SYS_mkdirat, SYS_mknodat, SYS_fchmod,
	SYS_fchmodat, SYS_fchmodat2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr,
	SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
	463 /* setxattrat */, 466 /* removexattrat */, SYS_clone, SYS_unshare, SYS_execve,
	SYS_execveat, SYS_pidfd_getfd, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
	SYS_personality, SYS_seccomp, SYS_landlock_create_ruleset, SYS_landlock_add_rule,
	SYS_landlock_restrict_self, SYS_sched_setaffinity, SYS_sched_setparam,
	SYS_sched_setscheduler, SYS_sched_setattr, SYS_setpriority, SYS_ioprio_set, SYS_prlimit64,
	SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_sendto, SYS_sendmsg, SYS_sendmmsg,
	SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl, SYS_semget, SYS_semop, SYS_semtimedop,
	SYS_semctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink,
	SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
#ifdef __x86_64__
	SYS_open, SYS_creat, SYS_rename, SYS_unlink, SYS_rmdir, SYS_link, SYS_symlink,
	SYS_mkdir, SYS_mknod, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes,
	SYS_futimesat,
#endif
};

/* clang-format on */

static bool in_list(long nr, const long *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == nr)
			return true;
	}
	return false;
}

TEST(every_number_has_the_expected_answer_with_every_flag_set)
{
	for (size_t f = 0; f < ARRAY_SIZE(all_flags); f++) {
		for (long nr = 0; nr <= 600; nr++) {
			uint32_t want = FAIL(ENOSYS);
			uint32_t got = verdict_on(all_flags[f], NATIVE, nr, NULL);

			if (in_list(nr, judged, ARRAY_SIZE(judged)))
				continue;
			if (in_list(nr, always_allowed, ARRAY_SIZE(always_allowed)))
				want = ALLOW;
			else if (in_list(nr, always_denied, ARRAY_SIZE(always_denied)))
				want = FAIL(EPERM);
			if (got != want)
				test_fail(__FILE__, __LINE__, "flags %#x nr %ld: %#x, not %#x",
					all_flags[f], nr, got, want);
		}
	}
}

TEST(foreign_architecture_and_x32_reach_nothing)
{
	static const uint64_t none[6];

	for (size_t f = 0; f < ARRAY_SIZE(all_flags); f++) {
		for (long nr = 0; nr <= 600; nr++) {
			CHECK_INT(verdict_on(all_flags[f], FOREIGN, nr, none),
				SECCOMP_RET_KILL_PROCESS);
			CHECK_INT(verdict_on(all_flags[f], 0, nr, none), SECCOMP_RET_KILL_PROCESS);
			CHECK_INT(verdict_on(all_flags[f], NATIVE, nr | 0x40000000, none),
				FAIL(ENOSYS));
			CHECK_INT(verdict_on(all_flags[f], NATIVE, nr | 0x80000000, none),
				FAIL(ENOSYS));
		}
		CHECK_INT(verdict_on(all_flags[f], NATIVE, -1, none), FAIL(ENOSYS));
	}
}

TEST(program_is_well_formed_and_shallow)
{
	for (size_t f = 0; f < ARRAY_SIZE(all_flags); f++) {
		struct seccomp_prog p;
		struct err e = ERR_INIT;
		unsigned sum = 0;

		CHECK_INT(seccomp_build(&p, all_flags[f], &e), 0);
		CHECK(p.n > 100 && p.n <= 600);
		for (size_t i = 0; i < p.n; i++) { /* what the kernel's checker asks */
			const struct sock_filter *in = &p.insn[i];
			size_t far =
				in->code == (BPF_JMP | BPF_JA) ? in->k : MAX_OF(in->jt, in->jf);

			CHECK(BPF_CLASS(in->code) != BPF_JMP || i + 1 + far < p.n);
		}
		CHECK_INT(p.insn[p.n - 1].code, BPF_RET | BPF_K);
		for (int nr = 0; nr <= 600; nr++) {
			struct seccomp_data d = {.nr = nr, .arch = NATIVE};
			unsigned steps;

			interpret(&p, &d, &steps);
			CHECK(steps <= STEPS_MAX);
			if (in_list(nr, always_allowed, ARRAY_SIZE(always_allowed)))
				CHECK(steps <= TREE_STEPS_MAX);
			sum += steps;
		}
		CHECK(sum / 600 <= TREE_STEPS_MAX);
	}
}

TEST(table_names_each_number_once)
{
	bool seen[SYSCALLS_NR_MAX] = {false};

	for (size_t i = 0; i < syscall_table_n; i++) {
		CHECK(syscall_table[i].nr < SYSCALLS_NR_MAX);
		CHECK(syscall_table[i].class < SC_NUM);
		if (seen[syscall_table[i].nr])
			test_fail(__FILE__, __LINE__, "nr %d twice", syscall_table[i].nr);
		seen[syscall_table[i].nr] = true;
	}
}

/* --- arguments --- */

#define PROC SECCOMP_PROCESS_TIER

/* clang-format off */
TEST(no_new_namespaces)
{
	static const struct call calls[] = {
		{0, SYS_clone, {SIGCHLD}, ALLOW},
		{0, SYS_clone, {0x3d0f00}, ALLOW}, /* a thread */
		{0, SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}, ALLOW},
		{0, SYS_clone, {0x80 | SIGCHLD}, ALLOW}, /* CSIGNAL bit, not CLONE_NEWTIME */
		{0, SYS_clone, {CLONE_NEWUSER | SIGCHLD}, FAIL(EPERM)},
		{0, SYS_clone, {HIGH | CLONE_NEWUSER | SIGCHLD}, FAIL(EPERM)},
		{0, SYS_clone, {CLONE_NEWNS}, FAIL(EPERM)},
		{0, SYS_clone, {CLONE_NEWNET}, FAIL(EPERM)},
		{0, SYS_clone, {CLONE_NEWPID}, FAIL(EPERM)},
		{0, SYS_clone, {CLONE_NEWIPC}, FAIL(EPERM)},
		{0, SYS_clone, {CLONE_NEWUTS}, FAIL(EPERM)},
		{0, SYS_clone, {CLONE_NEWCGROUP}, FAIL(EPERM)},
		{0, SYS_clone3, {0}, FAIL(ENOSYS)},
		{0, SYS_unshare, {0}, ALLOW},
		{0, SYS_unshare, {CLONE_FS | CLONE_FILES}, ALLOW},
		{0, SYS_unshare, {CLONE_NEWUSER}, FAIL(EPERM)},
		{0, SYS_unshare, {CLONE_NEWNS | CLONE_FS}, FAIL(EPERM)},
		{0, SYS_unshare, {0x80 /* CLONE_NEWTIME */}, FAIL(EPERM)},
		{0, SYS_unshare, {HIGH | CLONE_NEWNET}, FAIL(EPERM)},
		{0, SYS_personality, {0xffffffff}, ALLOW},
		{0, SYS_personality, {0x40000 /* ADDR_NO_RANDOMIZE */}, ALLOW},
		{0, SYS_personality, {0x400000 /* READ_IMPLIES_EXEC */}, FAIL(EPERM)},
		{0, SYS_personality, {HIGH | 0x400000}, FAIL(EPERM)},
		{0, SYS_seccomp, {1, 0}, ALLOW},
		{0, SYS_seccomp, {1, 1 /* TSYNC */}, ALLOW},
		{0, SYS_seccomp, {1, 8 /* NEW_LISTENER */}, FAIL(EPERM)},
		{0, SYS_seccomp, {HIGH | 1, HIGH | 8 | 1}, FAIL(EPERM)},
		{SECCOMP_BROKER, SYS_seccomp, {1, 8}, FAIL(EPERM)},
	};

	CHECK_CALLS(calls);
}

TEST(terminal_and_btrfs_ioctls)
{
	static const struct call calls[] = {
		{0, SYS_ioctl, {0, TIOCGWINSZ}, ALLOW},
		{0, SYS_ioctl, {0, TCSETS}, ALLOW},
		{0, SYS_ioctl, {0, TIOCSCTTY}, ALLOW},
		{0, SYS_ioctl, {0, TIOCSTI}, FAIL(EPERM)},
		{0, SYS_ioctl, {0, HIGH | TIOCSTI}, FAIL(EPERM)},
		{PROC, SYS_ioctl, {0, HIGH | TIOCSTI}, FAIL(EPERM)},
		{0, SYS_ioctl, {0, TIOCLINUX}, FAIL(EPERM)},
		{0, SYS_ioctl, {0, (HIGH << 31) | TIOCLINUX}, FAIL(EPERM)},
		{0, SYS_ioctl, {0, TIOCSETD}, FAIL(EPERM)},
		{0, SYS_ioctl, {0, TIOCCONS}, FAIL(EPERM)},
		{0, SYS_ioctl, {0, 0x5760}, FAIL(ENOTTY)},
		{0, SYS_ioctl, {0, FICLONE}, ALLOW},
		{0, SYS_ioctl, {0, FICLONERANGE}, ALLOW},
		{0, SYS_ioctl, {0, FIDEDUPERANGE}, ALLOW},
		{0, SYS_ioctl, {0, 0x5000940e /* BTRFS_IOC_SUBVOL_CREATE */}, FAIL(ENOTTY)},
		{0, SYS_ioctl, {0, HIGH | 0x50009417 /* SNAP_CREATE_V2 */}, FAIL(ENOTTY)},
		{0, SYS_ioctl, {0, FS_IOC_SETFLAGS}, ALLOW},
		{SECCOMP_NOTIFY_WRITES, SYS_ioctl, {0, FS_IOC_SETFLAGS}, ALLOW},
		{SECCOMP_BROKER, SYS_ioctl, {0, FS_IOC_SETFLAGS}, NOTIFY},
		{SECCOMP_BROKER, SYS_ioctl, {0, HIGH | FS_IOC_FSSETXATTR}, NOTIFY},
		{SECCOMP_BROKER, SYS_ioctl, {0, FS_IOC_GETFLAGS}, ALLOW},
		{SECCOMP_NOTIFY_META, SYS_ioctl, {0, FS_IOC_SETFLAGS}, NOTIFY},
		{SECCOMP_NOTIFY_META, SYS_ioctl, {0, HIGH | FS_IOC_FSSETXATTR}, NOTIFY},
	};

	CHECK_CALLS(calls);
}

TEST(file_ioctls_are_an_allowlist)
{
	static const uint32_t closed[] = {FS_IOC_SETVERSION, 0x40806685 /* ENABLE_VERITY */,
		0x800c6613 /* SET_ENCRYPTION_POLICY */, 0xc0045877 /* FIFREEZE */,
		0xc0185879 /* FITRIM */, FS_IOC_SETFSLABEL, 0x5000940e /* subvolume */,
		0x40047211 /* FAT_IOCTL_SET_ATTRIBUTES */, 0xf501 /* F2FS */, 0x5760, 0xc028660f};
	static const uint32_t open[] = {FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR, FS_IOC_GETVERSION,
		FS_IOC_FIEMAP, FIGETBSZ, FIONREAD, FIONBIO, FIOCLEX, FIOASYNC, TIOCGPTN,
		TIOCSPTLCK, 0x8910 /* SIOCGIFNAME */};
	static const unsigned flags[] = {0, PROC, SECCOMP_BROKER, SECCOMP_NOTIFY_META};

	for (size_t f = 0; f < ARRAY_SIZE(flags); f++) {
		for (size_t i = 0; i < ARRAY_SIZE(closed); i++) {
			uint64_t a[6] = {0, HIGH | closed[i]};

			CHECK_INT(verdict_on(flags[f], NATIVE, SYS_ioctl, a), FAIL(ENOTTY));
			CHECK_INT(verdict_on(flags[f] | SECCOMP_DEVICES, NATIVE, SYS_ioctl, a),
				FAIL(ENOTTY));
		}
		for (size_t i = 0; i < ARRAY_SIZE(open); i++) {
			uint64_t a[6] = {0, open[i]};

			CHECK_INT(verdict_on(flags[f], NATIVE, SYS_ioctl, a), ALLOW);
			CHECK_INT(verdict_on(flags[f] | SECCOMP_DEVICES, NATIVE, SYS_ioctl, a),
				ALLOW);
		}
		for (uint32_t type = 0; type < 256; type++) { /* KVM, DRM, … */
			uint64_t a[6] = {0, 0x40080000 | type << 8 | 0xee};
			bool known = type == 'T' || type == 0x89;

			CHECK_INT(verdict_on(flags[f], NATIVE, SYS_ioctl, a),
				known ? ALLOW : FAIL(ENOTTY));
		}
	}
	{
		static const struct call calls[] = {
			{0, SYS_ioctl, {0, 0xae01 /* KVM_CREATE_VM */}, FAIL(ENOTTY)},
			{SECCOMP_DEVICES, SYS_ioctl, {0, 0xae01}, ALLOW},
			{SECCOMP_DEVICES | PROC, SYS_ioctl, {0, TIOCSTI}, FAIL(EPERM)},
		};

		CHECK_CALLS(calls);
	}
}

TEST(no_set_id_files)
{
	enum { SETID = SECCOMP_NO_SETID, SEEN = SECCOMP_NO_SETID | SECCOMP_NOTIFY_WRITES };
	static const struct call calls[] = {
		{0, SYS_fchmod, {0, 04755}, ALLOW},
		{SETID, SYS_fchmod, {0, 0755}, ALLOW},
		{SETID, SYS_fchmod, {0, 01777}, ALLOW},
		{SETID, SYS_fchmod, {0, HIGH | 04755}, FAIL(EPERM)},
		{SETID, SYS_fchmod, {0, 02755}, NOTIFY},
		{SETID, SYS_fchmod, {0, 06755}, FAIL(EPERM)},
		{SETID, SYS_fchmodat, {0, 04755, 0755}, ALLOW},
		{SETID, SYS_fchmodat, {0, 0, 04755}, FAIL(EPERM)},
		{SEEN, SYS_fchmodat2, {0, 0, 04000, 0x1000}, FAIL(EPERM)},
		{SETID | SECCOMP_NOTIFY_META, SYS_fchmod, {0, 04755}, NOTIFY},
		{SETID, SYS_openat, {0, 0, O_WRONLY, 04755}, ALLOW},
		{SETID, SYS_openat, {0, 0, O_WRONLY | O_CREAT, 0755}, ALLOW},
		{SETID, SYS_openat, {0, 0, O_RDONLY | O_CREAT, 04755}, FAIL(EPERM)},
		{SETID, SYS_openat, {0, 0, O_WRONLY | O_CREAT, HIGH | 02644}, FAIL(EPERM)},
		{SETID, SYS_openat, {0, 0, O_TMPFILE | O_RDWR, 04755}, FAIL(EPERM)},
		{SETID, SYS_openat, {0, 0, O_PATH_KERNEL | O_CREAT, 04755}, ALLOW},
		{SEEN, SYS_openat, {0, 0, O_WRONLY | O_CREAT, 0644}, NOTIFY},
		{SEEN, SYS_openat, {0, 0, O_WRONLY | O_CREAT, 04644}, FAIL(EPERM)},
		{SETID | SECCOMP_NOTIFY_READS, SYS_openat, {0, 0, O_RDONLY}, NOTIFY},
		{SETID | SECCOMP_NOTIFY_READS, SYS_openat, {0, 0, O_CREAT, 04644}, FAIL(EPERM)},
		{SETID, SYS_openat2, {0}, FAIL(ENOSYS)},
		{SETID, SYS_mknodat, {0, 0, S_IFREG | 04755}, FAIL(EPERM)},
		{SETID, SYS_mknodat, {0, 0, S_IFIFO | 0644}, ALLOW},
		{SETID, SYS_mkdirat, {0, 0, 02755}, ALLOW},
#ifdef __x86_64__
		{SETID, SYS_chmod, {0, 04755}, FAIL(EPERM)},
		{SETID, SYS_chmod, {0, 02755}, NOTIFY},
		{SETID, SYS_creat, {0, 04755}, FAIL(EPERM)},
		{SETID, SYS_creat, {0, 0755}, ALLOW},
		{SETID, SYS_open, {0, O_CREAT, 02755}, FAIL(EPERM)},
		{SETID, SYS_open, {0, O_RDONLY, 02755}, ALLOW},
		{SETID, SYS_mknod, {0, S_IFREG | 02755}, FAIL(EPERM)},
#endif
	};

	CHECK_CALLS(calls);
}

TEST(no_leases_and_no_directory_signals)
{
	static const struct call calls[] = {
		{0, SYS_fcntl, {0, F_GETFL}, ALLOW},
		{0, SYS_fcntl, {0, F_SETFL}, ALLOW},
		{0, SYS_fcntl, {0, F_SETLKW}, ALLOW},
		{0, SYS_fcntl, {0, F_SETOWN}, ALLOW},
		{0, SYS_fcntl, {0, 38 /* F_OFD_SETLKW */}, ALLOW},
		{PROC, SYS_fcntl, {0, F_DUPFD_CLOEXEC}, ALLOW},
		{0, SYS_fcntl, {0, 1024 + 9 /* F_ADD_SEALS */}, ALLOW},
		{0, SYS_fcntl, {0, 1024 + 7 /* F_SETPIPE_SZ */}, ALLOW},
		{0, SYS_fcntl, {0, 1025 /* F_GETLEASE */}, ALLOW},
		{0, SYS_fcntl, {0, 1024 /* F_SETLEASE */}, FAIL(EPERM)},
		{0, SYS_fcntl, {0, HIGH | 1024}, FAIL(EPERM)},
		{PROC, SYS_fcntl, {0, 1024}, FAIL(EPERM)},
		{SECCOMP_BROKER, SYS_fcntl, {0, 1026 /* F_NOTIFY */}, FAIL(EPERM)},
		{0, SYS_fcntl, {0, 1036 /* F_SET_RW_HINT */}, FAIL(EINVAL)},
		{0, SYS_fcntl, {0, 1040 /* F_SETDELEG, of a newer kernel */}, FAIL(EINVAL)},
		{0, SYS_bind, {0}, ALLOW},
		{PROC, SYS_bind, {0}, FAIL(EPERM)},
		{PROC | SECCOMP_BROKER, SYS_bind, {0}, FAIL(EPERM)},
	};

	CHECK_CALLS(calls);
}

TEST(sockets_in_a_network_namespace)
{
	static const struct call calls[] = {
		{0, SYS_socket, {AF_UNIX, SOCK_STREAM}, ALLOW},
		{0, SYS_socket, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC}, ALLOW},
		{0, SYS_socket, {AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK}, ALLOW},
		{0, SYS_socket, {AF_UNIX, SOCK_RAW}, FAIL(EPERM)},
		{0, SYS_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0}, ALLOW},
		{0, SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_TCP}, ALLOW},
		{0, SYS_socket, {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}, ALLOW},
		{0, SYS_socket, {AF_INET, SOCK_STREAM, 262 /* MPTCP */}, FAIL(EPROTONOSUPPORT)},
		{0, SYS_socket, {AF_INET, SOCK_STREAM, 256 /* SMC */}, FAIL(EPROTONOSUPPORT)},
		{0, SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}, FAIL(EPROTONOSUPPORT)},
		{0, SYS_socket, {AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP}, FAIL(EPERM)},
		{0, SYS_socket, {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}, FAIL(EPROTONOSUPPORT)},
		{0, SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}, FAIL(EPERM)},
		{0, SYS_socket, {AF_INET, 10 /* SOCK_PACKET */}, FAIL(EPERM)},
		{0, SYS_socket, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0}, ALLOW},
		{0, SYS_socket, {AF_NETLINK, SOCK_RAW, 12 /* NETFILTER */}, FAIL(EPROTONOSUPPORT)},
		{0, SYS_socket, {AF_NETLINK, SOCK_RAW, HIGH | 12}, FAIL(EPROTONOSUPPORT)},
		{0, SYS_socketpair, {AF_UNIX, SOCK_STREAM}, ALLOW},
		{0, SYS_socketpair, {AF_UNIX, SOCK_DGRAM}, ALLOW},
		{0, SYS_socketpair, {AF_UNIX, SOCK_RAW}, FAIL(EPERM)},
		{0, SYS_socketpair, {30 /* TIPC */, SOCK_STREAM}, FAIL(EAFNOSUPPORT)},
		{0, SYS_listen, {0}, ALLOW},
		{0, SYS_sendto, {0, 0, 0, MSG_FASTOPEN}, ALLOW},
		{0, SYS_shmget, {0}, ALLOW},
		{0, SYS_mq_open, {0}, ALLOW},
		{0, SYS_ptrace, {0}, ALLOW},
		{0, SYS_prlimit64, {1}, ALLOW},
		{0, SYS_setpriority, {2}, ALLOW},
		{0, SYS_ioprio_set, {3}, ALLOW},
		{SECCOMP_NO_INET, SYS_socket, {AF_INET, SOCK_STREAM}, FAIL(EPERM)},
		{SECCOMP_NO_INET, SYS_socket, {AF_UNIX, SOCK_STREAM}, ALLOW},
		{SECCOMP_NO_PTRACE, SYS_ptrace, {0}, FAIL(EPERM)},
		{0, SYS_landlock_restrict_self, {0}, ALLOW},
		{SECCOMP_BROKER, SYS_landlock_create_ruleset, {0}, FAIL(ENOSYS)},
		{SECCOMP_BROKER, SYS_landlock_restrict_self, {0}, FAIL(ENOSYS)},
	};

	CHECK_CALLS(calls);
	for (uint64_t family = 0; family <= 64; family++) {
		uint64_t plain[6] = {family, SOCK_STREAM};
		uint64_t tricky[6] = {HIGH | family, HIGH | SOCK_STREAM, HIGH};
		bool ok = family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
			  family == AF_NETLINK;

		CHECK_INT(
			verdict_on(0, NATIVE, SYS_socket, plain), ok ? ALLOW : FAIL(EAFNOSUPPORT));
		CHECK_INT(
			verdict_on(0, NATIVE, SYS_socket, tricky), ok ? ALLOW : FAIL(EAFNOSUPPORT));
	}
}

TEST(sockets_and_ipc_without_namespaces)
{
	static const struct call calls[] = {
		{PROC, SYS_socket, {AF_UNIX, SOCK_STREAM}, FAIL(EPERM)},
		{PROC, SYS_socket, {HIGH | AF_UNIX, SOCK_STREAM}, FAIL(EPERM)},
		{PROC, SYS_socket, {AF_INET, SOCK_STREAM}, ALLOW},
		{PROC, SYS_socket, {AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP}, ALLOW},
		{PROC, SYS_socket, {AF_INET, SOCK_STREAM, 262}, FAIL(EPROTONOSUPPORT)},
		{PROC, SYS_socket, {AF_INET, SOCK_DGRAM}, FAIL(EPERM)},
		{PROC, SYS_socket, {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}, FAIL(EPERM)},
		{PROC, SYS_socket, {AF_INET, HIGH | SOCK_DGRAM}, FAIL(EPERM)},
		{PROC, SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, FAIL(EAFNOSUPPORT)},
		{PROC | SECCOMP_NO_INET, SYS_socket, {AF_INET, SOCK_STREAM}, FAIL(EPERM)},
		{PROC | SECCOMP_NO_INET, SYS_socket, {AF_INET6, SOCK_STREAM}, FAIL(EPERM)},
		{PROC, SYS_socketpair, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, ALLOW},
		{PROC, SYS_socketpair, {AF_UNIX, SOCK_SEQPACKET}, ALLOW},
		{PROC, SYS_socketpair, {AF_UNIX, SOCK_DGRAM}, FAIL(EPERM)},
		{PROC, SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK}, FAIL(EPERM)},
		{PROC, SYS_socketpair, {HIGH | AF_UNIX, HIGH | SOCK_RAW}, FAIL(EPERM)},
		{PROC, SYS_listen, {0}, FAIL(EPERM)},
		{PROC, SYS_sendto, {0, 0, 0, MSG_NOSIGNAL}, ALLOW},
		{PROC, SYS_sendto, {0, 0, 0, MSG_FASTOPEN}, FAIL(EOPNOTSUPP)},
		{PROC, SYS_sendmsg, {0, 0, HIGH | MSG_FASTOPEN}, FAIL(EOPNOTSUPP)},
		{PROC, SYS_sendmmsg, {0, 0, 0, MSG_FASTOPEN}, FAIL(EOPNOTSUPP)},
		{PROC, SYS_shmget, {0}, FAIL(EPERM)},
		{PROC, SYS_shmat, {0}, FAIL(EPERM)},
		{PROC, SYS_semget, {0}, FAIL(EPERM)},
		{PROC, SYS_msgget, {0}, FAIL(EPERM)},
		{PROC, SYS_mq_open, {0}, FAIL(EPERM)},
		{PROC, SYS_mq_unlink, {0}, FAIL(EPERM)},
		{PROC, SYS_ptrace, {0}, ALLOW},
		{PROC | SECCOMP_NO_PTRACE, SYS_ptrace, {0}, FAIL(EPERM)},
		{PROC | SECCOMP_NO_PTRACE, SYS_process_vm_readv, {0}, FAIL(EPERM)},
		{PROC | SECCOMP_NO_PTRACE, SYS_process_vm_writev, {0}, FAIL(EPERM)},
		{PROC | SECCOMP_NO_PTRACE, SYS_pidfd_getfd, {0}, FAIL(EPERM)},
		{PROC, SYS_prlimit64, {0}, ALLOW},
		{PROC, SYS_prlimit64, {1234}, FAIL(EPERM)},
		{PROC, SYS_prlimit64, {HIGH}, ALLOW}, /* pid_t: the kernel reads 0 */
		{PROC, SYS_setpriority, {0, 0}, ALLOW},
		{PROC, SYS_setpriority, {0, 1234}, FAIL(EPERM)},
		{PROC, SYS_setpriority, {PRIO_PGRP, 0}, FAIL(EPERM)},
		{PROC, SYS_setpriority, {PRIO_USER, 0}, FAIL(EPERM)},
		{PROC, SYS_setpriority, {HIGH | PRIO_USER, 0}, FAIL(EPERM)},
		{PROC, SYS_ioprio_set, {1, 0}, ALLOW},
		{PROC, SYS_ioprio_set, {1, 1234}, FAIL(EPERM)},
		{PROC, SYS_ioprio_set, {2 /* group */, 0}, FAIL(EPERM)},
		{PROC, SYS_ioprio_set, {3 /* user */, 0}, FAIL(EPERM)},
		{PROC, SYS_landlock_create_ruleset, {0}, ALLOW},
		{PROC | SECCOMP_BROKER, SYS_landlock_create_ruleset, {0}, FAIL(ENOSYS)},
		{PROC | SECCOMP_BROKER, SYS_landlock_add_rule, {0}, FAIL(ENOSYS)},
		{PROC | SECCOMP_BROKER, SYS_landlock_restrict_self, {7, 0}, ALLOW},
		{PROC | SECCOMP_BROKER, SYS_landlock_restrict_self, {7, 1}, FAIL(ENOSYS)},
		{PROC, SYS_sched_setaffinity, {0}, ALLOW},
		{PROC, SYS_sched_setaffinity, {1234}, FAIL(EPERM)},
		{PROC, SYS_sched_setattr, {1234}, FAIL(EPERM)},
	};

	CHECK_CALLS(calls);
}

/* N32: without a network what is refused is told; what another call decides is not changed. */
TEST(n32_network_is_notified_where_there_is_none)
{
#define CLOSED (PROC | SECCOMP_BROKER | SECCOMP_NOTIFY_NETWORK)
	static const struct call calls[] = {
		{0, SYS_connect, {0}, ALLOW},
		{PROC | SECCOMP_BROKER, SYS_connect, {0}, ALLOW},
		{PROC | SECCOMP_BROKER | SECCOMP_NOTIFY_READS, SYS_connect, {0}, ALLOW},
		{CLOSED, SYS_connect, {0}, NOTIFY},
		{CLOSED | SECCOMP_NO_INET, SYS_connect, {0}, NOTIFY},
		{CLOSED, SYS_socket, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK}, ALLOW},
		{CLOSED, SYS_socket, {AF_INET6, SOCK_STREAM, IPPROTO_TCP}, ALLOW},
		{CLOSED, SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}, FAIL(EPROTONOSUPPORT)},
		{CLOSED, SYS_socket, {AF_INET, SOCK_DGRAM}, NOTIFY},
		{CLOSED, SYS_socket, {HIGH | AF_INET6, HIGH | SOCK_DGRAM | SOCK_CLOEXEC}, NOTIFY},
		{CLOSED, SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}, FAIL(EPERM)},
		{CLOSED, SYS_socket, {AF_UNIX, SOCK_DGRAM}, FAIL(EPERM)},
		{CLOSED, SYS_socket, {AF_NETLINK, SOCK_DGRAM}, FAIL(EAFNOSUPPORT)},
		{CLOSED | SECCOMP_NO_INET, SYS_socket, {AF_INET, SOCK_STREAM}, NOTIFY},
		{CLOSED | SECCOMP_NO_INET, SYS_socket, {AF_INET6, SOCK_DGRAM}, NOTIFY},
		{CLOSED | SECCOMP_NO_INET, SYS_socket, {AF_INET6, SOCK_SEQPACKET}, FAIL(EPERM)},
		{CLOSED, SYS_socketpair, {AF_UNIX, SOCK_STREAM}, ALLOW},
		{CLOSED, SYS_sendto, {0, 0, 0, MSG_FASTOPEN}, FAIL(EOPNOTSUPP)},
		{CLOSED, SYS_bind, {0}, FAIL(EPERM)},
	};
#undef CLOSED

	CHECK_CALLS(calls);
}

TEST(opens_are_notified_by_intent)
{
	static const struct call calls[] = {
		{0, SYS_openat, {0, 0, O_RDWR | O_CREAT}, ALLOW},
		{0, SYS_openat2, {0}, ALLOW},
		{SECCOMP_NOTIFY_WRITES, SYS_openat2, {0}, FAIL(ENOSYS)},
		{SECCOMP_BROKER, SYS_openat2, {0}, FAIL(ENOSYS)},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, O_RDONLY | O_CLOEXEC}, ALLOW},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, O_RDONLY | O_DIRECTORY}, ALLOW},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, HIGH}, ALLOW},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, O_WRONLY}, NOTIFY},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, O_RDWR}, NOTIFY},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, 3}, NOTIFY},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, O_RDONLY | O_CREAT}, NOTIFY},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, HIGH | O_TRUNC}, NOTIFY},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, O_TMPFILE}, NOTIFY},
		{SECCOMP_NOTIFY_WRITES, SYS_openat, {0, 0, O_PATH_KERNEL | O_CREAT | O_RDWR},
			ALLOW},
		{SECCOMP_BROKER, SYS_openat, {0, 0, O_WRONLY | O_APPEND}, NOTIFY},
		{SECCOMP_BROKER, SYS_openat, {0, 0, O_RDONLY}, ALLOW},
		{SECCOMP_NOTIFY_READS, SYS_openat, {0, 0, O_RDONLY}, NOTIFY},
		{SECCOMP_NOTIFY_READS, SYS_openat, {0, 0, O_PATH_KERNEL}, NOTIFY},
		{SECCOMP_BROKER | SECCOMP_NOTIFY_READS, SYS_openat, {0, 0, O_RDONLY}, NOTIFY},
		{SECCOMP_NOTIFY_READS, SYS_execve, {0}, NOTIFY},
		{SECCOMP_NOTIFY_READS, SYS_execveat, {0}, NOTIFY},
		{SECCOMP_NOTIFY_WRITES, SYS_execve, {0}, ALLOW},
		{SECCOMP_BROKER, SYS_execve, {0}, ALLOW},
#ifdef __x86_64__
		{SECCOMP_NOTIFY_WRITES, SYS_open, {0, O_RDONLY, O_RDWR}, ALLOW},
		{SECCOMP_NOTIFY_WRITES, SYS_open, {0, O_WRONLY}, NOTIFY},
		{SECCOMP_NOTIFY_WRITES, SYS_creat, {0}, NOTIFY},
		{SECCOMP_BROKER, SYS_mknod, {0, S_IFIFO}, NOTIFY},
		{SECCOMP_BROKER, SYS_mknod, {0, S_IFBLK}, FAIL(EPERM)},
#endif
		{0, SYS_mknodat, {0, 0, S_IFIFO | 0600}, ALLOW},
		{0, SYS_mknodat, {0, 0, 0600}, ALLOW},
		{0, SYS_mknodat, {0, 0, S_IFCHR | 0600}, FAIL(EPERM)},
		{0, SYS_mknodat, {0, 0, HIGH | S_IFBLK}, FAIL(EPERM)},
		{SECCOMP_NOTIFY_WRITES, SYS_mknodat, {0, 0, S_IFSOCK}, NOTIFY},
	};

	CHECK_CALLS(calls);
}

/* clang-format on */
TEST(changes_and_metadata_are_notified_by_flag)
{
	static const long change[] = {
		SYS_truncate,
		SYS_renameat,
		SYS_renameat2,
		SYS_unlinkat,
		SYS_linkat,
		SYS_symlinkat,
		SYS_mkdirat,
#ifdef __x86_64__
		SYS_rename,
		SYS_unlink,
		SYS_rmdir,
		SYS_link,
		SYS_symlink,
		SYS_mkdir,
#endif
	};
	static const long meta[] = {
		SYS_fchmod,
		SYS_fchmodat,
		SYS_fchmodat2,
		SYS_fchown,
		SYS_fchownat,
		SYS_utimensat,
		SYS_setxattr,
		SYS_lsetxattr,
		SYS_fsetxattr,
		SYS_removexattr,
		SYS_lremovexattr,
		SYS_fremovexattr,
		463,
		466,
#ifdef __x86_64__
		SYS_chmod,
		SYS_chown,
		SYS_lchown,
		SYS_utime,
		SYS_utimes,
		SYS_futimesat,
#endif
	};

	for (size_t i = 0; i < ARRAY_SIZE(change); i++) {
		CHECK_INT(verdict_on(0, NATIVE, change[i], NULL), ALLOW);
		CHECK_INT(verdict_on(SECCOMP_NOTIFY_WRITES, NATIVE, change[i], NULL), NOTIFY);
		CHECK_INT(verdict_on(SECCOMP_NOTIFY_READS, NATIVE, change[i], NULL), NOTIFY);
		CHECK_INT(verdict_on(SECCOMP_BROKER | PROC, NATIVE, change[i], NULL), NOTIFY);
	}
	for (size_t i = 0; i < ARRAY_SIZE(meta); i++) {
		CHECK_INT(verdict_on(0, NATIVE, meta[i], NULL), ALLOW);
		CHECK_INT(verdict_on(SECCOMP_NOTIFY_READS, NATIVE, meta[i], NULL), ALLOW);
		CHECK_INT(verdict_on(SECCOMP_BROKER, NATIVE, meta[i], NULL), NOTIFY);
		CHECK_INT(verdict_on(SECCOMP_NOTIFY_META, NATIVE, meta[i], NULL), NOTIFY);
	}
	for (size_t i = 0; i < ARRAY_SIZE(change); i++)
		CHECK_INT(verdict_on(SECCOMP_NOTIFY_META, NATIVE, change[i], NULL), ALLOW);
}

/* --- the real kernel --- */

/* Run f in a child; its exit status, or 1000 + the signal that ended it. */
static int in_child(int (*f)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(f());
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int install(unsigned flags, int *ret_listener)
{
	struct seccomp_prog p;
	struct err e = ERR_INIT;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || seccomp_build(&p, flags, &e) < 0)
		return -1;
	return seccomp_install(&p, flags, ret_listener, &e);
}

#define REQUIRE(c)                                                                                 \
	do {                                                                                       \
		if (!(c))                                                                          \
			return __LINE__ % 256 ? __LINE__ % 256 : 1;                                \
	} while (0)

static int try_namespace_tier(void)
{
	int listener = 7, fd;

	REQUIRE(install(0, &listener) == 0 && listener == -1);
	REQUIRE((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && write(fd, "x", 1) == 1);
	REQUIRE(unshare(CLONE_NEWUSER) < 0 && errno == EPERM);
	REQUIRE(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
	REQUIRE(syscall(SYS_keyctl, 0, 0) < 0 && errno == EPERM);
	REQUIRE(syscall(SYS_socket, HIGH | 40 /* AF_VSOCK */, SOCK_STREAM, 0) < 0 &&
		errno == EAFNOSUPPORT);
	REQUIRE(syscall(SYS_ioctl, fd, HIGH | TIOCSTI, "x") < 0 && errno == EPERM);
	REQUIRE(syscall(SYS_seccomp, 1, 8, NULL) < 0 && errno == EPERM);
	REQUIRE(syscall(600) < 0 && errno == ENOSYS);
	REQUIRE(syscall(SYS_getpid) == getpid());
	return 0;
}

TEST(kernel_namespace_tier)
{
	CHECK_INT(in_child(try_namespace_tier), 0);
}

static int try_process_tier(void)
{
	int listener, pair[2];

	REQUIRE(install(PROC, &listener) == 0);
	REQUIRE(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
	REQUIRE(socket(AF_INET, SOCK_DGRAM, 0) < 0 && errno == EPERM);
	REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0 && errno == EPERM);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	REQUIRE(syscall(SYS_shmget, 0, 4096, 01600) < 0 && errno == EPERM);
	REQUIRE(syscall(SYS_prlimit64, getppid(), 7, NULL, NULL) < 0 && errno == EPERM);
	REQUIRE(syscall(SYS_prlimit64, 0, 7, NULL, NULL) == 0);
	return 0;
}

TEST(kernel_process_tier)
{
	CHECK_INT(in_child(try_process_tier), 0);
}

/* I7: ends of the pairs that remain cannot be turned towards another socket. */
static int try_turning_pairs(void)
{
	static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
	struct sockaddr_storage sa = {.ss_family = AF_UNIX};
	socklen_t len = sizeof(sa_family_t) + 8;
	int listener, target[2];

	memcpy((char *)&sa + sizeof(sa_family_t), "\0croft-t", 8);
	for (int i = 0; i < 2; i++) {
		REQUIRE((target[i] = socket(AF_UNIX, types[i], 0)) >= 0);
		snprintf((char *)&sa + sizeof(sa_family_t) + 1, 16, "t%d%06d", i,
			getpid() % 1000000);
		REQUIRE(bind(target[i], (struct sockaddr *)&sa, len) == 0);
		REQUIRE(listen(target[i], 1) == 0);
	}
	REQUIRE(install(PROC, &listener) == 0);
	for (int i = 0; i < 2; i++) {
		int pair[2];

		snprintf((char *)&sa + sizeof(sa_family_t) + 1, 16, "t%d%06d", i,
			getpid() % 1000000);
		REQUIRE(socketpair(AF_UNIX, types[i], 0, pair) == 0);
		REQUIRE(connect(pair[0], (struct sockaddr *)&sa, len) < 0 && errno == EISCONN);
		sendto(pair[0], "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&sa, len);
		close(pair[1]);
		REQUIRE(connect(pair[0], (struct sockaddr *)&sa, len) < 0);
		sa.ss_family = AF_UNSPEC;
		REQUIRE(connect(pair[0], (struct sockaddr *)&sa, len) < 0);
		sa.ss_family = AF_UNIX;
		REQUIRE(connect(pair[0], (struct sockaddr *)&sa, len) < 0);
		struct pollfd pfd = {.fd = target[i], .events = POLLIN};
		REQUIRE(poll(&pfd, 1, 0) == 0);
	}
	return 0;
}

TEST(kernel_pairs_cannot_be_turned)
{
	CHECK_INT(in_child(try_turning_pairs), 0);
}

#ifdef __x86_64__
static int do_int80(void)
{
	long rc;

	__asm__ volatile("int $0x80"
			 : "=a"(rc)
			 : "a"(20L /* i386 getpid */)
			 : "memory", "r8", "r9", "r10", "r11");
	return rc == getpid() ? 0 : 1;
}

static int try_int80(void)
{
	int listener;

	REQUIRE(install(0, &listener) == 0);
	return do_int80();
}

TEST(kernel_kills_int80)
{
	if (in_child(do_int80) != 0)
		SKIP("this kernel has no 32-bit entry");
	CHECK_INT(in_child(try_int80), 1000 + SIGSYS);
}

static int try_x32(void)
{
	int listener;

	REQUIRE(install(0, &listener) == 0);
	REQUIRE(syscall(0x40000000L | SYS_getpid) < 0 && errno == ENOSYS);
	return 0;
}

TEST(kernel_refuses_x32)
{
	CHECK_INT(in_child(try_x32), 0);
}
#endif

/* The premise of letting O_PATH through: the kernel drops O_CREAT and O_TRUNC beside it. */
static int try_path_creat(void)
{
	char dir[] = "/tmp/croft-test-XXXXXX";

	REQUIRE(mkdtemp(dir) != NULL);
	int d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long rc = syscall(SYS_openat, d, "f", O_PATH_KERNEL | O_CREAT | O_RDWR | O_TRUNC, 0600);
	bool made = faccessat(d, "f", F_OK, 0) == 0;

	unlinkat(d, "f", 0);
	rmdir(dir);
	REQUIRE(rc < 0 && !made);
	return 0;
}

TEST(kernel_path_open_creates_nothing)
{
	CHECK_INT(in_child(try_path_creat), 0);
}

/* A notified open waits for the listener's holder, is answered by it, and reads are not bothered.
 */
static int try_notify(void)
{
	struct seccomp_notif req;
	struct seccomp_notif_resp resp;
	struct pollfd pfd = {.events = POLLIN};
	int status;
	pid_t pid;

	REQUIRE(install(SECCOMP_NOTIFY_WRITES | SECCOMP_DEVICES, &pfd.fd) == 0 && pfd.fd >= 0);
	REQUIRE(fcntl(pfd.fd, F_GETFD) & FD_CLOEXEC);
	REQUIRE((pid = fork()) >= 0);
	if (pid == 0) {
		REQUIRE(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
		REQUIRE(open("/dev/null", O_WRONLY | O_CLOEXEC) < 0 && errno == EXDEV);
		_exit(0);
	}
	REQUIRE(poll(&pfd, 1, 60000) == 1);
	memset(&req, 0, sizeof(req));
	REQUIRE(ioctl(pfd.fd, SECCOMP_IOCTL_NOTIF_RECV, &req) == 0);
	REQUIRE(req.data.nr == SYS_openat || req.data.nr == 2);
	resp = (struct seccomp_notif_resp){.id = req.id, .error = -EXDEV};
	REQUIRE(ioctl(pfd.fd, SECCOMP_IOCTL_NOTIF_SEND, &resp) == 0);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}

TEST(kernel_notifies_write_intent)
{
	if (!seccomp_can_notify())
		SKIP("no seccomp notifications in this kernel");
	CHECK_INT(in_child(try_notify), 0);
}

static int try_forced(void)
{
	struct seccomp_prog p;
	struct err e = ERR_INIT;
	int listener;

	setenv("CROFT_FORCE_FAIL", "seccomp_notify", 1);
	REQUIRE(!seccomp_can_notify());
	REQUIRE(seccomp_build(&p, SECCOMP_NOTIFY_WRITES, &e) == 0);
	REQUIRE(seccomp_install(&p, SECCOMP_NOTIFY_WRITES, &listener, &e) < 0);
	setenv("CROFT_FORCE_FAIL", "seccomp", 1);
	e = ERR_INIT;
	REQUIRE(seccomp_install(&p, 0, &listener, &e) < 0 && e.kind == ERR_REFUSED);
	REQUIRE(syscall(SYS_keyctl, 0, -3, 0) >= 0 || errno != EPERM); /* nothing was installed */
	return 0;
}

TEST(forced_absence_refuses)
{
	CHECK_INT(in_child(try_forced), 0);
}
