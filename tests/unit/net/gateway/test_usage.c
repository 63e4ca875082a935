/* SPDX-License-Identifier: Apache-2.0 */
/* net/usage: rates, uses, bytes and ends of rules. */
#include "test.h"

#include "base/cleanup.h"
#include "net/gateway/usage.h"

static struct net_rule rule(const char *name, struct net_limits l)
{
	return (struct net_rule){.name = name, .limits = l};
}

static int taken(struct usage *u, const struct net_rule *r, uint64_t now_ms, int tries)
{
	struct net_verdict v = {0};
	int n = 0;

	for (int i = 0; i < tries; i++)
		n += usage_take_at(u, r, now_ms, 1000, &v);
	return n;
}

TEST(without_limits_nothing_is_counted)
{
	struct usage *u = usage_new();
	struct net_rule r = rule("a", (struct net_limits){0});

	CHECK_INT(taken(u, &r, 1, 100000), 100000);
	CHECK(usage_bytes_at(u, &r, UINT64_MAX, UINT64_MAX));
	usage_free(u);
}

TEST(a_bucket_holds_a_minute_and_fills_at_its_rate)
{
	struct usage *u = usage_new();
	struct net_rule r = rule("m", (struct net_limits){.rate_milli = 1000}); /* 60/m */

	CHECK_INT(taken(u, &r, 5000, 100), 60);
	CHECK_INT(taken(u, &r, 5999, 10), 0);
	CHECK_INT(taken(u, &r, 6000, 10), 1);
	CHECK_INT(taken(u, &r, 16000, 100), 10);
	CHECK_INT(taken(u, &r, 16000 + 3600000, 100), 60); /* no more than it holds */
	usage_free(u);
}

TEST(slow_rates_allow_a_few_at_once_but_not_more_than_they_give)
{
	struct usage *u = usage_new();
	struct net_rule hour = rule("h", (struct net_limits){.rate_milli = 8}),
			rare = rule("r", (struct net_limits){.rate_milli = 1});

	CHECK_INT(taken(u, &hour, 1, 100), 8);
	CHECK_INT(taken(u, &rare, 1, 100), 1);
	CHECK_INT(taken(u, &rare, 1000000, 100), 0);
	CHECK_INT(taken(u, &rare, 1000002, 100), 1);
	usage_free(u);
}

TEST(a_clock_that_goes_back_gives_nothing)
{
	struct usage *u = usage_new();
	struct net_rule r = rule("m", (struct net_limits){.rate_milli = 1000});

	CHECK_INT(taken(u, &r, 100000, 100), 60);
	CHECK_INT(taken(u, &r, 50000, 100), 0);
	usage_free(u);
}

TEST(uses_are_kept_by_name_across_generations)
{
	struct usage *u = usage_new();
	struct net_rule old = rule("one", (struct net_limits){.uses = 3}), fresh = old, other = old;
	char name[] = "one";
	struct net_verdict v = {0};

	fresh.name = name; /* the same rule, read again */
	other.name = "two";
	CHECK_INT(taken(u, &old, 1, 2), 2);
	CHECK_INT(taken(u, &fresh, 1, 5), 1);
	CHECK(!usage_take_at(u, &fresh, 1, 1, &v));
	CHECK_INT(v.effect, NET_DENY);
	CHECK(v.rule == &fresh);
	CHECK(v.why[0] && v.fix[0]);
	CHECK_INT(taken(u, &other, 1, 5), 3);
	usage_free(u);
}

TEST(a_refused_one_does_not_count_as_a_use)
{
	struct usage *u = usage_new();
	struct net_rule r = rule("a", (struct net_limits){.uses = 5, .rate_milli = 1});

	CHECK_INT(taken(u, &r, 1, 10), 1);
	for (uint64_t i = 1; i < 5; i++)
		CHECK_INT(taken(u, &r, i * 2000000, 10), 1);
	CHECK_INT(taken(u, &r, 99000000, 10), 0);
	usage_free(u);
}

TEST(bytes_end_a_rule)
{
	struct usage *u = usage_new();
	struct net_rule r = rule("a", (struct net_limits){.up_b = 100, .down_b = 1000});
	struct net_verdict v = {0};

	CHECK(usage_bytes_at(u, &r, 100, 1000));
	CHECK(!usage_bytes_at(u, &r, 1, 0));
	CHECK(!usage_take_at(u, &r, 1, 1, &v));
	usage_free(u);
}

TEST(a_rule_ends_at_its_second)
{
	struct usage *u = usage_new();
	struct net_rule r = rule("a", (struct net_limits){.expires = 1000});
	struct net_verdict v = {0};

	CHECK(usage_take_at(u, &r, 1, 999, &v));
	CHECK(!usage_take_at(u, &r, 1, 1000, &v));
	usage_free(u);
}

TEST(many_rules_find_their_own_counters)
{
	struct usage *u = usage_new();
	char name[32];

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < 3000; i++) {
			struct net_rule r = rule(name, (struct net_limits){.uses = 1});

			snprintf(name, sizeof(name), "rule-%d", i);
			CHECK_INT(taken(u, &r, 1, 2), pass == 0);
		}
	usage_free(u);
}

TEST(a_full_table_refuses)
{
	struct usage *u = usage_new();
	char name[32];
	int ok = 0;

	for (int i = 0; i < 3 * USAGE_RULES_MAX; i++) {
		struct net_rule r = rule(name, (struct net_limits){.uses = 1});

		snprintf(name, sizeof(name), "rule-%d", i);
		ok += taken(u, &r, 1, 1);
	}
	CHECK(ok >= USAGE_RULES_MAX);
	CHECK(ok <= 2 * USAGE_RULES_MAX);
	usage_free(u);
}

TEST(what_was_used_stays_used_when_it_was_put_away)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct usage *u = usage_new(), *back = usage_new();
	struct net_rule twice = rule("twice", (struct net_limits){.uses = 2}),
			some = rule("some", (struct net_limits){.up_b = 100}),
			rare = rule("rare", (struct net_limits){.rate_milli = 1000});
	struct unpack from;

	CHECK_INT(taken(u, &twice, 1, 1), 1);
	CHECK_INT(taken(u, &some, 1, 1), 1);
	CHECK(usage_bytes_at(u, &some, 60, 0));
	CHECK_INT(taken(u, &rare, 5000, 100), 60);
	usage_pack(u, &b);
	from = unpack_of(b.data, b.len);
	CHECK(usage_unpack(back, &from) && unpack_good(&from));
	CHECK_INT(taken(back, &twice, 1, 5), 1);
	CHECK(!usage_bytes_at(back, &some, 60, 0));
	CHECK_INT(taken(back, &rare, 5999, 10), 0);
	CHECK_INT(taken(back, &rare, 6000, 10), 1);
	usage_free(back);
	for (size_t cut = 0; cut < b.len; cut++) {
		from = unpack_of(b.data, cut);
		back = usage_new();
		CHECK(!usage_unpack(back, &from));
		usage_free(back);
	}
	usage_free(u);
}
