/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums for the supervisor: what was refused, each thing once with how often, and what was used, per
 * (host, port, rule). Bounded: see netlog.h. Pure.
 */
#ifndef CROFT_NET_GATEWAY_TALLY_H
#define CROFT_NET_GATEWAY_TALLY_H

#include "ipc/gateway_message.h"
#include "policy/net/net.h"

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
	uint64_t second_ms; /* when the present second began, and how much was told again in it */
	unsigned again_n;
	struct used *hosts;
	size_t hosts_n, hosts_cap, hosts_last;
	uint64_t connections, up_b, down_b;
};

enum tally_news {
	TALLY_KNOWN, /* counted, and told at the end */
	TALLY_AGAIN, /* *ret tells the count so far */
	TALLY_FIRST, /* *ret tells it for the first time */
};

/*
 * Count it. What happens again is told again, so that the supervisor knows when; but each thing at most
 * every TALLY_AGAIN_MS, and no more than TALLY_AGAIN_MAX in a second.
 */
#define TALLY_AGAIN_MS 20u
#define TALLY_AGAIN_MAX 250u
enum tally_news tally_denied(struct tally *t, const struct tally_denial *key,
	const struct net_verdict *v, uint32_t status, uint64_t now_ms, struct gateway_msg *ret);
void tally_host(struct tally *t, const struct tally_use *u);
/*
 * Counts of what was refused more than once, hosts, and *last with the totals in it: DONE, or REST. Stops
 * when tell() has no room. The sums begin anew.
 */
void tally_tell(struct tally *t, struct gateway_msg *last,
	bool (*tell)(void *arg, struct gateway_msg *m), void *arg);
void tally_done(struct tally *t);

#endif
