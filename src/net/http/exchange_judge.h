/* SPDX-License-Identifier: Apache-2.0 */
/* The judgements about one exchange: see exchange.h for their order. Used by exchange.c only. */
#ifndef CROFT_NET_HTTP_EXCHANGE_JUDGE_H
#define CROFT_NET_HTTP_EXCHANGE_JUDGE_H

#include "net/http/exchange.h"

/* 0: it may go on. Otherwise the status to refuse with; x->verdict says why. */
unsigned judge_authority(struct exchange *x);
/* Asks policy; x->verdict.effect may be NET_ASK. */
unsigned judge_request(struct exchange *x);
/* After the verdict: limits, upgrade, placeholders in the head, secrets. */
unsigned judge_grant(struct exchange *x);
/* Bytes of the request body, before they go on. */
unsigned judge_body(struct exchange *x, const char *p, size_t n);
/* The question, with what is known of a push. */
void judge_question(const struct exchange *x, struct net_request *ret);
bool judge_is_push(const struct exchange *x);

#endif
