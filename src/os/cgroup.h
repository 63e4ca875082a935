/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cgroup per sandbox, wherever this machine lets us make one: v2, v1, or the hybrid of both.
 *
 * Order:   cgroup_make() (supervisor, in parallel with the sandbox's own set-up) -> cgroup_enter(pid)
 *          before untrusted code runs -> cgroup_usage() -> cgroup_kill() -> cgroup_remove().
 * Failure: what cannot be limited is left out of `has` and named in `why`; the caller falls back to
 *          rlimits and records it. Nothing is left behind on any path.
 */
#ifndef CROFT_OS_CGROUP_H
#define CROFT_OS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2, CGROUP_HYBRID, CGROUP_KIND_NUM };
extern const char *const cgroup_kind_names[CGROUP_KIND_NUM]; /* "none" "v1" "v2" "hybrid" */

enum cgroup_has { CGROUP_HAS_MEMORY = 1, CGROUP_HAS_CPU = 2, CGROUP_HAS_PIDS = 4 };

struct cgroup_limits { /* UINT64_MAX: none */
	uint64_t memory_b;
	uint64_t cpu_milli;
	uint64_t pids;
};

struct cgroup_usage {
	uint64_t memory_peak_b; /* 0: unknown */
	uint64_t oom_kills;
	uint64_t pids_refused;
	uint64_t cpu_us;
};

#define CGROUP_DIRS_MAX 4

struct cgroup {
	enum cgroup_kind kind;
	unsigned has;
	int dir_fd[CGROUP_DIRS_MAX];   /* our own group in each hierarchy, -1 unused */
	int parent_fd[CGROUP_DIRS_MAX];
	unsigned dir_has[CGROUP_DIRS_MAX];
	bool dir_v2[CGROUP_DIRS_MAX];
	char name[64];
	char why[256]; /* what is missing and the fix, for the receipt */
};

#define CGROUP_INIT ((struct cgroup){.dir_fd = {-1, -1, -1, -1}, .parent_fd = {-1, -1, -1, -1}})

int cgroup_make(struct cgroup *c, const char *id, const struct cgroup_limits *l, struct err *e);
int cgroup_enter(struct cgroup *c, pid_t pid, struct err *e);
/* fd usable with CLONE_INTO_CGROUP, or -1. */
int cgroup_clone_fd(const struct cgroup *c);
void cgroup_usage(const struct cgroup *c, struct cgroup_usage *ret);
/* Kill every member (cgroup.kill, or freeze and signal); returns when none is left. */
void cgroup_kill(struct cgroup *c);
/* Remove the group; retries while the kernel still drains it. */
void cgroup_remove(struct cgroup *c);

#endif
