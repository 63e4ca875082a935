/* SPDX-License-Identifier: Apache-2.0 */
/* policy/limits: limits of one command, read as a policy has them, and compared with a sandbox's. */
#include "test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "policy/policy.h"

TEST(they_are_read_as_in_a_policy)
{
	struct policy_limits l = policy_no_limits();
	struct err e = ERR_INIT;

	CHECK(l.memory_b == LIMIT_NONE && l.timeout_ms == LIMIT_NONE && l.file_size_b == LIMIT_NONE);
	CHECK_INT(policy_limit_set(&l, "memory", "1.5G", &e), 0);
	CHECK_INT(policy_limit_set(&l, "cpus", "0.25", &e), 0);
	CHECK_INT(policy_limit_set(&l, "pids", "20", &e), 0);
	CHECK(l.memory_b == 3ull << 29 && l.cpu_milli == 250 && l.pids == 20);
	CHECK(l.open_files == LIMIT_NONE && l.disk_b == LIMIT_NONE);
	CHECK_INT(policy_limit_set(&l, "pids", "none", &e), 0);
	CHECK(l.pids == LIMIT_NONE);
}

TEST(what_is_none_is_refused_and_changes_nothing)
{
	static const char *const bad[][2] = {{"memory", "lots"}, {"memory", "-1"}, {"memory", ""},
		{"pids", "0"}, {"cpus", "x"}, {"open_files", "3"}, {"file_size", "1Q"}, {"memmory", "1G"},
		{"", "1G"}};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct policy_limits l = policy_no_limits();
		struct err e = ERR_INIT;

		CHECK_INT(policy_limit_set(&l, bad[i][0], bad[i][1], &e), -EINVAL);
		CHECK(e.msg[0] && l.memory_b == LIMIT_NONE && l.pids == LIMIT_NONE &&
			l.cpu_milli == LIMIT_NONE && l.open_files == LIMIT_NONE);
	}
}

TEST(they_are_at_most_the_sandboxs)
{
	struct policy_limits most = policy_no_limits(), own = policy_no_limits();
	struct err e = ERR_INIT;

	most.memory_b = 1u << 30;
	most.pids = 100;
	CHECK_INT(policy_limits_fit(&own, &most, "fix", &e), 0); /* none of its own */
	own.memory_b = 1u << 30;
	own.cpu_milli = 500; /* the sandbox has no limit of this kind */
	own.pids = 100;
	CHECK_INT(policy_limits_fit(&own, &most, "fix", &e), 0);
	own.pids = 101;
	CHECK(policy_limits_fit(&own, &most, "fix", &e) < 0);
	CHECK_INT(e.kind, ERR_REFUSED);
	CHECK_STR(e.msg, "a limit of 101 for pids is more than the 100 that fix has for all its commands; "
			 "ask for less, or end it first: croft down fix");
	own.pids = 1;
	own.memory_b++;
	CHECK(policy_limits_fit(&own, &most, "fix", &e) < 0);
}

TEST(they_are_shown_as_they_are_written)
{
	static const struct {
		const char *key;
		uint64_t v;
		const char *want;
	} all[] = {{"memory", 256u << 20, "256M"}, {"cpus", 2000, "2"}, {"cpus", 500, "0.500"},
		{"pids", 20, "20"}, {"file_size", LIMIT_NONE, "none"}, {"unknown", 1, ""}};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		cleanup_buf struct buf b = BUF_INIT(64);

		policy_limit_show(&b, all[i].key, all[i].v);
		CHECK_STR(buf_str(&b), all[i].want);
	}
}
