/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes both ways between two sockets: see splice_start() in flow.h.
 *
 * Small pieces are copied, bulk goes through a pipe by splice() and is never mapped. A way has a
 * pipe only while bytes are in it; pipes are pooled. What the receiver does not take stays in the
 * pipe, and the sender's window closes: there is no other buffer.
 */
#ifndef CROFT_NET_IO_SPLICE_H
#define CROFT_NET_IO_SPLICE_H

#include "net/gateway/flow.h"

struct splice_pool;
struct splice_pool *splice_pool_new(void);
void splice_pool_free(struct splice_pool *p);

#endif
