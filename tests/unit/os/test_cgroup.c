/* SPDX-License-Identifier: Apache-2.0 */
/* cgroups as this machine has them; as a plain user, that their absence is told and harmless. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/cgroup.h"

#define NONE ((struct cgroup_limits){UINT64_MAX, UINT64_MAX, UINT64_MAX})

static bool group_exists(int parent_fd, const char *name)
{
	return faccessat(parent_fd, name, F_OK, 0) == 0;
}

/* A child that joins and then runs f; it waits for nothing. */
static pid_t start_in(const struct cgroup *c, int (*f)(void))
{
	int fds[CGROUP_DIRS_MAX], n;
	struct err e = ERR_INIT;
	pid_t pid;

	n = cgroup_join_fds(c, fds, &e);
	pid = n < 0 ? -1 : fork();
	if (pid == 0)
		_exit(cgroup_join(fds, (size_t)n, &e) < 0 ? 99 : f());
	for (int i = 0; i < n; i++)
		close(fds[i]);
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
	size_t size = 256u << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
	return 0;
}

TEST(memory_bomb_is_killed_and_counted)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct cgroup_usage u;
	struct err e = ERR_INIT;
	int rc;

	l.memory_b = 32u << 20;
	CHECK_INT(cgroup_make(&c, "test-memory", &l, &e), 0);
	if (!(c.has & CGROUP_HAS_MEMORY)) {
		cgroup_remove(&c);
		SKIP("no cgroup with memory can be made here");
	}
	rc = wait_status(start_in(&c, touch_memory));
	cgroup_usage(&c, &u);
	cgroup_remove(&c);
	CHECK_INT(rc, 1000 + SIGKILL);
	CHECK(u.hits.oom_kills >= 1);
	CHECK(u.memory_peak_b == 0 ||
		(u.memory_peak_b > (16u << 20) && u.memory_peak_b <= (32u << 20)));
}

TEST(memory_below_the_limit_is_left_alone)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct cgroup_usage u;
	struct err e = ERR_INIT;
	int rc;

	l.memory_b = 400u << 20;
	CHECK_INT(cgroup_make(&c, "test-memory-ok", &l, &e), 0);
	if (!(c.has & CGROUP_HAS_MEMORY)) {
		cgroup_remove(&c);
		SKIP("no cgroup with memory can be made here");
	}
	rc = wait_status(start_in(&c, touch_memory));
	cgroup_usage(&c, &u);
	cgroup_remove(&c);
	CHECK_INT(rc, 0);
	CHECK_INT(u.hits.oom_kills, 0);
}

/* Forks until refused, at most 20 at once; the children live until the pipe closes. */
static int fork_many(void)
{
	int hold[2], n = 0;
	char ch;

	if (pipe(hold) < 0)
		return 100;
	for (; n < 20; n++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], &ch, 1) == 0 ? 0 : 1);
		}
	}
	close(hold[1]);
	while (wait(NULL) > 0)
		;
	return n;
}

TEST(fork_bomb_is_stopped_and_counted)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct cgroup_usage u;
	struct err e = ERR_INIT;
	int rc;

	l.pids = 8;
	CHECK_INT(cgroup_make(&c, "test-pids", &l, &e), 0);
	if (!(c.has & CGROUP_HAS_PIDS)) {
		cgroup_remove(&c);
		SKIP("no cgroup with pids can be made here");
	}
	CHECK_INT(fork_many(), 20); /* control: outside, nothing stops it */
	rc = wait_status(start_in(&c, fork_many));
	cgroup_usage(&c, &u);
	cgroup_remove(&c);
	CHECK_INT(rc, 7);
	CHECK(u.hits.pids_refused >= 1);
}

static volatile int *shared; /* how many the bomb has had, seen by the test */

static int bomb(void)
{
	for (;;) {
		if (fork() == 0)
			setsid();
		__atomic_add_fetch(shared, 1, __ATOMIC_RELAXED);
		sched_yield();
	}
	return 0;
}

/* Kill reaches what has run away from its parent and session, also while it forks. */
TEST(kill_ends_a_running_fork_bomb_and_all_limits_together_work)
{
	struct cgroup_limits l = {.memory_b = 256u << 20, .cpu_milli = 500, .pids = 16};
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;
	int parent_fd, pfd[2];
	char name[64];
	pid_t pid;

	CHECK_INT(cgroup_make(&c, "test-kill", &l, &e), 0);
	if (!(c.has & CGROUP_HAS_PIDS)) {
		cgroup_remove(&c);
		SKIP("no cgroup with pids can be made here");
	}
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED && pipe2(pfd, O_CLOEXEC) == 0);
	pid = start_in(&c, bomb); /* every member holds the pipe's writing end */
	close(pfd[1]);
	siginfo_t gone = {0};
	while (pid > 0 && gone.si_pid == 0 && __atomic_load_n(shared, __ATOMIC_RELAXED) < 100) {
		sched_yield();
		waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT);
	}
	cgroup_kill(&c);
	CHECK_INT(wait_status(pid), 1000 + SIGKILL);
	struct pollfd p = {.fd = pfd[0], .events = POLLIN};
	CHECK(poll(&p, 1, 60000) == 1 && (p.revents & POLLHUP)); /* nobody holds it any more */
	close(pfd[0]);
	snprintf(name, sizeof(name), "%s", c.name);
	parent_fd = dup(c.parent_fd[0]);
	cgroup_remove(&c);
	CHECK(!group_exists(parent_fd, name));
	CHECK_INT(c.kind, CGROUP_NONE);
	close(parent_fd);
	munmap((void *)shared, 4096);
}

static int just_exit(void)
{
	return 5;
}

TEST(only_asked_controllers_get_a_group)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;
	int dirs = 0, left = 0;

	l.pids = 64;
	CHECK_INT(cgroup_make(&c, "test-one", &l, &e), 0);
	if (c.kind == CGROUP_NONE)
		SKIP("no cgroup can be made here");
	for (size_t i = 0; i < CGROUP_DIRS_MAX; i++)
		dirs += c.dir_fd[i] >= 0;
	CHECK_INT(dirs, 1);
	CHECK(!(c.has & ~(unsigned)CGROUP_HAS_PIDS));
	CHECK(group_exists(c.parent_fd[0], c.name));
	int parent = dup(c.parent_fd[0]);
	char name[64];
	snprintf(name, sizeof(name), "%s", c.name);
	cgroup_remove(&c);
	left = group_exists(parent, name);
	close(parent);
	CHECK_INT(left, 0);
}

TEST(no_limits_still_give_a_group_to_kill_by)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;
	int rc;

	CHECK_INT(cgroup_make(&c, "test-bare", &l, &e), 0);
	if (c.kind == CGROUP_NONE)
		SKIP("no cgroup can be made here");
	CHECK_INT(c.has, 0);
	CHECK_INT(cgroup_clone_fd(&c), c.kind == CGROUP_V2 ? c.dir_fd[0] : -1);
	rc = wait_status(start_in(&c, just_exit));
	cgroup_kill(&c);
	cgroup_remove(&c);
	CHECK_INT(rc, 5);
}

static int pause_forever(void)
{
	for (;;)
		pause();
	return 0;
}

TEST(entering_by_pid_and_kill)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;
	pid_t pid;
	int rc;

	l.pids = 8;
	CHECK_INT(cgroup_make(&c, "test-enter", &l, &e), 0);
	if (c.kind == CGROUP_NONE)
		SKIP("no cgroup can be made here");
	pid = fork();
	if (pid == 0)
		_exit(pause_forever());
	rc = cgroup_enter(&c, pid, &e);
	if (rc == 0)
		cgroup_kill(&c);
	else
		kill(pid, SIGKILL);
	int end = wait_status(pid), again = cgroup_enter(&c, pid, &e); /* gone by now */
	cgroup_remove(&c);
	CHECK_INT(rc, 0);
	CHECK_INT(end, 1000 + SIGKILL);
	CHECK(again < 0 && e.msg[0]);
}

/* Its group may be taken away between two of our looks: any croft on the machine does that. */
static void leave_and_reap(bool *ret_theirs)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;
	int told[2], up[2];
	char name[64] = "", ch;
	pid_t pid;

	l.pids = 8;
	CHECK_INT(cgroup_make(&c, "test-reaper", &l, &e), 0);
	if (c.kind == CGROUP_NONE)
		SKIP("no cgroup can be made here");
	CHECK(pipe(told) == 0 && pipe2(up, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		struct cgroup lost = CGROUP_INIT;

		if (cgroup_make(&lost, "test-lost", &l, &e) < 0 ||
			start_in(&lost, pause_forever) < 0)
			_exit(1);
		if (write(told[1], lost.name, sizeof(lost.name)) < 0)
			_exit(1);
		pause_forever();
	}
	close(up[1]);
	CHECK(read(told[0], name, sizeof(name)) == sizeof(name));
	close(told[0]);
	close(told[1]);
	cgroup_reap_stale(&c); /* its supervisor lives */
	CHECK(group_exists(c.parent_fd[0], name));
	kill(pid, SIGKILL);
	/* Whoever should reap it may take its time: a zombie is gone. */
	CHECK(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT) == 0);
	/* Control: the kernel does not remove it. */
	*ret_theirs = !group_exists(c.parent_fd[0], name);
	cgroup_reap_stale(&c);
	CHECK(!group_exists(c.parent_fd[0], name));
	CHECK(group_exists(c.parent_fd[0], c.name));
	struct pollfd p = {.fd = up[0], .events = POLLIN};
	CHECK(poll(&p, 1, 60000) == 1); /* the member that was left behind is gone */
	CHECK(read(up[0], &ch, 1) == 0);
	close(up[0]);
	CHECK_INT(wait_status(pid), 1000 + SIGKILL);
	cgroup_remove(&c);
}

/* A supervisor that was killed leaves its group; a later one takes it away, members and all. */
TEST(stale_groups_are_reaped_and_living_ones_are_not)
{
	bool theirs = true;

	for (int i = 0; i < 5 && theirs && !test_failed && !test_skipped; i++)
		leave_and_reap(&theirs);
	CHECK(!theirs || test_skipped);
}

/* The number of a dead supervisor may belong to somebody else by now. */
TEST(a_reused_pid_does_not_keep_a_stale_group)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;
	char old[64], *time;
	bool gone;

	l.pids = 8;
	CHECK_INT(cgroup_make(&c, "test-reused", &l, &e), 0);
	if (c.kind == CGROUP_NONE)
		SKIP("no cgroup can be made here");
	snprintf(old, sizeof(old), "%s",
		c.name); /* croft-PID.NS.TIME-ID: made when the machine booted */
	time = strchr(strchr(old, '.') + 1, '.') + 1;
	snprintf(time, (size_t)(old + sizeof(old) - time), "1-lost");
	CHECK(mkdirat(c.parent_fd[0], old, 0755) == 0);
	cgroup_reap_stale(&c);
	gone = !group_exists(c.parent_fd[0], old);
	unlinkat(c.parent_fd[0], old, AT_REMOVEDIR);
	bool kept = group_exists(c.parent_fd[0], c.name);
	cgroup_remove(&c);
	CHECK(gone);
	CHECK(kept);
}

TEST(bad_ids_are_refused)
{
	struct cgroup_limits l = NONE;
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;

	CHECK_INT(cgroup_make(&c, "", &l, &e), -EINVAL);
	CHECK_INT(cgroup_make(&c, "../x", &l, &e), -EINVAL);
	CHECK_INT(cgroup_make(&c, "a b", &l, &e), -EINVAL);
	CHECK_INT(cgroup_make(&c, "0123456789012345678901234567890123", &l, &e), -EINVAL);
	CHECK_INT(c.kind, CGROUP_NONE);
}

TEST(forced_absence_is_none_with_a_reason_and_harmless)
{
	struct cgroup_limits l = {.memory_b = 1u << 30, .cpu_milli = 1000, .pids = 10};
	struct cgroup c = CGROUP_INIT;
	struct cgroup_usage u = {.hits = {.oom_kills = 9}};
	struct err e = ERR_INIT;
	int fds[CGROUP_DIRS_MAX];

	setenv("CROFT_FORCE_FAIL", "cgroup", 1);
	int rc = cgroup_make(&c, "test-forced", &l, &e);
	unsetenv("CROFT_FORCE_FAIL");
	CHECK_INT(rc, 0);
	CHECK_INT(c.kind, CGROUP_NONE);
	CHECK_INT(c.has, 0);
	CHECK(c.why[0]);
	CHECK_INT(cgroup_clone_fd(&c), -1);
	CHECK_INT(cgroup_join_fds(&c, fds, &e), 0);
	CHECK_INT(cgroup_enter(&c, getpid(), &e), 0);
	cgroup_usage(&c, &u);
	CHECK_INT(u.hits.oom_kills, 0);
	cgroup_kill(&c);
	cgroup_remove(&c);
}

static int try_as_user(void)
{
	struct cgroup_limits l = {.memory_b = 1u << 30, .cpu_milli = 1000, .pids = 10};
	struct cgroup c = CGROUP_INIT;
	struct err e = ERR_INIT;

	if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
		return 2;
	if (cgroup_make(&c, "test-user", &l, &e) < 0)
		return 3;
	cgroup_remove(&c);
	/* What is missing is explained; what is there needs no excuse. */
	return c.why[0] ? 0 : 4;
}

TEST(a_user_without_delegation_is_told_why)
{
	pid_t pid;

	if (geteuid() != 0)
		SKIP("needs root, to become a user that nobody delegates to");
	pid = fork();
	if (pid == 0)
		_exit(try_as_user());
	CHECK_INT(wait_status(pid), 0);
}
