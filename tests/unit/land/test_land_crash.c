/* SPDX-License-Identifier: Apache-2.0 */
/* A landing that dies at every one of its steps, and what the next opening makes of it. */
#include "land_world.h"

#include "ledger/chain/ledger.h"

#define LIST "find . -path ./.git -prune -o ! -type d -printf '%%P\\n' | LC_ALL=C sort | paste -sd,"
#define BEFORE "a,b,dir/c,gone/d"
#define AFTER "a,b,dir/c,link,new/deep/n,tool"

static bool stage_some(struct land_world *w)
{
	world_sh(w,
		"cd %s && echo A >a && mkdir -p new/deep gone && echo n >new/deep/n && echo t "
		">tool && chmod 755 tool && ln -s a link",
		world_upper(w));
	return world_whiteout(w, "gone/d");
}

/* Land in a child that ends at this step; its exit status. */
static int land_and_die(struct land_world *w, const struct land_request *q, const char *step)
{
	int status = 0;
	pid_t pid;

	env_done(&w->v);
	env_init(&w->v);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct land_result r = {0};
		struct err e = ERR_INIT;
		struct env v;

		setenv("CROFT_CRASH_AT", step, 1);
		env_init(&v);
		if (env_open(&v, "e1", ENV_LOCK_WRITE, &e) < 0)
			_exit(98);
		_exit(land(&v, q, &r, &e) < 0 ? 97 : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const struct {
	const char *step;
	bool landed; /* after recovery */
} steps[] = {{"land.planned", false}, {"land.staged", false}, {"land.intent", true},
	{"land.file", true}, {"land.file:2", true}, {"land.file:3", true}, {"land.file:5", true},
	{"land.index", true}, {"land.ref", true}, {"land.event", true}, {"land.done", true}};

static uint64_t events_of(struct land_world *w)
{
	struct ledger_tip tip = {0};

	return ledger_tip(&tip, &w->v.repo, w->v.id, &w->e) == 0 ? tip.seq : 0;
}

static bool verifies(struct land_world *w)
{
	struct ledger_verdict verdict = {0};
	struct ledger_tip tip = {0};

	return ledger_tip(&tip, &w->v.repo, w->v.id, &w->e) == 0 &&
	       ledger_verify(&w->v.repo, &tip.commit, NULL, &verdict, &w->e) == 0 && verdict.good;
}

static void die_everywhere(bool git, enum land_how how)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const struct land_request q = {.how = how};
		cleanup_world struct land_world w;
		uint64_t events;

		CHECK(world_make(&w, git));
		CHECK(stage_some(&w));
		events = events_of(&w);
		CHECK_INT(land_and_die(&w, &q, steps[i].step), 137);
		if (!world_open(&w))
			test_fail(__FILE__, __LINE__, "%s: %s", steps[i].step, w.e.msg);
		if (!str_eq(world_sh(&w, LIST), steps[i].landed ? AFTER : BEFORE))
			test_fail(__FILE__, __LINE__, "%s: %s", steps[i].step, world_sh(&w, LIST));
		CHECK_INT(w.v.state, steps[i].landed ? ENV_LANDED : ENV_OPEN);
		CHECK(verifies(&w));
		CHECK(steps[i].landed ? events_of(&w) > events : events_of(&w) == events);
		CHECK_STR(world_sh(&w, "ls -A . .git 2>/dev/null | grep -c -e croft-landing -e "
				       "croft-index -e lock"),
			"0");
		if (git && how == LAND_SQUASH)
			CHECK_STR(world_sh(&w, "git status --porcelain; git log --oneline | wc -l; "
					       "git fsck 2>&1"),
				steps[i].landed ? "2"
						: world_sh(&w, "printf '1\\n'; git fsck 2>&1"));
		/* It can land, or be taken out, as if nothing had been. */
		if (steps[i].landed)
			CHECK_INT(world_revert(&w, false), 0);
		else
			CHECK_INT(world_land(&w, &q), 0);
		CHECK_STR(world_sh(&w, LIST), steps[i].landed ? BEFORE : AFTER);
	}
}

TEST(a_worktree_landing_survives_a_crash_at_every_step)
{
	die_everywhere(true, LAND_WORKTREE);
}

TEST(a_commit_survives_a_crash_at_every_step)
{
	die_everywhere(true, LAND_SQUASH);
}

TEST(a_plain_directory_survives_a_crash_at_every_step)
{
	die_everywhere(false, LAND_WORKTREE);
}

TEST(what_somebody_wrote_meanwhile_is_kept_and_the_rest_taken_back)
{
	const struct land_request q = {.how = LAND_WORKTREE};
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(land_and_die(&w, &q, "land.file:3"), 137);
	world_sh(&w, "echo somebody >tool"); /* not placed yet, and nothing was there */
	CHECK(world_open(&w));
	CHECK_STR(world_sh(&w, LIST), "a,b,dir/c,gone/d,tool");
	CHECK_STR(world_sh(&w, "cat tool; git status --porcelain"), "somebody\n?? tool");
	CHECK_INT(w.v.state, ENV_OPEN);
	CHECK(w.v.notes.n >= 1);
	CHECK(verifies(&w));
}

TEST(a_placed_file_that_was_edited_leaves_its_old_self_behind)
{
	const struct land_request q = {.how = LAND_WORKTREE};
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(land_and_die(&w, &q, "land.file:3"), 137); /* gone/d, a, link */
	world_sh(&w, "echo edited >a");
	CHECK(world_open(&w));
	CHECK_STR(world_sh(&w, LIST), BEFORE);
	CHECK_STR(world_sh(&w, "cat a; cat .git/croft-landing-*-kept-*/n0 | tail -1"), "edited\n9");
	CHECK(w.v.notes.n >= 2);
}

TEST(a_branch_that_moved_meanwhile_wins)
{
	const struct land_request q = {.how = LAND_SQUASH};
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(land_and_die(&w, &q, "land.index"), 137);
	world_sh(&w, "git commit -q --allow-empty -m theirs -o");
	CHECK(world_open(&w));
	CHECK_STR(world_sh(&w, LIST "; git log --format=%%s; git status --porcelain"),
		BEFORE "\ntheirs\none");
	CHECK_INT(w.v.state, ENV_OPEN);
}

TEST(another_environment_completes_what_was_left)
{
	const struct land_request q = {.how = LAND_WORKTREE};
	struct env_new n = {.name = "e2", .policy_text = "version: 1\n"};
	cleanup_world struct land_world w;
	char upper[512];

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(land_and_die(&w, &q, "land.file:2"), 137);
	n.workspace = w.work;
	n.home = w.top;
	n.state_dir = w.state;
	CHECK_INT(env_create(&w.v, &n, &w.e), 0);
	snprintf(upper, sizeof(upper), "%s", world_upper(&w));
	world_sh(&w, "echo other >%s/other", upper);
	CHECK_INT(world_land(&w, &q), 0);
	CHECK_STR(world_sh(&w, LIST), "a,b,dir/c,link,new/deep/n,other,tool");
	CHECK_INT(w.v.notes.n, 1);
}

TEST(a_damaged_intent_is_refused)
{
	const struct land_request q = {.how = LAND_WORKTREE};
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(land_and_die(&w, &q, "land.intent"), 137);
	world_sh(
		&w, "cd %s/envs/e1/landing && head -3 intent.json >x && mv x intent.json", w.state);
	CHECK(!world_open(&w));
	CHECK(strstr(w.e.msg, "damaged"));
	CHECK_STR(world_sh(&w, LIST), BEFORE);
	world_sh(&w,
		"cd %s/envs/e1/landing && printf '{\"schema\":\"croft.landing/v1\"}' >intent.json",
		w.state);
	CHECK(!world_open(&w));
}
