/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that only a person can answer: see flow.h for ask_start().
 *
 * Limits:  ASKS_MAX questions wait at once, others are denied. Equal ones about connections share
 *          an answer; requests never do, since what differs (query, body) is not in the question.
 *          An answer that is to last is remembered for (host, port), ASK_ANSWERS_MAX of
 *          them.
 */
#ifndef CROFT_NET_GATEWAY_ASK_H
#define CROFT_NET_GATEWAY_ASK_H

#include "base/pack.h"
#include "net/gateway/flow.h"

#define ASKS_MAX 64
#define ASK_ANSWERS_MAX 256

struct asks;
struct asks *asks_new(struct gateway *g);
void asks_free(struct asks *a);
/* The supervisor's VERDICT. Unknown ids are ignored: the question timed out. */
void asks_verdict(struct asks *a, uint64_t id, enum net_effect e, uint64_t for_ms);
bool asks_waiting(const struct asks *a); /* a question is out */
/*
 * The answers that last, and the last number, as bytes; back into a new one: false when they make no
 * sense.
 */
void asks_pack(const struct asks *a, struct buf *out);
bool asks_unpack(struct asks *a, struct unpack *u);

#endif
