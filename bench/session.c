/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of libcroft that measures commands in a session that is up. It has one process and one thread.
 *
 * session latency ENV PROGRAM ROUNDS       in turn: fork, exec and wait of PROGRAM; the same in ENV. A line
 *                                          "PLAIN_NS SESSION_NS" for each round
 * session rate ENV PROGRAM FLIGHT MS       keep FLIGHT commands in flight for MS: "COMMANDS NS"
 *
 * A command counts when its EXITED event has come, so when its record is in the journal. One that does not
 * exit 0 ends the measurement: a failing command is fast.
 */
#include <croft.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "session: %s\n", what);
	exit(1);
}

static void plain(const char *program)
{
	char *const argv[] = {(char *)program, NULL};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execv(program, argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die("the program does not run by itself");
}

static void start(struct croft_sandbox *s, const char *program)
{
	const char *const argv[] = {program, NULL};
	const struct croft_process p = {.argv = argv};
	unsigned tag;

	if (croft_process_start(s, &p, &tag) < 0)
		die("cannot ask for a command");
}

/* Wait until one more command has ended. */
static void one_ended(struct croft_sandbox *s)
{
	struct croft_event e;
	int r;

	for (;;) {
		while ((r = croft_sandbox_next(s, &e)) == 0) {
			struct pollfd p = {.fd = croft_sandbox_fd(s), .events = POLLIN};

			if (croft_sandbox_wants_write(s))
				p.events |= POLLOUT;
			poll(&p, 1, -1);
		}
		if (r < 0 || e.kind == CROFT_EVENT_ERROR)
			die(r < 0 ? "the session is gone" : e.text);
		if (e.kind != CROFT_EVENT_EXITED)
			continue;
		if (e.failed || e.exit)
			die(e.failed ? e.text : "the program failed in the sandbox");
		if (!e.receipt || !e.receipt->event[0])
			die("a command was answered that is not recorded");
		return;
	}
}

static void latency(struct croft_sandbox *s, const char *program, long rounds)
{
	for (long i = 0; i < rounds; i++) {
		long long t[4];

		t[0] = now_ns();
		plain(program);
		t[1] = now_ns();
		start(s, program);
		one_ended(s);
		t[2] = now_ns();
		printf("%lld %lld\n", t[1] - t[0], t[2] - t[1]);
	}
}

static void rate(struct croft_sandbox *s, const char *program, long flight, long ms)
{
	long long begin = now_ns(), until = begin + ms * 1000000LL;
	long n = 0;

	for (long i = 0; i < flight; i++)
		start(s, program);
	for (; now_ns() < until; n++) {
		one_ended(s);
		start(s, program);
	}
	until = now_ns();
	printf("%ld %lld\n", n, until - begin);
	for (long i = 0; i < flight; i++)
		one_ended(s);
}

int main(int argc, char **argv)
{
	struct croft *c = croft_new();
	struct croft_sandbox *s = NULL;

	if (argc < 5)
		die("usage: session latency|rate ENV PROGRAM NUMBER [MS]");
	if (!c || croft_sandbox_open(c, argv[2], &s) != 1)
		die(c && croft_error(c) ? croft_error(c) : "the environment is not up");
	if (!strcmp(argv[1], "latency"))
		latency(s, argv[3], atol(argv[4]));
	else if (!strcmp(argv[1], "rate") && argc == 6)
		rate(s, argv[3], atol(argv[4]), atol(argv[5]));
	else
		die("what is to be measured?");
	croft_sandbox_close(s);
	croft_free(c);
	return 0;
}
