/* SPDX-License-Identifier: Apache-2.0 */
/* Reclaiming what is provably of no use: see env_gc.c. */
#ifndef CROFT_ENV_ENV_GC_H
#define CROFT_ENV_ENV_GC_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "env/env_gc_store.h"

struct env;

struct gc_report {
	struct strlist envs; /* removed: landed, or discarded long enough ago */
	uint64_t layers, bases, leftovers;
	struct gc_objects objects; /* of the stores */
};

void gc_report_done(struct gc_report *r);
/* runs: staged runs that left nothing which could land, too; without it only after a week. */
int env_gc(struct gc_report *ret, bool dry_run, bool runs, struct err *e);
/* Seconds since it was made; 0 when its record does not say. */
long long env_age_s(const struct env *v);

#endif
