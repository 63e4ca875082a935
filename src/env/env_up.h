/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An environment that is up: its sandbox stays, and any number of commands run in it (session/serve).
 *
 * Holds:   this process has the write lock for as long as it is up. Whoever reviews or lands
 *          meanwhile asks it over the socket to hold still: it writes down what it knows, lets the
 *          lock go, and takes it again when they are done (env_beside.h).
 * Records: each command in the session's journal before it is answered, sealed in batches
 *          (session_journal.h).
 */
#ifndef CROFT_ENV_ENV_UP_H
#define CROFT_ENV_ENV_UP_H

#include "env/env_exec.h"
#include "session/serve/serve.h"

struct env_up {
	struct policy *policy;
	const char *cwd;
	const char *const *words; /* options of the boundary, for lists; NULL: none */
	bool allow_degraded;
	uint64_t linger_ms, lifetime_ms, idle_ms; /* UINT64_MAX: none */
	int holder; /* the starter's connection, or -1: see session_options */
	bool held;
	bool *ret_holder_waits;
};

/* v holds the write lock. Returns when it is down: 0, or -errno when it could not get up. */
int env_up(struct env *v, const struct env_up *u, struct receipt *r, struct err *e);

/* Is its session up now? v is attached, or has at least its record. */
bool env_is_up(const struct env *v);

#endif
