/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of staged runs: see env_slot.h. */
#include "env/env_slot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "os/dirnames.h"
#include "os/path.h"
#include "os/tree.h"

#define TREE_MODE (S_IFDIR | 0755) /* as env_layer_make() makes it */
#define TRIES_MAX 8

static int layer_stat(const struct env *v, const char *layer, struct stat *ret)
{
	char path[PATH_MAX];
	struct err ignored = ERR_INIT;

	if (env_layer_path(v, layer, "tree", path, sizeof(path), &ignored) < 0)
		return -ENAMETOOLONG;
	return lstat(path, ret) < 0 ? -errno : 0;
}

/* The lock is ours, is still the one that stands there, and says nothing. */
static bool is_idle(int all, const char *name, int lock)
{
	char path[NAME_MAX + 8];
	struct stat held, there;

	snprintf(path, sizeof(path), "%.*s/lock", NAME_MAX, name);
	return flock(lock, LOCK_EX | LOCK_NB) == 0 && fstat(lock, &held) == 0 &&
	       held.st_size == 0 && fstatat(all, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       there.st_dev == held.st_dev && there.st_ino == held.st_ino;
}

/* Take this one if it is idle. 1, 0, or an error. */
static int take(struct env_slot *s, struct env *v, int all, const char *name, struct err *e)
{
	cleanup_buf struct buf path = BUF_INIT(PATH_MAX);
	cleanup_fd int dir = openat(all, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_fd int lock = dir < 0 ? -1 : openat(dir, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (lock < 0 || !is_idle(all, name, lock) ||
		layer_stat(v, name + strlen(ENV_RUN_PREFIX), &st) < 0 || st.st_mode != TREE_MODE)
		return 0;
	buf_addf(&path, "%s/envs/%s", v->state_dir, name);
	v->dir = buf_take(&path);
	if (!v->dir || !strlist_add(&v->layers, name + strlen(ENV_RUN_PREFIX)))
		return err_set(e, ENOMEM, "stage the run");
	v->dir_fd = take_fd(&dir);
	v->lock_fd = take_fd(&lock);
	s->changed = st.st_ctim;
	return 1;
}

/*
 * ext4 looks past every inode of a block group that was deleted in the last minutes before it makes one,
 * and each mount of an overlay makes and deletes some. Marked so, the directories in it are
 * put into groups of their own. Other file systems have no such mark.
 */
static int spread_layers(const struct env *v, struct err *e)
{
	char path[PATH_MAX];
	cleanup_fd int made = -1, fd = -1;
	int flags = 0;

	if (snprintf(path, sizeof(path), "%s/layers", v->state_dir) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "make a place for staged files");
	made = dir_make(path, 0700);
	if (made < 0)
		return err_set(e, -made, "make %s", path);
	fd = openat(made, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
		flags |= FS_TOPDIR_FL;
		if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
			return 0; /* only slower */
	}
	return 0;
}

static int make(struct env *v, int all, char ret[NAME_MAX + 1], struct err *e)
{
	char layer[ENV_LAYER_NAME_LEN + 1];
	cleanup_fd int dir = -1, lock = -1;

	if (env_layer_make(v, layer, e) < 0)
		return -e->errnum;
	snprintf(ret, NAME_MAX + 1, ENV_RUN_PREFIX "%s", layer);
	if (mkdirat(all, ret, 0700) < 0 ||
		(dir = openat(all, ret, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) < 0 ||
		(lock = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
		return err_set(e, errno, "make a place for staged files");
	return 0;
}

static int open_envs(const struct env *v, struct err *e)
{
	char path[PATH_MAX];
	cleanup_fd int made = -1;
	int fd;

	if (snprintf(path, sizeof(path), "%s/envs", v->state_dir) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "make a place for staged files");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		made = dir_make(path, 0700);
		if (made < 0)
			return err_set(e, -made, "make %s", path);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	}
	return fd >= 0 ? fd : err_set(e, errno, "open %s", path);
}

/* To list it by; the descriptor itself stays. */
static bool is_slot(const char *name)
{
	return strlen(name) == strlen(ENV_RUN_PREFIX) + ENV_LAYER_NAME_LEN &&
	       str_starts(name, ENV_RUN_PREFIX);
}

/* One of those that are idle, another one each time. 1, 0 or an error. */
static int take_any(struct env_slot *s, struct env *v, int all, unsigned *ret_seen, struct err *e)
{
	cleanup_dir DIR *d = dir_list(all, ".");
	char names[ENV_SLOTS_MAX][NAME_MAX + 1];
	struct dirent *de;
	unsigned n = 0, first = 0;
	int r = 0;

	while (d && n < ENV_SLOTS_MAX && (de = readdir(d)))
		if (is_slot(de->d_name))
			snprintf(names[n++], sizeof(names[0]), "%s", de->d_name);
	for (const char *c = v->id; *c; c++)
		first = first * 31 + (unsigned char)*c; /* it is random */
	*ret_seen = n;
	for (unsigned i = 0; r == 0 && n >= ENV_SLOTS_SPREAD && i < n; i++)
		r = take(s, v, all, names[(first + i) % n], e);
	return r;
}

int env_slot_take(struct env_slot *ret, struct env *v, struct err *e)
{
	cleanup_fd int all = open_envs(v, e);
	char name[NAME_MAX + 1];
	unsigned seen;
	int r;

	*ret = (struct env_slot){0};
	if (all < 0)
		return all;
	r = take_any(ret, v, all, &seen, e);
	ret->spare = r == 1 || seen < ENV_SLOTS_MAX;
	if (r == 0 && (r = spread_layers(v, e)) < 0)
		return r;
	/* Another may take a new one before we do. */
	for (int i = 0; r == 0 && i < TRIES_MAX; i++)
		if ((r = make(v, all, name, e)) == 0)
			r = take(ret, v, all, name, e);
	if (r == 0)
		return err_set(e, EAGAIN, "make a place for staged files");
	return r < 0 ? r : 0;
}

/* ---- afterwards ---- */

static bool is_empty(int fd)
{
	cleanup_dirnames struct dirnames l;

	dirnames_init(&l, openat(fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	return !dirnames_next(&l) && !l.failed;
}

/* Nothing of this command is left in it that the next one could see. */
static bool is_unused(const struct env_slot *s, const struct env *v)
{
	struct err ignored = ERR_INIT;
	cleanup_fd int fd = env_layer_fd(v, v->layers.n - 1, &ignored);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_mode == TREE_MODE &&
	       st.st_uid == geteuid() && st.st_ctim.tv_sec == s->changed.tv_sec &&
	       st.st_ctim.tv_nsec == s->changed.tv_nsec && flistxattr(fd, NULL, 0) == 0 &&
	       is_empty(fd);
}

void env_slot_remove(struct env *v)
{
	struct err ignored = ERR_INIT;
	char path[PATH_MAX];

	for (size_t i = 0; i < v->layers.n; i++)
		if (env_layer_path(v, v->layers.v[i], "", path, sizeof(path), &ignored) == 0)
			tree_remove_at(AT_FDCWD, path);
	if (v->dir)
		tree_remove_at(AT_FDCWD, v->dir);
}

bool env_slot_reuse(const struct env_slot *s, struct env *v)
{
	return s->spare && v->layers.n == 1 && v->lock_fd >= 0 && is_unused(s, v) &&
	       ftruncate(v->lock_fd, 0) == 0;
}

void env_slot_return(const struct env_slot *s, struct env *v)
{
	if (!env_slot_reuse(s, v))
		env_slot_remove(v);
}
