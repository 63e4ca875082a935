/* SPDX-License-Identifier: Apache-2.0 */
/* Directory trees that a sandbox wrote: walked and removed by descriptor, never through a symlink. */
#ifndef CROFT_OS_TREE_H
#define CROFT_OS_TREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define TREE_DEPTH_MAX 200

/* What is in this directory ("." : the one behind `at`), never through a symlink. NULL: see errno. */
DIR *dir_list(int at, const char *name);

/* Remove name and everything below it. 0, or the first -errno after removing all that could be. */
int tree_remove_at(int dirfd, const char *name);

/*
 * Call visit for every non-directory below fd with its path relative to it, until it returns false
 * or max entries were seen. Returns false when the walk was cut short.
 */
bool tree_walk(int fd, uint64_t max,
	bool (*visit)(void *arg, const char *path, const struct stat *st), void *arg);

#endif
