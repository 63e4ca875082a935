/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound ownership: a variable that owns something says so in its declaration. */
#ifndef CROFT_BASE_CLEANUP_H
#define CROFT_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/banned.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

#define cleanup_free __attribute__((cleanup(cleanup_free_fn)))
#define cleanup_fd __attribute__((cleanup(cleanup_fd_fn)))
#define cleanup_dir __attribute__((cleanup(cleanup_dir_fn)))
#define cleanup_file __attribute__((cleanup(cleanup_file_fn)))

static inline void cleanup_free_fn(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_fd_fn(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_dir_fn(DIR **d)
{
	if (*d)
		closedir(*d);
}

static inline void cleanup_file_fn(FILE **f)
{
	if (*f)
		fclose(*f);
}

/* Give ownership away: returns the value and leaves the variable empty. */
static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

#define take_ptr(p)                                                                                \
	__extension__({                                                                            \
		__typeof__(p) take_v_ = (p);                                                       \
		(p) = NULL;                                                                        \
		take_v_;                                                                           \
	})

static inline void close_fd(int *fd)
{
	cleanup_fd_fn(fd);
	*fd = -1;
}

#endif
