/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of this version, by strength and by tier: see engine.h. */
#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/cleanup.h"

const struct engine *const engine_list[] = {&engine_namespace, &engine_process};
const size_t engine_list_n = ARRAY_SIZE(engine_list);
static_assert(ARRAY_SIZE(engine_list) == TIER_NUM - 1, "an engine for every tier but auto");
static_assert(ARRAY_SIZE(engine_list) <= ENGINES_MAX, "room for every engine");

const struct engine *engine_of(enum tier t)
{
	for (size_t i = 0; i < engine_list_n; i++)
		if (engine_list[i]->tier == t)
			return engine_list[i];
	return NULL;
}

bool engine_tier_can(enum tier t, unsigned can)
{
	for (size_t i = 0; i < engine_list_n; i++)
		if ((t == TIER_AUTO || engine_list[i]->tier == t) &&
			(engine_list[i]->can & can) == can)
			return true;
	return false;
}

void sandbox_abandon(struct sandbox *s)
{
	kill(s->pid, SIGKILL);
	close_fd(&s->control);
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close_fd(&s->pidfd);
	s->pid = 0;
	s->waits = false;
}
