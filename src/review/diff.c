/* SPDX-License-Identifier: Apache-2.0 */
/* Asking git what differs: see diff.h. */
#include "review/diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "git/program.h"

#define ARGS_MAX (32 + DIFF_PATHS_MAX + DIFF_WITHOUT_MAX)

/* ---- differences of trees ---- */

/* "PREFIX" and each path, into argv; they live in `texts`. */
static bool add_specs(struct strlist *texts, const char **argv, size_t *n, const char *prefix,
	const char *const *paths, size_t paths_n)
{
	cleanup_buf struct buf b = BUF_INIT(2 * CHANGE_PATH_MAX);

	for (size_t i = 0; i < paths_n && *n < ARGS_MAX; i++) {
		buf_reset(&b);
		buf_addf(&b, "%s%s", prefix, paths[i]);
		if (b.failed || !strlist_add(texts, buf_str(&b)))
			return false;
		argv[(*n)++] = texts->v[texts->n - 1];
	}
	return true;
}

static int run_diff(const struct diff_query *q, enum hunks_form form, const char *big,
	struct buf *out, struct err *e)
{
	const struct oid_hex from = oid_hex(&q->from), to = oid_hex(&q->to);
	cleanup_free const char **argv = calloc(ARGS_MAX + 1, sizeof(*argv));
	cleanup_strlist struct strlist texts = STRLIST_INIT(ARGS_MAX);
	struct git_run r = {.git_dir = q->git_dir,
		.out = out,
		.data_max_b = GIT_PATCH_DATA_MAX_B}; /* lists of many files take room */
	size_t n = 0, paths_n = 0;

	if (!argv)
		return err_set(e, ENOMEM, "ask git for differences");
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
	if (q->text)
		argv[n++] = "--text";
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
	while (q->paths && q->paths[paths_n])
		paths_n++;
	if (!add_specs(&texts, argv, &n, ":(literal)", q->paths, paths_n) ||
		(q->without && !add_specs(&texts, argv, &n, ":(exclude,literal)",
				       (const char *const *)q->without->v, q->without->n)))
		return err_set(e, ENOMEM, "ask git for differences");
	r.argv = argv;
	return git_run(&r, e);
}

static const enum hunks_form forms[] = {
	[DIFF_HUNKS] = HUNKS_PATCH, [DIFF_STAT] = HUNKS_NUMSTAT, [DIFF_NAMES] = HUNKS_RAW};

static int get(struct tree_diff *ret, const struct diff_query *q, struct err *e)
{
	/* What is larger than this is not shown line by line; when all is too much, less is. */
	static const struct {
		const char *setting;
		uint64_t max_b;
	} limits[] = {{"core.bigFileThreshold=8m", DIFF_SHOW_MAX_B},
		{"core.bigFileThreshold=256k", 256u << 10}, {"core.bigFileThreshold=1", 1}};
	cleanup_tree_diff struct tree_diff d = {.text = BUF_INIT(DIFF_PATCH_MAX)};
	int r = -EFBIG;

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

/* ---- what is too large to be looked into ---- */

static bool came_or_went(const struct diff_file *f)
{
	return f->status == 'A' || f->status == 'D';
}

/* Sizes of those, by git. */
static int size_them(struct tree_diff *names, const char *git_dir, struct err *e)
{
	for (size_t i = 0; i < names->n; i++)
		names->v[i].binary =
			came_or_went(&names->v[i]); /* so that their sizes are asked for */
	return tree_diff_sizes(names, git_dir, e);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_file(const void *a, const void *b)
{
	return strcmp(((const struct diff_file *)a)->path, ((const struct diff_file *)b)->path);
}

/* Every path that d speaks of, sorted; borrowed from it. */
static const char **paths_of(const struct tree_diff *d, size_t *ret_n)
{
	const char **v = calloc(2 * d->n + 1, sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; v && i < d->n; i++) {
		v[n++] = d->v[i].path;
		if (d->v[i].from)
			v[n++] = d->v[i].from;
	}
	if (v)
		qsort(v, n, sizeof(*v), by_text);
	*ret_n = n;
	return v;
}

/* Files that git was told to leave out, as the list of names has them. */
static int add_left_out(struct tree_diff *d, struct tree_diff *names, struct err *e)
{
	size_t paths_n, before = d->n;
	cleanup_free const char **paths = paths_of(d, &paths_n);

	if (!paths)
		return err_set(e, ENOMEM, "list differences");
	for (size_t i = 0; i < names->n; i++) {
		struct diff_file *f = &names->v[i], *own;

		if (bsearch(&f->path, paths, paths_n, sizeof(*paths), by_text))
			continue;
		own = tree_diff_add(d);
		if (!own)
			return err_set(e, ENOMEM, "list differences");
		*own = *f;
		own->binary = own->large = true;
		*f = (struct diff_file){0}; /* it is d's now */
	}
	if (d->n > before)
		qsort(d->v, d->n, sizeof(*d->v), by_file);
	return 0;
}

static int get_bounded(struct tree_diff *ret, const struct diff_query *q, struct err *e)
{
	cleanup_strlist struct strlist without = STRLIST_INIT(DIFF_WITHOUT_MAX);
	cleanup_tree_diff struct tree_diff names = {0};
	struct diff_query list = *q, rest = *q;
	bool full = false;
	size_t large = 0;
	int r;

	list.what = DIFF_NAMES;
	r = get(&names, &list, e);
	if (r == 0)
		r = size_them(&names, q->git_dir, e);
	if (r < 0)
		return r;
	for (size_t i = 0; q->without && i < q->without->n; i++)
		full |= !strlist_add(&without, q->without->v[i]);
	for (size_t i = 0; i < names.n; i++) {
		names.v[i].large = came_or_went(&names.v[i]) && names.v[i].large;
		large += names.v[i].large;
		full |= names.v[i].large && !strlist_add(&without, names.v[i].path);
	}
	if (full) { /* so many that nothing is looked into */
		for (size_t i = 0; i < names.n; i++)
			names.v[i].binary = names.v[i].large = true;
		*ret = names;
		names = (struct tree_diff){0};
		return 0;
	}
	rest.without = &without;
	r = get(ret, &rest, e);
	return r < 0 || !large ? r : add_left_out(ret, &names, e);
}

int tree_diff_get(struct tree_diff *ret, const struct diff_query *q, struct err *e)
{
	if (oid_eq(&q->from, &q->to)) {
		*ret = (struct tree_diff){.text = BUF_INIT(DIFF_PATCH_MAX)};
		return 0;
	}
	return q->what == DIFF_NAMES || q->small ? get(ret, q, e) : get_bounded(ret, q, e);
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

/* No file came or went that git should not be asked to look into. */
static bool all_small(const struct diff *d)
{
	for (size_t i = 0; i < d->changes.n; i++)
		if (!d->changes.v[i].new_mode || d->changes.v[i].size > DIFF_SHOW_MAX_B)
			return false;
	return !d->since; /* then the list is against another tree */
}

static int list_not_read(struct diff *d, struct err *e)
{
	for (size_t i = 0; i < d->changes.n; i++)
		if (d->changes.v[i].flags & CHANGE_NOT_READ &&
			!strlist_add(&d->not_read, d->changes.v[i].path))
			return err_invalid(e, "more than %u files are too much to read; name paths",
				DIFF_WITHOUT_MAX);
	return 0;
}

static int list_tree(struct diff *d, const char *git_dir, const char *const *paths, struct err *e)
{
	struct diff_query q = {.git_dir = git_dir,
		.from = d->from,
		.to = d->to,
		.what = d->what,
		.small = all_small(d),
		.paths = paths,
		.without = d->since ? &d->not_read : NULL};
	int r;

	if (q.what == DIFF_STAT && d->changes.n > DIFF_STAT_MAX)
		q.what = DIFF_NAMES;
	r = tree_diff_get(&d->tree, &q, e);
	if (r == 0 && q.what != DIFF_NAMES)
		r = tree_diff_sizes(&d->tree, git_dir, e);
	if (r == 0 && q.what == DIFF_HUNKS)
		r = tree_diff_binary(&d->tree, &q, &d->changes, d->text, e);
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
		if (d->changes.v[i].flags & (CHANGE_REFUSED | CHANGE_EMPTY_DIR | CHANGE_NOT_READ) &&
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

int diff_open(struct diff *ret, struct env *v, enum diff_what what, bool since, bool text,
	const char *const *paths, struct err *e)
{
	cleanup_diff struct diff d = {.what = what,
		.since = since,
		.text = text,
		.not_read = STRLIST_INIT(DIFF_WITHOUT_MAX)};
	cleanup_free const char **list = NULL;
	int r;

	if (since && !v->review.tree.n)
		return err_invalid(
			e, "%s has not been reviewed yet; see: croft diff %s", v->name, v->name);
	r = diff_paths(&d.paths, paths, e);
	if (r == 0)
		r = env_look(v, &d.changes, true, e);
	if (r == 0 && since)
		r = list_not_read(&d, e);
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
	strlist_done(&d->not_read);
	*d = (struct diff){0};
}
