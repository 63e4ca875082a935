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
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	char value[8];

	if (!d) {
		close_fd(&fd);
		return false;
	}
	if (depth >= TREE_DEPTH_MAX ||
		(depth > 0 && fgetxattr(fd, "user.overlay.opaque", value, sizeof(value)) > 0))
		return false;
	while ((errno = 0, de = readdir(d))) {
		struct stat st;

		if (str_eq(de->d_name, ".") || str_eq(de->d_name, "..") ||
			(depth == 0 && str_eq(de->d_name, ".git")))
			continue;
		if (fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
			!dir_is_empty(fd, de->d_name, depth + 1))
			return false;
	}
	return errno == 0;
}

bool layer_is_empty(int layer_fd)
{
	return dir_is_empty(layer_fd, ".", 0);
}
