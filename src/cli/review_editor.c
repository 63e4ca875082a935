/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's editor on a piece of text: see review_walk.h.
 *
 * The file is the user's alone (0600) and lies in XDG_RUNTIME_DIR or /tmp, never in TMPDIR, which may
 * point into a workspace where a sandbox could reach it. Editors replace files, so it is
 * opened again by name afterwards, without following a symlink.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/review_walk.h"

#define EDIT_MAX_B (64u << 20)
#define PATH_SIZE 512

static int write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return -1;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

static int make_file(const char *text, char path[PATH_SIZE])
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	const char *places[] = {dir && dir[0] == '/' && strlen(dir) < 300 ? dir : "/tmp", "/tmp"};

	for (int i = 0; i < 2; i++) {
		int fd;

		snprintf(path, PATH_SIZE, "%s/croft-review.XXXXXX.diff", places[i]);
		fd = mkostemps(path, (int)strlen(".diff"), O_CLOEXEC);
		if (fd < 0)
			continue;
		if (write_all(fd, text, strlen(text)) == 0 && close(fd) == 0)
			return 0;
		close(fd);
		unlink(path);
	}
	return -1;
}

/* The file's content as text; NULL when it is none. */
static char *read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	char *text = NULL;
	size_t n = 0;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0 &&
		st.st_size <= (off_t)EDIT_MAX_B)
		text = malloc((size_t)st.st_size + 1);
	while (text && n < (size_t)st.st_size) {
		ssize_t r = read(fd, text + n, (size_t)st.st_size - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	close(fd);
	if (!text)
		return NULL;
	text[n] = '\0';
	if (strlen(text) != n) {
		free(text);
		return NULL;
	}
	return text;
}

/* Signals from the keyboard are the editor's while it runs. */
static int run_editor(const char *path)
{
	const char *editor = getenv("VISUAL");
	char command[1024];
	struct sigaction ignore = {.sa_handler = SIG_IGN}, was_int, was_quit;
	int status = -1;
	pid_t pid;

	if (!editor || !*editor)
		editor = getenv("EDITOR");
	if (!editor || !*editor)
		editor = "vi";
	if (snprintf(command, sizeof(command), "%s \"$1\"", editor) >= (int)sizeof(command))
		return -1;
	sigaction(SIGINT, &ignore, &was_int);
	sigaction(SIGQUIT, &ignore, &was_quit);
	pid = fork();
	if (pid == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		signal(SIGTSTP, SIG_DFL);
		signal(SIGPIPE, SIG_DFL);
		execl("/bin/sh", "sh", "-c", command, "croft", path, (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sigaction(SIGINT, &was_int, NULL);
	sigaction(SIGQUIT, &was_quit, NULL);
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

char *review_editor(const char *text)
{
	char path[PATH_SIZE], *changed = NULL;

	if (make_file(text, path) < 0) {
		fprintf(stderr, "croft: cannot make a file for the editor in /tmp\n");
		return NULL;
	}
	if (run_editor(path) != 0)
		fprintf(stderr,
			"croft: the editor failed (set VISUAL or EDITOR); nothing was changed\n");
	else if (!(changed = read_file(path)))
		fprintf(stderr, "croft: the edited text is not text, or has more than 64 MiB\n");
	unlink(path);
	return changed;
}
