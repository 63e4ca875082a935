/* SPDX-License-Identifier: Apache-2.0 */
/* What cgroup.c and cgroup_part.c share. */
#ifndef CROFT_OS_CGROUP_IMPL_H
#define CROFT_OS_CGROUP_IMPL_H

#include "os/cgroup.h"
#include "os/cgroup_place.h"

/* Which controllers these limits need: enum cgroup_has. */
unsigned cgroup_wanted(const struct cgroup_limits *l);
/*
 * Begin: a name, or -EINVAL for an id that none can be made of. 1: cgroups are switched off for a test, and
 * c->why says so.
 */
int cgroup_begin(struct cgroup *c, const char *id, struct err *e);
/* Make c's groups in these n places, whose descriptors it takes; now and then reap stale neighbours. */
void cgroup_make_in(
	struct cgroup *c, struct cgroup_place *place, size_t n, const struct cgroup_limits *l);

#endif
