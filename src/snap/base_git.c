/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An environment's own .git on top of its base's: see base_git_layer() in base.h.
 *
 * One listing of refs becomes one packed-refs file; symbolic ones and the branch that is checked out are
 * files of their own. croft's refs, the stash, and refs that belong to one worktree stay outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/program.h"
#include "git/repo.h"
#include "os/path.h"
#include "snap/base_impl.h"
#include "snap/scan_impl.h"

#define REFS_MAX_B ((size_t)1 << 30)

static bool left_out(const char *ref)
{
	static const char *const prefixes[] = {
		"refs/croft/", "refs/stash", "refs/bisect/", "refs/worktree/", "refs/rewritten/"};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (str_starts(ref, prefixes[i]))
			return true;
	return false;
}

/* git_fd/path with this text; directories on the way are made. The layer is new and ours alone. */
static int put(int git_fd, const char *path, const void *p, size_t n, struct err *e)
{
	cleanup_fd int fd = -1;
	char dir[PATH_MAX];
	int r;

	for (const char *s = path; (s = strchr(s, '/')); s++) {
		if (snprintf(dir, sizeof(dir), "%.*s", (int)(s - path), path) >= (int)sizeof(dir))
			return err_set(e, ENAMETOOLONG, "write %s", path);
		if (mkdirat(git_fd, dir, 0777) < 0 && errno != EEXIST)
			return err_set(e, errno, "create .git/%s", dir);
	}
	fd = path_open(git_fd, path, O_WRONLY | O_CREAT | O_TRUNC, PATH_NO_SYMLINKS | PATH_BENEATH);
	r = fd < 0 ? fd : fd_write_all(fd, p, n);
	if (r == 0)
		r = fd_send_to_disk(fd);
	return r < 0 ? err_set(e, -r, "write .git/%s", path) : 0;
}

/* Would one of two refs have to be a directory for the other? */
static bool in_the_way(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	return n < m ? strncmp(a, b, n) == 0 && b[n] == '/'
		     : n > m && strncmp(a, b, m) == 0 && a[m] == '/';
}

static int one_ref(int git_fd, struct buf *packed, char *line, const char *branch, struct err *e)
{
	char *ref = strchr(line, ' '), *symref;
	char text[REF_NAME_MAX + 8];
	int n;

	if (!ref)
		return err_set(e, EBADMSG, "git for-each-ref answered oddly");
	*ref++ = '\0';
	symref = strchr(ref, ' ');
	if (symref)
		*symref++ = '\0';
	if (left_out(ref) || !ref_name_fine(ref) || (branch && str_eq(ref, branch)))
		return 0;
	if (branch && in_the_way(ref, branch))
		return err_invalid(
			e, "there can be no branch %s beside %s: choose another name", branch, ref);
	if (!symref || !*symref) {
		buf_addf(packed, "%s %s\n", line, ref);
		return 0;
	}
	n = snprintf(text, sizeof(text), "ref: %s\n", symref);
	if (left_out(symref) || !ref_name_fine(symref) || n >= (int)sizeof(text))
		return 0;
	return put(git_fd, ref, text, (size_t)n, e);
}

static int put_refs(const struct repo *r, int git_fd, const char *branch, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(REFS_MAX_B);
	cleanup_buf struct buf packed = BUF_INIT(REFS_MAX_B);
	struct git_run g = {.argv = (const char *const[]){"for-each-ref", "--sort=refname",
				    "--format=%(objectname) %(refname) %(symref)", NULL},
		.out = &out};
	int rc = repo_git(r, &g, e);

	if (rc < 0)
		return err_wrap(e, "list the repository's refs");
	buf_adds(&packed, "# pack-refs with: sorted \n");
	for (char *line = out.data, *next; rc == 0 && line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		rc = one_ref(git_fd, &packed, line, branch, e);
	}
	if (rc == 0 && packed.failed)
		rc = err_set(e, ENOMEM, "write packed-refs");
	return rc < 0 ? rc : put(git_fd, "packed-refs", packed.data, packed.len, e);
}

static int put_shallow(const struct repo *r, int git_fd, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(REPO_SHALLOW_MAX);
	int rc = repo_read_file(r->common_dir, "shallow", &b);

	if (rc == -ENOENT || (rc == 0 && b.len == 0))
		return 0;
	if (rc < 0)
		return err_set(e, -rc, "read %s/shallow", r->common_dir);
	return put(git_fd, "shallow", b.data, b.len, e);
}

int base_git_layer(const struct repo *r, int layer_fd, const char *branch, const struct oid *commit,
	struct err *e)
{
	cleanup_fd int git_fd = -1;
	char text[REF_NAME_MAX + 8];
	int n, rc;

	if (branch && (!str_starts(branch, "refs/heads/") || !ref_name_fine(branch)))
		return err_invalid(e, "not the full name of a branch");
	if (mkdirat(layer_fd, ".git", 0777) < 0 && errno != EEXIST)
		return err_set(e, errno, "create .git of an environment");
	git_fd = openat(layer_fd, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (git_fd < 0)
		return err_set(e, errno, "open .git of an environment");
	n = branch ? snprintf(text, sizeof(text), "ref: %s\n", branch)
		   : snprintf(text, sizeof(text), "%s\n", oid_hex(commit).s);
	if (n >= (int)sizeof(text))
		return err_invalid(e, "the branch's name is too long");
	rc = put(git_fd, "HEAD", text, (size_t)n, e);
	if (rc == 0)
		rc = put_refs(r, git_fd, branch, e);
	if (rc == 0 && branch) {
		n = snprintf(text, sizeof(text), "%s\n", oid_hex(commit).s);
		rc = put(git_fd, branch, text, (size_t)n, e);
	}
	return rc < 0 ? rc : put_shallow(r, git_fd, e);
}
