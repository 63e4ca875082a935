/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup v2 freezer, wherever a v2 hierarchy is mounted and writable, whatever else is. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/cgroup.h"
#include "os/clock.h"
#include "os/freezer.h"

#define CGROUP2_MAGIC 0x63677270

/* A group as cgroup_make() makes it on a machine with v2 alone; here v1 may be beside it. */
static bool make_v2(struct cgroup *c, const char *name)
{
	static const char *const tops[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	struct cgroup_limits none = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct err e = ERR_INIT;
	struct statfs fs;

	if (cgroup_make(c, name, &none, &e) == 0 && c->kind == CGROUP_V2)
		return true;
	cgroup_remove(c);
	for (size_t i = 0; i < ARRAY_SIZE(tops); i++) {
		cleanup_fd int top = open(tops[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (top < 0 || fstatfs(top, &fs) < 0 || fs.f_type != CGROUP2_MAGIC)
			continue;
		snprintf(c->name, sizeof(c->name), "croft-%d.0.0-%s", getpid(), name);
		if (mkdirat(top, c->name, 0755) < 0)
			return false;
		c->kind = CGROUP_V2;
		c->dir_v2[0] = true;
		c->dir_fd[0] = openat(top, c->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		c->parent_fd[0] = take_fd(&top);
		return true;
	}
	return false;
}

/* In the sandbox's group a first process of ours, which starts commands and is never frozen. */
static int enter(const struct cgroup *c)
{
	struct err e = ERR_INIT;
	int fds[CGROUP_DIRS_MAX], n = cgroup_join_fds(c, fds, &e);
	int r = n < 0 ? n : cgroup_join(fds, (size_t)n, &e);

	for (int i = 0; i < n; i++)
		close(fds[i]);
	return r;
}

/* Counts as fast as it can, in memory that we see. */
static pid_t start_counter(int group, volatile unsigned long *counter)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (freezer_enter(group) < 0)
			_exit(99);
		for (;;)
			(*counter)++;
	}
	return pid;
}

static bool goes_on(volatile unsigned long *counter)
{
	unsigned long before = *counter;
	uint64_t until = clock_ms() + 20000;

	while (*counter == before && clock_ms() < until)
		sched_yield();
	return *counter != before;
}

static bool wait_frozen(const struct freezer *f)
{
	struct pollfd p = {.fd = freezer_fd(f), .events = POLLPRI};
	uint64_t until = clock_ms() + 20000;

	while (!freezer_is(f))
		if (clock_ms() > until || poll(&p, 1, 1000) < 0)
			return false;
	return true;
}

struct result {
	volatile unsigned long count[2];
	bool added, started, went, froze, stood, thawed, went_again, killed;
	int error;
	uint64_t enter_us;
};

/* In a process of its own, because it moves into the sandbox's group. */
static void play(const struct cgroup *c, struct freezer *f, struct result *r)
{
	unsigned long seen[2];
	int group[2] = {-1, -1}, status;
	pid_t pid[2];

	if ((r->error = enter(c)) < 0 || (r->error = freezer_open(f, c)) < 0)
		return;
	for (uint32_t i = 0; i < 2; i++)
		group[i] = freezer_add(f, i + 1);
	r->added = group[0] >= 0 && group[1] >= 0;
	if (!r->added)
		return;
	for (int i = 0; i < 2; i++)
		pid[i] = start_counter(group[i], &r->count[i]);
	r->started = pid[0] > 0 && pid[1] > 0;
	r->went = goes_on(&r->count[0]) && goes_on(&r->count[1]);
	r->error = freezer_set(f, true);
	r->froze = wait_frozen(f);
	seen[0] = r->count[0];
	seen[1] = r->count[1];
	for (int i = 0; i < 1000; i++) /* we are not frozen, and give them the processor */
		sched_yield();
	r->stood = r->count[0] == seen[0] && r->count[1] == seen[1];
	/* What is frozen can be killed: v1 would make us wait here. */
	kill(pid[1], SIGKILL);
	r->killed = waitpid(pid[1], &status, 0) == pid[1] && WIFSIGNALED(status);
	r->thawed = freezer_set(f, false) == 0 && !freezer_is(f);
	r->went_again = goes_on(&r->count[0]);
	freezer_remove(f, 2);
	freezer_set(f, true); /* left like that for cgroup_kill() */
	wait_frozen(f);
}

TEST(commands_are_frozen_and_the_first_process_is_not)
{
	struct cgroup c = CGROUP_INIT;
	struct freezer f = FREEZER_INIT;
	struct result *r = mmap(
		NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = -1, parent;
	pid_t pid;

	CHECK(r != MAP_FAILED);
	if (!make_v2(&c, "test-freezer"))
		SKIP("no cgroup v2 group can be made here");
	pid = fork();
	if (pid == 0) {
		play(&c, &f, r);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	cgroup_kill(&c);
	parent = dup(c.parent_fd[0]);
	cgroup_remove(&c);
	if (r->error == -EACCES || r->error == -EPERM || r->error == -EROFS) {
		close(parent);
		SKIP("no process may be moved into a cgroup v2 group here");
	}
	CHECK_INT(r->error, 0);
	CHECK(r->added && r->started);
	CHECK(r->went);
	CHECK(r->froze);
	CHECK(r->stood);
	CHECK(r->killed);
	CHECK(r->thawed && r->went_again);
	/* The frozen counter was killed, and all groups went with the sandbox's. */
	CHECK(faccessat(parent, c.name, F_OK, 0) < 0);
	close(parent);
	munmap(r, sizeof(*r));
}

TEST(there_is_none_without_cgroup_v2)
{
	struct cgroup c = CGROUP_INIT;
	struct freezer f;

	CHECK_INT(freezer_open(&f, &c), -EOPNOTSUPP);
	c.kind = CGROUP_V1;
	CHECK_INT(freezer_open(&f, &c), -EOPNOTSUPP);
	c.kind = CGROUP_HYBRID;
	CHECK_INT(freezer_open(&f, &c), -EOPNOTSUPP);
	CHECK_INT(f.dir_fd, -1);
}
