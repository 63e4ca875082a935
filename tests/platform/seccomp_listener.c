/* SPDX-License-Identifier: Apache-2.0 */
/* One notification listener per chain of filters, and a dead listener fails closed. */
#include "platform.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

static int install(int nr, uint32_t action, unsigned flags)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = 4, .filter = f};

	CLAIM_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
}

static int listener(void)
{
	int fd = install(SYS_getppid, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);

	if (fd < 0)
		CLAIM_SKIP("seccomp notification: %s", strerror(errno));
	return fd;
}

static void second_refused(void)
{
	listener();
	CLAIM_CHECK(
		install(SYS_getpgid, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER) < 0);
	CLAIM_CHECK(errno == EBUSY);
	CLAIM_CHECK(install(SYS_getpgid, SECCOMP_RET_ERRNO | EXDEV, 0) ==
		    0); /* a plain one may follow */
}

static void dead_is_enosys(void)
{
	close(listener());
	CLAIM_CHECK(syscall(SYS_getppid) == -1 && errno == ENOSYS);
}

static void errno_beats_notify(void)
{
	listener();
	/* A later filter that refuses wins over one that notifies: refusal ranks higher. */
	CLAIM_CHECK(install(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV, 0) == 0);
	CLAIM_CHECK(syscall(SYS_getppid) == -1 && errno == EXDEV);
}

int main(void)
{
	claim("a second listener is EBUSY", second_refused);
	claim("calls are ENOSYS when the listener is closed", dead_is_enosys);
	claim("a refusing filter outranks a notifying one", errno_beats_notify);
	return claim_result();
}
