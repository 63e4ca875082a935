/* SPDX-License-Identifier: Apache-2.0 */
/* policy/tier: the order of boundaries, those of later versions included. */
#include "test.h"

#include "base/cleanup.h"
#include "policy/policy.h"

TEST(the_order)
{
	static const char *const order[] = {"unknown", "workspace", "process", "auto", "namespace",
		"container", "gvisor", "vm"};

	for (size_t i = 1; i < ARRAY_SIZE(order); i++)
		CHECK(policy_tier_strength(order[i - 1]) < policy_tier_strength(order[i]));
}

TEST(what_cannot_be_compared_is_the_weakest)
{
	static const char *const none[] = {
		"wasm", "unknown", "", "Namespace", "namespace ", "quantum"};

	CHECK_INT(policy_tier_strength(NULL), TIER_STRENGTH_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		CHECK_INT(policy_tier_strength(none[i]), TIER_STRENGTH_NONE);
	CHECK_INT(tier_strength(TIER_NUM), TIER_STRENGTH_NONE);
}

TEST(tiers_of_this_version)
{
	for (int t = 0; t < TIER_NUM; t++)
		CHECK(tier_strength((unsigned)t) > TIER_STRENGTH_NONE);
	CHECK_STR(policy_tier_find("process", true), "process");
	CHECK_STR(policy_tier_find("namespace", true), "namespace");
	CHECK_STR(policy_tier_find("vm", false), "vm");
	CHECK_STR(policy_tier_find("wasm", false), "wasm");
	CHECK(!policy_tier_find("vm", true));
	CHECK(!policy_tier_find("auto", true)); /* no command ran in that */
	CHECK(!policy_tier_find("auto", false));
	CHECK(!policy_tier_find("quantum", false));
	CHECK(!policy_tier_find(NULL, false));
}
