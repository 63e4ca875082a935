/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message of any length up to a maximum, with descriptors beside it, over a SOCK_SEQPACKET: the part
 * that every form of message has in common. What the bytes mean is the caller's to check.
 */
#ifndef CROFT_IPC_MESSAGE_H
#define CROFT_IPC_MESSAGE_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MESSAGE_FDS_MAX 16

/* 0 or -errno; no SIGPIPE. The descriptors stay the caller's. flags: MSG_DONTWAIT, or 0 to wait for room. */
int message_send(
	int sock, const struct iovec *iov, size_t iov_n, const int *fds, size_t fd_n, int flags);
/*
 * Bytes in `p`, and *ret_fd_n descriptors in fds[], close-on-exec and the caller's. 0 at the end; -EAGAIN,
 * -EPROTO when it was longer than `n` or had more than fd_max descriptors, … with every descriptor closed.
 * Never waits. An empty message reads like the end: nobody of ours sends one.
 */
int message_receive(int sock, void *p, size_t n, int *fds, size_t fd_max, size_t *ret_fd_n);

#endif
