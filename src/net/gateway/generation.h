/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generations of the policy.
 *
 * A flow goes on under the newest generation, but what it began under an older one (a verdict's
 * rule, an exchange) may still be pointed to. So a generation stays in memory until every flow that
 * was accepted before its successor came has ended, GENERATIONS_MAX of them at most.
 */
#ifndef CROFT_NET_GATEWAY_GENERATION_H
#define CROFT_NET_GATEWAY_GENERATION_H

#include "net/gateway/gateway.h"

#define GENERATION_TEXT_MAX_B (16u << 20)

/* Read and parse the policy text in fd. One reference, the caller's. */
int generation_load(struct generation **ret, int fd, uint32_t number, struct err *e);
/* From now on this one, whose reference it takes; what it does not allow is reset. */
void generation_begin(struct gateway *g, struct generation *gen);
/* Every one. */
void generation_end(struct gateway *g);

#endif
