/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit on what is staged, held by counting.
 *
 * Why counting: staged files lie on the host's file system. A quota or an image of fixed size takes
 * root; a tmpfs would lose the work with the machine. So the supervisor measures the layers while the
 * command runs and ends it when they hold more than the limit; RLIMIT_FSIZE cuts each single file.
 * Cost:    one statfs() a look. The layers are walked only when the file system has lost a part of
 *          what is left of the limit, and now and then. Whoever walks serves nobody meanwhile, so no
 *          more than DISKWATCH_ENTRIES_MAX names are looked at; where there are more, what was there at
 *          the start and what the file system has lost since is believed.
 * Limits:  between two looks more can be written than is left: looks come the more often the less
 *          there is left, at most every DISKWATCH_MIN_MS. Files that have no name any more are sought
 *          among what the processes hold open, once the file system has lost more than the
 *          limit; one that is only mapped, or on its way through a socket, is not counted.
 */
#ifndef CROFT_SESSION_RUN_DISKWATCH_H
#define CROFT_SESSION_RUN_DISKWATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/engine.h"

#define DISKWATCH_TREES_MAX 64
#define DISKWATCH_ENTRIES_MAX 200000u /* about a quarter of a second */
#define DISKWATCH_MIN_MS 20
#define DISKWATCH_MAX_MS 1000

struct diskwatch {
	int fd[DISKWATCH_TREES_MAX]; /* upper layers */
	size_t n;                    /* 0: nothing is watched */
	uint64_t limit_b, used_b;
	uint64_t start_used_b; /* all of it was counted then */
	uint64_t entries_max;
	bool cut; /* the last walk did not see all */
	uint64_t start_free_b, walk_free_b; /* of the file system: at the start, at the last walk */
	pid_t sandbox;                      /* its first process; 0: not started */
	uint64_t next_ms;
	unsigned skipped; /* looks since the last walk */
	bool over;
};

#define DISKWATCH_INIT ((struct diskwatch){0})

/* Refused when the layers hold more than the limit already, or more layers are there than can be watched. */
int diskwatch_open(struct diskwatch *w, const struct staging *s, const struct request_view *views,
	size_t views_n, uint64_t limit_b, struct err *e);
/* How long until the next look; -1: never. */
int diskwatch_wait_ms(const struct diskwatch *w, uint64_t now_ms);
/* Look, if it is time; true once the limit is exceeded. */
bool diskwatch_look(struct diskwatch *w, uint64_t now_ms);
/* Measure now, whatever the time: was the limit hit? Cut off at it by RLIMIT_FSIZE, nothing is exceeded. */
bool diskwatch_full(struct diskwatch *w);
/* The same: the last word, when nobody writes any more. True: it was hit. */
bool diskwatch_end(struct diskwatch *w);
/* Measure anew after the limit was exceeded: what was too much may be gone with who wrote it. True: still. */
bool diskwatch_again(struct diskwatch *w);
void diskwatch_close(struct diskwatch *w);

#endif
