/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The explicit proxy: HTTP CONNECT, http:// in absolute form, SOCKS5. For tiers without a
 * namespace.
 *
 * Trust:   anybody on this machine can connect, so a client must show the token: as the password of
 *          Proxy-Authorization Basic or of SOCKS5 (RFC 1929). Compared in constant time.
 * Order:   token -> host and port -> flow_judge(), which is the same for every way in.
 */
#ifndef CROFT_NET_GATEWAY_EXPLICIT_H
#define CROFT_NET_GATEWAY_EXPLICIT_H

#include "net/gateway/flow.h"

/* f->fd was accepted and nothing is known yet. */
void explicit_start(struct flow *f);

/* ---- pure, for tests ---- */

enum explicit_result { EXPLICIT_OK, EXPLICIT_BAD, EXPLICIT_NO_TOKEN };
struct explicit_head {
	bool connect;                /* CONNECT host:port; else absolute form */
	char host[NET_NAME_MAX + 1]; /* canonical; "" when a literal address was asked for */
	struct net_addr addr;
	uint16_t port;
};
/* p[0..n) is a whole head. Fields are filled only with EXPLICIT_OK. */
enum explicit_result explicit_parse(
	struct explicit_head *ret, const char *p, size_t n, const char *token);
/* "name:port", "1.2.3.4:port" or "[v6]:port"; default_port 0: a port must be there. */
bool explicit_authority(struct explicit_head *ret, const char *p, size_t n, uint16_t default_port);
/*
 * A name or an address; an IPv6 one is bracketed in an authority and never elsewhere, so
 * `bracketed` must be right.
 */
bool explicit_host(struct explicit_head *ret, const char *p, size_t n, bool bracketed);
bool explicit_token_matches(const char *token, const char *p, size_t n);

#endif
