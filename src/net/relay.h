/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes both ways between two sockets: see relay_start() in flow.h.
 *
 * Small pieces are copied, bulk goes through a pipe by splice() and is never mapped. A way has a
 * pipe only while bytes are in it; pipes are pooled. What the receiver does not take stays in the
 * pipe, and the sender's window closes: there is no other buffer.
 */
#ifndef CROFT_NET_RELAY_H
#define CROFT_NET_RELAY_H

#include "net/flow.h"

struct relay_pool;
struct relay_pool *relay_pool_new(void);
void relay_pool_free(struct relay_pool *p);

#endif
