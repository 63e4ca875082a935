/* SPDX-License-Identifier: Apache-2.0 */
/* Other people's programs as judges of what croft writes: openssl, keytool. */
#ifndef CROFT_TESTS_UNIT_TOOL_H
#define CROFT_TESTS_UNIT_TOOL_H

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define TOOL_TIME_S 60 /* a program that hangs is killed by its own alarm */
#define TOOL_OUTPUT_MAX ((size_t)4 << 20)

/* A directory for one test's files, which is the working directory of what it starts. */
struct tool_dir {
	char path[64];
	int fd;
};

static inline bool tool_dir_make(struct tool_dir *d)
{
	snprintf(d->path, sizeof(d->path), "/tmp/croft-unit-XXXXXX");
	d->fd = mkdtemp(d->path) ? open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return d->fd >= 0;
}

static inline void tool_dir_remove(struct tool_dir *d)
{
	DIR *list = d->fd >= 0 ? fdopendir(d->fd) : NULL;
	struct dirent *ent;

	while (list && (ent = readdir(list)))
		unlinkat(dirfd(list), ent->d_name, 0);
	if (list) {
		closedir(list);
		rmdir(d->path);
	}
	d->fd = -1;
}
#define cleanup_tool_dir __attribute__((cleanup(tool_dir_remove)))

static inline bool tool_write(const struct tool_dir *d, const char *name, const void *p, size_t n)
{
	cleanup_fd int fd =
		openat(d->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, p, n) == (ssize_t)n;
}

/* Start argv[0] by PATH; *ret_out_fd reads its stdout and stderr, in_fd (or -1) is its stdin. */
static inline pid_t tool_start(
	const struct tool_dir *d, const char *const *argv, int in_fd, int *ret_out_fd)
{
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (in_fd < 0)
			in_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (in_fd < 0 || fchdir(d->fd) < 0 || dup2(in_fd, 0) < 0 || dup2(p[1], 1) < 0 ||
			dup2(p[1], 2) < 0)
			_exit(126);
		alarm(TOOL_TIME_S);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(p[1]);
	if (pid < 0)
		close(p[0]);
	else
		*ret_out_fd = p[0];
	return pid;
}

/* Everything that comes until its end. */
static inline void tool_read(int fd, struct buf *out)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(out, chunk, (size_t)n);
}

/* The exit status, or -1. */
static inline int tool_wait(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* Run to the end: exit status (127: there is no such program), output in out. */
static inline int tool_run(const struct tool_dir *d, struct buf *out, const char *const *argv)
{
	cleanup_fd int fd = -1;
	pid_t pid = tool_start(d, argv, -1, &fd);

	if (pid < 0)
		return -1;
	buf_reset(out);
	tool_read(fd, out);
	return tool_wait(pid);
}
#define TOOL(d, out, ...) tool_run(d, out, (const char *const[]){__VA_ARGS__, NULL})

#endif
