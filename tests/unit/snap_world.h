/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary directory, repositories in it, and shell commands: what tests of snap need. */
#ifndef CROFT_TESTS_UNIT_SNAP_WORLD_H
#define CROFT_TESTS_UNIT_SNAP_WORLD_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "git/repo.h"
#include "os/path.h"
#include "os/tree.h"

#define WORLD_CMD_S 120

static char world[64];

__attribute__((destructor)) static inline void world_remove(void)
{
	if (world[0] && getpid() == getpgid(0))
		tree_remove_at(AT_FDCWD, world);
}

/* Once per program: an empty place, and an environment without anybody's configuration. */
static inline bool world_make(void)
{
	if (world[0])
		return true;
	setpgid(0, 0);
	umask(022);
	snprintf(world, sizeof(world), "/tmp/croft-unit-snap-XXXXXX");
	if (!mkdtemp(world)) {
		world[0] = '\0';
		return false;
	}
	setenv("HOME", world, 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
	setenv("GIT_AUTHOR_NAME", "A", 1);
	setenv("GIT_AUTHOR_EMAIL", "a@example.org", 1);
	setenv("GIT_COMMITTER_NAME", "A", 1);
	setenv("GIT_COMMITTER_EMAIL", "a@example.org", 1);
	setenv("GIT_TEST_FSYNC", "0", 1);
	unsetenv("XDG_CONFIG_HOME");
	return true;
}

/* Run a shell command in the world; its output goes to out (or NULL). The exit status. */
static inline int world_shv(struct buf *out, const char *fmt, va_list ap)
{
	cleanup_buf struct buf cmd = BUF_INIT(1u << 20);
	char chunk[4096];
	int p[2], status;
	ssize_t n;
	pid_t pid;

	buf_addv(&cmd, fmt, ap);
	fflush(stdout);
	if (cmd.failed || pipe2(p, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (chdir(world) < 0 || dup2(null, 0) < 0 || dup2(p[1], 1) < 0)
			_exit(126);
		alarm(WORLD_CMD_S);
		execl("/bin/sh", "sh", "-ec", buf_str(&cmd), (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	while ((n = read(p[0], chunk, sizeof(chunk))) > 0)
		if (out)
			buf_add(out, chunk, (size_t)n);
	close(p[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	if (out)
		while (out->len && out->data[out->len - 1] == '\n')
			out->data[--out->len] = '\0';
	return WEXITSTATUS(status);
}

__attribute__((format(printf, 1, 2))) static inline int world_sh(const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = world_shv(NULL, fmt, ap);
	va_end(ap);
	return r;
}

__attribute__((format(printf, 2, 3))) static inline int world_out(
	struct buf *out, const char *fmt, ...)
{
	va_list ap;
	int r;

	buf_reset(out);
	va_start(ap, fmt);
	r = world_shv(out, fmt, ap);
	va_end(ap);
	return r;
}

/* A directory of the world, made if need be, opened. */
static inline int world_dir(const char *name)
{
	char p[PATH_MAX];

	snprintf(p, sizeof(p), "%s/%s", world, name);
	mkdir(p, 0755);
	return open(p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline const char *world_path(const char *name)
{
	static char p[4][PATH_MAX];
	static unsigned turn;
	char *one = p[turn++ % 4];

	snprintf(one, PATH_MAX, "%s/%s", world, name);
	return one;
}

#endif
