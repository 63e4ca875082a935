/* SPDX-License-Identifier: Apache-2.0 */
/* New processes in new namespaces, and the identity maps that make them usable. */
#ifndef CROFT_OS_SPAWN_H
#define CROFT_OS_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct spawned {
	pid_t pid;
	int pidfd;         /* -1 when the kernel gives none */
	uint64_t ns_flags; /* CLONE_NEW* really used */
	int in_cgroup;     /* born in the cgroup asked for */
};

/*
 * Fork into new namespaces. Returns 0 in the child, 1 in the parent, -errno on failure. clone3 where
 * the kernel has it; plain clone otherwise (then without a time namespace and cgroup placement).
 */
int spawn_in_namespaces(struct spawned *ret, uint64_t ns_flags, int cgroup_fd, struct err *e);

/* In the child: map our own uid and gid to themselves and nothing else. */
int spawn_map_self(uid_t uid, gid_t gid, struct err *e);

/* Bring up the loopback interface of this network namespace. */
int loopback_up(struct err *e);

#endif
