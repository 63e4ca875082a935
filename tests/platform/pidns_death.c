/* SPDX-License-Identifier: Apache-2.0 */
/* When pid 1 of a pid namespace dies, the kernel kills everything in it, daemons included. */
#include "platform.h"

#include <poll.h>

static void all_die(void)
{
	int alive[2], ready[2];
	char c;
	pid_t pid;
	struct pollfd p;

	CLAIM_CHECK(pipe(alive) == 0 && pipe(ready) == 0);
	enter_namespaces(0);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, 0);
	if (pid < 0)
		CLAIM_SKIP("pid namespace: %s", strerror(errno));
	if (pid == 0) {
		if (fork() == 0) {
			setsid(); /* the daemon's usual way out */
			if (fork() == 0) {
				signal(SIGTERM, SIG_IGN);
				signal(SIGHUP, SIG_IGN);
				(void)!write(ready[1], "r", 1);
				for (;;)
					pause();
			}
			_exit(0);
		}
		for (;;)
			pause();
	}
	close(alive[1]);
	CLAIM_CHECK(read(ready[0], &c, 1) == 1);
	kill(pid, SIGKILL);
	CLAIM_CHECK(waitpid(pid, NULL, 0) == pid);
	p = (struct pollfd){.fd = alive[0], .events = POLLIN};
	CLAIM_CHECK(poll(&p, 1, 20000) == 1 && (p.revents & POLLHUP));
}

static void signals_ignored(void)
{
	int ready[2], status;
	char c;
	pid_t pid;

	CLAIM_CHECK(pipe(ready) == 0);
	enter_namespaces(0);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, 0);
	if (pid < 0)
		CLAIM_SKIP("pid namespace: %s", strerror(errno));
	if (pid == 0) {
		/* pid 1 without a handler is deaf to its own namespace, SIGKILL included. */
		if (fork() == 0) {
			kill(1, SIGKILL);
			kill(1, SIGTERM);
			(void)!write(ready[1], "r", 1);
			_exit(0);
		}
		wait(NULL);
		_exit(42);
	}
	CLAIM_CHECK(read(ready[0], &c, 1) == 1);
	CLAIM_CHECK(
		waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

int main(void)
{
	claim("pid 1's death ends a daemon in its namespace", all_die);
	claim("a sandboxed process cannot kill its pid 1", signals_ignored);
	return claim_result();
}
