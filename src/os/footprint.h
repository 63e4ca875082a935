/* SPDX-License-Identifier: Apache-2.0 */
/* What a directory tree takes of its file system, walked by descriptor and never through a symlink. */
#ifndef CROFT_OS_FOOTPRINT_H
#define CROFT_OS_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>

#define FOOTPRINT_DEPTH_MAX 256

struct footprint {
	uint64_t
		used_b; /* blocks, so a hole counts as nothing; a file with more names counts once */
	bool hidden;    /* a directory could not be listed, or lay too deep */
};

/* Adds the tree behind `fd` to *f, and stops early once it is beyond enough_b. */
void footprint_add(struct footprint *f, int fd, uint64_t enough_b);

#endif
