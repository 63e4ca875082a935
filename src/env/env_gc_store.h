/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting objects of the stores that nothing names: see env_gc_store.c. */
#ifndef CROFT_ENV_ENV_GC_STORE_H
#define CROFT_ENV_ENV_GC_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct gc_objects {
	uint64_t n, size_b;
	uint64_t left; /* stores in which nothing could be told apart, and nothing was removed */
};

/* Only for who has the lock of gc alone. grace_s: younger objects may be about to be named. */
int gc_stores(struct gc_objects *ret, const char *state, int64_t grace_s, bool dry_run,
	struct err *e);

#endif
