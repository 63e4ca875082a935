/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: apply, revert, discard. Paths and notes come from a sandbox: shown printable. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "land/land.h"

#define REPORT_MAX_B (1u << 30)
#define PATHS_SHOWN 20u

static_assert((int)CROFT_LAND_WORKTREE == (int)LAND_WORKTREE &&
		      (int)CROFT_LAND_COMMIT == (int)LAND_COMMIT &&
		      (int)CROFT_LAND_SQUASH == (int)LAND_SQUASH &&
		      (int)CROFT_LAND_PATCH == (int)LAND_PATCH,
	"croft.h and land.h count alike");

static const char *const how_names[LAND_HOW_NUM] = {"worktree", "commit", "squash", "patch"};

struct land_report {
	const struct env *v;
	const struct land_result *r;
	const char *verb, *branch;
	enum land_how how;
	bool dry_run, shown;
};

/* ---- JSON ---- */

static void report_json(const struct land_report *p, struct buf *out)
{
	const struct land_result *r = p->r;
	struct json w;

	json_init(&w, out, true);
	json_object(&w, NULL);
	json_str(&w, "schema", "croft.landing-report/v1");
	json_str(&w, "env", p->v->name);
	json_str(&w, "id", p->v->id);
	json_str(&w, "action", p->verb);
	json_str(&w, "how", how_names[p->how]);
	json_str(&w, "branch", p->branch);
	json_bool(&w, "dry_run", p->dry_run);
	json_str(&w, "tree", oid_is_none(&r->tree) ? NULL : oid_hex(&r->tree).s);
	json_str(
		&w, "commit", p->dry_run || oid_is_none(&r->commit) ? NULL : oid_hex(&r->commit).s);
	json_str(&w, "evidence", r->evidence.hex[0] ? r->evidence.hex : NULL);
	json_list(&w, "paths", &r->paths);
	json_list(&w, "merged", &r->merged);
	json_array(&w, "notes");
	for (size_t i = 0; i < p->v->notes.n; i++)
		json_str(&w, NULL, p->v->notes.v[i]);
	for (size_t i = 0; i < r->notes.n; i++)
		json_str(&w, NULL, r->notes.v[i]);
	json_end(&w);
	if (r->patch.len)
		json_strn(&w, "patch", r->patch.data, r->patch.len);
	json_end(&w);
	buf_addc(out, '\n');
}

/* ---- text ---- */

static void show_lines(struct buf *out, const struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		str_show(out, l->v[i], strlen(l->v[i]));
		buf_addc(out, '\n');
	}
}

static void show_paths(struct buf *out, const struct strlist *paths, const struct strlist *merged)
{
	for (size_t i = 0; i < paths->n && i < PATHS_SHOWN; i++) {
		buf_adds(out, "  ");
		str_show(out, paths->v[i], strlen(paths->v[i]));
		buf_adds(out, strlist_has(merged, paths->v[i]) ? "  (merged)\n" : "\n");
	}
	if (paths->n > PATHS_SHOWN)
		buf_addf(out, "  and %zu more\n", paths->n - PATHS_SHOWN);
}

static void show_where(const struct land_report *p, struct buf *out)
{
	const struct land_result *r = p->r;

	if (p->dry_run)
		buf_adds(out, "would ");
	buf_addf(out, "%s %s: %zu path%s", p->verb, p->v->name, r->paths.n,
		r->paths.n == 1 ? "" : "s");
	if (p->branch) {
		buf_adds(out, " on branch ");
		str_show(out, p->branch, strlen(p->branch));
	} else if (p->how == LAND_WORKTREE) {
		buf_addf(out, " in %s%s", p->v->workspace,
			p->v->repo.git_dir ? ", nothing committed" : "");
	}
	if (!p->dry_run && !oid_is_none(&r->commit))
		buf_addf(out, ", commit %.12s", oid_hex(&r->commit).s);
	buf_addc(out, '\n');
}

/* Content is a sandbox's: on a terminal it must not act. Lines and tabs stay. */
static void show_patch(const struct buf *patch, struct buf *out)
{
	const char *p = buf_str(patch);

	for (size_t at = 0, n; at < patch->len; at += n) {
		for (n = 0; at + n < patch->len && p[at + n] != '\n' && p[at + n] != '\t';)
			n++;
		str_show_text(out, p + at, n);
		if (at + n < patch->len)
			buf_addc(out, p[at + n++]);
	}
}

static void report_text(const struct land_report *p, struct buf *out)
{
	const struct land_result *r = p->r;

	show_lines(out, &p->v->notes);
	if (p->how == LAND_PATCH && p->shown) {
		show_patch(&r->patch, out);
		return;
	}
	if (p->how == LAND_PATCH) {
		buf_add(out, buf_str(&r->patch), r->patch.len);
		return;
	}
	if (r->paths.n) {
		show_where(p, out);
		show_paths(out, &r->paths, &r->merged);
	}
	show_lines(out, &r->notes);
	if (!r->paths.n || p->dry_run)
		return;
	if (str_eq(p->verb, "apply") && p->v->repo.git_dir)
		buf_addf(out, "look: git %s%s%s; ", oid_is_none(&r->commit) ? "diff" : "show",
			p->branch ? " " : "", p->branch ? p->branch : "");
	if (str_eq(p->verb, "apply"))
		buf_addf(out, "take it back out: croft revert %s; evidence: croft log %s\n",
			p->v->name, p->v->name);
	else
		buf_addf(out,
			"the work is still staged in %s; throw it away with: croft discard %s\n",
			p->v->name, p->v->name);
}

static int give_report(
	struct croft *c, const struct land_report *p, enum croft_format f, char **ret)
{
	cleanup_buf struct buf out = BUF_INIT(REPORT_MAX_B);

	if (f == CROFT_JSON)
		report_json(p, &out);
	else
		report_text(p, &out);
	return api_give(c, 0, &out, ret);
}

/* ---- calls ---- */

/* What a refusal leaves for the user to read: conflicts and what to do about them. */
static void give_notes(const struct land_result *r, char **ret)
{
	cleanup_buf struct buf out = BUF_INIT(REPORT_MAX_B);

	show_lines(&out, &r->notes);
	*ret = out.len ? buf_take(&out) : NULL;
}

void croft_on_progress(
	struct croft *c, void (*tell)(void *arg, size_t done, size_t total), void *arg)
{
	c->progress = tell;
	c->progress_arg = arg;
}

int croft_apply(struct croft *c, const char *name, const struct croft_apply_options *o,
	enum croft_format f, char **ret)
{
	struct land_request q = {.how = (enum land_how)o->how,
		.branch = o->branch,
		.message = o->message,
		.tree = o->tree,
		.paths = (char *const *)o->paths,
		.paths_n = api_count(o->paths),
		.flagged = o->flagged,
		.dry_run = o->dry_run,
		.sign = o->sign};
	struct land_result r = {0};
	cleanup_env struct env v;
	int rc;

	c->err = ERR_INIT;
	*ret = NULL;
	env_init(&v);
	rc = env_open(
		&v, name, o->how == CROFT_LAND_PATCH ? ENV_LOCK_READ : ENV_LOCK_BESIDE, &c->err);
	if (rc < 0)
		return rc;
	v.progress = c->progress;
	v.progress_arg = c->progress_arg;
	rc = land(&v, &q, &r, &c->err);
	if (rc < 0) {
		give_notes(&r, ret);
	} else {
		const struct land_report p = {.v = &v,
			.r = &r,
			.verb = "apply",
			.branch = o->branch,
			.how = o->branch && q.how == LAND_WORKTREE ? LAND_SQUASH : q.how,
			.dry_run = o->dry_run,
			.shown = o->shown};

		rc = give_report(c, &p, f, ret);
	}
	land_result_done(&r);
	return rc;
}

int croft_revert(struct croft *c, const char *name, bool commit, enum croft_format f, char **ret)
{
	struct land_result r = {0};
	cleanup_env struct env v;
	int rc;

	c->err = ERR_INIT;
	*ret = NULL;
	env_init(&v);
	rc = env_open(&v, name, ENV_LOCK_WRITE, &c->err);
	if (rc < 0)
		return rc;
	v.progress = c->progress;
	v.progress_arg = c->progress_arg;
	rc = land_revert(&v, commit, &r, &c->err);
	if (rc < 0) {
		give_notes(&r, ret);
	} else {
		const struct land_report p = {.v = &v,
			.r = &r,
			.verb = "revert",
			.how = oid_is_none(&r.commit) ? LAND_WORKTREE : LAND_SQUASH};

		rc = give_report(c, &p, f, ret);
	}
	land_result_done(&r);
	return rc;
}

int croft_discard(struct croft *c, const char *name, bool undo, char **ret)
{
	cleanup_buf struct buf out = BUF_INIT(1u << 20);
	cleanup_env struct env v;
	int rc;

	c->err = ERR_INIT;
	*ret = NULL;
	env_init(&v);
	rc = env_open(&v, name, ENV_LOCK_WRITE, &c->err);
	if (rc == 0)
		rc = undo ? land_undo_discard(&v, &c->err) : land_discard(&v, &c->err);
	if (rc < 0)
		return rc;
	show_lines(&out, &v.notes);
	if (undo)
		buf_addf(&out, "brought back what was staged in %s\n", v.name);
	else
		buf_addf(&out,
			"discarded what was staged in %s; for %d days croft discard %s --undo "
			"brings it back\n",
			v.name, ENV_UNDO_DAYS, v.name);
	*ret = buf_take(&out);
	return *ret ? 0 : err_set(&c->err, ENOMEM, "report");
}
