/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of secrets: a second process of this program, which holds values and never sees the
 * sandbox's bytes unparsed.
 *
 * The gateway hands it, over a SOCK_SEQPACKET pair, one end of a fresh socketpair per upstream
 * connection together with host and port. On that socketpair the gateway speaks plain HTTP/1.1 as
 * written by http1_write_request(); the keeper parses it again with the same strict parser, finds
 * the binding itself (host, port, path, method: the gateway's word does not count), puts the value
 * where the policy says, and carries it over verified TLS to the host. Responses come back with
 * every known value redacted. What is not bound is carried without a value.
 */
#ifndef CROFT_NET_KEEPER_KEEPER_H
#define CROFT_NET_KEEPER_KEEPER_H

#include <stdint.h>

#include "base/err.h"
#include "policy/net/net.h"

/* gateway -> keeper, with one descriptor: carry this connection. */
struct keeper_open {
	char host[NET_NAME_MAX + 1];
	uint16_t port;
	uint8_t private_ok; /* of the rule; judged again against the keeper's own policy */
	uint8_t tls;        /* towards the server; without it no value goes */
};

struct gateway;
/*
 * The gateway's side: a connected non-blocking stream to host:port through the keeper, or -errno.
 */
int keeper_connect(struct gateway *g, const char *host, uint16_t port, bool tls, bool private_ok);
/* main() of the keeper: argv[1] is "--keeper"; control on GATEWAY_CONTROL_FD. */
int keeper_main(void);

#endif
