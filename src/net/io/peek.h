/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at the first bytes of a socket without taking them, so that whoever gets the connection
 * next finds it whole. The loop is level-triggered: SO_RCVLOWAT keeps it quiet until there is more
 * to see.
 */
#ifndef CROFT_NET_IO_PEEK_H
#define CROFT_NET_IO_PEEK_H

#include <stddef.h>
#include <sys/types.h>

#define PEEK_HEAD_MAX_B 8192 /* a head of HTTP that a proxy sends or gets */

/* How many bytes are there to see (0: the peer has finished), or -EAGAIN, -errno. */
ssize_t peek(int fd, void *buf, size_t size);
/* Wake the loop when there are more than `have` bytes; 0: as usual. */
void peek_wait(int fd, size_t have);
/*
 * Length of the head up to and including its empty line; 0: not there yet; -1: bare CR, bare LF or
 * NUL.
 */
ssize_t peek_head_len(const char *p, size_t n);
/* Take n bytes that were seen. 0 or -errno. */
int peek_take(int fd, size_t n);

#endif
