/* SPDX-License-Identifier: Apache-2.0 */
/* Trying an overlay: see overlay.h. */
#include "os/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/spawn.h"

/* In the child. Layers are named by descriptor: no character of a path is taken for mount syntax. */
static int try_here(const char *lower, const char *upper, const char *work)
{
	int l, u, w;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	struct err e = ERR_INIT;
	char options[256];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return errno;
	if (spawn_map_self(uid, gid, &e) < 0)
		return e.errnum;
	/* From here on, for a layer must be seen through this namespace's own mounts. */
	l = open(lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
	u = open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC);
	w = open(work, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l < 0 || u < 0 || w < 0)
		return errno;
	/* volatile: taking it down again need not sync a whole file system. */
	snprintf(options, sizeof(options),
		"lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/"
		"%d,userxattr,volatile",
		l, u, w);
	return mount("overlay", upper, "overlay", MS_NOSUID | MS_NODEV, options) < 0 ? errno : 0;
}

int overlay_try(const char *lower, const char *upper, const char *work)
{
	int status = 0;
	pid_t pid;

	if (forced_fail("overlay"))
		return -ENODEV;
	pid = fork();
	if (pid == 0)
		_exit(try_here(lower, upper, work));
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}
