/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses may be dialled. Pure but for addr_host_load().
 *
 * Purpose: the floor under every rule. An address is unwrapped first (v4-mapped, v4-compatible,
 *          v4-translated, NAT64 64:ff9b::/96 and 64:ff9b:1::/48, 6to4, Teredo), then judged, and
 *          both the wrapped and the unwrapped form must pass.
 */
#ifndef CROFT_NET_REACH_ADDR_H
#define CROFT_NET_REACH_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "policy/net/net.h"

enum addr_class {
	ADDR_PUBLIC,
	ADDR_PRIVATE, /* RFC 1918, ULA, CGNAT, benchmark range…: only where a rule says `private` */
	ADDR_FORBIDDEN, /* loopback, this host, link-local, metadata, multicast…: never */
	ADDR_CLASS_NUM
};

#define ADDR_HOST_MAX 256
struct addr_host {                        /* addresses of this machine's interfaces */
	struct net_addr v[ADDR_HOST_MAX]; /* those that the floor does not forbid anyway */
	size_t n;
	uint64_t loaded_ms; /* the loader's clock; 0: never */
};

int addr_host_load(
	struct addr_host *ret); /* getifaddrs(); again before a dial when older than a second */
enum addr_class addr_classify(const struct net_addr *a, const struct addr_host *h);
const char *addr_why(const struct net_addr *a,
	const struct addr_host *h); /* "is the cloud's metadata service" */
socklen_t addr_to_sockaddr(const struct net_addr *a, uint16_t port, struct sockaddr_storage *ret);
/* v4-mapped becomes v4. false: another family. */
bool addr_from_sockaddr(
	struct net_addr *ret, uint16_t *ret_port, const struct sockaddr_storage *ss);

/*
 * After a new policy: does no `deny` cover the address that fd is connected to? true where it is
 * connected to none. `host` is what was asked for: this machine's own name and an upstream proxy
 * are not judged by address.
 */
bool addr_peer_allowed(int fd, const char *host, uint16_t port, const struct net_policy *p);

#endif
