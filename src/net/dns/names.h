/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic addresses: a name is bound to one IPv4 address of 198.18.0.0/15 and one IPv6 address of
 * the ULA fd63:726f:6674::/48 for as long as the sandbox lives, so every connection carries a name.
 * Names that policy refuses get a pair as well: their connections are answered with the refusal.
 *
 * Limits:  NAMES_MAX names; when full, the one unused longest and not held by a flow makes room,
 *          and its addresses are not given to another name before all others were used.
 * Reserved: 198.18.0.0/24 (198.18.0.1 is the resolver, 198.18.0.2 the sandbox itself).
 */
#ifndef CROFT_NET_DNS_NAMES_H
#define CROFT_NET_DNS_NAMES_H

#include "base/pack.h"
#include "policy/net/net.h"

#define NAMES_MAX 16384
#define NAMES_REFUSED_MAX 4096 /* of them, in all: refused names never push out allowed ones */

struct names;
struct names *names_new(void);
void names_free(struct names *n);
/* host is canonical. 0; -ENOSPC when every name is held, -ENOMEM. */
int names_bind(struct names *n, const char *host, struct net_addr *ret_v4, struct net_addr *ret_v6);
/*
 * The same for a name that policy refuses, so that its connections can be answered. -ENOSPC also
 * when NAMES_REFUSED_MAX such names were bound before.
 */
int names_bind_refused(
	struct names *n, const char *host, struct net_addr *ret_v4, struct net_addr *ret_v6);
/* The name an address stands for, or NULL. */
const char *names_lookup(const struct names *n, const struct net_addr *a);
bool names_synthetic(const struct net_addr *a); /* in one of the ranges, bound or not */
void names_hold(struct names *n, const char *host, int delta); /* +1, -1: a flow uses it */
/* All of it as bytes, while no flow holds a name, and back into a new one: false when they make no sense. */
void names_pack(const struct names *n, struct buf *out);
bool names_unpack(struct names *n, struct unpack *u);

#endif
