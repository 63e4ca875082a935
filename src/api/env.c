/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: named environments. Making, listing, keeping, forking, removing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "env/env.h"
#include "env/env_gc.h"
#include "show/env_report.h"
#include "env/env_run.h"
#include "session/config/objects.h"
#include "evidence/replay.h"
#include "engine/engine.h"

#define REPORT_MAX (64u << 20)

/* Asked once, by the policy's tier. */
bool api_cannot_stage(const struct croft_policy *p)
{
	if (p->policy.tier != TIER_AUTO || p->policy.threat == THREAT_HOSTILE)
		return !engine_tier_can(p->policy.tier, ENGINE_STAGE);
	for (size_t i = 0; i < engine_list_n; i++) {
		struct err why = ERR_INIT;

		if (engine_list[i]->can & ENGINE_STAGE && engine_list[i]->probe(&why) >= 0)
			return false;
	}
	return true;
}

int croft_env_new(struct croft *c, const char *name, struct croft_policy *p,
	const struct croft_new_options *o, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX), text = BUF_INIT(REPORT_MAX);
	cleanup_free char *state = NULL;
	struct env_new n = {.name = name,
		.workspace = p->workspace,
		.home = p->home,
		.from = o->from,
		.dirty = o->dirty,
		.copy = api_cannot_stage(p),
		.args = (char *const *)(uintptr_t)o->args,
		.args_n = api_count(o->args),
		.agent = o->agent,
		.model = o->model,
		.task = o->task,
		.policy_digest = p->policy.digest.hex,
		.tier = policy_tier_names[p->policy.tier],
		.policy = &p->policy,
		.progress = o->progress,
		.progress_arg = o->progress_arg};
	struct env v;

	c->err = ERR_INIT;
	if (env_state_dir(&state, NULL, &c->err) < 0)
		return -c->err.errnum;
	policy_canonical(&p->policy, &text);
	n.state_dir = state;
	n.policy_text = buf_str(&text);
	if (env_create(&v, &n, &c->err) < 0)
		return -c->err.errnum;
	for (size_t i = 0; o->copied && v.kind == ENV_COPY && i < v.notes.n; i++)
		o->copied(o->copied_arg, v.notes.v[i]);
	if (f == CROFT_JSON)
		env_report_json(&v, NULL, &b);
	else
		env_report_new(&v, &b);
	env_done(&v);
	return api_give(c, 0, &b, ret);
}

/* Objects that the repository of a copy, which refers to them where they are, may show: --read each. */
static int add_objects(struct env *v, char **args, size_t *n, struct err *e)
{
	cleanup_policy struct policy p = {0};
	cleanup_free bool *left_out = calloc(v->base.objects.n + 1, sizeof(*left_out));
	struct objects_check check = {.policy = &p, .repo = &v->repo, .state_dir = v->state_dir};

	if (!left_out)
		return err_set(e, ENOMEM, "read the environment's options");
	if (replay_policy(&p, v->copy, v->args.v, v->args.n, e) < 0 ||
		objects_check(&check, &v->base.objects, left_out, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < v->base.objects.n; i++) {
		if (left_out[i])
			continue;
		args[(*n)++] = strdup("--read");
		args[(*n)++] = strdup(v->base.objects.v[i]);
	}
	return 0;
}

int croft_env_args(struct croft *c, const char *name, char **ret_directory, char ***ret_args)
{
	cleanup_env struct env v;
	char **args;
	size_t n = 0;

	c->err = ERR_INIT;
	env_init(&v);
	if (env_open_record(&v, name, &c->err) < 0 ||
		(v.kind == ENV_COPY && env_attach(&v, &c->err) < 0))
		return -c->err.errnum;
	args = calloc(v.args.n + 2 * v.base.objects.n + 3, sizeof(*args));
	*ret_directory = strdup(v.kind == ENV_COPY ? v.copy : v.workspace);
	if (!args || !*ret_directory)
		return err_set(&c->err, ENOMEM, "read the environment's options");
	for (size_t i = 0; i < v.args.n; i++)
		args[n++] = strdup(v.args.v[i]);
	if (v.kind == ENV_COPY && add_objects(&v, args, &n, &c->err) < 0)
		return -c->err.errnum;
	/* And it is the environment's own. */
	if (v.kind == ENV_COPY) {
		args[n++] = strdup("--write");
		if (asprintf(&args[n], "%s/.git", v.copy) < 0)
			return err_set(&c->err, ENOMEM, "read the environment's options");
	}
	*ret_args = args;
	if (!c->seen && (c->seen = strdup(name)))
		c->seen_fd = take_fd(&v.dir_fd);
	return 0;
}

int croft_env_list(struct croft *c, bool all, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_strlist struct strlist notes = STRLIST_INIT(4096);

	c->err = ERR_INIT;
	if (env_run_adopt(&notes, &c->err) < 0 ||
		env_report_list(all, f == CROFT_JSON, &notes, &b, &c->err) < 0)
		return -c->err.errnum;
	return api_give(c, 0, &b, ret);
}

int croft_env_status(struct croft *c, const char *name, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_changes struct changes ch = {0};
	cleanup_env struct env v;

	c->err = ERR_INIT;
	env_init(&v);
	if (env_open(&v, name, ENV_LOCK_READ, &c->err) < 0 ||
		env_look(&v, &ch, false, &c->err) < 0)
		return -c->err.errnum;
	if (f == CROFT_JSON)
		env_report_json(&v, &ch, &b);
	else
		env_report_text(&v, &ch, &b);
	return api_give(c, 0, &b, ret);
}

/* Notes and one last sentence. */
static int told(struct croft *c, const struct env *v, struct buf *b, char **ret)
{
	for (size_t i = 0; i < v->notes.n; i++)
		buf_addf(b, "%s\n", v->notes.v[i]);
	return api_give(c, 0, b, ret);
}

/* What was done with a snapshot, for programs. */
static int told_json(struct croft *c, const struct env *v, const char *schema, const char *label,
	struct buf *b, char **ret)
{
	struct json j;

	json_init(&j, b, true);
	json_object(&j, NULL);
	json_str(&j, "schema", schema);
	json_str(&j, "name", v->name);
	json_str(&j, "id", v->id);
	json_str(&j, "snapshot", label);
	json_list(&j, "notes", &v->notes);
	json_end(&j);
	buf_addc(b, '\n');
	return api_give(c, 0, b, ret);
}

int croft_env_snapshot(
	struct croft *c, const char *name, const char *label, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_env struct env v;

	c->err = ERR_INIT;
	env_init(&v);
	if (env_open(&v, name, ENV_LOCK_BESIDE, &c->err) < 0 || env_snapshot(&v, label, &c->err) < 0)
		return -c->err.errnum;
	if (f == CROFT_JSON)
		return told_json(
			c, &v, "croft.snapshot/v1", v.snapshots[v.snapshots_n - 1].label, &b, ret);
	buf_addf(&b, "snapshot %s of %s\n", v.snapshots[v.snapshots_n - 1].label, v.name);
	return told(c, &v, &b, ret);
}

int croft_env_restore(
	struct croft *c, const char *name, const char *label, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_env struct env v;

	c->err = ERR_INIT;
	env_init(&v);
	if (env_open(&v, name, ENV_LOCK_WRITE, &c->err) < 0 || env_restore(&v, label, &c->err) < 0)
		return -c->err.errnum;
	if (f == CROFT_JSON)
		return told_json(c, &v, "croft.restore/v1", label, &b, ret);
	buf_addf(&b, "%s is as it was at snapshot %s\n", v.name, label);
	return told(c, &v, &b, ret);
}

int croft_env_fork(
	struct croft *c, const char *name, const char *fresh, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_env struct env v, n;

	c->err = ERR_INIT;
	env_init(&v);
	env_init(&n);
	if (env_open(&v, name, ENV_LOCK_BESIDE, &c->err) < 0 || env_fork(&n, &v, fresh, &c->err) < 0)
		return -c->err.errnum;
	if (f == CROFT_JSON) {
		env_report_json(&n, NULL, &b);
		return api_give(c, 0, &b, ret);
	}
	buf_addf(&b, "%s is a fork of %s\n", n.name, v.name);
	return told(c, &v, &b, ret);
}

int croft_env_remove(struct croft *c, const char *name, bool force, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_env struct env v;

	c->err = ERR_INIT;
	env_init(&v);
	if (env_open(&v, name, force ? ENV_LOCK_FORCE : ENV_LOCK_WRITE, &c->err) < 0 ||
		env_remove(&v, force, &c->err) < 0)
		return -c->err.errnum;
	buf_addf(&b, "environment %s is removed; its evidence stays in " LEDGER_REF_PREFIX "%s\n",
		v.name, v.id);
	return told(c, &v, &b, ret);
}

int croft_env_remove_older(
	struct croft *c, unsigned long long older_ms, bool force, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX), names = BUF_INIT(REPORT_MAX);
	const char *end;

	c->err = ERR_INIT;
	if (env_report_names(false, &names, &c->err) < 0)
		return -c->err.errnum;
	for (const char *p = buf_str(&names); (end = strchr(p, '\n')); p = end + 1) {
		cleanup_env struct env v;
		char name[ENV_NAME_MAX + 1];
		struct err why = ERR_INIT;

		env_init(&v);
		snprintf(name, sizeof(name), "%.*s", (int)(end - p), p);
		if (env_open_record(&v, name, &why) < 0 ||
			(unsigned long long)env_age_s(&v) * 1000 < older_ms)
			continue;
		env_done(&v);
		env_init(&v);
		if (env_open(&v, name, force ? ENV_LOCK_FORCE : ENV_LOCK_WRITE, &why) < 0 ||
			env_remove(&v, force, &why) < 0)
			buf_addf(&b, "kept: %s\n", why.msg);
		else
			buf_addf(&b, "environment %s is removed\n", name);
	}
	if (!b.len)
		buf_adds(&b, "no environment of this directory is that old\n");
	return api_give(c, 0, &b, ret);
}

int croft_gc(struct croft *c, bool dry_run, bool runs, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX);
	cleanup_strlist struct strlist notes = STRLIST_INIT(4096);
	struct gc_report g;
	int r;

	c->err = ERR_INIT;
	if (env_run_adopt(&notes, &c->err) < 0)
		return -c->err.errnum;
	r = env_gc(&g, dry_run, runs, &c->err);
	if (r == 0)
		env_report_gc(&g, &notes, dry_run, f == CROFT_JSON, &b);
	gc_report_done(&g);
	return api_give(c, r, &b, ret);
}
