/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object directories that a repository names, and what they may be: see repo.h.
 *
 * Trust:  whoever made the workspace may have made its .git. So a directory that alternates name is taken
 *         only as a candidate: objects.h asks the policy and the user's approvals before anything in it
 *         is shown to a command or checked out for it, and what is in it must look like objects and nothing
 *         else. No symlink counts as an object, a pack or a directory of them, because git on the host would
 *         follow it to another repository.
 * Limits: every list has an end, and so has the number of entries that are looked at.
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

#define ALTERNATES_DEPTH_MAX 5
#define ENTRIES_MAX 8000000u /* of one object directory */

/* ------------------------------------------------------------------ alternates */

/* Undo C quoting of a whole line that starts with a quotation mark. False: it is none. */
static bool unquote(char *s)
{
	static const char from[] = "abfnrtv\"\\", to[] = "\a\b\f\n\r\t\v\"\\";
	char *o = s, *p = s + 1;

	for (; *p && *p != '"'; p++) {
		const char *f;

		if (*p != '\\') {
			*o++ = *p;
			continue;
		}
		p++;
		if (p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' && p[2] >= '0' &&
			p[2] <= '7') {
			*o++ = (char)((p[0] - '0') << 6 | (p[1] - '0') << 3 | (p[2] - '0'));
			p += 2;
			continue;
		}
		f = *p ? strchr(from, *p) : NULL;
		if (!f)
			return false;
		*o++ = to[f - from];
	}
	if (p[0] != '"' || p[1])
		return false;
	*o = '\0';
	return true;
}

static int add(struct strlist *l, const char *dir, int depth, struct err *e);

/* One line of info/alternates. What is not there is passed over, as Git does. */
static int add_alternate(struct strlist *l, const char *dir, char *line, int depth, struct err *e)
{
	cleanup_free char *path = NULL;
	struct stat st;

	if (!*line || *line == '#' || (*line == '"' && !unquote(line)))
		return 0;
	path = repo_canonical(dir, line);
	if (!path || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	return add(l, path, depth + 1, e);
}

static int add(struct strlist *l, const char *dir, int depth, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(REPO_FILE_MAX);
	int rc;

	if (strlist_has(l, dir))
		return 0;
	if (depth > ALTERNATES_DEPTH_MAX || l->n >= l->max)
		return err_invalid(e, "the alternates of %s go on for too long", l->v[0]);
	if (!strlist_add(l, dir))
		return err_set(e, ENOMEM, "open the repository");
	rc = repo_read_file(dir, "info/alternates", &b);
	if (rc == -ENOENT || (rc == 0 && b.len == 0))
		return 0;
	if (rc < 0)
		return err_set(e, -rc, "read %s/info/alternates", dir);
	for (char *line = b.data, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		rc = add_alternate(l, dir, line, depth, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int repo_objects_add(struct strlist *l, const char *dir, struct err *e)
{
	return add(l, dir, 0, e);
}

/* ------------------------------------------------------------------ what is in them */

struct look {
	const char *dir;
	bool strict; /* other names are refused, too */
	uint64_t left;
	struct err *e;
};

static int odd(const struct look *k, const char *where, const char *name)
{
	cleanup_buf struct buf b = BUF_INIT(8192);

	str_show(&b, name, MIN_OF(strlen(name), (size_t)200));
	return err_refuse(k->e,
		"%s is not used as an object directory of Git: \"%s%s\" in it is no file or "
		"directory that Git keeps there",
		k->dir, where, buf_str(&b));
}

static bool starts_with_any(const char *name, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (str_starts(name, *prefixes))
			return true;
	return false;
}

static bool is_hex(const char *name, size_t n)
{
	return strlen(name) == n && strspn(name, "0123456789abcdef") == n;
}

/* What git leaves behind while it works, or a network file system does. */
static bool is_passing(const char *name)
{
	static const char *const prefixes[] = {"tmp_", ".tmp", "incoming-", ".nfs", NULL};

	return starts_with_any(name, prefixes) || str_ends(name, ".lock");
}

static bool is_pack_file(const char *name)
{
	static const char *const prefixes[] = {"pack-", "loose-", "multi-pack-index", "old-", NULL};

	return starts_with_any(name, prefixes);
}

static bool is_loose(const char *name)
{
	return is_hex(name, 38) || is_hex(name, 62);
}

static unsigned char kind_of(int fd, const struct dirent *de)
{
	struct stat st;

	if (de->d_type != DT_UNKNOWN)
		return de->d_type;
	if (fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_UNKNOWN;
	return S_ISREG(st.st_mode) ? DT_REG : S_ISDIR(st.st_mode) ? DT_DIR : DT_LNK;
}

/* A directory of files only; `fine` knows their names. */
static int look_files(struct look *k, int at, const char *name, bool (*fine)(const char *name))
{
	cleanup_dir DIR *d = dir_list(at, name);
	char where[300];
	struct dirent *de;

	if (!d && (errno == ENOENT || errno == EACCES))
		return 0; /* what we cannot read, git cannot read for us */
	if (!d)
		return odd(k, "", name);
	snprintf(where, sizeof(where), "%.255s/", name);
	while ((de = readdir(d))) {
		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		if (k->left-- == 0)
			return err_refuse(k->e, "%s has more than %u entries", k->dir, ENTRIES_MAX);
		if (kind_of(dirfd(d), de) != DT_REG ||
			(k->strict && !fine(de->d_name) && !is_passing(de->d_name)))
			return odd(k, where, de->d_name);
	}
	return 0;
}

static int look_entry(struct look *k, int fd, const struct dirent *de, bool deep)
{
	unsigned char kind = kind_of(fd, de);
	bool hex = is_hex(de->d_name, 2), pack = str_eq(de->d_name, "pack");

	if (kind != DT_DIR && (kind != DT_REG || (k->strict && !is_passing(de->d_name))))
		return odd(k, "", de->d_name);
	if (kind == DT_REG)
		return hex || pack ? odd(k, "", de->d_name) : 0;
	if (pack)
		return look_files(k, fd, de->d_name, is_pack_file);
	if (hex)
		return deep ? look_files(k, fd, de->d_name, is_loose) : 0;
	if (k->strict && !str_eq(de->d_name, "info") && !is_passing(de->d_name))
		return odd(k, "", de->d_name);
	return 0;
}

int repo_objects_look(const char *dir, bool strict, bool deep, struct err *e)
{
	struct look k = {.dir = dir, .strict = strict, .left = ENTRIES_MAX, .e = e};
	cleanup_fd int fd = path_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
	cleanup_dir DIR *d = fd < 0 ? NULL : dir_list(fd, ".");
	struct dirent *de;
	int r = 0;

	if (!d)
		return err_set(e, fd < 0 ? -fd : errno, "open the object directory %s", dir);
	while (r == 0 && (de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			r = look_entry(&k, dirfd(d), de, deep);
	return r;
}

/* ------------------------------------------------------------------ whose they are */

/* The file gitdir of a linked worktree names the .git file of that worktree. */
static bool links_back(const struct repo *r)
{
	cleanup_buf struct buf b = BUF_INIT(REPO_FILE_MAX);
	cleanup_free char *file = NULL;
	const char *slash = strrchr(r->git_dir, '/');
	size_t n = strlen(r->common_dir);

	/* It is in the main repository, where only its owner writes. */
	if (strncmp(r->git_dir, r->common_dir, n) != 0 ||
		(size_t)(slash - r->git_dir) != n + strlen("/worktrees") ||
		strncmp(r->git_dir + n, "/worktrees/", strlen("/worktrees/")) != 0)
		return false;
	if (repo_read_file(r->git_dir, "gitdir", &b) < 0)
		return false;
	b.data[strcspn(buf_str(&b), "\r\n")] = '\0';
	file = repo_canonical(r->git_dir, b.data);
	n = strlen(r->workspace);
	return file && strncmp(file, r->workspace, n) == 0 && str_eq(file + n, "/.git");
}

static bool same_owner(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_uid == y.st_uid;
}

bool repo_is_own(const struct repo *r)
{
	if (!r->git_dir)
		return false;
	if (repo_below(r->workspace, r->git_dir) && repo_below(r->workspace, r->common_dir))
		return true;
	return same_owner(r->workspace, r->git_dir) && same_owner(r->workspace, r->common_dir) &&
	       (links_back(r) || (r->claims_workspace && str_eq(r->git_dir, r->common_dir)));
}
