/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger knows of an environment, for whoever judges its changes: tests, denials, network,
 * degradations, commands; the most telling first, and no more than a screen or two.
 */
#ifndef CROFT_REVIEW_REVIEW_CONTEXT_H
#define CROFT_REVIEW_REVIEW_CONTEXT_H

#include "env/env.h"

struct deeds {
	size_t commands, failed, interrupted;
	size_t denials; /* distinct, with those that receipts did not keep */
	size_t tests;
	bool tested, passed; /* the last one marked as a test */
	uint64_t wall_us;    /* of all commands together */
};

/* Totals, and (out not NULL) the lines. An environment without events has none of either. */
int review_context(struct env *v, struct deeds *ret, struct buf *out, struct err *e);

#endif
