/* SPDX-License-Identifier: Apache-2.0 */
/* Confinement of croft-screen: see screen_confine.h. */
#include "session/screen/screen_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/caps.h"
#include "os/forced.h"
#include "os/landlock.h"
#include "os/uapi.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "croft-screen has no system-call filter for this architecture"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arguments are loaded by their low half");

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define NICE 10 /* a picture for later is less urgent than whatever else is to be done */

/* ---- early ---- */

static int set_limit(int what, rlim_t at_most, struct err *e)
{
	struct rlimit l;

	if (getrlimit((__typeof__(RLIMIT_AS))what, &l) < 0)
		return err_set(e, errno, "read a resource limit");
	l.rlim_cur = l.rlim_max = MIN_OF(l.rlim_max, at_most);
	if (setrlimit((__typeof__(RLIMIT_AS))what, &l) < 0)
		return err_set(e, errno, "set a resource limit");
	return 0;
}

/* Standard streams and keep_fd stay; the streams lead nowhere. */
static int close_others(int keep_fd, struct err *e)
{
	cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_set(e, errno, "open /dev/null");
	for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++)
		if ((to != STDERR_FILENO || !SANITIZED) && null != to && dup2(null, to) < 0)
			return err_set(e, errno, "close standard streams");
	if (null <= STDERR_FILENO)
		null = -1;
	if (syscall(SYS_close_range, (unsigned)keep_fd + 1, ~0u, 0u) == 0)
		return 0;
	if (errno != ENOSYS && errno != EPERM)
		return err_set(e, errno, "close inherited descriptors");
	for (int fd = keep_fd + 1; fd < 65536; fd++)
		if (fd != null)
			close(fd);
	return 0;
}

int screen_confine_early(int keep_fd, struct err *e)
{
	pid_t parent = getppid();
	int r;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_set(e, errno, "ask to end with the session");
	if (getppid() != parent)
		return err_set(e, ESRCH, "the session is gone");
	r = close_others(keep_fd, e);
	if (r == 0 && !SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		r = err_set(e, errno, "become undumpable");
	if (r == 0)
		r = set_limit(RLIMIT_CORE, 0, e);
	if (r == 0)
		r = set_limit(RLIMIT_FSIZE, 0, e);
	if (r == 0 && !SANITIZED) /* sanitizers reserve terabytes */
		r = set_limit(RLIMIT_AS, SCREEN_MEMORY_MAX_B, e);
	if (r == 0)
		(void)!nice(NICE);
	return r;
}

int screen_confine_files(struct err *e)
{
	struct landlock l = LANDLOCK_INIT;
	int r = caps_drop_all(e);

	if (r == 0 && !SANITIZED) {
		r = landlock_open(&l, LANDLOCK_DENY_TCP, e);
		if (r == 0)
			r = landlock_apply(&l, e);
		landlock_done(&l);
	}
	return r < 0 ? err_wrap(e, "confine the screen model") : 0;
}

/* ---- the filter ---- */

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset))
#define LOAD_NR LOAD(offsetof(struct seccomp_data, nr))
#define LOAD_ARG(i) LOAD(offsetof(struct seccomp_data, args) + (i) * sizeof(uint64_t))
#define IF_EQUAL(v, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(v), yes, no)
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, (action))
/* The accumulator holds the number: this call as it is. */
#define ALLOW(nr) IF_EQUAL(nr, 0, 1), ANSWER(SECCOMP_RET_ALLOW)
/* The socket and nothing else: the streams are silent anyway. */
#define ALLOW_ON(nr, fd)                                                                           \
	IF_EQUAL(nr, 0, 4), LOAD_ARG(0), IF_EQUAL(fd, 0, 1), ANSWER(SECCOMP_RET_ALLOW),            \
		ANSWER(SECCOMP_RET_KILL_PROCESS)
/* Memory of our own that is never code. */
#define ALLOW_MEMORY(nr, mask, value)                                                              \
	IF_EQUAL(nr, 0, 7), LOAD_ARG(2), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 4, 0),    \
		LOAD_ARG(3), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask), IF_EQUAL(value, 0, 1),     \
		ANSWER(SECCOMP_RET_ALLOW), ANSWER(SECCOMP_RET_KILL_PROCESS)

int screen_confine_calls(int fd, struct err *e)
{
	struct sock_filter v[] = {
		LOAD(offsetof(struct seccomp_data, arch)),
		IF_EQUAL(NATIVE_ARCH, 1, 0),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		LOAD_NR,
		ALLOW_ON(SYS_read, fd),
		ALLOW_ON(SYS_write, fd),
		ALLOW(SYS_brk),
		ALLOW(SYS_munmap),
		ALLOW(SYS_mremap),
		ALLOW(SYS_madvise),
		ALLOW(SYS_getrandom), /* glibc's malloc() */
		ALLOW(SYS_exit),
		ALLOW(SYS_exit_group),
		ALLOW_MEMORY(SYS_mmap, MAP_ANONYMOUS | MAP_PRIVATE, MAP_ANONYMOUS | MAP_PRIVATE),
		ALLOW_MEMORY(SYS_mprotect, 0, 0),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog p = {.len = ARRAY_SIZE(v), .filter = v};

	if (SANITIZED) /* which makes calls of its own at any time */
		return 0;
	errno = ENOSYS;
	if (forced_fail("seccomp") || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
		return err_set(e, errno, "enter the screen model's system-call filter");
	return 0;
}
