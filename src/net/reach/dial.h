/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way out: resolve once, vet, connect to exactly that address.
 *
 * Trust:   called only after a verdict. Every address of an answer is vetted (net/reach/addr.h); a name
 *          that resolves to a forbidden address, or to a private one without `private` on its rule,
 *          is not dialled there, on every dial anew. `resolve:` entries count as granted private
 *          addresses, but not as forbidden ones. Names are asked of the resolvers only here.
 */
#ifndef CROFT_NET_REACH_DIAL_H
#define CROFT_NET_REACH_DIAL_H

#include "base/err.h"
#include "policy/net/net.h"

struct gateway;
struct dial;

/* fd is connected, non-blocking, close-on-exec and the callee's; or -1 with the reason in e. */
typedef void dial_done(void *arg, int fd, const struct err *e);
/*
 * Begin. `d->host` NULL dials the literal. The upstream proxy (CONNECT) is used when the policy
 * names one. done() is never called from within dial_start(). NULL only when out of memory.
 */
struct dial *dial_start(struct gateway *g, const struct net_dest *d, const struct net_rule *rule,
	dial_done *done, void *arg);
void dial_cancel(struct dial *d); /* done() will not be called */

#endif
