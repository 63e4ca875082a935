/* SPDX-License-Identifier: Apache-2.0 */
/* What is odd and must land exactly, or be refused before anything is touched. */
#include "env/env_ran.h"
#include "land_world.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <signal.h>

static const struct land_request WORKTREE = {.how = LAND_WORKTREE};
static const struct land_request SQUASH = {.how = LAND_SQUASH};

static void exact(struct land_world *w)
{
	char tree[80];

	snprintf(tree, sizeof(tree), "%s", oid_hex(&w->r.tree).s);
	CHECK_STR(world_sh(w, "git add -A && git write-tree"), tree);
}

TEST(odd_names_and_modes_are_exact)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	world_sh(&w,
		"cd %s && n=$(printf 'bad\\377\\001\\nname'); echo x >\"$n\"; mkdir -p ' sp "
		"ace/\"q\"'; echo y >' sp ace/\"q\"/*'; cp -p %s/b b; chmod 755 b; printf 'a\\0b' "
		">bin; : >empty; ln -s ' sp ace' lnk",
		world_upper(&w), w.work);
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, "stat -c %%a b; find . -name 'bad*' | wc -l"), "755\n2");
	exact(&w);
	world_sh(&w, "git reset -q");
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, "git status --porcelain"), "");
	CHECK_INT(world_land(&w, &SQUASH), 0);
	CHECK_STR(world_sh(&w, "git status --porcelain; git rev-parse HEAD^{tree}"),
		oid_hex(&w.r.tree).s);
}

TEST(sha256_repositories_land)
{
	cleanup_world struct land_world w;
	bool made;

	world_format = "sha256";
	made = world_make(&w, true);
	world_format = "sha1";
	CHECK(made);
	world_sh(&w, "echo A >%s/a; echo n >%s/n", world_upper(&w), world_upper(&w));
	CHECK_INT(world_land(&w, &SQUASH), 0);
	CHECK_INT(w.r.tree.n, 32);
	CHECK_STR(world_sh(&w, "git status --porcelain; git rev-parse HEAD^{tree}"),
		oid_hex(&w.r.tree).s);
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, "git diff HEAD~2; cat a | wc -l"), "9");
}

TEST(the_first_commit_of_all)
{
	cleanup_world struct land_world w;
	bool made;

	world_unborn = true;
	made = world_make(&w, true);
	world_unborn = false;
	CHECK(made);
	world_sh(&w, "echo n >%s/n", world_upper(&w));
	CHECK_INT(world_land(&w, &SQUASH), 0);
	CHECK_STR(world_sh(&w, "git log --format=%%s; git show --name-only --format=; git status "
			       "--porcelain -uno"),
		"Make it better\nn");
}

TEST(empty_directories_are_made_and_taken_back)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	world_sh(&w, "mkdir -p %s/e/f", world_upper(&w));
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, "ls -d e/f"), "e/f");
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, "ls -d e/f 2>/dev/null"), "");
}

TEST(many_files_land_and_go_again)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	world_sh(&w, "cd %s && mkdir many && cd many && seq 3000 | split -l 1 -a 4 - f",
		world_upper(&w));
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_INT(w.r.paths.n, 3000);
	exact(&w);
	world_sh(&w, "git reset -q");
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, "git status --porcelain; ls -d many 2>/dev/null"), "");
}

TEST(a_full_disk_is_met_before_anything_is_touched)
{
	struct rlimit old, low = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
	cleanup_world struct land_world w;
	int rc;

	CHECK(world_make(&w, true));
	world_sh(&w, "echo A >%s/a; head -c 3000000 /dev/zero >%s/big", world_upper(&w),
		world_upper(&w));
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &old), 0);
	low.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &low), 0);
	rc = world_land(&w, &WORKTREE);
	setrlimit(RLIMIT_FSIZE, &old);
	CHECK(rc < 0);
	CHECK_STR(world_sh(&w, "git status --porcelain; ls -A .git | grep -c croft"), "0");
	CHECK_INT(world_land(&w, &WORKTREE), 0); /* negative control */
	exact(&w);
}

TEST(a_read_only_place_is_met_before_anything_is_touched)
{
	cleanup_world struct land_world w;
	char dir[256];

	CHECK(world_make(&w, true));
	world_sh(&w, "cd %s && echo A >a && mkdir dir && echo C >dir/c", world_upper(&w));
	snprintf(dir, sizeof(dir), "%s/dir", w.work);
	if (mount(dir, dir, NULL, MS_BIND, NULL) < 0)
		SKIP("mounting needs root");
	mount(NULL, dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL);
	CHECK(world_land(&w, &WORKTREE) < 0);
	umount(dir);
	CHECK_STR(world_sh(&w, "git status --porcelain"), "");
	CHECK_INT(world_land(&w, &WORKTREE), 0);
}

TEST(another_file_system_below_the_workspace)
{
	cleanup_world struct land_world w;
	char dir[256];
	int rc;

	CHECK(world_make(&w, true));
	world_sh(&w, "cd %s && echo A >a && mkdir dir && echo C >dir/c && echo N >dir/n",
		world_upper(&w));
	snprintf(dir, sizeof(dir), "%s/dir", w.work);
	if (mount("croft", dir, "tmpfs", 0, NULL) < 0)
		SKIP("mounting needs root");
	world_sh(&w, "echo c >dir/c");
	rc = world_land(&w, &WORKTREE);
	world_sh(&w, "ls -A dir | paste -sd, >../seen; cat dir/c dir/n >>../seen");
	umount(dir);
	CHECK_INT(rc, 0);
	CHECK_STR(world_sh(&w, "cat ../seen; cat a"), "c,n\nC\nN\nA");
}

/* ------------------------------------------------------------------ provenance */

/* A command in the ledger: receipt NULL is one that was cut short. */
static int note_command(struct land_world *w, const char *tier, const char *policy)
{
	char receipt[512];
	struct ledger_event ev = {.kind = tier ? EVENT_EXEC : EVENT_INTERRUPTED,
		.env_id = w->v.id,
		.env_name = w->v.name,
		.predicate_type = PREDICATE_TRACE,
		.predicate = "",
		.title = "a command"};

	clock_gettime(CLOCK_REALTIME, &ev.time);
	snprintf(receipt, sizeof(receipt), "{\"tier\": \"%s\", \"policy\": {\"digest\": \"%s\"}}",
		tier ? tier : "", policy);
	ev.files[ev.files_n++] = (struct ledger_file){
		tier ? "receipt.json" : "stdout.txt", receipt, strlen(receipt)};
	return env_event(&w->v, &ev, &w->e);
}

TEST(provenance_tells_the_weakest_boundary_that_ran)
{
	static const char
		one[] = "1111111111111111111111111111111111111111111111111111111111111111",
		two[] = "2222222222222222222222222222222222222222222222222222222222222222";
	cleanup_world struct land_world w;
	struct land_ran ran;

	CHECK(world_make(&w, true));
	/* What was asked for does not count. */
	CHECK(strlist_add(&w.v.args, "--tier=namespace"));
	land_ran(&w.v, &ran);
	CHECK(ran.tier == NULL);
	CHECK_STR(ran.policy, "");
	CHECK_INT(note_command(&w, "vm", one), 0); /* by a later version */
	land_ran(&w.v, &ran);
	CHECK_STR(ran.tier, "vm");
	CHECK_INT(note_command(&w, "namespace", one), 0);
	land_ran(&w.v, &ran);
	CHECK_STR(ran.tier, "namespace");
	CHECK_STR(ran.policy, one);
	CHECK_INT(note_command(&w, "process", one), 0);
	CHECK_INT(note_command(&w, "namespace", two), 0);
	land_ran(&w.v, &ran);
	CHECK_STR(ran.tier, "process");
	CHECK_STR(ran.policy, two);
	CHECK_INT(note_command(&w, NULL, ""), 0);
	land_ran(&w.v, &ran);
	CHECK_STR(ran.tier, "unknown");
}

TEST(a_boundary_that_cannot_be_compared_is_unknown)
{
	static const char *const odd[] = {"quantum", "wasm", "auto", ""};

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		cleanup_world struct land_world w;
		struct land_ran ran;

		CHECK(world_make(&w, true));
		CHECK_INT(note_command(&w, odd[i], ""), 0);
		CHECK_INT(note_command(&w, "namespace", ""), 0);
		land_ran(&w.v, &ran);
		CHECK_STR(ran.tier, "unknown");
	}
}

TEST(nothing_lands_without_a_ledger)
{
	const struct land_request q = {.how = LAND_WORKTREE};
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	world_sh(&w, "echo new >%s/n", world_upper(&w));
	world_sh(&w, "git update-ref -d refs/croft/env/%s", w.v.id);
	w.v.tip_known = false;
	CHECK(world_land(&w, &q) < 0);
	CHECK(strstr(w.e.msg, "evidence"));
	CHECK_STR(world_sh(&w, "git status --porcelain; ls -A .git | grep croft"), "");
	CHECK(land_discard(&w.v, &w.e) < 0);
	CHECK_STR(world_sh(&w, "cat %s/n", world_upper(&w)), "new");
}
