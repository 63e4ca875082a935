/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submodules of a base: those whose repository the host has are checked out, each with a .git of its
 * own; the others stay empty directories, as in a clone without them.
 *
 * Where:  .gitmodules (of this very checkout) gives the name of a path; its repository is modules/NAME
 *         of the Git directory around it, or, as older versions of Git made it, a .git directory in the
 *         host's working tree. Nothing else is looked at: a file ".git" could name any directory.
 * Trust:  what lies in the working tree may have been written by a command that ran there. So it is
 *         reached through no symlink, and is used only if its objects are all its own: no symlinks, no
 *         alternates. Below the Git directory of the workspace alternates may name what belongs to that
 *         directory, or to a repository that its own alternates name.
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
#include "git/program.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/base_impl.h"
#include "snap/scan_impl.h"

#define OWN_OBJECTS_MAX 1000000u /* files of an object directory in the working tree */

/* ------------------------------------------------------------------ where its repository is */

/* A name that stays below modules/: no empty, "." or ".." part. */
static bool name_fine(const char *name)
{
	for (const char *p = name;; p++) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.'))))
			return false;
		p += n;
		if (!*p)
			return true;
	}
}

/* submodule.NAME.path of .gitmodules, as "NAME\0path\0…". */
static int read_gitmodules(struct base_maker *k, const char *work_tree, struct buf *ret)
{
	cleanup_free char *file = path_join(work_tree, ".gitmodules");
	cleanup_free char *git_dir = path_join(work_tree, ".git");
	cleanup_buf struct buf out = BUF_INIT(BASE_FILE_MAX_B);
	struct stat st;
	struct git_run g = {.argv = (const char *const[]){"config", "-z", "--no-includes", "-f",
				    file, "--list", NULL},
		.git_dir = git_dir,
		.dir = work_tree,
		.out = &out,
		.any_status = true};
	int r;

	if (!file || !git_dir)
		return err_set(k->e, ENOMEM, "read .gitmodules");
	if (lstat(file, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	r = git_run(&g, k->e);
	if (r < 0 || g.status != 0)
		return r; /* one that cannot be read names nothing */
	for (size_t at = 0; at < out.len;) {
		char *key = out.data + at;
		char *value = strchr(key, '\n');

		at += strlen(key) + 1;
		if (!value)
			continue;
		*value++ = '\0';
		if (!str_starts(key, "submodule.") || !str_ends(key, ".path") ||
			strlen(key) <= strlen("submodule..path"))
			continue;
		key += strlen("submodule.");
		key[strlen(key) - strlen(".path")] = '\0';
		buf_add(ret, key, strlen(key) + 1);
		buf_add(ret, value, strlen(value) + 1);
	}
	return 0;
}

static bool is_own_object(void *arg, const char *path, const struct stat *st)
{
	return S_ISREG(st->st_mode) && !str_eq(path, "info/alternates");
}

/* Can objects be taken from this Git directory? */
static bool module_fine(const struct base_maker *k, const char *git_dir)
{
	cleanup_free char *objects = path_join(git_dir, "objects");
	cleanup_fd int fd = -1;

	if (!objects)
		return false;
	/* not through a symlink, which could lead to another repository */
	fd = path_open(AT_FDCWD, objects, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
	if (repo_below(k->repo->git_dir, git_dir) || repo_below(k->repo->common_dir, git_dir))
		return fd >= 0;
	return fd >= 0 && tree_walk(fd, OWN_OBJECTS_MAX, is_own_object, NULL);
}

/* The host's Git directory of a submodule, or NULL. Caller frees. */
static char *find_module(const struct base_maker *k, const struct buf *names, const char *path,
	const char *host_tree, const char *const *modules)
{
	cleanup_free char *sub = path_join(host_tree, path);
	cleanup_free char *embedded = sub ? path_join(sub, ".git") : NULL;

	for (size_t at = 0; at < names->len;) {
		const char *name = names->data + at;
		const char *where = name + strlen(name) + 1;

		at += strlen(name) + strlen(where) + 2;
		if (!str_eq(where, path) || !name_fine(name))
			continue;
		for (; *modules; modules++) {
			char *dir = path_join(*modules, name);

			if (dir && module_fine(k, dir))
				return dir;
			free(dir);
		}
		break;
	}
	return embedded && module_fine(k, embedded) ? take_ptr(embedded) : NULL;
}

/* Does it belong to a repository that was found fit already: ours, or one that our alternates name? */
static bool is_known(const struct repo *r, const char *objects)
{
	if (repo_below(r->git_dir, objects) || repo_below(r->common_dir, objects) ||
		strlist_has(&r->objects, objects))
		return true;
	for (size_t i = 0; i < r->objects.n; i++) {
		cleanup_free char *top = strdup(r->objects.v[i]);

		if (!top)
			return false;
		*strrchr(top, '/') = '\0';
		if (repo_below(top, objects) && str_starts(objects + strlen(top), "/modules/"))
			return true;
	}
	return false;
}

/*
 * `objects`, and what its alternates name, flattened. Those must be known: see
 * session/config/objects.h, which was asked about the repository's own before.
 */
static int find_objects(struct base_maker *k, struct strlist *l, const char *objects)
{
	int r = repo_objects_add(l, objects, k->e);

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		if (i > 0 && !is_known(k->repo, l->v[i]))
			return err_refuse(k->e,
				"its objects refer to %s, which no object directory of the "
				"project itself belongs to; to make it independent, run there: "
				"git repack -ad && rm .git/objects/info/alternates",
				l->v[i]);
		r = repo_objects_look(l->v[i], false, true, k->e);
	}
	return r;
}

/* ------------------------------------------------------------------ one submodule */

/* Does the host have the commit? Asked with the skeleton that is there already. */
static bool has_commit(const char *git_dir, const struct strlist *from, const char *hex)
{
	cleanup_free char *spec = NULL;
	cleanup_buf struct buf env = BUF_INIT(BASE_FILE_MAX_B);
	struct err ignore = ERR_INIT;
	struct git_run g = {.git_dir = git_dir, .any_status = true};

	if (asprintf(&spec, "%s^{tree}", hex) < 0)
		return false;
	buf_addf(&env, "GIT_OBJECT_DIRECTORY=%s", from->v[0]);
	g.argv = (const char *const[]){"cat-file", "-e", spec, NULL};
	g.env = (const char *const[]){buf_str(&env), NULL};
	return !env.failed && git_run(&g, &ignore) == 0 && g.status == 0;
}

/* The boundary of a shallow clone must be known where its objects are used. */
static int copy_shallow(struct base_maker *k, const char *module, const char *git_dir)
{
	cleanup_free char *from = path_join(module, "shallow");
	cleanup_free char *to = path_join(git_dir, "shallow");
	cleanup_buf struct buf b = BUF_INIT(BASE_FILE_MAX_B);
	cleanup_fd int in = -1, fd = -1;
	int r;

	if (!from || !to)
		return err_set(k->e, ENOMEM, "check out a submodule");
	in = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (in < 0 || file_read_fd(in, &b) < 0 || b.len == 0)
		return 0;
	fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : fd_write_all(fd, b.data, b.len);
	return r < 0 ? err_set(k->e, -r, "write %s", to) : 0;
}

static int one_submodule(struct base_maker *k, const char *work_tree, const char *host_tree,
	const char *module, const struct base_link *link, int depth)
{
	cleanup_free char *sub = path_join(work_tree, link->path);
	cleanup_free char *host_sub = path_join(host_tree, link->path);
	cleanup_free char *git_dir = sub ? path_join(sub, ".git") : NULL;
	cleanup_free char *objects = path_join(module, "objects");
	cleanup_free char *modules = path_join(module, "modules");
	cleanup_base_links struct base_links links = {0};
	cleanup_strlist struct strlist from = STRLIST_INIT(BASE_OBJECTS_MAX);
	struct oid_hex hex = oid_hex(&link->commit);
	char head[OID_HEX_MAX + 2];
	size_t first = k->objects.n;
	int r;

	if (!sub || !host_sub || !git_dir || !objects || !modules)
		return err_set(k->e, ENOMEM, "check out a submodule");
	r = find_objects(k, &from, objects);
	if (r < 0)
		return r;
	snprintf(head, sizeof(head), "%s\n", hex.s);
	r = base_skeleton(k, git_dir, head, false);
	if (r == 0)
		r = copy_shallow(k, module, git_dir);
	if (r < 0)
		return r;
	if (!has_commit(git_dir, &from, hex.s)) {
		cleanup_fd int fd = open(sub, O_PATH | O_DIRECTORY | O_CLOEXEC);

		/* not fetched on the host either: as if it were not populated */
		r = fd < 0 ? -errno : tree_remove_at(fd, ".git");
		return r < 0 ? err_set(k->e, -r, "remove %s", git_dir) : 0;
	}
	for (size_t i = 0; i < from.n; i++)
		if (!strlist_add(&k->objects, from.v[i]))
			return err_set(
				k->e, E2BIG, "the submodules have too many object directories");
	r = base_checkout(k,
		&(struct base_checkout){
			.work_tree = sub, .git_dir = git_dir, .from = &from, .treeish = hex.s},
		&links);
	if (r == 0)
		r = base_submodules(
			k, sub, host_sub, (const char *const[]){modules, NULL}, &links, depth + 1);
	return r < 0 ? r : base_alternates(k, git_dir, first, from.n);
}

int base_submodules(struct base_maker *k, const char *work_tree, const char *host_tree,
	const char *const *modules, const struct base_links *links, int depth)
{
	cleanup_buf struct buf names = BUF_INIT(BASE_FILE_MAX_B);
	int r = 0;

	if (links->n == 0 || depth >= BASE_SUBMODULE_DEPTH_MAX)
		return 0;
	r = read_gitmodules(k, work_tree, &names);
	for (size_t i = 0; r == 0 && i < links->n; i++) {
		cleanup_free char *module =
			find_module(k, &names, links->v[i].path, host_tree, modules);

		if (module)
			r = one_submodule(k, work_tree, host_tree, module, &links->v[i], depth);
		if (r < 0)
			return err_wrap(k->e, "submodule %s", links->v[i].path);
	}
	return r;
}
