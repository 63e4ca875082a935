/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was used of each rule's limits. Kept by the rule's name for as long as the sandbox lives, so
 * that a new generation does not fill a bucket again.
 *
 * Rate: a token bucket that holds a minute's worth, at least ten and never more than the rule gives
 *       in its 1000 seconds, so that "30/h" allows a few at once and "60/m" a busy minute.
 */
#ifndef CROFT_NET_GATEWAY_USAGE_H
#define CROFT_NET_GATEWAY_USAGE_H

#include "base/pack.h"
#include "net/gateway/flow.h"

#define USAGE_RULES_MAX 8192
#define USAGE_NAME_MAX 65536 /* of a rule's name */

struct usage;
struct usage *usage_new(void);
void usage_free(struct usage *u);

/* As usage_take() and usage_bytes(), with the clocks given. */
bool usage_take_at(struct usage *u, const struct net_rule *r, uint64_t now_ms, int64_t unix_s,
	struct net_verdict *ret);
bool usage_bytes_at(struct usage *u, const struct net_rule *r, uint64_t up_b, uint64_t down_b);
/* All of it as bytes, and back into a new one: false when they make no sense. */
void usage_pack(const struct usage *u, struct buf *out);
bool usage_unpack(struct usage *u, struct unpack *from);

#endif
