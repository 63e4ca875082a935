/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snap/scan: layers made by hand as overlayfs makes them, every flag with its negative control, and
 * random work in real overlays against the tree that `git add -A` makes of the merged view.
 */
#include "test.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "snap/scan_impl.h"
#include "snap_world.h"

#define LAYERS_MAX 8

/* A repository "NAME", its store, the map of HEAD's tree, a checkout of it to ignore by. */
struct setup {
	struct repo repo;
	struct treemap *start;
	struct git_store store;
	int layers[LAYERS_MAX];
	size_t n;
	char base[PATH_MAX];
	char name[32];
	int dir;
};

static void setup_done(struct setup *s)
{
	for (size_t i = 0; i < s->n; i++)
		close(s->layers[i]);
	treemap_close(s->start);
	close_fd(&s->store.objects_fd);
	close_fd(&s->dir);
	repo_done(&s->repo);
}
#define cleanup_setup __attribute__((cleanup(setup_done)))
#define SETUP_NONE ((struct setup){.store.objects_fd = -1, .dir = -1})

/* files: shell that fills the repository. */
static bool setup(struct setup *s, const char *name, const char *format, const char *files)
{
	struct err e = ERR_INIT;
	struct oid commit, tree;
	char dir[64];

	*s = SETUP_NONE;
	snprintf(s->name, sizeof(s->name), "%s", name);
	if (!world_make() ||
		world_sh("git init -q --object-format=%s %s && cd %s && %s\n git add -A && git "
			 "commit -qm x && git worktree add -q --detach ../%s.base HEAD && rm "
			 "../%s.base/.git && git init -q --object-format=%s ../%s.base",
			format, name, name, files, name, name, format, name) != 0)
		return false;
	if (repo_open(&s->repo, world_path(name), world_path("state"), &e) < 0 ||
		repo_resolve(&s->repo, "HEAD", &commit, &tree, &e) < 0 ||
		repo_store(&s->repo, &s->store, &e) < 0) {
		test_fail(__FILE__, __LINE__, "%s", e.msg);
		return false;
	}
	snprintf(dir, sizeof(dir), "%s.env", name);
	s->dir = world_dir(dir);
	snprintf(s->base, sizeof(s->base), "%s/%s.base", world, name);
	if (treemap_make(&s->repo, &tree, s->dir, "trees", &e) < 0 ||
		treemap_open(&s->start, s->dir, "trees", &e) < 0) {
		test_fail(__FILE__, __LINE__, "%s", e.msg);
		return false;
	}
	return true;
}

/* One more layer, filled by shell in it. */
static bool layer(struct setup *s, const char *files)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.l%zu", s->name, s->n);
	s->layers[s->n] = world_dir(name);
	return s->layers[s->n++] >= 0 && world_sh("cd %s\n%s", name, files) == 0;
}

static bool whiteout(const struct setup *s, const char *path)
{
	return mknodat(s->layers[s->n - 1], path, S_IFCHR, makedev(0, 0)) == 0;
}

static bool opaque(const struct setup *s, const char *path)
{
	char p[PATH_MAX];

	snprintf(p, sizeof(p), "/proc/self/fd/%d/%s", s->layers[s->n - 1], path);
	return lsetxattr(p, "user.overlay.opaque", "y", 1, 0) == 0;
}

static int scan_it(struct setup *s, struct changes *c, struct err *e)
{
	struct scan sc = {.repo = &s->repo,
		.layers = s->layers,
		.layers_n = s->n,
		.start = s->start,
		.live_fd = -1,
		.ignore_tree = s->base,
		.store = &s->store,
		.cache_fd = s->dir,
		.cache_name = "cache"};

	return scan_layers(c, &sc, e);
}

#define SCAN(s, c)                                                                                 \
	do {                                                                                       \
		struct err scan_e_ = ERR_INIT;                                                     \
		if (scan_it(s, c, &scan_e_) < 0) {                                                 \
			test_fail(__FILE__, __LINE__, "scan: %s", scan_e_.msg);                    \
			return;                                                                    \
		}                                                                                  \
	} while (0)

/* "M path" …: A added, M modified, D deleted, then flags as a number. */
static const char *shown(const struct changes *c)
{
	static char text[8192];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < c->n && n < sizeof(text) - 200; i++) {
		const struct change *ch = &c->v[i];
		unsigned flags = ch->flags & ~(unsigned)CHANGE_RUNS;

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%c %.100s", i ? " " : "",
			!ch->old_mode  ? 'A'
			: ch->new_mode ? 'M'
				       : 'D',
			ch->path);
		if (flags)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "(%u)", flags);
	}
	return text;
}

static const char plain[] = "mkdir -p d/e; echo a > a; echo b > d/b; echo c > d/e/c; ln -s a l; "
			    "printf '*.o\\nout/\\n' > .gitignore; echo x > x.sh; chmod +x x.sh";

TEST(nothing_changed)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "none", "sha1", plain));
	/* a directory made on the way, and a file that is what it was */
	CHECK(layer(&s, "mkdir d .git; echo b > d/b; echo junk > .git/index; ln -s a l"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "");
	CHECK(oid_eq(&c.tree, &c.start_tree));
}

TEST(files_come_change_and_go)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};
	cleanup_buf struct buf want = BUF_INIT(100);

	CHECK(setup(&s, "basic", "sha1", plain));
	CHECK(layer(&s, "mkdir d; echo new > a; echo n > d/n; echo x > x.sh; ln -s d l"));
	CHECK(whiteout(&s, "d/b"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "M a D d/b A d/n M l M x.sh");
	CHECK_INT(changes_find(&c, "x.sh")->old_mode, 0100755);
	CHECK_INT(changes_find(&c, "x.sh")->new_mode, 0100644);
	CHECK(world_out(&want, "cd basic && echo new > a && echo n > d/n && rm d/b && chmod -x "
			       "x.sh && ln -sfn d l && git add -A && git write-tree") == 0);
	CHECK_STR(oid_hex(&c.tree).s, buf_str(&want));
	/* the objects are in the store */
	CHECK(world_sh("git --git-dir=%s cat-file -p %s:d/n | grep -q '^n$'", s.repo.store,
		      oid_hex(&c.tree).s) == 0);
}

TEST(directories_are_replaced_and_deleted)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "dirs", "sha1", plain));
	CHECK(layer(&s, "mkdir -p d/e; echo c > d/e/c; mkdir a; echo z > a/z"));
	CHECK(opaque(&s, "d"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "D a A a/z D d/b");
	changes_done(&c);
	CHECK(layer(&s, "echo file > l2")); /* above: d is gone altogether */
	CHECK(whiteout(&s, "d"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "D a A a/z D d/b D d/e/c A l2");
	changes_done(&c);
	CHECK(layer(&s, "echo f > d; mkdir l")); /* d is a file now; l an empty directory */
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "D a A a/z A d D d/b D d/e/c D l A l2");
}

TEST(a_directory_over_a_whiteout_hides_the_start)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "over", "sha1", plain));
	CHECK(layer(&s, ":"));
	CHECK(whiteout(&s, "d"));
	CHECK(layer(&s, "mkdir d; echo b > d/b"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "D d/e/c");
}

TEST(newer_layers_win)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "newer", "sha256", plain));
	CHECK(layer(&s, "echo 1 > a; mkdir d; echo 1 > d/n; echo 1 > only-old"));
	CHECK(layer(&s, "echo a > a; mkdir d"));
	CHECK(whiteout(&s, "d/n"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "A only-old");
	CHECK_INT(c.tree.n, 32);
}

TEST(ignored_files_are_counted_and_not_read)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "ign", "sha1",
		"printf '*.o\\nout/\\n!keep.o\\n' > .gitignore; echo t > t.o; git add -f t.o"));
	/* the sandbox's own .gitignore hides nothing */
	CHECK(layer(&s, "echo '*' > .gitignore; echo 2 > t.o; echo x > x.o; echo k > keep.o; mkdir "
			"-p out/deep n/out; echo 1 > out/deep/f; echo 1 > n/out/f; echo 1 > n/f; "
			"echo 1 > ':(top)q.o'; for i in $(seq 300); do echo $i > out/$i; done"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "M .gitignore A keep.o A n/f M t.o");
	CHECK_INT(c.ignored, 4); /* x.o, :(top)q.o, n/out/f, out as a whole */
}

TEST(a_symlink_replaced_by_a_directory_does_not_stop_the_question)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "ilink", "sha1",
		"mkdir d; echo 1 > d/x; ln -s d lnk; echo '*.o' > .gitignore"));
	CHECK(layer(&s, "mkdir lnk; echo 1 > lnk/f; echo 1 > lnk/f.o; echo 1 > g.o"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "D lnk A lnk/f A lnk/f.o");
	CHECK_INT(c.ignored, 1);
}

TEST(large_new_directories_are_listed_after_asking)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "large", "sha1", plain));
	CHECK(layer(&s, "mkdir -p new/out new/sub; for i in $(seq 300); do echo $i > new/$i; echo "
			"$i > new/out/$i; echo $i > new/sub/$i; done"));
	SCAN(&s, &c);
	CHECK_INT(c.n, 600);
	CHECK_INT(c.ignored, 1);
}

TEST(what_git_cannot_hold_is_flagged)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	cleanup_fd int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(setup(&s, "flags", "sha1", plain));
	CHECK(layer(&s, "mkfifo fifo; mkdir -p n/.git .GIT m; echo x > n/.git/config; echo 1 > "
			"m/.git; echo s > suid; chmod 4755 suid; ln -s /etc/passwd abs; ln -s "
			"../up up; ln -s .git/hooks h; mkdir -p e/mpty; echo A > A; chmod 1644 "
			"x.sh 2>/dev/null || :; echo x > x.sh; chmod 1755 x.sh; echo fine > fine"));
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/flags.l0/sock", world);
	CHECK(bind(sock, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "A .GIT(2) A A(128) A abs(64) A e/mpty(512) A fifo(4) A fine A h(64) "
			     "A m/.git(2) A n/.git(2) A sock(4) A suid(8) A up(64) M x.sh(8)");
	/* only what may land is in the tree */
	CHECK(world_sh("test \"$(git --git-dir=%s diff-tree -r --name-only %s %s)\" = fine",
		      s.repo.store, oid_hex(&c.start_tree).s, oid_hex(&c.tree).s) == 0);
}

TEST(unreadable_files_are_flagged)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	if (geteuid() == 0)
		SKIP("root reads everything");
	CHECK(setup(&s, "unread", "sha1", plain));
	CHECK(layer(&s, "echo x > f; chmod 000 f; mkdir g; echo 1 > g/x; chmod 000 g"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "A f(256) A g(256)");
	CHECK(world_sh("chmod 755 unread.l0/g") == 0);
}

TEST(capabilities_are_flagged)
{
	/* cap_net_raw+ep, version 2 */
	static const unsigned char cap[20] = {1, 0, 0, 2, 0, 0x20};
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "caps", "sha1", plain));
	CHECK(layer(&s, "echo x > f; echo y > g"));
	if (lsetxattr(world_path("caps.l0/f"), "security.capability", cap, sizeof(cap), 0) < 0)
		SKIP("file capabilities need root");
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "A f(16) A g");
}

TEST(case_collisions)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "case", "sha1",
		"mkdir Src; echo 1 > Src/x; echo r > README; echo k > Kept; echo k > kept"));
	CHECK(layer(&s, "mkdir src; echo 1 > src/y; echo r > readme; echo 2 > kept; echo 1 > P; "
			"echo 1 > p; echo 1 > fine"));
	CHECK(whiteout(&s, "README")); /* a renaming is no collision */
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "A P(128) D README A fine M kept A p(128) A readme A src/y(128)");
}

TEST(normalisation_collisions)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	/* e with an acute accent, composed and taken apart; the start may have both */
	CHECK(setup(&s, "normal", "sha1",
		"echo 1 > x\xc3\xa9; echo 1 > k\xc3\xa9; echo 1 > ke\xcc\x81; echo 1 > w\xc3\xa9"));
	CHECK(layer(&s, "echo 1 > Xe\xcc\x81; echo 2 > k\xc3\xa9; echo 1 > p\xc3\xa9; "
			"echo 1 > pe\xcc\x81; echo 1 > we\xcc\x81; echo 1 > xe"));
	CHECK(whiteout(&s, "w\xc3\xa9"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c),
		"A Xe\xcc\x81(128) M k\xc3\xa9 A pe\xcc\x81(128) A p\xc3\xa9(128) A we\xcc\x81 "
		"D w\xc3\xa9 A xe");
}

TEST(overlay_attributes_that_croft_never_makes_are_refused)
{
	static const char *const names[] = {"user.overlay.redirect", "user.overlay.metacopy"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		cleanup_setup struct setup s = SETUP_NONE;
		cleanup_changes struct changes c = {0};
		struct err e = ERR_INIT;
		char repo[16], file[64], dir[64];

		snprintf(repo, sizeof(repo), "attr%zu", i);
		CHECK(setup(&s, repo, "sha1", plain));
		CHECK(layer(&s, "mkdir d; echo 1 > f"));
		SCAN(&s, &c);
		changes_done(&c);
		snprintf(file, sizeof(file), "%s.l0/f", repo);
		snprintf(dir, sizeof(dir), "%s.l0/d", repo);
		CHECK(lsetxattr(world_path(file), names[i], "/x", 2, 0) == 0);
		CHECK(scan_it(&s, &c, &e) == -EPERM);
		CHECK(lremovexattr(world_path(file), names[i]) == 0);
		CHECK(lsetxattr(world_path(dir), names[i], "/x", 2, 0) == 0);
		CHECK(scan_it(&s, &c, &e) == -EPERM && strstr(e.msg, "/d") == NULL);
		CHECK(strstr(e.msg, " d,"));
	}
}

TEST(odd_names)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};
	cleanup_buf struct buf want = BUF_INIT(100);
	static const char make[] = "printf 1 > \"$(printf 'nl\\nx')\"; printf 1 > \"$(printf "
				   "'bad\\377')\"; printf 1 > ' '; printf 1 > '*'; printf 1 > "
				   "'\"'; mkdir -- -d; printf 1 > -d/-f; printf 1 > ':x'";

	CHECK(setup(&s, "odd", "sha1", "echo '*.o' > .gitignore"));
	CHECK(layer(&s, make));
	SCAN(&s, &c);
	CHECK_INT(c.n, 7);
	CHECK(world_out(&want, "cd odd && %s && git add -A && git write-tree", make) == 0);
	CHECK_STR(oid_hex(&c.tree).s, buf_str(&want));
}

TEST(too_deep_and_too_long_is_said)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};
	int fd;

	CHECK(setup(&s, "deep", "sha1", plain));
	CHECK(layer(&s, "echo fine > fine; i=0; while [ $i -lt 300 ]; do mkdir x; cd x; "
			"i=$((i+1)); done; echo 1 > f"));
	fd = dup(s.layers[0]);
	for (int i = 0; i < 30; i++) {
		char name[201];
		int next;

		memset(name, 'y', 200);
		name[200] = '\0';
		CHECK(mkdirat(fd, name, 0755) == 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	SCAN(&s, &c);
	CHECK_INT(c.n, 3);
	CHECK_STR(c.v[0].path, "fine");
	CHECK_INT(c.v[1].flags, CHANGE_BAD_NAME);
	CHECK_INT(c.v[2].flags, CHANGE_BAD_NAME);
}

TEST(a_submodule_is_one_change)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};

	CHECK(setup(&s, "subm", "sha1",
		"echo 1 > a; git update-index --add --cacheinfo "
		"160000,1234567890123456789012345678901234567890,sub && git commit -qm s && mkdir "
		"sub"));
	CHECK(layer(&s, "mkdir -p sub/.git; echo i > sub/.git/index"));
	SCAN(&s, &c);
	if (treemap_find(s.start, "sub", &(struct oid){0}) != 0160000)
		SKIP("this git drops the gitlink");
	CHECK_STR(shown(&c), ""); /* `git status` alone is no change */
	CHECK(layer(&s, "mkdir -p sub/x; echo 1 > sub/x/1; echo 1 > sub/x/2"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "M sub(2048)");
	changes_done(&c);
	CHECK(layer(&s, ":"));
	CHECK(whiteout(&s, "sub"));
	SCAN(&s, &c);
	CHECK_STR(shown(&c), "D sub(2048)");
}

TEST(the_cache_does_not_hide_a_change)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0}, d = {0};
	cleanup_changes struct changes f = {0};

	CHECK(setup(&s, "cached", "sha1", plain));
	CHECK(layer(&s, "echo one > a"));
	SCAN(&s, &c);
	CHECK(world_sh("echo two > cached.l0/a; touch -r cached/a cached.l0/a") == 0);
	SCAN(&s, &d);
	CHECK(!oid_eq(&c.tree, &d.tree));
	SCAN(&s, &f);
	CHECK(oid_eq(&d.tree, &f.tree));
}

TEST(a_copy_is_compared_as_a_whole)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};
	struct err e = ERR_INIT;
	cleanup_fd int copy = -1;

	CHECK(setup(&s, "copy", "sha1", plain));
	CHECK(world_sh("cp -a copy copied; cd copied; echo 2 > a; rm -r d; echo n > n; echo o > "
		       "o.o; mkdir out; echo 1 > out/1") == 0);
	copy = world_dir("copied");
	struct scan sc = {.repo = &s.repo,
		.start = s.start,
		.live_fd = -1,
		.ignore_tree = s.base,
		.store = &s.store,
		.cache_fd = -1};
	CHECK(scan_copy(&c, &sc, copy, &e) == 0);
	CHECK_STR(shown(&c), "M a D d/b D d/e/c A n");
	CHECK_INT(c.ignored, 2);
}

TEST(a_live_start_keeps_old_contents)
{
	cleanup_setup struct setup s = SETUP_NONE;
	cleanup_changes struct changes c = {0};
	struct err e = ERR_INIT;
	cleanup_fd int live = -1;

	CHECK(setup(&s, "live", "sha1", plain));
	CHECK(world_sh("mkdir livedir; cd livedir; mkdir d; echo old > a; echo b > d/b; ln -s a l; "
		       "echo same > same") == 0);
	CHECK(layer(&s, "echo new > a; echo same > same; echo n > n; ln -s n l"));
	CHECK(whiteout(&s, "d"));
	live = world_dir("livedir");
	struct scan sc = {.repo = &s.repo,
		.layers = s.layers,
		.layers_n = s.n,
		.live_fd = live,
		.store = &s.store,
		.cache_fd = -1};
	CHECK(scan_layers(&c, &sc, &e) == 0);
	CHECK_STR(shown(&c), "M a D d/b M l A n");
	CHECK(world_sh("test \"$(git --git-dir=%s diff-tree -r --name-status %s %s | tr '\\t\\n' ' "
		       " ')\" = 'M a D d/b M l A n '",
		      s.repo.store, oid_hex(&c.start_tree).s, oid_hex(&c.tree).s) == 0);
	CHECK(world_sh("git --git-dir=%s cat-file -p %s:a | grep -q old", s.repo.store,
		      oid_hex(&c.start_tree).s) == 0);
}

TEST(empty_layers)
{
	cleanup_setup struct setup s = SETUP_NONE;

	CHECK(setup(&s, "empty", "sha1", plain));
	CHECK(layer(&s, "mkdir -p .git node_modules/x; echo 1 > .git/x"));
	CHECK(layer_is_empty(s.layers[0]));
	CHECK(opaque(&s, "node_modules/x"));
	CHECK(!layer_is_empty(s.layers[0]));
	CHECK(layer(&s, "mkdir d"));
	CHECK(layer_is_empty(s.layers[1]));
	CHECK(whiteout(&s, "d/b"));
	CHECK(!layer_is_empty(s.layers[1]));
}

/* ------------------------------------------------------------------ real overlays */

static unsigned pick(unsigned *seed, unsigned n)
{
	return (unsigned)rand_r(seed) % n;
}

/* A path below the merged view, from few names, so that operations meet. */
static void some_path(unsigned *seed, char *ret, size_t size)
{
	static const char *const dirs[] = {"", "d/", "d/e/", "n/", "n/m/", "d/e/g/", "q/"};
	static const char *const names[] = {"a", "b", "c", "f", "e", "m", "g", "x.sh", "l"};

	snprintf(ret, size, "merged/%s%s", dirs[pick(seed, ARRAY_SIZE(dirs))],
		names[pick(seed, ARRAY_SIZE(names))]);
}

static void write_some(unsigned *seed, const char *path, int flags)
{
	static const char *const texts[] = {"a\n", "b\n", "c\n", "other\n", ""};
	int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0644);
	const char *t = texts[pick(seed, ARRAY_SIZE(texts))];

	if (fd < 0)
		return;
	if (write(fd, t, strlen(t)) < 0)
		errno = 0;
	close(fd);
}

static void one_operation(unsigned *seed)
{
	char p[128], q[128];
	struct stat st;

	some_path(seed, p, sizeof(p));
	some_path(seed, q, sizeof(q));
	switch (pick(seed, 9)) {
	case 0:
	case 1:
		write_some(seed, p, O_TRUNC);
		break;
	case 2:
		write_some(seed, p, O_APPEND);
		break;
	case 3:
		if (pick(seed, 3))
			unlink(p);
		else
			tree_remove_at(AT_FDCWD, p);
		break;
	case 4:
		mkdir(p, 0755);
		break;
	case 5:
		if (rename(p, q) < 0)
			errno = 0;
		break;
	case 6:
		if (lstat(p, &st) == 0 && S_ISREG(st.st_mode))
			chmod(p, pick(seed, 2) ? 0755 : 0644);
		break;
	case 7:
		if (symlink(pick(seed, 2) ? "a" : "b", p) < 0)
			errno = 0;
		break;
	default:
		*strrchr(p, '/') = '\0';
		if (strlen(p) > strlen("merged"))
			tree_remove_at(AT_FDCWD, p);
		else
			mkdir("merged/n", 0755);
	}
}

static int chmod_work(const char *dir)
{
	char p[128];

	snprintf(p, sizeof(p), "%s/work", dir);
	return chmod(p, 0700);
}

/* In a mount namespace of its own: rounds of random work, each in one more layer. 0: all equal. */
static int overlay_rounds(struct setup *s, unsigned seed)
{
	cleanup_buf struct buf lower = BUF_INIT(1 << 16), want = BUF_INIT(1 << 16);

	if (chdir(world) < 0)
		return 1;
	mkdir("merged", 0755);
	buf_addf(&lower, "%s.base", s->name);
	for (int round = 0; round < 4; round++) {
		cleanup_changes struct changes c = {0};
		cleanup_buf struct buf opts = BUF_INIT(1 << 16), next = BUF_INIT(1 << 16);
		struct err e = ERR_INIT;
		char upper[64], work[64];

		snprintf(upper, sizeof(upper), "%s.u%u.%d", s->name, seed, round);
		snprintf(work, sizeof(work), "%s.w%u.%d", s->name, seed, round);
		if (mkdir(upper, 0755) < 0 || mkdir(work, 0755) < 0)
			return 2;
		buf_addf(&opts, "lowerdir=%s,upperdir=%s,workdir=%s,userxattr", buf_str(&lower),
			upper, work);
		if (mount("overlay", "merged", "overlay", 0, buf_str(&opts)) < 0)
			return round ? 3 : 77;
		for (int i = 0; i < 60; i++)
			one_operation(&seed);
		s->layers[s->n++] = open(upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (world_out(&want,
			    "rm -f truth; export GIT_DIR=$PWD/%s/.git GIT_INDEX_FILE=$PWD/truth "
			    "GIT_WORK_TREE=$PWD/merged && cd merged && git read-tree HEAD && git "
			    "add -A && git write-tree",
			    s->name) != 0)
			return 4;
		if (scan_it(s, &c, &e) < 0) {
			printf("# %s\n", e.msg);
			return 5;
		}
		if (strcmp(oid_hex(&c.tree).s, buf_str(&want)) != 0) {
			printf("# round %d: %s, not %s: %s\n", round, oid_hex(&c.tree).s,
				buf_str(&want), shown(&c));
			return 6;
		}
		if (umount("merged") < 0)
			return 7;
		/* overlayfs leaves a directory without permissions, which a plain user cannot empty */
		if (chmod_work(work) < 0)
			return 8;
		buf_addf(&next, "%s:%s", upper, buf_str(&lower));
		buf_reset(&lower);
		buf_adds(&lower, buf_str(&next));
	}
	return 0;
}

static bool enter_namespaces(void)
{
	char map[64];
	unsigned uid = geteuid(), gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	file_poke_at(AT_FDCWD, "/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	if (file_poke_at(AT_FDCWD, "/proc/self/uid_map", map) < 0)
		return false;
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	if (file_poke_at(AT_FDCWD, "/proc/self/gid_map", map) < 0)
		return false;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void overlay_test(const char *name, const char *format, unsigned seeds)
{
	for (unsigned seed = 1; seed <= seeds; seed++) {
		cleanup_setup struct setup s = SETUP_NONE;
		char repo[32];
		int status;
		pid_t pid;

		snprintf(repo, sizeof(repo), "%s%u", name, seed);
		CHECK(setup(&s, repo, format,
			"mkdir -p d/e/g; echo a > a; echo b > d/b; echo c > d/e/c; echo a > "
			"d/e/g/a; ln -s a l; echo x > x.sh; chmod +x x.sh; echo '*.o' > "
			".gitignore"));
		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			int r = enter_namespaces() ? overlay_rounds(&s, seed) : 77;

			fflush(stdout);
			_exit(r);
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		if (WEXITSTATUS(status) == 77)
			SKIP("no overlay in a user namespace here");
		if (WEXITSTATUS(status) != 0) {
			test_fail(
				__FILE__, __LINE__, "seed %u: step %d", seed, WEXITSTATUS(status));
			return;
		}
	}
}

TEST(random_work_in_overlays_gives_git_s_own_tree)
{
	overlay_test("ov", "sha1", 12);
}

TEST(random_work_in_overlays_with_sha256)
{
	overlay_test("ow", "sha256", 4);
}
