/* SPDX-License-Identifier: Apache-2.0 */
/* What a directory tree takes of its file system, walked by descriptor and never through a symlink. */
#ifndef CROFT_OS_FOOTPRINT_H
#define CROFT_OS_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FOOTPRINT_DEPTH_MAX 256

struct footprint {
	uint64_t
		used_b; /* blocks, so a hole counts as nothing; a file with more names counts once */
	bool hidden;    /* a directory could not be listed or lay too deep, or too much is open */
	uint64_t entries, entries_max; /* names that were looked at, and may be; 0: all of them */
	bool cut;                      /* there are more */
};

/* Adds the tree behind `fd` to *f; stops early beyond enough_b, or when it has looked at enough names. */
void footprint_add(struct footprint *f, int fd, uint64_t enough_b);

/*
 * What files take that have no name any more but are held open by `root` or a process below it, on
 * overlays (in the layers, that is). A file that is only mapped, or on its way through a socket, is not seen.
 */
#define FOOTPRINT_PIDS_MAX 4096
#define FOOTPRINT_OPEN_MAX 4096
void footprint_add_unnamed(struct footprint *f, pid_t root);

#endif
