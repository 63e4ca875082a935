/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway process: everything one sandbox sends comes through here.
 *
 * Purpose: hold the sandbox's listening sockets from outside; answer its DNS; judge, dial and carry
 *          its connections; write the journal; tell the supervisor what was refused.
 * Trust:   bytes from the sandbox and from upstream are hostile. This process holds no secret
 *          values (the keeper does), no file but those opened before it confined itself, and cannot
 *          exec.
 * Order:   CONFIG -> load roots, resolvers, authority -> confine -> READY -> serve -> END -> DONE;
 *          or REST, and the end (net/gateway/rest.h).
 * Failure: no policy, no authority, no confinement: exit, and the sandbox has no network.
 */
#ifndef CROFT_NET_GATEWAY_GATEWAY_H
#define CROFT_NET_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ipc/gateway_message.h"
#include "net/reach/addr.h"
#include "os/loop.h"
#include "net/dns/names.h"
#include "net/reach/receivers.h"
#include "policy/net/net.h"

struct dns;
struct placeholder_set;
struct flow;
struct ledger; /* of rule counters: net/count.h */
struct resolver;
struct rest;
struct tls;

/* One policy and what was opened under it. Flows hold it; the last one frees it. */
struct generation {
	struct net_policy *policy;
	uint32_t number;
	unsigned refs;
	struct generation *older; /* the gateway's list, from g->gen down */
};

#define GENERATIONS_MAX 64 /* in memory at once; flows that need an older one are reset */

struct gateway {
	struct loop *loop;
	int control;
	int keeper; /* -1: no secrets */
	struct receivers receivers;
	int journal_fd;
	bool explicit_proxy; /* no namespace: clients speak CONNECT or SOCKS5 with the token */
	char token[GATEWAY_TOKEN_LEN + 1];
	struct generation *gen; /* the current one */
	struct names *names;
	struct addr_host host;
	struct resolver *resolver;
	struct tls *tls; /* authority, leaf certificates, upstream context */
	struct dns *dns;
	struct flow *flows; /* all open ones, doubly linked */
	size_t flows_n;
	size_t flows_max; /* FLOWS_MAX, or fewer where descriptors are few; 0 counts as FLOWS_MAX */
	size_t flows_peak; /* since memory was last given back */
	struct netlog *netlog;
	struct usage *usage; /* per rule: rate, bytes, uses; survives generations by rule name */
	struct asks *asks;
	struct http_pool *pool;               /* idle upstream connections */
	struct placeholder_set *placeholders; /* of this run's secrets; NULL: there are none */
	struct listener *listeners;
	struct splice_pool *pipes;
	struct watch control_watch;
	struct outbox *outbox; /* messages that the supervisor had no room for yet */
	uint64_t flow_id;      /* the last one given */
	uint64_t used_ms;      /* when there was work last */
	struct rest *rest;     /* NULL: it stays until the end */
	bool ending;
};

struct generation *generation_hold(struct generation *g);
void generation_drop(struct generation *g);
/* After a flow ended: free generations that nobody can point into any more. */
void generation_sweep(struct gateway *g);

/* Say it to the supervisor: now, or when it has room; false when too much waits already. */
bool gateway_tell(struct gateway *g, struct gateway_msg *m);
/* A degradation for the receipt. */
void gateway_note(struct gateway *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Everything, from CONFIG to DONE. 0, or -errno with e. */
int gateway_run(int control, struct err *e);

#endif
