/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark's timing loop: starts commands, waits for them, and prints how long each took.
 *
 * Purpose: nothing but posix_spawn (vfork semantics) and wait4 lies between the two clock readings, so
 *          the driver's own weight (an interpreter's fork) is not measured.
 * Order:   variants are interleaved run by run, and the one that goes first rotates each round, so that
 *          drift of the machine (frequency, page cache, neighbours) falls on all alike.
 * Output:  one line per run, "NAME WALL_NS CPU_NS"; for rates, "NAME RUNS NANOSECONDS".
 * Failure: a run that does not exit 0 ends the program with status 1 and the variant's name; a
 *          benchmark of failing commands is worth nothing.
 *
 * Specification file, one variant a line, fields separated by tabs:
 *     NAME <tab> PREPARE <tab> ARG0 <tab> ARG1 ...
 * PREPARE is a shell command run before each timed run, untimed, or "-".
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VARIANTS_MAX 32
#define ARGS_MAX 4096
#define WORKERS_MAX 256

extern char **environ;

struct variant {
	char *name;
	char *prepare; /* NULL: none */
	char **argv;
};

static struct variant variants[VARIANTS_MAX];
static size_t variants_n;
static posix_spawn_file_actions_t quiet;

static void fail(const char *what)
{
	fprintf(stderr, "spawn: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(const struct rusage *u)
{
	return ((uint64_t)u->ru_utime.tv_sec + (uint64_t)u->ru_stime.tv_sec) * 1000000000u +
	       ((uint64_t)u->ru_utime.tv_usec + (uint64_t)u->ru_stime.tv_usec) * 1000u;
}

/* Run to the end with stdio on /dev/null; anything but exit 0 is fatal. */
static uint64_t run_once(const struct variant *v, struct rusage *ret_usage)
{
	int status = 0;
	pid_t pid;
	uint64_t start = now_ns();
	int r = posix_spawn(&pid, v->argv[0], &quiet, NULL, v->argv, environ);

	if (r) {
		errno = r;
		fail(v->name);
	}
	while (wait4(pid, &status, 0, ret_usage) < 0)
		if (errno != EINTR)
			fail("wait4");
	uint64_t end = now_ns();
	if (status) {
		fprintf(stderr, "spawn: %s: wait status %#x\n", v->name, (unsigned)status);
		exit(1);
	}
	return end - start;
}

static void load(const char *file)
{
	FILE *f = fopen(file, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	if (!f)
		fail(file);
	while ((n = getline(&line, &cap, f)) > 0) {
		char *fields[ARGS_MAX + 1], *save = NULL;
		size_t count = 0;

		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		char *copy = strdup(line);
		for (char *p = strtok_r(copy, "\t", &save); p && count < ARGS_MAX;
			p = strtok_r(NULL, "\t", &save))
			fields[count++] = p;
		if (count < 3 || variants_n == VARIANTS_MAX) {
			errno = EINVAL;
			fail(file);
		}
		struct variant *v = &variants[variants_n++];
		v->name = fields[0];
		v->prepare = strcmp(fields[1], "-") ? fields[1] : NULL;
		v->argv = calloc(count - 1, sizeof(*v->argv));
		if (!v->argv)
			fail("memory");
		memcpy(v->argv, fields + 2, (count - 2) * sizeof(*v->argv));
	}
	free(line);
	fclose(f);
}

static void sequence(unsigned rounds)
{
	for (unsigned r = 0; r < rounds; r++)
		for (size_t i = 0; i < variants_n; i++) {
			const struct variant *v = &variants[(i + r) % variants_n];
			struct rusage u = {0};

			if (v->prepare && system(v->prepare) != 0) {
				fprintf(stderr, "spawn: %s: preparation failed\n", v->name);
				exit(1);
			}
			uint64_t wall = run_once(v, &u);
			printf("%s %llu %llu\n", v->name, (unsigned long long)wall,
				(unsigned long long)cpu_ns(&u));
			fflush(stdout);
		}
}

/* One worker: run back to back until the time is up; the number of finished runs goes to `out`. */
static void worker(const struct variant *v, uint64_t until, int out)
{
	uint64_t count = 0;
	struct rusage u;

	while (now_ns() < until) {
		run_once(v, &u);
		count++;
	}
	if (write(out, &count, sizeof(count)) != (ssize_t)sizeof(count))
		_exit(2);
	_exit(0);
}

static void rate_slice(const struct variant *v, unsigned workers, uint64_t slice_ns)
{
	int p[2];
	uint64_t start = now_ns(), total = 0, count;
	pid_t pid[WORKERS_MAX];

	if (pipe2(p, O_CLOEXEC))
		fail("pipe");
	for (unsigned w = 0; w < workers; w++) {
		pid[w] = fork();
		if (pid[w] < 0)
			fail("fork");
		if (!pid[w])
			worker(v, start + slice_ns, p[1]);
	}
	close(p[1]);
	for (unsigned w = 0; w < workers; w++) {
		int status;

		if (waitpid(pid[w], &status, 0) < 0 || status)
			exit(1);
	}
	uint64_t end = now_ns();
	while (read(p[0], &count, sizeof(count)) == (ssize_t)sizeof(count))
		total += count;
	close(p[0]);
	printf("%s %llu %llu\n", v->name, (unsigned long long)total,
		(unsigned long long)(end - start));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "sequence")) {
		load(argv[3]);
	} else if (argc == 6 && !strcmp(argv[1], "rate")) {
		load(argv[5]);
	} else {
		fprintf(stderr, "usage: spawn sequence ROUNDS SPEC\n"
				"       spawn rate ROUNDS WORKERS SLICE_MS SPEC\n");
		return 2;
	}
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
	unsigned rounds = (unsigned)strtoul(argv[2], NULL, 10);
	if (argc == 4) {
		sequence(rounds);
		return 0;
	}
	unsigned workers = (unsigned)strtoul(argv[3], NULL, 10);
	uint64_t slice_ns = strtoull(argv[4], NULL, 10) * 1000000u;
	if (!workers || workers > WORKERS_MAX) {
		errno = EINVAL;
		fail("workers");
	}
	for (unsigned r = 0; r < rounds; r++)
		for (size_t i = 0; i < variants_n; i++)
			rate_slice(&variants[(i + r) % variants_n], workers, slice_ns);
	return 0;
}
