/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiers by strength, those of later versions included: the one place that says which boundary is
 * stronger than which. What a tier can do is said by its engine (engine/engine.h), not here.
 */
#include <assert.h>

#include "base/cleanup.h"
#include "policy/policy.h"

const char *const policy_tier_names[] = {"auto", "process", "namespace"};
static_assert(ARRAY_SIZE(policy_tier_names) == TIER_NUM, "a name per tier");

/* Steps of ten leave room for "auto". */
static const struct {
	const char *name;
	int strength;
} tiers[] = {
	{"workspace", 10}, {"process", 20}, {"auto", 25}, {"namespace", 30}, {"container", 40},
	{"gvisor", 50}, {"vm", 60},
	{"wasm", TIER_STRENGTH_NONE}, /* confines by its language, not by the kernel */
};

int policy_tier_strength(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(tiers); i++)
		if (str_eq(tiers[i].name, name))
			return tiers[i].strength;
	return TIER_STRENGTH_NONE;
}

int tier_strength(unsigned t)
{
	return t < TIER_NUM ? policy_tier_strength(policy_tier_names[t]) : TIER_STRENGTH_NONE;
}

static bool is_here(const char *name)
{
	for (unsigned t = 0; t < TIER_NUM; t++)
		if (str_eq(policy_tier_names[t], name))
			return true;
	return false;
}

const char *policy_tier_find(const char *name, bool here)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(tiers); i++)
		if (str_eq(tiers[i].name, name) && !str_eq(name, policy_tier_names[TIER_AUTO]) &&
			(!here || is_here(name)))
			return tiers[i].name;
	return NULL;
}
