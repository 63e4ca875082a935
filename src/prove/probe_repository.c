/* SPDX-License-Identifier: Apache-2.0 */
/*
 * G14, G18, L12: a Git repository as a weapon. One that came with the workspace names other
 * directories or holds what is no file; one that the command makes names a program for the host's next
 * `git status`. All are made by hand, so that nothing depends on an installed git.
 */
#include "prove/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define HANG_MS 300 /* who is still in open() then waits for a writer */
#define SHOWN_MAX 4 /* object directories that croft may have bound */

#define CONFIG                                                                                     \
	"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"               \
	"\tfsmonitor = \"true; false\"\n"

/* The empty tree and a commit of it, as Git stores them (zlib). */
#define TREE_ID "4b/825dc642cb6eb9a060e54bf8d69288fbee4904"
#define COMMIT_ID "ea16a1a2040e270dbafcd3cf082fc19bfffbe28e"
static const uint8_t tree[] = {
	0x78, 0xda, 0x2b, 0x29, 0x4a, 0x4d, 0x55, 0x30, 0x60, 0x00, 0x00, 0x0a, 0x2c, 0x02, 0x01};
static const uint8_t commit[] = {0x78, 0xda, 0x95, 0x8d, 0x41, 0x0a, 0xc3, 0x30, 0x0c, 0x04, 0x73,
	0xf6, 0x2b, 0x74, 0xef, 0xc5, 0x36, 0xb2, 0xb1, 0xa1, 0x84, 0x7c, 0xc5, 0x52, 0x64, 0x12,
	0x48, 0x10, 0x38, 0xea, 0xff, 0x4b, 0x02, 0x7d, 0x40, 0xf7, 0x30, 0x73, 0x1a, 0x96, 0xf5,
	0x3c, 0x77, 0x83, 0x90, 0xc2, 0x64, 0x43, 0x04, 0x90, 0x4a, 0x4c, 0x2b, 0x67, 0x8c, 0x4c,
	0x59, 0xa8, 0x36, 0x9f, 0xbd, 0x24, 0xa4, 0x5e, 0xd6, 0x5c, 0x63, 0x29, 0x9d, 0x44, 0xb0,
	0x7a, 0x74, 0xed, 0x63, 0x9b, 0x0e, 0xe0, 0xa1, 0xdd, 0xe0, 0xfd, 0x68, 0x39, 0x94, 0xdb,
	0xb1, 0xe9, 0x65, 0x33, 0x04, 0xff, 0x1b, 0xbc, 0x6e, 0x3a, 0x7e, 0x8e, 0x4c, 0xfe, 0x48,
	0x1c, 0xb5, 0xdd, 0xdc, 0x17, 0xca, 0x2a, 0x30, 0x90};

static int put_bytes(const char *dir, const char *name, const void *data, size_t n)
{
	char path[512];
	cleanup_fd int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	return fd < 0 || write(fd, data, n) != (ssize_t)n ? -1 : 0;
}

static int put(const char *dir, const char *name, const char *text)
{
	return put_bytes(dir, name, text, strlen(text));
}

static int dir_in(const char *dir, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return mkdir(path, 0755);
}

/* What `git init` makes, as far as git insists on it. */
static int make_repository(const char *dir, const char *config)
{
	if (mkdir(dir, 0755) < 0 || dir_in(dir, "objects") < 0 || dir_in(dir, "refs") < 0 ||
		put(dir, "HEAD", "ref: refs/heads/main\n") < 0)
		return -1;
	return put(dir, "config", config);
}

/* One with a commit: without one croft takes the directory as it is, and no objects. */
static int make_committed(void)
{
	static const char *const dirs[] = {
		"objects/4b", "objects/ea", "objects/info", "refs/heads"};

	if (make_repository(".git", "[core]\n\trepositoryformatversion = 0\n") < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (dir_in(".git", dirs[i]) < 0)
			return -1;
	if (put_bytes(".git/objects", TREE_ID, tree, sizeof(tree)) < 0 ||
		put_bytes(".git/objects/ea", &COMMIT_ID[2], commit, sizeof(commit)) < 0)
		return -1;
	return put(".git/refs/heads", "main", COMMIT_ID "\n");
}

/* ---- G14 ---- */

static int plant_alternates(const char *bait)
{
	char outside[512];

	snprintf(outside, sizeof(outside), "%s/outside\n", bait);
	if (make_committed() < 0)
		return -1;
	return put(".git/objects/info", "alternates", outside);
}

static enum probe_result g14_alternates(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	char path[64];

	tally_try(&t,
		probe_read_token(a, open(probe_path(a, "outside/.env"), O_RDONLY | O_CLOEXEC)),
		"the directory that alternates name");
	for (int i = 0; i < SHOWN_MAX && !a->control; i++) {
		snprintf(path, sizeof(path), "/.croft/git/%d/.env", i);
		tally_try(&t, probe_read_token(a, open(path, O_RDONLY | O_CLOEXEC)), "%s", path);
	}
	return tally_end(&t);
}

/* ---- G18 ---- */

static enum probe_result g18_made(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);

	mkdir("made", 0755);
	mkdir("pointer", 0755);
	tally_try(&t, make_repository("made/.git", CONFIG), "a repository");
	tally_try(&t, make_repository("elsewhere", CONFIG), "one under another name");
	tally_try(
		&t, put("pointer", ".git", "gitdir: ../elsewhere\n"), "a .git file that names it");
	tally_try(&t, make_repository("bare", CONFIG "\tworktree = .\n"), "a bare repository");
	return tally_end(&t);
}

/* ---- L12 ---- */

static int plant_pipe(const char *bait)
{
	(void)bait;
	if (make_committed() < 0 || unlink(".git/HEAD") < 0)
		return -1;
	return mkfifo(".git/HEAD", 0644);
}

/* That we were started at all shows that croft did not wait. The control: a reader does wait. */
static enum probe_result l12_pipe(const struct probe_args *a, struct buf *detail)
{
	struct probe_tally t = tally_start(a, detail);
	int end[2];
	struct pollfd p;
	pid_t pid;

	if (!a->control) {
		buf_adds(detail, "croft did not wait for the pipe");
		return PROBE_HELD;
	}
	if (pipe2(end, O_CLOEXEC) < 0)
		return probe_skip(detail, "no pipe");
	pid = fork();
	if (pid == 0) {
		(void)!open(".git/HEAD", O_RDONLY | O_CLOEXEC);
		_exit(0);
	}
	close(end[1]);
	p = (struct pollfd){.fd = end[0], .events = POLLIN};
	tally_try(&t, pid > 0 && poll(&p, 1, HANG_MS) == 0 ? 0 : -1, "a reader waits for the pipe");
	close(end[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return tally_end(&t);
}

static const struct probe probes[] = {
	{"G14", "G14-alternates", "see a directory that a repository's alternates name", PROBE_BOTH,
		g14_alternates, .place = PLACE_ENVIRONMENT, .plant = plant_alternates,
		.refusal = "takes objects from"},
	{"G18", "G18-repository", "leave a repository that runs a program on the host", PROBE_BOTH,
		g18_made, .outside = true, .rules = RULES_EITHER},
	{"L12", "L12-pipe", "make croft wait for a pipe that is .git/HEAD", PROBE_BOTH, l12_pipe,
		.place = PLACE_ENVIRONMENT, .plant = plant_pipe, .refusal = ".git/HEAD"},
	{"L12", "L12-pipe-staged", "the same in a staged run", PROBE_NAMESPACE, l12_pipe,
		.place = PLACE_STAGED, .plant = plant_pipe, .refusal = ".git/HEAD"},
};
const struct probe_family probes_repository = {probes, ARRAY_SIZE(probes)};
