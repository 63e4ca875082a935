/* SPDX-License-Identifier: Apache-2.0 */
/* Environments as people and programs read them: see env_report.h. */
#include "show/env_report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "env/env_up.h"
#include "land/land.h"

#define STATUS_PATHS 20

struct counts {
	size_t added, modified, deleted, refused, runs;
};

static struct counts count(const struct changes *c)
{
	struct counts n = {0};

	for (size_t i = 0; i < c->n; i++) {
		const struct change *x = &c->v[i];

		n.added += !x->old_mode && x->new_mode;
		n.deleted += x->old_mode && !x->new_mode;
		n.modified += x->old_mode && x->new_mode;
		n.refused += (x->flags & CHANGE_REFUSED) != 0;
		n.runs += (x->flags & CHANGE_RUNS) != 0;
	}
	return n;
}

static const char *whence(const struct env *v)
{
	switch (v->kind) {
	case ENV_PINNED:
		return oid_is_none(&v->base_commit) ? "an empty tree" : "commit ";
	case ENV_COPY:
		return "a copy of commit ";
	case ENV_LIVE:
	case ENV_KIND_NUM:
	default:
		return "the directory as it is";
	}
}

static void show_start(const struct env *v, struct buf *out)
{
	buf_addf(out, "%s%.12s", whence(v), oid_hex(&v->base_commit).s);
	if (v->parent)
		buf_addf(out, ", forked from %s", v->parent);
}

void env_report_new(const struct env *v, struct buf *out)
{
	buf_addf(out, "%s: starts from ", v->name);
	show_start(v, out);
	buf_adds(out, "\n");
	for (size_t i = 0; i < v->notes.n; i++)
		buf_addf(out, "  %s\n", v->notes.v[i]);
	buf_addf(out, "run in it with: croft exec %s -- CMD\n", v->name);
}

/* ---- one ---- */

static void json_oid(struct json *j, const char *key, const struct oid *o)
{
	if (oid_is_none(o))
		json_null(j, key);
	else
		json_str(j, key, oid_hex(o).s);
}

static void json_changes(struct json *j, const struct changes *c)
{
	struct counts n = count(c);

	json_object(j, "changes");
	json_uint(j, "added", n.added);
	json_uint(j, "modified", n.modified);
	json_uint(j, "deleted", n.deleted);
	json_uint(j, "ignored", c->ignored);
	json_uint(j, "refused", n.refused);
	json_uint(j, "runs_on_host", n.runs);
	json_oid(j, "start_tree", &c->start_tree);
	json_oid(j, "tree", c->unnamed ? &(struct oid){0} : &c->tree);
	json_uint(j, "not_read", c->unnamed);
	json_end(j);
}

static bool in_use(const struct env *v)
{
	cleanup_fd int fd = openat(v->dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* A landing that is going on is not one that was interrupted. */
static const char *half_landed(const struct env *v)
{
	const char *verb = land_interrupted(v);

	return verb && !in_use(v) ? verb : NULL;
}

static void show_half_landed(const struct env *v, struct buf *out)
{
	const char *verb = half_landed(v);

	if (verb)
		buf_addf(out, "a landing was interrupted; croft %s %s completes it\n", verb,
			v->name);
}

static void json_env(struct json *j, const struct env *v, const struct changes *c)
{
	json_object(j, NULL);
	json_str(j, "schema", "croft.env/v1");
	json_str(j, "name", v->name);
	json_str(j, "id", v->id);
	json_str(j, "kind", env_kind_names[v->kind]);
	json_str(j, "state", env_state_names[v->state]);
	json_bool(j, "run", v->run);
	json_bool(j, "in_use", in_use(v));
	json_bool(j, "up", env_is_up(v));
	json_bool(j, "landing_interrupted", half_landed(v));
	json_str(j, "workspace", v->workspace);
	json_str(j, "copy", v->copy);
	json_str(j, "created", v->created);
	json_oid(j, "base_commit", &v->base_commit);
	json_oid(j, "start_tree", &v->start_tree);
	json_str(j, "agent", v->agent);
	json_str(j, "model", v->model);
	json_str(j, "task", v->task);
	json_str(j, "parent", v->parent);
	json_strf(j, "ledger", LEDGER_REF_PREFIX "%s", v->id);
	json_oid(j, "reviewed_tree", &v->review.tree);
	json_oid(j, "accepted_tree", &v->review.accepted);
	json_oid(j, "landed_commit", &v->landed_commit);
	json_oid(j, "landed_tree", &v->landed_tree);
	json_array(j, "snapshots");
	for (size_t i = 0; i < v->snapshots_n; i++)
		json_str(j, NULL, v->snapshots[i].label);
	json_end(j);
	json_array(j, "options");
	for (size_t i = 0; i < v->args.n; i++)
		json_str(j, NULL, v->args.v[i]);
	json_end(j);
	if (c)
		json_changes(j, c);
	json_end(j);
}

void env_report_json(const struct env *v, const struct changes *c, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_env(&j, v, c);
	buf_addc(out, '\n');
}

static void show_line(struct buf *out, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	buf_addf(out, "%-10s ", key);
	str_show_all(out, value);
	buf_addc(out, '\n');
}

static void show_paths(const char *name, const struct changes *c, struct buf *out)
{
	for (size_t i = 0; i < c->n && i < STATUS_PATHS; i++) {
		const struct change *x = &c->v[i];
		const char *runs = x->flags & CHANGE_RUNS ? x->runs : NULL;

		buf_addf(out, "  %c ", !x->old_mode ? 'A' : !x->new_mode ? 'D' : 'M');
		str_show_all(out, x->path);
		if (x->flags & CHANGE_NOT_READ)
			buf_adds(out, "   not read: too large to look at");
		if (runs)
			buf_addf(out, "   runs on your machine: %s", runs);
		for (unsigned f = 1; f <= CHANGE_RUNS; f <<= 1)
			if (x->flags & CHANGE_REFUSED & f)
				buf_addf(out, "   cannot land: %s", change_flag_text(f));
		buf_addc(out, '\n');
	}
	if (c->n > STATUS_PATHS)
		buf_addf(out, "  and %zu more; croft diff %s shows all\n", c->n - STATUS_PATHS, name);
}

/* The command to type, with the name in it. */
static void next_step(const struct env *v, const struct changes *c, struct buf *out)
{
	const char *name = v->name;

	if (c->n == 0)
		buf_adds(out, "nothing is staged\n");
	else if (v->state == ENV_LANDED)
		buf_addf(out, "it has landed; croft revert %s takes it back out\n", name);
	else if (oid_is_none(&v->review.tree))
		buf_addf(out, "see it with croft diff %s, walk it with croft review %s\n", name, name);
	else if (c->unnamed)
		buf_addf(out,
			"some of it was not read; croft apply %s and croft review %s read all of it\n",
			name, name);
	else if (!oid_eq(&v->review.tree, &c->tree))
		buf_addf(out, "it changed since it was reviewed: croft diff %s --since-review\n", name);
	else
		buf_addf(out, "it was reviewed: croft apply %s lands what was accepted\n", name);
}

void env_report_text(const struct env *v, const struct changes *c, struct buf *out)
{
	struct counts n = count(c);

	buf_addf(out, "%-10s %s, %s%s\n", v->name, env_kind_names[v->kind],
		env_state_names[v->state], env_is_up(v) ? ", up" : in_use(v) ? ", in use" : "");
	show_line(out, "workspace", v->workspace);
	buf_adds(out, "start      ");
	show_start(v, out);
	buf_addc(out, '\n');
	show_line(out, "copy", v->copy);
	show_line(out, "created", v->created);
	show_line(out, "agent", v->agent);
	show_line(out, "model", v->model);
	show_line(out, "task", v->task);
	buf_addf(out, "%-10s " LEDGER_REF_PREFIX "%s\n", "ledger", v->id);
	for (size_t i = 0; i < v->snapshots_n; i++)
		buf_addf(out, "%-10s %s, %s\n", "snapshot", v->snapshots[i].label,
			v->snapshots[i].time);
	buf_addf(out, "%-10s %zu added, %zu modified, %zu deleted", "staged", n.added, n.modified,
		n.deleted);
	if (c->ignored)
		buf_addf(out, ", %llu ignored", (unsigned long long)c->ignored);
	buf_addc(out, '\n');
	show_paths(v->name, c, out);
	show_half_landed(v, out);
	next_step(v, c, out);
}

/* ---- all ---- */

struct list {
	struct json *json; /* NULL: text */
	struct buf *out;
	const char *cwd; /* NULL: of every directory */
	size_t n, hidden;
};

static bool here(const struct env *v, const char *cwd)
{
	size_t n = strlen(v->workspace);

	return !cwd || (strncmp(cwd, v->workspace, n) == 0 && (!cwd[n] || cwd[n] == '/'));
}

#define LIST_HEAD "%-20s %-9s %-7s %-12.12s %5s  %s"

/* In the largest unit that it is one of. */
static void show_age(long long s, char ret[24])
{
	static const struct {
		long long s;
		char unit;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(units) && s < units[i].s)
		i++;
	snprintf(ret, 24, "%lld%c", s / units[i].s, units[i].unit);
}

static void list_one(struct list *l, const char *name)
{
	char age[24];
	cleanup_env struct env v;
	struct err why = ERR_INIT;

	env_init(&v);
	if (env_open_record(&v, name, &why) < 0) {
		if (l->json) {
			json_object(l->json, NULL);
			json_str(l->json, "name", name);
			json_str(l->json, "problem", why.msg);
			json_end(l->json);
		} else {
			buf_addf(l->out, "%-20s ", name);
			str_show_all(l->out, why.msg);
			buf_addc(l->out, '\n');
		}
		return;
	}
	if (!here(&v, l->cwd)) {
		l->hidden++;
		return;
	}
	l->n++;
	if (l->json) {
		json_env(l->json, &v, NULL);
		return;
	}
	if (l->n == 1)
		buf_addf(l->out, LIST_HEAD, "NAME", "STATE", "", "START", "AGE", "WORKSPACE\n");
	show_age(env_age_s(&v), age);
	buf_addf(l->out, LIST_HEAD, v.name, env_state_names[v.state],
		env_is_up(&v) ? "up" : in_use(&v) ? "in use" : "",
		oid_is_none(&v.base_commit) ? "-" : oid_hex(&v.base_commit).s, age, "");
	str_show_all(l->out, v.workspace);
	buf_addc(l->out, '\n');
	show_half_landed(&v, l->out);
}

int env_report_list(
	bool all, bool json, const struct strlist *notes, struct buf *out, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(1000000);
	char cwd[PATH_MAX];
	struct json j;
	struct list l = {.out = out, .cwd = all || !getcwd(cwd, sizeof(cwd)) ? NULL : cwd};

	if (env_names(&names, e) < 0)
		return -e->errnum;
	if (json) {
		json_init(&j, out, true);
		json_object(&j, NULL);
		json_array(&j, "environments");
		l.json = &j;
	}
	for (size_t i = 0; i < names.n; i++)
		list_one(&l, names.v[i]);
	if (json) {
		json_end(&j);
		json_uint(&j, "elsewhere", l.hidden);
		json_end(&j);
		buf_addc(out, '\n');
		return 0;
	}
	for (size_t i = 0; i < notes->n; i++)
		buf_addf(out, "%s\n", notes->v[i]);
	if (l.n == 0)
		buf_adds(
			out, all ? "there is no environment; make one with: croft new NAME\n"
				 : "there is no environment here; make one with: croft new NAME\n");
	if (l.hidden)
		buf_addf(out, "%zu in other directories; croft ls --all shows them\n", l.hidden);
	return 0;
}

int env_report_last(struct buf *out, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(1000000);
	char cwd[PATH_MAX], name[ENV_NAME_MAX + 1] = "",
						created[sizeof(((struct env *)0)->created)] = "";

	if (!getcwd(cwd, sizeof(cwd)))
		return err_set(e, errno, "find the current directory");
	if (env_names(&names, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < names.n; i++) {
		cleanup_env struct env v;
		struct err why = ERR_INIT;

		env_init(&v);
		if (env_open_record(&v, names.v[i], &why) < 0 || !here(&v, cwd) ||
			strcmp(v.created, created) < 0)
			continue;
		memcpy(name, v.name, sizeof(name));
		memcpy(created, v.created, sizeof(created));
	}
	buf_adds(out, name);
	return 0;
}

int env_report_names(bool all, struct buf *out, struct err *e)
{
	cleanup_strlist struct strlist names = STRLIST_INIT(1000000);
	char dir[PATH_MAX];
	const char *cwd = all || !getcwd(dir, sizeof(dir)) ? NULL : dir;

	if (env_names(&names, e) < 0)
		return -e->errnum;
	for (size_t i = 0; i < names.n; i++) {
		cleanup_env struct env v;
		struct err why = ERR_INIT;

		env_init(&v);
		if (env_open_record(&v, names.v[i], &why) >= 0 && here(&v, cwd))
			buf_addf(out, "%s\n", v.name);
	}
	return 0;
}

void env_report_gc(const struct gc_report *g, const struct strlist *notes, bool dry_run, bool json,
	struct buf *out)
{
	struct json j;

	if (json) {
		json_init(&j, out, true);
		json_object(&j, NULL);
		json_bool(&j, "dry_run", dry_run);
		json_array(&j, "environments");
		for (size_t i = 0; i < g->envs.n; i++)
			json_str(&j, NULL, g->envs.v[i]);
		json_end(&j);
		json_uint(&j, "layers", g->layers);
		json_uint(&j, "bases", g->bases);
		json_uint(&j, "leftovers", g->leftovers);
		json_uint(&j, "objects", g->objects.n);
		json_uint(&j, "objects_b", g->objects.size_b);
		json_uint(&j, "stores_left", g->objects.left);
		json_end(&j);
		buf_addc(out, '\n');
		return;
	}
	for (size_t i = 0; i < notes->n; i++)
		buf_addf(out, "%s\n", notes->v[i]);
	for (size_t i = 0; i < g->envs.n; i++)
		buf_addf(out, "environment %s %s\n", g->envs.v[i],
			dry_run ? "would be removed" : "removed");
	buf_addf(out, "%llu layers, %llu bases, %llu leftovers, %llu objects (%llu KB)%s\n",
		(unsigned long long)g->layers, (unsigned long long)g->bases,
		(unsigned long long)g->leftovers, (unsigned long long)g->objects.n,
		(unsigned long long)(g->objects.size_b >> 10),
		dry_run ? " would be reclaimed" : " reclaimed");
	if (g->objects.left)
		buf_addf(out, "%llu stores cannot be read as a whole and keep all they have\n",
			(unsigned long long)g->objects.left);
}
