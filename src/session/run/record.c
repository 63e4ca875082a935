/* SPDX-License-Identifier: Apache-2.0 */
/* Denials and touched files of one command: see record.h. */
#include "session/run/record.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "policy/runs.h"
#include "session/run/whereis.h"

const char *const file_change_names[] = {"created", "modified", "deleted"};
static_assert(ARRAY_SIZE(file_change_names) == FILE_CHANGE_NUM, "one name per change");

int record_init(struct record *r, const struct policy *p, const char *workspace)
{
	*r = (struct record){.policy = p, .workspace = workspace};
	return 0;
}

void record_done(struct record *r)
{
	for (size_t i = 0; i < r->denials_n; i++)
		free(r->denials[i].path);
	for (size_t i = 0; i < r->files_n; i++)
		free(r->files[i].path);
	free(r->denials);
	free(r->files);
	free(r->index);
	*r = (struct record){0};
}

static void add_denial(struct record *r, const struct notice *n, bool shared)
{
	struct denial *d;

	for (size_t i = 0; i < r->denials_n; i++) {
		d = &r->denials[i];
		if (d->op == n->op && strcmp(d->path, n->path) == 0) {
			d->count++;
			d->shared &= shared;
			return;
		}
	}
	if (!r->denials)
		r->denials = calloc(RECORD_DENIALS_MAX, sizeof(*r->denials));
	r->denials_b += strlen(n->path);
	if (!r->denials || r->denials_n == RECORD_DENIALS_MAX ||
		r->denials_b > RECORD_DENIALS_MAX_B) {
		r->denials_b -= strlen(n->path);
		r->denials_lost++;
		return;
	}
	d = &r->denials[r->denials_n];
	*d = (struct denial){.path = strdup(n->path), .op = n->op, .source = n->source, .count = 1};
	if (!d->path) {
		r->denials_lost++;
		return;
	}
	d->shared = shared;
	policy_access(r->policy, n->path, &d->rule);
	r->denials_n++;
}

void record_shared_denial(struct record *r, const struct notice *n)
{
	add_denial(r, n, true);
}

bool record_has_denial(const struct record *r, const char *path, bool below)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < r->denials_n; i++) {
		const char *p = r->denials[i].path;

		if (strncmp(p, path, n) == 0 && (!p[n] || (below && p[n] == '/')))
			return true;
	}
	return false;
}

static uint32_t path_hash(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

/* Slot of `path` in the index: of the file itself, or the free place where it belongs. */
static uint32_t *index_slot(struct record *r, const char *path)
{
	size_t i = path_hash(path) & (r->index_cap - 1);

	while (r->index[i] && strcmp(r->files[r->index[i] - 1].path, path) != 0)
		i = (i + 1) & (r->index_cap - 1);
	return &r->index[i];
}

static bool files_grow(struct record *r)
{
	size_t cap = r->files_cap ? r->files_cap * 2 : 64;
	struct file_touched *files;
	uint32_t *index;

	files = realloc(r->files, cap * sizeof(*files));
	if (!files)
		return false;
	r->files = files;
	index = calloc(cap * 4, sizeof(*index));
	if (!index)
		return false;
	free(r->index);
	r->index = index;
	r->index_cap = cap * 4;
	r->files_cap = cap;
	for (size_t i = 0; i < r->files_n; i++)
		*index_slot(r, r->files[i].path) = (uint32_t)i + 1;
	return true;
}

static struct file_touched *touch(struct record *r, const char *path)
{
	uint32_t *slot;
	struct file_touched *f;

	if (r->files_b + strlen(path) > RECORD_FILES_MAX_B ||
		(r->files_n == r->files_cap &&
			(r->files_n >= RECORD_FILES_MAX || !files_grow(r)))) {
		r->files_full = true;
		return NULL;
	}
	slot = index_slot(r, path);
	if (*slot)
		return NULL; /* first sight decides whether it existed */
	f = &r->files[r->files_n];
	*f = (struct file_touched){.path = strdup(path)};
	if (!f->path)
		return NULL;
	*slot = (uint32_t)++r->files_n;
	r->files_b += strlen(path);
	return f;
}

static bool in_workspace(const struct record *r, const char *path)
{
	size_t n = strlen(r->workspace);

	return strncmp(path, r->workspace, n) == 0 && path[n] == '/';
}

void record_notice(struct record *r, const struct notice *n)
{
	struct file_touched *f;

	if (r->tap)
		r->tap(r->tap_arg, n);
	if (n->denied) {
		add_denial(r, n, false);
		return;
	}
	if (!notice_changes((enum notice_op)n->op) || !in_workspace(r, n->path))
		return;
	f = touch(r, n->path);
	if (f)
		f->existed = n->exists;
}

void record_forget_files(struct record *r)
{
	for (size_t i = 0; i < r->files_n; i++)
		free(r->files[i].path);
	r->files_n = r->files_b = 0;
	if (r->index)
		memset(r->index, 0, r->index_cap * sizeof(*r->index));
}

void record_change(struct record *r, const char *path, enum file_change c)
{
	struct file_touched *f = touch(r, path);

	if (f)
		f->change = c;
}

void record_settle(struct record *r)
{
	size_t out = 0;

	for (size_t i = 0; i < r->files_n; i++) {
		struct file_touched *f = &r->files[i];
		struct stat st;
		bool now = lstat(f->path, &st) == 0;

		if ((!f->existed && !now) || (now && S_ISDIR(st.st_mode))) {
			free(f->path); /* came and went, or a directory */
			continue;
		}
		f->change = !now ? FILE_DELETED : f->existed ? FILE_MODIFIED : FILE_CREATED;
		r->files[out++] = *f;
	}
	r->files_n = out;
	free(r->index); /* no more touching: positions have moved */
	r->index = NULL;
	r->index_cap = r->files_cap = 0;
}

void denial_rule(const struct denial *d, struct buf *out)
{
	if (!d->rule) {
		buf_adds(out, "no rule grants it");
		return;
	}
	buf_addf(out, "%s ", policy_access_names[d->rule->access]);
	str_show(out, d->rule->path, strlen(d->rule->path));
	if (d->rule->origin.file) {
		buf_addf(out, " (%s", d->rule->origin.file);
		if (d->rule->origin.line)
			buf_addf(out, ":%u", d->rule->origin.line);
		buf_addc(out, ')');
	}
}

void denial_fix(const struct denial *d, struct buf *out)
{
	bool reads = !notice_changes(d->op);
	char name[POLICY_PATH_MAX];
	const char *git;
	size_t held;

	if (d->op == NOTICE_CONNECT) {
		buf_adds(out, "nothing: this socket is not shared");
		return;
	}
	if (str_ends(d->path, "/docker.sock") || str_ends(d->path, "/podman.sock")) {
		buf_adds(out, "nothing: whoever reaches it can do anything on this machine, and no "
			      "tier of this version runs containers inside");
		return;
	}
	if (d->rule && d->rule->origin.layer == LAYER_FLOOR) {
		buf_adds(out, "nothing: croft never grants this path");
		return;
	}
	held = policy_rule_holds(d->rule, d->path);
	/* Git makes files of ever new names in its directory: only the whole of it helps. */
	git = reads || held || policy_rule_is_git(d->rule) ? NULL : strstr(d->path, "/.git/");
	/* The one of the workspace, which the profile holds. */
	if (git && d->rule && d->rule->origin.layer == LAYER_PROFILE && str_ends(d->rule->path, "/.git") &&
		gitname_of(git + 6) != GITNAME_HELD) {
		buf_adds(out, "--git");
		return;
	}
	if (git && (!d->rule || strlen(d->rule->path) <= (size_t)(git - d->path) + 5))
		held = (size_t)(git - d->path) + 5;
	snprintf(name, sizeof(name), "%.*s", (int)(held ? held : strlen(d->path)), d->path);
	if (whereis_too_wide(name)) {
		buf_adds(out, "nothing: this would open all of it; grant what is needed below");
		return;
	}
	if (!policy_path_option(out,
		    reads                             ? "--read"
		    : runs_inside(name, getenv("HOME"), NULL) ? "--write-runs"
						      : "--write",
		    name))
		buf_adds(out, POLICY_UNNAMEABLE);
}

bool denial_fix_waits(const char *path, const char *fix)
{
	struct stat st;

	return path[0] && str_starts(fix, "--") && str_ends(fix, path) && lstat(path, &st) < 0 &&
	       (errno == ENOENT || errno == ENOTDIR);
}

void record_denials_json(const struct record *r, struct json *j, const char *run_id,
	void (*more)(const void *arg, struct json *j, const char *run_id, size_t first),
	const void *arg, uint64_t more_lost)
{
	json_array(j, "denials");
	for (size_t i = 0; i < r->denials_n; i++) {
		const struct denial *d = &r->denials[i];
		cleanup_buf struct buf rule = BUF_INIT(8192), fix = BUF_INIT(20480);

		denial_rule(d, &rule);
		denial_fix(d, &fix);
		json_object(j, NULL);
		json_strf(j, "id", "%s.%zu", run_id, i + 1);
		json_str(j, "path", d->path);
		json_str(j, "operation", notice_op_names[d->op]);
		json_str(j, "rule", buf_str(&rule));
		json_str(j, "allow_with", buf_str(&fix));
		json_str(j, "seen_by", notice_source_names[d->source]);
		json_uint(j, "count", d->count);
		if (d->shared)
			json_bool(j, "shared", true);
		json_end(j);
	}
	if (more)
		more(arg, j, run_id, r->denials_n);
	json_end(j);
	json_uint(j, "denials_beyond_limit", r->denials_lost + more_lost);
}

void record_files_json(const struct record *r, struct json *j)
{
	json_array(j, "changed");
	for (size_t i = 0; i < r->files_n; i++) {
		json_object(j, NULL);
		json_str(j, "path", r->files[i].path);
		json_str(j, "change", file_change_names[r->files[i].change]);
		json_end(j);
	}
	json_end(j);
	json_bool(j, "complete", !r->files_full);
}
