/* SPDX-License-Identifier: Apache-2.0 */
/* The environment's own commits, out of a .git that the sandbox wrote. */
#include "land_world.h"

/* git as it would run inside, writing to the upper layer's .git only. */
#define INSIDE                                                                                     \
	"export GIT_OBJECT_DIRECTORY=%s/.git/objects "                                             \
	"GIT_ALTERNATE_OBJECT_DIRECTORIES=$PWD/.git/objects "                                      \
	"GIT_INDEX_FILE=$PWD/../index GIT_AUTHOR_NAME=Agent GIT_COMMITTER_NAME=Agent; "

static const struct land_request COMMIT = {.how = LAND_COMMIT};

/* Two commits inside, and a file that is not committed. */
static bool commit_inside(struct land_world *w)
{
	const char *up = world_upper(w);

	world_sh(w,
		"cd %s && mkdir -p .git/objects .git/refs/heads && echo A >a && echo N >n && echo "
		"U >u",
		up);
	world_sh(w,
		INSIDE
		"git read-tree HEAD; base=$(git rev-parse HEAD); git update-index --add "
		"--cacheinfo 100644,$(echo A | git hash-object -w --stdin),a; c1=$(printf "
		"'First\\n\\nSigned-off-by: X\\n' | git commit-tree $(git write-tree) -p $base); "
		"git update-index --add --cacheinfo 100644,$(echo N | git hash-object -w "
		"--stdin),n; c2=$(printf 'Sec\\033[31mond\\n' | git commit-tree $(git write-tree) "
		"-p $c1); echo $c2 >%s/.git/refs/heads/main; rm $GIT_INDEX_FILE",
		up, up);
	return true;
}

TEST(commits_are_taken_over_in_the_users_name)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(commit_inside(&w));
	CHECK_INT(world_land(&w, &COMMIT), 0);
	CHECK_STR(world_sh(&w, "git log --format='%%s|%%an'; git status --porcelain; git fsck "
			       "--strict 2>&1"),
		"Make it better|U\nSec\\x1b[31mond|U\nFirst|U\none|U");
	CHECK_STR(world_sh(&w, "git log | grep -c Signed-off-by; git log | grep -c Croft-Evidence; "
			       "cat a n u"),
		"0\n3\nA\nN\nU");
	CHECK_INT(world_revert(&w, false), 0);
	CHECK_STR(world_sh(&w, "git diff HEAD~4; git log --oneline | wc -l"), "5");
}

TEST(commits_are_rebased_when_the_branch_moved)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(commit_inside(&w));
	world_sh(&w, "echo B >b && git commit -q -a -m two");
	CHECK_INT(world_land(&w, &COMMIT), 0);
	CHECK_STR(world_sh(&w, "git log --format=%%s; git status --porcelain; cat b"),
		"Make it better\nSec\\x1b[31mond\nFirst\ntwo\none\nB");
}

TEST(packs_inside_are_taken_too)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(commit_inside(&w));
	world_sh(&w,
		INSIDE "cd %s/.git/objects && find . -type f | sed 's,[./],,g' | git "
		       "--git-dir=%s/.git pack-objects -q pack/pack >../name && find . -path "
		       "'./[0-9a-f]*/*' -delete && rm pack/*.idx",
		world_upper(&w), world_upper(&w), w.work);
	CHECK_STR(
		world_sh(&w, "cd %s/.git/objects && find . -type f | wc -l", world_upper(&w)), "1");
	CHECK_INT(world_land(&w, &COMMIT), 0);
	CHECK_STR(world_sh(&w, "git log --oneline | wc -l"), "4");
}

static void refuses(const char *what, const char *line)
{
	cleanup_world struct land_world w;
	int rc;

	CHECK(world_make(&w, true));
	CHECK(commit_inside(&w));
	world_sh(&w,
		INSIDE "up=%s; base=$(git rev-parse HEAD); tip=$(cat $up/.git/refs/heads/main); %s",
		world_upper(&w), world_upper(&w), line);
	rc = world_land(&w, &COMMIT);
	if (rc >= 0)
		test_fail(__FILE__, __LINE__, "%s was taken", what);
	CHECK_STR(world_sh(&w, "git log --format=%%s; git status --porcelain; ls -A .git | grep -c "
			       "croft-"),
		"one\n0");
	CHECK(strstr(w.e.msg, "--squash") != NULL);
}

TEST(hostile_histories_are_refused)
{
	refuses("a merge", "echo $(echo m | git commit-tree $tip^{tree} -p $tip -p $base) "
			   ">$up/.git/refs/heads/main");
	refuses("another root",
		"echo $(echo m | git commit-tree $tip^{tree}) >$up/.git/refs/heads/main");
	refuses("a gitlink",
		"git read-tree $tip; git update-index --add --cacheinfo 160000,$base,sub; echo "
		"$(echo m | git commit-tree $(git write-tree) -p $tip) >$up/.git/refs/heads/main");
	refuses("a hidden .git",
		"t=$(printf '100644 blob %s\\tconfig\\n' $(echo x | git hash-object -w --stdin) | "
		"git mktree); t=$(printf '040000 tree %s\\t.GIT\\n' $t | git mktree); echo $(echo "
		"m | git commit-tree $t -p $tip) >$up/.git/refs/heads/main");
	refuses("a forged object",
		"o=$up/.git/objects/$(echo $tip | sed 's,^..,&/,'); chmod 644 $o; python3 -c "
		"\"import "
		"zlib,sys;d=zlib.decompress(open(sys.argv[1],'rb').read());open(sys.argv[1],'wb')."
		"write(zlib.compress(d.replace(b'Agent',b'Other')))\" $o");
	refuses("no object at all", "rm -rf $up/.git/objects/??");
	refuses("a symlink as HEAD", "ln -s /etc/passwd $up/.git/HEAD");
	refuses("a ref that climbs", "echo 'ref: refs/../../../x' >$up/.git/HEAD");
	refuses("a ref that git would not take",
		"mv $up/.git/refs/heads/main $up/.git/refs/heads/a.lock; echo 'ref: "
		"refs/heads/a.lock' >$up/.git/HEAD");
	refuses("a hidden ref", "mv $up/.git/refs/heads/main $up/.git/refs/heads/.a; echo 'ref: "
				"refs/heads/.a' >$up/.git/HEAD");
	refuses("a CI file on the way",
		"git read-tree $tip; git update-index --add --cacheinfo 100644,$(echo x | git "
		"hash-object -w --stdin),.github/workflows/x.yml; c=$(echo m | git commit-tree "
		"$(git write-tree) -p $tip); echo $(echo m | git commit-tree $tip^{tree} -p $c) "
		">$up/.git/refs/heads/main");
}

/* A commit with these empty files, and one that takes them away again. */
#define ON_THE_WAY(paths)                                                                          \
	"git read-tree $tip; for f in " paths                                                      \
	"; do git update-index --add --cacheinfo 100644,$(git hash-object -w --stdin < "           \
	"/dev/null),$f; done; c=$(echo m | git commit-tree $(git write-tree) -p $tip); "           \
	"echo $(echo m | git commit-tree $tip^{tree} -p $c) >$up/.git/refs/heads/main"

TEST(names_on_the_way_are_held_to_the_rules_of_the_end)
{
	refuses("a bare repository", ON_THE_WAY("d/HEAD d/objects/x d/refs/x"));
	refuses("one further down", ON_THE_WAY("e/f/d/head e/f/d/OBJECTS/x e/f/d/refs/x"));
	refuses("one with a long s", ON_THE_WAY("d/HEAD d/object\xc5\xbf/x d/ref\xc5\xbf/x"));
	refuses("one elsewhere", ON_THE_WAY("d/HEAD d/commondir"));
	refuses("files of a case", ON_THE_WAY("d/x d/X"));
	refuses("files of a normal form", ON_THE_WAY("d/\xc3\xa9 d/e\xcc\x81"));
	refuses("a directory's case", ON_THE_WAY("D/y d/y"));
	refuses("the case of what was there", ON_THE_WAY("A"));
	refuses("a depth", ON_THE_WAY("$(yes x/ | head -n 300 | tr -d '\\n')y"));
}

TEST(names_that_only_look_alike_are_taken)
{
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(commit_inside(&w));
	world_sh(&w,
		INSIDE "up=%s; tip=$(cat $up/.git/refs/heads/main); " ON_THE_WAY(
			"HEAD objects/x refs/x d/HEAD d/refs/x d/objects.x e/x f/X d-/HEAD"),
		world_upper(&w), world_upper(&w));
	CHECK_INT(world_land(&w, &COMMIT), 0);
	CHECK_STR(world_sh(&w, "git log --format=%%s | wc -l"), "6");
}

TEST(paths_go_with_squash_only)
{
	char a[] = "a";
	char *const paths[] = {a};
	const struct land_request q = {.how = LAND_COMMIT, .paths = paths, .paths_n = 1};
	const struct land_request squash = {.how = LAND_SQUASH, .paths = paths, .paths_n = 1};
	cleanup_world struct land_world w;

	CHECK(world_make(&w, true));
	CHECK(commit_inside(&w));
	CHECK_INT(world_land(&w, &q), -EINVAL);
	CHECK_INT(world_land(&w, &squash), 0);
	CHECK_STR(world_sh(&w, "git show --name-only --format="), "a");
}
