/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The upper layer of an environment that is up, copied: what its snapshot or fork rests on.
 *
 * A mounted overlay's layers cannot be swapped under open files, so the cost grows with what was changed;
 * where the file system can, contents are shared (reflinks). Everything in the sandbox stands still
 * meanwhile.
 * Failure: the copy is removed again; whatever happens, the sandbox goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_beside.h"
#include "env/env_impl.h"
#include "os/clock.h"
#include "os/tree.h"
#include "snap/copy.h"
#include "snap/squash.h"

/* 1 and a descriptor, 0: this layer has no such part. */
static int open_part(const struct env *v, const char *layer, const char *part, bool make, int *ret,
	struct err *e)
{
	char path[PATH_MAX];

	if (env_layer_path(v, layer, part, path, sizeof(path), e) < 0)
		return -e->errnum;
	if (make && mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_set(e, errno, "make a layer of environment %s", v->name);
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret >= 0)
		return 1;
	return errno == ENOENT ? 0 : err_set(e, errno, "open a layer of environment %s", v->name);
}

static int copy_part(const struct env *v, const char *to_name, const char *part, struct copy_stats *st,
	struct err *e)
{
	cleanup_fd int from = -1, to = -1;
	int r = open_part(v, v->layers.v[v->layers.n - 1], part, false, &from, e);

	if (r <= 0)
		return r;
	r = open_part(v, to_name, part, true, &to, e);
	return r < 0 ? r : squash_copy(to, from, st, e);
}

static int copy_parts(const struct env *v, const char *to_name, struct copy_stats *st, struct err *e)
{
	cleanup_fd int top = -1;
	int r = copy_part(v, to_name, "tree", st, e);
	char part[24];

	for (size_t i = 0; r >= 0 && i < v->ignored.n; i++) {
		snprintf(part, sizeof(part), "i%zu", i);
		r = copy_part(v, to_name, part, st, e);
	}
	if (r >= 0)
		r = open_part(v, to_name, "tree", false, &top, e);
	if (r < 0)
		return r;
	return syncfs(top) < 0 ? err_set(e, errno, "write a layer to the disk") : 0;
}

int env_copy_upper(struct env *v, char ret[ENV_LAYER_NAME_LEN + 1], struct err *e)
{
	struct err ignored = ERR_INIT;
	struct copy_stats st = {0};
	uint64_t t0 = clock_ms();
	cleanup_buf struct buf note = BUF_INIT(256);
	char path[PATH_MAX];
	int r = env_layer_make(v, ret, e), r2;

	if (r < 0)
		return r;
	r = env_beside_hold(v, e);
	if (r == 0) {
		r = copy_parts(v, ret, &st, e);
		r2 = env_beside_release(v, r < 0 ? &ignored : e);
		r = r < 0 ? r : r2; /* it ended meanwhile: who knows what was copied */
	}
	if (r < 0) {
		if (env_layer_path(v, ret, "", path, sizeof(path), &ignored) == 0)
			tree_remove_at(AT_FDCWD, path);
		return r;
	}
	buf_addf(&note,
		"it is up: its commands stood still for %llu ms, while %llu bytes in %llu files were copied",
		(unsigned long long)(clock_ms() - t0), (unsigned long long)st.bytes,
		(unsigned long long)st.files);
	if (st.reflinked)
		buf_addf(&note, " (%llu of them share their contents)", (unsigned long long)st.reflinked);
	strlist_add(&v->notes, buf_str(&note));
	return 0;
}
