/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are the files of a Git directory files? See repo_impl.h.
 *
 * git opens what it expects there and waits for ever where it is a named pipe, or reads without end from
 * a device. Whoever made the workspace may have made its .git, so what git opens first is looked at before
 * it is run: a symlink may lead to a regular file, nothing else. Loose refs are looked at by their kind in
 * the directory. Objects and packs: repo_objects_look().
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/repo_impl.h"
#include "os/path.h"
#include "os/tree.h"

#define REFS_DEPTH_MAX 64
#define REFS_MAX 2000000u

static int odd(const char *dir, const char *name, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(4 * PATH_MAX);

	str_show(&b, name, strlen(name));
	return err_refuse(e,
		"%s/%s is no regular file, and git would wait for it or read without end; remove "
		"it",
		dir, buf_str(&b));
}

static int check_file(int fd, const char *dir, const char *name, struct err *e)
{
	struct stat st;

	/* Absent, or something that git cannot open either */
	if (fstatat(fd, name, &st, 0) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return 0;
	return odd(dir, name, e);
}

static int check_dir(const char *dir, const char *const *names, struct err *e)
{
	cleanup_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? err_set(e, errno, "open %s", dir) : 0;

	for (; r == 0 && *names; names++)
		r = check_file(fd, dir, *names, e);
	return r;
}

/* Everything below refs is a directory, a regular file, or leads to one. */
static int check_refs(
	int at, const char *dir, const char *name, unsigned *left, int depth, struct err *e)
{
	cleanup_dir DIR *d = dir_list(at, name);
	struct dirent *de;
	int r = 0;

	if (!d)
		return 0; /* no directory: git does not look into it either */
	while (r == 0 && (de = readdir(d))) {
		struct stat st;

		if (str_eq(de->d_name, ".") || str_eq(de->d_name, "..") || de->d_type == DT_REG)
			continue;
		if ((*left)-- == 0 || depth > REFS_DEPTH_MAX)
			return err_refuse(e, "%s/refs goes too deep, or has too many entries", dir);
		if (de->d_type == DT_UNKNOWN &&
			fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			de->d_type = S_ISDIR(st.st_mode) ? DT_DIR : DT_LNK;
		if (de->d_type == DT_DIR)
			r = check_refs(dirfd(d), dir, de->d_name, left, depth + 1, e);
		else if (check_file(dirfd(d), dir, de->d_name, e) < 0)
			r = -e->errnum;
	}
	return r;
}

int repo_check_files(const struct repo *r, struct err *e)
{
	static const char *const own[] = {"HEAD", "index", "commondir", "gitdir", "config",
		"config.worktree", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD",
		"REVERT_HEAD", "REBASE_HEAD", "BISECT_LOG", "BISECT_START", "MERGE_MSG",
		"MERGE_MODE", "SQUASH_MSG", "AUTO_MERGE", "info/sparse-checkout", "logs/HEAD",
		"refs/bisect/bad", "rebase-apply/applying", "rebase-merge/head-name",
		"rebase-merge/onto", "rebase-merge/git-rebase-todo", "rebase-merge/done",
		"sequencer/todo", NULL};
	static const char *const common[] = {"HEAD", "config", "packed-refs", "shallow",
		"info/exclude", "info/attributes", "info/grafts", "objects/info/alternates",
		"objects/info/commit-graph", "objects/info/commit-graphs/commit-graph-chain",
		"objects/pack/multi-pack-index", "reftable/tables.list", "logs/refs/stash", NULL};
	static const char *const tree[] = {
		".gitignore", ".gitattributes", ".gitmodules", ".mailmap", NULL};
	unsigned left = REFS_MAX;
	cleanup_fd int fd = open(r->common_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? err_set(e, errno, "open %s", r->common_dir) : 0;

	if (rc == 0)
		rc = check_dir(r->git_dir, own, e);
	if (rc == 0)
		rc = check_dir(r->common_dir, common, e);
	if (rc == 0)
		rc = check_dir(r->workspace, tree, e);
	if (rc == 0)
		rc = check_refs(fd, r->common_dir, "refs", &left, 0, e);
	return rc;
}
