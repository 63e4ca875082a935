/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a policy to Landlock rules on the host's own tree.
 *
 * Landlock only adds: a rule on a directory holds for everything below it. What the policy takes away
 * again is therefore kept in two other ways. Below a readable tree, the tree is split: every entry but
 * the denied ones gets a rule of its own, so that names which appear later are closed, not open.
 * Below a writable tree, changes go through the broker, which knows the whole policy.
 */
#include "engine/process/process_tier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/plan/expand.h"
#include "os/landlock.h"
#include "os/path.h"
#include "os/seccomp.h"

static const char *const devices[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
/* What the namespace tier generates, this tier has to show as it is. */
static const char *const system_files[] = {"/proc", "/etc/passwd", "/etc/group", "/etc/hosts",
	"/etc/hostname", "/etc/nsswitch.conf", "/etc/resolv.conf"};

static int add_rule(struct plan *p, const char *path, enum access a, bool device,
	const struct policy_rule *rule, struct err *e);

/* A rule on an object that was looked at: it must still be that object when the rule is made. */
static int add_place_rule(struct plan *p, const struct place *pl, struct err *e)
{
	if (add_rule(p, pl->path, pl->access, false, pl->rule, e) < 0)
		return -e->errnum;
	p->ops[p->n - 1].dev = pl->dev;
	p->ops[p->n - 1].ino = pl->ino;
	return 0;
}

static int add_rule(struct plan *p, const char *path, enum access a, bool device,
	const struct policy_rule *rule, struct err *e)
{
	struct plan_op *op = plan_add(p, PLAN_LANDLOCK, NULL, path);

	if (!op)
		return err_refuse(e,
			"the policy needs more than %u Landlock rules; make it coarser",
			PLAN_OPS_MAX);
	op->access = a;
	op->device = device;
	op->rule = rule;
	return 0;
}

/* Is anything strictly below `path` denied (and there)? */
static bool denied_below(const struct places *ps, const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < ps->n; i++)
		if (ps->v[i].access == ACCESS_DENY && !ps->v[i].absent &&
			strncmp(ps->v[i].path, path, n) == 0 && ps->v[i].path[n] == '/')
			return true;
	return false;
}

static const struct place *place_at(const struct places *ps, const char *path)
{
	for (size_t i = 0; i < ps->n; i++)
		if (strcmp(ps->v[i].path, path) == 0)
			return &ps->v[i];
	return NULL;
}

/* Grant a readable tree except for what is denied in it. */
static int add_around(struct plan *p, const struct places *ps, const char *path, enum access a,
	const struct policy_rule *rule, struct err *e)
{
	char child[POLICY_PATH_MAX];
	cleanup_dir DIR *d = NULL;
	struct dirent *de;

	if (!denied_below(ps, path))
		return add_rule(p, path, a, false, rule, e);
	d = opendir(path);
	if (!d) {
		err_set(e, errno, "list %s, which holds denied paths", path);
		e->kind = ERR_REFUSED;
		return -e->errnum;
	}
	plan_note(p,
		"%s holds denied paths: it cannot be listed, and names that appear in it later are "
		"closed",
		path);
	while ((de = readdir(d))) {
		const struct place *own;

		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
			de->d_type == DT_LNK)
			continue;
		if (snprintf(child, sizeof(child), "%s/%s", path[1] ? path : "", de->d_name) >=
			(int)sizeof(child))
			return err_refuse(e, "a name below %s is too long", path);
		own = place_at(ps, child);
		if (own)
			continue; /* it has a rule, or a denial, of its own */
		if (add_around(p, ps, child, a, rule, e) < 0)
			return -e->errnum;
	}
	return 0;
}

static int add_places(struct plan *p, const struct places *ps, struct err *e)
{
	for (size_t i = 0; i < ps->n; i++) {
		const struct place *pl = &ps->v[i];
		const struct place *outer;
		enum access around = places_above(ps, pl->path, &outer);

		if (around == ACCESS_WRITE && pl->access < ACCESS_WRITE)
			p->broker = true;
		if (around == ACCESS_WRITE && pl->access == ACCESS_DENY)
			p->seccomp_flags |= SECCOMP_NOTIFY_READS; /* reads, too, must be judged */
		if (pl->unseen) /* Landlock would let it be read once the host makes it */
			p->seccomp_flags |= SECCOMP_NOTIFY_READS;
		if (pl->rule->view)
			plan_note(p,
				"the process tier has no private views: %s can only be read, and is not "
				"in the HOME that it gives",
				pl->path);
		if (pl->absent || pl->access == ACCESS_DENY || pl->access <= around)
			continue;
		if (pl->access == ACCESS_WRITE || !pl->is_dir) {
			if (add_place_rule(p, pl, e) < 0)
				return -e->errnum;
		} else if (add_around(p, ps, pl->path, pl->access, pl->rule, e) < 0) {
			return -e->errnum;
		}
	}
	return 0;
}

static int add_system(struct plan *p, const struct policy *pol, struct err *e)
{
	char path[4096];

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		if (access(devices[i], F_OK) == 0 &&
			add_rule(p, devices[i], ACCESS_WRITE, true, NULL, e) < 0)
			return -e->errnum;
	for (size_t i = 0; i < pol->devices.n; i++)
		if (add_rule(p, pol->devices.v[i], ACCESS_WRITE, true, NULL, e) < 0)
			return -e->errnum;
	for (size_t i = 0; i < ARRAY_SIZE(system_files); i++) {
		cleanup_fd int fd = path_resolve(system_files[i], path, sizeof(path));

		if (fd >= 0 && add_rule(p, path, ACCESS_READ, false, NULL, e) < 0)
			return -e->errnum;
	}
	return 0;
}

static void add_notes(struct plan *p, int abi)
{
	plan_note(p, "process tier: no namespaces: other processes are visible, /tmp is the host's "
		     "(a private TMPDIR and HOME are given), no disk limit");
	if (abi < 3)
		plan_note(p, "Landlock ABI %d: truncating files is held by the broker only", abi);
	if (abi < 4)
		plan_note(p,
			"Landlock ABI %d: TCP is closed by seccomp (no internet sockets at all)",
			abi);
	if (abi < 5)
		plan_note(p, "Landlock ABI %d: device ioctls are not governed", abi);
	if (abi < 6)
		plan_note(p,
			"Landlock ABI %d: signals to the user's other processes are not blocked",
			abi);
}

int process_compile(
	struct plan *ret, const struct policy *pol, const struct request *r, struct err *e)
{
	struct plan p = {.tier = TIER_PROCESS,
		.policy = pol,
		.privilege.rlimits = plan_rlimits(&pol->limits, false),
		.notes = STRLIST_INIT(64)};
	struct places ps = {0};
	int rc;

	if (r->discard)
		return err_refuse(e, "--discard needs an overlay, which the process tier cannot "
				     "make; use --tier namespace");
	if (r->staging)
		return err_no_boundary(e, "staging needs the namespace tier, for its layers are an "
					  "overlay; use --tier namespace");
	if ((rc = places_expand(&ps, pol, e)) < 0)
		return rc;
	/* Metadata (mode, owner, times, xattrs) is not Landlock's: always the broker's. */
	p.broker = true;
	p.seccomp_flags = SECCOMP_PROCESS_TIER | SECCOMP_BROKER;
	if (!r->proxy_port) /* no address can be reached: what was tried is told */
		p.seccomp_flags |= SECCOMP_NOTIFY_NETWORK;
	if (pol->devices.n)
		p.seccomp_flags |= SECCOMP_DEVICES;
	if (pol->observe == OBSERVE_FULL || ps.late_denies)
		p.seccomp_flags |= SECCOMP_NOTIFY_READS;
	if ((rc = add_places(&p, &ps, e)) == 0 && (rc = add_system(&p, pol, e)) == 0 && r->scratch)
		rc = add_rule(&p, r->scratch, ACCESS_WRITE, false, NULL, e);
	add_notes(&p, landlock_abi());
	places_done(&ps);
	if (rc < 0) {
		plan_done(&p);
		return rc;
	}
	*ret = p;
	return 0;
}
