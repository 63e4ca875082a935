/* SPDX-License-Identifier: Apache-2.0 */
/* Asking git what differs: see diff.h. */
#include "core/diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "git/program.h"

#define ARGS_MAX (24 + DIFF_PATHS_MAX)

/* ---- differences of trees ---- */

static int run_diff(const struct diff_query *q, enum hunks_form form, const char *big,
	struct buf *out, struct err *e)
{
	const struct oid_hex from = oid_hex(&q->from), to = oid_hex(&q->to);
	cleanup_free const char **argv = calloc(ARGS_MAX + 1, sizeof(*argv));
	struct git_run r = {.git_dir = q->git_dir, .out = out};
	size_t n = 0;

	if (!argv)
		return err_set(e, ENOMEM, "ask git for differences");
	argv[n++] = "--literal-pathspecs";
	argv[n++] = "-c";
	argv[n++] = big;
	argv[n++] = "diff-tree";
	argv[n++] = "-r";
	argv[n++] = "-z";
	argv[n++] = "--raw";
	argv[n++] = "--full-index";
	argv[n++] = "--no-color";
	argv[n++] = "--no-ext-diff";
	argv[n++] = "--no-textconv";
	argv[n++] = q->no_renames ? "--no-renames" : form == HUNKS_RAW ? "-M100%" : "-M";
	argv[n++] = "-l1000";
	if (form == HUNKS_NUMSTAT)
		argv[n++] = "--numstat";
	if (form == HUNKS_PATCH) {
		argv[n++] = "-p";
		argv[n++] = "-U3";
		argv[n++] = "--diff-algorithm=histogram";
		argv[n++] = "--src-prefix=a/";
		argv[n++] = "--dst-prefix=b/";
	}
	argv[n++] = from.s;
	argv[n++] = to.s;
	argv[n++] = "--";
	for (size_t i = 0; q->paths && q->paths[i] && n < ARGS_MAX; i++)
		argv[n++] = q->paths[i];
	r.argv = argv;
	return git_run(&r, e);
}

int tree_diff_get(struct tree_diff *ret, const struct diff_query *q, struct err *e)
{
	/* What is larger than this is not shown line by line; when all is too much, less is. */
	static const struct {
		const char *setting;
		uint64_t max_b;
	} limits[] = {{"core.bigFileThreshold=8m", 8u << 20},
		{"core.bigFileThreshold=256k", 256u << 10}, {"core.bigFileThreshold=1", 1}};
	static const enum hunks_form forms[] = {
		[DIFF_HUNKS] = HUNKS_PATCH, [DIFF_STAT] = HUNKS_NUMSTAT, [DIFF_NAMES] = HUNKS_RAW};
	cleanup_tree_diff struct tree_diff d = {.text = BUF_INIT(DIFF_PATCH_MAX)};
	int r = -EFBIG;

	if (oid_eq(&q->from, &q->to)) {
		*ret = (struct tree_diff){.text = BUF_INIT(DIFF_PATCH_MAX)};
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(limits) && r == -EFBIG; i++) {
		*e = ERR_INIT;
		buf_reset(&d.text);
		d.shown_max = limits[i].max_b;
		r = run_diff(q, forms[q->what], limits[i].setting, &d.text, e);
	}
	if (r == -EFBIG)
		return err_invalid(e,
			"the change is too large to show at once; name paths, or ask for --stat");
	if (r == 0)
		r = tree_diff_parse(&d, forms[q->what], e);
	if (r < 0)
		return r;
	*ret = d;
	d = (struct tree_diff){0};
	return 0;
}

static void ask_size(struct buf *in, const struct oid *o)
{
	if (o->n)
		buf_addf(in, "%s\n", oid_hex(o).s);
}

/* One answer: a number; a gitlink or a missing object has none. */
static void take_size(const char **at, const struct oid *o, uint64_t *ret)
{
	char line[96];
	size_t n = strcspn(*at, "\n");

	if (!o->n)
		return;
	if (n < sizeof(line)) {
		memcpy(line, *at, n);
		line[n] = '\0';
		if (!str_u64(line, UINT64_MAX - 1, ret))
			*ret = DIFF_SIZE_UNKNOWN;
	}
	*at += n + ((*at)[n] == '\n');
}

static bool is_large(uint64_t size_b, uint64_t max_b)
{
	return size_b != DIFF_SIZE_UNKNOWN && size_b > max_b;
}

int tree_diff_sizes(struct tree_diff *d, const char *git_dir, struct err *e)
{
	cleanup_buf struct buf in = BUF_INIT(DIFF_PATCH_MAX), out = BUF_INIT(DIFF_PATCH_MAX);
	struct git_run r = {
		.argv = (const char *const[]){"cat-file", "--batch-check=%(objectsize)", NULL},
		.git_dir = git_dir,
		.out = &out};
	const char *at;
	int rc;

	for (size_t i = 0; i < d->n; i++) {
		if (!d->v[i].binary)
			continue;
		ask_size(&in, &d->v[i].old);
		ask_size(&in, &d->v[i].new);
	}
	if (in.failed)
		return err_set(e, ENOMEM, "ask for sizes");
	if (!in.len)
		return 0;
	r.in = in.data;
	r.in_n = in.len;
	rc = git_run(&r, e);
	if (rc < 0)
		return rc;
	at = buf_str(&out);
	for (size_t i = 0; i < d->n; i++) {
		if (!d->v[i].binary)
			continue;
		take_size(&at, &d->v[i].old, &d->v[i].old_size);
		take_size(&at, &d->v[i].new, &d->v[i].new_size);
		d->v[i].large = is_large(d->v[i].old_size, d->shown_max) ||
				is_large(d->v[i].new_size, d->shown_max);
	}
	return 0;
}

/* ---- paths ---- */

int diff_paths(struct strlist *ret, const char *const *paths, struct err *e)
{
	cleanup_strlist struct strlist l = STRLIST_INIT(DIFF_PATHS_MAX);

	for (size_t i = 0; paths && paths[i]; i++) {
		const char *p = paths[i];
		size_t n;

		while (p[0] == '.' && p[1] == '/')
			for (p += 2; *p == '/';)
				p++;
		n = strlen(p);
		while (n > 1 && p[n - 1] == '/')
			n--;
		if (n == 0 || (n == 1 && p[0] == '.')) {
			strlist_done(&l);
			break;
		}
		if (p[0] == '/' || (p[0] == '.' && p[1] == '.' && (!p[2] || p[2] == '/')))
			return err_invalid(
				e, "paths are relative to the workspace's top: %.200s", paths[i]);
		if (!strlist_addn(&l, p, n))
			return err_invalid(e, "at most %u paths can be named", DIFF_PATHS_MAX);
	}
	*ret = l;
	l = (struct strlist){0};
	return 0;
}

bool diff_selects(const struct strlist *paths, const char *path)
{
	for (size_t i = 0; i < paths->n; i++) {
		size_t n = strlen(paths->v[i]);

		if (strncmp(path, paths->v[i], n) == 0 && (!path[n] || path[n] == '/'))
			return true;
	}
	return paths->n == 0;
}

const char *diff_runs(const struct changes *c, const struct diff_file *f)
{
	const struct change *x = changes_find(c, f->path);

	if (!f->new_mode)
		return NULL;
	if (!x) /* of an earlier review: by its name alone */
		return change_runs(f->path, f->new_mode);
	return x->flags & CHANGE_RUNS ? x->runs : NULL;
}

/* ---- an environment's ---- */

static int list_tree(struct diff *d, const char *git_dir, const char *const *paths, struct err *e)
{
	struct diff_query q = {
		.git_dir = git_dir, .from = d->from, .to = d->to, .what = d->what, .paths = paths};
	int r;

	if (q.what == DIFF_STAT && d->changes.n > DIFF_STAT_MAX)
		q.what = DIFF_NAMES;
	r = tree_diff_get(&d->tree, &q, e);
	if (r == 0 && q.what != DIFF_NAMES)
		r = tree_diff_sizes(&d->tree, git_dir, e);
	if (r < 0)
		return r;
	d->counted = q.what != DIFF_NAMES;
	for (size_t i = 0; i < d->tree.n; i++) {
		d->added += d->tree.v[i].added;
		d->deleted += d->tree.v[i].deleted;
	}
	return 0;
}

static bool changed_at(const struct diff *d, const char *path)
{
	char *const one[] = {(char *)(uintptr_t)path};
	const struct strlist only = {.v = (char **)(uintptr_t)one, .n = 1};

	for (size_t i = 0; i < d->tree.n; i++)
		if (diff_selects(&only, d->tree.v[i].path) ||
			(d->tree.v[i].from && diff_selects(&only, d->tree.v[i].from)))
			return true;
	for (size_t i = 0; i < d->changes.n; i++)
		if (d->changes.v[i].flags & (CHANGE_REFUSED | CHANGE_EMPTY_DIR) &&
			diff_selects(&only, d->changes.v[i].path))
			return true;
	return false;
}

/* A path that was misspelt must not look like one that is as it was. */
static int check_paths(const struct diff *d, struct err *e)
{
	for (size_t i = 0; i < d->paths.n; i++) {
		cleanup_buf struct buf shown = BUF_INIT(1024);

		if (changed_at(d, d->paths.v[i]))
			continue;
		str_show(&shown, d->paths.v[i], MIN_OF(strlen(d->paths.v[i]), 200u));
		return err_invalid(e,
			"nothing was changed at %s%s; croft diff --names %s lists what was",
			buf_str(&shown), d->since ? " since the review" : "", d->name);
	}
	return 0;
}

int diff_open(struct diff *ret, struct env *v, enum diff_what what, bool since,
	const char *const *paths, struct err *e)
{
	cleanup_diff struct diff d = {.what = what, .since = since};
	cleanup_free const char **list = NULL;
	int r;

	if (since && !v->review.tree.n)
		return err_invalid(
			e, "%s has not been reviewed yet; see: croft diff %s", v->name, v->name);
	r = diff_paths(&d.paths, paths, e);
	if (r == 0)
		r = env_changes(v, &d.changes, true, e);
	if (r < 0)
		return r;
	memcpy(d.name, v->name, sizeof(d.name));
	memcpy(d.since_time, v->review.time, sizeof(d.since_time));
	d.from = since ? v->review.tree : d.changes.start_tree;
	d.to = d.changes.tree;
	list = calloc(d.paths.n + 1, sizeof(*list));
	if (!list)
		return err_set(e, ENOMEM, "list differences");
	for (size_t i = 0; i < d.paths.n; i++)
		list[i] = d.paths.v[i];
	r = list_tree(&d, v->repo.store, d.paths.n ? list : NULL, e);
	if (r == 0)
		r = check_paths(&d, e);
	if (r < 0)
		return r;
	*ret = d;
	d = (struct diff){0};
	return 0;
}

void diff_done(struct diff *d)
{
	changes_done(&d->changes);
	tree_diff_done(&d->tree);
	strlist_done(&d->paths);
	*d = (struct diff){0};
}
