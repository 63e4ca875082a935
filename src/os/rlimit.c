/* SPDX-License-Identifier: Apache-2.0 */
/* Applying rlimits and knowing which of them bind: see rlimit.h. */
#include "os/rlimit.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Is RLIMIT_NPROC heeded for us? With room for none, only a spared user can still fork. */
static bool nproc_binds(void)
{
	struct rlimit now, none;
	pid_t pid;

	if (getrlimit(RLIMIT_NPROC, &now) < 0)
		return false;
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = now.rlim_max};
	if (setrlimit(RLIMIT_NPROC, &none) < 0)
		return false;
	pid = vfork();
	if (pid == 0)
		_exit(0);
	setrlimit(RLIMIT_NPROC, &now);
	if (pid < 0)
		return true;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return false;
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
	rc = lower(RLIMIT_CORE, "core dumps", 0, &done.core, e);
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

uint64_t rlimit_other_tasks(void)
{
	struct sysinfo si;

	return sysinfo(&si) < 0 ? 0 : si.procs;
}
