/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger tells of the boundary: see land_ran.h.
 *
 * Forks:  staged work comes with the fork, so the commands of the environment it was forked from count,
 *         those that ran there afterwards included: that can only make the claim weaker.
 * Limits: FORKS_MAX generations; beyond them the answer is "unknown".
 */
#include "core/land_ran.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/export_story.h"

#define FORKS_MAX 64

/* Weakest first. */
static const char *const tiers[] = {"unknown", "process", "namespace"};
#define NONE_RAN ARRAY_SIZE(tiers)

static size_t rank(const char *tier)
{
	for (size_t i = 1; tier && i < ARRAY_SIZE(tiers); i++)
		if (str_eq(tier, tiers[i]))
			return i;
	return 0;
}

static void take_policy(struct land_ran *ret, const char *digest)
{
	if (!ret->policy[0] && digest && strlen(digest) == DIGEST_HEX_LEN)
		snprintf(ret->policy, sizeof(ret->policy), "%s", digest);
}

/* One environment's commands; its parent's id, "" when it has none, is left in next. */
static bool add_up(
	struct land_ran *ret, size_t *weakest, const struct repo *r, const char *id, char next[17])
{
	cleanup_story struct story s = {0};
	struct ledger_tip tip = {0};
	struct err ignored = ERR_INIT;

	if (ledger_tip(&tip, r, id, &ignored) < 0 || oid_is_none(&tip.commit) ||
		story_read(&s, r, &tip.commit, 0, &ignored) < 0)
		return false;
	for (size_t i = s.commands_n; i-- > 0;) {
		*weakest = MIN_OF(*weakest, rank(s.commands[i].tier));
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
	size_t weakest = NONE_RAN;
	char id[17], next[17] = "";

	*ret = (struct land_ran){0};
	memcpy(id, v->id, sizeof(id));
	for (int i = 0; id[0]; i++) {
		if (i >= FORKS_MAX || !add_up(ret, &weakest, &v->repo, id, next)) {
			weakest = 0;
			break;
		}
		memcpy(id, next, sizeof(id));
	}
	ret->tier = weakest < NONE_RAN ? tiers[weakest] : NULL;
}
