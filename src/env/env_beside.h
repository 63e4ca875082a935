/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Working on an environment that is up: its session lends the lock (env_up.h) for as long as the connection
 * is there.
 */
#ifndef CROFT_ENV_ENV_BESIDE_H
#define CROFT_ENV_ENV_BESIDE_H

#include "env/env.h"

/* Ask whoever is up to lend its lock: 1 and v->beside_fd is the connection, 0 nothing is up, -errno. */
int env_beside(struct env *v, const char *name, struct err *e);

/*
 * For readers of the ledger, who need no lock: have a session that is up put there what it has recorded until
 * now. 0 as well when nothing is up.
 */
int env_beside_seal(const struct env *v, const char *name, struct err *e);

/*
 * With beside_fd: everything in the sandbox stands still, and nobody else is heard, until it is released or
 * the connection ends.
 */
int env_beside_hold(struct env *v, struct err *e);
int env_beside_release(struct env *v, struct err *e);

#endif
