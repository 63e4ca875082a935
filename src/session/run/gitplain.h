/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a repository that a command left no more than `git init` or `git clone` would leave?
 *
 * Purpose: Git executes what a repository's own configuration and hooks say, with the next `git status`
 *          of whoever enters the directory, a shell prompt's included.
 * Trust:   the directory is the command's work: opened by descriptor, no symlink followed, regular files
 *          only, nothing waits, bounded. What cannot be read and understood is beyond plain.
 */
#ifndef CROFT_SESSION_RUN_GITPLAIN_H
#define CROFT_SESSION_RUN_GITPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"

#define GITPLAIN_CONFIG_MAX_B (64u << 10)
#define GITPLAIN_ENTRIES_MAX 256 /* of hooks/ or info/ */

/* NULL: plain. Otherwise what is beyond, static text. `fd` is the repository's directory. */
const char *gitplain_beyond(int fd);
/* Would Git take it for a repository? What tells it from another is added to *ret. */
bool gitplain_whole(int fd, struct buf *ret);
/*
 * The state of what Git executes is added to *ret: whoever changes that changes the state, if the clock of
 * file times has passed *newest by then, which becomes the latest time of change that was met. False when
 * it cannot be told.
 */
bool gitplain_state(int fd, struct buf *ret, struct timespec *newest);
/* The same of one file. */
void gitplain_state_of(const struct stat *st, struct buf *ret, struct timespec *newest);
/*
 * By times alone, where no state was noted before the command: was anything that Git executes changed, or
 * the repository made, at or after this time?
 */
bool gitplain_changed(int fd, const struct timespec *since);
/* NULL: every key is one that executes nothing and leads nowhere. */
const char *gitplain_config(const char *text, size_t n);
/* How long the names of its objects are, by its configuration: 20 or 32 bytes; 0: it does not say clearly. */
size_t gitplain_hash(const char *text, size_t n);

#endif
