/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protections that sit on an object of the host's and go when the host replaces it.
 *
 * Purpose: a read-only bind or a mask inside a granted tree is a mount on a directory entry. When somebody
 *          on the host renames or removes that entry, and makes another of the same name, the new one has
 *          no mount: what was denied can be read, what was read-only can be written. Where a broker judges
 *          by name this does not matter; elsewhere the supervisor watches, and ends the run.
 * Means:   dnotify, whose signal is SIGIO (blocked by signals_take()). Closing an inotify descriptor waits
 *          for the kernel's grace period, some 15 ms at the end of every run; this does not.
 * Order:   watches are placed before GO, then everything is compared with what the plan saw; each event
 *          compares again, and so does the end.
 * Limits:  between the host's change and the kill there is a window, of some ten microseconds when the
 *          supervisor is idle. A network file system tells nothing of changes made elsewhere: then only
 *          the comparison at the end finds them. Names that a pattern denies in a readable tree are not
 *          watched.
 */
#ifndef CROFT_SESSION_RUN_GUARD_H
#define CROFT_SESSION_RUN_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/plan/plan.h"

struct guard_name {
	const char *path; /* the plan's */
	size_t root_len;  /* as much of it as the tree spells that shows it */
	dev_t dev;
	ino_t ino; /* 0: it must stay absent */
};

#define GUARD_DIRS_MAX 128

struct guard_dir {
	int fd; /* keeps the watch */
	dev_t dev;
	ino_t ino;
};

struct guard {
	int fd; /* tells of SIGIO; -1: there is nothing to watch, or it cannot be watched */
	struct guard_name *v;
	size_t n;
	struct guard_dir dirs[GUARD_DIRS_MAX];
	size_t dirs_n;
	bool unwatched; /* only compared before and after */
};

#define GUARD_INIT ((struct guard){.fd = -1})

int guard_open(struct guard *g, const struct plan *p, struct err *e);
void guard_done(struct guard *g);
/* Take what happened. Then, or at any time: the first name that is not what it was, or NULL. */
void guard_drain(struct guard *g);
const char *guard_broken(struct guard *g);

#endif
