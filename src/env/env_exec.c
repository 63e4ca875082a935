/* SPDX-License-Identifier: Apache-2.0 */
/* A command in an environment: see env_exec.h. */
#include "env/env_exec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "env/journal.h"
#include "session/config/objects.h"
#include "session/run/run.h"

struct begin {
	struct journal *journal;
	struct env *env;
};

static int begin(void *arg, const struct receipt *r, struct err *e)
{
	struct begin *b = arg;

	return journal_begin(b->journal, b->env, r, e);
}

struct run_request env_request(const struct env *v, const struct env_exec *x)
{
	const char *top = v->kind == ENV_COPY ? v->copy : v->workspace;

	return (struct run_request){.policy = x->policy,
		.home = v->home,
		.workspace = top,
		.own_workspace = v->kind == ENV_COPY,
		.cwd = x->cwd ? x->cwd : top,
		.argv = x->argv,
		.environ = x->environ,
		.stdio = {x->stdio[0], x->stdio[1], x->stdio[2]},
		.own_stdio = x->own_stdio,
		.allow_degraded = x->allow_degraded,
		.label = x->label};
}

/* Landed or discarded: from now on there may be new work in it. */
int env_reopen(struct env *v, struct err *e)
{
	if (v->state == ENV_OPEN)
		return 0;
	v->state = ENV_OPEN;
	return env_save(v, e);
}

/* The command has run; whatever is wrong with its record now is the receipt's to say. */
static void record(struct env *v, struct journal *j, struct receipt *r)
{
	struct err e = ERR_INIT;

	if (journal_end(j, v, r, &e) < 0) {
		snprintf(v->problem, sizeof(v->problem), "%s", e.msg);
		receipt_degrade(r, "the evidence of this run is still in the journal: %s", e.msg);
	}
	for (size_t i = 0; i < v->notes.n; i++)
		receipt_degrade(r, "%s", v->notes.v[i]);
}

/*
 * The workspace of the host may have directories that the environment never had. What is in it is known only
 * when it is staged: the sandbox's own sentence tells.
 */
static int explain(const struct env *v, const struct run_request *q, int r, struct err *e)
{
	cleanup_buf struct buf entering = BUF_INIT(PATH_MAX + 64);

	buf_addf(&entering, "enter %s: %s", q->cwd, strerror(ENOENT));
	if (str_eq(q->cwd, q->workspace) || !str_eq(e->msg, buf_str(&entering)))
		return r;
	return err_invalid(e,
		"%s is not in environment %s; run it from %s, or from a directory that is", q->cwd,
		v->name, q->workspace);
}

/* Directories of objects are the host's: the policy of this very command decides about them. */
int env_check_objects(
	struct env *v, const struct env_exec *x, struct env_stage *s, struct err *e)
{
	cleanup_free bool *left_out = calloc(v->base.objects.n + 1, sizeof(*left_out));
	struct objects_check check = {.policy = x->policy,
		.repo = &v->repo,
		.state_dir = v->state_dir,
		.granted = v->kind == ENV_COPY};
	int r;

	if (!left_out)
		return err_set(e, ENOMEM, "stage environment %s", v->name);
	r = objects_check(&check, &v->base.objects, left_out, e);
	for (size_t i = 0; r == 0 && s->objects && i < v->base.objects.n; i++)
		if (left_out[i])
			s->objects[i] = "";
	return r;
}

int env_exec(struct env *v, const struct env_exec *x, struct receipt *ret, struct err *e)
{
	struct run_request q = env_request(v, x);
	struct journal j = JOURNAL_INIT;
	struct begin b = {&j, v};
	struct env_stage stage = {0};
	int r = 0;

	if (x->read_only && v->kind == ENV_COPY)
		return err_refuse(e,
			"environment %s is a plain copy and cannot be looked at read-only",
			v->name);
	if (!x->read_only)
		r = env_need_ledger(v, e);
	if (r == 0 && !x->read_only)
		r = env_reopen(v, e);
	if (r == 0 && v->kind != ENV_COPY) {
		r = env_stage(v, x->read_only, &stage, e);
		q.staging = &stage.staging;
	}
	if (r == 0 && v->kind != ENV_LIVE)
		r = env_check_objects(v, x, &stage, e);
	if (r == 0 && !x->read_only) {
		r = journal_open(&j, v, ret->id, x->as_test, true, e);
		q.capture = &j.capture;
		q.begin = begin;
		q.begin_arg = &b;
	}
	if (r == 0)
		r = run_command(ret, &q, e);
	if (r < 0)
		r = explain(v, &q, r, e);
	if (r == 0 && !x->read_only)
		record(v, &j, ret);
	else if (r < 0)
		journal_drop(&j, v);
	journal_done(&j);
	env_stage_done(&stage);
	return r;
}
