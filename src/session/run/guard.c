/* SPDX-License-Identifier: Apache-2.0 */
/* Watching what the host may replace: see guard.h. */
#include "session/run/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/seccomp.h"

/* Names that go, come or change: a move from another directory is a creation here. */
#define CHANGES (DN_CREATE | DN_DELETE | DN_RENAME | DN_MULTISHOT)

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

static bool is_watched(const struct guard *g, const struct stat *st)
{
	for (size_t i = 0; i < g->dirs_n; i++)
		if (g->dirs[i].dev == st->st_dev && g->dirs[i].ino == st->st_ino)
			return true;
	return false;
}

static bool watch_dir(struct guard *g, const char *dir)
{
	cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if (is_watched(g, &st))
		return true;
	if (g->dirs_n == GUARD_DIRS_MAX) {
		errno = EMFILE; /* and not that it is missing: the next one up does not stand in for it */
		return false;
	}
	if (fcntl(fd, F_NOTIFY, CHANGES) < 0)
		return false;
	g->dirs[g->dirs_n++] = (struct guard_dir){take_fd(&fd), st.st_dev, st.st_ino};
	return true;
}

/*
 * Watch the nearest directory above that is there, since what is missing would appear in it, and those
 * above it up to the tree that shows it: each tells when the next one is moved.
 */
static bool watch(struct guard *g, const struct guard_name *x)
{
	bool found = false;
	char dir[PATH_MAX];

	if (snprintf(dir, sizeof(dir), "%s", x->path) >= (int)sizeof(dir))
		return false;
	for (char *slash; (slash = strrchr(dir, '/'));) {
		bool last = slash == dir;

		slash[last] = '\0';
		if (found && strlen(dir) < x->root_len)
			break;
		if (watch_dir(g, dir))
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
	sigset_t set;
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
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	g->fd = forced_fail("dnotify") ? -1 : signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	g->unwatched = g->fd < 0;
	for (size_t i = 0; i < g->n && !g->unwatched; i++)
		g->unwatched = !watch(g, &g->v[i]);
	return 0;
}

static void take_signals(struct guard *g)
{
	struct signalfd_siginfo si;

	while (g->fd >= 0 && read(g->fd, &si, sizeof(si)) > 0)
		;
}

void guard_done(struct guard *g)
{
	for (size_t i = 0; i < g->dirs_n; i++)
		close_fd(&g->dirs[i].fd);
	take_signals(g); /* none may be left for when it is not blocked any more */
	close_fd(&g->fd);
	free(g->v);
	*g = GUARD_INIT;
}

void guard_drain(struct guard *g)
{
	take_signals(g);
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
