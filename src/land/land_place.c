/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files into their places, one rename each, and back.
 *
 * A file that is replaced changes places with the new one (RENAME_EXCHANGE), so it is never missing and
 * its old self waits in the landing directory; one that is deleted moves there; one that is new may not
 * find anything in its place. What comes out is compared with what was planned for: a file that
 * somebody saved in between goes straight back, and the landing is off.
 * Order: deletions (deepest first), then the others; back in the opposite order.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "os/path.h"
#include "os/tree.h"

#define RENAME_NO_REPLACE 1u
#define RENAME_SWAP 2u

static int rename_with(int from, const char *a, int to, const char *b, unsigned flags)
{
	return syscall(SYS_renameat2, from, a, to, b, flags) < 0 ? -errno : 0;
}

/* A new name; what is there already is never replaced. */
static int rename_new(int from, const char *a, int to, const char *b)
{
	int rc = rename_with(from, a, to, b, RENAME_NO_REPLACE);

	if (rc != -EINVAL && rc != -ENOSYS)
		return rc;
	if (linkat(from, a, to, b, 0) < 0)
		return -errno;
	return unlinkat(from, a, 0) < 0 ? -errno : 0;
}

/* Is this the file that was looked at? Its content is judged by size and time of change. */
static bool still_the_same(int dir, const char *name, const struct land_file *f)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == f->ino &&
	       (uint64_t)st.st_size == f->size && st.st_mtim.tv_sec == f->mtime_s &&
	       st.st_mtim.tv_nsec == f->mtime_ns;
}

/* Directories that hold nothing but such. */
static int remove_hollow(int at, const char *name, int depth)
{
	cleanup_dir DIR *d = dir_list(at, name);
	struct dirent *de;

	if (!d)
		return -errno;
	if (depth > TREE_DEPTH_MAX)
		return -ELOOP;
	while ((de = readdir(d))) {
		int rc;

		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		rc = remove_hollow(dirfd(d), de->d_name, depth + 1);
		if (rc < 0)
			return rc == -ENOTDIR || rc == -ELOOP ? -ENOTEMPTY : rc;
	}
	return unlinkat(at, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* ---- forward ---- */

static int swap_in(
	int stage, const char *staged, int dir, const char *name, const struct land_file *before)
{
	char old[80];
	int rc;

	if (!still_the_same(dir, name, before))
		return -EBUSY;
	rc = rename_with(stage, staged, dir, name, RENAME_SWAP);
	if (rc == 0 && !still_the_same(stage, staged, before)) {
		rc = rename_with(stage, staged, dir, name, RENAME_SWAP);
		return rc < 0 ? rc : -EBUSY;
	}
	if (rc != -EINVAL && rc != -ENOSYS)
		return rc;
	/* A file system that cannot exchange: out, then in. */
	snprintf(old, sizeof(old), "%s.old", staged);
	rc = rename_new(dir, name, stage, old);
	if (rc < 0)
		return rc;
	rc = still_the_same(stage, old, before) ? rename_new(stage, staged, dir, name) : -EBUSY;
	if (rc < 0)
		rename_new(stage, old, dir, name);
	return rc;
}

static int move_out(struct land_job *j, const struct land_op *op, int stage, const char *staged)
{
	const char *name;
	int dir = land_parent(j, op->path, &name), rc;

	if (dir < 0)
		return dir;
	if (!still_the_same(dir, name, &op->before))
		return -EBUSY;
	rc = rename_new(dir, name, stage, staged);
	if (rc == 0 && !still_the_same(stage, staged, &op->before)) {
		rc = rename_new(stage, staged, dir, name);
		return rc < 0 ? rc : -EBUSY;
	}
	return rc;
}

static int move_in(struct land_job *j, const struct land_op *op, int stage, const char *staged)
{
	cleanup_fd int dir = -1;
	const char *name;
	int rc = 0;

	dir = land_make_parent(j, op->path, &name);
	if (dir < 0)
		return dir;
	if (op->new_mode == 040000)
		return mkdirat(dir, name, 0777) < 0 && errno != EEXIST ? -errno : 0;
	if (op->before.mode == 040000)
		rc = remove_hollow(dir, name, 0);
	if (rc == -ENOENT)
		rc = 0;
	if (rc < 0)
		return rc;
	if (op->before.mode && op->before.mode != 040000)
		return swap_in(stage, staged, dir, name, &op->before);
	return rename_new(stage, staged, dir, name);
}

static int place_one(struct land_job *j, size_t i, struct err *e)
{
	struct land_op *op = &j->in.ops.v[i];
	cleanup_fd int stage = -1;
	struct land_file f;
	char staged[64];
	int rc;

	if (op->still || op->placed)
		return 0;
	stage = land_staged_at(j, op, i, staged);
	if (stage < 0)
		return err_set(e, -stage, "open where %s is staged", land_show(op->path).s);
	rc = op->new_mode ? move_in(j, op, stage, staged) : move_out(j, op, stage, staged);
	if (rc == -EBUSY || rc == -EEXIST || rc == -ENOTEMPTY) {
		/* A landing that is completed after a crash finds some of its files in place. */
		if (land_look(j, op->path, &f, e) == 0 &&
			land_same_file(&f, op->new_mode, &op->raw))
			return 0;
		err_refuse(e, "%s was changed while it was landing", land_show(op->path).s);
		e->errnum = EEXIST;
		return -EEXIST;
	}
	if (rc == -ENOENT && !op->new_mode)
		return 0;
	if (rc < 0)
		return err_set(e, -rc, "land %s", land_show(op->path).s);
	land_step("land.file");
	return 0;
}

int land_place(struct land_job *j, struct err *e)
{
	size_t done = 0;
	int rc = 0;

	for (size_t i = j->in.ops.n; rc == 0 && i-- > 0;) {
		if (j->in.ops.v[i].new_mode)
			continue;
		land_told(j, (j->in.ops.n + done++) / 2);
		rc = place_one(j, i, e);
	}
	land_forget_parent(j);
	for (size_t i = 0; rc == 0 && i < j->in.ops.n; i++) {
		if (!j->in.ops.v[i].new_mode)
			continue;
		land_told(j, (j->in.ops.n + done++) / 2);
		rc = place_one(j, i, e);
	}
	land_forget_parent(j);
	if (rc == 0 && syncfs(j->top_fd) < 0)
		rc = err_set(e, errno, "write the landed files to disk");
	return rc;
}

/* ---- back ---- */

/* Directories above path that were not there before and are empty now. */
void land_prune_above(struct land_job *j, const char *path, unsigned keep)
{
	char up[CHANGE_PATH_MAX + 1];
	unsigned depth = 0;

	for (const char *s = path; (s = strchr(s, '/')); s++)
		depth++;
	snprintf(up, sizeof(up), "%s", path);
	land_forget_parent(j);
	for (; depth > keep; depth--) {
		const char *name;
		int dir;

		*strrchr(up, '/') = '\0';
		dir = land_parent(j, up, &name);
		if (dir < 0 || unlinkat(dir, name, AT_REMOVEDIR) < 0)
			break;
		land_forget_parent(j);
	}
	land_forget_parent(j);
}

static int swap_back(int stage, const char *staged, int dir, const char *name)
{
	char old[80];
	int rc;

	snprintf(old, sizeof(old), "%s.old", staged);
	if (faccessat(stage, old, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		unlinkat(stage, staged, 0);
		rc = rename_new(dir, name, stage, staged);
		return rc < 0 && rc != -ENOENT ? rc : rename_new(stage, old, dir, name);
	}
	return rename_with(stage, staged, dir, name, RENAME_SWAP);
}

/* 0: it is as it was; 1: somebody else's content is there. */
static int back_one(struct land_job *j, size_t i, struct err *e)
{
	struct land_op *op = &j->in.ops.v[i];
	cleanup_fd int stage = -1, dir = -1;
	struct land_file f;
	const char *name;
	char staged[64];
	int rc;

	rc = op->still ? 0 : land_look(j, op->path, &f, e);
	if (op->still || rc < 0 || land_same_file(&f, op->before.mode, &op->before.raw))
		return rc;
	if (!land_same_file(&f, op->new_mode, &op->raw) && f.mode)
		return f.mode == 040000 && !op->before.mode ? 0 : 1;
	stage = land_staged_at(j, op, i, staged);
	dir = stage < 0 ? stage : land_make_parent(j, op->path, &name);
	if (dir < 0)
		return err_set(e, -dir, "take %s back", land_show(op->path).s);
	if (op->new_mode == 040000)
		rc = unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
	else if (!op->new_mode)
		rc = rename_new(stage, staged, dir, name);
	else if (!op->before.mode || op->before.mode == 040000)
		rc = f.mode ? rename_new(dir, name, stage, staged) : 0;
	else
		rc = swap_back(stage, staged, dir, name);
	if (rc == 0 && op->before.mode == 040000 && op->new_mode)
		rc = mkdirat(dir, name, 0777) < 0 && errno != EEXIST ? -errno : 0;
	if (!op->before.mode)
		land_prune_above(j, op->path, op->exists);
	return rc < 0 ? err_set(e, -rc, "take %s back", land_show(op->path).s) : 0;
}

static int back_noted(struct land_job *j, size_t i, size_t *lost, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(8192);
	struct land_op *op = &j->in.ops.v[i];
	int rc = back_one(j, i, e);

	if (rc <= 0)
		return rc;
	buf_addf(&b, "%s was changed by somebody else meanwhile and is left as it is",
		land_show(op->path).s);
	if (op->before.mode && op->before.mode != 040000)
		buf_addf(&b,
			"; what was there before the landing is kept as n%zu in the directory "
			"named below",
			i);
	strlist_add(&j->v->notes, buf_str(&b));
	(*lost)++;
	return 0;
}

/* The landing directory holds files that nobody else has: it gets a name that is never swept. */
static void keep_stage(struct land_job *j)
{
	cleanup_buf struct buf to = BUF_INIT(8192);

	cleanup_buf struct buf said = BUF_INIT(8192);
	cleanup_fd int dir =
		openat(j->v->dir_fd, LAND_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	buf_addf(&to, "%s-kept-%lld", j->in.stage, (long long)j->in.time.tv_sec);
	if (!to.failed && rename(j->in.stage, to.data) == 0) {
		free(j->in.stage);
		j->in.stage = buf_take(&to);
	}
	if (dir >= 0)
		unlinkat(dir, LAND_BESIDE, 0);
	buf_addf(&said, "files of before the landing are kept in %s", j->in.stage);
	strlist_add(&j->v->notes, buf_str(&said));
}

int land_take_back(struct land_job *j, struct err *e)
{
	struct err one = ERR_INIT;
	size_t lost = 0;
	int rc = 0;

	for (size_t i = j->in.ops.n; i-- > 0;)
		if (j->in.ops.v[i].new_mode && back_noted(j, i, &lost, &one) < 0)
			rc = -one.errnum;
	land_forget_parent(j);
	for (size_t i = 0; i < j->in.ops.n; i++)
		if (!j->in.ops.v[i].new_mode && back_noted(j, i, &lost, &one) < 0)
			rc = -one.errnum;
	land_forget_parent(j);
	if (rc < 0) {
		*e = one;
		return rc;
	}
	if (lost)
		keep_stage(j);
	return lost ? 1 : 0;
}

void land_prune(struct land_job *j)
{
	for (size_t i = j->in.ops.n; i-- > 0;)
		if (!j->in.ops.v[i].new_mode && !j->in.ops.v[i].still)
			land_prune_above(j, j->in.ops.v[i].path, 0);
}
