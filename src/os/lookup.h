/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is at many paths, one after another. Their directories stay open, so that a path takes one short
 * call: the paths of a policy lie in a few directories, and most of them are not there.
 *
 * Trust: a directory is opened without following any symlink. What it is called later does not
 *        matter: whoever uses a path compares the object with what was seen here.
 */
#ifndef CROFT_OS_LOOKUP_H
#define CROFT_OS_LOOKUP_H

#include <stddef.h>
#include <sys/stat.h>

#define LOOKUP_DIRS 8
#define LOOKUP_DIR_MAX 512 /* longer ones are not plain */

struct lookup {
	struct lookup_dir {
		char path[LOOKUP_DIR_MAX];
		int fd; /* or -errno */
	} dir[LOOKUP_DIRS];
	size_t n; /* ever opened: the oldest gives way */
};

enum lookup_found {
	LOOKUP_PLAIN, /* it is there, and the path is its canonical name: no symlink is on the way */
	LOOKUP_LINK,  /* it is a symlink, and none is on the way to it */
	LOOKUP_UNPLAIN, /* one is on the way, or the path is spelled in another way than the kernel's */
};

/* What was found, or -errno; *ret is for LOOKUP_PLAIN alone. */
int lookup_path(struct lookup *l, const char *path, struct stat *ret);
/*
 * The same with symlinks that lead to a plain path followed, at most three; ret gets the canonical name. For
 * LOOKUP_UNPLAIN the kernel must be asked (path_resolve).
 */
int lookup_follow(
	struct lookup *l, const char *path, char *ret_canonical, size_t size, struct stat *ret);
void lookup_done(struct lookup *l);

#define LOOKUP_INIT ((struct lookup){.n = 0})
#define cleanup_lookup __attribute__((cleanup(lookup_done)))

#endif
