/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From changes to operations on this checkout: every path is looked at, merged if need be, and checked
 * for being writable; conflicts are collected. Nothing is written but objects in the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "os/path.h"
#include "os/tree.h"

/* ---- operations ---- */

void land_ops_done(struct land_ops *o)
{
	for (size_t i = 0; i < o->n; i++) {
		free(o->v[i].path);
		free(o->v[i].beside);
	}
	free(o->v);
	*o = (struct land_ops){0};
}

struct land_op *land_ops_add(struct land_ops *o, const char *path)
{
	struct land_op *op;

	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 64;
		struct land_op *v;

		if (cap > 2 * (size_t)CHANGES_MAX)
			return NULL;
		v = reallocarray(o->v, cap, sizeof(*v));
		if (!v)
			return NULL;
		o->v = v;
		o->cap = cap;
	}
	op = &o->v[o->n];
	*op = (struct land_op){.path = strdup(path)};
	if (!op->path)
		return NULL;
	o->n++;
	return op;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct land_op *)a)->path, ((const struct land_op *)b)->path);
}

void land_ops_sort(struct land_ops *o)
{
	if (o->n)
		qsort(o->v, o->n, sizeof(*o->v), by_path);
}

struct land_op *land_ops_find(const struct land_ops *o, const char *path)
{
	const struct land_op key = {.path = (char *)(uintptr_t)path};

	return o->n ? bsearch(&key, o->v, o->n, sizeof(*o->v), by_path) : NULL;
}

/* ---- one path ---- */

/* What the checkout has, as Git would hold it. */
static int ours_of(struct land_job *j, const struct change *c, const struct land_file *f,
	struct land_side *ret, bool *crlf, struct err *e)
{
	struct oid lf;
	int rc;

	*ret = (struct land_side){f->mode, f->raw};
	*crlf = false;
	if ((f->mode != 0100644 && f->mode != 0100755) || oid_eq(&f->raw, &c->old) ||
		oid_eq(&f->raw, &c->new) || f->size > LAND_TEXT_MAX_B ||
		!land_base_crlf(j, c->path))
		return 0;
	rc = land_name_as_lf(j, c->path, false, &lf, e);
	if (rc < 0)
		return rc;
	*crlf = !oid_eq(&lf, &f->raw);
	ret->oid = lf;
	return 0;
}

/* The user's own version goes into the store: it is merged now, and may be wanted back by a revert. */
static int keep_ours(
	struct land_job *j, const char *path, bool crlf, struct oid *ret, struct err *e)
{
	struct git_store s = {.objects_fd = -1};
	cleanup_fd int fd = -1;
	int rc;

	if (crlf)
		return land_name_as_lf(j, path, true, ret, e);
	fd = path_open(j->top_fd, path, O_RDONLY | O_NONBLOCK, PATH_NO_SYMLINKS | PATH_BENEATH);
	if (fd < 0)
		return err_set(e, -fd, "read %s", land_show(path).s);
	rc = repo_store(&j->v->repo, &s, e);
	if (rc == 0)
		rc = git_write_file(&s, fd, ret, e);
	git_store_close(&s);
	return rc;
}

static const char *conflict_why(const struct land_side *base, const struct land_side *ours,
	const struct land_side *theirs, bool strict)
{
	if (ours->mode == 1)
		return "is neither a file nor a symlink here";
	if (strict)
		return "has changes here that are not committed";
	if (!base->mode)
		return "is new in the environment, but is here already with another content";
	if (!ours->mode)
		return "was changed by the environment, but is gone here";
	if (!theirs->mode)
		return "was deleted by the environment, but was changed here";
	return "changed on both sides, and is not text that can be merged";
}

/* Contents alone decide under strict: an execute bit that Git does not track is nobody's change. */
static bool strict_same(const struct land_side *a, const struct land_side *b)
{
	if (!a->mode || !b->mode)
		return a->mode == b->mode;
	return (a->mode & 0170000) == (b->mode & 0170000) && oid_eq(&a->oid, &b->oid);
}

static int decide(struct land_job *j, const struct change *c, struct land_side *ours, bool crlf,
	bool strict, struct land_side *got, bool *merged, struct err *e)
{
	const struct land_side base = {c->old_mode, c->old}, theirs = {c->new_mode, c->new};
	const char *why = NULL;
	enum land_verdict v;
	int rc;

	if (strict && !strict_same(ours, &base) && !strict_same(ours, &theirs)) {
		land_conflict(j, c->path, conflict_why(&base, ours, &theirs, true));
		return 1;
	}
	v = land_decide(&base, ours, &theirs, got);
	if (v == LAND_TAKE)
		return 0;
	if (v == LAND_CONFLICT) {
		land_conflict(j, c->path, conflict_why(&base, ours, &theirs, false));
		return 1;
	}
	rc = keep_ours(j, c->path, crlf, &ours->oid, e);
	if (rc == 0)
		rc = land_merge_text(j, &base.oid, &ours->oid, &theirs.oid, &got->oid, &why, e);
	if (rc == 1)
		land_conflict(j, c->path, why);
	*merged = rc == 0;
	return rc;
}

static int add_op(struct land_job *j, const struct change *c, const struct land_file *f,
	const struct land_side *ours, const struct land_side *got, struct err *e)
{
	struct land_op *op = land_ops_add(&j->in.ops, c->path);

	if (!op)
		return land_no_memory(e);
	op->before = *f;
	op->old_mode = ours->mode;
	op->old = ours->oid;
	op->new_mode = got->mode;
	op->new = got->oid;
	return 0;
}

/* A directory that holds nothing: it is there afterwards, or something else is in its place. */
static int plan_directory(
	struct land_job *j, const struct change *c, const struct land_file *f, struct err *e)
{
	const struct land_side none = {0}, dir = {.mode = 040000};

	if (f->mode == 040000)
		return 0;
	if (f->mode) {
		land_conflict(j, c->path, "a directory is needed where something else is");
		return 0;
	}
	return add_op(j, c, f, &none, &dir, e);
}

static int plan_one(struct land_job *j, const struct change *c, bool strict, struct err *e)
{
	struct land_side ours, got = {0};
	struct land_file f;
	bool crlf, merged = false;
	struct land_op *op;
	int rc = land_look(j, c->path, &f, e);

	if (rc < 0)
		return rc;
	if (c->new_mode == 040000)
		return plan_directory(j, c, &f, e);
	rc = ours_of(j, c, &f, &ours, &crlf, e);
	if (rc < 0)
		return rc;
	if (f.mode == 040000) /* for Git, a directory is nothing; whether it can go is seen later */
		ours = (struct land_side){0};
	rc = decide(j, c, &ours, crlf, strict, &got, &merged, e);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (!strict && got.mode == ours.mode && (!got.mode || oid_eq(&got.oid, &ours.oid)))
		return 0;
	rc = add_op(j, c, &f, &ours, &got, e);
	if (rc < 0)
		return rc;
	op = &j->in.ops.v[j->in.ops.n - 1];
	op->crlf = crlf;
	op->merged = merged;
	if (strict) { /* the index goes from and to what the commits say */
		op->old_mode = c->old_mode;
		op->old = c->old;
		op->still = got.mode == ours.mode && (!got.mode || oid_eq(&got.oid, &ours.oid));
	}
	if (f.mode == 040000 && !op->new_mode)
		op->still = true;
	if (merged && !strlist_add(&j->ret->merged, c->path))
		return land_no_memory(e);
	return 0;
}

/* ---- all of them together ---- */

struct below {
	struct land_job *j;
	const char *top;
	bool bad;
};

static bool must_go(void *arg, const char *path, const struct stat *st)
{
	struct below *b = arg;
	char full[CHANGE_PATH_MAX + 1];
	const struct land_op *op;

	if (snprintf(full, sizeof(full), "%s/%s", b->top, path) >= (int)sizeof(full))
		return false;
	op = land_ops_find(&b->j->in.ops, full);
	if (!op || op->new_mode) {
		b->bad = true;
		return false;
	}
	return true;
}

/* A file is to stand where a directory is: all that is in it has to be on its way out. */
static int check_directory(struct land_job *j, const struct land_op *op, struct err *e)
{
	struct below b = {.j = j, .top = op->path};
	cleanup_fd int fd = path_open(
		j->top_fd, op->path, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);

	if (fd < 0)
		return err_set(e, -fd, "open %s", land_show(op->path).s);
	if (!tree_walk(fd, CHANGES_MAX, must_go, &b) || b.bad)
		land_conflict(j, op->path, "a directory with other files is in its place here");
	return 0;
}

/* Something that is no directory stands above a path: it has to be on its way out as well. */
static bool above_goes(struct land_job *j, const char *path)
{
	char up[CHANGE_PATH_MAX + 1];

	for (const char *s = path; (s = strchr(s, '/')); s++) {
		const struct land_op *op;

		snprintf(up, sizeof(up), "%.*s", (int)(s - path), path);
		op = land_ops_find(&j->in.ops, up);
		if (op && !op->new_mode && op->before.mode)
			return true;
	}
	return false;
}

/* How many directories above it exist, and can names be made and removed in the last? */
static int check_above(struct land_job *j, struct land_op *op, struct err *e)
{
	const char *s, *name;
	char up[CHANGE_PATH_MAX + 1] = ".";
	int dir = land_parent(j, op->path, &name);

	op->exists = 0;
	if (dir >= 0) {
		for (s = op->path; (s = strchr(s, '/')); s++)
			op->exists++;
		if (faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) < 0)
			return err_set(
				e, errno, "write in the directory of %s", land_show(op->path).s);
		return 0;
	}
	if (dir == -ENOTDIR && !above_goes(j, op->path)) {
		land_conflict(j, op->path, "something that is no directory is above it here");
		return 0;
	}
	for (s = op->path; (s = strchr(s, '/')); s++) {
		cleanup_fd int fd = -1;

		snprintf(up, sizeof(up), "%.*s", (int)(s - op->path), op->path);
		fd = path_open(
			j->top_fd, up, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
		if (fd < 0)
			break;
		op->exists++;
		if (faccessat(fd, ".", X_OK, AT_EACCESS) < 0)
			return err_set(e, errno, "write below %s", land_show(up).s);
	}
	return 0;
}

int land_plan(struct land_job *j, const struct changes *c, bool strict, struct err *e)
{
	int rc = land_open_top(j, e);

	for (size_t i = 0; rc == 0 && i < c->n; i++)
		rc = plan_one(j, &c->v[i], strict, e);
	land_ops_sort(&j->in.ops);
	for (size_t i = 0; rc == 0 && i < j->in.ops.n; i++) {
		struct land_op *op = &j->in.ops.v[i];

		if (op->still)
			continue;
		if (op->before.mode == 040000 && op->new_mode && op->new_mode != 040000)
			rc = check_directory(j, op, e);
		if (rc == 0)
			rc = check_above(j, op, e);
	}
	return rc < 0 ? rc : land_conflicts(j, e);
}
