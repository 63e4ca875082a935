/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confinement of the gateway: see confine.h.
 *
 * Order:   capabilities and no_new_privs -> not dumpable -> standard streams to /dev/null ->
 *          Landlock without a single rule -> filter. The filter comes last: it would refuse the
 *          rest.
 * Shape:   the list is short and mostly decided by number alone, which the kernel caches, so a
 *          straight line of compares costs nothing per call. Arguments are compared by the 32 bits
 *          that the kernel uses.
 * Failure: what a library may try and can do without is answered with an error; anything else is
 *          not an accident and ends the process.
 */
#include "net/gateway/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/caps.h"
#include "os/landlock.h"
#include "os/uapi.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "croft-gateway has no system-call filter for this architecture"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arguments are loaded by their low half");

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define PROG_MAX 512
#define SOCKET_TYPE_MASK 0xfu
#define X32_BIT 0x40000000u
#define FAIL(errnum) (SECCOMP_RET_ERRNO | (errnum))

/* ---- early ---- */

static int set_limit(int what, rlim_t at_most, struct err *e)
{
	struct rlimit l;

	if (getrlimit((__rlimit_resource_t)what, &l) < 0)
		return err_set(e, errno, "read a resource limit");
	l.rlim_cur = MIN_OF(l.rlim_max, at_most);
	if (at_most == 0)
		l.rlim_max = 0;
	if (setrlimit((__rlimit_resource_t)what, &l) < 0)
		return err_set(e, errno, "set a resource limit");
	return 0;
}

static int close_others(int keep_fd, struct err *e)
{
	if (keep_fd > 3 && syscall(SYS_close_range, 3u, (unsigned)keep_fd - 1, 0u) < 0)
		goto one_by_one;
	if (syscall(SYS_close_range, (unsigned)keep_fd + 1, ~0u, 0u) == 0)
		return 0;
one_by_one:
	if (errno != ENOSYS && errno != EPERM)
		return err_set(e, errno, "close inherited descriptors");
	for (int fd = 3; fd < CONFINE_NOFILE_MAX; fd++)
		if (fd != keep_fd)
			close(fd);
	return 0;
}

int confine_early(int keep_fd, struct err *e)
{
	pid_t parent = getppid();
	int r;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_set(e, errno, "ask to end with the supervisor");
	if (getppid() != parent)
		return err_set(e, ESRCH, "the supervisor is gone");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* the write fails instead */
	/*
	 * Dumpable processes can be looked into by the user's others, and leave their memory in
	 * files.
	 */
	if (!SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(e, errno, "become undumpable");
	r = close_others(keep_fd, e);
	if (r == 0)
		r = set_limit(RLIMIT_CORE, 0, e);
	if (r == 0)
		r = set_limit(RLIMIT_NOFILE, CONFINE_NOFILE_MAX, e);
	if (r == 0)
		r = set_limit(RLIMIT_FSIZE, CONFINE_FILE_MAX_B, e);
	return r;
}

/* ---- the filter ---- */

static const uint16_t allowed[] = {SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64,
	SYS_recvmsg, SYS_sendmsg, SYS_recvfrom, SYS_sendto, SYS_recvmmsg, SYS_sendmmsg, SYS_splice,
	SYS_tee, SYS_pipe2, SYS_connect, SYS_bind, SYS_getsockopt, SYS_setsockopt, SYS_getsockname,
	SYS_getpeername, SYS_accept4, SYS_shutdown, SYS_close, SYS_epoll_create1, SYS_epoll_ctl,
	SYS_epoll_pwait,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
#ifdef SYS_poll
	SYS_poll,
#endif
#ifdef SYS_time
	SYS_time,
#endif
	SYS_ppoll, SYS_timerfd_create, SYS_timerfd_settime, SYS_eventfd2, SYS_munmap, SYS_mremap,
	SYS_brk, SYS_madvise, SYS_futex, SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep,
	SYS_gettimeofday, SYS_getrandom, SYS_fstat, SYS_lseek, SYS_rt_sigaction, SYS_rt_sigprocmask,
	SYS_rt_sigreturn, SYS_sigaltstack, SYS_exit, SYS_exit_group, SYS_getpid, SYS_gettid,
	SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_restart_syscall,
	SYS_sched_yield, SYS_sched_getaffinity, SYS_sysinfo, SYS_uname};

/* Libraries look for files of theirs, and go on without. */
static const uint16_t absent[] = {SYS_openat, SYS_newfstatat, SYS_statx, SYS_readlinkat,
	SYS_faccessat,
#ifdef SYS_open
	SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink,
#endif
	SYS_openat2, SYS_getcwd};

struct prog {
	struct sock_filter v[PROG_MAX];
	size_t n;
	bool failed;
};

static void emit(struct prog *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (p->n == PROG_MAX) {
		p->failed = true;
		return;
	}
	p->v[p->n++] = (struct sock_filter){.code = code, .jt = jt, .jf = jf, .k = k};
}

static void load(struct prog *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void load_arg(struct prog *p, int i)
{
	load(p, offsetof(struct seccomp_data, args) + (size_t)i * sizeof(uint64_t));
}

static void answer(struct prog *p, uint32_t action)
{
	emit(p, BPF_RET | BPF_K, 0, 0, action);
}

static void answer_if_equal(struct prog *p, uint32_t value, uint32_t action)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
	answer(p, action);
}

/* Code for one number: what is emitted until end_case() runs only for it, and must answer. */
static size_t begin_case(struct prog *p, uint32_t value)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, value);
	return p->n - 1;
}

static void end_case(struct prog *p, size_t at)
{
	size_t distance = p->n - at - 1;

	if (distance > UINT8_MAX || p->failed)
		p->failed = true;
	else
		p->v[at].jf = (uint8_t)distance;
}

/* Memory that can be executed is never made. */
static void check_prot(struct prog *p, uint32_t nr)
{
	size_t at = begin_case(p, nr);

	load_arg(p, 2);
	emit(p, BPF_JMP | BPF_JSET | BPF_K, 0, 1, PROT_EXEC);
	answer(p, FAIL(EPERM));
	answer(p, SECCOMP_RET_ALLOW);
	end_case(p, at);
}

static void check_socket(struct prog *p)
{
	size_t at = begin_case(p, SYS_socket), family;

	load_arg(p, 0);
	family = begin_case(p, AF_NETLINK); /* this machine's addresses */
	load_arg(p, 2);
	answer_if_equal(p, NETLINK_ROUTE, SECCOMP_RET_ALLOW);
	answer(p, FAIL(EAFNOSUPPORT));
	end_case(p, family);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, AF_INET);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AF_INET6);
	answer(p, FAIL(EAFNOSUPPORT));
	load_arg(p, 1);
	emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, SOCKET_TYPE_MASK);
	answer_if_equal(p, SOCK_STREAM, SECCOMP_RET_ALLOW);
	answer_if_equal(p, SOCK_DGRAM, SECCOMP_RET_ALLOW);
	answer(p, FAIL(EPROTONOSUPPORT));
	end_case(p, at);
}

/*
 * Pairs that are connected for life: a datagram pair could be aimed at any socket of the
 * filesystem.
 */
static void check_socketpair(struct prog *p)
{
	size_t at = begin_case(p, SYS_socketpair);

	load_arg(p, 1);
	emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, SOCKET_TYPE_MASK);
	answer_if_equal(p, SOCK_STREAM, SECCOMP_RET_ALLOW);
	answer_if_equal(p, SOCK_SEQPACKET, SECCOMP_RET_ALLOW);
	answer(p, FAIL(EPROTONOSUPPORT));
	end_case(p, at);
}

/* One argument against a list; F_SETOWN, for one, would send signals to others. */
static void check_list(
	struct prog *p, uint32_t nr, int arg, const uint32_t *list, size_t n, uint32_t otherwise)
{
	size_t at = begin_case(p, nr);

	load_arg(p, arg);
	for (size_t i = 0; i < n; i++)
		answer_if_equal(p, list[i], SECCOMP_RET_ALLOW);
	answer(p, otherwise);
	end_case(p, at);
}

static void build(struct prog *p)
{
	static const uint32_t fcntls[] = {
		F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ};
	static const uint32_t ioctls[] = {FIONREAD, FIONBIO};
	size_t at;

	load(p, offsetof(struct seccomp_data, arch));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, NATIVE_ARCH);
	answer(p, SECCOMP_RET_KILL_PROCESS);
	load(p, offsetof(struct seccomp_data, nr));
	emit(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT);
	answer(p, SECCOMP_RET_KILL_PROCESS);
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		answer_if_equal(p, allowed[i], SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		answer_if_equal(p, absent[i], FAIL(EACCES));
	check_prot(p, SYS_mmap);
	check_prot(p, SYS_mprotect);
	check_socket(p);
	check_socketpair(p);
	check_list(p, SYS_fcntl, 1, fcntls, ARRAY_SIZE(fcntls), FAIL(EINVAL));
	check_list(p, SYS_ioctl, 1, ioctls, ARRAY_SIZE(ioctls), FAIL(ENOTTY));
	at = begin_case(p, SYS_prlimit64); /* asking is fine, setting is not */
	load(p, offsetof(struct seccomp_data, args[2]) +
			sizeof(uint32_t)); /* a pointer: both halves */
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
	answer(p, FAIL(EPERM));
	load_arg(p, 2);
	answer_if_equal(p, 0, SECCOMP_RET_ALLOW);
	answer(p, FAIL(EPERM));
	end_case(p, at);
	answer(p, SECCOMP_RET_KILL_PROCESS);
}

static int filter(struct err *e)
{
	struct prog p = {0};
	struct sock_fprog f;

	build(&p);
	if (p.failed)
		return err_invalid(e, "the gateway's system-call filter is too long");
	f = (struct sock_fprog){.len = (unsigned short)p.n, .filter = p.v};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f) < 0)
		return err_set(e, errno, "enter the gateway's system-call filter");
	return 0;
}

/* ---- all of it ---- */

/* A terminal behind these would take orders from whoever takes this process over. */
static int silence(struct err *e)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), r = 0;

	if (fd < 0)
		return err_set(e, errno, "open /dev/null");
	for (int to = STDIN_FILENO; to <= STDERR_FILENO && r == 0; to++)
		if ((to != STDERR_FILENO || !SANITIZED) && dup2(fd, to) < 0)
			r = err_set(e, errno, "close standard streams");
	if (fd > STDERR_FILENO)
		close(fd);
	return r;
}

static int deny_files(const char **ret_degraded, struct err *e)
{
	struct landlock l = LANDLOCK_INIT;
	int r = landlock_open(&l, 0, e);

	if (r == 0)
		r = landlock_apply(&l, e);
	if (r == 0 && l.abi == 0)
		*ret_degraded = "the gateway runs without Landlock; its system-call filter alone "
				"keeps it from files";
	landlock_done(&l);
	return r;
}

int confine(const char **ret_degraded, struct err *e)
{
	int r;

	*ret_degraded = NULL;
	r = caps_drop_all(e);
	if (r == 0)
		r = silence(e);
	/*
	 * Sanitizers read files, make calls of their own at any time and trace themselves in the
	 * end.
	 */
	if (r == 0 && !SANITIZED)
		r = deny_files(ret_degraded, e);
	if (r == 0 && !SANITIZED)
		r = filter(e);
	return r < 0 ? err_wrap(e, "confine the gateway") : 0;
}
