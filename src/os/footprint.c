/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a tree: see footprint.h. */
#include "os/footprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/proctree.h"
#include "os/tree.h"

#define STAT_BLOCK_B 512u
#define OVERLAY_MAGIC 0x794c7630

static void add_level(struct footprint *f, int at, const char *name, uint64_t enough_b, int depth)
{
	cleanup_dir DIR *d = depth < FOOTPRINT_DEPTH_MAX ? dir_list(at, name) : NULL;
	struct dirent *de;

	if (!d)
		f->hidden = true;
	while (d && f->used_b <= enough_b && (de = readdir(d))) {
		struct stat st;

		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
			fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		f->cut = f->cut || (f->entries_max && f->entries == f->entries_max);
		if (f->cut)
			return;
		f->entries++;
		/* The other names of a file lie in the same tree, and each is met once. */
		f->used_b += (uint64_t)st.st_blocks * STAT_BLOCK_B /
			     (S_ISDIR(st.st_mode) ? 1 : MAX_OF((uint64_t)st.st_nlink, 1u));
		if (S_ISDIR(st.st_mode))
			add_level(f, dirfd(d), de->d_name, enough_b, depth + 1);
	}
}

void footprint_add(struct footprint *f, int fd, uint64_t enough_b)
{
	add_level(f, fd, ".", enough_b, 0);
}

/* Files met so far: several processes may hold the same. */
struct unnamed {
	struct {
		dev_t dev;
		ino_t ino;
	} v[FOOTPRINT_OPEN_MAX];
	size_t n;
};

static bool is_new(struct footprint *f, struct unnamed *u, const struct stat *st)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->v[i].dev == st->st_dev && u->v[i].ino == st->st_ino)
			return false;
	if (u->n == FOOTPRINT_OPEN_MAX) {
		f->hidden = true;
		return false;
	}
	u->v[u->n].dev = st->st_dev;
	u->v[u->n++].ino = st->st_ino;
	return true;
}

static void add_open(struct footprint *f, struct unnamed *u, pid_t pid)
{
	cleanup_dir DIR *d = NULL;
	struct dirent *de;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (de = readdir(d))) {
		struct statfs fs;
		struct stat st;

		/* Looked at through the link, which needs no name; nothing is opened. */
		if (de->d_name[0] == '.' || fstatat(dirfd(d), de->d_name, &st, 0) < 0 ||
			!S_ISREG(st.st_mode) || st.st_nlink > 0 || st.st_blocks == 0 ||
			!is_new(f, u, &st) ||
			snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", pid, de->d_name) >=
				(int)sizeof(path) ||
			statfs(path, &fs) < 0 || fs.f_type != OVERLAY_MAGIC)
			continue;
		f->used_b += (uint64_t)st.st_blocks * STAT_BLOCK_B;
	}
}

void footprint_add_unnamed(struct footprint *f, pid_t root)
{
	cleanup_free pid_t *pids = calloc(FOOTPRINT_PIDS_MAX, sizeof(*pids));
	cleanup_free struct unnamed *u = calloc(1, sizeof(*u));
	size_t n = pids && u ? proctree_below(root, pids, FOOTPRINT_PIDS_MAX) : 0;

	f->hidden |= !pids || !u || n == FOOTPRINT_PIDS_MAX;
	for (size_t i = 0; i < n; i++)
		add_open(f, u, pids[i]);
}
