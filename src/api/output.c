/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files written on the user's behalf beside a sandbox: see croft_output_open() in croft.h.
 *
 * Order: the directory is found and held before the command runs, so that a bad name costs no run;
 *        the file is written and renamed into it afterwards, when no process of the sandbox is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api_impl.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "os/path.h"

#define LINKS_MAX 40

struct croft_output {
	struct croft *croft;
	int dir; /* where, or -1 */
	int fd;  /* a device or pipe, written directly, or -1 */
	char name[NAME_MAX + 1];
};

static bool within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]);
}

/* May a sandbox have made what lies in this directory? Without a policy: nobody knows. */
static bool planted(const struct croft_policy *p, const char *dir)
{
	return !p || within(p->workspace, dir) ||
	       policy_access(&p->policy, dir, NULL) == ACCESS_WRITE;
}

/*
 * Open a directory by an absolute path, following symlinks except those that a sandbox may have made.
 * Each is expanded here, one at a time, so that no chain of them can lead through one unseen.
 */
static int open_dir_safely(const char *path, const struct croft_policy *policy)
{
	cleanup_fd int cur = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char rest[2 * PATH_MAX], here[PATH_MAX], target[PATH_MAX], name[NAME_MAX + 1];
	int links = 0;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	snprintf(rest, sizeof(rest), "%s", path);
	for (;;) {
		char *p = rest + strspn(rest, "/");
		size_t n = strcspn(p, "/");
		struct stat st;
		int next;

		if (cur < 0)
			return -errno;
		if (n == 0)
			return take_fd(&cur);
		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, p, n);
		name[n] = '\0';
		memmove(rest, p + n, strlen(p + n) + 1);
		next = openat(cur, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		if (fstat(next, &st) == 0 && S_ISLNK(st.st_mode)) {
			ssize_t len = readlinkat(cur, name, target, sizeof(target) - 1);
			char more[2 * PATH_MAX];

			close(next);
			if (++links > LINKS_MAX || len <= 0 ||
				path_of_fd(cur, here, sizeof(here)) < 0 || planted(policy, here))
				return -ELOOP;
			target[len] = '\0';
			if (strlen(rest) >= PATH_MAX)
				return -ENAMETOOLONG;
			snprintf(more, sizeof(more), "%s/%.*s", target, PATH_MAX - 1, rest);
			memcpy(rest, more, strlen(more) + 1);
			if (target[0] == '/') {
				close(cur);
				cur = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
			}
			continue;
		}
		close(cur);
		cur = next;
	}
}

/* The path is the caller's: relative to where it is, which need not be in the workspace. */
static int open_output(
	struct croft_output *o, const struct croft_policy *policy, const char *path)
{
	struct buf b = BUF_INIT(PATH_MAX);
	cleanup_free char *full = NULL;
	char cwd[PATH_MAX] = "";
	struct stat st;
	char *slash;

	if (path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		return -errno;
	buf_addf(&b, "%s%s%s", cwd, cwd[0] ? "/" : "", path);
	full = buf_take(&b);
	if (!full)
		return -ENAMETOOLONG;
	if (str_starts(full, "/dev/") || str_starts(full, "/proc/")) {
		o->fd = open(full, O_WRONLY | O_CLOEXEC);
		return o->fd < 0 ? -errno : 0;
	}
	slash = strrchr(full, '/');
	if (!slash[1] || strlen(slash + 1) > NAME_MAX || str_eq(slash, "/.") ||
		str_eq(slash, "/.."))
		return -EISDIR;
	snprintf(o->name, sizeof(o->name), "%s", slash + 1);
	*slash = '\0';
	o->dir = open_dir_safely(full[0] ? full : "/", policy);
	if (o->dir < 0)
		return o->dir;
	if (fstatat(o->dir, o->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -ELOOP;
	return faccessat(o->dir, ".", W_OK, 0) < 0 ? -errno : 0;
}

int croft_output_open_beside(struct croft *c, const struct croft_policy *p, const char *path,
	struct croft_output **ret)
{
	struct croft_output *o = calloc(1, sizeof(*o));
	int r;

	c->err = ERR_INIT;
	if (!o)
		return err_set(&c->err, ENOMEM, "open %s", path);
	*o = (struct croft_output){.croft = c, .dir = -1, .fd = -1};
	r = open_output(o, p, path);
	if (r == -ELOOP) {
		r = err_refuse(&c->err,
			"%s is, or leads through, a link or pipe that a sandbox may have made; "
			"name another file",
			path);
	} else if (r < 0) {
		r = err_set(&c->err, -r, "cannot write to %s", path);
	}
	if (r < 0)
		croft_output_free(o);
	else
		*ret = o;
	return r;
}

int croft_output_open(struct croft_env *e, const char *path, struct croft_output **ret)
{
	return croft_output_open_beside(e->croft, e->policy, path, ret);
}

int croft_output_write(struct croft_output *o, const char *text)
{
	int r = o->fd >= 0 ? fd_write_all(o->fd, text, strlen(text))
			   : file_replace_at(o->dir, o->name, text, strlen(text), 0644);

	return r < 0 ? err_set(&o->croft->err, -r, "cannot write %s", o->name) : 0;
}

void croft_output_free(struct croft_output *o)
{
	if (!o)
		return;
	close_fd(&o->dir);
	close_fd(&o->fd);
	free(o);
}
