/* SPDX-License-Identifier: Apache-2.0 */
/* Groups for one of many commands, below a sandbox's own: its limits hold, and so do the sandbox's. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/cgroup.h"
#include "os/freezer.h"

#define NONE ((struct cgroup_limits){UINT64_MAX, UINT64_MAX, UINT64_MAX})

/* A sandbox's groups, and a part of them. */
struct two {
	struct cgroup whole, part;
	struct freezer freezer;
};

/* Whether the part can hold what is asked of it; if not, nothing is left. */
static bool make(struct two *t, const struct cgroup_limits *whole, const struct cgroup_limits *part,
	unsigned need)
{
	struct err e = ERR_INIT;

	t->freezer = FREEZER_INIT;
	t->part = CGROUP_INIT;
	if (cgroup_make(&t->whole, "test-whole", whole, &e) < 0)
		abort();
	if (t->whole.kind == CGROUP_NONE)
		return false;
	freezer_open(&t->freezer, &t->whole);
	if (cgroup_part(&t->part, &t->whole, t->freezer.dir_fd, "test-part", part, &e) < 0)
		abort();
	if ((t->part.has & need) == need)
		return true;
	if (!t->part.why[0]) /* what is missing is explained */
		abort();
	cgroup_remove(&t->part);
	freezer_close(&t->freezer);
	cgroup_remove(&t->whole);
	return false;
}

static bool done(struct two *t)
{
	bool gone = cgroup_try_remove(&t->part);

	freezer_close(&t->freezer);
	cgroup_remove(&t->whole);
	return gone;
}

/* A child that enters the sandbox's groups, as its first process does, and starts another in the part. */
static pid_t start_in(const struct two *t, int (*f)(void))
{
	int fds[CGROUP_DIRS_MAX], more[CGROUP_DIRS_MAX], status;
	struct err e = ERR_INIT;
	int n = cgroup_join_fds(&t->whole, fds, &e), m = cgroup_join_fds(&t->part, more, &e);
	pid_t pid = n < 0 || m < 0 ? -1 : fork();

	if (pid == 0) {
		if (cgroup_join(fds, (size_t)n, &e) < 0)
			_exit(98);
		pid = fork();
		if (pid == 0)
			_exit(cgroup_join(more, (size_t)m, &e) < 0 ? 99 : f());
		if (waitpid(pid, &status, 0) != pid)
			_exit(97);
		_exit(WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status));
	}
	for (int i = 0; i < n; i++)
		close(fds[i]);
	for (int i = 0; i < m; i++)
		close(more[i]);
	return pid;
}

static int wait_status(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int touch_memory(void)
{
	size_t size = 96u << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
	return 0;
}

TEST(memory_of_a_part_is_less_than_that_of_the_whole)
{
	struct cgroup_limits whole = NONE, part = NONE;
	struct cgroup_usage u;
	struct two t;

	whole.memory_b = 256u << 20;
	part.memory_b = 32u << 20;
	if (!make(&t, &whole, &part, CGROUP_HAS_MEMORY))
		SKIP("no group for the memory of one command can be made here");
	CHECK_INT(wait_status(start_in(&t, touch_memory)), 100 + SIGKILL);
	cgroup_usage(&t.part, &u);
	CHECK(u.hits.oom_kills >= 1 && u.memory_peak_b > 0);
	CHECK(done(&t));
	part.memory_b = 200u << 20; /* the control */
	CHECK(make(&t, &whole, &part, CGROUP_HAS_MEMORY));
	CHECK_INT(wait_status(start_in(&t, touch_memory)), 0);
	CHECK(done(&t));
	whole.memory_b = 32u << 20; /* what the whole has not got, no part has */
	CHECK(make(&t, &whole, &part, CGROUP_HAS_MEMORY));
	CHECK_INT(wait_status(start_in(&t, touch_memory)), 100 + SIGKILL);
	CHECK(done(&t));
}

/* As many as there can be, up to 20; they end with us. */
static int fork_many(void)
{
	int n = 0, pfd[2];
	pid_t pid[20];

	if (pipe2(pfd, O_CLOEXEC) < 0)
		return 96;
	while (n < 20 && (pid[n] = fork()) >= 0) {
		char c;

		if (pid[n] == 0) {
			close(pfd[1]);
			_exit(read(pfd[0], &c, 1) == 0 ? 0 : 1);
		}
		n++;
	}
	close(pfd[1]);
	for (int i = 0; i < n; i++)
		waitpid(pid[i], NULL, 0);
	return n;
}

TEST(processes_of_a_part_are_fewer_and_counted_apart)
{
	struct cgroup_limits whole = NONE, part = NONE;
	struct cgroup_usage u;
	struct two t;

	whole.pids = 64;
	part.pids = 8;
	if (!make(&t, &whole, &part, CGROUP_HAS_PIDS))
		SKIP("no group for the processes of one command can be made here");
	CHECK_INT(wait_status(start_in(&t, fork_many)), 7);
	cgroup_usage(&t.part, &u);
	CHECK(u.hits.pids_refused >= 1);
	CHECK(done(&t));
	part.pids = 32;
	CHECK(make(&t, &whole, &part, CGROUP_HAS_PIDS)); /* the control */
	CHECK_INT(wait_status(start_in(&t, fork_many)), 20);
	CHECK(done(&t));
}

/* A sandbox without limits has one bare group to kill by: its parts are below that one, too. */
TEST(a_part_can_have_what_the_whole_has_not)
{
	struct cgroup_limits whole = NONE, part = {1u << 30, 500, 100};
	unsigned all = CGROUP_HAS_PIDS | CGROUP_HAS_CPU;
	struct two t;

	if (!make(&t, &whole, &part, all))
		SKIP("no groups for one command can be made here");
	CHECK_INT(wait_status(start_in(&t, fork_many)), 20);
	CHECK(done(&t));
	whole = (struct cgroup_limits){1u << 30, 1000, 200};
	CHECK(make(&t, &whole, &part, all));
	CHECK_INT(wait_status(start_in(&t, fork_many)), 20);
	CHECK(done(&t));
}

static int sleep_long(void)
{
	for (;;)
		pause();
	return 0;
}

/* It is entered by the time that it has a member: v1 lists members of each group apart. */
static void wait_member(const struct two *t)
{
	char c;

	for (int fd, n = 0; !n;) {
		fd = openat(t->part.dir_fd[0], t->part.threaded ? "cgroup.threads" : "cgroup.procs",
			O_RDONLY | O_CLOEXEC);
		n = read(fd, &c, 1) == 1;
		close(fd);
	}
}

TEST(the_end_of_the_whole_reaches_its_parts)
{
	struct cgroup_limits whole = NONE, part = NONE;
	int parent_fd;
	char name[64];
	struct two t;
	pid_t pid;

	whole.pids = part.pids = 8;
	if (!make(&t, &whole, &part, CGROUP_HAS_PIDS))
		SKIP("no group for the processes of one command can be made here");
	pid = start_in(&t, sleep_long);
	wait_member(&t);
	CHECK(!cgroup_try_remove(&t.part)); /* something is in it */
	CHECK(t.part.dir_fd[0] >= 0);
	cgroup_kill(&t.whole);
	CHECK_INT(wait_status(pid), 1000 + SIGKILL);
	/* The part is left where it is, as by a session that was killed. */
	parent_fd = dup(t.whole.parent_fd[0]);
	snprintf(name, sizeof(name), "%s", t.whole.name);
	freezer_close(&t.freezer);
	cgroup_remove(&t.whole);
	CHECK(faccessat(parent_fd, name, F_OK, 0) < 0 && errno == ENOENT);
	CHECK(cgroup_try_remove(&t.part)); /* it is gone already */
	close(parent_fd);
}
