/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses, asked of the host's resolvers (or the policy's), by c-ares on the gateway's
 * loop.
 *
 * Order:  `resolve:` entries of the policy, then the host's /etc/hosts, then DNS: A and AAAA at
 *         once; the second answer is waited for only shortly. No search domains, no aliases from
 *         the environment: exactly the name that was judged is asked.
 * Trust:  answers are hostile and only bounded here; the dialler vets every address. Resolvers may
 *         be anywhere, on loopback, too: talking to them is not a dial of the sandbox.
 * Limits: files are read in resolver_new(), before confinement, and never again.
 */
#ifndef CROFT_NET_REACH_RESOLVER_H
#define CROFT_NET_REACH_RESOLVER_H

#include "base/err.h"
#include "os/loop.h"
#include "policy/net/net.h"

#define RESOLVE_ADDRS_MAX 16
#define RESOLVE_TIMEOUT_MS 5000

struct resolver;
struct resolve;

struct resolve_answer {
	struct net_addr v[RESOLVE_ADDRS_MAX];
	size_t n;
	bool fixed; /* from a `resolve:` entry: its private addresses count as granted */
};

/* a->n > 0, or 0 with the reason in e. */
typedef void resolve_done(void *arg, const struct resolve_answer *a, const struct err *e);

struct resolver *resolver_new(struct loop *l, const struct net_policy *p, struct err *e);
void resolver_free(struct resolver *r); /* outstanding questions are dropped unanswered */
/* A new generation: its resolvers are asked from the next question on. */
void resolver_policy(struct resolver *r, const struct net_policy *p);

/* host is canonical. done() is never called from within. NULL only when out of memory. */
struct resolve *resolve_start(struct resolver *r, const struct net_policy *p, const char *host,
	resolve_done *done, void *arg);
void resolve_cancel(struct resolve *q); /* done() will not be called */

#endif
