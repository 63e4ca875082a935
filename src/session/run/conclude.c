/* SPDX-License-Identifier: Apache-2.0 */
/* What a receipt gets to say when the sandbox has ended: see boundary.h. */
#include "session/run/boundary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/landlock.h"
#include "os/proctree.h"
#include "os/tree.h"
#include "session/config/environ.h"
#include "session/config/sockets.h"
#include "session/run/changed.h"
#include "session/run/staged.h"

static bool visit_upper(void *arg, const char *path, const struct stat *st)
{
	struct boundary *b = arg;
	char full[8192];
	struct stat below;
	bool existed;

	snprintf(full, sizeof(full), "%s/%s", b->q->workspace, path);
	existed = lstat(full, &below) == 0;
	record_change(&b->receipt->record, full,
		S_ISCHR(st->st_mode) && st->st_rdev == 0 ? FILE_DELETED
		: existed                                ? FILE_MODIFIED
							 : FILE_CREATED);
	return true;
}

/* How is it known what the command changed? */
static enum files_by files_by(const struct boundary *b)
{
	enum observe observe = b->q->policy->observe;

	if (b->q->staging || b->q->discard)
		return FILES_BY_LAYERS;
	if (b->sandbox.enforced.broker || observe >= OBSERVE_WRITES)
		return FILES_BY_WATCHER;
	return observe == OBSERVE_KNOWN ? FILES_BY_TIMES : FILES_UNKNOWN;
}

/* What the command changed: as the upper layer has it, or as it was seen to be touched. */
static void note_files(struct boundary *b)
{
	struct record *rec = &b->receipt->record;
	int upper = b->sandbox.fd[SANDBOX_FD_UPPER];
	bool all;

	b->receipt->files_by = files_by(b);
	if (b->receipt->files_by == FILES_BY_WATCHER) {
		record_settle(rec);
		return;
	}
	if (b->receipt->files_by != FILES_BY_LAYERS) /* later: boundary_look_for_changes() */
		return;
	record_forget_files(rec);
	if (upper < 0)
		return; /* nobody could write */
	all = b->q->staging ? staged_changes(rec, upper, b->q->staging, &b->since)
			    : tree_walk(upper, STAGED_FILES_MAX, visit_upper, b);
	rec->files_full = !all || rec->files_full;
}

void boundary_look_for_changes(struct boundary *b)
{
	struct receipt *r = b->receipt;

	if (r->files_by == FILES_BY_LAYERS || r->files_by == FILES_BY_WATCHER)
		return;
	record_forget_files(&r->record); /* a watcher of some calls has seen some of them */
	r->files_entries = changed_entries(r->wall_us);
	if (r->files_by == FILES_UNKNOWN ||
		!changed_look(&r->record, b->q->policy, &b->go, r->files_entries))
		r->record.files_full = true;
}

void boundary_note_pids(struct receipt *r, const char *why)
{
	const struct enforced *f = &r->enforced;

	if (!f->rlimit_pids && geteuid() == 0)
		receipt_degrade(
			r, "no process limit: RLIMIT_NPROC does not bind root, and %s", why);
	else if (f->nproc_others)
		receipt_degrade(r,
			"processes are limited by RLIMIT_NPROC, which counts all of the user's: to "
			"%" PRIu64 " and the %u that there were, whoever starts them: %s",
			r->limits.pids, f->nproc_others, why);
	else
		receipt_degrade(r, "processes are limited by RLIMIT_NPROC: %s", why);
}

void boundary_note_replaced(struct receipt *r)
{
	cleanup_buf struct buf name = BUF_INIT(8192);

	if (!r->outcome.replaced[0])
		return;
	str_show(&name, r->outcome.replaced, strlen(r->outcome.replaced));
	receipt_degrade(r,
		"the protection of %s ended when the host replaced it; the command was killed then",
		buf_str(&name));
}

void boundary_note(struct boundary *b)
{
	struct receipt *r = b->receipt;
	const struct enforced *f = &b->sandbox.enforced;

	for (size_t i = 0; i < b->plan.notes.n; i++)
		receipt_degrade(r, "%s", b->plan.notes.v[i]);
	if (r->limits.pids != LIMIT_NONE && !(b->cgroup.has & CGROUP_HAS_PIDS))
		boundary_note_pids(r, b->cgroup.why);
	boundary_note_replaced(r);
	if (r->outcome.unwatched)
		receipt_degrade(r,
			"whether the host replaces what is protected was looked at before "
			"and after the command, not while it ran");
	if (b->q->policy->threat == THREAT_HOSTILE && !(b->engine->can & ENGINE_HOSTILE))
		receipt_degrade(r, "threat: hostile wants a stronger boundary than the %s tier",
			b->engine->name);
	if (!f->groups_dropped)
		receipt_degrade_fixed(r, "supplementary groups are kept: only root can drop them");
	if (f->landlock_abi > 0 && f->landlock_abi < 6)
		receipt_degrade_fixed(r,
			"Landlock ABI %d: abstract sockets and signals are not scoped by it",
			f->landlock_abi);
	if (r->network.policy && !(b->engine->can & ENGINE_OWN_NETWORK))
		receipt_degrade_fixed(r,
			"network: programs must use the proxy by themselves, and the port of the "
			"gateway could be reached on other hosts, too");
	if (b->disk.n > 0)
		receipt_degrade_fixed(r,
			"the disk limit on staged files is held by counting: it can be passed for "
			"a moment, and deleted files on their way through a socket are not "
			"counted");
	else if (b->engine->can & ENGINE_PRIVATE_ROOT && r->limits.disk_b != LIMIT_NONE &&
		 !b->q->discard && !b->q->staging)
		receipt_degrade(r, "the disk limit holds private files only: what is written in "
				   "place ends with its file system");
	if (b->engine->can & ENGINE_TIME_NAMESPACE && !f->ns_time)
		receipt_degrade_fixed(r, "no time namespace on this kernel");
	for (size_t i = 0; i < r->network.notes.n; i++) /* last: some are the gateway's own words */
		receipt_degrade(r, "%s", r->network.notes.v[i]);
}

static bool upper_full(const struct boundary *b)
{
	struct statfs fs;

	return b->q->discard && b->sandbox.fd[SANDBOX_FD_UPPER] >= 0 &&
	       fstatfs(b->sandbox.fd[SANDBOX_FD_UPPER], &fs) == 0 && fs.f_bfree == 0;
}

static void note_limits(struct boundary *b, const struct cgroup_usage *u)
{
	struct receipt *r = b->receipt;

	if (r->outcome.timed_out)
		strlist_add(&r->limits_hit, "timeout");
	if (u->hits.oom_kills)
		strlist_add(&r->limits_hit, "memory");
	if (u->hits.pids_refused)
		strlist_add(&r->limits_hit, "pids");
	if (r->outcome.scratch_full || upper_full(b) || diskwatch_end(&b->disk))
		strlist_add(&r->limits_hit, "disk");
}

/* A host service that came while the command ran could be spoken to: the receipt says so. */
void boundary_look_for_sockets(struct boundary *b)
{
	struct strlist now = STRLIST_INIT(SOCKETS_MAX);
	struct err e = ERR_INIT;

	if (b->engine->can & ENGINE_UNIX_SOCKETS &&
		sockets_find(&now, b->q->policy, boundary_harmless(b->q), &e) < 0)
		receipt_degrade(b->receipt, "sockets of host services: %s", e.msg);
	for (size_t i = 0; i < now.n; i++) {
		cleanup_buf struct buf name = BUF_INIT(8192);

		str_show(&name, now.v[i], strlen(now.v[i]));
		receipt_degrade(b->receipt,
			"a service of the host's made the socket %s while the command ran, which "
			"could connect to it",
			buf_str(&name));
	}
	strlist_done(&now);
}

/* Fill the receipt from what is known after the end. */
void boundary_conclude(struct boundary *b, const struct outcome *o)
{
	struct receipt *r = b->receipt;
	struct cgroup_usage u = {0};

	cgroup_usage(&b->cgroup, &u);
	r->outcome = *o;
	r->tier = b->engine->name;
	r->enforced = b->sandbox.enforced;
	r->cpu_us = MAX_OF(o->cpu_us, u.cpu_us);
	r->peak_memory_b = u.memory_peak_b ? u.memory_peak_b : o->maxrss_kb * 1024;
	r->limits = b->q->policy->limits;
	r->observe = b->q->policy->observe;
	note_limits(b, &u);
	boundary_note(b);
	boundary_look_for_sockets(b);
	note_files(b);
	plan_seal(&b->plan);
	receipt_seal(r, &b->plan);
}
