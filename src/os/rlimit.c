/* SPDX-License-Identifier: Apache-2.0 */
/* Applying rlimits and knowing which of them bind: see rlimit.h. */
#include "os/rlimit.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"

/* Lower one limit; true in *ret once it holds. */
static int lower(int resource, const char *name, uint64_t value, bool *ret, struct err *e)
{
	struct rlimit now, next;

	if (value == UINT64_MAX)
		return 0;
	if (getrlimit((__typeof__(RLIMIT_DATA))resource, &now) < 0)
		return err_set(e, errno, "read the limit on %s", name);
	next.rlim_max =
		now.rlim_max == RLIM_INFINITY || value < now.rlim_max ? value : now.rlim_max;
	next.rlim_cur = next.rlim_max;
	if (setrlimit((__typeof__(RLIMIT_DATA))resource, &next) < 0)
		return err_set(e, errno, "limit %s", name);
	*ret = true;
	return 0;
}

/* Can we fork with this many tasks allowed? */
static bool fork_fits(const struct rlimit *now, uint64_t limit)
{
	struct rlimit tried = {.rlim_cur = limit, .rlim_max = now->rlim_max};
	pid_t pid;

	if (setrlimit(RLIMIT_NPROC, &tried) < 0)
		return false;
	pid = vfork();
	if (pid == 0)
		_exit(0);
	setrlimit(RLIMIT_NPROC, now);
	if (pid < 0)
		return false;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return true;
}

/* Is RLIMIT_NPROC heeded for us? With room for none, only a spared user can still fork. */
static bool nproc_binds(void)
{
	struct rlimit now;

	return getrlimit(RLIMIT_NPROC, &now) == 0 && !fork_fits(&now, 0);
}

int rlimit_apply(const struct rlimit_set *l, struct rlimit_done *ret, struct err *e)
{
	struct rlimit_done done = {0};
	bool binds;
	int rc;

	if (forced_fail("rlimit"))
		return err_set(e, ENOSYS, "set resource limits");
	/* Only root may be spared, so only root need try. */
	binds = l->pids != UINT64_MAX && (getuid() != 0 || nproc_binds());
	rc = lower(RLIMIT_CORE, "core dumps", l->core_b, &done.core, e);
	if (rc == 0)
		rc = lower(RLIMIT_DATA, "memory", l->memory_b, &done.memory, e);
	if (rc == 0)
		rc = lower(RLIMIT_FSIZE, "file size", l->file_size_b, &done.file_size, e);
	if (rc == 0)
		rc = lower(RLIMIT_NOFILE, "open files", l->open_files, &done.open_files, e);
	if (rc == 0)
		rc = lower(RLIMIT_NPROC, "processes", l->pids, &done.pids, e);
	if (rc < 0)
		return rc;
	done.pids = done.pids && binds;
	*ret = done;
	return 0;
}

/*
 * Nobody tells how many tasks the kernel counts for a user (threads, other pid namespaces), but it
 * refuses a fork at exactly that number: it is sought between none and all of the machine's.
 */
uint64_t rlimit_own_tasks(uint64_t slack)
{
	struct rlimit now;
	struct sysinfo si;
	uint64_t no = 0, yes;

	if (sysinfo(&si) < 0 || getrlimit(RLIMIT_NPROC, &now) < 0)
		return 0;
	/* Some may be born meanwhile. */
	yes = MIN_OF((uint64_t)si.procs * 2 + 64, (uint64_t)now.rlim_max);
	while (yes - no > slack + 1) {
		uint64_t half = no + (yes - no) / 2;

		if (fork_fits(&now, half))
			yes = half;
		else
			no = half;
	}
	return yes > 0 ? yes - 1 : 0;
}
