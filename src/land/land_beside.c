/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lands, beside what is there: names that mean something only together.
 *
 * Purpose: a directory becomes a repository for Git by having HEAD, objects and refs; two names collide where
 *          case or Unicode normalisation do not count (base/fold.h). The scan sees what one environment
 *          changed, and so misses what was landed before, what the user made, and what the branch has by
 *          now. So the checkout that results is judged here, directory by directory, before anything is
 *          written: what is on the disk, without what this landing removes, with what it brings.
 * Trust:   names alone count, of whatever kind: Git follows a symlink called objects, too.
 * Limits:  only directories are read in which, or below which, something changes. A commit that lands on
 *          another branch has no checkout: its tree is judged instead (land_names.c).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fold.h"
#include "land/land_impl.h"
#include "git/program.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/name.h"

#define BESIDE_MAX 4000000u /* names in one directory */
#define FILTERS_TOLD 8u

struct beside {
	struct land_job *j;
	struct err *e;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct goes {
	const struct land_job *j;
	const char *top;
	bool stays;
};

static bool one_goes(void *arg, const char *path, const struct stat *st)
{
	struct goes *g = arg;
	char full[CHANGE_PATH_MAX + 1];
	const struct land_op *op;

	if (snprintf(full, sizeof(full), "%s/%s", g->top, path) >= (int)sizeof(full))
		return false;
	op = land_ops_find(&g->j->in.ops, full);
	g->stays = !op || op->new_mode;
	return !g->stays;
}

/* Does this landing take away what has this name, a file or all that is in a directory? */
static bool is_going(const struct beside *k, int dir, const char *path, const char *name)
{
	const struct land_op *op = land_ops_find(&k->j->in.ops, path);
	struct goes g = {.j = k->j, .top = path};
	cleanup_fd int fd = -1;

	if (op)
		return !op->new_mode;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && tree_walk(fd, CHANGES_MAX, one_goes, &g) && !g.stays;
}

/* Names that are there and stay. dir: its path with a slash at the end, or "". */
static int add_present(const struct beside *k, const char *dir, struct strlist *ret)
{
	cleanup_fd int fd = path_open(k->j->top_fd, *dir ? dir : ".", O_RDONLY | O_DIRECTORY,
		PATH_NO_SYMLINKS | PATH_BENEATH);
	cleanup_dir DIR *d = fd < 0 ? NULL : dir_list(fd, ".");
	int rc = fd < 0 ? fd : d ? 0 : -errno;
	struct dirent *de;

	/* It is made by this landing, or takes the place of what is no directory. */
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP)
		return 0;
	for (; rc == 0 && (errno = 0, de = readdir(d));) {
		cleanup_free char *path = NULL;

		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		if (asprintf(&path, "%s%s", dir, de->d_name) < 0)
			return land_no_memory(k->e);
		if (!is_going(k, fd, path, de->d_name) && !strlist_add(ret, de->d_name))
			return err_refuse(k->e, "%s has too many files", land_show(dir).s);
	}
	rc = rc == 0 ? -errno : rc;
	return rc < 0 ? err_set(k->e, -rc,
				"list %s, to see what the names that land in it are beside",
				*dir ? land_show(dir).s : "the workspace")
		      : 0;
}

static int refuse(const struct beside *k, const char *dir, const char *name, const char *other)
{
	cleanup_buf struct buf path = BUF_INIT(2 * CHANGE_PATH_MAX);

	buf_addf(&path, "%s%s", dir, name);
	if (other)
		return err_refuse(k->e,
			"%s does not land: it differs only in case or Unicode normalisation from "
			"%s, "
			"which is there",
			land_show(buf_str(&path)).s, land_show(other).s);
	return err_refuse(k->e,
		"%s does not land: with what is there already, %s would be a repository for Git, "
		"whose configuration runs programs",
		land_show(buf_str(&path)).s, *dir ? land_show(dir).s : "the workspace");
}

static bool has(const struct strlist *sorted, const char *name)
{
	return sorted->n && bsearch(&name, sorted->v, sorted->n, sizeof(*sorted->v), by_name);
}

/* added: names that come or change here, sorted. */
static int check_names(const struct beside *k, const char *dir, const struct strlist *added)
{
	cleanup_strlist struct strlist present = STRLIST_INIT(BESIDE_MAX),
				       all = STRLIST_INIT(BESIDE_MAX);
	cleanup_fold_list struct fold_list folded = {0};
	unsigned bits = 0;
	int rc = add_present(k, dir, &present);

	if (rc < 0)
		return rc;
	strlist_sort(&present);
	for (size_t i = 0; i < present.n; i++)
		if (!strlist_add(&all, present.v[i]))
			return land_no_memory(k->e);
	for (size_t i = 0; i < added->n; i++)
		if (!has(&present, added->v[i]) && !strlist_add(&all, added->v[i]))
			return land_no_memory(k->e);
	for (size_t i = 0; i < all.n; i++)
		bits |= git_dir_bit(all.v[i]);
	/* At the top of a repository its own .git comes first. */
	if (git_dir_like(bits) && (*dir || !k->j->v->repo.git_dir))
		return refuse(k, dir, added->v[0], NULL);
	for (size_t i = 0; i < all.n; i++)
		if (!fold_list_add(&folded, all.v[i], NULL))
			return land_no_memory(k->e);
	fold_list_sort(&folded);
	for (size_t i = 0; i + 1 < folded.n; i++) {
		const char *a = folded.v[i].name, *b = folded.v[i + 1].name;

		if (!fold_list_twins(&folded, i))
			continue;
		if (!has(&present, b))
			return refuse(k, dir, b, a);
		if (!has(&present, a))
			return refuse(k, dir, a, b);
	}
	return 0;
}

/* Operations [from, to) are all of those below dir, the first dir_n bytes of their paths. */
static int check_below(const struct beside *k, size_t from, size_t to, size_t dir_n)
{
	const struct land_ops *ops = &k->j->in.ops;
	cleanup_strlist struct strlist added = STRLIST_INIT(BESIDE_MAX);
	cleanup_free char *dir = strndup(ops->v[from].path, dir_n);
	int rc = 0;

	if (!dir)
		return land_no_memory(k->e);
	for (size_t i = from, next; rc == 0 && i < to; i = next) {
		const char *name = ops->v[i].path + dir_n, *slash = strchr(name, '/');
		size_t len = slash ? (size_t)(slash - name) : strlen(name);
		bool comes = false;

		for (next = i; next < to && strncmp(ops->v[next].path + dir_n, name, len) == 0 &&
			       (slash ? ops->v[next].path[dir_n + len] == '/' : next == i);
			next++)
			comes |= ops->v[next].new_mode && !ops->v[next].still;
		if (comes && !strlist_addn(&added, name, len))
			return land_no_memory(k->e);
		if (comes && slash)
			rc = check_below(k, i, next, dir_n + len + 1);
	}
	return rc == 0 && added.n ? check_names(k, dir, &added) : rc;
}

/* ---- filters ---- */

/* "path NUL filter NUL value NUL": which of what lands Git would hold in another form. */
static int tell_filters(struct land_job *j, struct err *e)
{
	cleanup_buf struct buf in = BUF_INIT(LAND_LIST_MAX_B), out = BUF_INIT(LAND_LIST_MAX_B);
	struct git_run run = {
		.argv = (const char *const[]){"check-attr", "-z", "--stdin", "filter", NULL},
		.out = &out};
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < j->in.ops.n; i++)
		if (j->in.ops.v[i].new_mode == 0100644 || j->in.ops.v[i].new_mode == 0100755)
			buf_add(&in, j->in.ops.v[i].path, strlen(j->in.ops.v[i].path) + 1);
	if (!in.len || !j->v->repo.git_dir)
		return 0;
	run.in = in.data;
	run.in_n = in.len;
	rc = repo_git(&j->v->repo, &run, e);
	for (size_t at = 0; rc == 0 && at < out.len;) {
		const char *path = out.data + at, *key = path + strlen(path) + 1;
		const char *value = key + strlen(key) + 1;
		cleanup_buf struct buf b = BUF_INIT(8192);

		at = (size_t)(value - out.data) + strlen(value) + 1;
		if (str_eq(value, "unspecified") || str_eq(value, "unset") || n++ >= FILTERS_TOLD)
			continue;
		buf_addf(&b, "%s needs the filter ", land_show(path).s);
		str_show(&b, value, MIN_OF(strlen(value), (size_t)100));
		buf_adds(&b, ", which croft does not run: it lands with the bytes that it has");
		strlist_add(&j->ret->notes, buf_str(&b));
	}
	if (n > FILTERS_TOLD) {
		char text[96];

		snprintf(text, sizeof(text), "%zu more files need a filter, and land as they are",
			n - FILTERS_TOLD);
		strlist_add(&j->ret->notes, text);
	}
	return rc;
}

int land_check_beside(struct land_job *j, struct err *e)
{
	const struct beside k = {.j = j, .e = e};
	int rc = j->in.ops.n ? check_below(&k, 0, j->in.ops.n, 0) : 0;

	return rc < 0 ? rc : tell_filters(j, e);
}
