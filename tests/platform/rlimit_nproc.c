/* SPDX-License-Identifier: Apache-2.0 */
/* RLIMIT_NPROC counts per user and per user namespace: a sandbox's limit is its own. */
#include "platform.h"

#include <sys/resource.h>

/* How many children can be made before EAGAIN, at most `max`; all are ended again. */
static int fork_count(int max)
{
	pid_t pids[64];
	int n = 0;

	while (n < max && n < 64) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				pause();
		if (pid < 0)
			break;
		pids[n++] = pid;
	}
	for (int i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	return n;
}

static void limit(rlim_t n)
{
	struct rlimit r = {n, n};

	CLAIM_CHECK(setrlimit(RLIMIT_NPROC, &r) == 0);
}

/* In the namespace as an ordinary user: root is exempt from the limit. */
static void enter_as_user(void)
{
	if (geteuid() == 0)
		CLAIM_CHECK(
			setresgid(60901, 60901, 60901) == 0 && setresuid(60901, 60901, 60901) == 0);
	CLAIM_CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0); /* or its /proc/self is root's */
	enter_namespaces(0);
}

static void counted_inside(void)
{
	enter_as_user();
	limit(8);
	int n = fork_count(40);

	if (n == 40)
		CLAIM_SKIP("still privileged inside the namespace");
	printf("# %d children under a limit of 8\n", n);
	CLAIM_CHECK(n <= 8);
}

static void not_counted_outside(void)
{
	int ready[2], done[2];
	char c;

	CLAIM_CHECK(pipe(ready) == 0 && pipe(done) == 0);
	if (geteuid() == 0)
		CLAIM_CHECK(
			setresgid(60902, 60902, 60902) == 0 && setresuid(60902, 60902, 60902) == 0);
	CLAIM_CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	/* A crowd of the same user outside the namespace. */
	for (int i = 0; i < 16; i++) {
		if (fork() == 0) {
			close(done[1]);
			(void)!read(done[0], &c, 1);
			_exit(0);
		}
	}
	enter_namespaces(0);
	limit(8);
	int n = fork_count(40);

	close(done[1]);
	printf("# %d children beside 16 processes outside\n", n);
	CLAIM_CHECK(n >= 1);
}

int main(void)
{
	claim("the limit holds inside a user namespace", counted_inside);
	claim("processes outside do not use it up", not_counted_outside);
	return claim_result();
}
