/* SPDX-License-Identifier: Apache-2.0 */
/* Well-known paths that honest work does not need and attackers look for first. */
#ifndef CROFT_ENGINE_DECOYS_H
#define CROFT_ENGINE_DECOYS_H

#include <stddef.h>

#include "engine/plan.h"
#include "os/fuse.h"

struct decoy_path {
	const char *path; /* "~/x" or absolute */
	enum decoy_kind kind;
};

extern const struct decoy_path decoy_paths[];
extern const size_t decoy_paths_n;

#define DECOYS_MAX 64

/* The decoys of a plan, in slot order: dst of each PLAN_DECOY op. */
struct decoy_slots {
	size_t n;
	const char *path[DECOYS_MAX];
	enum decoy_kind kind[DECOYS_MAX];
};
void decoy_slots(struct decoy_slots *ret, const struct plan *p);

#endif
