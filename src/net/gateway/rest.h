/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway without work goes, and another takes its place when there is some again.
 *
 * Purpose: a sandbox that has used the network and is quiet now costs no process. What was promised to it
 *          stays: addresses that stand for names, what is left of limits, answers that last.
 * Order:   no connection, no question and nothing to say for rest_ms -> stop listening -> state written ->
 *          sums and REST told. From there on nothing is done but to hear the supervisor: it ends this
 *          process, or what it said in between makes it listen again (ipc/gateway_message.h).
 * Trust:   the state is what a process that parses hostile bytes has written. It is read strictly, by
 *          the next such process, and gives it nothing that the one before did not have.
 * Failure: a state that cannot be written: no rest. One that cannot be read: no gateway, no network.
 */
#ifndef CROFT_NET_GATEWAY_REST_H
#define CROFT_NET_GATEWAY_REST_H

#include "net/gateway/gateway.h"

#define REST_MS_MIN 100u

struct rest;
/* state is the new object's from here on. idle_ms 0, or no state: it never rests, and *ret is NULL. */
int rest_new(struct rest **ret, struct gateway *g, int state, uint64_t idle_ms, struct err *e);
void rest_free(struct rest *r);
/* Take over what the gateway before this one left. */
int rest_load(struct rest *r, struct err *e);
int rest_begin(struct rest *r, struct err *e); /* from now on it may come to rest */
void rest_heard(struct rest *r);               /* a message of the supervisor */

#endif
