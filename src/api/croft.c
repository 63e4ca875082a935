/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: handles, environments, execution. Policy and questions are in files of their own. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "env/env_exec.h"
#include "learn/learn.h"
#include "session/run/receipt_kept.h"
#include "session/run/whereis.h"
#include "session/run/run.h"
#include "session/config/state.h"
#include "os/heap.h"
#include "os/starter.h"

extern char **environ;

const char *croft_suggest(const char *word, const char *const *names, size_t n)
{
	return str_nearest(word, names, n);
}

struct croft *croft_new(void)
{
	return calloc(1, sizeof(struct croft));
}

void croft_free(struct croft *c)
{
	if (c && c->seen) {
		free(c->seen);
		close(c->seen_fd);
	}
	free(c);
}

const char *croft_error(const struct croft *c)
{
	return c->err.msg;
}

int croft_error_exit(const struct croft *c)
{
	return err_exit_code(&c->err);
}

#define SAME(A, B) _Static_assert((int)CROFT_REASON_##A == (int)ERR_WHY_##B, "a reason is one number")
SAME(NONE, NONE);
SAME(FAILED, FAILED);
SAME(INVALID, INVALID);
SAME(REFUSED, REFUSED);
SAME(NO_COMMAND, NO_COMMAND);
SAME(NOT_EXECUTABLE, NOT_EXECUTABLE);
SAME(UNENFORCEABLE, UNENFORCEABLE);
SAME(UNTRUSTED, UNTRUSTED);
SAME(NO_ENVIRONMENT, NO_ENVIRONMENT);
SAME(EXISTS, EXISTS);
SAME(IN_USE, IN_USE);
SAME(UP, UP);
SAME(NOT_UP, NOT_UP);
SAME(OTHER_VERSION, OTHER_VERSION);
SAME(NOT_YOURS, NOT_YOURS);
SAME(OTHER_BOUNDARY, OTHER_BOUNDARY);
SAME(PAUSED, PAUSED);
SAME(ENDING, ENDING);
SAME(NO_PROCESS, NO_PROCESS);
SAME(LIMIT, LIMIT);
SAME(ENDED, ENDED);
SAME(TIMED_OUT, TIMED_OUT);
SAME(NO_MEMORY, NO_MEMORY);
SAME(NO_SPACE, NO_SPACE);
SAME(CONFLICT, CONFLICT);
SAME(NUM, NUM);

enum croft_reason croft_error_reason(const struct croft *c)
{
	return (enum croft_reason)err_reason(&c->err);
}

const char *croft_reason_name(enum croft_reason why)
{
	return err_reason_name((enum err_reason)why);
}

int croft_reason_exit(enum croft_reason why)
{
	return err_reason_exit((enum err_reason)why);
}

const char *croft_version(void)
{
	return CROFT_VERSION;
}

int api_give(struct croft *c, int r, struct buf *text, char **ret)
{
	char *p;

	if (r < 0)
		return r;
	p = buf_take(text);
	if (!p)
		return err_set(
			&c->err, EFBIG, "write an answer of at most %zu MiB", text->max >> 20);
	*ret = p;
	return r;
}

size_t api_count(const char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

int croft_env_open(struct croft *c, const char *name, struct croft_policy *p,
	const struct croft_env_options *o, struct croft_env **ret)
{
	struct croft_env *e;
	int r = 0;

	c->err = ERR_INIT;
	e = calloc(1, sizeof(*e));
	if (!e)
		return err_set(&c->err, ENOMEM, "open environment");
	e->croft = c;
	e->policy = p;
	if (o)
		e->options = *o;
	if (name) {
		e->named = calloc(1, sizeof(*e->named));
		r = e->named ? env_open(e->named, name,
				       e->options.read_only ? ENV_LOCK_READ : ENV_LOCK_WRITE,
				       &c->err)
			     : err_set(&c->err, ENOMEM, "open environment");
		if (r < 0) {
			free(e->named);
			free(e);
			return r;
		}
	}
	*ret = e;
	return 0;
}

void croft_env_close(struct croft_env *e)
{
	if (!e)
		return;
	if (e->named)
		env_done(e->named);
	if (e->run)
		env_run_done(e->run);
	free(e->named);
	free(e->run);
	free(e->notes);
	free(e);
}

const char *croft_env_name(const struct croft_env *e)
{
	if (e->named)
		return e->named->name;
	return e->run && e->run->kept ? e->run->env.name : NULL;
}

const char *croft_env_problem(const struct croft_env *e)
{
	const struct env *v = e->named ? e->named : e->run ? &e->run->env : NULL;

	return v && v->problem[0] ? v->problem : NULL;
}

const char *croft_env_notes(struct croft_env *e)
{
	const struct env *v = e->named ? e->named : e->run ? &e->run->env : NULL;
	cleanup_buf struct buf b = BUF_INIT(1u << 20);

	for (size_t i = 0; v && i < v->notes.n; i++)
		buf_addf(&b, "%s\n", v->notes.v[i]);
	free(e->notes);
	e->notes = buf_take(&b);
	return e->notes ? e->notes : "";
}

static struct run_request request_of(const struct croft_env *e, const char *const *argv)
{
	return (struct run_request){
		.policy = &e->policy->policy,
		.home = e->policy->home,
		.workspace = e->policy->workspace,
		.cwd = e->policy->cwd,
		.workspace_dev = e->policy->workspace_dev,
		.workspace_ino = e->policy->workspace_ino,
		.argv = (char *const *)(uintptr_t)argv, /* execve's type; never written through */
		.environ = environ,
		.stdio = {-1, -1, -1},
		.discard = e->options.discard,
		.allow_degraded = e->options.allow_degraded,
		.stem = e->options.stem,
	};
}

/* Does a command without a named environment get one of its own? */
static bool stages(const struct croft_env *e)
{
	return e->options.staged ||
	       (e->options.prefer_staged && engine_tier_can(e->policy->policy.tier, ENGINE_STAGE));
}

int croft_env_plan(struct croft_env *e, const char *const *argv, enum croft_format f, char **ret)
{
	struct run_request q = request_of(e, argv);
	cleanup_buf struct buf b = BUF_INIT(RECEIPT_JSON_MAX);
	struct policy live;
	struct plan p = {0};
	int r;

	e->croft->err = ERR_INIT;
	if (stages(e)) {
		cleanup_free char *state = NULL;

		if (env_state_dir(&state, NULL, &e->croft->err) < 0)
			return -e->croft->err.errnum;
		r = env_run_plan(&p, &q, state, &live, &e->croft->err);
	} else {
		r = run_plan(&p, &q, &live, &e->croft->err);
	}
	if (r < 0)
		return r;
	if (f == CROFT_JSON) {
		struct json j;

		json_init(&j, &b, true);
		json_object(&j, NULL);
		json_str(&j, "schema", "croft.plan/v1");
		json_str(&j, "tier", policy_tier_names[p.tier]);
		json_str(&j, "policy_digest", e->policy->policy.digest.hex);
		plan_json(&p, &j, "operations");
		json_end(&j);
		buf_addc(&b, '\n');
	} else {
		buf_addf(&b, "tier             %s\n", policy_tier_names[p.tier]);
		plan_print(&p, &b);
	}
	plan_done(&p);
	*ret = buf_take(&b);
	return *ret ? 0 : err_set(&e->croft->err, ENOMEM, "print the plan");
}

/* Where the user is, when that is in the workspace; else its top. */
static const char *cwd_in(const struct env *v, const struct croft_policy *p)
{
	size_t n = strlen(v->workspace);

	return strncmp(p->cwd, v->workspace, n) == 0 && p->cwd[n] == '/' ? p->cwd : NULL;
}

static int run_staged(struct croft_env *e, struct run_request *q, struct croft_receipt *r)
{
	cleanup_free char *state = NULL;
	int rc;

	e->run = calloc(1, sizeof(*e->run));
	if (!e->run)
		return err_set(&e->croft->err, ENOMEM, "stage the run");
	if (env_state_dir(&state, NULL, &e->croft->err) < 0)
		return -e->croft->err.errnum;
	rc = env_run(e->run, q, state, &r->receipt, &e->croft->err);
	/* Nothing is written in place because staging is not available: that is for the user to say. */
	if (rc < 0 && e->croft->err.boundary) {
		size_t n = strlen(e->croft->err.msg);

		snprintf(e->croft->err.msg + n, sizeof(e->croft->err.msg) - n,
			"; or let it write in place, with --direct");
	}
	return rc;
}

static int run_in(struct croft_env *e, struct run_request *q, const struct croft_input *in,
	struct croft_receipt *r)
{
	if (e->named) {
		struct env_exec x = {.policy = q->policy,
			.cwd = cwd_in(e->named, e->policy),
			.argv = q->argv,
			.environ = q->environ,
			.stdio = {in->fd[0], in->fd[1], in->fd[2]},
			.own_stdio = in->own_fds,
			.as_test = e->options.as_test,
			.read_only = e->options.read_only,
			.allow_degraded = q->allow_degraded,
			.label = in->label};

		return env_exec(e->named, &x, &r->receipt, &e->croft->err);
	}
	if (stages(e))
		return run_staged(e, q, r);
	if (e->options.prefer_staged)
		receipt_degrade(&r->receipt,
			"changes were made in place: the %s tier cannot stage them",
			policy_tier_names[e->policy->policy.tier]);
	return run_command(&r->receipt, q, &e->croft->err);
}

static int execute(struct croft_env *e, const char *name, const struct croft_input *in,
	struct learn *learn, struct croft_receipt **ret)
{
	struct run_request q = request_of(e, in->argv);
	struct err *err = &e->croft->err;
	struct croft_receipt *r;
	int rc;

	*err = ERR_INIT;
	if (strcmp(name, "exec") != 0)
		return err_invalid(
			err, "there is no operation called %.64s; this version has \"exec\"", name);
	for (int i = 0; i < 3; i++)
		q.stdio[i] = in->fd[i];
	q.label = in->label;
	q.own_stdio = in->own_fds;
	if (learn) {
		q.tap = learn_notice;
		q.tap_arg = learn;
		q.watch_network = true;
	}
	r = calloc(1, sizeof(*r));
	if (!r || receipt_init(&r->receipt) < 0) {
		free(r);
		return err_set(err, ENOMEM, "start");
	}
	rc = run_in(e, &q, in, r);
	if (rc < 0 && (err->kind == ERR_NOT_FOUND ||
			      (err->kind == ERR_REFUSED && err->errnum == EACCES)))
		whereis_explain(err, q.argv[0], q.environ, q.policy);
	if (rc < 0 && err->kind == ERR_NOT_FOUND && e->named)
		whereis_uncommitted(err, q.argv[0], q.cwd, e->named->name);
	if (rc < 0) {
		croft_receipt_free(r);
		return rc;
	}
	receipt_keep(&r->receipt, e->policy->home, NULL);
	*ret = r;
	return 0;
}

void croft_end_with(int parent)
{
	starter_bind(parent);
}

void croft_ends_soon(bool early)
{
	heap_quick(early);
}

int croft_execute(struct croft_env *e, const char *name, const struct croft_input *in,
	struct croft_receipt **ret)
{
	return execute(e, name, in, NULL, ret);
}

int croft_learn(struct croft_env *e, const struct croft_input *in, enum croft_format f, char **ret,
	struct croft_receipt **ret_receipt)
{
	cleanup_buf struct buf b = BUF_INIT(RECEIPT_JSON_MAX);
	struct err *err = &e->croft->err;
	struct learn l;
	int r;

	*err = ERR_INIT;
	if (e->policy->policy.observe != OBSERVE_FULL)
		return err_invalid(err, "learning needs a policy with observe: full");
	if (learn_init(&l, &e->policy->policy, e->policy->home, e->policy->workspace) < 0)
		r = err_set(err, ENOMEM, "learn");
	else
		r = execute(e, "exec", in, &l, ret_receipt);
	if (r == 0) {
		learn_network(&l, &(*ret_receipt)->receipt);
		if (f == CROFT_JSON)
			learn_json(&l, &b);
		else
			learn_diff(&l, &b);
		*ret = buf_take(&b);
		if (!*ret)
			r = err_set(err, ENOMEM, "learn");
	}
	learn_done(&l);
	return r;
}

int croft_receipt_exit(const struct croft_receipt *r)
{
	return r->receipt.exit_code;
}

const char *croft_receipt_id(const struct croft_receipt *r)
{
	return r->receipt.id;
}

const char *croft_receipt_json(struct croft_receipt *r)
{
	cleanup_buf struct buf b = BUF_INIT(RECEIPT_JSON_MAX);

	if (!r->receipt.json) {
		receipt_json(&r->receipt, &b, true);
		r->receipt.json = buf_take(&b);
	}
	return r->receipt.json ? r->receipt.json : "";
}

const char *croft_receipt_text(struct croft_receipt *r, bool verbose)
{
	cleanup_buf struct buf b = BUF_INIT(RECEIPT_JSON_MAX);

	free(r->receipt.text);
	receipt_text(&r->receipt, &b, verbose);
	r->receipt.text = buf_take(&b);
	return r->receipt.text ? r->receipt.text : "";
}
