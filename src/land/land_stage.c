/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New contents, whole and on the right file system, before anything of the checkout is touched.
 *
 * They wait in the Git directory (croft-landing-ID), or at the top of the workspace when there is none or
 * it is elsewhere; a path on yet another file system has its file waiting in the nearest directory that
 * exists. A full disk, a read-only mount or a damaged object is met here, where it costs nothing.
 * Trust: bytes come from the store by name, and are hashed again on their way into the file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "land/land_impl.h"
#include "os/path.h"
#include "os/tree.h"

static char *stage_path(const struct land_job *j, bool in_git)
{
	char *r = NULL;
	int n;

	if (in_git)
		n = asprintf(&r, "%s/croft-landing-%s", j->v->repo.git_dir, j->v->id);
	else
		n = asprintf(&r, "%s/.croft-landing-%s", j->v->workspace, j->v->id);
	return n < 0 ? NULL : r;
}

static bool same_device(int top, const char *dir)
{
	struct stat a, b;

	return fstat(top, &a) == 0 && stat(dir, &b) == 0 && a.st_dev == b.st_dev;
}

int land_open_stage(struct land_job *j, bool make, struct err *e)
{
	if (j->stage_fd >= 0)
		return 0;
	if (!j->in.stage) {
		bool in_git = j->v->repo.git_dir && same_device(j->top_fd, j->v->repo.git_dir);

		j->in.stage = stage_path(j, in_git);
		if (!j->in.stage)
			return land_no_memory(e);
	}
	if (make && mkdir(j->in.stage, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "make the landing directory %s", j->in.stage);
	j->stage_fd = open(j->in.stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (j->stage_fd < 0)
		return err_set(e, errno, "open the landing directory %s", j->in.stage);
	return 0;
}

int land_staged_at(struct land_job *j, const struct land_op *op, size_t i, char ret_name[64])
{
	int fd;

	if (!op->beside) {
		snprintf(ret_name, 64, "n%zu", i);
		fd = fcntl(j->stage_fd, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	snprintf(ret_name, 64, ".croft-landing-%.16s-%zu", j->v->id, i);
	return path_open(
		j->top_fd, op->beside, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
}

/* ---- which file system ---- */

/* The nearest directory above path that exists, relative to the workspace. */
static char *nearest(const struct land_op *op)
{
	const char *s = op->path;

	for (unsigned i = 0; i < op->exists; i++)
		s = strchr(s, '/') + 1;
	return s == op->path ? strdup(".") : strndup(op->path, (size_t)(s - op->path - 1));
}

static int choose_place(struct land_job *j, struct land_op *op, dev_t stage, struct err *e)
{
	cleanup_free char *dir = nearest(op);
	cleanup_fd int fd = -1;
	struct stat st;

	if (!dir)
		return land_no_memory(e);
	if (j->parent && str_eq(j->parent, dir)) {
		if (fstat(j->parent_fd, &st) < 0)
			return err_set(e, errno, "look at %s", land_show(dir).s);
	} else {
		fd = path_open(
			j->top_fd, dir, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
		if (fd < 0 || fstat(fd, &st) < 0)
			return err_set(e, fd < 0 ? -fd : errno, "look at %s", land_show(dir).s);
		land_forget_parent(j);
		j->parent = strdup(dir);
		j->parent_fd = j->parent ? take_fd(&fd) : -1;
	}
	if (st.st_dev != stage)
		op->beside = take_ptr(dir);
	return 0;
}

/* Where files wait beside their places is written down first, so that a crash leaves none forever. */
static int note_beside(struct land_job *j, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(LAND_LIST_MAX_B);
	cleanup_fd int dir = -1;
	const char *last = "";
	int rc;

	for (size_t i = 0; i < j->in.ops.n; i++) {
		const char *d = j->in.ops.v[i].beside;

		if (d && !str_eq(d, last))
			buf_add(&b, d, strlen(d) + 1);
		last = d ? d : last;
	}
	if (b.len == 0)
		return 0;
	if (mkdirat(j->v->dir_fd, LAND_DIR, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "make the directory of landings");
	dir = openat(j->v->dir_fd, LAND_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	rc = dir < 0 ? -errno : file_replace_at(dir, LAND_BESIDE, b.data, b.len, 0600);
	return rc < 0 ? err_set(e, -rc, "note where files are staged") : 0;
}

/* ---- contents ---- */

static int put_crlf(struct land_job *j, const struct land_op *op, int fd, struct err *e)
{
	cleanup_buf struct buf in = BUF_INIT(LAND_TEXT_MAX_B), out = BUF_INIT(2 * LAND_TEXT_MAX_B);
	struct oid check;
	int rc = git_read_oid(j->reader, &op->new, GIT_BLOB, &in, e);

	if (rc < 0)
		return rc;
	oid_of(&check, j->v->repo.hash, GIT_BLOB, buf_str(&in), in.len);
	if (!oid_eq(&check, &op->new))
		return err_set(e, EBADMSG, "object %s is damaged", oid_hex(&op->new).s);
	for (size_t i = 0; i < in.len; i++) {
		if (in.data[i] == '\n' && (i == 0 || in.data[i - 1] != '\r'))
			buf_addc(&out, '\r');
		buf_addc(&out, in.data[i]);
	}
	if (out.failed)
		return land_no_memory(e);
	rc = fd_write_all(fd, buf_str(&out), out.len);
	return rc < 0 ? err_set(e, -rc, "stage %s", land_show(op->path).s) : 0;
}

static int stage_file(
	struct land_job *j, struct land_op *op, int dir, const char *name, struct err *e)
{
	struct git_store s = {.objects_fd = -1, .hash = j->v->repo.hash};
	cleanup_fd int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		op->new_mode == 0100755 ? 0755 : 0644);
	int rc;

	if (fd < 0)
		return err_set(e, errno, "stage %s", land_show(op->path).s);
	rc = op->crlf ? put_crlf(j, op, fd, e) : git_read_to_fd(j->reader, &op->new, fd, e);
	if (rc < 0)
		return err_wrap(e, "stage %s", land_show(op->path).s);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "stage %s", land_show(op->path).s);
	rc = git_write_file(&s, fd, &op->raw, e);
	if (rc == 0 && !op->crlf && !oid_eq(&op->raw, &op->new))
		rc = err_set(e, EBADMSG, "object %s for %s is damaged", oid_hex(&op->new).s,
			land_show(op->path).s);
	return rc;
}

static int stage_link(
	struct land_job *j, struct land_op *op, int dir, const char *name, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(PATH_MAX);
	int rc = git_read_oid(j->reader, &op->new, GIT_BLOB, &b, e);

	if (rc < 0)
		return err_wrap(e, "stage the symlink %s", land_show(op->path).s);
	if (b.len == 0 || memchr(b.data, '\0', b.len))
		return err_refuse(e, "%s is no symlink that could be made", land_show(op->path).s);
	if (symlinkat(buf_str(&b), dir, name) < 0)
		return err_set(e, errno, "stage the symlink %s", land_show(op->path).s);
	oid_of(&op->raw, j->v->repo.hash, GIT_BLOB, b.data, b.len);
	if (!oid_eq(&op->raw, &op->new))
		return err_set(e, EBADMSG, "object %s is damaged", oid_hex(&op->new).s);
	return 0;
}

int land_stage_one(struct land_job *j, struct land_op *op, size_t i, struct err *e)
{
	cleanup_fd int dir = -1;
	char name[64];

	if (op->still || !op->new_mode || op->new_mode == 040000)
		return 0;
	dir = land_staged_at(j, op, i, name);
	if (dir < 0)
		return err_set(e, -dir, "stage %s", land_show(op->path).s);
	unlinkat(dir, name, 0);
	if (op->new_mode == 0120000)
		return stage_link(j, op, dir, name, e);
	if (op->new_mode != 0100644 && op->new_mode != 0100755)
		return err_refuse(e, "%s is of a kind that does not land", land_show(op->path).s);
	return stage_file(j, op, dir, name, e);
}

static bool any_file(const struct land_job *j)
{
	for (size_t i = 0; i < j->in.ops.n; i++)
		if (!j->in.ops.v[i].still)
			return true;
	return false;
}

int land_stage(struct land_job *j, struct err *e)
{
	struct stat st;
	int rc;

	if (!any_file(j))
		return 0;
	if ((rc = land_reader(j, e)) < 0 || (rc = land_open_stage(j, true, e)) < 0)
		return rc;
	if (fstat(j->stage_fd, &st) < 0)
		return err_set(e, errno, "look at the landing directory");
	for (size_t i = 0; rc == 0 && i < j->in.ops.n; i++)
		if (!j->in.ops.v[i].still)
			rc = choose_place(j, &j->in.ops.v[i], st.st_dev, e);
	if (rc == 0)
		rc = note_beside(j, e);
	for (size_t i = 0; rc == 0 && i < j->in.ops.n; i++) {
		land_told(j, i / 2); /* a file that is ready is half done */
		rc = interrupt_check(e);
		if (rc == 0)
			rc = land_stage_one(j, &j->in.ops.v[i], i, e);
	}
	/* One flush of the file system costs less than one per file. */
	if (rc == 0 && syncfs(j->stage_fd) < 0)
		rc = err_set(e, errno, "write staged files to disk");
	return rc;
}

/* ---- leaving nothing behind ---- */

static void remove_beside(struct land_job *j, const char *where)
{
	char prefix[64];
	cleanup_fd int fd = path_open(
		j->top_fd, where, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
	cleanup_dir DIR *d = fd >= 0 ? dir_list(fd, ".") : NULL;
	struct dirent *de;

	snprintf(prefix, sizeof(prefix), ".croft-landing-%.16s-", j->v->id);
	while (d && (de = readdir(d)))
		if (str_starts(de->d_name, prefix))
			unlinkat(dirfd(d), de->d_name, 0);
}

static void remove_all_beside(struct land_job *j)
{
	cleanup_buf struct buf b = BUF_INIT(LAND_LIST_MAX_B);
	cleanup_fd int dir =
		openat(j->v->dir_fd, LAND_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0 || file_read_at(dir, LAND_BESIDE, &b) < 0)
		return;
	for (size_t at = 0; at < b.len; at += strlen(b.data + at) + 1)
		remove_beside(j, b.data + at);
	unlinkat(dir, LAND_BESIDE, 0);
}

void land_unstage(struct land_job *j)
{
	if (j->in.stage)
		tree_remove_at(AT_FDCWD, j->in.stage);
	close_fd(&j->stage_fd);
	remove_all_beside(j);
}

void land_sweep(struct land_job *j)
{
	for (int in_git = 0; in_git < 2; in_git++) {
		cleanup_free char *p = NULL;

		if (in_git && !j->v->repo.git_dir)
			continue;
		p = stage_path(j, in_git);
		if (p)
			tree_remove_at(AT_FDCWD, p);
	}
	remove_all_beside(j);
	land_break_index_lock(j);
}
