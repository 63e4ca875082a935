/* SPDX-License-Identifier: Apache-2.0 */
/* A repository with one commit, an environment on it, and hands to write in both. For test_land_*.c. */
#ifndef CROFT_TESTS_UNIT_LAND_WORLD_H
#define CROFT_TESTS_UNIT_LAND_WORLD_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "os/path.h"
#include "os/tree.h"
#include "test.h"

struct land_world {
	char top[128], work[160], state[160];
	struct env v;
	struct land_result r;
	struct err e;
};

/* A shell line in the workspace; its output (first 4 KiB, without the last newline). */
__attribute__((format(printf, 2, 3))) static inline const char *world_sh(
	struct land_world *w, const char *fmt, ...)
{
	static char outs[4][4096]; /* the last four answers stay */
	static unsigned turn;
	char *out = outs[turn++ % 4], line[2048];
	size_t n = 0;
	ssize_t k;
	va_list ap;
	int p[2];
	pid_t pid;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	out[0] = '\0';
	if (pipe2(p, O_CLOEXEC) < 0)
		return out;
	pid = fork();
	if (pid == 0) {
		dup2(p[1], 1);
		if (chdir(w->work) < 0)
			_exit(99);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(99);
	}
	close(p[1]);
	while ((k = read(p[0], out + n, sizeof(outs[0]) - 1 - n)) > 0)
		n += (size_t)k;
	close(p[0]);
	waitpid(pid, NULL, 0);
	out[n] = '\0';
	while (n > 0 && out[n - 1] == '\n')
		out[--n] = '\0';
	return out;
}

static inline bool world_open(struct land_world *w)
{
	env_init(&w->v);
	w->e = ERR_INIT;
	return env_open(&w->v, "e1", ENV_LOCK_WRITE, &w->e) == 0;
}

/* The object format of repositories that are made, and whether they have a commit. */
static const char *world_format = "sha1";
static bool world_unborn;

/* git: a repository (with files a, b, dir/c, gone/d) or a plain directory with the same. */
static inline bool world_make(struct land_world *w, bool git)
{
	struct env_new n = {.name = "e1",
		.agent = "agent",
		.model = "model-1",
		.task = "Make it better",
		.policy_text = "version: 1\n"};
	char dir[160];

	*w = (struct land_world){0};
	env_init(&w->v);
	snprintf(w->top, sizeof(w->top), "/tmp/croft-land-XXXXXX");
	if (!mkdtemp(w->top))
		return false;
	snprintf(w->work, sizeof(w->work), "%s/work", w->top);
	snprintf(w->state, sizeof(w->state), "%s/state/croft", w->top);
	mkdir(w->work, 0755);
	setenv("HOME", w->top, 1);
	snprintf(dir, sizeof(dir), "%s/state", w->top);
	setenv("XDG_STATE_HOME", dir, 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	unsetenv("CROFT_CRASH_AT");
	world_sh(w, "printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n' >a; echo b >b; mkdir dir gone; "
		    "echo c >dir/c; echo d >gone/d");
	if (git)
		world_sh(w,
			"git init -q -b main --object-format=%s . && git config user.name U && git "
			"config user.email u@x && "
			"%s",
			world_format, world_unborn ? ":" : "git add -A && git commit -q -m one");
	n.workspace = w->work;
	n.home = w->top;
	n.state_dir = w->state;
	if (env_create(&w->v, &n, &w->e) == 0 && (!git || w->v.kind != ENV_COPY))
		return true;
	if (!w->e.kind) /* what these tests write into layers would be staged nowhere */
		test_skipped = "no overlay can be had here (in a chroot, say)";
	printf("# %s\n", w->e.msg);
	return false;
}

/* The directory that the environment writes to. */
static inline const char *world_upper(struct land_world *w)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/layers/%s/tree", w->state,
		w->v.layers.v[w->v.layers.n - 1]);
	return path;
}

/* "It was deleted inside": a whiteout in the upper layer. */
static inline bool world_whiteout(struct land_world *w, const char *path)
{
	char full[1024];

	snprintf(full, sizeof(full), "%s/%s", world_upper(w), path);
	return mknod(full, S_IFCHR, makedev(0, 0)) == 0;
}

static inline int world_land(struct land_world *w, const struct land_request *q)
{
	land_result_done(&w->r);
	w->e = ERR_INIT;
	return land(&w->v, q, &w->r, &w->e);
}

static inline int world_revert(struct land_world *w, bool commit)
{
	land_result_done(&w->r);
	w->e = ERR_INIT;
	return land_revert(&w->v, commit, &w->r, &w->e);
}

static inline void world_done(struct land_world *w)
{
	land_result_done(&w->r);
	env_done(&w->v);
	tree_remove_at(AT_FDCWD, w->top);
}
#define cleanup_world __attribute__((cleanup(world_done)))

#endif
