/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From rules to places that exist: globs expanded, symlinks resolved once, conflicts refused.
 *
 * Purpose: both engines need the same answer to "which objects does this policy name on this machine
 *          now, and with what access", so it is computed once, here.
 * Failure: a glob that cannot be expanded completely within its bounds, or a grant whose target is
 *          denied, refuses the run. Absent optional (built-in) rules are skipped.
 */
#ifndef CROFT_ENGINE_PLAN_EXPAND_H
#define CROFT_ENGINE_PLAN_EXPAND_H

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
	bool unseen;     /* absent from a tree that is only readable: the host could make it */
	bool glob;       /* came from a glob: more names may match later */
	bool staged;     /* found in a layer of a staged workspace; may be hidden by another */
	dev_t dev;
	ino_t ino;
	const struct policy_rule *rule;
};

struct places {
	struct place *v; /* sorted by path: parents before children */
	size_t n, cap;
	unsigned visits;
	struct lookup *lookup;         /* while rules are expanded */
	const struct staging *staging; /* its workspace is looked at in its layers only; or NULL */
	bool late_denies;              /* …and it denies: then reading them must be judged, too */
	bool late_names; /* some narrower rule covers names that do not exist yet in a writable tree */
};

struct staging;

/*
 * With a staged workspace, what rules mean inside it is not what the host's directory holds. Of all
 * places in it only denied ones are kept: every name that any layer has and a rule denies.
 */
int places_expand_staged(
	struct places *ret, const struct policy *p, const struct staging *st, struct err *e);
int places_expand(struct places *ret, const struct policy *p, struct err *e);
void places_done(struct places *ps);
/* The access that the places above `path` give it (ACCESS_DENY when none covers it). */
enum access places_above(const struct places *ps, const char *path, const struct place **ret_place);
/* For expand_staged.c. NULL: too many, or no memory. */
struct place *places_add(struct places *ps, const char *path);
int places_too_many(const struct policy_rule *r, struct err *e);
/* Does this rule deny anything in the staged workspace? Then all that its layers have is added. */
int places_add_staged(
	struct places *ps, const struct policy *p, const struct policy_rule *r, struct err *e);
/* Could a sandbox make what this rule speaks of? */
bool rule_inside_writable(const struct policy *p, const struct policy_rule *r);
/* The workspace itself has a place, whichever rule grants it. */
int places_add_workspace(struct places *ps, const struct policy *p, struct err *e);
/* "/a" lies above "/a/b". */
bool path_is_above(const char *dir, const char *path);
/* Is there a place strictly below `path`? */
bool places_below(const struct places *ps, const char *path);

#endif
