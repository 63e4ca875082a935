/* SPDX-License-Identifier: Apache-2.0 */
/* The parent-death signal does what "dies with the supervisor" needs, also across a pid namespace.
 */
#include "platform.h"

#include <poll.h>

/* True when every write end of the pipe is gone, that is, when the process that held it died. */
static bool closes(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 20000) == 1 && (p.revents & POLLHUP);
}

/* A middle process makes a child with the signal set (or not) and dies; does the child die too? */
static bool child_dies(bool set, int clone_flags)
{
	int alive[2], ready[2], hold[2]; /* nobody lives longer than we hold the last one */
	char c;
	pid_t mid;
	bool died;
	struct pollfd p;

	CLAIM_CHECK(pipe(alive) == 0 && pipe(ready) == 0 && pipe(hold) == 0);
	mid = fork();
	if (mid == 0) {
		pid_t pid = (pid_t)syscall(SYS_clone, clone_flags | SIGCHLD, NULL, NULL, NULL, 0);

		if (pid == 0) {
			close(alive[0]);
			close(hold[1]);
			if (set)
				prctl(PR_SET_PDEATHSIG, SIGKILL);
			(void)!write(ready[1], "r", 1);
			close(ready[1]);
			(void)!read(hold[0], &c, 1);
			_exit(0);
		}
		close(ready[1]);
		(void)!read(ready[0], &c, 1);
		_exit(pid < 0 ? 1 : 0);
	}
	close(alive[1]);
	close(ready[1]);
	waitpid(mid, NULL, 0);
	if (set) {
		died = closes(alive[0]);
	} else {
		p = (struct pollfd){.fd = alive[0], .events = POLLIN};
		died = poll(&p, 1, 300) == 1; /* negative control: it lives on */
	}
	close(alive[0]);
	close(ready[0]);
	close(hold[0]);
	close(hold[1]);
	return died;
}

static void fires(void)
{
	CLAIM_CHECK(child_dies(true, 0));
}

static void control(void)
{
	CLAIM_CHECK(!child_dies(false, 0));
}

static void across_pid_namespace(void)
{
	enter_namespaces(0);
	CLAIM_CHECK(child_dies(true, CLONE_NEWPID));
}

static void survives_exec_not_fork(void)
{
	int sig = 0;
	pid_t pid;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_GET_PDEATHSIG, &sig);
		_exit(sig == 0 ? 0 : 1); /* a fork starts without: each process must set its own */
	}
	CLAIM_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	claim("a child with the signal dies with its parent", fires);
	claim("a child without it lives on", control);
	claim("it reaches pid 1 of a new pid namespace", across_pid_namespace);
	claim("a fork does not inherit it", survives_exec_not_fork);
	return claim_result();
}
