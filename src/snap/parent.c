/* SPDX-License-Identifier: Apache-2.0 */
/* Parents of paths: see parent.h. */
#include "snap/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "os/path.h"

int parent_open(int root, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *parent = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");

	*ret_name = slash ? slash + 1 : path;
	if (!parent)
		return -ENOMEM;
	return path_open(root, parent, O_RDONLY | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
}

int parent_make(int root, int like, const char *path)
{
	for (const char *s = path; (s = strchr(s, '/')); s++) {
		cleanup_free char *dir = strndup(path, (size_t)(s - path));
		const char *name = NULL;
		cleanup_fd int at = dir ? parent_open(root, dir, &name) : -ENOMEM;
		cleanup_fd int src = -1;
		struct stat st;

		if (at < 0)
			return at;
		if (mkdirat(at, name, 0777) < 0) {
			if (errno != EEXIST)
				return -errno;
			continue;
		}
		src = path_open(like, dir, O_PATH | O_DIRECTORY, PATH_NO_SYMLINKS | PATH_BENEATH);
		if (src >= 0 && fstat(src, &st) == 0)
			fchmodat(at, name, st.st_mode & 0777, 0);
	}
	return 0;
}
