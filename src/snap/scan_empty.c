/* SPDX-License-Identifier: Apache-2.0 */
/* Does a layer say anything at all? See layer_is_empty() in scan.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "os/tree.h"
#include "snap/scan.h"

/*
 * Directories alone say nothing: overlayfs makes them on the way to a change, and croft as mount
 * points. An opaque one does.
 */
static bool dir_is_empty(int at, const char *name, int depth)
{
	cleanup_dir DIR *d = dir_list(at, name);
	struct dirent *de;
	char value[8];

	if (!d || depth >= TREE_DEPTH_MAX ||
		(depth > 0 && fgetxattr(dirfd(d), "user.overlay.opaque", value, sizeof(value)) > 0))
		return false;
	while ((errno = 0, de = readdir(d))) {
		struct stat st;

		if (str_eq(de->d_name, ".") || str_eq(de->d_name, "..") ||
			(depth == 0 && str_eq(de->d_name, ".git")))
			continue;
		if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISDIR(st.st_mode) || !dir_is_empty(dirfd(d), de->d_name, depth + 1))
			return false;
	}
	return errno == 0;
}

bool layer_is_empty(int layer_fd)
{
	return dir_is_empty(layer_fd, ".", 0);
}
