/* SPDX-License-Identifier: Apache-2.0 */
/* git/repo: repositories of every shape are found, the store is made once and follows the host. */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "git/read.h"
#include "git_world.h"

#define COMMIT_ONE "echo one > f; git add f; git commit -qm one"

static char *file_text(const char *dir, const char *name)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return file_read_at(AT_FDCWD, path, &b) < 0 ? NULL : buf_take(&b);
}

TEST(an_ordinary_repository)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0}, again = {0};
	cleanup_free char *head = NULL, *branch = NULL, *config = NULL, *alt = NULL, *fsck = NULL;
	struct oid c, t;
	struct err e = ERR_INIT;
	char cmd[256];

	CHECK(world_make(&w, "sha256"));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK(!repo_branch(&r)); /* unborn */
	CHECK_INT(repo_resolve(&r, "HEAD", &c, &t, &e), -ENOENT);
	CHECK(strstr(e.msg, "yet"));
	CHECK(world_sh(&w, COMMIT_ONE));
	CHECK_INT(r.hash, GIT_SHA256);
	CHECK(!r.sparse && !r.shallow && !r.reftable);
	CHECK_STR(r.workspace, w.work);
	CHECK_STR(r.git_dir, r.common_dir);
	CHECK_INT(r.objects.n, 1);
	CHECK_INT(repo_resolve(&r, "HEAD", &c, &t, &e), 0);
	head = world_ask(&w, "git rev-parse HEAD");
	CHECK_STR(oid_hex(&c).s, head);
	branch = repo_branch(&r);
	CHECK_STR(branch, "refs/heads/main");
	config = file_text(r.store, "config");
	CHECK(config && strstr(config, "sha256") && !strstr(config, w.work));
	alt = file_text(r.store, "objects/info/alternates");
	CHECK(alt && str_starts(alt, r.objects.v[0]));
	snprintf(cmd, sizeof(cmd), "git --git-dir='%s' cat-file -t %s", r.store, head);
	fsck = world_ask(&w, cmd);
	CHECK_STR(fsck, "commit");
	CHECK_INT(repo_open(&again, w.work, w.state, &e), 0);
	CHECK_STR(again.store, r.store);
	CHECK(world_sh(&w, "git checkout -q --detach"));
	CHECK(!repo_branch(&r));
}

TEST(bad_revisions_are_refused)
{
	static const char *const bad[] = {"", "-h", "--all", "^HEAD", "HEAD..HEAD", "nope",
		"HEAD^{tree}", "HEAD^!", "HEAD\nHEAD", "HEAD^@"};
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	struct err e = ERR_INIT;
	struct oid c;

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(&w, COMMIT_ONE "; git tag -am t v1"));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_resolve(&r, "v1", &c, NULL, &e), 0);
	CHECK_INT(repo_resolve(&r, "main@{0}", &c, NULL, &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(repo_resolve(&r, bad[i], &c, NULL, &e), -ENOENT);
}

/* The store reads originals, so a replacement must not show in what is resolved. */
TEST(replacements_do_not_count)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	cleanup_free char *real = NULL, *replaced = NULL;
	struct err e = ERR_INIT;
	struct oid t;

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(
		&w, COMMIT_ONE "; echo two > f; git commit -qam two; git replace HEAD HEAD~1"));
	real = world_ask(&w, "git --no-replace-objects rev-parse HEAD^{tree}");
	replaced = world_ask(&w, "git rev-parse HEAD^{tree}");
	CHECK(strcmp(real, replaced) != 0);
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_resolve(&r, "HEAD", NULL, &t, &e), 0);
	CHECK_STR(oid_hex(&t).s, real);
}

TEST(notes_are_renewed_when_the_configuration_changes)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0}, second = {0}, third = {0};
	struct err e = ERR_INIT;
	struct stat a, b;
	char path[256];

	CHECK(world_make(&w, "sha1"));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	snprintf(path, sizeof(path), "%s/croft.json", r.store);
	CHECK_INT(stat(path, &a), 0);
	CHECK_INT(repo_open(&second, w.work, w.state, &e), 0);
	CHECK_INT(stat(path, &b), 0);
	CHECK(a.st_ino == b.st_ino && !second.sparse); /* not even written again */
	CHECK(world_sh(&w, "git config core.sparseCheckout true"));
	CHECK_INT(repo_open(&third, w.work, w.state, &e), 0);
	CHECK(third.sparse);
}

TEST(what_cannot_be_used_is_refused)
{
	static const struct {
		const char *make, *says;
	} v[] = {{"git init -q --bare .", "bare"},
		{"git init -q; git config core.bare true", "bare"},
		{"git init -q; git config core.repositoryformatversion 7", "open the repository"},
		{"git init -q; rm .git/HEAD", "HEAD"}, {"git init -q; rm -r .git/refs", "refs"},
		{"echo nonsense > .git", "does not say"},
		{"echo gitdir: nowhere > .git", "not there"},
		{"git init -q; echo /nowhere > .git/commondir", "commondir"},
		{"git init -q; git config core.repositoryformatversion 1; git config extensions.x "
		 "y",
			"open the repository"},
		{"git init -q; i=0; while [ $i -lt 9 ]; do mkdir -p o$i/info; echo $PWD/o$((i+1)) "
		 "> o$i/info/alternates; i=$((i+1)); done; mkdir o9; echo $PWD/o0 > "
		 ".git/objects/info/alternates",
			"alternates"}};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		cleanup_world struct world w = {.fd = -1};
		struct repo r = {0};
		struct err e = ERR_INIT;

		CHECK(world_make(&w, NULL) && world_sh(&w, v[i].make));
		if (repo_open(&r, w.work, w.state, &e) >= 0 || !strstr(e.msg, v[i].says)) {
			repo_done(&r);
			test_fail(__FILE__, __LINE__, "%s: %s", v[i].make, e.msg);
			return;
		}
		CHECK(!r.workspace);
	}
}

TEST(no_repository_has_a_store_only)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0}, later = {0};
	struct git_store s;
	struct err e = ERR_INIT;
	struct oid o;

	CHECK(world_make(&w, NULL));
	/* A repository around the workspace is not its own. */
	CHECK(world_sh(&w, "git init -q .."));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK(!r.git_dir && !r.common_dir);
	CHECK_STR(repo_ledger_dir(&r), r.store);
	CHECK_INT(repo_ledger_store(&r, &s, &e), 0);
	CHECK(s.sync);
	CHECK_INT(git_write(&s, GIT_TREE, "", 0, &o, &e), 0);
	CHECK_INT(git_store_flush(&s, &e), 0);
	git_store_close(&s);
	CHECK_INT(repo_export_objects(&r, &o, &e), -EINVAL);
	CHECK(world_sh(&w, "git init -q --object-format=sha256"));
	CHECK_INT(repo_open(&later, w.work, w.state, &e), 0);
	CHECK(strcmp(later.store, r.store) != 0);
	CHECK_INT(later.hash, GIT_SHA256);
}

TEST(linked_worktrees_alternates_and_shallow)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0}, clone = {0}, cut = {0};
	cleanup_free char *branch = NULL, *shallow = NULL, *log = NULL, *gone = NULL;
	struct err e = ERR_INIT;
	struct oid c;
	char path[256], cmd[512];

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(&w,
		COMMIT_ONE "; git commit -q --allow-empty -m two; git worktree add -q -b side "
			   "../side; git clone -q -s . ../clone; git clone -q -s ../clone "
			   "'../a\nb'; git clone -q --depth 1 file://$PWD ../cut"));
	snprintf(path, sizeof(path), "%s/side", w.top);
	CHECK_INT(repo_open(&r, path, w.state, &e), 0);
	CHECK(strcmp(r.git_dir, r.common_dir) != 0);
	branch = repo_branch(&r);
	CHECK_STR(branch, "refs/heads/side");
	snprintf(path, sizeof(path), "%s/a\nb", w.top);
	CHECK_INT(repo_open(&clone, path, w.state, &e), 0);
	CHECK_INT(clone.objects.n, 3);
	CHECK_INT(repo_resolve(&clone, "HEAD", &c, NULL, &e), 0);
	snprintf(cmd, sizeof(cmd), "git --git-dir='%s' cat-file -t %s", clone.store, oid_hex(&c).s);
	log = world_ask(&w, cmd);
	CHECK_STR(log, "commit");
	snprintf(path, sizeof(path), "%s/cut", w.top);
	CHECK_INT(repo_open(&cut, path, w.state, &e), 0);
	CHECK(cut.shallow);
	shallow = file_text(cut.store, "shallow");
	CHECK(shallow && strlen(shallow) == 41);
	CHECK(world_sh(&w, "git -C ../cut fetch -q --unshallow"));
	repo_done(&cut);
	CHECK_INT(repo_open(&cut, path, w.state, &e), 0);
	gone = file_text(cut.store, "shallow");
	CHECK(!cut.shallow && !gone);
}

/* ------------------------------------------------------------------ export */

static bool make_commit(
	struct git_store *s, const struct oid *parent, const char *text, bool evil, struct oid *ret)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	struct err e = ERR_INIT;
	struct oid blob, tree;

	if (git_write(s, GIT_BLOB, text, strlen(text), &blob, &e) < 0)
		return false;
	buf_adds(&b, evil ? "100644 .git" : "100644 new");
	buf_add(&b, "", 1);
	buf_add(&b, blob.v, blob.n);
	if (git_write(s, GIT_TREE, b.data, b.len, &tree, &e) < 0)
		return false;
	buf_reset(&b);
	buf_addf(&b,
		"tree %s\nparent %s\nauthor A <a@example.org> 1 +0000\n"
		"committer A <a@example.org> 1 +0000\n\nx\n",
		oid_hex(&tree).s, oid_hex(parent).s);
	return git_write(s, GIT_COMMIT, b.data, b.len, ret, &e) == 0;
}

static void export_lands(const char *format)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	cleanup_free char *before = NULL, *after = NULL, *same = NULL;
	struct git_store s = {0};
	cleanup_fd int objects = -1;
	struct err e = ERR_INIT;
	struct oid base, one, two, other, evil;
	char cmd[512];

	CHECK(world_make(&w, format) && world_sh(&w, COMMIT_ONE));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_store(&r, &s, &e), 0);
	objects = s.objects_fd;
	CHECK_INT(repo_resolve(&r, "HEAD", &base, NULL, &e), 0);
	CHECK(make_commit(&s, &base, "1", false, &one) && make_commit(&s, &one, "2", false, &two));
	CHECK(make_commit(&s, &base, "other", false, &other));
	CHECK(make_commit(&s, &base, "evil", true, &evil));
	snprintf(cmd, sizeof(cmd), "git cat-file -e %s", oid_hex(&two).s);
	CHECK(!world_sh(&w, cmd));
	CHECK_INT(repo_export_objects(&r, &two, &e), 0);
	snprintf(cmd, sizeof(cmd),
		"git update-ref refs/heads/x %s; git fsck --full --strict --no-dangling && echo "
		"fine",
		oid_hex(&two).s);
	after = world_ask(&w, cmd);
	CHECK_STR(after, "fine");
	/* Nothing else came along. */
	snprintf(cmd, sizeof(cmd), "git cat-file -e %s", oid_hex(&other).s);
	CHECK(!world_sh(&w, cmd));
	/* Again: nothing to do, no second pack. */
	before = world_ask(&w, "ls .git/objects/pack");
	CHECK_INT(repo_export_objects(&r, &two, &e), 0);
	same = world_ask(&w, "ls .git/objects/pack");
	CHECK_STR(same, before);
	/* A tree that git would not check out does not get in. */
	CHECK(repo_export_objects(&r, &evil, &e) < 0);
	free(take_ptr(same));
	same = world_ask(&w, "ls .git/objects/pack; ls ../state/repos/*/export");
	CHECK_STR(same, before); /* nothing half-made, here or there */
	snprintf(cmd, sizeof(cmd), "git cat-file -e %s", oid_hex(&evil).s);
	CHECK(!world_sh(&w, cmd));
}

TEST(export_lands_sha1)
{
	export_lands("sha1");
}

TEST(export_lands_sha256)
{
	export_lands("sha256");
}

/* A ref of the host that leads nowhere must not keep anything from landing, nor make it incomplete. */
TEST(export_with_a_broken_host_ref)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	cleanup_free char *fsck = NULL;
	struct git_store s = {0};
	cleanup_fd int objects = -1;
	struct err e = ERR_INIT;
	struct oid base, one, two;
	char cmd[512];

	CHECK(world_make(&w, "sha1") && world_sh(&w, COMMIT_ONE));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_store(&r, &s, &e), 0);
	objects = s.objects_fd;
	CHECK_INT(repo_resolve(&r, "HEAD", &base, NULL, &e), 0);
	CHECK(make_commit(&s, &base, "1", false, &one) && make_commit(&s, &one, "2", false, &two));
	CHECK(world_sh(
		&w, "echo 0123456789012345678901234567890123456789 > .git/refs/heads/broken"));
	CHECK_INT(repo_export_objects(&r, &two, &e), 0);
	snprintf(cmd, sizeof(cmd), "rm .git/refs/heads/broken; git rev-list --objects %s | wc -l",
		oid_hex(&two).s);
	fsck = world_ask(&w, cmd);
	CHECK_STR(fsck, "9");
}

/* What cannot be finished is taken away again: in the store, and in the host. */
TEST(export_that_fails_leaves_nothing)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_repo struct repo r = {0};
	cleanup_free char *left = NULL, *in_the_way = NULL;
	struct git_store s = {0};
	cleanup_fd int objects = -1;
	struct err e = ERR_INIT;
	struct oid base, one;
	pid_t pid;
	int status = -1;

	CHECK(world_make(&w, "sha1") && world_sh(&w, COMMIT_ONE));
	CHECK_INT(repo_open(&r, w.work, w.state, &e), 0);
	CHECK_INT(repo_store(&r, &s, &e), 0);
	objects = s.objects_fd;
	CHECK_INT(repo_resolve(&r, "HEAD", &base, NULL, &e), 0);
	CHECK(make_commit(&s, &base, "1", false, &one));
	/* An index has more than a kilobyte: no room for it in the store. */
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		const struct rlimit small = {1000, 1000};

		signal(SIGXFSZ, SIG_IGN);
		_exit(setrlimit(RLIMIT_FSIZE, &small) < 0 ||
			repo_export_objects(&r, &one, &e) == 0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	left = world_ask(&w, "ls -A .git/objects/pack ../state/repos/*/export | grep -v : | grep . "
			     "|| echo nothing");
	CHECK_STR(left, "nothing");
	/* The pack is copied and has its name, and the index cannot get its own. */
	CHECK_INT(repo_export_objects(&r, &one, &e), 0);
	CHECK(world_sh(&w, "cd .git/objects/pack; i=$(ls *.idx); rm -f *; mkdir -p $i/x"));
	in_the_way = world_ask(&w, "ls -A .git/objects/pack");
	CHECK(repo_export_objects(&r, &one, &e) < 0);
	free(take_ptr(left));
	left = world_ask(&w, "ls -A .git/objects/pack");
	CHECK_STR(left, in_the_way);
	CHECK(world_sh(&w, "rm -r .git/objects/pack/*"));
	CHECK_INT(repo_export_objects(&r, &one, &e), 0);
}
