/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a tree: see footprint.h. */
#include "os/footprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/tree.h"

#define STAT_BLOCK_B 512u

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
