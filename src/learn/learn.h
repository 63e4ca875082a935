/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deriving a policy from what a command did inside the boundary.
 *
 * Purpose: run observed, then say which grants were never used (they can be denied) and which
 *          refused paths were asked for (they could be granted); the same for the network, see
 *          learn_net.h. It proposes; it applies nothing.
 * Trust:   the command chooses what it asks for, so well-known secrets and croft's own floor are
 *          named but never proposed, however often they were asked for; neither is a path that
 *          would mean something else in a policy file.
 * Order:   learn_init() -> learn_notice() while it runs -> learn_network() when it has ended ->
 *          learn_diff(), learn_json() -> learn_done().
 */
#ifndef CROFT_LEARN_LEARN_H
#define CROFT_LEARN_LEARN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "learn/learn_net.h"
#include "session/run/receipt.h"
#include "engine/notice.h"
#include "policy/policy.h"

#define LEARN_PATHS_MAX 4096

struct learn_path {
	char *path;
	bool write;
	bool secret; /* refused and not to be proposed */
	bool odd;    /* cannot be written as a plain path */
	uint64_t count;
};

struct learn {
	const struct policy *policy;
	const char *home, *workspace;
	uint64_t *used; /* per policy rule */
	struct learn_path *wanted;
	size_t wanted_n;
	uint64_t lost;
	uint64_t seen;
	struct learn_net net;
};

int learn_init(struct learn *l, const struct policy *p, const char *home, const char *workspace);
void learn_done(struct learn *l);
void learn_notice(void *arg, const struct notice *n); /* struct run_request.tap */
/* After the run: its receipt, and its journal if there is one. */
void learn_network(struct learn *l, const struct receipt *r);
void learn_diff(const struct learn *l, struct buf *out);
void learn_json(const struct learn *l, struct buf *out);

#endif
