/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting the layers of an environment together when there are many (env_push_layer).
 *
 * The new layer shows what they show and takes their place in the environment's own list. Snapshots and
 * forks go on naming the old ones, so each can be restored as it was. The layer is on the disk before a
 * record names it; until then it is nobody's, and gc's.
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
#include "os/tree.h"
#include "snap/squash.h"

/* The roots of one part in every layer that has it; returns how many, or -errno. */
static int open_parts(const struct env *v, const char *part, int fds[ENV_LAYERS_MAX], struct err *e)
{
	int n = 0;

	for (size_t i = v->start_layers; i < v->layers.n; i++) {
		char path[PATH_MAX];
		int fd = -1, r = env_layer_path(v, v->layers.v[i], part, path, sizeof(path), e);

		if (r == 0)
			fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0) {
			fds[n++] = fd;
			continue;
		}
		if (r == 0 && errno == ENOENT && strcmp(part, "tree") != 0)
			continue; /* that directory was not ignored yet, or never written */
		if (r == 0)
			r = err_set(e, errno, "open a layer of environment %s", v->name);
		while (n > 0)
			close(fds[--n]);
		return r;
	}
	return n;
}

static int squash_part(const struct env *v, int layer, const char *part, struct err *e)
{
	int fds[ENV_LAYERS_MAX], n = open_parts(v, part, fds, e), r = MIN_OF(n, 0);
	cleanup_fd int to = -1;

	if (n > 0 && mkdirat(layer, part, 0755) < 0 && errno != EEXIST)
		r = err_set(e, errno, "make a layer");
	if (n > 0 && r == 0) {
		to = openat(layer, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = to < 0 ? err_set(e, errno, "make a layer")
			   : squash_layers(to, fds, (size_t)n, e);
	}
	while (n > 0)
		close(fds[--n]);
	return r;
}

static int squash_all(const struct env *v, const char *name, struct err *e)
{
	char path[PATH_MAX], part[24];
	cleanup_fd int layer = -1;
	int r = env_layer_path(v, name, "", path, sizeof(path), e);

	if (r < 0)
		return r;
	layer = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (layer < 0)
		return err_set(e, errno, "open a layer of environment %s", v->name);
	r = squash_part(v, layer, "tree", e);
	for (size_t i = 0; r == 0 && i < v->ignored.n; i++) {
		snprintf(part, sizeof(part), "i%zu", i);
		r = squash_part(v, layer, part, e);
	}
	/* Commands leave their layers to the kernel; what takes their place is on the disk first. */
	if (r == 0 && syncfs(layer) < 0)
		r = err_set(e, errno, "write a layer to the disk");
	return r;
}

int env_squash(struct env *v, struct err *e)
{
	char name[ENV_LAYER_NAME_LEN + 1], path[PATH_MAX];
	char *own;
	int r = env_layer_make(v, name, e);

	if (r < 0)
		return r;
	r = squash_all(v, name, e);
	own = r == 0 ? strdup(name) : NULL;
	if (r == 0 && !own)
		r = err_set(e, ENOMEM, "put layers together");
	if (r < 0) {
		struct err ignored = ERR_INIT;

		if (env_layer_path(v, name, "", path, sizeof(path), &ignored) == 0)
			tree_remove_at(AT_FDCWD, path);
		return r;
	}
	while (v->layers.n > v->start_layers)
		free(v->layers.v[--v->layers.n]);
	v->layers.v[v->layers.n++] = own;
	return 0;
}
