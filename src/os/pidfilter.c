/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of pidfilter.h. It is stacked on the allowlist, which has already looked at the
 * architecture; here one list of checks is tried in turn, since few calls are in it.
 */
#include "os/pidfilter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "os/uapi.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "croft has no system-call filter for this architecture"
#endif

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define K_F_SETSIG 10
#define K_F_SETOWN_EX 15

/* Calls with a target in a register: which arguments are one. */
static const struct {
	long nr;
	int first, last;
} targets[] = {
	{SYS_kill, 0, 0}, {SYS_tkill, 0, 0}, {SYS_tgkill, 0, 1}, {SYS_rt_sigqueueinfo, 0, 0},
	{SYS_rt_tgsigqueueinfo, 0, 1}, {SYS_pidfd_open, 0, 0},
	{SYS_setpgid, 1, 1}, /* the leader's number is the group's: who is in it could signal it */
};

static size_t emit(struct seccomp_prog *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (p->n >= SECCOMP_PROG_MAX)
		return SECCOMP_PROG_MAX;
	p->insn[p->n] = (struct sock_filter){.code = code, .jt = jt, .jf = jf, .k = k};
	return p->n++;
}

static void load_arg(struct seccomp_prog *p, int i)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0,
		(uint32_t)(offsetof(struct seccomp_data, args) + (size_t)i * sizeof(uint64_t)));
}

static void refuse_if(struct seccomp_prog *p, uint32_t k, uint32_t action)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, k);
	emit(p, BPF_RET | BPF_K, 0, 0, action);
}

/* The loaded value names a guarded process, thread or group, or everybody. */
static void refuse_targets(struct seccomp_prog *p, const struct pidfilter *g)
{
	for (size_t i = 0; i < g->ids_n; i++)
		refuse_if(p, (uint32_t)g->ids[i], REFUSE);
	for (size_t i = 0; i < g->groups_n; i++)
		refuse_if(p, (uint32_t)-g->groups[i], REFUSE);
	refuse_if(p, (uint32_t)-1, REFUSE);
}

/* What follows, until end_call(), is for this number. */
static size_t on_call(struct seccomp_prog *p, long nr)
{
	return emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, (uint32_t)nr);
}

static void end_call(struct seccomp_prog *p, size_t at)
{
	emit(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
	if (at < SECCOMP_PROG_MAX)
		p->insn[at].jf = (uint8_t)(p->n - at - 1);
}

/* Signals that a descriptor sends to its owner. */
static void check_fcntl(struct seccomp_prog *p, const struct pidfilter *g)
{
	size_t at;

	load_arg(p, 1);
	refuse_if(p, K_F_SETOWN_EX, REFUSE);
	at = on_call(p, F_SETOWN);
	load_arg(p, 2);
	refuse_targets(p, g);
	end_call(p, at);
	at = on_call(p, K_F_SETSIG); /* to a terminal's group, which is not looked at */
	load_arg(p, 2);
	refuse_if(p, SIGKILL, REFUSE);
	refuse_if(p, SIGSTOP, REFUSE);
	end_call(p, at);
}

int pidfilter_build(struct seccomp_prog *p, const struct pidfilter *g, struct err *e)
{
	size_t at;

	p->n = 0;
	if (g->ids_n == 0 || g->ids_n > PIDFILTER_IDS_MAX || g->groups_n > PIDFILTER_IDS_MAX)
		return err_set(e, EINVAL, "guard %zu threads", g->ids_n);
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, NATIVE_ARCH);
	emit(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	/* Its target may be a directory of /proc. Callers have kill(). */
	refuse_if(p, SYS_pidfd_send_signal, SECCOMP_RET_ERRNO | ENOSYS);
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		at = on_call(p, targets[i].nr);
		for (int arg = targets[i].first; arg <= targets[i].last; arg++) {
			load_arg(p, arg);
			refuse_targets(p, g);
		}
		end_call(p, at);
	}
	at = on_call(p, SYS_fcntl);
	check_fcntl(p, g);
	end_call(p, at);
	at = on_call(p, SYS_ioctl);
	load_arg(p, 1);
	refuse_if(p, FIOSETOWN, REFUSE);
	refuse_if(p, SIOCSPGRP, REFUSE);
	end_call(p, at);
	emit(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
	if (p->n >= SECCOMP_PROG_MAX)
		return err_set(e, E2BIG, "build the filter that guards the first process");
	return 0;
}
