/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command left in trees that it wrote in place, and that the host will execute by itself.
 *
 * Purpose: after the last process is gone, name what was written all the same (a name that was absent, or
 *          deep in the tree, where no broker was on), and put away Git repositories that hold more than
 *          `git init` makes: `.git` is renamed to a name that Git does not look for.
 * Trust:   the tree is the command's work: walked by descriptor, no symlink followed, bounded. The watchers'
 *          account is used as well, and only adds: the observer goes by spelling, and the command can
 *          change that behind its back, so that nothing seen does not mean nothing changed.
 * Times:   what was there before is compared by state, not with the clock: the clock of file times may be
 *          behind by some milliseconds, more on a loaded machine, or be another machine's.
 * Limits:  a look of so many entries. Whether it saw everything is in the receipt.
 */
#ifndef CROFT_SESSION_RUN_PLANTED_H
#define CROFT_SESSION_RUN_PLANTED_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/json.h"
#include "session/run/record.h"
#include "policy/policy.h"

#define PLANTED_MAX 64           /* names that are kept */
#define PLANTED_ENTRIES_MAX 8192 /* directory entries that are looked at */
#define PLANTED_REPOS_MAX 1024   /* repositories that were there before */
#define PLANTED_DEPTH_MAX 24
#define PLANTED_SETTLE_MS 100 /* the longest wait for the clock of file times */

struct planted_name {
	char *path;
	const char *why; /* static */
	char *moved;     /* where it was put away; NULL: it is where it was written */
	char *head;      /* where its HEAD was put, without which Git takes it for nothing */
	bool git;        /* a repository that should have been put away */
};

struct planted {
	struct planted_name v[PLANTED_MAX];
	size_t n;
	size_t beyond; /* more than could be kept */
	bool looked;   /* there was a tree to look at */
	bool partly;   /* and it was larger than the bound */
};

struct planted_scope {
	const struct policy *policy; /* as it held: what it does not let be written was not */
	const char *home;
	const char *except; /* a staged workspace, or NULL */
	const char *run_id;
	const struct timespec *since;
	struct strlist *before; /* repositories, as planted_before() found them */
	bool before_partly;     /* not all of them */
	struct timespec newest; /* the latest change that it met */
};

/*
 * Which repositories are there before the command: fills s->before and s->before_partly. Afterwards no time
 * tells whether a directory was moved to its name.
 */
void planted_before(struct planted_scope *s);
/*
 * Just before the command: the clock of file times passes what planted_before() met, so that a change after
 * this has another time. Nearly always it has long done so. A time that is far ahead is not waited for: no
 * change of this machine's would have it.
 */
void planted_settle(const struct planted_scope *s);
/* More than one look adds to what was found. */
void planted_look(struct planted *ret, const struct planted_scope *s, const struct record *seen);
void planted_done(struct planted *p);
void planted_json(const struct planted *p, struct json *j);
void planted_text(const struct planted *p, struct buf *out, bool verbose);

#endif
