/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Netlink messages, written and acknowledged: as much as setting up one network namespace needs.
 * The libraries for this (libmnl, libnftnl) cannot be linked into the static launcher as packaged,
 * and starting ip or nft would cost more than everything they do here.
 *
 * Failure is sticky, as in struct buf: a message that does not fit fails when it is sent.
 */
#ifndef CROFT_OS_NETLINK_H
#define CROFT_OS_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NETLINK_MAX_B 24576

struct netlink {
	int fd;
	uint32_t seq;
	size_t len;     /* of everything written */
	size_t message; /* where the current message begins */
	bool failed;
	unsigned acks; /* expected answers */
	union {
		char b[NETLINK_MAX_B];
		uint64_t align;
	} out;
};

int netlink_open(struct netlink *n, int protocol, struct err *e);
void netlink_done(struct netlink *n);
/*
 * Begin a message; `head` is its fixed part (struct rtmsg, nfgenmsg …). ack: its answer is awaited.
 */
void netlink_begin(struct netlink *n, uint16_t type, uint16_t flags, bool ack, const void *head,
	size_t head_n);
void netlink_put(struct netlink *n, uint16_t attr, const void *p, size_t len);
void netlink_put_str(struct netlink *n, uint16_t attr, const char *s); /* with its NUL */
void netlink_put_be32(struct netlink *n, uint16_t attr, uint32_t v);
void netlink_put_u32(struct netlink *n, uint16_t attr, uint32_t v);
size_t netlink_nest(struct netlink *n, uint16_t attr);
void netlink_nest_end(struct netlink *n, size_t nest);
/* Send what was written and wait for the answers; the first refusal is the error. */
int netlink_send(struct netlink *n, const char *what, struct err *e);

#endif
