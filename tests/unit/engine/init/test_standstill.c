/* SPDX-License-Identifier: Apache-2.0 */
/* engine/init/standstill: all stand still, or all go on and nobody says otherwise. */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/init/standstill.h"
#include "os/proctree.h"

#define STACK_B (64u << 10)

_Noreturn static void wait_for_ever(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* not left behind by a test that fails */
	for (;;)
		pause();
}

static pid_t begin_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		wait_for_ever();
	if (pid < 0) /* nobody may signal -1 */
		abort();
	return pid;
}

static int vfork_child(void *arg)
{
	const int *ready = arg;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (write(*ready, "", 1) != 1)
		return 1;
	for (;;)
		pause();
}

/* A child that waits in vfork() for its own child; `how` may give that one another parent. */
static pid_t begin_vfork(int how)
{
	static char stack[STACK_B];
	int ready[2];
	char c;
	pid_t pid;

	if (pipe(ready) < 0)
		abort();
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		clone(vfork_child, stack + STACK_B, CLONE_VM | CLONE_VFORK | SIGCHLD | how, &ready[1]);
		_exit(1);
	}
	if (pid < 0 || read(ready[0], &c, 1) != 1)
		abort();
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void end_all(void)
{
	proctree_kill(NULL, 0);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

/* Stops and continuations take effect when the process is next scheduled. */
static bool comes_to(pid_t pid, bool stopped)
{
	for (int i = 0; proctree_stopped(pid) != stopped && i < 60000; i++)
		poll(NULL, 0, 1);
	return proctree_stopped(pid) == stopped;
}

TEST(all_stop_and_what_had_stopped_before_stays_so)
{
	struct standstill s = {0};
	pid_t spared = begin_child(), a = begin_child(), b = begin_child(), before = begin_child();

	kill(before, SIGSTOP);
	CHECK(comes_to(before, true) && !proctree_stopped(a));
	CHECK(standstill_begin(&s, &spared, 1, -1));
	CHECK(proctree_stopped(a) && proctree_stopped(b) && !proctree_stopped(spared));
	CHECK(standstill_begin(&s, &spared, 1, -1)); /* it does already */
	standstill_end(&s, &spared, 1);
	CHECK(comes_to(a, false) && comes_to(b, false) && proctree_stopped(before));
	standstill_end(&s, &spared, 1); /* it goes on already */
	end_all();
}

/* One that waits in vfork() takes no signal, as one that has no turn on a busy machine. */
TEST(what_was_told_to_stop_before_stays_so)
{
	struct standstill s = {0};
	pid_t parent;

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
	parent = begin_vfork(0);
	CHECK(!proctree_will_stop(parent));
	kill(parent, SIGSTOP);
	CHECK(proctree_will_stop(parent) && !proctree_stopped(parent));
	CHECK(standstill_begin(&s, NULL, 0, -1));
	standstill_end(&s, NULL, 0);
	CHECK(proctree_will_stop(parent)); /* still */
	kill(parent, SIGCONT);
	CHECK(!proctree_will_stop(parent));
	end_all();
}

TEST(who_waits_in_vfork_for_a_child_that_has_stopped_counts_as_stopped)
{
	struct standstill s = {0};
	pid_t parent, beside = begin_child();

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
	parent = begin_vfork(0);
	CHECK(!proctree_vfork_stopped(parent)); /* its child runs */
	CHECK(standstill_begin(&s, NULL, 0, -1));
	CHECK(proctree_vfork_stopped(parent) && !proctree_stopped(parent) && proctree_stopped(beside));
	standstill_end(&s, NULL, 0);
	CHECK(comes_to(beside, false) && !proctree_vfork_stopped(beside));
	end_all();
}

TEST(if_one_may_still_run_all_go_on)
{
	struct standstill s = {0};
	pid_t parent, beside = begin_child(), before = begin_child();

	kill(before, SIGSTOP);
	CHECK(comes_to(before, true));
	/* It waits in the kernel as one that waits for a disk does: nobody can tell what for. */
	parent = begin_vfork(CLONE_PARENT);
	CHECK(!standstill_begin(&s, NULL, 0, -1));
	CHECK(!s.on && !s.before && !proctree_vfork_stopped(parent));
	CHECK(comes_to(beside, false) && proctree_stopped(before));
	end_all();
	beside = begin_child(); /* the control */
	CHECK(standstill_begin(&s, NULL, 0, -1));
	standstill_end(&s, NULL, 0);
	end_all();
}

TEST(nobody_stands_still_for_a_peer_that_is_gone)
{
	struct standstill s = {0};
	pid_t beside = begin_child();
	int pair[2];

	begin_vfork(CLONE_PARENT);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	close(pair[1]);
	CHECK(!standstill_begin(&s, NULL, 0, pair[0]));
	CHECK(comes_to(beside, false));
	close(pair[0]);
	end_all();
}
