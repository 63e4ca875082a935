/* SPDX-License-Identifier: Apache-2.0 */
/* Where on this machine a cgroup can be made: hierarchies, mounts, our own place in them. */
#ifndef CROFT_OS_CGROUP_PLACE_H
#define CROFT_OS_CGROUP_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "os/cgroup.h"

/* A directory below which a group for these controllers goes. */
struct cgroup_place {
	int fd; /* O_PATH */
	bool v2;
	bool threaded; /* the group is to be a threaded one of v2 */
	unsigned has;  /* enum cgroup_has: enabled for children here */
};

/*
 * Places for the controllers in `want`, each fd owned by the caller; with want == 0 the one place
 * where a bare group is cheapest. Returns how many; what is missing, and the fix, goes to `why`.
 */
size_t cgroup_places(
	unsigned want, struct cgroup_place ret[CGROUP_DIRS_MAX], char *why, size_t size);

#endif
