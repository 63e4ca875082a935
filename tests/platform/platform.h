/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel assumption per program. Each claim is tried for real in a child of its own and prints
 * "ok - ", "not ok - " or "skip - " with a reason. When a future kernel changes its mind, the
 * program that fails here names what in croft stands on it.
 */
#ifndef CROFT_TESTS_PLATFORM_H
#define CROFT_TESTS_PLATFORM_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/uapi.h"

enum { HOLDS = 0, FAILS = 1, SKIPS = 77 };

static int failures;

/* In a claim: say why and end it. */
#define CLAIM_SKIP(...)                                                                            \
	do {                                                                                       \
		printf("# ");                                                                      \
		printf(__VA_ARGS__);                                                               \
		printf("\n");                                                                      \
		fflush(stdout);                                                                    \
		_exit(SKIPS);                                                                      \
	} while (0)
#define CLAIM_CHECK(c)                                                                             \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			printf("# %s:%d: %s (%s)\n", __FILE__, __LINE__, #c, strerror(errno));     \
			fflush(stdout);                                                            \
			_exit(FAILS);                                                              \
		}                                                                                  \
	} while (0)

/* Try one claim in a child, and print the verdict. */
static void claim(const char *name, void (*fn)(void))
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(50);
		fn();
		fflush(stdout);
		_exit(HOLDS);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		status = FAILS << 8;
	if (WIFEXITED(status) && WEXITSTATUS(status) == HOLDS) {
		printf("ok - %s\n", name);
	} else if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPS) {
		printf("skip - %s: this machine cannot try it\n", name);
	} else {
		printf("not ok - %s (status %#x)\n", name, (unsigned)status);
		failures++;
	}
}

static inline int claim_result(void)
{
	return failures ? 1 : 0;
}

static inline void poke(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		CLAIM_SKIP("write %s: %s", path, strerror(errno));
	close(fd);
}

/* A user namespace of our own, mapped to ourselves, and what else is asked; skips where refused. */
static inline void enter_namespaces(int flags)
{
	char line[64];
	unsigned uid = geteuid(), gid = getegid();

	if (unshare(CLONE_NEWUSER) < 0)
		CLAIM_SKIP("no user namespace: %s", strerror(errno));
	poke("/proc/self/setgroups", "deny");
	snprintf(line, sizeof(line), "%u %u 1", uid, uid);
	poke("/proc/self/uid_map", line);
	snprintf(line, sizeof(line), "%u %u 1", gid, gid);
	poke("/proc/self/gid_map", line);
	if (flags && unshare(flags) < 0)
		CLAIM_SKIP("unshare %#x: %s", (unsigned)flags, strerror(errno));
}

/* The same with a private mount table and an empty tmpfs on /tmp, which becomes the cwd. */
static inline void enter_scratch(int flags)
{
	enter_namespaces(CLONE_NEWNS | flags);
	CLAIM_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CLAIM_CHECK(mount("platform", "/tmp", "tmpfs", 0, "size=4m") == 0);
	CLAIM_CHECK(chdir("/tmp") == 0);
}

static inline void make_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CLAIM_CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* A temporary directory for claims that need no namespace; becomes the cwd. */
static inline void enter_tmpdir(char path[64])
{
	snprintf(path, 64, "/tmp/croft-platform.XXXXXX");
	CLAIM_CHECK(mkdtemp(path) && chdir(path) == 0);
}

#endif
