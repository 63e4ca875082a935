/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From rules to places that exist: globs expanded, symlinks resolved once, conflicts refused.
 *
 * Purpose: both engines need the same answer to "which objects does this policy name on this machine
 *          now, and with what access", so it is computed once, here.
 * Failure: a glob that cannot be expanded completely within its bounds, or a grant whose target is
 *          denied, refuses the run. Absent optional (built-in) rules are skipped.
 */
#ifndef CROFT_ENGINE_EXPAND_H
#define CROFT_ENGINE_EXPAND_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "policy/policy.h"

#define EXPAND_PLACES_MAX 16384u
#define EXPAND_VISITS_MAX 400000u /* directory entries looked at for all globs together */

struct place {
	char *path;  /* canonical, exists (unless absent) */
	char *alias; /* the rule's own path when it goes through a symlink, else NULL */
	enum access access;
	bool is_dir;
	uint64_t size_b; /* of a regular file */
	bool absent;     /* does not exist; only kept when its creation must be prevented */
	bool glob;       /* came from a glob: more names may match later */
	dev_t dev;
	ino_t ino;
	const struct policy_rule *rule;
};

struct places {
	struct place *v; /* sorted by path: parents before children */
	size_t n, cap;
	unsigned visits;
	bool late_denies; /* …and it denies: then reading them must be judged, too */
	bool late_names; /* some narrower rule covers names that do not exist yet in a writable tree */
};

int places_expand(struct places *ret, const struct policy *p, struct err *e);
void places_done(struct places *ps);
/* The access that the places above `path` give it (ACCESS_DENY when none covers it). */
enum access places_above(const struct places *ps, const char *path, const struct place **ret_place);
/* Is there a place strictly below `path`? */
bool places_below(const struct places *ps, const char *path);

#endif
