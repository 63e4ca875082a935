/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums for the supervisor: what was refused, each thing once with how often, and what was used, per
 * (host, port, rule). Bounded: see journal.h. Pure.
 */
#ifndef CROFT_NET_TALLY_H
#define CROFT_NET_TALLY_H

#include "ipc/gateway.h"
#include "policy/net.h"

struct tally_denial { /* what makes two refusals the same */
	const char *host;
	uint32_t port;
	enum net_mode mode;
	const char *method, *path, *rule;
};

struct tally_use {
	const char *host;
	uint32_t port;
	const char *rule;
	enum net_mode mode;
	uint64_t requests, connections, up_b, down_b;
};

struct tally {
	struct denied **denials; /* open addressing */
	size_t denials_n;
	uint64_t untold; /* refusals that found no room */
	struct used *hosts;
	size_t hosts_n, hosts_cap, hosts_last;
	uint64_t connections, up_b, down_b;
};

/* Count it. true the first time: *ret is the message that says so. */
bool tally_denied(struct tally *t, const struct tally_denial *key, const struct net_verdict *v,
	uint32_t status, struct gateway_msg *ret);
void tally_host(struct tally *t, const struct tally_use *u);
/* Final counts of what was refused more than once, hosts, DONE. Stops when tell() has no room. */
void tally_tell(struct tally *t, bool (*tell)(void *arg, struct gateway_msg *m), void *arg);
void tally_done(struct tally *t);

#endif
