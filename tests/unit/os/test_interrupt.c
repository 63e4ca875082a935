/* SPDX-License-Identifier: Apache-2.0 */
/* Ending signals: held, watched, nested, and those that the caller ignores. */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/interrupt.h"

#define REQUIRE(c)                                                                                 \
	do {                                                                                       \
		if (!(c))                                                                          \
			return __LINE__ % 256 ? __LINE__ % 256 : 1;                                \
	} while (0)

/* Exit status, or 1000 and the signal. */
static int in_child(int (*f)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(f());
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1 && p.revents;
}

static int hold(void)
{
	struct interrupt i = {0};

	interrupt_hold(&i);
	raise(SIGINT);
	REQUIRE(interrupt_wanted() == 0 && interrupt_fd() == -1);
	interrupt_release(&i);
	return 0; /* not reached */
}

TEST(a_held_signal_acts_at_the_release)
{
	CHECK_INT(in_child(hold), 1000 + SIGINT);
}

static int watch(void)
{
	struct interrupt outer = {0}, inner = {0};
	struct err e = ERR_INIT;

	interrupt_watch(&outer);
	REQUIRE(interrupt_wanted() == 0 && interrupt_check(&e) == 0 && !readable(interrupt_fd()));
	raise(SIGTERM);
	REQUIRE(interrupt_wanted() == SIGTERM && interrupt_check(&e) == -EINTR && e.msg[0]);
	REQUIRE(readable(interrupt_fd()));
	interrupt_hold(&inner); /* cleaning up is not stopped by what it cleans up after */
	REQUIRE(interrupt_wanted() == 0 && interrupt_fd() == -1);
	interrupt_release(&inner);
	REQUIRE(interrupt_wanted() == SIGTERM && readable(interrupt_fd()));
	interrupt_release(&inner); /* twice is once */
	interrupt_release(&outer);
	return 0;
}

TEST(a_watched_signal_is_seen_and_acts_at_the_release)
{
	CHECK_INT(in_child(watch), 1000 + SIGTERM);
}

static int ignored(void)
{
	struct interrupt i = {0};

	signal(SIGHUP, SIG_IGN);
	interrupt_watch(&i);
	raise(SIGHUP);
	REQUIRE(interrupt_wanted() == 0 && !readable(interrupt_fd()));
	interrupt_release(&i);
	return 7;
}

TEST(what_the_caller_ignores_stays_ignored)
{
	CHECK_INT(in_child(ignored), 7);
}

static int again(void)
{
	struct interrupt i = {0};

	interrupt_again(SIGINT); /* nobody watches: it was meant for somebody else only */
	interrupt_watch(&i);
	interrupt_again(SIGINT);
	REQUIRE(interrupt_wanted() == SIGINT);
	interrupt_release(&i);
	return 0;
}

TEST(what_was_passed_on_also_counts_here)
{
	CHECK_INT(in_child(again), 1000 + SIGINT);
}
