/* SPDX-License-Identifier: Apache-2.0 */
/* A limit on what is staged, held by counting: see diskwatch.h. */
#include "session/run/diskwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/clock.h"
#include "os/footprint.h"

#define RATE_B_PER_MS (1u << 20) /* of a fast disk: what may be written until the next look */
#define FULL_SHARE 64            /* less than this part of the limit left: it was hit */
#define SKIPS_MAX 16
#define WALK_SHARE 20 /* a walk takes at most one part in this many of the time */

static uint64_t free_b(const struct diskwatch *w)
{
	struct statfs fs;

	return fstatfs(w->fd[0], &fs) < 0 ? 0 : (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
}

static uint64_t left_of(const struct diskwatch *w, uint64_t used_b)
{
	return used_b < w->limit_b ? w->limit_b - used_b : 0;
}

static uint64_t left_b(const struct diskwatch *w)
{
	return left_of(w, w->used_b);
}

/*
 * What cannot be listed may hold anything: then the file system is believed, which others use, too.
 */
static void measure(struct diskwatch *w)
{
	uint64_t now_free_b = free_b(w);
	struct footprint f = {.entries_max = w->entries_max};

	for (size_t i = 0; i < w->n; i++)
		footprint_add(&f, w->fd[i], w->limit_b);
	if (w->sandbox > 0 && f.used_b <= w->limit_b &&
		(w->skipped >= SKIPS_MAX || /* others may have made room meanwhile */
			w->start_free_b > now_free_b + left_of(w, f.used_b)))
		footprint_add_unnamed(&f, w->sandbox);
	if (f.hidden && w->start_free_b > now_free_b)
		f.used_b = MAX_OF(f.used_b, w->start_free_b - now_free_b);
	if (f.cut && w->start_used_b + w->start_free_b > now_free_b)
		f.used_b = MAX_OF(f.used_b, w->start_used_b + w->start_free_b - now_free_b);
	w->cut = f.cut;
	w->used_b = f.used_b;
	w->walk_free_b = now_free_b;
	w->skipped = 0;
	w->over = w->over || w->used_b > w->limit_b;
}

static void plan_next(struct diskwatch *w, uint64_t now_ms, uint64_t took_ms)
{
	uint64_t wait = left_b(w) / RATE_B_PER_MS;

	wait = MIN_OF(MAX_OF(wait, (uint64_t)DISKWATCH_MIN_MS), (uint64_t)DISKWATCH_MAX_MS);
	w->next_ms = now_ms + MAX_OF(wait, took_ms * WALK_SHARE);
}

static int watch(struct diskwatch *w, const char *dir, struct err *e)
{
	if (w->n == DISKWATCH_TREES_MAX)
		return err_refuse(e,
			"more than %d directories are staged or have a view, too many for a disk limit "
			"to be held; drop --disk",
			DISKWATCH_TREES_MAX);
	w->fd[w->n] = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->fd[w->n] < 0)
		return err_set(e, errno, "open %s", dir);
	w->n++;
	return 0;
}

int diskwatch_open(struct diskwatch *w, const struct staging *s, const struct request_view *views,
	size_t views_n, uint64_t limit_b, struct err *e)
{
	*w = DISKWATCH_INIT;
	w->limit_b = limit_b;
	for (size_t i = 0; s && i < s->trees_n; i++)
		if (s->trees[i].upper && watch(w, s->trees[i].upper, e) < 0)
			return -e->errnum;
	for (size_t i = 0; i < views_n; i++)
		if (views[i].kept && watch(w, views[i].kept, e) < 0)
			return -e->errnum;
	if (w->n == 0)
		return 0;
	w->start_free_b = free_b(w);
	measure(w);
	w->start_used_b = w->used_b;
	w->entries_max = DISKWATCH_ENTRIES_MAX;
	plan_next(w, clock_ms(), 0);
	if (w->over)
		return err_refuse(e,
			"what is staged takes more than the disk limit of %" PRIu64
			" bytes already; raise --disk, or apply or discard it first",
			limit_b);
	return 0;
}

int diskwatch_wait_ms(const struct diskwatch *w, uint64_t now_ms)
{
	if (w->n == 0 || w->over)
		return -1;
	return w->next_ms <= now_ms ? 0 : (int)(w->next_ms - now_ms);
}

bool diskwatch_look(struct diskwatch *w, uint64_t now_ms)
{
	uint64_t now_free_b;

	if (w->n == 0 || w->over || now_ms < w->next_ms)
		return w->over;
	now_free_b = free_b(w);
	if (++w->skipped < SKIPS_MAX && now_free_b + left_b(w) / 4 >= w->walk_free_b) {
		plan_next(w, now_ms, 0);
		return false;
	}
	measure(w);
	plan_next(w, now_ms, clock_ms() - now_ms);
	return w->over;
}

bool diskwatch_again(struct diskwatch *w)
{
	if (w->n == 0)
		return false;
	w->over = false;
	measure(w);
	plan_next(w, clock_ms(), 0);
	return w->over;
}

bool diskwatch_full(struct diskwatch *w)
{
	if (w->n > 0 && !w->over)
		measure(w);
	return w->over || (w->n > 0 && left_b(w) <= w->limit_b / FULL_SHARE);
}

bool diskwatch_end(struct diskwatch *w)
{
	w->sandbox = 0; /* gone, and its number may be another's */
	return diskwatch_full(w);
}

void diskwatch_close(struct diskwatch *w)
{
	for (size_t i = 0; i < w->n; i++)
		close(w->fd[i]);
	w->n = 0;
}
