/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy for one run on this machine now: rules that hold only if their path is present are kept or
 * dropped, and croft's own programs, names that run on the host and sockets of its services are held.
 */
#ifndef CROFT_SESSION_RUN_SETTLE_H
#define CROFT_SESSION_RUN_SETTLE_H

#include "session/run/run.h"

/* *ret shares the memory of q->policy. *ret_hold: names that run on the host need a broker. */
int settle(struct policy *ret, bool *ret_hold, const struct run_request *q, struct err *e);

#endif
