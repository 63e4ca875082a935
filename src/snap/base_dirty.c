/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's uncommitted state as a layer: see base_dirty_layer() in base.h.
 *
 * Order:   git (as user) says which paths differ -> what is there now is copied, what is not there
 *          becomes a whiteout -> the layer is scanned like any other, so that the tree the environment
 *          starts from is exactly what a later scan would see in these files.
 * Bounds:  contents of submodules are not carried over: their commit must be the one that is recorded,
 *          what is uncommitted inside them stays on the host. A repository inside the workspace that
 *          Git does not know is refused, since no tree can hold it. Ignored files come another way.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/program.h"
#include "git/repo.h"
#include "os/path.h"
#include "snap/base_impl.h"
#include "snap/copy.h"
#include "snap/parent.h"
#include "snap/scan_impl.h"

#define STATUS_MAX_B ((size_t)1 << 30)

struct dirty {
	const struct repo *repo;
	const struct base *base;
	int host;  /* the workspace */
	int layer; /* where it goes */
	struct err *e;
};

static int about(struct dirty *d, int errnum, const char *what, const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(ERR_MSG_MAX);

	str_show(&b, path, MIN_OF(strlen(path), (size_t)400));
	return err_set(d->e, errnum, "%s %s", what, buf_str(&b));
}

static int refuse(struct dirty *d, const char *path, const char *why)
{
	cleanup_buf struct buf b = BUF_INIT(ERR_MSG_MAX);

	str_show(&b, path, MIN_OF(strlen(path), (size_t)400));
	return err_refuse(
		d->e, "the uncommitted state cannot be carried over: %s %s", buf_str(&b), why);
}

/* ------------------------------------------------------------------ what git says */

/* The path of a line of porcelain v2, after so many fields; NULL: not so many. */
static char *after_fields(char *line, int n)
{
	while (line && n-- > 0) {
		line = strchr(line, ' ');
		if (line)
			line++;
	}
	return line;
}

/* One line: its path goes to the list. */
static int one_line(struct dirty *d, char *line, struct strlist *paths)
{
	char *path = NULL;

	switch (line[0]) {
	case '1':
		path = after_fields(line, 8);
		if (path && line[5] == 'S' && line[6] == 'C')
			return refuse(d, path,
				"is a submodule at another commit than the one recorded: commit "
				"that, or check the recorded one out");
		if (path && line[5] == 'S')
			return 0; /* content of a submodule: see the top of this file */
		break;
	case 'u':
		path = after_fields(line, 10);
		break;
	case '?':
		path = after_fields(line, 1);
		if (path && *path && path[strlen(path) - 1] == '/')
			return refuse(d, path,
				"is a repository of its own inside the workspace: have the project "
				"ignore it, or move it out");
		break;
	default:
		return 0;
	}
	if (!path || !*path)
		return err_set(d->e, EBADMSG, "git status answered oddly");
	return strlist_add(paths, path)
		       ? 0
		       : err_set(d->e, E2BIG, "too many files differ from the commit");
}

static int ask(struct dirty *d, struct strlist *paths)
{
	cleanup_buf struct buf out = BUF_INIT(STATUS_MAX_B);
	/*
	 * A submodule has a repository of its own, whose filters and monitors git would run to look for
	 * changes in it; whoever could write there once would run them. Its commit is all we ask for.
	 */
	struct git_run g = {
		.argv = (const char *const[]){"status", "--porcelain=v2", "-z",
			"--untracked-files=all", "--no-renames", "--ignore-submodules=dirty", NULL},
		.out = &out};
	int r = repo_git(d->repo, &g, d->e);

	if (r < 0)
		return err_wrap(d->e, "ask git what is not committed");
	for (size_t at = 0; r == 0 && at < out.len;) {
		char *line = out.data + at;

		at += strlen(line) + 1;
		r = strlen(line) < 3 ? 0 : one_line(d, line, paths);
	}
	strlist_sort(paths);
	return r;
}

/* ------------------------------------------------------------------ copying */

/* 1: copied; 0: it is not there (or a directory is, whose files come by themselves). */
static int copy_one(struct dirty *d, const char *path)
{
	const char *name;
	cleanup_fd int from = parent_open(d->host, path, &name);
	cleanup_fd int to = -1;
	struct stat st;
	int r;

	if (from == -ENOENT || from == -ENOTDIR || from == -ELOOP)
		return 0;
	if (from < 0)
		return about(d, -from, "open the directory of", path);
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : about(d, errno, "look at", path);
	if (S_ISDIR(st.st_mode))
		return 0;
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return 0; /* git does not list these; it became one just now */
	r = parent_make(d->layer, d->host, path);
	if (r < 0)
		return about(d, -r, "create the directory of", path);
	to = parent_open(d->layer, path, &name);
	if (to < 0)
		return about(d, -to, "open the new directory of", path);
	r = copy_tree(from, to, name, NULL, NULL, NULL, d->e);
	return r < 0 ? r : 1;
}

/* Does the host still have this directory? */
static bool host_has_dir(struct dirty *d, const char *path)
{
	int fd = path_open(d->host, path, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* A path that the base has and the host has not: hidden by the highest name that is gone. */
static int hide_one(struct dirty *d, const char *path)
{
	cleanup_free char *gone = strdup(path);
	cleanup_fd int base_fd = -1;
	cleanup_fd int to = -1;
	const char *name;
	struct oid o;
	struct stat st;
	char *slash;
	int r;

	if (!gone)
		return err_set(d->e, ENOMEM, "carry over what is not committed");
	if (treemap_find(d->base->trees, path, &o) == 0)
		return 0;
	while ((slash = strrchr(gone, '/'))) {
		*slash = '\0';
		if (host_has_dir(d, gone)) {
			*slash = '/';
			break;
		}
	}
	base_fd = open(d->base->tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = base_fd < 0 ? -errno : parent_make(d->layer, base_fd, gone);
	if (r == 0)
		to = parent_open(d->layer, gone, &name);
	if (r == -ENOTDIR || to == -ENOTDIR || r == -ELOOP || to == -ELOOP)
		return 0; /* a file is where its directory was: that hides it */
	if (r < 0 || to < 0)
		return about(d, r < 0 ? -r : -to, "open the new directory of", gone);
	if (fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0; /* hidden already, or replaced */
	return copy_whiteout(to, name, d->e);
}

static int fill_layer(struct dirty *d, const struct strlist *paths)
{
	cleanup_free bool *there = calloc(paths->n + 1, sizeof(bool));
	int r = there ? 0 : err_set(d->e, ENOMEM, "carry over what is not committed");

	for (size_t i = 0; r >= 0 && i < paths->n; i++) {
		if (i && str_eq(paths->v[i], paths->v[i - 1])) {
			there[i] = true; /* deleted in the index, untracked on disk: one path */
			continue;
		}
		r = copy_one(d, paths->v[i]);
		there[i] = r == 1;
	}
	for (size_t i = 0; r >= 0 && i < paths->n; i++)
		if (!there[i])
			r = hide_one(d, paths->v[i]);
	return r < 0 ? r : 0;
}

/* ------------------------------------------------------------------ the tree */

/* Whatever the user has is the start, also what would not be let in from a sandbox. */
static int start_tree(struct dirty *d, struct git_store *store, struct oid *ret)
{
	struct scan s = {.repo = d->repo,
		.layers = &d->layer,
		.layers_n = 1,
		.start = d->base->trees,
		.live_fd = -1,
		.ignore_tree = d->base->tree,
		.store = store,
		.cache_fd = -1};
	cleanup_changes struct changes c = {0};
	cleanup_walk struct walk w;
	cleanup_free struct tree_edit *v = NULL;
	size_t n = 0;
	int r = walk_init(&w, &s, false, d->e);

	w.ask_nothing = true;
	if (r == 0)
		r = walk_all(&w);
	if (r == 0)
		r = walk_result(&w, &c);
	v = calloc(c.n + 1, sizeof(*v));
	if (r == 0 && !v)
		r = err_set(d->e, ENOMEM, "compute the tree of the uncommitted state");
	for (size_t i = 0; r == 0 && i < c.n; i++) {
		const struct change *ch = &c.v[i];

		if (ch->flags & (CHANGE_UNREADABLE | CHANGE_BAD_NAME | CHANGE_NESTED_GIT))
			return refuse(d, ch->path, "cannot be read, or no tree can hold its name");
		if (ch->flags & CHANGE_TOO_LARGE)
			return refuse(d, ch->path, "is too large");
		if (ch->flags & (CHANGE_EMPTY_DIR | CHANGE_SUBMODULE | CHANGE_SPECIAL))
			continue;
		v[n++] = (struct tree_edit){.path = ch->path, .mode = ch->new_mode, .oid = ch->new};
	}
	return r < 0 ? r : tree_edit(d->base->trees, v, n, store, ret, d->e);
}

int base_dirty_layer(const struct repo *r, const struct base *b, int layer_fd, int dirfd,
	const char *name, struct oid *ret_tree, struct err *e)
{
	struct dirty d = {.repo = r, .base = b, .host = -1, .layer = layer_fd, .e = e};
	cleanup_strlist struct strlist paths = STRLIST_INIT(CHANGES_MAX);
	cleanup_fd int host = open(r->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct git_store store = {.objects_fd = -1};
	struct oid tree;
	int rc;

	if (host < 0)
		return err_set(e, errno, "open %s", r->workspace);
	d.host = host;
	rc = ask(&d, &paths);
	if (rc == 0)
		rc = fill_layer(&d, &paths);
	if (rc == 0)
		rc = repo_store(r, &store, e);
	if (rc == 0)
		rc = start_tree(&d, &store, &tree);
	git_store_close(&store);
	if (rc == 0)
		rc = treemap_make(r, &tree, dirfd, name, e);
	if (rc < 0)
		return rc;
	*ret_tree = tree;
	return 0;
}
