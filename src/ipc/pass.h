/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message of fixed size with one descriptor beside it, over a SOCK_SEQPACKET. Neither side
 * waits. What is not exactly that is refused, and no descriptor of it is kept.
 */
#ifndef CROFT_IPC_PASS_H
#define CROFT_IPC_PASS_H

#include <stddef.h>

/* 0 or -errno. The descriptor stays the caller's. */
int pass_send(int sock, const void *p, size_t n, int fd);
/* 1 with p filled and *ret_fd the caller's; 0 at the end; -EAGAIN, -EBADMSG … */
int pass_receive(int sock, void *p, size_t n, int *ret_fd);

#endif
