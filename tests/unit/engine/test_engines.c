/* SPDX-License-Identifier: Apache-2.0 */
/* engine/engine: every tier has an engine, in one order, and what engines say of themselves fits together. */
#include "test.h"

#include "engine/engine.h"

TEST(every_tier_has_its_engine)
{
	CHECK(!engine_of(TIER_AUTO));
	for (int t = 0; t < TIER_NUM; t++) {
		const struct engine *en = engine_of((enum tier)t);

		if (t == TIER_AUTO)
			continue;
		CHECK(en != NULL);
		CHECK(en->tier == (enum tier)t);
		CHECK_STR(en->name, policy_tier_names[t]);
		CHECK(en->probe && en->plan && en->start);
	}
}

TEST(engines_are_listed_strongest_first)
{
	for (size_t i = 0; i < engine_list_n; i++) {
		CHECK(tier_strength(engine_list[i]->tier) > TIER_STRENGTH_NONE);
		if (i > 0)
			CHECK(tier_strength(engine_list[i - 1]->tier) >
				tier_strength(engine_list[i]->tier));
	}
}

TEST(what_an_engine_can_fits_together)
{
	for (size_t i = 0; i < engine_list_n; i++) {
		unsigned can = engine_list[i]->can;

		/* layers are mounted, which needs a root to mount them in */
		CHECK(!(can & ENGINE_STAGE) || can & ENGINE_PRIVATE_ROOT);
		/* hostile code may neither outlive its boundary nor see the host's processes */
		CHECK(!(can & ENGINE_HOSTILE) || can & ENGINE_OWN_PIDS);
		CHECK(!(can & ENGINE_HOSTILE) || can & ENGINE_OWN_NETWORK);
	}
	/* `threat: hostile` with staged changes must have somewhere to run */
	CHECK(engine_tier_can(TIER_AUTO, ENGINE_HOSTILE | ENGINE_STAGE));
}

TEST(a_tier_can_what_its_engine_can)
{
	CHECK(engine_tier_can(TIER_NAMESPACE, ENGINE_STAGE | ENGINE_OWN_PIDS));
	CHECK(!engine_tier_can(TIER_PROCESS, ENGINE_STAGE));
	CHECK(!engine_tier_can(TIER_PROCESS, ENGINE_BROKER | ENGINE_STAGE));
	CHECK(engine_tier_can(TIER_PROCESS, ENGINE_BROKER));
	CHECK(engine_tier_can(TIER_AUTO, ENGINE_BROKER));
	CHECK(!engine_tier_can(TIER_AUTO, ENGINE_BROKER | ENGINE_STAGE)); /* no single one */
}
