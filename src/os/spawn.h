/* SPDX-License-Identifier: Apache-2.0 */
/* New processes in new namespaces, and the identity maps that make them usable. */
#ifndef CROFT_OS_SPAWN_H
#define CROFT_OS_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
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

/* The ids of a user namespace: line by line as in /proc/PID/uid_map and gid_map. */
#define ID_LINES_MAX 8

struct id_line {
	uint32_t inside, outside, count;
};

struct id_map {
	struct id_line uid[ID_LINES_MAX], gid[ID_LINES_MAX];
	size_t uid_n, gid_n;
	bool setgroups; /* the groups may be changed inside */
};

/* This uid and gid, as themselves, and nothing else. */
struct id_map id_map_one(uid_t uid, gid_t gid);
/* In the child: write the map of its user namespace. The kernel lets it map only what it may itself. */
int spawn_map(const struct id_map *m, struct err *e);
/* The same for id_map_one(). */
int spawn_map_self(uid_t uid, gid_t gid, struct err *e);

/* Bring up the loopback interface of this network namespace. */
int loopback_up(struct err *e);

#endif
