/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's checkout, seen by descriptor: no symlink on the way is followed, nothing is opened that could
 * block, and what is not a file, a symlink or a directory is only ever called by that name.
 */
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

#define WALK (PATH_NO_SYMLINKS | PATH_BENEATH)

int land_open_top(struct land_job *j, struct err *e)
{
	if (j->top_fd >= 0)
		return 0;
	j->top_fd = open(j->v->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->top_fd < 0)
		return err_set(e, errno, "open the workspace %s", j->v->workspace);
	return 0;
}

void land_forget_parent(struct land_job *j)
{
	free(take_ptr(j->parent));
	close_fd(&j->parent_fd);
}

int land_parent(struct land_job *j, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	char *dir;
	int fd;

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return j->top_fd;
	if (j->parent && strlen(j->parent) == n && memcmp(j->parent, path, n) == 0)
		return j->parent_fd;
	dir = strndup(path, n);
	if (!dir)
		return -ENOMEM;
	fd = path_open(j->top_fd, dir, O_PATH | O_DIRECTORY, WALK);
	if (fd < 0) {
		free(dir);
		return fd == -ELOOP ? -ENOTDIR : fd;
	}
	land_forget_parent(j);
	j->parent = dir;
	j->parent_fd = fd;
	return fd;
}

int land_make_parent(struct land_job *j, const char *path, const char **ret_name)
{
	cleanup_fd int cur = openat(j->top_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];
	const char *slash;

	if (cur < 0)
		return -errno;
	for (; (slash = strchr(path, '/')); path = slash + 1) {
		int next;

		if ((size_t)(slash - path) > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, (size_t)(slash - path));
		name[slash - path] = '\0';
		if (mkdirat(cur, name, 0777) < 0 && errno != EEXIST)
			return -errno;
		next = openat(cur, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(cur);
		cur = next;
	}
	*ret_name = path;
	return take_fd(&cur);
}

static void note_stat(struct land_file *f, const struct stat *st)
{
	f->ino = st->st_ino;
	f->size = (uint64_t)st->st_size;
	f->mtime_s = st->st_mtim.tv_sec;
	f->mtime_ns = st->st_mtim.tv_nsec;
}

static int look_file(struct land_job *j, int dir, const char *name, const char *path,
	struct land_file *ret, struct err *e)
{
	struct git_store s = {.objects_fd = -1, .hash = j->v->repo.hash};
	cleanup_fd int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "read %s", land_show(path).s);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EAGAIN, "%s changes while it is read", land_show(path).s);
	ret->mode = st.st_mode & 0100 ? 0100755 : 0100644;
	note_stat(ret, &st);
	rc = git_write_file(&s, fd, &ret->raw, e);
	return rc < 0 ? err_wrap(e, "read %s", land_show(path).s) : 0;
}

static int look_link(struct land_job *j, int dir, const char *name, const char *path,
	struct land_file *ret, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n < 0 || (size_t)n == sizeof(target))
		return err_set(
			e, n < 0 ? errno : ENAMETOOLONG, "read the symlink %s", land_show(path).s);
	ret->mode = 0120000;
	oid_of(&ret->raw, j->v->repo.hash, GIT_BLOB, target, (size_t)n);
	return 0;
}

int land_look(struct land_job *j, const char *path, struct land_file *ret, struct err *e)
{
	const char *name;
	struct stat st;
	int dir = land_parent(j, path, &name);

	*ret = (struct land_file){0};
	if (dir == -ENOENT || dir == -ENOTDIR)
		return 0;
	if (dir < 0)
		return err_set(e, -dir, "open the directory of %s", land_show(path).s);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "look at %s", land_show(path).s);
	note_stat(ret, &st);
	if (S_ISREG(st.st_mode))
		return look_file(j, dir, name, path, ret, e);
	if (S_ISLNK(st.st_mode))
		return look_link(j, dir, name, path, ret, e);
	ret->mode = S_ISDIR(st.st_mode) ? 040000 : 1;
	return 0;
}

bool land_same_file(const struct land_file *f, unsigned mode, const struct oid *raw)
{
	if (f->mode != mode)
		return false;
	return mode == 0 || mode == 040000 || oid_eq(&f->raw, raw);
}

/* ---- line endings ---- */

static bool has_crlf(const struct buf *b)
{
	const char *p = b->data, *end = b->data + b->len;

	while (p && p + 1 < end && (p = memchr(p, '\r', (size_t)(end - p - 1)))) {
		if (p[1] == '\n')
			return true;
		p++;
	}
	return false;
}

static int read_whole(int top, const char *path, struct buf *ret)
{
	cleanup_fd int fd = path_open(top, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, WALK);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	return file_read_fd(fd, ret);
}

bool land_base_crlf(struct land_job *j, const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(LAND_TEXT_MAX_B);
	cleanup_fd int top = -1;

	if (!j->v->base.tree)
		return false;
	top = open(j->v->base.tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return top >= 0 && read_whole(top, path, &b) == 0 && has_crlf(&b);
}

int land_name_as_lf(
	struct land_job *j, const char *path, bool write, struct oid *ret, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(LAND_TEXT_MAX_B);
	struct git_store s = {.objects_fd = -1, .hash = j->v->repo.hash};
	size_t to = 0;
	int rc = read_whole(j->top_fd, path, &b);

	if (rc < 0)
		return err_set(e, -rc, "read %s", land_show(path).s);
	for (size_t i = 0; i < b.len; i++)
		if (!(b.data[i] == '\r' && i + 1 < b.len && b.data[i + 1] == '\n'))
			b.data[to++] = b.data[i];
	if (!write) {
		oid_of(ret, s.hash, GIT_BLOB, buf_str(&b), to);
		return 0;
	}
	rc = repo_store(&j->v->repo, &s, e);
	if (rc == 0)
		rc = git_write(&s, GIT_BLOB, buf_str(&b), to, ret, e);
	git_store_close(&s);
	return rc;
}
