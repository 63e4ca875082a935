/* SPDX-License-Identifier: Apache-2.0 */
/* A workspace, layers beside it, and commands that run in them: run_command() with a staging. */
#ifndef CROFT_TESTS_UNIT_STAGE_WORLD_H
#define CROFT_TESTS_UNIT_STAGE_WORLD_H

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/run/run.h"
#include "engine/engine.h"
#include "os/path.h"
#include "os/tree.h"

#define STAGE_LAYERS_MAX 100
#define STAGE_TREES_MAX 4

static char top[64], ws[80];

/* "TOP/name"; a few at a time. */
static inline const char *in_top(const char *name)
{
	static char v[8][PATH_MAX];
	static unsigned turn;
	char *s = v[turn++ % 8];

	snprintf(s, PATH_MAX, "%s/%.4000s", top, name);
	return s;
}

static inline void put(const char *name, const char *text)
{
	cleanup_fd int fd = open(in_top(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
}

/* The content of a file, or "(none)". */
static inline const char *get(const char *name)
{
	static char text[4096];
	cleanup_fd int fd = open(in_top(name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (n < 0)
		return "(none)";
	text[n] = '\0';
	return text;
}

static inline bool has(const char *name)
{
	struct stat st;

	return lstat(in_top(name), &st) == 0;
}

static inline void make(const char *name)
{
	if (mkdir(in_top(name), 0755) < 0 && errno != EEXIST)
		abort();
}

/* The kernel leaves directories without permissions in an overlay's working directory. */
static inline void open_up(const char *work)
{
	static const char *const left[] = {"work", "work/incompat", "work/incompat/volatile"};
	char name[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		snprintf(name, sizeof(name), "%s/%s", work, left[i]);
		chmod(in_top(name), 0700);
	}
}

__attribute__((destructor)) static void world_remove(void)
{
	if (top[0]) {
		open_up("work");
		open_up("deps.work");
		tree_remove_at(AT_FDCWD, top);
	}
	top[0] = '\0';
}

/* ws with some files, base (another state of it), upper and work. */
static inline void world(void)
{
	char made[] = "/tmp/croft-stage-XXXXXX";

	world_remove();
	if (!mkdtemp(made))
		abort();
	snprintf(top, sizeof(top), "%s", made);
	snprintf(ws, sizeof(ws), "%s/ws", top);
	umask(022);
	make("ws");
	make("ws/dir");
	make("ws/.git");
	put("ws/file", "host");
	put("ws/dir/inner", "host inner");
	put("ws/.git/config", "host git");
	make("base");
	make("base/dir");
	put("base/file", "base");
	put("base/dir/inner", "base inner");
	make("upper");
	make("work");
	make("home");
}

/* What is staged: tree 0 is the workspace. */
struct stage {
	struct staging staging;
	struct staging_tree trees[STAGE_TREES_MAX];
	const char *lower[STAGE_TREES_MAX][STAGE_LAYERS_MAX + 1];
	const char *objects[4];
};

/* Zero-initialise. lower: newest first, NULL-terminated. */
static inline void stage_tree(struct stage *s, const char *dst, const char *upper, const char *work,
	const char *const *lower)
{
	size_t t = s->staging.trees_n++, n = 0;

	for (; lower[n]; n++)
		s->lower[t][n] = strdup(lower[n]);
	s->trees[t] = (struct staging_tree){.dst = strdup(dst),
		.lower = s->lower[t],
		.upper = upper ? strdup(upper) : NULL,
		.work = work ? strdup(work) : NULL};
	s->staging.trees = s->trees;
}
#define STAGE_TREE(s, dst, upper, work, ...)                                                       \
	stage_tree(s, dst, upper, work, (const char *const[]){__VA_ARGS__, NULL})

static inline void stage_done(struct stage *s)
{
	for (size_t t = 0; t < s->staging.trees_n; t++) {
		for (size_t i = 0; s->lower[t][i]; i++)
			free((void *)(uintptr_t)s->lower[t][i]);
		free((void *)(uintptr_t)s->trees[t].dst);
		free((void *)(uintptr_t)s->trees[t].upper);
		free((void *)(uintptr_t)s->trees[t].work);
	}
	*s = (struct stage){0};
}
#define cleanup_stage __attribute__((cleanup(stage_done)))

/* One command in it. */
struct ran {
	int rc;         /* of run_command() */
	int code;       /* of the command */
	char out[8192]; /* its stdout and stderr */
	struct err e;
	struct receipt receipt;
};

static inline void ran_done(struct ran *r)
{
	receipt_done(&r->receipt);
}
#define cleanup_ran __attribute__((cleanup(ran_done)))

static struct policy_rule_text {
	enum access access;
	const char *path;
} more_rules[8]; /* for the next run; access 0 and path NULL end it */

static inline int world_policy(struct policy *ret, struct err *e)
{
	struct policy_context ctx = {.home = in_top("home"), .workspace = ws};
	struct policy_layer *l = NULL;
	int r = policy_layer_new(&l, LAYER_CLI, "test", e);

	if (r == 0)
		r = policy_layer_set(l, "tier", "namespace", e);
	for (size_t i = 0; r == 0 && more_rules[i].path; i++)
		r = policy_layer_add_rule(l, more_rules[i].access, more_rules[i].path, &ctx, e);
	if (r == 0)
		r = policy_resolve(ret, &l, 1, false, &ctx, e);
	policy_layer_free(l);
	return r;
}

static inline void run_request_in(
	struct ran *ret, struct run_request *q, const char *script, const struct stage *s)
{
	char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, strdup(script), NULL};
	char *env[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
	cleanup_policy struct policy p = {0};
	cleanup_fd int out = memfd_create("out", MFD_CLOEXEC);
	ssize_t n;

	*ret = (struct ran){.code = -1};
	receipt_init(&ret->receipt);
	ret->rc = world_policy(&p, &ret->e);
	q->policy = &p;
	q->home = in_top("home");
	q->workspace = q->cwd = ws;
	q->argv = argv;
	q->environ = env;
	q->allow_degraded = true;
	q->staging = s ? &s->staging : NULL;
	if (!q->own_stdio) {
		q->stdio[0] = -1;
		q->stdio[1] = q->stdio[2] = out;
	}
	if (ret->rc == 0)
		ret->rc = run_command(&ret->receipt, q, &ret->e);
	if (ret->rc == 0)
		ret->code = ret->receipt.exit_code;
	n = pread(out, ret->out, sizeof(ret->out) - 1, 0);
	ret->out[n > 0 ? n : 0] = '\0';
	free(argv[2]);
	if (getenv("STAGE_DEBUG"))
		fprintf(stderr, "rc %d code %d %s\n%s", ret->rc, ret->code, ret->e.msg, ret->out);
}

static inline void run_in(struct ran *ret, const char *script, const struct stage *s)
{
	struct run_request q = {0};

	run_request_in(ret, &q, script, s);
}

/* Does the tier work on this machine at all? */
static inline bool can_stage(void)
{
	struct err e = ERR_INIT;

	return engine_namespace.probe(&e) == 0;
}
#define NEEDS_STAGING()                                                                            \
	do {                                                                                       \
		if (!can_stage())                                                                  \
			SKIP("no namespaces here");                                                \
	} while (0)

#endif
