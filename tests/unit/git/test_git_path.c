/* SPDX-License-Identifier: Apache-2.0 */
/* git/child: which git is run. Each question in a process of its own, for the answer is kept. */
#include "test.h"

#include <errno.h>

#include "git/program.h"
#include "git_world.h"

#define FAKE "printf '#!/bin/sh\\necho git version 9.9.9\\n' > $d/git; chmod 755 $d/git"

/* What git_version() says with this PATH and working directory; 0 when there is no git. */
static int version_with(const char *path, const char *cwd)
{
	struct err e = ERR_INIT;
	int status, v;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		if (setenv("PATH", path, 1) < 0 || chdir(cwd) < 0)
			_exit(99);
		v = git_version(&e);
		_exit(v == -ENOENT && strstr(e.msg, "install git") ? 0
			: v == 909                                 ? 9
			: v > 0                                    ? 2
								   : 98);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(which_git_is_run)
{
	cleanup_world struct world w = {.fd = -1};
	char path[512];

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(&w,
		"mkdir bin ../bin ../open; for d in bin ../bin ../open; do " FAKE
		"; done; chmod o+w ../open/git; mkdir ../link; ln -s $PWD/bin/git ../link/git"));
	/* The control: an ordinary place on PATH is taken. */
	snprintf(path, sizeof(path), "%s/bin:/usr/bin:/bin", w.top);
	CHECK_INT(version_with(path, "/"), 9);
	/* Below the working directory. */
	CHECK_INT(version_with(path, w.top), 2);
	/* In a working tree, directly or through a link. */
	snprintf(path, sizeof(path), "%s/bin:/usr/bin:/bin", w.work);
	CHECK_INT(version_with(path, "/"), 2);
	snprintf(path, sizeof(path), "%s/link:/usr/bin:/bin", w.top);
	CHECK_INT(version_with(path, "/"), 2);
	/* Anybody could have written it. */
	snprintf(path, sizeof(path), "%s/open:/usr/bin:/bin", w.top);
	CHECK_INT(version_with(path, "/"), 2);
	/* Relative and empty entries. */
	snprintf(path, sizeof(path), "%s/bin", w.top);
	CHECK_INT(version_with("bin:::.:/usr/bin", w.top), 2);
	CHECK_INT(version_with("bin:.", w.top), 0);
	CHECK_INT(version_with("/nonexistent", "/"), 0);
}

/* 0 when the repository could be opened with this PATH; otherwise the errno. */
static int open_with(const struct world *w, const char *path)
{
	struct err e = ERR_INIT;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		cleanup_repo struct repo r = {0};

		alarm(60);
		if (path && setenv("PATH", path, 1) < 0)
			_exit(99);
		_exit(-repo_open(&r, w->work, w->state, &e));
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_known_repository_is_opened_without_git)
{
	cleanup_world struct world w = {.fd = -1};

	CHECK(world_make(&w, "sha1"));
	CHECK_INT(open_with(&w, "/nonexistent"), ENOENT);
	CHECK_INT(open_with(&w, NULL), 0);
	CHECK_INT(open_with(&w, "/nonexistent"), 0);
	CHECK(world_sh(&w, "git config core.sparseCheckout true"));
	CHECK_INT(open_with(&w, "/nonexistent"), ENOENT);
}
