/* SPDX-License-Identifier: Apache-2.0 */
/* Well-known paths that honest work does not need and attackers look for first. */
#ifndef CROFT_ENGINE_PLAN_DECOYS_H
#define CROFT_ENGINE_PLAN_DECOYS_H

#include <stddef.h>

#include "engine/plan/plan.h"
#include "os/fuse.h"

struct decoy_path {
	const char *path; /* "~/x" or absolute */
	enum decoy_kind kind;
	const char *const
		*names; /* DECOY_DIR: what is looked for in it; NULL-terminated, or NULL */
};

extern const struct decoy_path decoy_paths[];
extern const size_t decoy_paths_n;

#define DECOYS_MAX 128
#define DECOY_MASKS_MAX 64 /* denied paths inside grants that tell; what is beyond only refuses */
#define DECOY_DIR_INSIDE "/.croft/decoy"

/*
 * The decoys of a plan, in slot order: dst of each PLAN_DECOY op, whose mode is its place in the list, and
 * of each PLAN_MASK op that tells.
 */
struct decoy_slots {
	size_t n, masks_n;
	bool mask[DECOYS_MAX];
	const char *path[DECOYS_MAX];
	enum decoy_kind kind[DECOYS_MAX];
	const char *const *names[DECOYS_MAX];
};
void decoy_slots(struct decoy_slots *ret, const struct plan *p);
/* The slot of one op: set-up and supervisor count alike. -1: it has none. */
int decoy_slot_of(const struct decoy_slots *slots, const struct plan_op *op);

/*
 * Traps: decoys without FUSE. A trap is a symlink, and whoever follows it leaves the time in it, also when
 * what it leads to is refused. Slot N is the symlink N of the trap directory; for a DECOY_DIR it leads
 * to the directory N.d, where each well-known name is a trap of its own.
 */
#define TRAP_DIR "/.croft/trap"
#define TRAP_EMPTY_DIR "/.croft/empty" /* start-up files: slot N is the file N */
#define TRAP_SHUT_DIR "/.croft/shut"   /* what traps lead to: nobody may pass through it */
#define TRAP_ARMED_S 1                 /* access time of a trap that nobody has followed */
#define TRAP_NAME_MAX 64
void trap_name(char ret[TRAP_NAME_MAX], size_t slot, const char *name);
/* Write the name of something behind a trap as the command knows it. false: it is something else. */
bool trap_rename(const struct decoy_slots *slots, char *path, size_t size);
/* Which traps below `dir` were followed: each by itself, the names in a directory before the directory. */
void traps_read(int dir, const struct decoy_slots *slots,
	void (*touched)(void *arg, size_t slot, const char *name), void *arg);

#endif
