/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cgroup per sandbox, wherever this machine lets us make one: v2, v1, or the hybrid of both.
 *
 * Order:   cgroup_make() (supervisor, in parallel with the sandbox's own set-up) -> the sandbox's
 * first process enters before untrusted code runs -> cgroup_usage() -> cgroup_kill() ->
 *          cgroup_remove().
 * Entering: moving another process makes the kernel wait for an RCU grace period, 10 ms and more on
 * an idle machine. Two ways do not: being born inside (cgroup_clone_fd(), v2 only), and a process
 * of one thread moving itself (cgroup_join_fds() in the supervisor, the descriptors passed on,
 * cgroup_join() in the process). cgroup_enter() is the slow way that always works. Failure: what
 * cannot be limited is left out of `has` and named in `why`; the caller falls back to rlimits and
 * records it. Nothing is left behind on any path.
 */
#ifndef CROFT_OS_CGROUP_H
#define CROFT_OS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* What our groups are made of: HYBRID has some in v1 and one in v2. */
enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2, CGROUP_HYBRID, CGROUP_KIND_NUM };
extern const char *const cgroup_kind_names[CGROUP_KIND_NUM]; /* "none" "v1" "v2" "hybrid" */

enum cgroup_has { CGROUP_HAS_MEMORY = 1, CGROUP_HAS_CPU = 2, CGROUP_HAS_PIDS = 4 };

struct cgroup_limits { /* UINT64_MAX: none */
	uint64_t memory_b;
	uint64_t cpu_milli;
	uint64_t pids;
};

struct cgroup_hits { /* how often since it was made */
	uint64_t oom_kills;
	uint64_t pids_refused;
};

struct cgroup_usage {
	uint64_t memory_peak_b; /* 0: unknown */
	struct cgroup_hits hits;
	uint64_t cpu_us; /* 0: unknown */
};

#define CGROUP_DIRS_MAX 4
#define CGROUP_COMMANDS "commands" /* below ours, in v2: one group per command (os/freezer.h) */
#define CGROUP_ID_MAX 24 /* characters of an id: letters, digits, '-', '_', '.' */

struct cgroup {
	enum cgroup_kind kind;
	unsigned has;
	int dir_fd[CGROUP_DIRS_MAX]; /* our own group in each hierarchy, -1 unused */
	int parent_fd[CGROUP_DIRS_MAX];
	unsigned dir_has[CGROUP_DIRS_MAX];
	bool dir_v2[CGROUP_DIRS_MAX];
	bool threaded; /* cgroup_part() in v2: threads enter, and move nothing else */
	char name[64];
	char why[256]; /* what is missing and the fix, for the receipt */
};

#define CGROUP_INIT ((struct cgroup){.dir_fd = {-1, -1, -1, -1}, .parent_fd = {-1, -1, -1, -1}})

/*
 * Make groups for the limits that are set, in the hierarchies that have their controllers, below
 * the caller's own place; with no limit set, one group that makes kill complete. A machine without
 * a usable cgroup is not an error: kind is then CGROUP_NONE.
 */
int cgroup_make(struct cgroup *c, const char *id, const struct cgroup_limits *l, struct err *e);

/*
 * Groups for one of many commands in c, with smaller limits of its own: what enters them stays within c's
 * limits, too. The same calls serve for them; cgroup_kill(c) and cgroup_remove(c) reach them.
 *
 * v1: below c's group in each hierarchy that it has one in. For a controller that it has none of, a group
 *     beside c's is made in that hierarchy.
 * v2: a threaded group below `commands_fd` (os/freezer.h; -1: there is none). Memory cannot be had there:
 *     its controller gives nothing to threaded groups, and no other group may be below one with processes.
 */
int cgroup_part(struct cgroup *ret, const struct cgroup *c, int commands_fd, const char *id,
	const struct cgroup_limits *l, struct err *e);

/* Is the machine's cgroup tree the unified one (v2 alone)? */
bool cgroup_is_unified(void);
/* fd usable with CLONE_INTO_CGROUP, or -1; a process born there need not enter. */
int cgroup_clone_fd(const struct cgroup *c);
/* Close-on-exec descriptors for cgroup_join(); returns how many. The caller closes them. */
int cgroup_join_fds(const struct cgroup *c, int ret_fds[CGROUP_DIRS_MAX], struct err *e);
/* Move this process, which has one thread, into the groups behind the descriptors. */
int cgroup_join(const int *fds, size_t n, struct err *e);
int cgroup_enter(struct cgroup *c, pid_t pid, struct err *e);

void cgroup_usage(const struct cgroup *c, struct cgroup_usage *ret);
/* How often a limit of the group was reached. */
void cgroup_hits(const struct cgroup *c, struct cgroup_hits *ret);
/* Kill every member (cgroup.kill, or stop forks and signal); returns when none is left (or after 2
 * s). */
void cgroup_kill(struct cgroup *c);
/* Remove the group and those below it; retries while the kernel still drains it. */
void cgroup_remove(struct cgroup *c);
/* The same without waiting: false, and nothing is forgotten, while something is left in it. */
bool cgroup_try_remove(struct cgroup *c);

/*
 * Remove groups beside ours whose supervisor is gone (it was killed with SIGKILL), with whatever
 * still runs in them. cgroup_make() and cgroup_part() do it now and then, where there are neighbours at all.
 */
void cgroup_reap_stale(const struct cgroup *c);

#endif
