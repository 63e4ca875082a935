/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger tells of the boundary: see env_ran.h.
 *
 * Forks:  staged work comes with the fork, so the commands of the environment it was forked from count,
 *         those that ran there afterwards included: that can only make the claim weaker.
 * Limits: FORKS_MAX generations; beyond them the answer is "unknown".
 */
#include "env/env_ran.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/story.h"
#include "policy/policy.h"

#define FORKS_MAX 64

/* The weaker of the tiers so far (NULL: none) and another command's, which may be any text. Static text. */
static const char *weaker(const char *so_far, const char *tier)
{
	const char *known = policy_tier_find(tier, false);
	int strength = policy_tier_strength(known);

	if (strength == TIER_STRENGTH_NONE)
		return "unknown";
	return so_far && policy_tier_strength(so_far) <= strength ? so_far : known;
}

static void take_policy(struct land_ran *ret, const char *digest)
{
	if (!ret->policy[0] && digest && strlen(digest) == DIGEST_HEX_LEN)
		snprintf(ret->policy, sizeof(ret->policy), "%s", digest);
}

/* One environment's commands; its parent's id, "" when it has none, is left in next. */
static bool add_up(struct land_ran *ret, const struct repo *r, const char *id, char next[17])
{
	cleanup_story struct story s = {0};
	struct ledger_tip tip = {0};
	struct err ignored = ERR_INIT;

	if (ledger_tip(&tip, r, id, &ignored) < 0 || oid_is_none(&tip.commit) ||
		story_read(&s, r, &tip.commit, 0, &ignored) < 0)
		return false;
	for (size_t i = s.commands_n; i-- > 0;) {
		ret->tier = weaker(ret->tier, s.commands[i].tier);
		take_policy(ret, s.commands[i].policy);
	}
	take_policy(ret, s.policy);
	next[0] = '\0';
	if (!s.parent)
		return true;
	/* Whoever wrote this id did not have to be us: ledger_tip() judges its form. */
	return (size_t)snprintf(next, 17, "%s", s.parent) < 17;
}

void land_ran(struct env *v, struct land_ran *ret)
{
	char id[17], next[17] = "";

	*ret = (struct land_ran){0};
	memcpy(id, v->id, sizeof(id));
	for (int i = 0; id[0]; i++) {
		if (i >= FORKS_MAX || !add_up(ret, &v->repo, id, next)) {
			ret->tier = "unknown";
			break;
		}
		memcpy(id, next, sizeof(id));
	}
}
