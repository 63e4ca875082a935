/* SPDX-License-Identifier: Apache-2.0 */
/* Watching what the host may replace: see guard.h. */
#include "core/guard.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/seccomp.h"

/* A name is replaced by going first. One that must stay absent is made. */
#define GONE (IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF)
#define MADE (GONE | IN_CREATE)
/* So is a directory further up, with all that is in it. */
#define GONE_ABOVE (IN_MOVE_SELF | IN_DELETE_SELF)

/* A broker that sees every open refuses by name what is denied. */
static bool reads_judged(const struct plan *p)
{
	return p->broker && p->seccomp_flags & SECCOMP_NOTIFY_READS;
}

/* Is this a protection inside a tree of the host's that ends with the object it is on? */
static bool is_guarded(const struct plan *p, const struct plan_op *op)
{
	if (!op->nested || !op->ino || op->staged)
		return false;
	if (op->kind == PLAN_MASK)
		return !reads_judged(p);
	/* A bind that is writable is a pin if its rule is narrower. */
	return op->kind == PLAN_BIND && !p->broker && op->rule &&
	       (op->access == ACCESS_READ || op->rule->access < ACCESS_WRITE);
}

/* The outermost tree that shows it: what becomes of the directories above that is not seen inside. */
static size_t root_len(const struct policy *p, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < p->rules_n; i++) {
		const struct policy_rule *r = &p->rules[i];
		size_t n = strlen(r->path);

		if (r->access != ACCESS_DENY && !r->glob && n < len &&
			(n == 1 || (strncmp(path, r->path, n) == 0 && path[n] == '/')))
			len = n;
	}
	return len;
}

/*
 * Watch the nearest directory above that is there, since what is missing would appear in it, and for being
 * moved those above it.
 */
static bool watch(struct guard *g, const struct guard_name *x)
{
	bool found = false;
	char dir[PATH_MAX];

	if (snprintf(dir, sizeof(dir), "%s", x->path) >= (int)sizeof(dir))
		return false;
	for (char *slash; (slash = strrchr(dir, '/'));) {
		bool last = slash == dir;
		uint32_t what = found ? GONE_ABOVE : x->ino ? GONE : MADE;

		slash[last] = '\0';
		if (found && strlen(dir) <= x->root_len)
			break;
		if (inotify_add_watch(g->fd, dir, IN_ONLYDIR | IN_MASK_ADD | what) >= 0)
			found = true;
		else if (found || x->ino || (errno != ENOENT && errno != ENOTDIR))
			return false;
		if (last)
			break;
	}
	return found;
}

static int add(struct guard *g, const struct plan *p, const char *path, dev_t dev, ino_t ino)
{
	struct guard_name *v = realloc(g->v, (g->n + 1) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	g->v = v;
	g->v[g->n++] = (struct guard_name){path, root_len(p->policy, path), dev, ino};
	return 0;
}

int guard_open(struct guard *g, const struct plan *p, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n; i++)
		if (is_guarded(p, &p->ops[i]))
			r = add(g, p, p->ops[i].dst, p->ops[i].dev, p->ops[i].ino);
	for (size_t i = 0; r == 0 && i < p->absent.n && !reads_judged(p); i++)
		r = add(g, p, p->absent.v[i], 0, 0);
	if (r < 0)
		return err_set(e, -r, "watch what is protected");
	if (!g->n)
		return 0;
	g->fd = forced_fail("inotify") ? -1 : inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	g->unwatched = g->fd < 0;
	for (size_t i = 0; i < g->n && !g->unwatched; i++)
		g->unwatched = !watch(g, &g->v[i]);
	return 0;
}

void guard_done(struct guard *g)
{
	close_fd(&g->fd);
	free(g->v);
	*g = GUARD_INIT;
}

void guard_drain(struct guard *g)
{
	char events[8192];

	while (g->fd >= 0 && read(g->fd, events, sizeof(events)) > 0)
		;
	/* A directory on the way to an absent name may have appeared. */
	for (size_t i = 0; g->fd >= 0 && i < g->n; i++)
		if (!g->v[i].ino && !watch(g, &g->v[i]))
			g->unwatched = true;
}

const char *guard_broken(struct guard *g)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct guard_name *x = &g->v[i];
		struct stat st;
		bool there = lstat(x->path, &st) == 0;

		if (x->ino ? !there || st.st_dev != x->dev || st.st_ino != x->ino : there)
			return x->path;
	}
	return NULL;
}
