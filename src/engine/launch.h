/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a sandbox's first process in new namespaces (or none). */
#ifndef CROFT_ENGINE_LAUNCH_H
#define CROFT_ENGINE_LAUNCH_H

#include <sched.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/init.h"

/* in: plan, request, setup, scratch filled; the rest is filled here. Runs init_main in the child. */
int launch(struct sandbox *s, struct init *in, uint64_t ns_flags, int cgroup_fd, struct err *e);

#endif
