/* SPDX-License-Identifier: Apache-2.0 */
/* R1 to R7: taking more than the limits give, and staying after the end. */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FORKS 1024            /* limits.pids=64; RLIMIT_NPROC counts the user's others too */
#define FORKS_FEW 128         /* limits.pids=8: so many of the user's others may end meanwhile */
#define MEMORY_B (192u << 20) /* limits.memory=64M */
#define SCRATCH_B (64u << 20) /* limits.disk=16M */
#define STAGED 24             /* files of CHUNK_B; limits.disk=4M */
#define STAGED_WAIT_MS 5000   /* croft counts at least every second */
#define FILES 300             /* limits.open_files=128 */
#define CHUNK_B (1u << 20)

static enum probe_result fork_many(
	const struct probe_args *a, struct buf *detail, int most, int allowed)
{
	struct probe_tally t = tally_start(a, detail);
	int hold[2], made = 0, saved;

	if (pipe2(hold, O_CLOEXEC) < 0)
		return probe_skip(detail, "no pipe");
	for (; made < most; made++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			char c;

			/* Wait until the parent lets go. */
			close(hold[1]);
			(void)!read(hold[0], &c, 1);
			_exit(0);
		}
	}
	saved = errno;
	close(hold[0]);
	close(hold[1]);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	errno = saved;
	tally_try(&t, made >= most ? 0 : -1, "%d processes where %d are allowed", made, allowed);
	return tally_end(&t);
}

static enum probe_result r1_forks(const struct probe_args *a, struct buf *detail)
{
	return fork_many(a, detail, FORKS, 64);
}

static enum probe_result r1_pids(const struct probe_args *a, struct buf *detail)
{
	return fork_many(a, detail, FORKS_FEW, 8);
}

static long eat(void *arg)
{
	char *p = mmap(NULL, MEMORY_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	if (p == MAP_FAILED)
		return -1;
	for (size_t i = 0; i < MEMORY_B; i += 4096)
		p[i] = (char)i;
	return 0;
}

static enum probe_result r2_memory(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	tally_try(&t, probe_in_child(eat, NULL), "to use %u MiB where 64 are allowed",
		MEMORY_B >> 20);
	return tally_end(&t);
}

/* The same by files in memory, which no address-space limit counts. */
static long eat_memfd(void *arg)
{
	cleanup_fd int fd = memfd_create("croft", MFD_CLOEXEC);
	cleanup_free char *chunk = calloc(1, CHUNK_B);

	(void)arg;
	if (fd < 0 || !chunk)
		return -1;
	for (size_t n = 0; n < MEMORY_B; n += CHUNK_B)
		if (write(fd, chunk, CHUNK_B) != CHUNK_B)
			return -1;
	return 0;
}

static enum probe_result r2_memfd(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	tally_try(&t, probe_in_child(eat_memfd, NULL),
		"to fill %u MiB of memory files where 64 are allowed", MEMORY_B >> 20);
	return tally_end(&t);
}

static long fill(void *arg)
{
	cleanup_free char *chunk = malloc(CHUNK_B);
	char path[4200];
	long rc = 0;
	int fd;

	if (!chunk)
		return -1;
	memset(chunk, 'x', CHUNK_B);
	snprintf(path, sizeof(path), "%s/croft-fill", (const char *)arg);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	/* A file-size limit is an error here, not a death. */
	signal(SIGXFSZ, SIG_IGN);
	for (size_t n = 0; rc == 0 && n < SCRATCH_B; n += CHUNK_B) {
		ssize_t put = write(fd, chunk, CHUNK_B);

		if (put == CHUNK_B)
			continue;
		if (put >= 0)
			errno = ENOSPC;
		rc = -1;
	}
	close(fd);
	{
		int saved = errno;

		unlink(path);
		errno = saved;
	}
	return rc;
}

static enum probe_result r2_scratch(const struct probe_args *a, struct buf *detail)
{
	const char *const places[] = {"/tmp", "/dev/shm", "/run", getenv("HOME"), getenv("TMPDIR"),
		getenv("XDG_RUNTIME_DIR"), "/var/tmp", "/"};
	struct probe_tally t = tally_start(a, detail);

	if (a->control) {
		tally_try(&t, fill((void *)(uintptr_t) "."), "64 MiB in the working directory");
		return tally_end(&t);
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (places[i] && *places[i])
			tally_try(&t, probe_in_child(fill, (void *)(uintptr_t)places[i]),
				"64 MiB in %s", places[i]);
	return tally_end(&t);
}

/*
 * What is staged lies on the host's disk. One file is cut by its size; many are counted, and the
 * command is ended: until then it waits, because it may write faster than anybody counts.
 */
static enum probe_result r2_staged(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	cleanup_free char *chunk = malloc(CHUNK_B);
	int made = 0;

	if (!chunk)
		return probe_skip(detail, "no memory");
	memset(chunk, 'x', CHUNK_B);
	tally_try(&t, probe_in_child(fill, (void *)(uintptr_t) "."), "64 MiB in one file");
	for (; made < STAGED; made++) {
		cleanup_fd int fd = -1;
		char name[32];

		snprintf(name, sizeof(name), "staged%d", made);
		fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0 || write(fd, chunk, CHUNK_B) != CHUNK_B)
			break;
	}
	if (!a->control)
		poll(NULL, 0, STAGED_WAIT_MS);
	errno = ENOSPC;
	tally_try(&t, made >= STAGED ? 0 : -1, "%d MiB staged where 4 are allowed", made);
	return tally_end(&t);
}

static enum probe_result r6_descriptors(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	int fds[FILES], n = 0, saved;

	while (n < FILES && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	saved = errno;
	for (int i = 0; i < n; i++)
		close(fds[i]);
	errno = saved;
	tally_try(&t, n >= FILES ? 0 : -1, "%d descriptors where 128 are allowed", n);
	return tally_end(&t);
}

/* The quota is the user's, shared with the desktop: no more instances than descriptors are allowed.
 */
static enum probe_result r6_inotify(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	int fds[FILES], n = 0, saved, want = 100;

	while (n < want && (fds[n] = inotify_init1(IN_CLOEXEC)) >= 0)
		n++;
	saved = errno;
	for (int i = 0; i < n; i++)
		close(fds[i]);
	errno = saved;
	if (a->control && n < want)
		return probe_skip(detail, "this machine allows fewer inotify instances");
	tally_try(
		&t, n >= want ? 0 : -1, "%d inotify instances where 64 descriptors are allowed", n);
	return tally_end(&t);
}

/*
 * A daemon that leaves its session and its parents. It holds a lock on a file in the workspace: if
 * the lure cannot take the lock afterwards, the daemon is still there. It ends by itself, for the
 * control.
 */
static enum probe_result r7_daemon(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	int ready[2];
	pid_t pid;
	char c = 0;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return probe_skip(detail, "no pipe");
	pid = fork();
	if (pid == 0) {
		int fd;

		setsid();
		if (fork() != 0)
			_exit(0);
		for (int s = 1; s < 32; s++)
			signal(s, s == SIGALRM ? SIG_DFL : SIG_IGN);
		alarm(a->control ? 3 : 60);
		fd = open("daemon.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		if (fd >= 0 && flock(fd, LOCK_EX) == 0)
			c = 1;
		(void)!write(ready[1], &c, 1);
		close(ready[1]);
		close(0);
		close(1);
		close(2);
		for (;;)
			pause();
	}
	close(ready[1]);
	(void)!read(ready[0], &c, 1);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	errno = ECHILD;
	tally_try(&t, c ? 0 : -1, "a daemon outlives the command");
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"R1", "R1-forks", "start processes without end", PROBE_BOTH, r1_forks,
		.set = {"limits.pids=64"}, .limit = "pids"},
	{"R1", "R1-pids", "start more processes than a small limit allows", PROBE_BOTH, r1_pids,
		.set = {"limits.pids=8"}, .limit = "pids"},
	{"R2", "R2-memory", "use memory without end", PROBE_BOTH, r2_memory,
		.set = {"limits.memory=64M"}},
	{"R2", "R2-memfd", "use memory through files in memory", PROBE_BOTH, r2_memfd,
		.set = {"limits.memory=64M"}, .limit = "memory"},
	{"R2", "R2-scratch", "fill private scratch directories", PROBE_BOTH, r2_scratch,
		.set = {"limits.disk=16M"}, .limit = "disk"},
	{"R2", "R2-staged", "stage more than the disk limit", PROBE_NAMESPACE, r2_staged,
		.set = {"limits.disk=4M"}, .limit = "disk", .place = PLACE_STAGED},
	{"R6", "R6-descriptors", "open files without end", PROBE_BOTH, r6_descriptors,
		.set = {"limits.open_files=128"}},
	{"R6", "R6-inotify", "use up the user's inotify instances", PROBE_BOTH, r6_inotify,
		.set = {"limits.open_files=64"}},
	{"R7", "R7-daemon", "leave a daemon behind", PROBE_BOTH, r7_daemon, .outside = true},
};
const struct probe_family probes_resources = {probes, ARRAY_SIZE(probes)};
