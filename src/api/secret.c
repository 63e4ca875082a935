/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: secrets. Where values come from; the store itself is session/config/secrets.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "session/config/secrets.h"

#define LIST_MAX_B (1u << 20)

struct croft_secret {
	struct secret value;
};

extern char **environ;

int croft_secret_name(struct croft *c, const char *name)
{
	c->err = ERR_INIT;
	return secret_name_check(name, &c->err);
}

/* ---- sources ---- */

static int too_long(struct err *e)
{
	return err_invalid(
		e, "the value is longer than %u bytes; nothing was stored", SECRET_MAX_B);
}

/* One line of a terminal: byte by byte, since what follows it is somebody else's. */
static int read_line(struct secret *s, int fd, struct err *e)
{
	for (;;) {
		char ch;
		ssize_t n = read(fd, &ch, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "read the value");
		if (n == 0 || ch == '\n')
			return 0;
		if (!secret_add(s, &ch, 1))
			return too_long(e);
	}
}

static int read_all(struct secret *s, int fd, struct err *e)
{
	int r = secret_fill(s, fd);

	if (r == -EFBIG)
		return too_long(e);
	return r < 0 ? err_set(e, -r, "read the value") : 0;
}

static int read_file(struct secret *s, const char *file, struct err *e)
{
	cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return err_set(e, errno, "open %.512s", file);
	return read_all(s, fd, e);
}

static int read_env(struct secret *s, const char *name, struct err *e)
{
	const char *v = getenv(name);

	if (!v)
		return err_invalid(e, "the variable %.80s is not set", name);
	return secret_add(s, v, strlen(v)) ? 0 : too_long(e);
}

/* The shell's stdout is ours; stdin and stderr stay the user's, so that a helper can ask. */
static int start_shell(const char *command, int out, pid_t *ret_pid)
{
	char sh[] = "sh", dash_c[] = "-c";
	char *argv[] = {sh, dash_c, (char *)(uintptr_t)command, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t pipe_only;
	int r;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	r = posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r == 0) {
		posix_spawnattr_setsigdefault(&attr, &pipe_only);
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
		posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
		r = posix_spawn(ret_pid, "/bin/sh", &actions, &attr, argv, environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int read_command(struct secret *s, const char *command, struct err *e)
{
	cleanup_fd int from = -1;
	int pair[2], status = 0, r;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(e, errno, "start the command");
	from = pair[0];
	r = start_shell(command, pair[1], &pid);
	close(pair[1]);
	if (r < 0)
		return err_set(e, -r, "start the command");
	r = read_all(s, from, e);
	close_fd(&from); /* one that prints too much ends of it */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return r;
	if (WIFSIGNALED(status))
		return err_invalid(e, "the command was ended by signal %d; nothing was stored",
			WTERMSIG(status));
	if (WEXITSTATUS(status))
		return err_invalid(e, "the command ended with status %d; nothing was stored",
			WEXITSTATUS(status));
	return 0;
}

static int fill(struct secret *s, const struct croft_secret_source *from, struct err *e)
{
	if (from->file)
		return read_file(s, from->file, e);
	if (from->command)
		return read_command(s, from->command, e);
	if (from->env)
		return read_env(s, from->env, e);
	return from->line ? read_line(s, from->fd, e) : read_all(s, from->fd, e);
}

int croft_secret_read(
	struct croft *c, const struct croft_secret_source *s, struct croft_secret **ret)
{
	struct croft_secret *v = calloc(1, sizeof(*v));
	const char *flaw;
	int r;

	c->err = ERR_INIT;
	/* Room for more than the longest value, so that one too long is told from the longest. */
	if (!v || secret_init(&v->value, SECRET_MAX_B + 2) < 0) {
		free(v);
		return err_set(&c->err, ENOMEM, "read the value");
	}
	r = fill(&v->value, s, &c->err);
	if (r == 0 && v->value.len && v->value.data[v->value.len - 1] == '\n')
		v->value.len--;
	flaw = r == 0 ? secret_flaw(v->value.data, v->value.len) : NULL;
	if (flaw)
		r = err_invalid(&c->err, "the value %s; nothing was stored", flaw);
	if (r < 0) {
		croft_secret_free(v);
		return r;
	}
	*ret = v;
	return 0;
}

bool croft_secret_same(const struct croft_secret *a, const struct croft_secret *b)
{
	return secret_same(&a->value, &b->value);
}

void croft_secret_free(struct croft_secret *s)
{
	if (!s)
		return;
	secret_done(&s->value);
	free(s);
}

/* ---- store ---- */

int croft_secret_set(struct croft *c, const char *name, const struct croft_secret *s)
{
	c->err = ERR_INIT;
	return secret_set(name, &s->value, &c->err);
}

int croft_secret_remove(struct croft *c, const char *name)
{
	c->err = ERR_INIT;
	return secret_remove(name, &c->err);
}

static void show_time(char *out, size_t size, int64_t at)
{
	time_t t = (time_t)at;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		out[0] = '\0';
}

static void list_json(const struct secret_info *v, size_t n, struct buf *out)
{
	char when[40];
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_array(&j, "secrets");
	for (size_t i = 0; i < n; i++) {
		show_time(when, sizeof(when), v[i].set_at);
		json_object(&j, NULL);
		json_str(&j, "name", v[i].name);
		json_uint(&j, "length", v[i].len_b);
		json_str(&j, "set", when);
		json_str(&j, "problem", v[i].problem);
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
	buf_addc(out, '\n');
}

static void list_text(const struct secret_info *v, size_t n, struct buf *out)
{
	char when[40];
	size_t width = 0;

	if (n == 0)
		buf_adds(out, "no secret is stored; store one with: croft secret set NAME\n");
	for (size_t i = 0; i < n; i++)
		width = MAX_OF(width, strlen(v[i].name));
	for (size_t i = 0; i < n; i++) {
		show_time(when, sizeof(when), v[i].set_at);
		buf_addf(out, "%-*s  %4zu bytes  set %s%s%s\n", (int)width, v[i].name, v[i].len_b,
			when, v[i].problem ? "  UNUSABLE: " : "", v[i].problem ? v[i].problem : "");
	}
}

int croft_secret_list(struct croft *c, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(LIST_MAX_B);
	cleanup_free struct secret_info *v = NULL;
	size_t n = 0;
	int r;

	c->err = ERR_INIT;
	r = secret_list(&v, &n, &c->err);
	if (r < 0)
		return r;
	if (f == CROFT_JSON)
		list_json(v, n, &b);
	else
		list_text(v, n, &b);
	*ret = buf_take(&b);
	return *ret ? 0 : err_set(&c->err, ENOMEM, "list the secrets");
}
