/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A landing in the ledger: provenance of what came out of it, by tree, commit, patch id and blobs, so
 * that it is found again after a squash, a rebase or a cherry-pick.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "git/patch_id.h"
#include "land/land_impl.h"
#include "env/env_ran.h"
#include "croft.h"
#include "git/program.h"
#include "ledger/chain/predicate.h"

#define PATCH_ID_MAX_B (256u << 20)

static const char *const how_names[LAND_HOW_NUM] = {"worktree", "commit", "squash", "patch"};

int land_tip(struct env *v, struct err *e)
{
	return v->tip_known && v->tip.seq ? 0 : env_need_ledger(v, e);
}

int land_patch(struct land_job *j, const struct oid *a, const struct oid *b, struct buf *ret,
	struct err *e)
{
	struct oid_hex ha = oid_hex(a), hb = oid_hex(b);
	const char *argv[] = {"diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames",
		ha.s, hb.s, NULL};
	struct git_run run = {.argv = argv,
		.git_dir = j->v->repo.store,
		.out = ret,
		.data_max_b = GIT_PATCH_DATA_MAX_B};

	return git_run(&run, e);
}

void land_patch_id(struct land_job *j, const struct oid *a, const struct oid *b)
{
	cleanup_buf struct buf patch = BUF_INIT(PATCH_ID_MAX_B), id = BUF_INIT(4096);
	struct oid_hex ha = oid_hex(a), hb = oid_hex(b);
	const char *diff[] = {"diff-tree", "-r", PATCH_ID_DIFF, ha.s, hb.s, NULL};
	const char *ids[] = {"patch-id", PATCH_ID_OPTION, NULL};
	struct git_run run = {.argv = diff,
		.git_dir = j->v->repo.store,
		.out = &patch,
		.data_max_b = GIT_SHOW_DATA_MAX_B}; /* with a huge file there is no patch id */
	struct err ignored = ERR_INIT;
	struct oid o;
	size_t n;

	j->in.patch_id[0] = '\0';
	if (git_version(&ignored) < PATCH_ID_GIT_MIN || git_run(&run, &ignored) < 0 ||
		patch.len == 0 || memchr(patch.data, '\0', patch.len))
		return;
	run = (struct git_run){.argv = ids,
		.git_dir = j->v->repo.store,
		.in = patch.data,
		.in_n = patch.len,
		.out = &id};
	if (git_run(&run, &ignored) < 0)
		return;
	n = strcspn(buf_str(&id), " \n");
	if (n < sizeof(j->in.patch_id) && oid_parse(&o, buf_str(&id), n))
		snprintf(j->in.patch_id, sizeof(j->in.patch_id), "%.*s", (int)n, buf_str(&id));
}

/* ---- which blobs ---- */

static void add_path(
	struct buf *out, const char *path, const struct land_side *old, const struct land_side *new)
{
	struct json w;

	json_init(&w, out, false);
	json_object(&w, NULL);
	json_str(&w, "path", path);
	json_strf(&w, "mode", "%06o", new->mode);
	json_str(&w, "blob", oid_is_none(&new->oid) ? NULL : oid_hex(&new->oid).s);
	json_strf(&w, "oldMode", "%06o", old->mode);
	json_str(&w, "oldBlob", oid_is_none(&old->oid) ? NULL : oid_hex(&old->oid).s);
	json_end(&w);
	buf_addc(out, '\n');
}

/* One line per path; false: more than fits. */
static bool list_paths(struct land_job *j, struct buf *out, size_t *ret_n)
{
	cleanup_changes struct changes c = {0};
	struct err ignored = ERR_INIT;

	for (size_t i = 0; i < j->in.ops.n; i++) {
		const struct land_op *op = &j->in.ops.v[i];

		add_path(out, op->path, &(struct land_side){op->old_mode, op->old},
			&(struct land_side){op->new_mode, op->new});
	}
	*ret_n = j->in.ops.n;
	if (j->in.ops.n == 0 && j->in.ref &&
		land_diff(&j->v->repo, &j->in.onto, &j->in.landed, &c, &ignored) == 0) {
		for (size_t i = 0; i < c.n; i++)
			add_path(out, c.v[i].path, &(struct land_side){c.v[i].old_mode, c.v[i].old},
				&(struct land_side){c.v[i].new_mode, c.v[i].new});
		*ret_n = c.n;
	}
	return !out->failed;
}

/* ---- the statement ---- */

static void put_landing(struct land_job *j, struct json *w, size_t paths, bool complete)
{
	json_object(w, "landing");
	json_str(w, "how", how_names[j->in.how]);
	json_str(w, "start", oid_hex(&j->in.start).s);
	json_str(w, "accepted", oid_hex(&j->in.tree).s);
	json_str(w, "tree", oid_hex(&j->in.landed).s);
	json_str(w, "ref", j->in.ref);
	json_str(w, "commit", oid_is_none(&j->in.ref_new) ? NULL : oid_hex(&j->in.ref_new).s);
	json_str(w, "onto", oid_is_none(&j->in.ref_old) ? NULL : oid_hex(&j->in.ref_old).s);
	json_str(w, "patchId", j->in.patch_id[0] ? j->in.patch_id : NULL);
	json_bool(w, "reviewed", j->in.reviewed);
	json_uint(w, "paths", paths);
	json_bool(w, "complete", complete);
	json_array(w, "merged");
	for (size_t i = 0, n = 0; i < j->in.ops.n && n < 1000; i++)
		if (j->in.ops.v[i].merged && ++n)
			json_str(w, NULL, j->in.ops.v[i].path);
	json_end(w);
	json_end(w);
}

/* Provenance in the standard's own words. */
static void put_provenance(struct land_job *j, struct buf *out)
{
	struct oid_hex base = oid_hex(&j->v->base_commit), onto = oid_hex(&j->in.ref_old),
		       tree = oid_hex(&j->in.landed), commit = oid_hex(&j->in.ref_new);
	char time[40], id[64];
	const char *branch = j->in.ref && !str_eq(j->in.ref, "HEAD") ? j->in.ref : NULL;
	struct land_ran ran;
	struct predicate_applied a = {.env_id = j->v->id,
		.mode = how_names[j->in.how],
		.base_commit = base.s[0] ? base.s : NULL,
		.target_commit = onto.s[0] ? onto.s : NULL,
		.invocation_id = id,
		.started = time,
		.finished = time,
		.croft_version = CROFT_VERSION,
		.tree = tree.s,
		.commit = j->in.ref ? commit.s : NULL,
		.branch = branch,
		.evidence = j->v->tip_known ? j->v->tip.envelope.hex : NULL};

	land_ran(j->v, &ran);
	a.tier = ran.tier;
	a.policy_digest = ran.policy[0] ? ran.policy : NULL;
	env_time_text(&j->in.time, time);
	snprintf(id, sizeof(id), "%s/%llu", j->v->id, (unsigned long long)j->in.seq + 1);
	predicate_applied(&a, out);
	buf_addc(out, ',');
}

static void add_subject(
	struct ledger_event *ev, const char *name, const char *alg, const char *value)
{
	if (value[0])
		ev->subjects[ev->subjects_n++] =
			(struct ledger_subject){.name = name, .algorithm = alg, .value = value};
}

int land_event(struct land_job *j, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(PREDICATE_MAX_B),
			       paths = BUF_INIT(LEDGER_FILE_MAX_B);
	struct oid_hex tree = oid_hex(&j->in.landed), commit = oid_hex(&j->in.ref_new);
	bool applied = j->in.kind == LAND_KIND_APPLY, complete;
	char title[160];
	size_t n = 0;
	struct json w;
	struct ledger_event ev = {.kind = applied ? EVENT_APPLIED : EVENT_REVERTED,
		.env_id = j->v->id,
		.env_name = j->v->name,
		.time = j->in.time,
		.predicate_type = applied ? PREDICATE_PROVENANCE : PREDICATE_EVENT,
		.title = title};

	complete = list_paths(j, &paths, &n);
	if (applied)
		put_provenance(j, &text);
	json_init(&w, &text, false);
	put_landing(j, &w, n, complete);
	ev.predicate = buf_str(&text);
	if (text.failed)
		return land_no_memory(e);
	add_subject(&ev, "tree", "gitTree", tree.s);
	if (j->in.ref)
		add_subject(&ev, "commit", "gitCommit", commit.s);
	add_subject(&ev, "patch", "gitPatchId", j->in.patch_id);
	if (complete && paths.len)
		ev.files[ev.files_n++] = (struct ledger_file){"paths.jsonl", paths.data, paths.len};
	snprintf(title, sizeof(title), "%s %s: %zu path%s", applied ? "apply" : "revert",
		how_names[j->in.how], n, n == 1 ? "" : "s");
	return env_event(j->v, &ev, e);
}

int land_event_recovered(struct land_job *j, bool completed, const char *why, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(PREDICATE_MAX_B);
	struct ledger_event ev = {.kind = EVENT_RECOVERED,
		.env_id = j->v->id,
		.env_name = j->v->name,
		.predicate_type = PREDICATE_EVENT,
		.title = completed ? "an interrupted landing was completed"
				   : "an interrupted landing was taken back"};

	struct oid_hex tree = oid_hex(&j->in.landed);
	const struct predicate_member m[] = {{"outcome", completed ? "completed" : "taken back"},
		{"why", why}, {"landing", how_names[j->in.how]}, {"tree", tree.s}};

	add_subject(&ev, "tree", "gitTree", tree.s);
	env_now(&ev.time);
	predicate_plain(m, ARRAY_SIZE(m), &text);
	ev.predicate = buf_str(&text);
	return text.failed ? land_no_memory(e) : env_event(j->v, &ev, e);
}
