/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that are given secrets, and those that were before in this run. All of their answers come
 * by the keeper, on whatever port and path: a server may tell anywhere what it was told somewhere.
 */
#ifndef CROFT_NET_REACH_RECEIVERS_H
#define CROFT_NET_REACH_RECEIVERS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/net/net.h"

#define RECEIVERS_MAX 256u

struct receivers {
	char *v[RECEIVERS_MAX]; /* as the policy has them: patterns */
	size_t n;
	bool all; /* there was no room, or no memory: every host counts as one */
};

void receivers_done(struct receivers *r);
void receivers_add(struct receivers *r, const struct net_policy *p);
bool receivers_has(const struct receivers *r, const char *host);

#endif
