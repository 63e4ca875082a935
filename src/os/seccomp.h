/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system-call allowlist, built as a BPF program at run time.
 *
 * Purpose: allow what ordinary programs need (the shape of moby's default, tightened for agents);
 *          answer everything else with EPERM, or ENOSYS where libc is expected to fall back.
 * Shape:   architecture check, x32 check, then a balanced tree over ranges of numbers, so that the
 *          kernel's start-up evaluation (every number once) and each call cost a few compares.
 * Trust:   argument checks compare the 32 bits the kernel will use, never 64 where it reads 32.
 */
#ifndef CROFT_OS_SECCOMP_H
#define CROFT_OS_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Observed and brokered calls become SECCOMP_RET_USER_NOTIF:
 *   NOTIFY_WRITES  open/openat with write intent (access mode other than O_RDONLY, or O_CREAT,
 *                  O_TRUNC, O_TMPFILE; O_PATH never), creat, truncate, rename*, unlink*, rmdir,
 *                  link*, symlink*, mkdir*, mknod*.
 *   NOTIFY_READS   all of that, every open and openat, execve and execveat.
 *   BROKER         NOTIFY_WRITES, and metadata by path and by descriptor: chmod*, chown*, utime*,
 *                  setxattr*, removexattr*, the ioctls that set inode flags.
 *   NOTIFY_META    that metadata alone; goes with either of the first two, or by itself.
 *   NOTIFY_NETWORK connect(), and AF_INET and AF_INET6 sockets that are refused: datagrams, with
 *                  NO_INET streams, too. For the process tier without any network: the listener's
 *                  holder refuses, and tells.
 * openat2 keeps its flags and mode in memory, so with any of the first three, and with NO_SETID, it
 * answers ENOSYS and callers use openat.
 */
enum seccomp_flags {
	SECCOMP_NOTIFY_WRITES = 1 << 0,
	SECCOMP_NOTIFY_READS = 1 << 1,
	SECCOMP_BROKER = 1 << 2,
	/*
	 * No namespaces behind it: TCP sockets and connected AF_UNIX pairs only, no bind(), listen() or
	 * TCP Fast Open (Landlock sees neither), no SysV IPC, no POSIX mq, no limits or priorities
	 * of other processes. Signals to the user's other processes are Landlock's to refuse (ABI
	 * 6); before that os/pidfilter.h keeps them from croft's own processes.
	 */
	SECCOMP_PROCESS_TIER = 1 << 3,
	/* No AF_INET and AF_INET6: where Landlock cannot close TCP (ABI below 4). */
	SECCOMP_NO_INET = 1 << 4,
	/* No ptrace, process_vm_*, pidfd_getfd: where Landlock is absent. */
	SECCOMP_NO_PTRACE = 1 << 5,
	SECCOMP_NOTIFY_META = 1 << 6,
	/* The policy names devices: their ioctls are open, and those of file systems closed by type. */
	SECCOMP_DEVICES = 1 << 7,
	/*
	 * No set-user-id and set-group-id files (EPERM), for trees that are written in place; a broker
	 * sees to that by itself. chmod with the set-group-id bit alone may mean a directory: it is
	 * notified.
	 */
	SECCOMP_NO_SETID = 1 << 8,
	SECCOMP_NOTIFY_NETWORK = 1 << 9,
};
#define SECCOMP_NOTIFIES_CHANGES (SECCOMP_NOTIFY_WRITES | SECCOMP_NOTIFY_READS | SECCOMP_BROKER)
#define SECCOMP_NOTIFIES_META (SECCOMP_BROKER | SECCOMP_NOTIFY_META)
#define SECCOMP_NOTIFIES                                                                           \
	(SECCOMP_NOTIFIES_CHANGES | SECCOMP_NOTIFY_META | SECCOMP_NO_SETID | SECCOMP_NOTIFY_NETWORK)

#define SECCOMP_PROG_MAX 1024

struct seccomp_prog {
	struct sock_filter insn[SECCOMP_PROG_MAX];
	size_t n;
};

int seccomp_build(struct seccomp_prog *p, unsigned flags, struct err *e);
/* Does this kernel answer user notifications (5.0)? */
bool seccomp_can_notify(void);
/*
 * Install; with any of SECCOMP_NOTIFIES *ret_listener is the notification fd, else -1. Needs
 * no_new_privs and a single thread. From here on the calls above wait for the listener's holder.
 */
int seccomp_install(const struct seccomp_prog *p, unsigned flags, int *ret_listener, struct err *e);

#endif
