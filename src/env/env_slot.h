/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a staged run keeps what it needs: envs/.run-LAYER with one file, "lock", and the layer of that
 * name. Made once and used again by later runs as long as the layer is as it was made, for most commands
 * change nothing and making and removing directories is most of what staging costs.
 *
 * States: "lock" empty, nobody holds it: idle. Held: somebody's. Not empty, and nobody holds it: its
 *         supervisor was killed, and what it says is needed to find the work again.
 * Order:  held -> written, before the command exists -> emptied, once nothing is left of the command ->
 *         let go. A text that was cut short was written for a command that never existed.
 */
#ifndef CROFT_ENV_ENV_SLOT_H
#define CROFT_ENV_ENV_SLOT_H

#include "env/env.h"

#define ENV_SLOTS_SPREAD 8 /* so many are made before one is used again: see spread_layers() */
#define ENV_SLOTS_MAX 16   /* kept for later; more run at a time all the same */

struct env_slot {
	struct timespec changed; /* the layer's directory when it was taken */
	bool spare;              /* may be kept */
};

/* v: state_dir and id are set. Sets dir, dir_fd, lock_fd and the one layer. */
int env_slot_take(struct env_slot *ret, struct env *v, struct err *e);
/* Back for the next run if its layer is as it was. False: it is not, and is still held. */
bool env_slot_reuse(const struct env_slot *s, struct env *v);
/* The same, or removed. */
void env_slot_return(const struct env_slot *s, struct env *v);
/* Removed, with its layer. */
void env_slot_remove(struct env *v);

#endif
