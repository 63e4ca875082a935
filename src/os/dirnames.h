/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names in a directory, without what opendir() adds to it: for walks of whole trees, four system calls
 * a directory instead of nine, and no memory.
 */
#ifndef CROFT_OS_DIRNAMES_H
#define CROFT_OS_DIRNAMES_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#define DIRNAMES_BUFFER_B 8192

struct dirnames {
	int fd;
	bool failed; /* not all of it could be read */
	size_t at, n;
	_Alignas(struct dirent) char buffer[DIRNAMES_BUFFER_B];
};

/* Takes fd, a directory opened for reading and not read from yet; below 0: a listing of nothing. */
void dirnames_init(struct dirnames *l, int fd);
/* NULL at the end, or when it failed. "." and ".." are left out. Good until the next call. */
const struct dirent *dirnames_next(struct dirnames *l);
void dirnames_done(struct dirnames *l);

#define cleanup_dirnames __attribute__((cleanup(dirnames_done)))

#endif
