/* SPDX-License-Identifier: Apache-2.0 */
/* Reclaiming what is provably of no use: see env_gc.c. */
#ifndef CROFT_CORE_ENV_GC_H
#define CROFT_CORE_ENV_GC_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/env_gc_store.h"

struct gc_report {
	struct strlist envs; /* removed: landed, or discarded long enough ago */
	uint64_t layers, bases, leftovers;
	struct gc_objects objects; /* of the stores */
};

void gc_report_done(struct gc_report *r);
int env_gc(struct gc_report *ret, bool dry_run, struct err *e);

#endif
