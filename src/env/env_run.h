/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A staged `croft run`: an environment of one command. Its lowest layer is the directory itself; it
 * becomes an environment with a name and a ledger only if the command changed something, so a command that
 * changes nothing costs one write and leaves a slot for the next one (env_slot.h).
 */
#ifndef CROFT_ENV_ENV_RUN_H
#define CROFT_ENV_ENV_RUN_H

#include "env/env.h"
#include "env/env_slot.h"
#include "session/run/run.h"

struct env_run {
	struct env env; /* opened as long as this is */
	struct env_slot slot;
	bool kept; /* it has a name now: env.name */
};

/* q: as for run_command(), without staging. state_dir is croft's. */
int env_run(struct env_run *ret, struct run_request *q, const char *state_dir, struct receipt *r,
	struct err *e);
void env_run_done(struct env_run *x);
/* The plan that it would execute; leaves nothing behind. */
int env_run_plan(struct plan *ret, struct run_request *q, const char *state_dir,
	struct policy *live, struct err *e);
/* Staged runs whose supervisor was killed: named now, or removed when they changed nothing. */
int env_run_adopt(struct strlist *notes, struct err *e);

#endif
