/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource limits of the process kind: what stands in where no cgroup can be had, and what only
 * rlimits can say. They hold per process (memory, descriptors, file size) or per user (processes).
 */
#ifndef CROFT_OS_RLIMIT_H
#define CROFT_OS_RLIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct rlimit_set {           /* UINT64_MAX: leave as it is */
	uint64_t memory_b;    /* RLIMIT_DATA: private writable memory of each process */
	uint64_t pids;        /* RLIMIT_NPROC: tasks of this user, see rlimit_own_tasks() */
	uint64_t open_files;  /* RLIMIT_NOFILE */
	uint64_t file_size_b; /* RLIMIT_FSIZE */
	uint64_t core_b;      /* RLIMIT_CORE: none, unless more is said */
};

/* What holds now at the asked value or a smaller one. `pids` is tried: the kernel spares root. */
struct rlimit_done {
	bool memory, pids, open_files, file_size, core;
};

/*
 * Apply to this process and what it starts, soft and hard, never above the present hard limit.
 * Call it last: RLIMIT_NPROC and RLIMIT_NOFILE also bind the caller.
 */
int rlimit_apply(const struct rlimit_set *l, struct rlimit_done *ret, struct err *e);

/*
 * How many tasks RLIMIT_NPROC counts now, this one included: threads of the same user, in the same user
 * namespace since Linux 5.14 and everywhere before. At most `slack` too many; means nothing for
 * root, whom the kernel spares. A few forks.
 */
uint64_t rlimit_own_tasks(uint64_t slack);

#endif
