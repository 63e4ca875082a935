/* SPDX-License-Identifier: Apache-2.0 */
/*
 * F13: change the path while it is being judged. One process exchanges names, or one writes another
 * string into shared memory, as fast as it can; the other makes the call, thousands of times.
 * Without a sandbox there is nothing to be fooled, so that the control only shows that the denied
 * side is hit.
 */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/uapi.h"

#define TRIES 4000
#define SWAPS 400 /* at least: on one busy CPU thousands of tries pass between two of them */
#define TURN 32   /* tries before the other has its turn */
#define TIME_MAX_MS 1500
#define RENAME_EXCHANGE_FLAG 2u
#define WORD 32

struct shared {
	volatile int stop;
	volatile unsigned swaps;
	char path[WORD]; /* rewritten while the kernel reads it */
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void swap_names(struct shared *s)
{
	while (!s->stop) {
		syscall(SYS_renameat2, AT_FDCWD, "swap", AT_FDCWD, "other", RENAME_EXCHANGE_FLAG);
		s->swaps++;
	}
}

/* Both words have one length: what is read in between is one of them, or fails. */
static void swap_words(struct shared *s, const char *a, const char *b)
{
	while (!s->stop) {
		memcpy(s->path, a, WORD);
		s->swaps++;
		for (volatile int i = 0; i < 40; i++)
			;
		memcpy(s->path, b, WORD);
		for (volatile int i = 0; i < 40; i++)
			;
	}
}

struct race {
	const struct probe_args *a;
	const char *word_a, *word_b; /* NULL: names are exchanged instead */
	int (*attempt)(const struct race *r, const char *path);
};

/* Returns the number of wins; *ret_tries how often it was tried, -1 when it could not start. */
static int race_run(const struct race *r, int *ret_tries)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t end = now_ms() + TIME_MAX_MS;
	int won = 0, n = 0;
	pid_t pid;

	*ret_tries = -1;
	if (s == MAP_FAILED)
		return 0;
	if (r->word_a)
		memcpy(s->path, r->word_a, WORD);
	pid = fork();
	if (pid == 0) {
		if (r->word_a)
			swap_words(s, r->word_a, r->word_b);
		else
			swap_names(s);
		_exit(0);
	}
	while (pid > 0 && !s->swaps && now_ms() < end)
		sched_yield();
	for (; pid > 0 && (n < TRIES || s->swaps < SWAPS) && now_ms() < end; n++) {
		won += r->attempt(r, r->word_a ? s->path : NULL) == 0;
		if (n % TURN == 0)
			sched_yield();
	}
	s->stop = 1;
	if (pid > 0) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		*ret_tries = n;
	}
	munmap(s, sizeof(*s));
	return won;
}

static enum probe_result race_end(const struct race *r, struct probe_tally *t, const char *what)
{
	int tries, won = race_run(r, &tries);

	errno = EACCES;
	tally_try(t, won ? 0 : -1, "%s: %d of %d tries", what, won, tries);
	return PROBE_HELD;
}

static int read_swapped(const struct race *r, const char *path)
{
	(void)path;
	return probe_read_token(r->a, open("swap/key", O_RDONLY | O_CLOEXEC));
}

/* "swap" is by turns our own directory and a link to the denied one. */
static enum probe_result f13_link(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	struct race r = {.a = a, .attempt = read_swapped};
	int fd;

	mkdir("swap", 0755);
	fd = open("swap/key", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	symlink("private", "other");
	race_end(&r, &t, "a directory exchanged with a link");
	return tally_end(&t);
}

static int write_swapped(const struct race *r, const char *path)
{
	cleanup_fd int fd = open("swap/file", O_WRONLY | O_CLOEXEC);

	(void)r;
	(void)path;
	/* Which file it was: ours is empty, the protected one is not. */
	errno = ENODATA;
	return fd >= 0 && lseek(fd, 0, SEEK_END) > 0 ? 0 : -1;
}

static enum probe_result f13_write(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	struct race r = {.a = a, .attempt = write_swapped};
	int fd;

	mkdir("swap", 0755);
	fd = open("swap/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	symlink("frozen", "other");
	race_end(&r, &t, "a read-only file opened for writing");
	return tally_end(&t);
}

static int create_swapped(const struct race *r, const char *path)
{
	int fd = open("swap/never", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	(void)r;
	(void)path;
	if (fd >= 0)
		close(fd);
	errno = ENODATA;
	return access("never", F_OK);
}

static enum probe_result f13_create(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	struct race r = {.a = a, .attempt = create_swapped};

	mkdir("swap", 0755);
	symlink(".", "other");
	race_end(&r, &t, "an absent denied name created");
	return tally_end(&t);
}

static int open_word(const struct race *r, const char *path)
{
	return probe_read_token(r->a, open(path, O_RDWR | O_CLOEXEC));
}

static int unlink_word(const struct race *r, const char *path)
{
	struct stat st;
	int fd;

	(void)r;
	unlink(path);
	fd = open("allowed.env", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	/* ENOENT: it is really gone. */
	return lstat("denied.env", &st) < 0 && errno == ENOENT ? 0 : (errno = ENODATA, -1);
}

static int chmod_word(const struct race *r, const char *path)
{
	struct stat st;

	(void)r;
	chmod(path, 0611);
	if (lstat("frozen/file", &st) == 0 && (st.st_mode & 0777) == 0611)
		return 0;
	errno = ENODATA;
	return -1;
}

static enum probe_result f13_string(const struct probe_args *a, struct buf *detail)
{
	static const char allowed[WORD] = "allowed.env", denied[WORD] = "./denied.env";
	static const char other[WORD] = "unfroze/file", frozen[WORD] = "frozen/file";
	struct probe_tally t = tally_start(a, detail);
	struct race r = {.a = a, .word_a = allowed, .word_b = denied, .attempt = open_word};
	int fd = open("allowed.env", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd >= 0)
		close(fd);
	mkdir("unfroze", 0755);
	fd = open("unfroze/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	race_end(&r, &t, "open with a changing string");
	r = (struct race){.a = a, .word_a = other, .word_b = frozen, .attempt = chmod_word};
	race_end(&r, &t, "chmod with a changing string");
	r = (struct race){.a = a, .word_a = allowed, .word_b = denied, .attempt = unlink_word};
	race_end(&r, &t, "unlink with a changing string");
	return tally_end(&t);
}

/* ---- the descriptor or the working directory that a relative path starts from ---- */

/* Like fork, but sharing the table of descriptors or the working directory. */
static pid_t fork_sharing(unsigned long what)
{
	return (pid_t)syscall(SYS_clone, what | SIGCHLD, 0UL, 0UL, 0UL, 0UL);
}

static int race_start(
	const struct probe_args *a, unsigned long share, const char *denied, int *ret_tries)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int mine = open("mine", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int theirs = open(denied, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int slot = fcntl(mine, F_DUPFD_CLOEXEC, 100), won = 0, n = 0;
	uint64_t end = now_ms() + TIME_MAX_MS;
	pid_t pid;

	*ret_tries = -1;
	if (s == MAP_FAILED || mine < 0 || slot < 0 || theirs < 0)
		return 0;
	pid = fork_sharing(share);
	if (pid == 0) {
		while (!s->stop) {
			for (int i = 0; i < 2; i++) {
				int fd = i ? theirs : mine;

				(void)!(share == CLONE_FILES ? dup3(fd, slot, O_CLOEXEC)
							     : fchdir(fd));
			}
			s->swaps++;
		}
		_exit(0);
	}
	while (pid > 0 && !s->swaps && now_ms() < end)
		sched_yield();
	for (; pid > 0 && (n < TRIES || s->swaps < SWAPS) && now_ms() < end; n++) {
		int fd = openat(share == CLONE_FILES ? slot : AT_FDCWD, "key", O_RDWR | O_CLOEXEC);

		won += probe_read_token(a, fd) == 0;
		if (n % TURN == 0)
			sched_yield();
	}
	s->stop = 1;
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	*ret_tries = pid > 0 ? n : -1;
	munmap(s, sizeof(*s));
	return won;
}

static enum probe_result f13_start(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	int fd, tries, won;

	mkdir("mine", 0755);
	fd = open("mine/key", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	won = race_start(a, CLONE_FILES, "private", &tries);
	errno = EACCES;
	tally_try(&t, won ? 0 : -1, "a descriptor that changes: %d of %d tries", won, tries);
	won = race_start(a, CLONE_FS, "private", &tries);
	errno = EACCES;
	tally_try(&t, won ? 0 : -1, "a working directory that changes: %d of %d tries", won, tries);
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"F13", "F13-link", "exchange a directory with a link while it is opened", PROBE_BOTH,
		f13_link, .rules = RULES_INNER},
	{"F13", "F13-write", "the same, to write a read-only file", PROBE_BOTH, f13_write,
		.rules = RULES_INNER},
	{"F13", "F13-create", "the same, to create a denied name", PROBE_BOTH, f13_create,
		.rules = RULES_INNER},
	{"F13", "F13-start", "change where a relative path starts", PROBE_BOTH, f13_start,
		.rules = RULES_INNER},
	{"F13", "F13-string", "change the path in memory during the call", PROBE_BOTH, f13_string,
		.rules = RULES_INNER},
};
const struct probe_family probes_race = {probes, ARRAY_SIZE(probes)};
