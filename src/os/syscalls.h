/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every system call that croft has judged, by class. What a class means for a given set of flags is
 * decided in seccomp.c; a number that is not in the table does not exist inside (ENOSYS), so that a
 * system call newer than this list is never open by accident and libc falls back as on an older
 * kernel.
 */
#ifndef CROFT_OS_SYSCALLS_H
#define CROFT_OS_SYSCALLS_H

#include <stddef.h>
#include <stdint.h>

/* All numbers in the table are below this. */
#define SYSCALLS_NR_MAX 512

enum syscall_class {
	SC_ABSENT, /* ENOSYS: callers have an older way */
	SC_ALLOW,
	SC_DENY, /* EPERM */

	/* Judged by an argument. */
	SC_CLONE,       /* arg0: no new namespaces */
	SC_UNSHARE,     /* arg0: only what a thread owns anyway */
	SC_PERSONALITY, /* arg0: harmless values */
	SC_IOCTL,      /* arg1: no terminal injection, no changes of files behind Landlock's back */
	SC_FCNTL,      /* arg1: no leases */
	SC_SECCOMP,    /* arg1: filters may be added, listeners may not */
	SC_SOCKET,     /* arg0-2: family, type, protocol */
	SC_SOCKETPAIR, /* arg0-1 */
	SC_SEND_ARG2,  /* sendmsg: flags in arg2; TCP Fast Open connects without Landlock's consent
			 */
	SC_SEND_ARG3,  /* sendto, sendmmsg: the same, flags in arg3 */
	SC_PRLIMIT,    /* arg0: pid; process tier: only our own */
	SC_PRIORITY,   /* arg0-1: whose; process tier: only the calling thread's */
	SC_IOPRIO,     /* the same for ioprio_set */
	SC_SCHED,      /* arg0: whose; process tier: only the caller's own */

	/* Judged by tier. */
	SC_IPC,    /* SysV IPC, POSIX message queues: not in the process tier */
	SC_LISTEN, /* listen() binds a free port by itself, which Landlock does not see; bind() of a
			socket from socketpair() makes a name, which the broker does not see */
	SC_LANDLOCK, /* not with the broker, which would act outside the caller's own domain */
	SC_RESTRICT, /* LANDLOCK; but process tier: croft's own process enters a ruleset, arg1 is 0 */
	SC_TRACE,    /* reads or changes another process: not with SECCOMP_NO_PTRACE */

	/* Judged by what is observed or brokered. */
	SC_OPEN,    /* flags in arg1 */
	SC_OPENAT,  /* flags in arg2 */
	SC_OPENAT2, /* flags in memory */
	SC_CHANGE,  /* makes, removes, renames or truncates by path */
	SC_MKNOD,   /* CHANGE; mode in arg1: no devices */
	SC_MKNODAT, /* CHANGE; mode in arg2 */
	SC_CREAT,   /* CHANGE; mode in arg1: no set-id files, if so asked */
	SC_CHMOD,   /* META; mode in arg1 */
	SC_CHMODAT, /* META; mode in arg2 */
	SC_META,    /* mode, owner, times, extended attributes */
	SC_EXEC,
	SC_CONNECT,
	SC_NUM,
};

struct syscall_entry {
	uint16_t nr;
	uint8_t class; /* enum syscall_class */
};

extern const struct syscall_entry syscall_table[];
extern const size_t syscall_table_n;

#endif
