/* SPDX-License-Identifier: Apache-2.0 */
/* Landing in a real repository: worktree, commits, branches, merges, refusals, and out again. */
#include "land_world.h"

static const struct land_request WORKTREE = {.how = LAND_WORKTREE};
static const struct land_request SQUASH = {.how = LAND_SQUASH};

/* What most tests stage: a changed, one new below a new directory, one gone, one executable link. */
static bool stage_some(struct land_world *w)
{
	world_sh(w,
		"cd %s && printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\nnine\\n' >a && mkdir -p new/deep "
		"gone && echo n >new/deep/n && printf '#!/bin/sh\\n' >tool && chmod 755 tool && ln "
		"-s a link",
		world_upper(w));
	return world_whiteout(w, "gone/d");
}

static const char *const after_some =
	"a,b,dir/c,link,new/deep/n,tool"; /* what is there when it has landed */
#define LIST "find . -path ./.git -prune -o ! -type d -printf '%%P\\n' | LC_ALL=C sort | paste -sd,"

TEST(worktree_gets_exactly_the_staged_tree)
{
	cleanup_world struct land_world w;
	char tree[80];

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, LIST), after_some);
	CHECK_STR(world_sh(&w, "stat -c %%a tool a; readlink link; ls gone 2>&1 | wc -l"),
		"755\n644\na\n1");
	snprintf(tree, sizeof(tree), "%s", oid_hex(&w.r.tree).s);
	CHECK_STR(world_sh(&w, "git add -A && git write-tree"), tree);
	CHECK_INT(w.v.state, ENV_LANDED);
	CHECK_INT(w.r.paths.n, 5);
	CHECK_STR(world_sh(&w, "ls -A .git | grep -c croft"), "0");
	/* Again: everything is there. */
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_INT(w.r.paths.n, 0);
}

TEST(worktree_leaves_the_index_and_other_work_alone)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	world_sh(&w, "echo mine >b; echo staged >s; git add s");
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, "cat b; git diff --cached --name-only"), "mine\ns");
}

TEST(text_is_merged_and_conflicts_change_nothing)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	world_sh(&w, "sed -i 's/^1$/one/' a");
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, "paste -sd, a"), "one,2,3,4,5,6,7,8,nine");
	CHECK_INT(w.r.merged.n, 1);
	CHECK_STR(w.r.merged.v[0], "a");
	/* The same line on both sides: refused, and the rest did not land either. */
	world_sh(&w, "git checkout -q . && git clean -qfd && sed -i 's/^9$/neun/' a");
	CHECK_INT(world_land(&w, &WORKTREE), -EEXIST);
	CHECK(strstr(w.e.msg, "a: the same lines"));
	CHECK_INT(w.e.kind, ERR_REFUSED);
	CHECK(w.r.notes.n >= 4);
	CHECK_STR(world_sh(&w, LIST), "a,b,dir/c,gone/d");
	CHECK_STR(world_sh(&w, "tail -1 a"), "neun");
	/* Deleted inside, changed here; new on both sides. */
	world_sh(&w, "git checkout -q . && echo x >>gone/d");
	CHECK_INT(world_land(&w, &WORKTREE), -EEXIST);
	world_sh(&w, "git checkout -q . && echo other >tool");
	CHECK_INT(world_land(&w, &WORKTREE), -EEXIST);
	CHECK(strstr(w.e.msg, "tool"));
}

TEST(a_symlink_in_the_way_is_never_followed)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	world_sh(&w, "mkdir -p %s/new && echo n >%s/new/n", world_upper(&w), world_upper(&w));
	world_sh(&w, "mkdir ../outside && ln -s ../outside new");
	CHECK_INT(world_land(&w, &WORKTREE), -EEXIST);
	CHECK_STR(world_sh(&w, "ls ../outside"), "");
	/* Negative control: a directory of that name takes it. */
	world_sh(&w, "rm new && mkdir new");
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, "cat new/n"), "n");
}

TEST(what_is_refused_or_runs_here_does_not_land_unasked)
{
	cleanup_world struct land_world w;
	char envrc[] = ".envrc", a[] = "a", zzz[] = "zzz";
	char *const hook[] = {envrc}, *const only[] = {a}, *const none[] = {zzz};
	const struct land_request flagged = {.how = LAND_WORKTREE, .flagged = true},
				  named = {.paths = hook, .paths_n = 1},
				  one = {.paths = only, .paths_n = 1},
				  missing = {.paths = none, .paths_n = 1};

	CHECK(world_make(&w, true));
	world_sh(&w,
		"cd %s && echo evil >.envrc && echo A >a && mkdir -p sub/.git && echo x "
		">sub/.git/config",
		world_upper(&w));
	CHECK_INT(world_land(&w, &flagged), -EPERM);
	CHECK(strstr(w.e.msg, "sub/.git"));
	CHECK_INT(world_land(&w, &missing), -EINVAL);
	CHECK_INT(world_land(&w, &one), 0);
	CHECK_STR(world_sh(&w, "cat a; ls -A"), "A\n.git\na\nb\ndir\ngone");
	world_sh(&w, "rm -rf %s/sub", world_upper(&w));
	CHECK_INT(world_land(&w, &WORKTREE), -EPERM);
	CHECK(strstr(w.e.msg, ".envrc"));
	CHECK_INT(world_land(&w, &named), 0);
	CHECK_STR(world_sh(&w, "cat .envrc"), "evil");
}

TEST(a_tree_or_a_review_binds)
{
	cleanup_world struct land_world w;
	cleanup_changes struct changes c = {0};
	struct land_request q = {.how = LAND_WORKTREE};
	char tree[80];

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(env_changes(&w.v, &c, true, &w.e), 0);
	snprintf(tree, sizeof(tree), "%s", oid_hex(&c.start_tree).s);
	q.tree = tree;
	CHECK_INT(world_land(&w, &q), -EPERM);
	/* A review that accepted nothing but b's new text. */
	world_sh(&w, "echo B >b && git add b && git write-tree >../t && git reset -q --hard");
	CHECK(oid_parse(&w.v.review.accepted, world_sh(&w, "cat ../t"), 40));
	w.v.review.tree = c.start_tree;
	CHECK_INT(world_land(&w, &WORKTREE), -EPERM);
	CHECK(strstr(w.e.msg, "changed since the review"));
	w.v.review.tree = c.tree;
	CHECK_INT(world_land(&w, &WORKTREE), -EPERM); /* b is not what the environment changed */
	world_sh(
		&w, "printf 'A\\n' >a && git add a && git write-tree >../t && git reset -q --hard");
	CHECK(oid_parse(&w.v.review.accepted, world_sh(&w, "cat ../t"), 40));
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, "git status --porcelain; cat a"), " M a\nA");
}

TEST(squash_commits_with_trailers_and_a_clean_checkout)
{
	cleanup_world struct land_world w;
	char commit[80], want[128];

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	world_sh(&w, "echo mine >>b; printf '#!/bin/sh\\ntouch ../hooked\\n' "
		     ">.git/hooks/post-commit; cp .git/hooks/post-commit "
		     ".git/hooks/reference-transaction; chmod 755 .git/hooks/*");
	CHECK_INT(world_land(&w, &SQUASH), 0);
	snprintf(commit, sizeof(commit), "%s", oid_hex(&w.r.commit).s);
	CHECK_STR(world_sh(&w, "git rev-parse HEAD"), commit);
	CHECK_STR(world_sh(&w, "git status --porcelain"), " M b");
	snprintf(want, sizeof(want), "Make it better|U|%s|agent:model-1", w.v.id);
	CHECK_STR(world_sh(&w, "git log -1 "
			       "--format='%%s|%%an|%%(trailers:key=Croft-Env,valueonly,separator=)|"
			       "%%(trailers:key=Assisted-by,valueonly,separator=)'"),
		want);
	CHECK_STR(world_sh(&w, "test -e ../hooked || echo none"), "none");
	CHECK_STR(world_sh(&w, "git log -1 | grep -c Croft-Evidence:; git fsck 2>&1; git diff "
			       "HEAD~1 --stat | tail -1"),
		"1\n 6 files changed, 5 insertions(+), 2 deletions(-)");
}

TEST(squash_refuses_what_is_not_committed_where_it_lands)
{
	cleanup_world struct land_world w;
	struct stat st;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	world_sh(&w, "echo 10 >>a");
	CHECK_INT(world_land(&w, &SQUASH), -EEXIST);
	CHECK(strstr(w.e.msg, "not committed"));
	world_sh(&w, "git add a; git show HEAD:a >a"); /* clean on disk, not in the index */
	CHECK_INT(world_land(&w, &SQUASH), -EEXIST);
	world_sh(&w, "git reset -q --hard; touch .git/index.lock");
	CHECK_INT(world_land(&w, &SQUASH), -EPERM);
	world_sh(&w, "rm .git/index.lock; touch .git/MERGE_HEAD");
	CHECK_INT(world_land(&w, &SQUASH), -EPERM);
	CHECK(strstr(w.e.msg, "a merge"));
	world_sh(&w, "rm .git/MERGE_HEAD");
	CHECK_INT(world_land(&w, &SQUASH), 0);
	CHECK(stat(world_sh(&w, "echo $PWD/.git/index.lock"), &st) < 0);
}

TEST(squash_merges_when_the_branch_moved)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	world_sh(&w, "sed -i 's/^1$/one/' a && echo e >e && git add -A && git commit -q -m two");
	CHECK_INT(world_land(&w, &SQUASH), 0);
	CHECK_STR(world_sh(&w, "git show HEAD:a | paste -sd,; git status --porcelain; git log "
			       "--format=%%s"),
		"one,2,3,4,5,6,7,8,nine\nMake it better\ntwo\none");
	CHECK_INT(w.r.merged.n, 1);
}

TEST(a_branch_is_made_or_continued_and_the_checkout_left_alone)
{
	cleanup_world struct land_world w;
	const struct land_request q = {.how = LAND_SQUASH, .branch = "croft/x", .message = "Mine"};
	const struct land_request own = {.branch = "main"}, bad = {.branch = "a..b"};

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(world_land(&w, &q), 0);
	CHECK_STR(world_sh(&w, "git status --porcelain; git log --format=%%s croft/x; git log "
			       "--format=%%s main"),
		"Mine\none\none");
	CHECK_INT(world_land(&w, &own), -EPERM);
	CHECK_INT(world_land(&w, &bad), -EINVAL);
	world_sh(&w, "echo more >%s/more", world_upper(&w));
	CHECK_INT(world_land(&w, &q), 0);
	CHECK_STR(world_sh(&w, "git log --format=%%s croft/x; git show --stat --format= croft/x"),
		"Mine\nMine\none\n more | 1 +\n 1 file changed, 1 insertion(+)");
	/* And out again, on that branch. */
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, "git show --stat --format=%%s croft/x"),
		"Revert croft env e1\n\n more | 1 -\n 1 file changed, 1 deletion(-)");
}

TEST(a_patch_is_taken_by_git_apply)
{
	cleanup_world struct land_world w;
	const struct land_request q = {.how = LAND_PATCH};
	cleanup_fd int fd = -1;
	char path[256];

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	world_sh(&w, "printf '\\000\\001\\002bin' >%s/bin", world_upper(&w));
	CHECK_INT(world_land(&w, &q), 0);
	snprintf(path, sizeof(path), "%s/p", w.top);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0 && fd_write_all(fd, w.r.patch.data, w.r.patch.len) == 0);
	CHECK_STR(world_sh(&w, "git apply --index ../p && git write-tree"), oid_hex(&w.r.tree).s);
	CHECK_INT(w.v.state, ENV_OPEN);
}

TEST(revert_takes_it_out_and_keeps_what_came_since)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(world_revert(&w, false), -EINVAL);
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	world_sh(&w, "sed -i 's/^1$/one/' a");
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, LIST), "a,b,dir/c,gone/d");
	CHECK_STR(world_sh(&w, "paste -sd, a"), "one,2,3,4,5,6,7,8,9");
	CHECK_INT(w.v.state, ENV_OPEN);
	CHECK_INT(world_revert(&w, false), -EINVAL);
	/* Committed: a commit takes it out. */
	world_sh(&w, "git checkout -q .");
	CHECK_INT(world_land(&w, &SQUASH), 0);
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, "git status --porcelain; git log --format=%%s; git diff HEAD~2"),
		"Revert croft env e1\nMake it better\none");
	CHECK_STR(world_sh(&w, "git log -1 | grep -c 'This reverts commit'"), "1");
}

TEST(a_plain_directory_takes_and_gives_back)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, false));
	CHECK_INT(w.v.kind, ENV_LIVE);
	CHECK(stage_some(&w));
	CHECK_INT(world_land(&w, &SQUASH), -EINVAL);
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, LIST), after_some);
	CHECK_STR(world_sh(&w, "ls -A | paste -sd,"), "a,b,dir,link,new,tool");
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, LIST), "a,b,dir/c,gone/d");
}

TEST(files_and_directories_change_places)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	/* dir becomes a file, b becomes a directory */
	world_sh(&w, "cd %s && echo f >dir && mkdir b && echo x >b/x", world_upper(&w));
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, LIST), "a,b/x,dir,gone/d");
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, LIST "; git status --porcelain"), "a,b,dir/c,gone/d");
	/* A file of the user's in that directory is in the way. */
	world_sh(&w, "echo u >dir/untracked");
	CHECK_INT(world_land(&w, &WORKTREE), -EEXIST);
	CHECK_STR(world_sh(&w, LIST), "a,b,dir/c,dir/untracked,gone/d");
}

TEST(line_endings_of_the_checkout_are_kept)
{
	cleanup_world struct land_world w;
	struct env_new n = {.name = "e2"};

	CHECK(world_make(&w, true));
	world_sh(&w, "echo '*.txt text eol=crlf' >.gitattributes; printf 'x\\ny\\n' >t.txt; git "
		     "add -A; git commit -q -m crlf; rm t.txt; git checkout -q t.txt");
	CHECK_STR(world_sh(&w, "grep -c $(printf '\\r') t.txt"), "2");
	env_done(&w.v);
	env_init(&w.v);
	n.workspace = w.work;
	n.home = w.top;
	n.state_dir = w.state;
	CHECK_INT(env_create(&w.v, &n, &w.e), 0);
	world_sh(&w, "printf 'x\\r\\ny\\r\\nz\\r\\n' >%s/t.txt", world_upper(&w));
	CHECK_INT(world_land(&w, &SQUASH), 0);
	CHECK_STR(world_sh(&w, "git status --porcelain; grep -c $(printf '\\r') t.txt; git show "
			       "HEAD:t.txt"),
		"3\nx\ny\nz");
}

TEST(discard_and_undo)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(stage_some(&w));
	CHECK_INT(land_discard(&w.v, &w.e), 0);
	CHECK_INT(world_land(&w, &WORKTREE), -EINVAL);
	CHECK_INT(land_undo_discard(&w.v, &w.e), 0);
	CHECK_INT(world_land(&w, &WORKTREE), 0);
	CHECK_STR(world_sh(&w, LIST), after_some);
}

TEST(names_that_are_taken_for_git_are_bad)
{
	static const char *const bad[] = {".git", ".GIT", "a/.git", "a/.Git/b", "git~1", ".git ",
		".git.", ".g\xe2\x80\x8cit", ".git::$INDEX_ALLOCATION", "/a", "a/", "a//b",
		"a/../b", ".", "a/./b", "", "git~2", "GIT~3/config", "a\\.git"};
	static const char *const good[] = {
		"a", ".gitignore", ".github/x", "git", "a.git", ".git2", "git~10x"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (land_path_good(bad[i]))
			test_fail(__FILE__, __LINE__, "%s is good", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (!land_path_good(good[i]))
			test_fail(__FILE__, __LINE__, "%s is bad", good[i]);
	CHECK(land_link_good("a/b", "../c", 4));
	CHECK(!land_link_good("a/b", "../../c", 7));
	CHECK(!land_link_good("a", "/etc", 4));
	CHECK(!land_link_good("a/b", "../.git/hooks", 13));
	/* A ".." behind a name may start from wherever that name leads. */
	CHECK(!land_link_good("d/l", "s/../x", 6));
	CHECK(!land_link_good("a", "b\0c", 3));
}
