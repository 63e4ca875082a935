/* SPDX-License-Identifier: Apache-2.0 */
/* A git process: how it is started and ended. For program.c and read.c. */
#ifndef CROFT_GIT_CHILD_H
#define CROFT_GIT_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "git/program.h"

#define GIT_STDERR_MAX 2048

struct git_child {
	pid_t pid;      /* 0: none */
	bool own_group; /* leads a session and process group of its own */
	char waits[256]; /* the system call it was in when we looked last, and how often it was that one */
	unsigned waits_n;
};

/*
 * Start what r says, with these three as its standard descriptors; each is > 2 and stays the
 * caller's.
 */
int git_child_start(
	struct git_child *ret, const struct git_run *r, int in, int out, int err, struct err *e);
/* Wait for its end: exit status, 128+n for signal n. */
int git_child_wait(struct git_child *c);
/*
 * Asked every GIT_LOOK_MS while we wait for it: has it been waiting all the time for one and the same file
 * that is none (a named pipe, a device)? ret_file: as it calls it, or "".
 */
#define GIT_LOOK_MS 1000
#define GIT_STUCK_AFTER 4u
bool git_child_stuck(struct git_child *c, char *ret_file, size_t size);
int git_stuck(struct err *e, const char *file);
/* Kill what is left of it, and wait. */
void git_child_stop(struct git_child *c);
#define cleanup_git_child __attribute__((cleanup(git_child_stop)))

/* A descriptor for nothing, above 2. */
int git_null_fd(void);
/* The same descriptor above 2, so that it survives the placing of 0, 1 and 2; the old one is closed. */
int git_high_fd(int fd);
/* "git WHAT …: what it said"; returns -EIO. */
int git_failed(struct err *e, const struct git_run *r, int status, const struct buf *said);

#endif
