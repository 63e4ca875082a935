/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a repository that a command left no more than `git init` or `git clone` would leave?
 *
 * Purpose: Git executes what a repository's own configuration and hooks say, with the next `git status`
 *          of whoever enters the directory, a shell prompt's included.
 * Trust:   the directory is the command's work: opened by descriptor, no symlink followed, regular files
 *          only, nothing waits, bounded. What cannot be read and understood is beyond plain.
 */
#ifndef CROFT_CORE_GITPLAIN_H
#define CROFT_CORE_GITPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/buf.h"

#define GITPLAIN_CONFIG_MAX_B (64u << 10)
#define GITPLAIN_ENTRIES_MAX 256 /* of hooks/ or info/ */

/* NULL: plain. Otherwise what is beyond, static text. `fd` is the repository's directory. */
const char *gitplain_beyond(int fd);
/* Would Git take it for a repository? What tells it from another is added to *ret. */
bool gitplain_whole(int fd, struct buf *ret);
/* Was it there before, whole and the same? */
enum gitplain_before { GITPLAIN_UNKNOWN, GITPLAIN_ABSENT, GITPLAIN_THERE };
/*
 * Was anything that Git executes changed, or the repository made, at or after this time? Where it is not
 * known whether it was there, the times of its directories have to do.
 */
bool gitplain_changed(int fd, const struct timespec *since, enum gitplain_before before);
/* NULL: every key is one that executes nothing and leads nowhere. */
const char *gitplain_config(const char *text, size_t n);

#endif
