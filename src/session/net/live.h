/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to a running supervisor: what waits for a decision, the decision, a new network policy.
 *
 * Each run with a network listens on $XDG_STATE_HOME/croft/live/RUN, a SOCK_SEQPACKET that only its
 * user can reach and no sandbox ever sees (the state directory is on the floor). One request, one
 * answer, then it is closed.
 * Limits: a request is at most LIVE_REQUEST_MAX bytes, an answer LIVE_ANSWER_MAX; nobody is waited
 *         for.
 */
#ifndef CROFT_SESSION_NET_LIVE_H
#define CROFT_SESSION_NET_LIVE_H

#include "base/buf.h"
#include "base/err.h"
#include "session/net/network.h"

#define LIVE_REQUEST_MAX (2u << 20)
#define LIVE_ANSWER_MAX (256u << 10)

/* ---- the supervisor's side ---- */

struct live {
	int fd; /* listening */
	int dir;
	char name[48]; /* in it, to be removed */
};
#define LIVE_INIT ((struct live){.fd = -1, .dir = -1})

/* Failing is not fatal: the run cannot be talked to, and that is noted. */
int live_open(struct live *l, const char *home, const char *run_id, struct err *e);
void live_serve(struct live *l, struct network *n); /* one waiting request */
void live_close(struct live *l);

/* ---- the caller's side ---- */

/* Everything that waits for a decision in any run of this user's. */
int live_pending(const char *home, bool as_json, struct buf *out, struct err *e);
/* id: "RUN.N" as pending prints it. for_ms 0: this once. */
int live_decide(
	const char *home, const char *id, enum net_effect effect, uint64_t for_ms, struct err *e);
int live_set_policy(
	const char *home, const char *run_id, const struct net_policy *p, struct err *e);

#endif
