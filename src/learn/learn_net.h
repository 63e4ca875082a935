/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command did with the network, and the narrowest rules that would have let it.
 *
 * Purpose: from the receipt (what was refused, which rules were used) and the journal (each
 *          request) to entries of `network.allow`: for what was refused, and in place of rules that
 *          allow more than was used. Rules that nobody used are named. Nothing is applied.
 * Trust:   both sources are claims of a process that parses hostile bytes, about what a command
 *          chose to ask for. Names, methods and paths must be canonical or are left out; what
 *          floor, ceiling or a deny forbids, addresses, and what a rule cannot say are named with
 *          the reason, never proposed. A rule is narrowed only when the journal has every request
 *          that the receipt counted.
 * Order:   learn_net_init() -> learn_net_receipt() -> learn_net_journal() -> learn_net_settle() ->
 *          learn_net_diff(), learn_net_json() -> learn_net_done().
 * Limits:  the maxima below; what does not fit is counted.
 */
#ifndef CROFT_LEARN_LEARN_NET_H
#define CROFT_LEARN_LEARN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "learn/learn_journal.h"
#include "learn/learn_paths.h"
#include "session/net/network.h"
#include "policy/net/net.h"

#define LEARN_ENTRIES_MAX 512u   /* host, port and rule */
#define LEARN_REFUSALS_MAX 256u  /* that are named */
#define LEARN_PROPOSALS_MAX 256u /* entries of the proposal */
#define LEARN_RULE_HOSTS_MAX 20u /* a pattern that stood for more hosts is left as it is */

struct learn_entry {
	char host[NET_NAME_MAX + 1];
	uint16_t port;
	enum net_mode mode;
	const struct net_rule *instead; /* used: the rule it could stand for; NULL: was refused */
	bool plaintext, private_ok;     /* as the rule that covers the host and refused it */
	bool guess;                     /* only the name was asked for */
	bool broken;                    /* not all of it could be kept */
	uint64_t count;                 /* refusals, or uses in the receipt */
	uint64_t kept;                  /* uses in the journal */
	struct learn_paths paths;       /* empty: not known, or nobody looked */
};

struct learn_refusal { /* refused, and not to be proposed */
	char *host, *method, *path, *why;
	uint16_t port;
	uint64_t count;
};

struct learn_proposal {
	size_t entry;
	struct strlist methods, paths;
	char *text; /* lines of a policy file, below `allow:` */
};

struct learn_net {
	const struct net_policy *policy;
	struct policy_context ctx;
	struct net_rule *trial; /* the policy's denies and, behind them, room for a candidate */
	size_t trial_n;
	bool *used; /* per rule of the policy */
	size_t rule_last;
	struct learn_entry *entries;
	size_t entries_n;
	struct learn_refusal *refusals;
	size_t refusals_n;
	struct learn_proposal *proposals;
	size_t proposals_n;
	struct strlist notes; /* what could not be learned, and why */
	struct learn_journal journal;
	const struct network *network; /* as long as learn_net_journal() needs it */
	bool counted;  /* the receipt is complete, so that a rule without use has none */
	uint64_t odd;  /* claims that make no sense */
	uint64_t lost; /* claims beyond the maxima */
};

/* p may be NULL. */
int learn_net_init(struct learn_net *n, const struct net_policy *p, const struct policy_context *c);
void learn_net_done(struct learn_net *n);
void learn_net_receipt(struct learn_net *n, const struct network *w);
void learn_net_journal(struct learn_net *n, int fd); /* -1: there is none */
void learn_net_settle(struct learn_net *n);
/* Lines of the proposed file ("+…") and comments ("#…"). */
void learn_net_diff(const struct learn_net *n, struct buf *out);
void learn_net_json(const struct learn_net *n, struct json *j, const char *key);

/* ---- between learn_net.c and learn_propose.c ---- */

void learn_net_refuse(struct learn_net *n, const struct learn_refusal *r);
/* The name of the bundle a rule comes from, or NULL. */
const char *learn_bundle(const struct net_rule *r);
/* Does the rule look at requests, and let every one pass? */
bool learn_broad(const struct net_rule *r);

#endif
