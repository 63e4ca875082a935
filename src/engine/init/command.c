/* SPDX-License-Identifier: Apache-2.0 */
/* One command, from a locked-down process: see command.h. */
#include "engine/init/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/broker/starts.h"
#include "engine/init/init.h"
#include "engine/wire/wire.h"
#include "os/cgroup.h"
#include "os/freezer.h"
#include "os/path.h"
#include "os/rlimit.h"
#include "os/seccomp.h"

#define NPROC_SLACK_SHARE 64 /* of a limit on processes: how exactly the others are counted */
#define INIT_PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

static uint64_t smaller(uint64_t limit, uint64_t own)
{
	return own ? MIN_OF(limit, own) : limit;
}

/* How many tasks a limit of so many on top of what there is must allow for. */
static uint64_t other_tasks(uint64_t limit)
{
	return rlimit_own_tasks(limit / NPROC_SLACK_SHARE) - 1; /* all but ourselves */
}

/*
 * RLIMIT_NPROC counts all tasks of the user, in the sandbox's user namespace if it has one: what was there
 * before is added to a limit that is not meant for it.
 */
static uint64_t nproc_limit(struct init *in, uint64_t pids, uint64_t own, uint64_t *ret_others)
{
	bool count = getuid() != 0 && (own != LIMIT_NONE || (pids != LIMIT_NONE && in->counts_user));
	uint64_t others = count ? other_tasks(MIN_OF(pids, own)) : 0;

	if (pids != LIMIT_NONE && in->counts_user)
		pids += others;
	if (own != LIMIT_NONE)
		own += others;
	*ret_others = others;
	return MIN_OF(pids, own);
}

/*
 * In the command's own process, before its exec: the first process and its broker are not the ones
 * to be limited. GO said what a cgroup already holds; rlimits stand in only for the rest.
 */
static int apply_rlimits(
	struct init *in, const struct command *c, int held_by_cgroup, struct err *e)
{
	static const struct wire_limits none;
	const struct wire_limits *own = c->limits ? c->limits : &none;
	struct rlimit_set set = in->plan->privilege.rlimits;
	struct rlimit_done done = {0};
	uint64_t others;
	int r;

	if (held_by_cgroup & GO_CGROUP_MEMORY)
		set.memory_b = LIMIT_NONE;
	if (held_by_cgroup & GO_CGROUP_PIDS)
		set.pids = LIMIT_NONE;
	set.memory_b = smaller(set.memory_b, own->memory_b);
	set.open_files = smaller(set.open_files, own->open_files);
	set.file_size_b = smaller(set.file_size_b, own->file_size_b);
	set.pids = nproc_limit(in, set.pids, own->pids ? own->pids : LIMIT_NONE, &others);
	r = rlimit_apply(&set, &done, e);
	in->enforced.rlimit_memory = done.memory;
	in->enforced.rlimit_pids = done.pids;
	in->enforced.nproc_others = done.pids ? (uint32_t)MIN_OF(others, (uint64_t)UINT32_MAX) : 0;
	if (r == 0 && own->pids && !done.pids && !c->less)
		return err_refuse(e, "a limit on the processes of one command cannot be held here: there is "
				     "no cgroup for it, and RLIMIT_NPROC does not bind root; leave it out");
	return r;
}

/*
 * execvp with the sandbox's own PATH. Runs in the vfork child: no allocation, no return on success.
 */
static int exec_command(const struct init *in, const struct command *c)
{
	const char *file = c->argv[0], *path = INIT_PATH_DEFAULT;
	char full[4096];
	int best = ENOENT;

	if (strchr(file, '/')) {
		starts_announce(in->starts, in->starts_slot);
		execve(file, c->argv, c->envp);
		return errno;
	}
	for (char *const *v = c->envp; *v; v++)
		if (str_starts(*v, "PATH="))
			path = *v + 5;
	while (*path) {
		size_t n = strcspn(path, ":");

		if (n && *path == '/' &&
			snprintf(full, sizeof(full), "%.*s/%s", (int)n, path, file) <
				(int)sizeof(full)) {
			starts_announce(in->starts, in->starts_slot);
			execve(full, c->argv, c->envp);
			if (errno != ENOENT && errno != ENOTDIR)
				best = errno;
			if (errno == ENOEXEC || errno == E2BIG || errno == ENOMEM)
				break;
		}
		path += n + (path[n] == ':');
	}
	return best;
}

/*
 * What the command's process leaves behind in the memory it shares with us until its exec. Not on
 * the stack: the compiler may put something else there once the child is known not to return.
 */
static volatile struct {
	int errnum; /* of the exec; 0: it is the command now */
	bool unready;
} start;

void command_reset_signals(void)
{
	for (int sig = 1; sig < 65; sig++)
		if (sig != SIGKILL && sig != SIGSTOP)
			signal(sig, SIG_DFL);
}

/* Everything between vfork and exec: only async-signal-safe calls on our own stack and fds. */
_Noreturn static void become_command(
	struct init *in, const struct command *c, int held, struct err *e)
{
	sigset_t none;
	int fds[3], r = 0;

	if (c->group_fd >= 0 && (r = freezer_enter(c->group_fd)) < 0)
		err_set(e, -r, "enter the command's cgroup");
	if (r == 0)
		r = cgroup_join(c->groups, c->groups_n, e);
	if (r < 0 || shield_enter(&in->shield, e) < 0 || apply_rlimits(in, c, held, e) < 0) {
		start.unready = true;
		_exit(125);
	}
	if (c->own_session)
		setsid();
	else
		setpgid(0, 0);
	if (c->own_session && c->tty_fd >= 0)
		ioctl(c->tty_fd, TIOCSCTTY, 0);
	else if (c->tty_fd >= 0 && !c->tty_background)
		tcsetpgrp(c->tty_fd, getpid());
	/* Move sources above 2 first, so that no dup2 overwrites one still needed. */
	for (int i = 0; i < 3; i++)
		fds[i] = c->stdio[i] >= 0 ? fcntl(c->stdio[i], F_DUPFD, 3) : -1;
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0 && dup2(fds[i], i) < 0) {
			start.errnum = errno;
			_exit(125);
		}
	if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
		for (int fd = 3; fd < 4096; fd++)
			close(fd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	start.errnum = exec_command(in, c);
	_exit(127);
}

/*
 * Where only the broker knows of a denial, it cannot judge the first exec: our memory is closed to
 * it. A bare name is sought in PATH, which the policy's read grants cover.
 */
static bool command_denied(const struct init *in, const struct command *c)
{
	char name[PATH_MAX], canonical[PATH_MAX];
	const struct policy_rule *rule = NULL;
	const char *arg = c->argv[0];
	cleanup_fd int fd = -1;

	if (!(in->plan->seccomp_flags & SECCOMP_NOTIFY_READS) || !strchr(arg, '/'))
		return false;
	if (arg[0] == '/')
		snprintf(name, sizeof(name), "%s", arg);
	else
		snprintf(name, sizeof(name), "%s/%s", c->cwd, arg);
	fd = path_resolve(name, canonical, sizeof(canonical));
	return fd >= 0 && policy_access(in->plan->policy, canonical, &rule) == ACCESS_DENY && rule;
}

pid_t command_start(struct init *in, const struct command *c, int held, struct err *e)
{
	pid_t pid;

	start.errnum = 0;
	start.unready = false;
	if (chdir(c->cwd) < 0)
		return err_set(e, errno, "enter %s", c->cwd);
	if (command_denied(in, c))
		return err_refuse(e, "%s: the policy denies this file", c->argv[0]);
	pid = vfork();
	if (pid == 0)
		become_command(in, c, held, e);
	starts_forget(in->starts, in->starts_slot); /* it has executed something, or nothing */
	if (pid < 0)
		return err_set(e, errno, "start the command");
	if (!start.errnum && !start.unready)
		return pid;
	waitpid(pid, NULL, 0);
	if (start.unready)
		return -e->errnum;
	if (start.errnum == ENOENT)
		return err_not_found(e, "%s: command not found inside the sandbox%s", c->argv[0],
			strchr(c->argv[0], '/') ? " (is its path granted, and its interpreter?)"
						: "");
	if (start.errnum == EACCES)
		err_refuse(e, "%s: not executable inside the sandbox", c->argv[0]);
	else
		err_set(e, start.errnum, "execute %s", c->argv[0]);
	e->errnum = start.errnum; /* it is what the session tells this refusal from others by */
	e->kind = ERR_REFUSED;
	return -start.errnum;
}
