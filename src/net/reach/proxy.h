/* SPDX-License-Identifier: Apache-2.0 */
/* An upstream proxy of the policy, and HTTP CONNECT as its client speaks it. Pure. */
#ifndef CROFT_NET_REACH_PROXY_H
#define CROFT_NET_REACH_PROXY_H

#include "base/buf.h"
#include "base/err.h"
#include "policy/net/net.h"

#define PROXY_USER_MAX 512

struct proxy {
	char host[NET_NAME_MAX + 1]; /* "" when it is an address */
	struct net_addr addr;
	uint16_t port;
	char *credentials; /* base64 of "user:password", or NULL; wiped by proxy_free() */
};

/* "http://[user:password@]host:port" */
int proxy_parse(struct proxy **ret, const char *url, struct err *e);
void proxy_free(struct proxy *p);
/* host NULL: the address. */
void proxy_request(const struct proxy *p, const char *host, const struct net_addr *a, uint16_t port,
	struct buf *out);
/* The status of a whole head, or -1 when it is not one of HTTP/1. */
int proxy_status(const char *head, size_t n);

#endif
