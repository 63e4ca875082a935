/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does an index lead Git to write where a working tree has no files?
 *
 * Purpose: Git checks the paths that it puts into an index, not those that it reads from one:
 *          `git checkout .` writes an entry named ".git/hooks/post-checkout", and then runs it.
 * Trust:   the file is the command's work: opened by descriptor, no symlink followed, nothing waits, bounded.
 *          It is read entry by entry as Git does, and what tells Git to begin elsewhere (the tables by which
 *          threads read) must say the same. What cannot be read and understood is beyond.
 */
#ifndef CROFT_SESSION_RUN_GITINDEX_H
#define CROFT_SESSION_RUN_GITINDEX_H

#include <stddef.h>

#define GITINDEX_MAX_B (512u << 20)
#define GITINDEX_SHARED_MAX (sizeof("sharedindex.") + 64)

/* NULL: every path lies in the tree, or there is no index. `fd` is the Git directory. Static text. */
const char *gitindex_beyond(int fd);
/* The same of the bytes; hash_n: 20 or 32. ret_shared: the file that has the rest of a split index, or "". */
const char *gitindex_check(
	const unsigned char *p, size_t n, size_t hash_n, char ret_shared[GITINDEX_SHARED_MAX]);

#endif
