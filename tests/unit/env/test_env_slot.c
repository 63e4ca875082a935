/* SPDX-License-Identifier: Apache-2.0 */
/* core: slots of staged runs are used again only when nothing of a command is left in them. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "env/env_impl.h"
#include "env/env_slot.h"
#include "os/tree.h"

static char state[64];

static void world(void)
{
	char made[] = "/tmp/croft-slot-XXXXXX";

	if (!mkdtemp(made))
		abort();
	snprintf(state, sizeof(state), "%s", made);
}

static void taken(struct env_slot *s, struct env *v)
{
	struct err e = ERR_INIT;

	env_init(v);
	v->state_dir = strdup(state);
	if (env_random_id(v->id, &e) < 0 || env_slot_take(s, v, &e) < 0)
		abort();
}

/* Make as many as are made before one is used again. */
static void fill(void)
{
	for (int i = 0; i < ENV_SLOTS_SPREAD; i++) {
		struct env_slot s;
		struct env v;

		taken(&s, &v);
		env_slot_return(&s, &v);
		env_done(&v);
	}
}

static bool is_there(const char *dir)
{
	return access(dir, F_OK) == 0;
}

static const char *in_layer(const struct env *v, const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/layers/%s/%s", state, v->layers.v[0], name);
	return path;
}

TEST(a_slot_that_was_not_used_is_taken_again)
{
	struct env_slot s, t;
	struct env v, w;
	char name[PATH_MAX];
	unsigned before = 0, after = 0;

	world();
	fill();
	for (int i = 0; i < 20; i++) {
		taken(&s, &v);
		taken(&t, &w); /* at the same time: another one */
		CHECK(strcmp(v.dir, w.dir) != 0);
		snprintf(name, sizeof(name), "%s", v.dir);
		env_slot_return(&s, &v);
		env_slot_return(&t, &w);
		CHECK(is_there(name) && is_there(w.dir));
		before += v.layers.n;
		after += w.layers.n;
		env_done(&v);
		env_done(&w);
	}
	CHECK(before == 20 && after == 20);
	tree_remove_at(AT_FDCWD, state);
}

TEST(a_slot_with_something_left_in_it_is_removed)
{
	static const char *const what[] = {"nothing", "file", "mode", "attribute"};

	world();
	fill();
	for (size_t i = 0; i < ARRAY_SIZE(what); i++) {
		struct env_slot s;
		struct env v;

		taken(&s, &v);
		if (i == 1)
			CHECK(mkdir(in_layer(&v, "tree/.git"), 0700) == 0);
		if (i == 2)
			CHECK(chmod(in_layer(&v, "tree"), 0700) == 0);
		if (i == 3 && setxattr(in_layer(&v, "tree"), "user.x", "y", 1, 0) < 0)
			CHECK(errno == ENOTSUP && mkdir(in_layer(&v, "tree/d"), 0700) == 0);
		env_slot_return(&s, &v);
		CHECK(is_there(v.dir) == (i == 0));
		CHECK(is_there(in_layer(&v, "tree")) == (i == 0));
		env_done(&v);
	}
	tree_remove_at(AT_FDCWD, state);
}

TEST(a_slot_of_a_killed_run_is_left_alone)
{
	struct env_slot s;
	struct env v;
	char name[PATH_MAX];

	world();
	fill();
	taken(&s, &v);
	snprintf(name, sizeof(name), "%s", v.dir);
	CHECK(pwrite(v.lock_fd, "begun", 5, 0) == 5);
	env_done(&v); /* as its end would: nobody holds it now */
	for (int i = 0; i < 40; i++) {
		taken(&s, &v);
		CHECK(strcmp(v.dir, name) != 0);
		env_slot_return(&s, &v);
		env_done(&v);
	}
	CHECK(is_there(name));
	tree_remove_at(AT_FDCWD, state);
}
