/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of files that probes attack, and the look whether it is as it was. */
#ifndef CROFT_PROVE_BAIT_H
#define CROFT_PROVE_BAIT_H

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

#define BAIT_PRINT_MAX (256u << 10)

struct bait {
	char dir[64];
};

/*
 * Make the tree: outside/ (never granted), home/ (HOME of the run), run/ (sockets) and work/ (the
 * workspace, with things in it that the policy of a run denies or makes read-only; see bait_rules).
 */
int bait_lay(struct bait *b, const char *token, struct err *e);
void bait_remove(struct bait *b);
/* One line per protected object with everything that an attack could change. */
void bait_print(const struct bait *b, struct buf *out);
/* Say which lines differ, by their path. */
void bait_compare(const struct buf *before, const struct buf *now, FILE *out);

/* Paths below the tree that a run must deny, and grant for reading only; ended by NULL. */
extern const char *const bait_denied[];
extern const char *const bait_readonly[];

#endif
