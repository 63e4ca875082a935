/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three-way: what was there at the start, what is there now, what was accepted.
 *
 * A side that did not change yields; text that both changed is merged by `git merge-file`, clean, on
 * files of our own in the store; whatever is left is a conflict, and a landing with one conflict
 * changes nothing at all.
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
#include "git/program.h"
#include "os/tree.h"

static bool side_eq(const struct land_side *a, const struct land_side *b)
{
	return a->mode == b->mode && (!a->mode || oid_eq(&a->oid, &b->oid));
}

static bool is_file(unsigned mode)
{
	return mode == 0100644 || mode == 0100755;
}

enum land_verdict land_decide(const struct land_side *base, const struct land_side *ours,
	const struct land_side *theirs, struct land_side *ret)
{
	if (side_eq(ours, theirs) || side_eq(theirs, base)) {
		*ret = *ours;
		return LAND_TAKE;
	}
	if (side_eq(ours, base)) {
		*ret = *theirs;
		return LAND_TAKE;
	}
	if (!is_file(ours->mode) || !is_file(theirs->mode) || !is_file(base->mode))
		return LAND_CONFLICT;
	/* Two modes exist, so whoever changed it made it what the other would have, too. */
	ret->mode = ours->mode == base->mode ? theirs->mode : ours->mode;
	if (oid_eq(&ours->oid, &theirs->oid) || oid_eq(&theirs->oid, &base->oid))
		ret->oid = ours->oid;
	else if (oid_eq(&ours->oid, &base->oid))
		ret->oid = theirs->oid;
	else
		return LAND_MERGE;
	return LAND_TAKE;
}

int land_reader(struct land_job *j, struct err *e)
{
	return j->reader ? 0 : git_reader_open(&j->reader, j->v->repo.store, e);
}

/* ---- text ---- */

struct merge_dir {
	char path[4200];
	int fd;
};

static void merge_dir_done(struct merge_dir *d)
{
	close_fd(&d->fd);
	if (d->path[0])
		tree_remove_at(AT_FDCWD, d->path);
}

/* A blob as a file; 1: too large to be merged as text. */
static int put_blob(
	struct land_job *j, int dir, const char *name, const struct oid *o, struct err *e)
{
	cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat st;
	int rc;

	if (fd < 0)
		return err_set(e, errno, "make a file to merge");
	rc = git_read_to_fd(j->reader, o, fd, e);
	if (rc < 0)
		return rc;
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "merge");
	return st.st_size > (off_t)LAND_TEXT_MAX_B ? 1 : 0;
}

static int run_merge(
	struct land_job *j, struct merge_dir *d, struct oid *ret, const char **why, struct err *e)
{
	cleanup_fd int out = openat(d->fd, "merged", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	const char *argv[] = {"merge-file", "-p", "-q", "--diff3", "ours", "base", "theirs", NULL};
	struct git_run run = {.argv = argv,
		.git_dir = j->v->repo.store,
		.dir = d->path,
		.out_fd = out,
		.any_status = true};
	struct git_store s = {.objects_fd = -1};
	int rc;

	if (out < 0)
		return err_set(e, errno, "make a file to merge");
	rc = git_run(&run, e);
	if (rc < 0)
		return rc;
	if (run.status >= 128) {
		*why = "changed on both sides, and is not text that can be merged";
		return 1;
	}
	if (run.status > 0) {
		*why = "the same lines were changed on both sides";
		return 1;
	}
	rc = repo_store(&j->v->repo, &s, e);
	if (rc == 0)
		rc = git_write_file(&s, out, ret, e);
	git_store_close(&s);
	return rc;
}

int land_merge_text(struct land_job *j, const struct oid *base, const struct oid *ours,
	const struct oid *theirs, struct oid *ret, const char **why, struct err *e)
{
	__attribute__((cleanup(merge_dir_done))) struct merge_dir d = {.fd = -1};
	int rc;

	if ((rc = land_reader(j, e)) < 0)
		return rc;
	if (snprintf(d.path, sizeof(d.path), "%s/croft-merge-XXXXXX", j->v->repo.store) >=
		(int)sizeof(d.path))
		return err_set(e, ENAMETOOLONG, "merge");
	if (!mkdtemp(d.path)) {
		rc = err_set(e, errno, "make a directory to merge in");
		d.path[0] = '\0';
		return rc;
	}
	d.fd = open(d.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (d.fd < 0)
		return err_set(e, errno, "open the directory to merge in");
	if ((rc = put_blob(j, d.fd, "base", base, e)) ||
		(rc = put_blob(j, d.fd, "ours", ours, e)) ||
		(rc = put_blob(j, d.fd, "theirs", theirs, e))) {
		if (rc == 1)
			*why = "changed on both sides, and is too large to be merged";
		return rc;
	}
	return run_merge(j, &d, ret, why, e);
}

/* ---- conflicts ---- */

void land_conflict(struct land_job *j, const char *path, const char *why)
{
	cleanup_buf struct buf b = BUF_INIT(2048);

	buf_addf(&b, "%s: %s", land_show(path).s, why);
	if (!strlist_add(&j->conflicts, buf_str(&b)) && j->conflicts.n == 0) {
		/* Out of memory must not look like no conflict. */
		j->conflicts.max = 0;
	}
}

int land_conflicts(struct land_job *j, struct err *e)
{
	struct strlist *notes = &j->ret->notes;
	const char *name = j->v->name;
	char text[512];

	if (j->conflicts.max == 0)
		return land_no_memory(e);
	if (j->conflicts.n == 0)
		return 0;
	for (size_t i = 0; i < j->conflicts.n && i < 50; i++) {
		cleanup_buf struct buf b = BUF_INIT(2048);

		buf_addf(&b, "conflict: %s", j->conflicts.v[i]);
		strlist_add(notes, buf_str(&b));
	}
	if (j->conflicts.n > 50) {
		snprintf(text, sizeof(text), "and %zu more conflicts", j->conflicts.n - 50);
		strlist_add(notes, text);
	}
	strlist_add(notes, "nothing was changed; to land this work, one of:");
	snprintf(text, sizeof(text),
		"  leave your own changes out of the way (git stash, or git commit), then: croft "
		"apply %s",
		name);
	strlist_add(notes, text);
	snprintf(text, sizeof(text),
		"  put it on a branch of its own and merge with Git: croft apply %s --branch "
		"croft/%s",
		name, name);
	strlist_add(notes, text);
	snprintf(text, sizeof(text),
		"  resolve it inside: croft shell %s, make these files what they should be here, "
		"then apply again",
		name);
	strlist_add(notes, text);
	snprintf(text, sizeof(text),
		"  or start over from where you are: croft new %.40s-2 --from HEAD, and bring it "
		"there: croft apply %s --patch",
		name, name);
	strlist_add(notes, text);
	err_refuse(e, "%s%s; nothing was changed", j->conflicts.v[0],
		j->conflicts.n > 1 ? " (and others)" : "");
	e->errnum = EEXIST;
	return err_why(e, ERR_WHY_CONFLICT, -EEXIST);
}

/* ---- trees ---- */

/* Is there, in the target, a file where we need a directory, or the other way round? */
static bool in_the_way(const struct changes *target, const struct changes *ours, const char *path)
{
	char up[CHANGE_PATH_MAX + 1];
	size_t n = strlen(path), lo = 0, hi = target->n;

	for (size_t i = 1; i < n; i++) {
		const struct change *t, *o;

		if (path[i] != '/')
			continue;
		memcpy(up, path, i);
		up[i] = '\0';
		t = changes_find(target, up);
		o = changes_find(ours, up);
		if (t && t->new_mode && !(o && !o->new_mode))
			return true;
	}
	while (lo < hi) { /* the first that is not below */
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(target->v[mid].path, path) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < target->n && strncmp(target->v[lo].path, path, n) == 0; lo++) {
		const struct change *t = &target->v[lo], *o;

		if (t->path[n] != '/' || !t->new_mode)
			continue;
		o = changes_find(ours, t->path);
		if (!(o && !o->new_mode))
			return true;
	}
	return false;
}

static const char *why_not(
	const struct land_side *base, const struct land_side *ours, const struct land_side *theirs)
{
	if (!base->mode)
		return "is new on both sides, with different contents";
	if (!ours->mode)
		return "was changed by the environment, but is gone here";
	if (!theirs->mode)
		return "was deleted by the environment, but was changed here";
	return "changed on both sides, and is not text that can be merged";
}

static int merge_one(struct land_job *j, const struct change *c, const struct land_side *ours,
	struct changes *edits, struct err *e)
{
	const struct land_side base = {c->old_mode, c->old}, theirs = {c->new_mode, c->new};
	const char *why = NULL;
	struct land_side got = {0};
	struct change *x;
	int rc;

	switch (land_decide(&base, ours, &theirs, &got)) {
	case LAND_CONFLICT:
		land_conflict(j, c->path, why_not(&base, ours, &theirs));
		return 0;
	case LAND_MERGE:
		rc = land_merge_text(j, &base.oid, &ours->oid, &theirs.oid, &got.oid, &why, e);
		if (rc < 0)
			return rc;
		if (rc > 0) {
			land_conflict(j, c->path, why);
			return 0;
		}
		if (!strlist_has(&j->ret->merged, c->path) &&
			!strlist_add(&j->ret->merged, c->path))
			return land_no_memory(e);
		break;
	case LAND_TAKE:
	default:
		break;
	}
	if (side_eq(&got, ours))
		return 0;
	x = changes_add(edits, c->path);
	if (!x)
		return land_no_memory(e);
	x->old_mode = ours->mode;
	x->old = ours->oid;
	x->new_mode = got.mode;
	x->new = got.oid;
	return 0;
}

int land_merge_tree(struct land_job *j, const struct changes *c, const struct oid *start,
	const struct oid *landed, const struct oid *target, struct oid *ret, struct err *e)
{
	cleanup_changes struct changes moved = {0}, edits = {0};
	int rc;

	if (oid_eq(start, target)) {
		*ret = *landed;
		return 0;
	}
	rc = land_diff(&j->v->repo, start, target, &moved, e);
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		const struct change *x = &c->v[i], *t = changes_find(&moved, x->path);
		struct land_side ours = {t ? t->new_mode : x->old_mode, t ? t->new : x->old};

		if (x->new_mode == 040000)
			continue;
		if (x->new_mode && in_the_way(&moved, c, x->path))
			land_conflict(j, x->path,
				"a file is here where a directory is needed, or the reverse");
		else
			rc = merge_one(j, x, &ours, &edits, e);
	}
	if (rc == 0)
		rc = land_conflicts(j, e);
	return rc < 0 ? rc : land_tree_with(&j->v->repo, target, &edits, ret, e);
}
