/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a program that is nobody's child.
 *
 * The process in between is made with no signal for its end, so that neither a handler for SIGCHLD nor a
 * wait() of another thread ever sees it. It shares our memory, and we stand still until it has ended: nothing
 * of ours is copied, however large we are. All signals are blocked in this thread meanwhile, because a
 * handler of the caller's must not run in that process.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/sandbox_impl.h"

#define STACK_B (256u << 10)
#define THEIR_FD 3

extern char **environ;

struct start {
	const char *program;
	char *const *argv;
	const posix_spawn_file_actions_t *acts;
	const posix_spawnattr_t *attr;
	int r;
};

static int between(void *arg)
{
	struct start *s = arg;
	pid_t pid;

	s->r = posix_spawnp(&pid, s->program, s->acts, s->attr, s->argv, environ);
	_exit(0);
}

static int start_orphan(struct start *s)
{
	char *stack = mmap(NULL, STACK_B, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all, before;
	pid_t pid;
	int r = 0;

	if (stack == MAP_FAILED)
		return -errno;
	s->r = ECHILD;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = clone(between, stack + STACK_B, CLONE_VM | CLONE_VFORK, s);
	if (pid < 0)
		r = -errno;
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	munmap(stack, STACK_B);
	return r < 0 ? r : -s->r;
}

int api_spawn(const char *program, char *const *argv, int fd, struct err *e)
{
	posix_spawn_file_actions_t acts;
	posix_spawnattr_t attr;
	struct start s = {.program = program, .argv = argv, .acts = &acts, .attr = &attr};
	sigset_t none, all;
	int r;

	posix_spawn_file_actions_init(&acts);
	posix_spawnattr_init(&attr);
	sigemptyset(&none);
	sigfillset(&all);
	sigdelset(&all, SIGKILL);
	sigdelset(&all, SIGSTOP);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(
		&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	posix_spawn_file_actions_adddup2(&acts, fd, THEIR_FD);
	posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&acts, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&acts, 2, "/dev/null", O_WRONLY, 0);
	r = start_orphan(&s);
	posix_spawn_file_actions_destroy(&acts);
	posix_spawnattr_destroy(&attr);
	return r < 0 ? err_set(e, -r, "run %s", program) : 0;
}
