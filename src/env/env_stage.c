/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An environment's layers, as the engine mounts them and as changes are read from them.
 *
 * Ignored directories of the user's (node_modules …) are found once, at the first command: each is an
 * overlay of its own over the user's, mounted in the workspace. Their mount points, and copies of
 * single ignored files, are in the start layer, which is not searched for changes.
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
#include "env/env_impl.h"
#include "git/pack_write.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/ignored.h"
#include "snap/scan.h"

#define STAGE_TEXT_MAX 200000u

void env_stage_done(struct env_stage *s)
{
	free(s->trees);
	strlist_done(&s->text);
	free(s->lists);
	free(s->objects);
	*s = (struct env_stage){0};
}

static const char *keep(struct env_stage *s, const char *text)
{
	return strlist_add(&s->text, text) ? s->text.v[s->text.n - 1] : NULL;
}

/* The path of a part of a layer if it is there, else NULL. */
static const char *part(struct env *v, struct env_stage *s, const char *layer, const char *name,
	bool make, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;

	if (env_layer_path(v, layer, name, path, sizeof(path), e) < 0)
		return NULL;
	if (make && mkdir(path, name[0] == 'w' ? 0700 : 0755) < 0 && errno != EEXIST) {
		err_set(e, errno, "make %s", path);
		return NULL;
	}
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) ? keep(s, path) : NULL;
}

/* Frozen layers, newest first, and below them `lowest`. */
static int add_tree(struct env *v, struct env_stage *s, const char *dst, const char *up,
	const char *wk, const char *lowest, bool read_only, struct err *e)
{
	struct staging_tree *t = &s->trees[s->staging.trees_n];
	const char **list = s->lists + s->lists_n;
	size_t n = 0, frozen = read_only ? v->layers.n : v->layers.n - 1;
	const char *top = v->layers.v[v->layers.n - 1];

	for (size_t i = frozen; i-- > 0;) {
		const char *p = part(v, s, v->layers.v[i], up, false, e);

		if (p)
			list[n++] = p;
	}
	list[n++] = keep(s, lowest);
	list[n++] = NULL;
	*t = (struct staging_tree){.dst = keep(s, dst), .lower = list};
	if (!read_only) {
		t->upper = part(v, s, top, up, true, e);
		t->work = part(v, s, top, wk, true, e);
		if (!t->upper || !t->work)
			return e->errnum ? -e->errnum : err_set(e, ENOENT, "layer %s", top);
	}
	if (!t->dst || !list[n - 2])
		return err_set(e, ENOMEM, "stage environment %s", v->name);
	s->lists_n += n;
	s->staging.trees_n++;
	return 0;
}

/* ---- ignored directories ---- */

/* A mount point in the start layer, with its parents. */
static int make_point(int layer, const char *path)
{
	char dir[PATH_MAX];
	size_t n = 0;

	if (strlen(path) >= sizeof(dir))
		return -ENAMETOOLONG;
	while (path[n]) {
		n += strcspn(path + n, "/");
		memcpy(dir, path, n);
		dir[n] = '\0';
		if (mkdirat(layer, dir, 0755) < 0 && errno != EEXIST)
			return -errno;
		n += strspn(path + n, "/");
	}
	return 0;
}

/* Needs the write lock. What cannot be shown is told, not hidden. */
static int find_ignored(struct env *v, struct err *e)
{
	struct ignored ig = {0};
	cleanup_fd int layer = -1;
	int r = 0;

	if (v->ignored_known || v->kind != ENV_PINNED)
		return 0;
	layer = env_layer_fd(v, 0, e);
	if (layer < 0)
		return layer;
	if (ignored_find(&ig, &v->repo, e) < 0 || ignored_copy(&ig, &v->repo, layer, e) < 0)
		r = -e->errnum;
	for (size_t i = 0; r == 0 && i < ig.dirs.n; i++) {
		unsigned mode = treemap_find(v->base.trees, ig.dirs.v[i], &(struct oid){0});

		if (mode && mode != 040000)
			continue; /* the start has a file there: that one is shown */
		r = make_point(layer, ig.dirs.v[i]);
		if (r < 0)
			err_set(e, -r, "show the ignored directory %s", ig.dirs.v[i]);
		else if (!strlist_add(&v->ignored, ig.dirs.v[i]))
			r = err_set(e, ENOMEM, "find ignored directories");
	}
	for (size_t i = 0; r == 0 && i < ig.left_out.n; i++)
		strlist_add(&v->notes, ig.left_out.v[i]);
	ignored_done(&ig);
	if (r < 0)
		return r;
	v->ignored_known = true;
	return env_save(v, e);
}

static int add_ignored(struct env *v, struct env_stage *s, bool read_only, struct err *e)
{
	for (size_t i = 0; i < v->ignored.n; i++) {
		char dst[PATH_MAX], up[24], wk[24];
		struct stat st;
		int n = snprintf(dst, sizeof(dst), "%s/%s", v->workspace, v->ignored.v[i]);

		if (n < 0 || (size_t)n >= sizeof(dst) || lstat(dst, &st) < 0 ||
			!S_ISDIR(st.st_mode))
			continue; /* gone on the host by now */
		snprintf(up, sizeof(up), "i%zu", i);
		snprintf(wk, sizeof(wk), "w%zu", i);
		if (add_tree(v, s, dst, up, wk, dst, read_only, e) < 0)
			return -e->errnum;
	}
	return 0;
}

int env_stage(struct env *v, bool read_only, struct env_stage *ret, struct err *e)
{
	struct env_stage s = {.text = STRLIST_INIT(STAGE_TEXT_MAX)};
	size_t trees, i;

	if (!read_only && find_ignored(v, e) < 0)
		return -e->errnum;
	trees = 1 + v->ignored.n;
	s.trees = calloc(trees, sizeof(*s.trees));
	s.lists = calloc(trees * (v->layers.n + 3), sizeof(*s.lists));
	s.objects = calloc(v->base.objects.n + 1, sizeof(*s.objects));
	if (!s.trees || !s.lists || !s.objects) {
		env_stage_done(&s);
		return err_set(e, ENOMEM, "stage environment %s", v->name);
	}
	s.staging.trees = s.trees;
	if (add_tree(v, &s, v->workspace, "tree", "work",
		    v->kind == ENV_PINNED ? v->base.tree : v->workspace, read_only, e) < 0 ||
		add_ignored(v, &s, read_only, e) < 0) {
		env_stage_done(&s);
		return -e->errnum;
	}
	for (i = 0; i < v->base.objects.n; i++)
		s.objects[i] = v->base.objects.v[i];
	if (v->kind == ENV_PINNED) {
		s.staging.objects = s.objects;
		s.staging.objects_dir = BASE_OBJECTS_DIR;
	}
	*ret = s;
	return 0;
}

/* ---- changes ---- */

static int scan_env(struct env *v, struct scan *s, struct changes *ret, struct err *e)
{
	int fds[ENV_LAYERS_MAX + 1];
	size_t n = 0;
	int r = 0;

	for (size_t i = v->start_layers; r == 0 && i < v->layers.n; i++) {
		fds[n] = env_layer_fd(v, i, e);
		r = fds[n] < 0 ? fds[n] : 0;
		n += r == 0;
	}
	s->layers = fds;
	s->layers_n = n;
	if (r == 0)
		r = scan_layers(ret, s, e);
	while (n > 0)
		close(fds[--n]);
	return r;
}

static int scan_copied(struct env *v, struct scan *s, struct changes *ret, struct err *e)
{
	cleanup_fd int fd = open(v->copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return err_set(e, errno, "open the copy of environment %s", v->name);
	return scan_copy(ret, s, fd, e);
}

enum how { HOW_ALL, HOW_LOOK, HOW_SETTLE };

static int changes_in(
	struct env *v, struct git_store *store, struct changes *ret, enum how how, struct err *e)
{
	static const uint64_t max_b[] = {
		[HOW_LOOK] = ENV_LOOK_MAX_B, [HOW_SETTLE] = ENV_SETTLE_MAX_B};

	cleanup_treemap struct treemap *own = NULL;
	cleanup_fd int live = -1;
	struct scan s = {.repo = &v->repo,
		.store = store,
		.live_fd = -1,
		.cache_fd = v->dir_fd,
		.cache_name = "stat-cache",
		.name_max_b = max_b[how],
		.part = how == HOW_LOOK,
		.sync = how == HOW_SETTLE};
	int r;

	if (v->kind == ENV_LIVE) {
		live = open(v->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (live < 0)
			return err_set(e, errno, "open %s", v->workspace);
		s.live_fd = live;
		s.ignore_tree = v->repo.git_dir ? v->workspace : NULL;
		return scan_env(v, &s, ret, e);
	}
	r = treemap_open(&own, v->dir_fd, "start.trees", e);
	if (r < 0 && r != -ENOENT)
		return r;
	*e = ERR_INIT;
	s.start = own ? own : v->base.trees;
	s.ignore_tree = v->base.tree;
	if (how == HOW_ALL) /* to review or to land; a look has no time to list the checkout */
		s.checkout = v->workspace;
	return v->kind == ENV_COPY ? scan_copied(v, &s, ret, e) : scan_env(v, &s, ret, e);
}

/* write: many objects become one pack, which is complete before anybody is told its names. */
static int changes_of(struct env *v, struct changes *ret, bool write, enum how how, struct err *e)
{
	struct git_store store = {.objects_fd = -1, .hash = v->repo.hash};
	int r;

	if (!write)
		return changes_in(v, &store, ret, how, e);
	if ((r = repo_store(&v->repo, &store, e)) < 0)
		return r;
	r = git_pack_begin(&store, e);
	if (r == 0)
		r = changes_in(v, &store, ret, how, e);
	if (r == 0)
		r = git_pack_end(&store, e);
	git_pack_drop(&store);
	git_store_close(&store);
	return r;
}

int env_changes(struct env *v, struct changes *ret, bool write, struct err *e)
{
	return changes_of(v, ret, write, HOW_ALL, e);
}

int env_look(struct env *v, struct changes *ret, bool write, struct err *e)
{
	return changes_of(v, ret, write, HOW_LOOK, e);
}

struct settle {
	int git;
	const struct timespec *since;
	bool sent;
	int r;
};

static bool send_new(void *arg, const char *path, const struct stat *st)
{
	struct settle *s = arg;
	cleanup_fd int fd = -1;

	if (!S_ISREG(st->st_mode) || st->st_ctim.tv_sec < s->since->tv_sec)
		return true;
	fd = path_open(s->git, path, O_RDONLY | O_NONBLOCK, PATH_NO_SYMLINKS | PATH_BENEATH);
	if (fd >= 0)
		s->r = fd_send_to_disk(fd);
	s->sent = true;
	return s->r == 0;
}

int env_settle(struct env *v, const struct timespec *since, struct changes *ret, struct err *e)
{
	struct settle s = {.git = -1, .since = since};
	cleanup_fd int top = -1, git = -1;
	int r = changes_of(v, ret, false, HOW_SETTLE, e);

	if (r < 0 || v->kind == ENV_COPY)
		return r;
	top = env_layer_fd(v, v->layers.n - 1, e);
	if (top < 0)
		return top;
	git = s.git = path_open(top, ".git", O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
	if (git >= 0)
		tree_walk(git, CHANGES_MAX, send_new, &s);
	r = s.r;
	if (r == 0 && (s.sent || ret->n || ret->ignored))
		r = dir_flush(top);
	return r < 0 ? err_set(e, -r, "write staged files to the disk") : 0;
}
