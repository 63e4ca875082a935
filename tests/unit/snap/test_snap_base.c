/* SPDX-License-Identifier: Apache-2.0 */
/* snap/base, dirty layers, ignored files: against what git itself says of the same repository. */
#include "test.h"

#include "git/treemap.h"
#include "snap/base.h"
#include "snap/ignored.h"
#include "snap/scan.h"
#include "snap_world.h"

struct made {
	struct repo repo;
	struct base base;
	struct oid commit, tree;
};

static void made_done(struct made *m)
{
	base_done(&m->base);
	repo_done(&m->repo);
}
#define cleanup_made __attribute__((cleanup(made_done)))

static int get(struct made *m, const char *repo, const char *rev, struct err *e)
{
	int r;

	*m = (struct made){0};
	r = repo_open(&m->repo, world_path(repo), world_path("state"), e);
	if (r == 0)
		r = repo_resolve(&m->repo, rev, &m->commit, &m->tree, e);
	if (r == 0)
		r = base_get(&m->base, &m->repo, &m->commit, &m->tree, world_path("state"), NULL,
			NULL, e);
	return r;
}

#define GET(m, repo)                                                                               \
	do {                                                                                       \
		struct err get_e_ = ERR_INIT;                                                      \
		if (get(m, repo, "HEAD", &get_e_) < 0) {                                           \
			test_fail(__FILE__, __LINE__, "%s", get_e_.msg);                           \
			return;                                                                    \
		}                                                                                  \
	} while (0)

/* git in the base as an environment has it: its HEAD on top, objects where the host has them. */
static const char *inside(const struct made *m)
{
	static char text[8192];
	size_t n = (size_t)snprintf(text, sizeof(text),
		"cd %s; export GIT_ALTERNATE_OBJECT_DIRECTORIES=", m->base.tree);

	for (size_t i = 0; i < m->base.objects.n; i++)
		n += (size_t)snprintf(
			text + n, sizeof(text) - n, "%s%s", i ? ":" : "", m->base.objects.v[i]);
	snprintf(text + n, sizeof(text) - n, "; export GIT_OPTIONAL_LOCKS=0; ");
	return text;
}

TEST(a_base_is_a_checkout_and_is_shared)
{
	cleanup_made struct made a = {0}, b = {0};
	struct err e = ERR_INIT;
	int dir;

	CHECK(world_make());
	CHECK(world_sh(
		      "git init -q r; cd r; mkdir d; echo a > a; echo x > d/x.sh; chmod +x d/x.sh; "
		      "ln -s a l; git add -A; git commit -qm 1; echo two > a; git commit -qam 2") ==
		0);
	GET(&a, "r");
	CHECK(world_sh("diff -r --no-dereference -x .git r %s && test -x %s/d/x.sh && test -L %s/l",
		      a.base.tree, a.base.tree, a.base.tree) == 0);
	/* the index is right for these files: nothing is read, nothing differs */
	CHECK(world_sh("%s git diff-files --quiet && test -z \"$(git diff-index --cached %s)\"",
		      inside(&a), oid_hex(&a.tree).s) == 0);
	GET(&b, "r");
	CHECK_STR(b.base.key, a.base.key);
	made_done(&b);
	CHECK(get(&b, "r", "HEAD~1", &e) == 0);
	CHECK(strcmp(b.base.key, a.base.key) != 0);
	CHECK(world_sh("test -z \"$(ls -A state/bases | grep '^\\.')\"") == 0);
	dir = open(a.base.tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(faccessat(dir, ".git/objects/info/alternates", F_OK, 0) == 0);
	close(dir);
}

static void count(void *arg, unsigned percent)
{
	unsigned *last = arg;

	*last = percent >= *last ? percent : 1000;
}

TEST(progress_is_told_and_the_result_is_the_same)
{
	cleanup_made struct made m = {0};
	struct err e = ERR_INIT;
	unsigned last = 0;

	CHECK(world_make());
	CHECK(world_sh("git init -q big; cd big; for d in 1 2 3 4 5; do mkdir $d; (cd $d; seq 1000 "
		       "| split -l 1 -a 3); done; git add -A; git commit -qm 1") == 0);
	CHECK(repo_open(&m.repo, world_path("big"), world_path("state"), &e) == 0);
	CHECK(repo_resolve(&m.repo, "HEAD", &m.commit, &m.tree, &e) == 0);
	CHECK(base_get(&m.base, &m.repo, &m.commit, &m.tree, world_path("state"), count, &last,
		      &e) == 0);
	CHECK_INT(last, 100);
	CHECK(world_sh("diff -r -x .git big %s", m.base.tree) == 0);
	CHECK(world_sh("%s git diff-files --quiet", inside(&m)) == 0);
}

TEST(nothing_that_executes_is_copied)
{
	cleanup_made struct made m = {0};
	cleanup_buf struct buf b = BUF_INIT(1 << 16);

	CHECK(world_make());
	CHECK(world_sh("git init -q cfg; cd cfg; echo a > a; git add -A; git commit -qm 1; git "
		       "config user.name 'N \"q\" \\n'; git config user.email n@example.org; git "
		       "config core.fsmonitor /bin/evil1; git config core.sshCommand evil2; git "
		       "config filter.x.smudge evil3; git config alias.st '!evil4'; git config "
		       "credential.helper evil5; git config core.hooksPath evil6; git config "
		       "remote.origin.url https://user:s3cret@example.org/x.git; git config "
		       "remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'; git config "
		       "remote.tok.url https://t0ken@example.org/; git config remote.ssh.url "
		       "ssh://git:s3cret@h/x; git config remote.scp.url git@h:x; git config "
		       "remote.bad.url 'ext::sh -c evil7'; git config include.path evil8; git "
		       "config core.editor evil9; git config branch.main.remote origin; echo mine "
		       "> .git/info/exclude") == 0);
	GET(&m, "cfg");
	CHECK(world_out(&b, "cat %s/.git/config", m.base.tree) == 0);
	CHECK(!strstr(buf_str(&b), "evil") && !strstr(buf_str(&b), "s3cret") &&
		!strstr(buf_str(&b), "t0ken"));
	CHECK(world_sh("cd %s; git config remote.origin.url | grep -qx https://example.org/x.git "
		       "&& git config remote.ssh.url | grep -qx ssh://git@h/x && git config "
		       "remote.scp.url | grep -qx git@h:x && git config branch.main.remote | grep "
		       "-qx origin && test \"$(git config user.name)\" = 'N \"q\" \\n' && test "
		       "\"$(git config gc.auto)\" = 0 && grep -qx mine .git/info/exclude",
		      m.base.tree) == 0);
}

TEST(sha256_shallow_and_odd_paths)
{
	cleanup_made struct made m = {0}, n = {0};

	CHECK(world_make());
	CHECK(world_sh(
		      "git init -q --object-format=sha256 'co:lon'; cd co:lon; echo a > a; git add "
		      "-A; git commit -qm 1; cd ..; git clone -q --depth 1 file://$PWD/r shal") ==
		0);
	GET(&m, "co:lon");
	CHECK_INT(m.tree.n, 32);
	CHECK(world_sh("grep -qx a %s/a", m.base.tree) == 0);
	GET(&n, "shal");
	CHECK(world_sh("grep -qx two %s/a", n.base.tree) == 0);
}

TEST(sparse_checkouts_stay_sparse)
{
	cleanup_made struct made m = {0};
	cleanup_changes struct changes c = {0};
	struct git_store store = {.objects_fd = -1};
	struct err e = ERR_INIT;
	int layer;

	CHECK(world_make());
	CHECK(world_sh("git init -q sp; cd sp; mkdir in out; echo 1 > in/a; echo 1 > out/b; echo t "
		       "> t; git add -A; git commit -qm 1; git sparse-checkout set in") == 0);
	GET(&m, "sp");
	CHECK(world_sh("cd %s; test -e in/a -a -e t -a ! -e out", m.base.tree) == 0);
	CHECK(world_sh("%s test -z \"$(git diff-files)\"", inside(&m)) == 0);
	/* what was never shown was not deleted */
	layer = world_dir("sp.copy");
	CHECK(world_sh("echo 1 > sp.copy/t; mkdir sp.copy/in") == 0);
	store.hash = m.repo.hash;
	struct scan s = {.repo = &m.repo,
		.start = m.base.trees,
		.live_fd = -1,
		.ignore_tree = m.base.tree,
		.store = &store,
		.cache_fd = -1};
	CHECK(scan_copy(&c, &s, layer, &e) == 0);
	close(layer);
	CHECK_INT(c.n, 2);
	CHECK_STR(c.v[0].path, "in/a");
	CHECK_STR(c.v[1].path, "t");
}

TEST(submodules_that_are_there_are_checked_out)
{
	cleanup_made struct made m = {0}, n = {0};

	CHECK(world_make());
	CHECK(world_sh("export GIT_ALLOW_PROTOCOL=file; git init -q inner; (cd inner; echo i > i; "
		       "git add -A; git commit -qm i); git init -q mid; (cd mid; echo m > m; git "
		       "submodule -q add $PWD/../inner in; git add -A; git commit -qm m); git init "
		       "-q outer; cd outer; git submodule -q add $PWD/../mid sub/mid; git commit "
		       "-qm o; cd ..; git clone -q outer bare-of-subs; cd outer; git submodule -q "
		       "update --init --recursive") == 0);
	GET(&m, "outer");
	CHECK(world_sh("cd %s; grep -qx m sub/mid/m && grep -qx i sub/mid/in/i", m.base.tree) == 0);
	CHECK_INT(m.base.objects.n, 3);
	CHECK(world_sh("%s cd sub/mid && git diff-files --quiet --ignore-submodules=all && test "
		       "\"$(git rev-parse HEAD)\" = \"$(git -C %s/mid rev-parse HEAD)\" && cd in "
		       "&& git diff-files --quiet",
		      inside(&m), world) == 0);
	CHECK(world_sh("%s git diff-files --quiet --ignore-submodules=dirty", inside(&m)) == 0);
	GET(&n, "bare-of-subs");
	CHECK(world_sh("cd %s; test -d sub/mid && test -z \"$(ls -A sub/mid)\"", n.base.tree) == 0);
}

/* An old-style submodule, with its .git in the working tree; the gitlink outlives what is done there. */
#define EMBEDDED                                                                                   \
	"test -d secret || { git init -q secret; cd secret; echo s > s; git add -A; git commit "   \
	"-qm s; cd ..; }; git init -q "                                                            \
	"%s; cd %s; echo a > a; git clone -q ../secret x 2> /dev/null; git add -A 2> /dev/null; "  \
	"git commit -qm o; "

TEST(an_embedded_repository_is_its_own)
{
	cleanup_made struct made plain = {0}, link = {0}, parent = {0}, alternates = {0},
				 objects = {0}, pack = {0};

	CHECK(world_make());
	CHECK(world_sh(EMBEDDED, "plain", "plain") == 0);
	GET(&plain, "plain");
	CHECK(world_sh("grep -qx s %s/x/s", plain.base.tree) == 0);
	/* The same from behind a symlink, or with what lies elsewhere: as if it were not there. */
	CHECK(world_sh(EMBEDDED "rm -rf x; ln -s ../secret x", "link", "link") == 0);
	GET(&link, "link");
	CHECK(world_sh("cd %s/x && test -z \"$(ls -A)\"", link.base.tree) == 0);
	CHECK(world_sh(EMBEDDED "git update-index --add --cacheinfo 160000,$(git -C x rev-parse "
				"HEAD),d/x; git commit -qm d; mkdir ../behind; cp -r ../secret "
				"../behind/x; ln -s ../behind d",
		      "parent", "parent") == 0);
	GET(&parent, "parent");
	CHECK(world_sh("cd %s; test -d d/x && test -z \"$(ls -A d/x)\" && test -f x/s",
		      parent.base.tree) == 0);
	CHECK(world_sh(EMBEDDED "rm -rf x; git clone -q --shared ../secret x 2> /dev/null",
		      "alternates", "alternates") == 0);
	GET(&alternates, "alternates");
	CHECK(world_sh("cd %s/x && test -z \"$(ls -A)\"", alternates.base.tree) == 0);
	CHECK_INT(alternates.base.objects.n, 1);
	CHECK(world_sh(EMBEDDED
		      "rm -rf x/.git/objects; ln -s $PWD/../secret/.git/objects x/.git/objects",
		      "objects", "objects") == 0);
	GET(&objects, "objects");
	CHECK(world_sh("cd %s/x && test -z \"$(ls -A)\"", objects.base.tree) == 0);
	CHECK(world_sh(EMBEDDED "git -C ../secret repack -qad; rm -rf x/.git/objects/*; ln -s "
				"$PWD/../secret/.git/objects/pack x/.git/objects/pack",
		      "pack", "pack") == 0);
	GET(&pack, "pack");
	CHECK(world_sh("cd %s/x && test -z \"$(ls -A)\"", pack.base.tree) == 0);
}

TEST(missing_objects_leave_nothing_behind)
{
	cleanup_made struct made m = {0}, n = {0};
	struct err e = ERR_INIT;
	unsigned last = 0;

	CHECK(world_make());
	CHECK(world_sh("git init -q hole; cd hole; echo gone > a; echo b > b; git add -A; git "
		       "commit -qm 1; o=$(git rev-parse HEAD:a); rm -f .git/objects/$(echo $o | "
		       "cut -c1-2)/$(echo $o | cut -c3-)") == 0);
	CHECK(world_sh("ls state/bases | sort > before") == 0);
	CHECK(get(&m, "hole", "HEAD", &e) < 0);
	CHECK(strstr(e.msg, "git fsck") && !strchr(e.msg, '\n'));
	CHECK(repo_open(&n.repo, world_path("hole"), world_path("state"), &e) == 0);
	CHECK(base_get(&n.base, &n.repo, &m.commit, &m.tree, world_path("state"), count, &last,
		      &e) < 0);
	CHECK(world_sh("ls -A state/bases | sort | diff before -") == 0);
}

TEST(makers_race_to_one_base)
{
	cleanup_made struct made m = {0};
	pid_t pids[6];

	CHECK(world_make());
	CHECK(world_sh("git init -q race; cd race; seq 300 | split -l 1; git add -A; git commit "
		       "-qm 1") == 0);
	fflush(stdout);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct err e = ERR_INIT;

			_exit(get(&m, "race", "HEAD", &e) < 0);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status = 1;

		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_INT(status, 0);
	}
	GET(&m, "race");
	CHECK(world_sh("diff -r -x .git race %s; test -z \"$(ls -A state/bases | grep '^\\.')\"",
		      m.base.tree) == 0);
}

static bool is_key(void *arg, const char *key)
{
	return strcmp(arg, key) == 0;
}

TEST(sweeping_keeps_what_is_used)
{
	cleanup_made struct made m = {0}, n = {0};
	struct err e = ERR_INIT;
	char state[PATH_MAX], other[64];

	CHECK(world_make());
	CHECK(world_sh("git init -q sw; cd sw; echo 1 > a; git add -A; git commit -qm 1; echo 2 > "
		       "a; git commit -qam 2") == 0);
	snprintf(state, sizeof(state), "%s/sweep", world);
	CHECK(repo_open(&m.repo, world_path("sw"), state, &e) == 0);
	CHECK(repo_resolve(&m.repo, "HEAD", &m.commit, &m.tree, &e) == 0);
	CHECK(base_get(&m.base, &m.repo, &m.commit, &m.tree, state, NULL, NULL, &e) == 0);
	CHECK(repo_resolve(&m.repo, "HEAD~1", &n.commit, &n.tree, &e) == 0);
	CHECK(base_get(&n.base, &m.repo, &n.commit, &n.tree, state, NULL, NULL, &e) == 0);
	snprintf(other, sizeof(other), "%s", n.base.key);
	CHECK(world_sh("mkdir -p sweep/bases/.new.1.1/tree sweep/bases/.old.x sweep/bases/mine") ==
		0);
	CHECK_INT(base_sweep(state, is_key, m.base.key, true, &e), 1);
	CHECK_INT(base_sweep(state, is_key, m.base.key, false, &e), 1);
	CHECK(world_sh("test \"$(ls -A sweep/bases | sort | tr '\\n' ' ')\" = \"$(printf "
		       "'%s\\nmine\\n' | sort | tr '\\n' ' ')\"",
		      m.base.key) == 0);
	base_done(&n.base);
	CHECK(base_open(&n.base, state, other, &e) == -ENOENT);
	CHECK(base_open(&n.base, state, "../../etc", &e) == -EINVAL);
}

TEST(the_git_layer_has_refs_but_not_croft_s)
{
	cleanup_made struct made m = {0};
	struct err e = ERR_INIT;
	cleanup_fd int layer = -1, second = -1, third = -1;

	CHECK(world_make());
	CHECK(world_sh(
		      "git init -q -b main refs; cd refs; echo 1 > a; git add -A; git commit -qm "
		      "1; git tag -a -m t v1; git branch other; git update-ref refs/croft/env/x "
		      "HEAD; echo 2 > a; git stash -q; git update-ref refs/remotes/origin/main "
		      "HEAD; git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main") ==
		0);
	GET(&m, "refs");
	layer = world_dir("refs.l");
	CHECK(base_git_layer(&m.repo, layer, "refs/heads/main", &m.commit, &e) == 0);
	CHECK(world_sh("cp -a %s refs.m; cp -a refs.l/.git refs.m/; cd refs.m; export "
		       "GIT_ALTERNATE_OBJECT_DIRECTORIES=%s; test \"$(git for-each-ref "
		       "--format='%%(refname)' | tr '\\n' ' ')\" = 'refs/heads/main "
		       "refs/heads/other refs/remotes/origin/HEAD refs/remotes/origin/main "
		       "refs/tags/v1 ' && test \"$(git symbolic-ref HEAD)\" = refs/heads/main && "
		       "test \"$(git symbolic-ref refs/remotes/origin/HEAD)\" = "
		       "refs/remotes/origin/main && git log -1 v1 >/dev/null && test -z \"$(git "
		       "status --porcelain)\" && echo 3 > a && git commit -qam 3 && git fsck "
		       "--no-dangling >/dev/null",
		      m.base.tree, m.base.objects.v[0]) == 0);
	/* a branch that the host has not, and none at all */
	second = world_dir("refs.l2");
	CHECK(base_git_layer(&m.repo, second, "refs/heads/croft/new", &m.commit, &e) == 0);
	CHECK(world_sh("grep -qx %s refs.l2/.git/refs/heads/croft/new", oid_hex(&m.commit).s) == 0);
	third = world_dir("refs.l3");
	CHECK(base_git_layer(&m.repo, third, NULL, &m.commit, &e) == 0);
	CHECK(world_sh("grep -qx %s refs.l3/.git/HEAD", oid_hex(&m.commit).s) == 0);
	CHECK(base_git_layer(&m.repo, third, "refs/heads/main/x", &m.commit, &e) == -EINVAL);
	CHECK(base_git_layer(&m.repo, third, "refs/heads/../x", &m.commit, &e) == -EINVAL);
}

/* The tree of a dirty state, by git: everything that is not ignored. */
static bool truth(const char *repo, struct buf *ret)
{
	return world_out(ret,
		       "cd %s; cp .git/index ../truth.index; export "
		       "GIT_INDEX_FILE=$PWD/../truth.index; git add -A; git write-tree",
		       repo) == 0;
}

TEST(a_dirty_state_becomes_a_layer)
{
	cleanup_made struct made m = {0};
	cleanup_buf struct buf want = BUF_INIT(100);
	cleanup_treemap struct treemap *map = NULL;
	struct err e = ERR_INIT;
	struct oid tree, o;
	cleanup_fd int layer = -1, env = -1;

	CHECK(world_make());
	CHECK(world_sh("git init -q dirty; cd dirty; mkdir -p d/e f g; for i in a b d/x d/e/y f/1 "
		       "f/2 g/1; do echo $i > $i; done; echo '*.o' > .gitignore; git add -A; git "
		       "commit -qm 1; echo new > a; git add a; echo newer > a; rm b; mkdir b; echo "
		       "1 > b/in; rm -r d; echo file > d; rm -r f; echo u > untracked; echo o > "
		       "x.o; ln -s /abs abs; chmod +x g/1; git rm -q --cached g/1; echo s > "
		       "staged; git add staged; rm staged") == 0);
	GET(&m, "dirty");
	CHECK(truth("dirty", &want));
	layer = world_dir("dirty.l");
	env = world_dir("dirty.env");
	if (base_dirty_layer(&m.repo, &m.base, layer, env, "trees", &tree, &e) < 0) {
		test_fail(__FILE__, __LINE__, "%s", e.msg);
		return;
	}
	CHECK_STR(oid_hex(&tree).s, buf_str(&want));
	CHECK(treemap_open(&map, env, "trees", &e) == 0);
	CHECK_INT(treemap_find(map, "abs", &o), 0120000);
	CHECK_INT(treemap_find(map, "d", &o), 0100644);
	/* one whiteout hides all of f */
	CHECK(world_sh("cd dirty.l; test -c f -a ! -e x.o -a -f d -a -d b -a -x g/1") == 0);
}

TEST(a_dirty_state_that_no_tree_holds_is_refused)
{
	cleanup_made struct made m = {0};
	struct err e = ERR_INIT;
	struct oid tree;
	cleanup_fd int layer = -1, env = -1;

	CHECK(world_make());
	CHECK(world_sh("git init -q dn; cd dn; echo 1 > a; git add -A; git commit -qm 1; git init "
		       "-q nested; cd nested; echo 1 > a; git add -A; git commit -qm 1") == 0);
	GET(&m, "dn");
	layer = world_dir("dn.l");
	env = world_dir("dn.env");
	CHECK(base_dirty_layer(&m.repo, &m.base, layer, env, "trees", &tree, &e) == -EPERM);
	CHECK(strstr(e.msg, "nested/"));
}

TEST(line_endings_are_stored_as_git_would)
{
	static const char edit[] =
		"printf 'one\\r\\nTWO\\r\\n' > t.txt; printf 'a\\r\\nb\\r\\n' > auto.c; printf "
		"'x\\000\\r\\n' > bin.c; printf 'r\\r\\nw\\r\\n' > raw.bin; printf "
		"'old\\r\\ncrlf\\r\\nmore\\r\\n' > had.c; printf 'new\\r\\n' > n.txt; printf "
		"'lone\\rcr\\r\\n' > lone.c; printf '$Id: x $\\r\\ny\\n' > id.v";
	cleanup_made struct made m = {0};
	cleanup_buf struct buf want = BUF_INIT(100);
	cleanup_changes struct changes c = {0};
	struct git_store store = {.objects_fd = -1};
	struct err e = ERR_INIT;
	int layer;

	CHECK(world_make());
	CHECK(world_sh("git init -q eol; cd eol; printf 'old\\r\\ncrlf\\r\\n' > had.c; printf "
		       "'one\\ntwo\\n' > t.txt; echo a > auto.c; echo r > raw.bin; printf "
		       "'$Id$\\n' > id.v; git add -A; git commit -qm 0; printf '*.txt text "
		       "eol=crlf\\n*.c text=auto\\n*.bin -text\\n*.v ident\\n' > .gitattributes; "
		       "git add .gitattributes; git commit -qm 1; rm t.txt id.v; git checkout -q "
		       "t.txt id.v") == 0);
	GET(&m, "eol");
	CHECK(world_sh("grep -q \"$(printf 'one\\r')\" %s/t.txt && grep -q 'Id: ' %s/id.v",
		      m.base.tree, m.base.tree) == 0);
	layer = world_dir("eol.l");
	CHECK(world_sh("cd eol.l; %s", edit) == 0);
	CHECK(world_out(&want, "cd eol; %s; git add -A 2>/dev/null; git write-tree", edit) == 0);
	CHECK(repo_store(&m.repo, &store, &e) == 0);
	struct scan s = {.repo = &m.repo,
		.layers = &layer,
		.layers_n = 1,
		.start = m.base.trees,
		.live_fd = -1,
		.ignore_tree = m.base.tree,
		.store = &store,
		.cache_fd = -1};
	CHECK(scan_layers(&c, &s, &e) == 0);
	close(layer);
	close(store.objects_fd);
	CHECK_STR(oid_hex(&c.tree).s, buf_str(&want));
	CHECK(world_sh("git --git-dir=%s ls-tree -r %s >/dev/null && git --git-dir=%s cat-file -e "
		       "%s:id.v",
		      m.repo.store, oid_hex(&c.tree).s, m.repo.store, oid_hex(&c.tree).s) == 0);
}

TEST(what_git_converts_is_bounded)
{
	cleanup_made struct made m = {0};
	cleanup_changes struct changes c = {0};
	struct git_store store = {.objects_fd = -1};
	struct err e = ERR_INIT;
	int layer;

	CHECK(world_make());
	CHECK(world_sh("git init -q conv; cd conv; printf '$Id$\\n' > id.v; printf '$Id$\\n' > "
		       "same.v; echo '*.v ident' > .gitattributes; git add -A; git commit -qm 1") ==
		0);
	GET(&m, "conv");
	layer = world_dir("conv.l");
	/* the same again as it is stored is no change, whatever form it has here */
	CHECK(world_sh("cp %s/same.v conv.l; truncate -s 67108865 conv.l/id.v; truncate -s "
		       "67108865 conv.l/plain",
		      m.base.tree) == 0);
	CHECK(repo_store(&m.repo, &store, &e) == 0);
	struct scan s = {.repo = &m.repo,
		.layers = &layer,
		.layers_n = 1,
		.start = m.base.trees,
		.live_fd = -1,
		.ignore_tree = m.base.tree,
		.store = &store,
		.cache_fd = -1};
	CHECK(scan_layers(&c, &s, &e) == 0);
	close(layer);
	close(store.objects_fd);
	CHECK_INT(c.n, 2);
	CHECK_STR(c.v[0].path, "id.v");
	CHECK_INT(c.v[0].flags, CHANGE_TOO_LARGE);
	CHECK_STR(c.v[1].path, "plain");
	CHECK_INT(c.v[1].flags, 0);
}

/* Too large to be held: what Git would store otherwise than it lies there is refused, the rest is taken. */
TEST(large_files_whose_line_endings_would_change)
{
	cleanup_made struct made m = {0};
	cleanup_changes struct changes c = {0};
	struct git_store names = {.objects_fd = -1};
	struct err e = ERR_INIT;
	int layer;

	CHECK(world_make());
	CHECK(world_sh("git init -q eols; cd eols; printf '*.txt text\\n*.auto text=auto\\n' > "
		       ".gitattributes; git add -A; git commit -qm 1") == 0);
	GET(&m, "eols");
	layer = world_dir("eols.l");
	CHECK(world_sh("cd eols.l; for f in a.txt b.txt c.auto; do truncate -s 268435457 $f; done; "
		       "printf 'a\\r\\n' >> a.txt; echo a >> b.txt; printf 'a\\r\\n' >> c.auto") ==
		0);
	struct scan s = {.repo = &m.repo,
		.layers = &layer,
		.layers_n = 1,
		.start = m.base.trees,
		.live_fd = -1,
		.ignore_tree = m.base.tree,
		.store = &names,
		.cache_fd = -1};
	CHECK(scan_layers(&c, &s, &e) == 0);
	close(layer);
	CHECK_INT(c.n, 3);
	CHECK_INT(c.v[0].flags, CHANGE_TOO_LARGE);
	CHECK_INT(c.v[1].flags, 0);
	CHECK_INT(c.v[2].flags, 0);
	CHECK(oid_is_none(&c.v[0].new) && !oid_is_none(&c.v[1].new) && !oid_is_none(&c.v[2].new));
}

TEST(ignored_files_are_found_and_copied)
{
	cleanup_made struct made m = {0};
	__attribute__((cleanup(ignored_done))) struct ignored i = {0};
	struct err e = ERR_INIT;
	cleanup_fd int layer = -1;

	CHECK(world_make());
	CHECK(world_sh("git init -q ig; cd ig; printf 'node_modules/\\n.env\\n*.o\\n' > "
		       ".gitignore; mkdir -p src pkg/node_modules/x node_modules/.bin; echo 1 > "
		       "src/a; git add -A; git commit -qm 1; echo S=1 > .env; chmod 600 .env; echo "
		       "o > src/a.o; echo j > pkg/node_modules/x/i.js; echo b > "
		       "node_modules/.bin/b; ln -s a src/l.o; mkfifo src/p.o; truncate -s 65M "
		       "big.o; mkdir new; echo n > new/n; echo o > new/n.o") == 0);
	GET(&m, "ig");
	CHECK(ignored_find(&i, &m.repo, &e) == 0);
	CHECK_INT(i.dirs.n, 2);
	CHECK_STR(i.dirs.v[0], "node_modules");
	CHECK_STR(i.dirs.v[1], "pkg/node_modules");
	CHECK(strlist_has(&i.files, ".env") && strlist_has(&i.files, "src/a.o") &&
		strlist_has(&i.files, "new/n.o"));
	layer = world_dir("ig.l");
	CHECK(ignored_copy(&i, &m.repo, layer, &e) == 0);
	CHECK(world_sh("cd ig.l; grep -qx S=1 .env && test \"$(stat -c %%a .env)\" = 600 && grep "
		       "-qx o src/a.o && test -L src/l.o && test ! -e src/p.o && test ! -e new/n "
		       "-a -e new/n.o") == 0);
	CHECK(i.left_out.n >= 1 && strstr(i.left_out.v[0], "big.o"));
}
