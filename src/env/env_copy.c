/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An environment without an overlay: base and start layer, copied over each other into a directory.
 *
 * Order: base -> what the start layer replaces or hides gives way -> start layer. So what is there at
 *        the end is what an overlay of the two would show.
 * Trust: symlinks of the base may lead anywhere, and the layer may have a directory where the base has
 *        one. Everything is reached by descriptor, part by part, and no symlink is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "os/interrupt.h"
#include "os/path.h"
#include "os/tree.h"
#include "snap/copy.h"
#include "snap/parent.h"

/* Where a copy can be: not in the state directory, which no sandbox may enter. */
static int copy_place(struct env *v, struct err *e)
{
	const char *xdg = getenv("XDG_DATA_HOME");
	cleanup_buf struct buf b = BUF_INIT(PATH_MAX);
	cleanup_fd int fd = -1;

	if (xdg && xdg[0] == '/')
		buf_addf(&b, "%s/croft/work", xdg);
	else
		buf_addf(&b, "%s/.local/share/croft/work", v->home);
	fd = dir_make(buf_str(&b), 0700);
	if (fd < 0)
		return err_set(e, -fd, "make %s", buf_str(&b));
	buf_addf(&b, "/%s", v->name);
	v->copy = buf_take(&b);
	if (!v->copy || mkdir(v->copy, 0755) < 0)
		return err_set(e, v->copy ? errno : ENOMEM, "make a place for the copy");
	v->copy_made = true;
	return 0;
}

/* The copy's repository reaches objects where they are on the host: there are no mounts. */
static int point_alternates(struct env *v, struct err *e)
{
	cleanup_buf struct buf text = BUF_INIT(65536), path = BUF_INIT(PATH_MAX);
	cleanup_fd int dir = -1;
	int r;

	for (size_t i = 0; i < v->base.objects.n; i++)
		buf_addf(&text, "%s\n", v->base.objects.v[i]);
	buf_addf(&path, "%s/.git/objects/info", v->copy);
	if (text.failed || path.failed)
		return err_set(e, ENAMETOOLONG, "connect the copy to the repository");
	dir = path_open(AT_FDCWD, buf_str(&path), O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS);
	r = dir < 0 ? dir : file_replace_at(dir, "alternates", buf_str(&text), text.len, 0644);
	return r < 0 ? err_set(e, -r, "connect the copy to the repository") : 0;
}

static int copy_all(int from, int to, struct copy_stats *st, struct err *e)
{
	cleanup_dir DIR *d = dir_list(from, ".");
	struct dirent *de;

	if (!d)
		return err_set(e, errno, "read the base");
	while ((errno = 0, de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, "..") &&
			(interrupt_check(e) < 0 ||
				copy_tree(from, to, de->d_name, NULL, NULL, st, e) < 0))
			return -e->errnum;
	return errno ? err_set(e, errno, "read the base") : 0;
}

/* ---- what a layer says about a path replaces what is there: a copy has no layers ---- */

struct give_way {
	int to;
	int r; /* the first failure */
};

/* Every directory above path is one in the layer: what is none in the copy goes in its stead. */
static int clear_above(int to, const char *path)
{
	for (const char *s = path; (s = strchr(s, '/')); s++) {
		cleanup_free char *dir = strndup(path, (size_t)(s - path));
		const char *name = NULL;
		cleanup_fd int at = dir ? parent_open(to, dir, &name) : -ENOMEM;
		struct stat st;

		if (at < 0)
			return at;
		if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!S_ISDIR(st.st_mode))
			return unlinkat(at, name, 0) < 0 ? -errno : -ENOENT;
	}
	return 0;
}

/* Nothing is at path afterwards; a whiteout takes a whole directory away. */
static int clear_path(int to, const char *path)
{
	int r = clear_above(to, path);
	const char *name;
	cleanup_fd int at = r < 0 ? r : parent_open(to, path, &name);

	if (at < 0)
		return at == -ENOENT ? 0 : at; /* with its directory it is not there, either */
	return tree_remove_at(at, name);
}

static bool give_way(void *arg, const char *path, const struct stat *st)
{
	struct give_way *g = arg;

	g->r = clear_path(g->to, path);
	return g->r == 0;
}

int env_start_copy(struct env *v, struct err *e)
{
	cleanup_buf struct buf note = BUF_INIT(1024);
	cleanup_fd int from = -1, to = -1, layer = -1;
	struct copy_stats st = {0};
	struct give_way g = {0};

	if (copy_place(v, e) < 0)
		return -e->errnum;
	v->kind = ENV_COPY;
	from = open(v->base.tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	to = open(v->copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	layer = env_layer_fd(v, 0, e);
	if (from < 0 || to < 0 || layer < 0)
		return err_set(e, errno, "copy the workspace");
	if (copy_all(from, to, &st, e) < 0)
		return -e->errnum;
	g.to = to;
	if (!tree_walk(layer, CHANGES_MAX, give_way, &g))
		return err_set(e, g.r < 0 ? -g.r : E2BIG, "copy what is not committed");
	if (copy_all(layer, to, &st, e) < 0 || point_alternates(v, e) < 0)
		return -e->errnum;
	buf_addf(&note,
		"the tier or the file system cannot do with overlays: the workspace was copied "
		"(%llu files, %llu of them by reference) to %s, where the commands of this environment run",
		(unsigned long long)st.files, (unsigned long long)st.reflinked, v->copy);
	strlist_add(&v->notes, buf_str(&note));
	return 0;
}
