/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that implement environments share. */
#ifndef CROFT_ENV_ENV_IMPL_H
#define CROFT_ENV_ENV_IMPL_H

#include "env/env.h"
#include "engine/engine.h"
#include "session/run/run.h"

#define ENV_LAYER_NAME_LEN 16
#define ENV_IGNORED_MAX 512
#define ENV_RUN_PREFIX ".run-" /* envs/.run-LAYER: a staged run's slot; see env_slot.h */

int env_record_read(struct env *v, const char *name, struct err *e);
/* refs/croft/base/ID, which holds the commit that it starts from; and letting go of it. */
void env_base_ref(const struct env *v, char *ret, size_t size);
void env_release_base(const struct env *v);
const char *env_store_key(const struct repo *r);
/* 16 random hexadecimal digits. */
int env_random_id(char ret[17], struct err *e);
/* Make a layer with its tree and work directory; its name is written to ret. */
int env_layer_make(const struct env *v, char ret[ENV_LAYER_NAME_LEN + 1], struct err *e);
/* While v is up (beside_fd): a new layer with what its upper one has now. v's notes say what it cost. */
int env_copy_upper(struct env *v, char ret[ENV_LAYER_NAME_LEN + 1], struct err *e);
/* All layers but the start's become one, in v's own list. Saved by the caller. */
int env_squash(struct env *v, struct err *e);
/* Absolute path of a part ("tree", "work", "i3") of a layer. */
int env_layer_path(const struct env *v, const char *layer, const char *part, char *ret, size_t size,
	struct err *e);

/*
 * Bases and layers that no record names yet belong to whoever holds this shared; gc takes it alone.
 * A descriptor, or -1.
 */
int env_hold_gc(const char *state_dir, bool alone);
/* Clear away what makers that are gone left half made: nobody holds it any more. */
void env_sweep_unborn(const char *state_dir);

/* The layers of an environment as the engine mounts them. */
struct env_stage {
	struct staging staging;
	struct staging_tree *trees;
	struct strlist text; /* owns the paths */
	const char **lists;  /* owns the arrays of lower layers */
	size_t lists_n;
	const char **objects;
};
void env_stage_done(struct env_stage *s);
int env_stage(struct env *v, bool read_only, struct env_stage *ret, struct err *e);

/* What a command in an environment asks of session/run, but for staging and record (env_exec.c). */
struct env_exec;
struct run_request env_request(const struct env *v, const struct env_exec *x);
/* Landed or discarded: from now on there may be new work in it. */
int env_reopen(struct env *v, struct err *e);
/* Directories of objects are the host's: the policy of this very command decides about them. */
int env_check_objects(
	struct env *v, const struct env_exec *x, struct env_stage *s, struct err *e);

/* Without an overlay: base and start layer, copied to where commands run (env_copy.c). */
int env_start_copy(struct env *v, struct err *e);
/* The ledger's first event; and the name, from which on the environment exists. */
int env_first_event(struct env *v, const struct env_new *n, struct err *e);
int env_give_name(struct env *v, struct err *e);

/* The lock goes with this process, which ends now: whoever asks for it meanwhile waits. */
void env_let_go(const struct env *v);

#endif
