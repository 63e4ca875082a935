/* SPDX-License-Identifier: Apache-2.0 */
/* os/proctree: what the process table says of one process. */
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/proctree.h"

TEST(a_process_that_ends_is_told_from_one_that_runs)
{
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	CHECK(pid > 0 && !proctree_ending(pid) && !proctree_ending(getpid()));
	kill(pid, SIGSTOP);
	CHECK(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT) == 0);
	CHECK(proctree_stopped(pid) && !proctree_ending(pid));
	kill(pid, SIGKILL);
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK(proctree_ending(pid)); /* a zombie: kill() still finds it */
	CHECK(kill(pid, 0) == 0);
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(proctree_ending(pid));
}

TEST(a_killed_process_that_a_neighbour_traces_is_not_waited_for)
{
	pid_t victim = fork(), tracer;
	int ready[2], got = 0;

	if (victim == 0) {
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		for (;;)
			pause();
	}
	CHECK(victim > 0 && pipe(ready) == 0);
	tracer = fork();
	if (tracer == 0) {
		char c = 'n';

		for (int i = 0; c == 'n' && i < 100000 && getppid() > 1; i++)
			c = ptrace(PTRACE_SEIZE, victim, NULL, NULL) == 0 ? 'y' : 'n';
		if (write(ready[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &got, 1) == 1);
	if (got == 'y') {
		proctree_kill(&tracer, 1); /* returns: that is the test */
		CHECK(proctree_ending(victim) && kill(tracer, 0) == 0);
		CHECK(waitpid(victim, NULL, WNOHANG) == 0); /* the control: its end is not shown to us */
	}
	kill(tracer, SIGKILL);
	CHECK(waitpid(tracer, NULL, 0) == tracer);
	if (got != 'y')
		kill(victim, SIGKILL);
	CHECK(waitpid(victim, NULL, 0) == victim);
	close(ready[0]);
	close(ready[1]);
}

static void *go_on(void *arg)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* not left behind by a test that fails */
	for (;;)
		pause();
	return arg;
}

/* The letter of the state of a process's first thread. */
static char state_of(pid_t pid)
{
	char path[64], c = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%*d (%*[^)]) %c", &c) != 1)
		c = 0;
	if (f)
		fclose(f);
	return c;
}

TEST(a_process_whose_first_thread_has_ended_is_neither_gone_nor_stopped)
{
	siginfo_t info;
	pthread_t t;
	pid_t pid = fork();

	if (pid == 0) {
		if (pthread_create(&t, NULL, go_on, NULL) != 0)
			_exit(1);
		pthread_exit(NULL);
	}
	CHECK(pid > 0);
	for (int i = 0; state_of(pid) != 'Z' && i < 60000; i++)
		poll(NULL, 0, 1);
	CHECK(state_of(pid) == 'Z');
	CHECK(!proctree_stopped(pid) && !proctree_ending(pid));
	kill(pid, SIGSTOP);
	CHECK(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT) == 0);
	CHECK(proctree_stopped(pid) && !proctree_ending(pid));
	kill(pid, SIGKILL);
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK(proctree_stopped(pid) && proctree_ending(pid));
	CHECK(waitpid(pid, NULL, 0) == pid);
}
