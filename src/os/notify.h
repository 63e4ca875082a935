/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seccomp user notification: receive a stopped system call, look at its caller, answer.
 *
 * Trust:   everything in a notification is the sandbox's. Memory is copied once and bounded; the
 *          caller may be gone (and its pid taken by another) at any moment, so what was learned
 *          through a pid counts only if notify_alive() still holds afterwards.
 * Reading: needs ptrace access. Under Yama's default (ptrace_scope 1) that means the reader must be
 *          an ancestor of the caller; notify_probe() tells whether it works here.
 * Limits:  strings NOTIFY_STRING_MAX; one notification is held at a time per struct notify.
 */
#ifndef CROFT_OS_NOTIFY_H
#define CROFT_OS_NOTIFY_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define NOTIFY_STRING_MAX 4096u /* bytes with the NUL: the kernel's PATH_MAX */

struct notify {
	int fd;                    /* borrowed */
	struct seccomp_notif *req; /* the call at hand, after notify_recv() == 1 */
	size_t req_size;
	struct seccomp_notif_resp *resp;
	size_t resp_size;
	bool sync_wakeup; /* the kernel hands the CPU straight to the answerer and back */
};

#define NOTIFY_INIT ((struct notify){.fd = -1})

/* Learn the kernel's structure sizes and prepare to serve `fd`. -ENOSYS without notification. */
int notify_open(struct notify *n, int fd, struct err *e);
void notify_done(struct notify *n);

/*
 * Wait up to timeout_ms (-1: for ever; 0: only look) and take one notification. 1: n->req holds it;
 * 0: nothing (time, signal, or the caller vanished); -ESHUTDOWN: the last process under the filter
 * is gone; other -errno: the descriptor is unusable.
 */
int notify_recv(struct notify *n, int timeout_ms);
/* Is the caller of this notification still waiting (and so its pid still its own)? */
bool notify_alive(const struct notify *n, uint64_t id);

/* Answers: 0, or -ENOENT when the caller is gone. `error` is positive, 0 for success with `val`. */
int notify_answer(struct notify *n, uint64_t id, int64_t val, int error);
/* Let the kernel run the call itself. Only where being raced gains the caller nothing. */
int notify_continue(struct notify *n, uint64_t id);
/* A copy of fd becomes the call's result. Also -EMFILE and the like: then nothing is answered. */
int notify_answer_fd(struct notify *n, uint64_t id, int fd, bool cloexec);

/* Copy from the caller's memory: 0 when every byte arrived, else -EFAULT, -EPERM, -ESRCH. */
int notify_read(pid_t pid, uint64_t addr, void *ret, size_t size);
/* A NUL-terminated string: its length; -ENAMETOOLONG when `size` bytes hold no NUL. */
ssize_t notify_read_string(pid_t pid, uint64_t addr, char *ret, size_t size);

/* Do it once: a child stops in a call, its parent reads from it and answers. 0 or -errno. */
int notify_probe(struct err *e);

#endif
