/* SPDX-License-Identifier: Apache-2.0 */
/* The user's ignored files: found by git, copied by descriptor. See ignored.h. */
#include "snap/ignored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/program.h"
#include "git/repo.h"
#include "os/path.h"
#include "snap/copy.h"
#include "snap/parent.h"
#include "snap/scan_impl.h"

#define LIST_MAX_B ((size_t)256 << 20)
#define LIST_MAX 2000000u
#define LEFT_OUT_MAX 256u

void ignored_done(struct ignored *i)
{
	strlist_done(&i->dirs);
	strlist_done(&i->files);
	strlist_done(&i->left_out);
}

static void leave_out(struct ignored *i, const char *path, const char *why)
{
	cleanup_buf struct buf b = BUF_INIT(8192);

	if (i->left_out.n + 1 == i->left_out.max) {
		strlist_add(&i->left_out, "further ignored files are not shown");
		return;
	}
	str_show(&b, path, MIN_OF(strlen(path), (size_t)1000));
	buf_addf(&b, " is not shown: %s", why);
	strlist_add(&i->left_out, buf_str(&b));
}

/* How many there were beyond a limit, in one sentence. */
static void leave_out_many(struct ignored *i, size_t n, const char *what, unsigned max)
{
	char text[128];

	if (n == 0)
		return;
	snprintf(text, sizeof(text), "%zu more ignored %s are not shown: the limit is %u", n, what,
		max);
	strlist_add(&i->left_out, text);
}

int ignored_find(struct ignored *ret, const struct repo *r, struct err *e)
{
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX_B);
	struct ignored i = {.dirs = STRLIST_INIT(IGNORED_DIRS_MAX),
		.files = STRLIST_INIT(IGNORED_FILES_MAX),
		.left_out = STRLIST_INIT(LEFT_OUT_MAX)};
	struct git_run g = {.argv = (const char *const[]){"ls-files", "-z", "--others", "--ignored",
				    "--exclude-standard", "--directory", NULL},
		.out = &out};
	cleanup_strlist struct strlist all = STRLIST_INIT(LIST_MAX);
	size_t more_dirs = 0, more_files = 0;
	int rc = 0;

	if (r->git_dir)
		rc = repo_git(r, &g, e);
	if (rc < 0)
		return err_wrap(e, "ask git which files are ignored");
	for (size_t at = 0; at < out.len; at += strlen(out.data + at) + 1)
		if (!strlist_add(&all, out.data + at))
			return err_set(e, E2BIG, "more than %u ignored files", LIST_MAX);
	strlist_sort(&all);
	for (size_t k = 0; k < all.n; k++) {
		const char *path = all.v[k];
		size_t n = strlen(path);
		bool dir = n > 0 && path[n - 1] == '/';

		/* git also names directories that merely hold something ignored, before that */
		if (n == 0 || (dir && k + 1 < all.n && str_starts(all.v[k + 1], path)))
			continue;
		if (dir && !strlist_addn(&i.dirs, path, n - 1))
			more_dirs++;
		if (!dir && !strlist_add(&i.files, path))
			more_files++;
	}
	strlist_sort(&i.dirs);
	strlist_sort(&i.files);
	leave_out_many(&i, more_dirs, "directories", IGNORED_DIRS_MAX);
	leave_out_many(&i, more_files, "files", IGNORED_FILES_MAX);
	*ret = i;
	return 0;
}

/* ------------------------------------------------------------------ copying */

struct copying {
	struct ignored *i;
	int host, layer;
	uint64_t copied_b; /* of what could not share its blocks */
	struct err *e;
};

/* Why a file is not copied; NULL: it may be. */
static const char *obstacle(struct copying *c, const struct stat *st)
{
	if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
		return "it is a device, pipe or socket";
	if (S_ISREG(st->st_mode) && c->copied_b + (uint64_t)st->st_size > IGNORED_COPY_MAX_B)
		return "ignored files beyond 64 MiB are not copied";
	return NULL;
}

static int copy_file(struct copying *c, const char *path)
{
	const char *name;
	cleanup_fd int from = parent_open(c->host, path, &name);
	cleanup_fd int to = -1;
	struct copy_stats st = {0};
	struct err why = ERR_INIT;
	struct stat s;
	const char * not ;
	int r;

	if (from < 0 || fstatat(from, name, &s, AT_SYMLINK_NOFOLLOW) < 0) {
		leave_out(c->i, path, "it cannot be reached");
		return 0;
	}
	not = obstacle(c, &s);
	if (not ) {
		leave_out(c->i, path, not );
		return 0;
	}
	r = parent_make(c->layer, c->host, path);
	to = r < 0 ? r : parent_open(c->layer, path, &name);
	if (to < 0)
		return err_set(c->e, -to, "create a directory for an ignored file");
	r = copy_tree(from, to, name, NULL, NULL, &st, &why);
	if (r == -ENOSPC || r == -EDQUOT || r == -EIO || r == -EROFS) {
		*c->e = why;
		return err_wrap(c->e, "copy an ignored file");
	}
	if (r < 0)
		leave_out(c->i, path, why.msg);
	else if (!st.reflinked)
		c->copied_b += st.bytes;
	return 0;
}

int ignored_copy(struct ignored *i, const struct repo *r, int layer_fd, struct err *e)
{
	cleanup_fd int host = open(r->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct copying c = {.i = i, .host = host, .layer = layer_fd, .e = e};
	int rc = 0;

	if (host < 0)
		return err_set(e, errno, "open %s", r->workspace);
	for (size_t k = 0; rc == 0 && k < i->files.n; k++)
		rc = copy_file(&c, i->files.v[k]);
	return rc;
}
