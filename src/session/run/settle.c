/* SPDX-License-Identifier: Apache-2.0 */
/* A policy for one run: see settle.h. */
#include "session/run/settle.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/engine.h"
#include "os/lookup.h"
#include "session/config/held.h"
#include "session/config/sockets.h"
#include "session/run/boundary.h"
#include "session/run/staged.h"
#include "session/screen/screen.h"

/* As policy_present(), without what means nothing in a staged workspace. */
static int settle_staged(struct policy *ret, struct policy *p, bool *skip,
	struct policy_fixed *fixed, const struct staging *s, struct err *e)
{
	cleanup_free struct policy_rule *rules = calloc(p->rules_n + 1, sizeof(*rules));
	struct policy own = *p;
	size_t n = 0;
	int r;

	if (!rules)
		return err_set(e, ENOMEM, "settle the policy");
	for (size_t i = 0; i < p->rules_n; i++) {
		rules[i] = p->rules[i];
		if (rules[i].git) { /* its .git is staged; nobody else's is written */
			skip[i] = rules[i].optional = true;
			continue;
		}
		if (!staged_moot(s, p, &rules[i]))
			continue;
		if (!rules[i].optional && !rules[i].glob && staged_below_denied(p, &rules[i]))
			return err_refuse(e,
				"%s is granted below a directory that is denied, which a staged "
				"workspace cannot show; drop one of the two rules",
				rules[i].path);
		skip[i] = rules[i].optional = true;
	}
	for (size_t i = 0; fixed[i].path; i++) {
		struct policy_rule f = {.access = ACCESS_READ, .path = fixed[i].path};

		if (!staged_moot(s, p, &f))
			fixed[n++] = fixed[i];
	}
	fixed[n].path = NULL;
	own.rules = rules;
	r = policy_present(ret, &own, skip, fixed, e);
	p->memory = own.memory; /* what it allocated is the policy's */
	return r;
}

static bool is_there(struct lookup *l, const char *path)
{
	struct stat st;
	int r = lookup_path(l, path, &st);

	return r == LOOKUP_UNPLAIN ? lstat(path, &st) == 0 : r >= 0;
}

/* One that croft executes, which may be absent. */
struct program {
	char path[POLICY_PATH_MAX], real[PATH_MAX];
};

/* Files are made read-only, wherever they are; a symlink cannot be. */
static int hold_program(struct program *x, const struct run_request *q, struct policy_fixed *ret,
	struct err *e)
{
	bool absent = !realpath(x->path, x->real);
	const char *harmless = boundary_harmless(q);

	if (!absent && !str_eq(x->path, x->real) &&
		policy_access(q->policy, x->path, NULL) == ACCESS_WRITE &&
		!(harmless && path_within(harmless, x->path)))
		return err_refuse(e,
			"%s is a symlink that the sandbox could change, and croft would start what "
			"it leads to; put a copy of the program there, or croft elsewhere",
			x->path);
	*ret = (struct policy_fixed){.path = absent ? x->path : x->real, .absent = absent};
	return 0;
}

/* Rules that hold only if their path is present: look once, before anything depends on them. */
static int settle_policy(struct policy *ret, const struct run_request *q, const struct held *held,
	const struct strlist *sockets, struct err *e)
{
	struct policy *p = q->policy;
	cleanup_free bool *skip = calloc(p->rules_n + 1, sizeof(*skip));
	cleanup_free struct policy_fixed *fixed =
		calloc(held->paths.n + sockets->n + 4, sizeof(*fixed));
	char own[POLICY_PATH_MAX];
	struct program gateway, screen;
	cleanup_lookup struct lookup lookup = LOOKUP_INIT;
	size_t fixed_n = 0;
	struct err ignored = ERR_INIT;
	struct stat st;
	ssize_t n;

	if (!skip || !fixed)
		return err_set(e, ENOMEM, "settle the policy");
	for (size_t i = 0; i < p->rules_n; i++)
		skip[i] = p->rules[i].optional && !p->rules[i].glob &&
			  !is_there(&lookup, p->rules[i].path);
	/* The programs of the next sandbox are not for this one to replace, or to put there. */
	n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	own[n > 0 ? n : 0] = '\0';
	if (n > 0 && lstat(own, &st) == 0)
		fixed[fixed_n++].path = own;
	if (fixed_n && network_program(gateway.path, sizeof(gateway.path), &ignored) == 0 &&
		hold_program(&gateway, q, &fixed[fixed_n++], e) < 0)
		return -e->errnum;
	if (fixed_n && screen_program(screen.path, sizeof(screen.path), &ignored) == 0 &&
		hold_program(&screen, q, &fixed[fixed_n++], e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < held->paths.n; i++)
		fixed[fixed_n++] = (struct policy_fixed){.path = held->paths.v[i], .runs = true};
	for (size_t i = 0; i < sockets->n; i++)
		fixed[fixed_n++] = (struct policy_fixed){.path = sockets->v[i], .deny = true};
	if (q->staging)
		return settle_staged(ret, p, skip, fixed, q->staging, e);
	return policy_present(ret, p, skip, fixed, e);
}

/* As settle_policy(), with the names that run on the host. What is discarded harms nobody. */
int settle(struct policy *ret, bool *ret_hold, const struct run_request *q, struct err *e)
{
	struct strlist sockets = STRLIST_INIT(SOCKETS_MAX);
	struct held held = HELD_INIT;
	int r = 0;

	if (!q->discard)
		r = held_find(&held, q->policy, q->home, q->workspace, boundary_harmless(q), e);
	if (r == 0 && engine_tier_can(q->policy->tier, ENGINE_UNIX_SOCKETS))
		r = sockets_find(&sockets, q->policy, boundary_harmless(q), e);
	if (r == -ENOENT || r == -EACCES) { /* no list can be read: look_for_sockets() says so */
		*e = ERR_INIT;
		r = 0;
	}
	if (r == 0)
		r = settle_policy(ret, q, &held, &sockets, e);
	strlist_done(&sockets);
	*ret_hold = held.broker;
	held_done(&held);
	return r;
}
