/* SPDX-License-Identifier: Apache-2.0 */
/* The namespace tier: every namespace, a private root, Landlock and seccomp behind it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "engine/box/launch.h"
#include "engine/box/box.h"
#include "os/forced.h"
#include "os/heap.h"
#include "os/landlock.h"
#include "os/mount.h"
#include "os/path.h"
#include "os/spawn.h"

#define K_CLONE_NEWTIME 0x00000080ull

static const uint64_t namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
				   CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | K_CLONE_NEWTIME;

static bool sysctl_is(const char *path, char value)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	return file_read_at(AT_FDCWD, path, &b) == 0 && b.len > 0 && b.data[0] == value;
}

/* Turn "EPERM" into what the user can do about it. */
static int namespace_explain(struct err *e)
{
	if (sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1') &&
		geteuid() != 0)
		return err_no_boundary(e,
			"AppArmor forbids user namespaces to unprofiled programs here; use "
			"--tier process, or load a profile for croft (croft doctor prints it)");
	if (sysctl_is("/proc/sys/user/max_user_namespaces", '0'))
		return err_no_boundary(e,
			"user namespaces are switched off (user.max_user_namespaces = 0); use "
			"--tier process, or have an administrator raise it");
	if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", '0') && geteuid() != 0)
		return err_no_boundary(e, "user namespaces are off for ordinary users "
					  "(kernel.unprivileged_userns_clone = 0); use --tier "
					  "process, or have an administrator set it to 1");
	return err_no_boundary(e, "user namespaces are not permitted here (an outer sandbox or "
				  "container?); use --tier process, or see croft doctor");
}

/* In a throw-away child: namespaces, identity, a tmpfs on top of "/". */
_Noreturn static void probe_child(uid_t uid, gid_t gid)
{
	static const char *const opts[] = {"size=4096", NULL};
	struct err e = ERR_INIT;
	int m = -1, p = -1;

	if (spawn_map_self(uid, gid, &e) < 0 || mount_make_private(&e) < 0)
		_exit(1);
	if (mount_new("tmpfs", opts, MOUNT_NODEV, &m, &e) < 0)
		_exit(2);
	if (mount_new("proc", NULL, MOUNT_RO, &p, &e) < 0)
		_exit(3);
	_exit(0);
}

static int namespace_probe(struct err *e)
{
	struct spawned sp;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r, status = 0;

	if (forced_fail("userns"))
		return err_no_boundary(e, "user namespaces are not available; use --tier process");
	if (landlock_abi() == 0)
		return err_no_boundary(e, "Landlock is not available (kernel without it, or not in "
					  "the lsm= list), and the namespace tier requires it; "
					  "boot with lsm=landlock,… or use --allow-degraded");
	r = spawn_in_namespaces(&sp, namespaces, -1, e);
	if (r == 0)
		probe_child(uid, gid);
	if (r < 0)
		return namespace_explain(e);
	while (waitpid(sp.pid, &status, 0) < 0 && errno == EINTR)
		;
	if (sp.pidfd >= 0)
		close(sp.pidfd);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		return namespace_explain(e);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		return err_no_boundary(e, "a fresh /proc is not permitted here (an outer container "
					  "masks parts of its own); use --tier process");
	return err_no_boundary(
		e, "mounts in a user namespace are not permitted here; use --tier process");
}

/* The network namespace is the slowest to make: set-up makes it meanwhile, in a thread. */
static const uint64_t namespaces_at_once = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
					   CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP |
					   K_CLONE_NEWTIME;

/* An error is told by namespace_start(), which meets it, too. */
static int namespace_begin(struct sandbox *s, struct plan *ret, const struct policy *p,
	const struct request *r, struct err *e)
{
	const char *scratch[] = {"/tmp", "/run", "/dev", "/proc", "/.croft", r->home, NULL};
	struct plan base = {0}, expected = {0};
	struct request now = *r; /* it is filled in meanwhile, in memory that the sandbox sees */
	struct init in = {.plan = &base,
		.request = &now,
		.setup = namespace_setup,
		.settle = namespace_settle,
		.scratch = scratch,
		.waits = true};
	int rc;

	if (forced_fail("userns") || !heap_share())
		return err_set(e, ENOTSUP, "begin before the plan is made");
	rc = namespace_compile_base(&base, p, r, e);
	if (rc == 0 && r->staging && namespace_check_staging(r, e) == 0 &&
		namespace_add_staging_early(&expected, p, r->staging, e) == 0)
		in.expected = &expected;
	if (rc == 0 && (rc = launch(s, &in, namespaces_at_once, -1, e)) == 0)
		*ret = base;
	else
		plan_done(&base);
	plan_done(&expected);
	return rc;
}

static int namespace_start(struct sandbox *s, const struct plan *p, const struct request *r,
	int cgroup_fd, struct err *e)
{
	struct init in = {
		.plan = p, .request = r, .setup = namespace_setup, .settle = namespace_settle};
	const char *scratch[] = {"/tmp", "/run", "/dev", "/proc", "/.croft", r->home, NULL};
	int rc;

	if (s->waits) {
		rc = launch_hand_over(s, p, r, e);
		if (rc != -ENOTSUP)
			return rc;
		sandbox_abandon(s);
	}
	if (forced_fail("userns"))
		return err_no_boundary(e, "user namespaces are not available; use --tier process");
	in.scratch = scratch;
	rc = launch(s, &in, namespaces_at_once, cgroup_fd, e);
	if (rc == -EPERM || rc == -ENOSPC || rc == -EACCES)
		return namespace_explain(e);
	return rc;
}

const struct engine engine_namespace = {
	.name = "namespace",
	.tier = TIER_NAMESPACE,
	.can = ENGINE_STAGE | ENGINE_OWN_PIDS | ENGINE_OWN_NETWORK | ENGINE_PRIVATE_ROOT |
	       ENGINE_UNIX_SOCKETS | ENGINE_TIME_NAMESPACE | ENGINE_HOSTILE,
	.probe = namespace_probe,
	.begin = namespace_begin,
	.plan = namespace_compile,
	.start = namespace_start,
};
