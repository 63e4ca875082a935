/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a sandbox's first process in new namespaces (or none). */
#ifndef CROFT_ENGINE_BOX_LAUNCH_H
#define CROFT_ENGINE_BOX_LAUNCH_H

#include <sched.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/init/init.h"

/* in: plan, request, setup, scratch filled; the rest is filled here. Runs init_main in the child. */
/* With in->waits it only begins: launch_hand_over() gives it the rest. */
int launch(struct sandbox *s, struct init *in, uint64_t ns_flags, int cgroup_fd, struct err *e);
/* The plan, to a sandbox that waits for it. -ENOTSUP: it cannot be handed over, and waits still. */
int launch_hand_over(struct sandbox *s, const struct plan *p, const struct request *r, struct err *e);

#endif
