/* SPDX-License-Identifier: Apache-2.0 */
/* The process tier: Landlock, seccomp, the broker and rlimits, with no namespace at all. */
#include <errno.h>
#include <stddef.h>

#include "engine/box/launch.h"
#include "engine/process/process_tier.h"
#include "os/landlock.h"

static int process_probe(struct err *e)
{
	if (landlock_abi() == 0)
		return err_refuse(e,
			"Landlock is not available (kernel older than 5.13, or not in the lsm= "
			"list): nothing would confine files in the process tier");
	return 0;
}

static int process_start(struct sandbox *s, const struct plan *p, const struct request *r,
	int cgroup_fd, struct err *e)
{
	const char *scratch[] = {r->scratch ? r->scratch : "/nonexistent", NULL};
	struct init in = {.plan = p, .request = r, .scratch = scratch};

	if (process_probe(e) < 0)
		return -e->errnum;
	in.counts_user = true;
	return launch(s, &in, 0, cgroup_fd, e);
}

const struct engine engine_process = {
	.name = "process",
	.tier = TIER_PROCESS,
	.can = ENGINE_BROKER,
	.probe = process_probe,
	.plan = process_compile,
	.start = process_start,
};
