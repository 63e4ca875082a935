/* SPDX-License-Identifier: Apache-2.0 */
/* Groups for one of many commands in a sandbox: cgroup_part() in cgroup.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/cgroup_impl.h"
#include "os/path.h"

static int copy_fd(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* ---- v1 ---- */

/* Each hierarchy of v1 is a file system of its own. */
static bool same_hierarchy(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev;
}

/* Before Linux 5.11 a group might not count for those above it: then one below is free of their limits. */
static bool counts_below(int dir_fd)
{
	char c = '1';
	cleanup_fd int fd = openat(dir_fd, "memory.use_hierarchy", O_RDONLY | O_CLOEXEC);

	return fd < 0 || read(fd, &c, 1) != 1 || c == '1';
}

/* The place below c's group number i; one that was found before is the same. */
static struct cgroup_place *place_below(const struct cgroup *c, size_t i,
	struct cgroup_place place[CGROUP_DIRS_MAX], size_t *n)
{
	int fd;

	for (size_t k = 0; k < *n; k++)
		if (same_hierarchy(place[k].fd, c->dir_fd[i]))
			return &place[k];
	fd = *n < CGROUP_DIRS_MAX ? copy_fd(c->dir_fd[i]) : -1;
	if (fd < 0)
		return NULL;
	place[*n] = (struct cgroup_place){.fd = fd};
	return &place[(*n)++];
}

/* In a hierarchy that c has a group in, ours must be below it, whatever that one limits. */
static bool add_below(const struct cgroup *c, int fd, unsigned has,
	struct cgroup_place place[CGROUP_DIRS_MAX], size_t *n)
{
	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		struct cgroup_place *p;

		if (c->dir_fd[i] < 0 || c->dir_v2[i] || !same_hierarchy(c->dir_fd[i], fd))
			continue;
		if ((has & CGROUP_HAS_MEMORY) && !counts_below(c->dir_fd[i]))
			has &= ~(unsigned)CGROUP_HAS_MEMORY;
		p = has ? place_below(c, i, place, n) : NULL;
		if (p)
			p->has |= has;
		return true;
	}
	return false;
}

static size_t places_v1(const struct cgroup *c, unsigned want,
	struct cgroup_place place[CGROUP_DIRS_MAX], char *why, size_t size)
{
	struct cgroup_place more[CGROUP_DIRS_MAX];
	unsigned missing = want;
	size_t n = 0, m;

	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++) {
		unsigned has = c->dir_fd[i] < 0 || c->dir_v2[i] ? 0 : c->dir_has[i] & missing;

		missing &= ~has;
		if (has)
			add_below(c, c->dir_fd[i], has, place, &n);
	}
	m = missing ? cgroup_places(missing, more, why, size) : 0;
	for (size_t k = 0; k < m; k++) {
		/* Of v2 a process has one group only, and that is the sandbox's. */
		if (!more[k].v2 && !add_below(c, more[k].fd, more[k].has, place, &n) &&
			more[k].has && n < CGROUP_DIRS_MAX)
			place[n++] = more[k];
		else
			close_fd(&more[k].fd);
	}
	return n;
}

/* ---- v2 ---- */

/* From above c's group down to its commands: what a group gives to those below it must itself have. */
static unsigned enable_threaded(const struct cgroup *c, int commands_fd, unsigned want)
{
	static const struct {
		const char *text;
		unsigned has;
	} known[] = {{"+cpu", CGROUP_HAS_CPU}, {"+pids", CGROUP_HAS_PIDS}};
	unsigned has = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (!(want & known[i].has))
			continue;
		file_poke_at(c->parent_fd[0], "cgroup.subtree_control", known[i].text);
		file_poke_at(c->dir_fd[0], "cgroup.subtree_control", known[i].text);
		if (file_poke_at(commands_fd, "cgroup.subtree_control", known[i].text) == 0)
			has |= known[i].has;
	}
	return has;
}

static size_t places_v2(const struct cgroup *c, int commands_fd, unsigned want,
	struct cgroup_place *place, char *why, size_t size)
{
	unsigned has = commands_fd < 0 ? 0 : enable_threaded(c, commands_fd, want);
	int fd = has ? copy_fd(commands_fd) : -1;

	if (commands_fd < 0)
		snprintf(why, size, "groups for single commands need Linux 5.14 and cgroup v2 alone");
	else if (want & ~has & (CGROUP_HAS_CPU | CGROUP_HAS_PIDS))
		snprintf(why, size, "a controller of cgroup v2 is not given to the sandbox's group");
	else if (want & ~has)
		snprintf(why, size, "cgroup v2 limits the memory of a sandbox, not of one command in it");
	if (fd < 0)
		return 0;
	*place = (struct cgroup_place){.fd = fd, .v2 = true, .threaded = true, .has = has};
	return 1;
}

int cgroup_part(struct cgroup *ret, const struct cgroup *c, int commands_fd, const char *id,
	const struct cgroup_limits *l, struct err *e)
{
	struct cgroup_place place[CGROUP_DIRS_MAX];
	unsigned want = cgroup_wanted(l);
	int rc = cgroup_begin(ret, id, e);
	size_t n;

	if (rc != 0)
		return MIN_OF(rc, 0);
	n = c->kind == CGROUP_V2
		    ? places_v2(c, commands_fd, want, place, ret->why, sizeof(ret->why))
		    : places_v1(c, want, place, ret->why, sizeof(ret->why));
	cgroup_make_in(ret, place, n, l);
	if ((want & ~ret->has) && !ret->why[0]) /* see counts_below() */
		snprintf(ret->why, sizeof(ret->why),
			"memory groups of this machine do not count for the group above them");
	return 0;
}
