/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap/scan: what depends on more than a path: repositories by their looks, hooks that the user keeps in
 * the project, files that run by way of symlinks, and what a live directory ignores or holds.
 */
#include "test.h"

#include <sys/sysmacros.h>

#include "snap/scan_impl.h"
#include "snap_world.h"

/* A repository "NAME" of the user's, and one layer on it. */
struct flag_place {
	struct repo repo;
	struct treemap *start;
	int dir, layer, live;
	bool is_live;
	char base[PATH_MAX];
};

static void done(struct flag_place *p)
{
	treemap_close(p->start);
	close_fd(&p->dir);
	close_fd(&p->layer);
	close_fd(&p->live);
	repo_done(&p->repo);
}
#define cleanup_place __attribute__((cleanup(done)))
#define NOWHERE ((struct flag_place){.dir = -1, .layer = -1, .live = -1})

/* files fills the workspace, staged the layer; both are shell. live: without a commit to start from. */
static bool prepare(
	struct flag_place *p, const char *name, bool live, const char *files, const char *staged)
{
	struct err e = ERR_INIT;
	struct oid commit, tree;
	char env[64], layer[64];

	snprintf(env, sizeof(env), "%s.env", name);
	snprintf(layer, sizeof(layer), "%s.layer", name);
	p->is_live = live;
	if (!world_make() || world_sh("mkdir %s %s; cd %s; %s", name, layer, name, files) != 0 ||
		world_sh("cd %s; %s", layer, staged) != 0)
		return false;
	p->dir = world_dir(env);
	p->layer = world_dir(layer);
	p->live = live ? world_dir(name) : -1;
	snprintf(p->base, sizeof(p->base), "%s/%s", world, name);
	if (repo_open(&p->repo, world_path(name), world_path("state"), &e) < 0 ||
		(!live && (repo_resolve(&p->repo, "HEAD", &commit, &tree, &e) < 0 ||
				  treemap_make(&p->repo, &tree, p->dir, "trees", &e) < 0 ||
				  treemap_open(&p->start, p->dir, "trees", &e) < 0))) {
		test_fail(__FILE__, __LINE__, "%s", e.msg);
		return false;
	}
	return true;
}

/* "A path(flags)" …, with "!" for what runs; NULL when it fails. */
static const char *scanned(struct flag_place *p, uint64_t *ret_ignored)
{
	static char text[8192];
	cleanup_changes struct changes c = {0};
	struct err e = ERR_INIT;
	struct git_store store = {.objects_fd = -1};
	struct scan s = {.repo = &p->repo,
		.layers = &p->layer,
		.layers_n = 1,
		.start = p->start,
		.live_fd = p->live,
		.ignore_tree = p->is_live && !p->repo.git_dir ? NULL : p->base,
		.store = &store,
		.cache_fd = -1};
	size_t n = 0;

	if (repo_store(&p->repo, &store, &e) < 0 || scan_layers(&c, &s, &e) < 0) {
		close_fd(&store.objects_fd);
		return snprintf(text, sizeof(text), "failed: %s", e.msg) > 0 ? text : "";
	}
	close_fd(&store.objects_fd);
	text[0] = '\0';
	for (size_t i = 0; i < c.n && n < sizeof(text) - 300; i++) {
		const struct change *ch = &c.v[i];
		unsigned flags = ch->flags & ~(unsigned)CHANGE_RUNS;

		if (!(ch->flags & CHANGE_RUNS) != !ch->runs)
			return "a reason without a flag, or a flag without";
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%c %.200s%s", i ? " " : "",
			!ch->old_mode  ? 'A'
			: ch->new_mode ? 'M'
				       : 'D',
			ch->path, ch->runs ? "!" : "");
		if (flags)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "(%u)", flags);
	}
	if (ret_ignored)
		*ret_ignored = c.ignored;
	return text;
}

#define COMMIT "git init -q; git add -A; git commit -qm x"

TEST(repositories_are_known_by_their_looks)
{
	cleanup_place struct flag_place p = NOWHERE;

	CHECK(prepare(&p, "bare", false,
		"mkdir -p old/objects half/objects/x half/refs; echo 1 > old/HEAD; echo 1 > "
		"old/commondir; echo 1 > old/same; echo 1 > half/objects/x/1; echo 1 > "
		"half/refs/1; echo 1 > top; " COMMIT,
		/* whole; linked; completed by the start; the start's own; not quite; at the top */
		"mkdir -p n/objects n/refs n/sub w half old no/objects objects refs; echo 1 > "
		"n/HEAD;echo 1 > n/objects/k; echo 1 > n/refs/k; echo 1 > n/config; echo 1 > "
		"n/sub/f;echo 1 > w/head; echo 1 > w/commondir; echo 1 > half/HEAD; echo 2 > "
		"old/hook;echo 1 > old/same; echo 1 > no/HEAD; echo 1 > no/objects/k;echo 1 > "
		"HEAD; echo 1 > objects/k; echo 1 > refs/k"));
	CHECK_STR(scanned(&p, NULL),
		"A HEAD A half/HEAD(2) A n/HEAD(2) A n/config(2) A n/objects/k(2) A n/refs/k(2) A "
		"n/sub/f(2) A no/HEAD A no/objects/k A objects/k A old/hook(2) A refs/k A "
		"w/commondir(2) A w/head(2)");
}

TEST(parts_that_are_deleted_still_make_a_repository)
{
	cleanup_place struct flag_place p = NOWHERE;

	CHECK(prepare(&p, "parts", false,
		"mkdir -p d/objects d/refs; echo 1 > d/objects/1; echo 1 > d/refs/1; " COMMIT,
		"mkdir d; echo 1 > d/HEAD"));
	CHECK(mknodat(p.layer, "d/objects", S_IFCHR, makedev(0, 0)) == 0);
	CHECK_STR(scanned(&p, NULL), "A d/HEAD(2) D d/objects/1(2)");
}

TEST(files_that_are_too_large_are_not_read)
{
	cleanup_place struct flag_place p = NOWHERE, q = NOWHERE;

	CHECK(prepare(&p, "large", false, "echo 1 > was; echo 1 > grown; " COMMIT,
		"truncate -s 4294967297 big; truncate -s 1T grown; echo 2 > was; ln -s x link"));
	CHECK_STR(scanned(&p, NULL), "A big(4096) M grown(4096) A link M was");
	/* a live start: what was there is not read, either */
	CHECK(prepare(&q, "largelive", true, "truncate -s 4294967297 old; echo 1 > small",
		"echo 2 > old; echo 2 > small"));
	CHECK_STR(scanned(&q, NULL), "M old(4096) M small");
}

TEST(a_record_reads_only_so_much)
{
	cleanup_place struct flag_place p = NOWHERE;
	cleanup_changes struct changes c = {0}, all = {0}, again = {0};
	struct err e = ERR_INIT;
	struct git_store names = {.objects_fd = -1};

	CHECK(prepare(&p, "record", false, "echo 1 > a; " COMMIT,
		"echo 2 > a; head -c 5000 /dev/zero > b; echo 3 > c"));
	struct scan s = {.repo = &p.repo,
		.layers = &p.layer,
		.layers_n = 1,
		.start = p.start,
		.live_fd = -1,
		.ignore_tree = p.base,
		.store = &names,
		.cache_fd = p.dir,
		.cache_name = "cache",
		.name_max_b = 4096};
	CHECK(scan_layers(&c, &s, &e) == 0);
	CHECK_INT(c.n, 3);
	CHECK_INT(c.unnamed, 1);
	CHECK(oid_is_none(&c.tree) && oid_is_none(&c.v[1].new) && !oid_is_none(&c.v[2].new));
	/* who wants to know has it read; once it has aged, it is known and not read again */
	s.name_max_b = 0;
	CHECK(world_sh("while test $(($(date +%%s) - $(stat -c %%Z record.layer/b))) -lt 3; do "
		       "sleep 0.2; done") == 0);
	CHECK(scan_layers(&all, &s, &e) == 0);
	CHECK_INT(all.unnamed, 0);
	CHECK(!oid_is_none(&all.tree) && !oid_is_none(&all.v[1].new));
	s.name_max_b = 1;
	CHECK(scan_layers(&again, &s, &e) == 0);
	CHECK_INT(again.unnamed, 0);
	CHECK_STR(oid_hex(&again.tree).s, oid_hex(&all.tree).s);
}

TEST(hooks_and_included_files_of_the_user)
{
	static const char *const staged =
		"mkdir -p tools/run/lib other; echo 2 > tools/run/pre-commit; echo 2 > "
		"tools/run/lib/x; echo 2 > tools/runner; echo 2 > my.inc; echo 2 > Late.inc; echo "
		"2 > other/my.inc";
	cleanup_place struct flag_place p = NOWHERE, q = NOWHERE;
	cleanup_repo struct repo again = {0};
	struct err e = ERR_INIT;

	CHECK(prepare(&p, "hooks", false,
		"mkdir -p tools/run; echo 1 > tools/run/pre-commit; " COMMIT
		"; git config core.hooksPath ./tools/../tools/run/; git config include.path "
		"../my.inc; git config includeIf.gitdir:/nowhere.path $PWD/late.inc",
		staged));
	CHECK_STR(p.repo.hooks_path, "tools/run");
	CHECK_INT(p.repo.included.n, 2);
	CHECK_STR(scanned(&p, NULL), "A Late.inc! A my.inc! A other/my.inc A tools/run/lib/x! M "
				     "tools/run/pre-commit! A tools/runner");
	/* cached, and forgotten when an included file changes it */
	CHECK(world_sh("printf '[core]\\n\\thooksPath = elsewhere\\n' > hooks/my.inc") == 0);
	CHECK(repo_open(&again, world_path("hooks"), world_path("state"), &e) == 0);
	CHECK_STR(again.hooks_path, "elsewhere");
	CHECK_INT(again.included.n, 2);
	repo_done(&again);
	CHECK(repo_open(&again, world_path("hooks"), world_path("state"), &e) == 0);
	CHECK_STR(again.hooks_path, "elsewhere");
	CHECK_INT(again.included.n, 2);
	/* control: hooks elsewhere are not the project's affair */
	CHECK(prepare(&q, "nohooks", false,
		"mkdir -p tools/run; echo 1 > tools/run/pre-commit; " COMMIT
		"; git config core.hooksPath /nowhere; git config include.path z",
		staged));
	CHECK(!q.repo.hooks_path);
	CHECK_STR(scanned(&q, NULL), "A Late.inc A my.inc A other/my.inc A tools/run/lib/x M "
				     "tools/run/pre-commit A tools/runner");
}

TEST(files_run_by_way_of_symlinks)
{
	static const char *const files =
		"mkdir -p conf a b real deep; echo 1 > conf/t; ln -s conf .vscode; ln -s a "
		"deep/.idea; ln -s a2 .idea; ln -s b a2; ln -s real .config; ln -s ../real2 "
		"b/link; ln -s .vscode/loop .run; ln -s conf plain";
	static const char *const staged =
		"mkdir -p conf a b real/git real2 deep/a other e; echo 2 > conf/t; echo 2 > a/t; "
		"echo 2 > b/t; echo 2 > real/git/config; echo 2 > real/plain; echo 2 > real2/t; "
		"echo 2 > deep/a/t; echo 2 > other/t; echo 2 > e/rc; ln -s e/rc .envrc; ln -s e "
		".github; ln -s other fine";
	static const char *const want =
		"A .envrc! A .github! A a/t A b/t! M conf/t! A deep/a/t! A e/rc! A fine A other/t "
		"A real/git/config! A real/plain A real2/t!";
	cleanup_place struct flag_place p = NOWHERE, q = NOWHERE;
	char cmd[1024];

	snprintf(cmd, sizeof(cmd), "%s; %s", files, COMMIT);
	CHECK(prepare(&p, "links", false, cmd, staged));
	CHECK_STR(scanned(&p, NULL), want);
	CHECK(prepare(&q, "livelinks", true, cmd, staged));
	CHECK_STR(scanned(&q, NULL), want);
}

TEST(a_symlink_on_the_way_to_what_runs)
{
	cleanup_place struct flag_place p = NOWHERE;

	CHECK(prepare(&p, "way", false, "mkdir -p c/d; echo 1 > c/d/t; ln -s c/d .vscode; " COMMIT,
		"mkdir -p evil/d; echo 2 > evil/d/t; echo 2 > evil/t; ln -s evil c"));
	CHECK_STR(scanned(&p, NULL), "A c! D c/d/t A evil/d/t! A evil/t");
}

TEST(too_many_symlinks_are_all_suspect)
{
	cleanup_place struct flag_place p = NOWHERE;
	static const char want[] = "A +x!";

	CHECK(prepare(&p, "many", false, "echo 1 > a; " COMMIT,
		"echo 2 > +x; mkdir -p .idea; i=0; while [ $i -lt 1100 ]; do ln -s ../y$i "
		".idea/$i; i=$((i+1)); done"));
	CHECK(strstr(scanned(&p, NULL), want));
}

TEST(ignored_files_of_a_live_directory)
{
	cleanup_place struct flag_place p = NOWHERE;
	uint64_t ignored = 0;

	CHECK(prepare(&p, "liveign", true,
		"printf '*.o\\nout/\\n' > .gitignore; mkdir -p out d; echo 1 > a.o; echo 1 > "
		"out/x; echo 1 > out/kept; echo 1 > d/t.o; echo 1 > gone.o; echo 1 > f; git init "
		"-q; git add .gitignore f; git add -f out/kept d/t.o; git commit -qm x; echo mine "
		"> .git/info/exclude; echo 1 > mine",
		"mkdir out d; echo 2 > a.o; echo 2 > out/x; echo 2 > out/kept; echo 2 > d/t.o; "
		"echo 2 > n.o; echo 2 > f; echo 2 > mine"));
	CHECK(mknodat(p.layer, "gone.o", S_IFCHR, makedev(0, 0)) == 0);
	CHECK_STR(scanned(&p, &ignored), "M d/t.o M f M out/kept");
	CHECK_INT(ignored, 5);
	/* more than is listed before asking: the tracked file in it is found all the same */
	CHECK(world_sh("cd liveign.layer/out; i=0; while [ $i -lt 300 ]; do echo 2 > $i; "
		       "i=$((i+1)); done; mkdir ../node; cd ../node; i=0; while [ $i -lt 300 ]; do "
		       "echo 2 > $i.o; i=$((i+1)); done") == 0);
	CHECK_STR(scanned(&p, &ignored), "M d/t.o M f M out/kept");
	CHECK_INT(ignored, 605);
}

TEST(repositories_in_a_live_directory)
{
	cleanup_place struct flag_place p = NOWHERE;

	CHECK(prepare(&p, "livesub", true,
		"echo 1 > f; mkdir -p d own/x; " COMMIT
		"; git -C own init -q; echo 1 > own/x/1; echo 1 > own/g; mkdir linked; git "
		"update-index --add --cacheinfo "
		"160000,1234567890123456789012345678901234567890,linked;git commit -qm s; git rm "
		"-q --cached linked; git update-index --add --cacheinfo "
		"160000,1234567890123456789012345678901234567890,next",
		"mkdir -p own/x own/.git linked next d; echo 2 > own/x/1; echo 2 > "
		"own/.git/config; echo 2 > linked/n; echo 2 > next/n; echo 2 > d/n; echo 1 > "
		"own/same; echo 2 > ownx"));
	CHECK(mknodat(p.layer, "own/g", S_IFCHR, makedev(0, 0)) == 0);
	CHECK_STR(scanned(&p, NULL), "A d/n A linked/n(2048) A next/n(2048) M own/.git(2050) D "
				     "own/g(2048) A own/same(2048) M own/x/1(2048) A ownx");
}

TEST(a_repository_made_where_there_was_none)
{
	cleanup_place struct flag_place p = NOWHERE, q = NOWHERE;
	static const char *const staged =
		"mkdir .git; echo 1 > .git/HEAD; echo 1 > .git/config; echo 2 > n";

	CHECK(prepare(&p, "nogit", true, "echo 1 > f", staged));
	CHECK_STR(scanned(&p, NULL), "A .git(2) A n");
	CHECK(prepare(&q, "withgit", true, "echo 1 > f; " COMMIT, staged));
	CHECK_STR(scanned(&q, NULL), "A n");
}

TEST(a_bare_repository_at_the_top_where_there_was_none)
{
	cleanup_place struct flag_place p = NOWHERE;

	CHECK(prepare(&p, "topbare", true, "mkdir objects; echo 1 > objects/1",
		"mkdir refs; echo 1 > HEAD; echo 1 > refs/1; echo 1 > n"));
	CHECK_STR(scanned(&p, NULL), "A HEAD(2) A n(2) A refs/1(2)");
}
