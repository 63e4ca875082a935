/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchers of one sandbox, as whoever supervises it serves them: observer, broker's notices, decoys,
 * traps, the guard of protections, the gateway, and questions from outside.
 *
 * Order:   watch_init() before the sandbox is READY -> watch_ready() at READY, before GO -> watch_go() after
 *          it -> watch_fds(), poll, watch_handle() in the loop -> watch_traps() and watch_end() when the
 *          sandbox is over -> watch_done() on every path.
 * Trust:   what comes from inside is checked and bounded; everything seen goes to the record (whose tap may
 *          say whose it is).
 */
#ifndef CROFT_SESSION_RUN_WATCH_H
#define CROFT_SESSION_RUN_WATCH_H

#include <poll.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "engine/plan/decoys.h"
#include "os/fuse.h"
#include "session/net/live.h"
#include "session/net/network.h"
#include "session/net/prompt.h"
#include "session/run/guard.h"
#include "session/run/observe.h"
#include "session/run/record.h"

#define WATCH_FDS_MAX (6 + NETWORK_FDS_MAX)

struct watchers {
	/* Set before watch_init(). */
	struct sandbox *sandbox;
	const struct plan *plan;
	struct network *network;
	struct record *record;
	const char *workspace;
	const char *const *scratch; /* trees of the sandbox's own; NULL-terminated */
	bool pid_namespace;         /* the sandbox ends with its first process */
	/* Its own. */
	struct observer observer;
	int observed; /* what it tells once it is apart; -1 before, and after its end */
	struct decoyfs decoyfs;
	struct decoy_slots slots;
	struct guard guard;
	struct live live;
	struct prompt prompt;
	int net_n; /* of the descriptors of the last watch_fds() */
};

void watch_init(struct watchers *w);
/* From here on every replacement of what is protected is seen, and there was none before. */
int watch_ready(struct watchers *w, struct err *e);
/* GO was said. `terminal`: somebody sits there who can be asked. Nobody waits for this. */
void watch_go(struct watchers *w, bool terminal);
int watch_fds(struct watchers *w, struct pollfd p[WATCH_FDS_MAX]);
/* True when the guard has to be asked: something that is protected may have been replaced. */
bool watch_handle(struct watchers *w, const struct pollfd *p);
/* What traps tell, once: when no command can follow one any more. */
void watch_traps(struct watchers *w);
/* The sandbox is gone: hear what its watchers have to say. */
void watch_end(struct watchers *w);
void watch_done(struct watchers *w);

#endif
