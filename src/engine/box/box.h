/* SPDX-License-Identifier: Apache-2.0 */
/* The namespace engine's own pieces: compile.c makes the plan, setup.c executes it. */
#ifndef CROFT_ENGINE_BOX_BOX_H
#define CROFT_ENGINE_BOX_BOX_H

#include "engine/plan/decoys.h"
#include "engine/engine.h"
#include "engine/init/init.h"

/* Where croft keeps its own objects inside the private root: masks, decoys. Read-only there. */
#define NS_OWN_DIR "/.croft"
#define NS_DECOY_DIR DECOY_DIR_INSIDE
#define NS_COPY_MAX (16u << 10)
#define NS_HOSTNAME "croft"

/* What every plan for this request begins with, so that it can be set up before the rest is known. */
int namespace_compile_base(
	struct plan *ret, const struct policy *p, const struct request *r, struct err *e);
/* *ret: empty, or with that beginning. */
int namespace_compile(
	struct plan *ret, const struct policy *p, const struct request *r, struct err *e);
struct place;

/* staging.c: is what was asked for possible to plan at all; then the operations of the workspace. */
int namespace_check_staging(const struct request *r, struct err *e);
int namespace_add_staging(struct plan *p, const struct place *pl, bool nested,
	const struct staging *st, struct err *e);
/* Those of them that can be made before the rest is known. */
int namespace_add_staging_early(
	struct plan *ret, const struct policy *pol, const struct staging *st, struct err *e);
/* denied.c: a denied name below the staged workspace. */
int namespace_add_denied(
	struct plan *p, const struct place *pl, const struct staging *st, struct err *e);
/* Runs in the sandbox's first process, already in its new namespaces. */
int namespace_setup(struct init *in, struct err *e);
/* What set-up left to a thread: over, or failed. Before READY. */
int namespace_settle(struct init *in, struct err *e);

#endif
