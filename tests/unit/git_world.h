/* SPDX-License-Identifier: Apache-2.0 */
/* A directory with a repository and a state directory, and git as the judge of what croft writes. */
#ifndef CROFT_TESTS_UNIT_GIT_WORLD_H
#define CROFT_TESTS_UNIT_GIT_WORLD_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "git/repo.h"
#include "os/path.h"
#include "os/tree.h"

struct world {
	char top[64], work[96], state[96];
	int fd;
};

/* Runs a shell text in `work` with a fixed identity; true when it succeeds. */
static inline bool world_sh(const struct world *w, const char *text)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("HOME", w->top, 1);
		setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
		setenv("GIT_AUTHOR_NAME", "A", 1);
		setenv("GIT_AUTHOR_EMAIL", "a@example.org", 1);
		setenv("GIT_COMMITTER_NAME", "C", 1);
		setenv("GIT_COMMITTER_EMAIL", "c@example.org", 1);
		alarm(60);
		if (chdir(w->work) == 0)
			execl("/bin/sh", "sh", "-ec", text, (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* What a shell text says, without the final newline; "?" when it fails. Freed by the caller. */
static inline char *world_ask(const struct world *w, const char *text)
{
	cleanup_buf struct buf cmd = BUF_INIT(65536), out = BUF_INIT(1u << 20);

	buf_addf(&cmd, "( %s ) > '%s/answer' 2>&1", text, w->top);
	if (!world_sh(w, buf_str(&cmd)) || file_read_at(w->fd, "answer", &out) < 0)
		return strdup("?");
	while (out.len && out.data[out.len - 1] == '\n')
		out.data[--out.len] = '\0';
	return buf_take(&out);
}

/* format: "sha1", "sha256", or NULL for a directory that is no repository. False: no git. */
static inline bool world_make(struct world *w, const char *format)
{
	char text[128];

	snprintf(w->top, sizeof(w->top), "/tmp/croft-git-XXXXXX");
	w->fd = mkdtemp(w->top) ? open(w->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	snprintf(w->work, sizeof(w->work), "%s/work", w->top);
	snprintf(w->state, sizeof(w->state), "%s/state", w->top);
	if (w->fd < 0 || mkdir(w->work, 0700) < 0)
		return false;
	/* The user that croft's "as user" runs have. */
	setenv("HOME", w->top, 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	snprintf(text, sizeof(text), "git init -q -b main --object-format=%s",
		format ? format : "sha1");
	return !format || world_sh(w, text);
}

static inline void world_remove(struct world *w)
{
	if (w->fd < 0)
		return;
	close_fd(&w->fd);
	tree_remove_at(AT_FDCWD, w->top);
}
#define cleanup_world __attribute__((cleanup(world_remove)))

#endif
