/* SPDX-License-Identifier: Apache-2.0 */
/* What croft executes itself is announced once for each exec. */
#include "engine/broker/starts.h"

#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

TEST(starts_one_announcement_is_good_for_one_exec)
{
	struct starts *s = starts_new();
	struct start_seen seen, again;

	CHECK(s);
	CHECK(!starts_find(s, getpid(), &seen));
	starts_announce(s, 3);
	CHECK(starts_find(s, getpid(), &seen));
	CHECK(!starts_find(s, getppid(), &again));
	CHECK(!starts_find(s, 0, &again));
	starts_use(s, &seen);
	CHECK(!starts_find(s, getpid(), &seen));
	/* Announced again before the first was used up. */
	starts_announce(s, 3);
	CHECK(starts_find(s, getpid(), &seen));
	starts_announce(s, 3);
	starts_use(s, &seen);
	CHECK(starts_find(s, getpid(), &again));
	starts_forget(s, 3);
	CHECK(!starts_find(s, getpid(), &again));
	starts_use(s, &seen);
	CHECK(!starts_find(s, getpid(), &again));
}

TEST(starts_are_seen_by_who_shares_the_memory)
{
	struct starts *s = starts_new();
	struct start_seen seen;
	pid_t pid;

	CHECK(s);
	pid = fork();
	if (pid == 0) {
		starts_announce(s, STARTS_MAX - 1);
		starts_announce(s, STARTS_MAX); /* there is no such slot */
		_exit(0);
	}
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	CHECK(starts_find(s, pid, &seen));
	CHECK_INT(seen.slot, STARTS_MAX - 1);
	starts_forget(s, STARTS_MAX);
	CHECK(starts_find(s, pid, &seen));
}

TEST(starts_nothing_is_announced_without_a_broker)
{
	struct start_seen seen;

	starts_announce(NULL, 0);
	starts_forget(NULL, 0);
	CHECK(!starts_find(NULL, getpid(), &seen));
}
