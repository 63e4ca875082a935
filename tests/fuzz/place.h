/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a fuzz target's own, made once and removed at the end, for parsers that read files. */
#ifndef CROFT_FUZZ_PLACE_H
#define CROFT_FUZZ_PLACE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "must.h"
#include "os/path.h"
#include "os/tree.h"

static char place_dir[64];

static void place_remove(void)
{
	tree_remove_at(AT_FDCWD, place_dir);
}

/* Its descriptor; the same at each call. */
static int place_fd(void)
{
	static int fd = -1;

	if (fd >= 0)
		return fd;
	snprintf(place_dir, sizeof(place_dir), "/tmp/croft-fuzz-XXXXXX");
	MUST(mkdtemp(place_dir));
	fd = open(place_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0 && atexit(place_remove) == 0);
	return fd;
}

/* A file there, of exactly these bytes. */
static inline void place_write(const char *name, const struct buf *b)
{
	cleanup_fd int fd =
		openat(place_fd(), name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	MUST(!b->failed && fd >= 0 && fd_write_all(fd, buf_str(b), b->len) == 0);
}

#endif
