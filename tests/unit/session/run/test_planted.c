/* SPDX-License-Identifier: Apache-2.0 */
/* session/run/planted: what was there before the command is told from what is new, by any clock. */
#include "test.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/run/planted.h"

struct world {
	char top[64];
	struct policy_rule rule;
	struct policy policy;
	struct strlist before;
	struct record record;
	struct timespec since;
	struct planted_scope scope;
	struct planted found;
};

static void put(const char *top, const char *name, const char *text)
{
	char path[PATH_MAX];
	cleanup_fd int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		test_fail(__FILE__, __LINE__, "cannot write %s", path);
}

static void make_dir(const char *top, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	if (mkdir(path, 0700) < 0)
		test_fail(__FILE__, __LINE__, "cannot make %s", path);
}

static bool is_there(const struct world *w, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", w->top, name);
	return access(path, F_OK) == 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

static void world_done(struct world *w)
{
	planted_done(&w->found);
	record_done(&w->record);
	strlist_done(&w->before);
	nftw(w->top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
#define cleanup_world __attribute__((cleanup(world_done)))

#define MINE "[core]\n\tbare = false\n[alias]\n\tst = !mine\n"
#define EVIL "[core]\n\tbare = false\n[alias]\n\tst = !evil\n"

/* A repository with configuration and a hook of its user's, a submodule's inside, and a pointer to it. */
static void world_init(struct world *w)
{
	*w = (struct world){.top = "/tmp/croft-unit-planted-XXXXXX",
		.before = STRLIST_INIT(2 * PLANTED_REPOS_MAX)};
	if (!mkdtemp(w->top))
		test_fail(__FILE__, __LINE__, "cannot make a directory");
	for (const char *const *d = (const char *const[]){"r", "r/.git", "r/.git/objects",
		     "r/.git/objects/info", "r/.git/refs", "r/.git/hooks", "r/.git/modules",
		     "r/.git/modules/m", "r/.git/modules/m/objects", "r/.git/modules/m/refs", "r/m",
		     NULL};
		*d; d++)
		make_dir(w->top, *d);
	put(w->top, "r/.git/HEAD", "ref: refs/heads/main\n");
	put(w->top, "r/.git/config", MINE);
	put(w->top, "r/.git/hooks/pre-commit", "#!/bin/sh\nmine\n");
	put(w->top, "r/.git/modules/m/HEAD", "ref: refs/heads/main\n");
	put(w->top, "r/.git/modules/m/config", MINE);
	put(w->top, "r/m/.git", "gitdir: ../.git/modules/m\n");
	w->rule = (struct policy_rule){.access = ACCESS_WRITE, .path = w->top};
	w->policy = (struct policy){.rules = &w->rule, .rules_n = 1};
	record_init(&w->record, &w->policy, w->top);
	w->scope = (struct planted_scope){.policy = &w->policy,
		.home = "/nonexistent",
		.run_id = "id",
		.since = &w->since,
		.before = &w->before};
}

static void look(struct world *w)
{
	planted_look(&w->found, &w->scope, &w->record);
}

/* With a clock that is behind, all that was written before seems to be written after. */
TEST(a_repository_that_was_there_stays_though_the_clock_is_behind)
{
	cleanup_world struct world w;

	world_init(&w);
	planted_before(&w.scope);
	planted_settle(&w.scope);
	put(w.top, "r/.git/HEAD", "ref: refs/heads/other\n");
	put(w.top, "r/.git/ORIG_HEAD", "x");
	make_dir(w.top, "r/.git/objects/ab");
	look(&w);
	CHECK_INT(w.found.n, 0);
	CHECK(is_there(&w, "r/.git/config"));
	CHECK(is_there(&w, "r/m/.git"));
}

TEST(what_git_executes_was_changed_by_any_clock)
{
	static const char *const changes[][2] = {{"r/.git/config", EVIL},
		{"r/.git/hooks/pre-commit", "#!/bin/sh\nevil\n"}, {"r/.git/hooks/post-merge", "x"},
		{"r/.git/config.worktree", "x"}, {"r/.git/commondir", "x"},
		{"r/.git/objects/info/alternates", "/x\n"}};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		for (int ahead = 0; ahead < 2; ahead++) {
			cleanup_world struct world w;

			world_init(&w);
			w.since.tv_sec = ahead ? INT32_MAX : 0;
			planted_before(&w.scope);
			planted_settle(&w.scope);
			put(w.top, changes[i][0], changes[i][1]);
			look(&w);
			CHECK(w.found.n == 1 && w.found.v[0].moved);
			CHECK(!is_there(&w, "r/.git"));
		}
}

TEST(a_pointer_to_a_repository_was_changed_by_any_clock)
{
	for (int ahead = 0; ahead < 2; ahead++) {
		cleanup_world struct world w;

		world_init(&w);
		w.since.tv_sec = ahead ? INT32_MAX : 0;
		planted_before(&w.scope);
		planted_settle(&w.scope);
		put(w.top, "r/m/.git", "gitdir: ../.git/modules/e\n");
		look(&w);
		CHECK(w.found.n == 1 && w.found.v[0].moved);
		CHECK(!is_there(&w, "r/m/.git"));
		CHECK(is_there(&w, "r/.git"));
	}
}

TEST(an_index_was_changed_by_any_clock)
{
	for (int ahead = 0; ahead < 2; ahead++) {
		cleanup_world struct world w;

		world_init(&w);
		w.since.tv_sec = ahead ? INT32_MAX : 0;
		put(w.top, "r/.git/index", "its user's");
		planted_before(&w.scope);
		planted_settle(&w.scope);
		look(&w);
		CHECK_INT(w.found.n, 0); /* as it was, whatever it is */
		put(w.top, "r/.git/index", "the command's");
		look(&w);
		CHECK(w.found.n == 1 && w.found.v[0].moved);
		CHECK(!is_there(&w, "r/.git/index"));
		CHECK(is_there(&w, "r/.git/hooks/pre-commit"));
	}
}

TEST(hooks_behind_a_symlink_are_looked_at)
{
	static const char *const changes[] = {NULL, "hooks/pre-commit", "hooks/post-merge"};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		cleanup_world struct world w;
		char path[2][PATH_MAX];

		world_init(&w);
		snprintf(path[0], sizeof(path[0]), "%s/r/.git/hooks", w.top);
		snprintf(path[1], sizeof(path[1]), "%s/hooks", w.top);
		CHECK(rename(path[0], path[1]) == 0 && symlink("../../hooks", path[0]) == 0);
		planted_before(&w.scope);
		planted_settle(&w.scope);
		put(w.top, "r/.git/ORIG_HEAD", "x");
		if (changes[i])
			put(w.top, changes[i], "#!/bin/sh\nevil\n");
		look(&w);
		CHECK_INT(w.found.n, changes[i] ? 1 : 0);
		CHECK(is_there(&w, "r/.git") == !changes[i]);
	}
}

/* It is told once, with where its HEAD is, and what is inside it is left alone. */
TEST(what_was_put_away_is_not_put_away_again)
{
	cleanup_world struct world w;
	char *inside = NULL;

	world_init(&w);
	planted_before(&w.scope);
	planted_settle(&w.scope);
	put(w.top, "r/.git/config", EVIL);
	look(&w);
	CHECK_INT(w.found.n, 1);
	CHECK(w.found.v[0].moved && w.found.v[0].head);
	CHECK(strncmp(w.found.v[0].head, w.found.v[0].moved, strlen(w.found.v[0].moved)) == 0);
	CHECK(access(w.found.v[0].head, F_OK) == 0);
	CHECK(asprintf(&inside, "%s/HEAD", w.found.v[0].moved) > 0);
	CHECK(access(inside, F_OK) < 0); /* else Git would take the directory for a repository */
	free(inside);
	CHECK(asprintf(&inside, "%s/modules/m/HEAD", w.found.v[0].moved) > 0);
	CHECK(access(inside, F_OK) == 0);
	free(inside);
}

/* The control: a repository that was not there, with one inside it, is the command's throughout. */
TEST(what_is_inside_a_repository_of_the_commands_is_put_away)
{
	cleanup_world struct world w;
	char path[2][PATH_MAX];

	world_init(&w);
	planted_before(&w.scope);
	planted_settle(&w.scope);
	snprintf(path[0], sizeof(path[0]), "%s/r", w.top);
	snprintf(path[1], sizeof(path[1]), "%s/s", w.top);
	CHECK(rename(path[0], path[1]) == 0);
	look(&w);
	CHECK(w.found.n >= 2);
	CHECK(!is_there(&w, "s/.git"));
	for (size_t i = 0; i < w.found.n; i++)
		CHECK(w.found.v[i].moved);
}

TEST(the_clock_passes_what_was_met)
{
	struct planted_scope s = {0};
	struct timespec now;
	int64_t ahead_ns;

	clock_gettime(CLOCK_REALTIME_COARSE, &s.newest);
	s.newest.tv_nsec += 20000000;
	if (s.newest.tv_nsec >= 1000000000) {
		s.newest.tv_nsec -= 1000000000;
		s.newest.tv_sec++;
	}
	planted_settle(&s);
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	ahead_ns = (int64_t)(s.newest.tv_sec - now.tv_sec) * 1000000000 + s.newest.tv_nsec -
		   now.tv_nsec;
	CHECK(ahead_ns < 0);
	s.newest = (struct timespec){.tv_sec = now.tv_sec + 3600};
	planted_settle(&s);
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	CHECK(now.tv_sec < s.newest.tv_sec);
}
