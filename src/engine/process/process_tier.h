/* SPDX-License-Identifier: Apache-2.0 */
/* The process engine's own pieces. */
#ifndef CROFT_ENGINE_PROCESS_PROCESS_TIER_H
#define CROFT_ENGINE_PROCESS_PROCESS_TIER_H

#include "engine/engine.h"

int process_compile(
	struct plan *ret, const struct policy *p, const struct request *r, struct err *e);

#endif
