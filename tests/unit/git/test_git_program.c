/* SPDX-License-Identifier: Apache-2.0 */
/* git/program, git/read: git runs clean, with limits, and leaves nothing behind; damage is seen. */
#include "test.h"

#include <errno.h>
#include <signal.h>

#include "git/program.h"
#include "git/read.h"
#include "git_world.h"

static const struct strlist nothing_muted;

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static bool no_children_left(void)
{
	return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

TEST(version_is_known)
{
	struct err e = ERR_INIT;

	CHECK(git_version(&e) >= 225);
	CHECK_INT(git_version(&e), git_version(&e));
	CHECK(no_children_left());
}

/* Settings that would run a program if anything read them. */
TEST(clean_means_nobody_elses_configuration)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_buf struct buf out = BUF_INIT(65536);
	char git_dir[128];
	struct err e = ERR_INIT;
	struct git_run r = {.argv = ARGV("config", "--list"), .git_dir = git_dir, .out = &out};

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(&w, "git config --global alias.evil '!touch evil'; git init -q --bare "
			   "../bare; git config --global user.name X"));
	snprintf(git_dir, sizeof(git_dir), "%s/bare", w.top);
	setenv("GIT_CONFIG_PARAMETERS", "'core.pager'='touch evil'", 1);
	setenv("GIT_INDEX_FILE", "/evil", 1);
	CHECK_INT(git_run(&r, &e), 0);
	unsetenv("GIT_CONFIG_PARAMETERS");
	unsetenv("GIT_INDEX_FILE");
	CHECK(!strstr(buf_str(&out), "evil") && !strstr(buf_str(&out), "user.name"));
	CHECK(strstr(buf_str(&out), "core.hookspath=/dev/null"));
	/* The negative control: as user, it is there. */
	buf_reset(&out);
	r.git_dir = NULL;
	r.dir = w.work;
	r.muted = &nothing_muted;
	CHECK_INT(git_run(&r, &e), 0);
	CHECK(strstr(buf_str(&out), "touch evil") && strstr(buf_str(&out), "user.name=X"));
	CHECK(no_children_left());
}

TEST(hooks_run_only_when_asked_for)
{
	cleanup_world struct world w = {.fd = -1};
	struct err e = ERR_INIT;
	char mark[128];
	struct git_run r = {.argv = ARGV("-c", "user.name=A", "-c", "user.email=a@example.org",
				    "commit", "-q", "--allow-empty", "-m", "x"),
		.dir = w.work,
		.muted = &nothing_muted};

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(&w, "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch ran\\n' > "
			   ".git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"));
	snprintf(mark, sizeof(mark), "%s/ran", w.work);
	CHECK_INT(git_run(&r, &e), 0);
	CHECK(access(mark, F_OK) < 0);
	r.hooks = true;
	CHECK_INT(git_run(&r, &e), 0);
	CHECK(access(mark, F_OK) == 0);
}

TEST(input_output_and_status)
{
	cleanup_world struct world w = {.fd = -1};
	size_t n = (size_t)4 << 20; /* far more than a pipe holds, both ways */
	cleanup_free char *bytes = malloc(n);
	cleanup_buf struct buf out = BUF_INIT(n + 100);
	cleanup_buf struct buf small = BUF_INIT(1000);
	struct err e = ERR_INIT;
	struct git_run r = {
		.argv = ARGV("stripspace"), .dir = "/", .in = bytes, .in_n = n, .out = &out};

	CHECK(world_make(&w, NULL) && bytes);
	memset(bytes, 'x', n);
	for (size_t i = 99; i < n; i += 100)
		bytes[i] = '\n';
	bytes[n - 1] = '\n';
	CHECK_INT(git_run(&r, &e), 0);
	CHECK(out.len == n && memcmp(out.data, bytes, n) == 0);
	r.out = &small;
	CHECK_INT(git_run(&r, &e), -EFBIG);
	CHECK(no_children_left());
	r = (struct git_run){.argv = ARGV("cat-file", "-t", "no\033such"),
		.git_dir = "/nonexistent",
		.dir = "/"};
	CHECK_INT(git_run(&r, &e), -EIO);
	CHECK(strstr(e.msg, "git cat-file failed with status 128: fatal: "));
	CHECK(!strchr(e.msg, '\033') && !strchr(e.msg, '\n'));
	r.any_status = true;
	CHECK_INT(git_run(&r, &e), 0);
	CHECK_INT(r.status, 128);
	CHECK(no_children_left());
}

TEST(a_grandchild_with_the_pipe_does_not_hold_us)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct err e = ERR_INIT;
	struct git_run r = {.argv = ARGV("-c", "alias.bg=!sleep 1000 & echo $!", "bg"),
		.dir = w.work,
		.muted = &nothing_muted,
		.out = &out};
	uint64_t pid;

	CHECK(world_make(&w, "sha1"));
	alarm(60);
	CHECK_INT(git_run(&r, &e), 0);
	alarm(0);
	CHECK(out.len > 1);
	out.data[out.len - 1] = '\0';
	CHECK(str_u64(out.data, 1 << 30, &pid));
	kill((pid_t)pid, SIGKILL);
}

/* ------------------------------------------------------------------ reading */

static void reading(const char *format, enum git_hash h)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_git_reader struct git_reader *r = NULL;
	cleanup_buf struct buf b = BUF_INIT(1 << 20), tiny = BUF_INIT(10);
	struct commit_info c = {0};
	struct tree_entry t;
	enum git_type type;
	struct oid o, tree;
	struct err e = ERR_INIT;
	char git_dir[128];
	size_t at = 0;
	int n = 0;

	CHECK(world_make(&w, format));
	CHECK(world_sh(&w,
		"mkdir d; echo x > d/x; seq 1000 > big; ln -s big l; touch e; chmod +x e; git "
		"add .; git commit -qm 'one\n\ntwo'; git commit -q --allow-empty -m z"));
	snprintf(git_dir, sizeof(git_dir), "%s/.git", w.work);
	CHECK_INT(git_reader_open(&r, git_dir, &e), 0);
	CHECK_INT(git_read(r, "main~1", &type, &o, &b, &e), 0);
	CHECK_INT(type, GIT_COMMIT);
	CHECK_INT(git_commit_parse(b.data, b.len, h, &c, &e), 0);
	CHECK_STR(c.message, "one\n\ntwo\n");
	CHECK(str_starts(c.author, "A <a@example.org> "));
	CHECK_INT(c.parents_n, 0);
	tree = c.tree;
	commit_info_done(&c);
	buf_reset(&b);
	CHECK_INT(git_read_oid(r, &tree, GIT_TREE, &b, &e), 0);
	while (git_tree_next(b.data, b.len, h, &at, &t) == 1)
		n++;
	CHECK_INT(n, 4);
	CHECK(at == b.len);
	/* Misses, wrong types and too little room leave the conversation usable. */
	buf_reset(&b);
	CHECK_INT(git_read(r, "nothing here", &type, &o, &b, &e), -ENOENT);
	CHECK_INT(git_read(r, "two\nlines", &type, &o, &b, &e), -EINVAL);
	CHECK_INT(git_read_oid(r, &tree, GIT_BLOB, &b, &e), -EBADMSG);
	CHECK_INT(b.len, 0);
	CHECK_INT(git_read(r, "main:big", &type, &o, &tiny, &e), -EFBIG);
	CHECK_INT(git_read(r, "main:big", &type, &o, &b, &e), 0);
	CHECK_INT(b.len, 3893);
	{
		cleanup_fd int fd = openat(w.fd, "copy", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		CHECK_INT(git_read_to_fd(r, &o, fd, &e), 0);
		CHECK_INT(lseek(fd, 0, SEEK_END), 3893);
	}
}

TEST(objects_come_back_sha1)
{
	reading("sha1", GIT_SHA1);
}

TEST(objects_come_back_sha256)
{
	reading("sha256", GIT_SHA256);
}

TEST(a_changed_object_is_seen)
{
	cleanup_world struct world w = {.fd = -1};
	cleanup_git_reader struct git_reader *r = NULL;
	cleanup_buf struct buf b = BUF_INIT(4096);
	struct err e = ERR_INIT;
	char git_dir[128];
	struct oid o;

	CHECK(world_make(&w, "sha1"));
	CHECK(world_sh(&w, "a=$(echo good | git hash-object -w --stdin); b=$(echo evil | git "
			   "hash-object -w --stdin); cd .git/objects; p() { echo $1 | sed "
			   "'s|^..|&/|'; }; chmod u+w $(p $a); cat $(p $b) > $(p $a)"));
	snprintf(git_dir, sizeof(git_dir), "%s/.git", w.work);
	CHECK_INT(git_reader_open(&r, git_dir, &e), 0);
	oid_of(&o, GIT_SHA1, GIT_BLOB, "evil\n", 5);
	CHECK_INT(git_read_oid(r, &o, GIT_BLOB, &b, &e), 0);
	oid_of(&o, GIT_SHA1, GIT_BLOB, "good\n", 5);
	buf_reset(&b);
	CHECK_INT(git_read_oid(r, &o, GIT_BLOB, &b, &e), -EBADMSG);
	CHECK_INT(b.len, 0);
	CHECK(strstr(e.msg, "damaged"));
}

TEST(bad_trees_are_refused)
{
	static const char h20[] = "01234567890123456789";
	static const struct {
		const char *head;
		size_t n;
		int want;
	} v[] = {{"100644 a\0", 9, 1}, {"40000 a\0", 8, 1}, {"040000 a\0", 9, 1},
		{"100664 a\0", 9, 1}, {"100600 a\0", 9, -EBADMSG}, {"644 a\0", 6, -EBADMSG},
		{"100644 \0", 8, -EBADMSG}, {"100644 .\0", 9, -EBADMSG},
		{"100644 ..\0", 10, -EBADMSG}, {"100644 a/b\0", 11, -EBADMSG},
		{"100648 a\0", 9, -EBADMSG}, {" a\0", 3, -EBADMSG},
		{"0000000100644 a\0", 16, -EBADMSG}};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		char raw[64];
		struct tree_entry t;

		memcpy(raw, v[i].head, v[i].n);
		memcpy(raw + v[i].n, h20, 20);
		for (size_t n = 1; n <= v[i].n + 20; n++) {
			size_t at = 0;
			int want = n == v[i].n + 20 ? v[i].want : -EBADMSG;

			CHECK_INT(git_tree_next(raw, n, GIT_SHA1, &at, &t), want);
		}
	}
}

TEST(bad_commits_are_refused)
{
	static const char t[] = "tree e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n";
	static const char *const tails[] = {"", "author A <a> 1 +0000\n",
		"author A <a> 1 +0000\ncommitter C <c> 1 +0000", "committer C <c> 1 +0000\n\nx",
		"author A\nauthor A\ncommitter C\n\n", "parent 12\nauthor A\ncommitter C\n\n"};
	struct commit_info c = {0};
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
		char text[256];

		snprintf(text, sizeof(text), "%s%s", t, tails[i]);
		CHECK(git_commit_parse(text, strlen(text), GIT_SHA1, &c, &e) < 0);
		CHECK(!c.author && !c.message);
	}
	{
		char text[256];

		snprintf(text, sizeof(text), "%sauthor A\ncommitter C\ngpgsig x\n tree y\n\nm", t);
		CHECK_INT(git_commit_parse(text, strlen(text), GIT_SHA1, &c, &e), 0);
		CHECK_STR(c.message, "m");
		commit_info_done(&c);
		CHECK(git_commit_parse(text, strlen(text), GIT_SHA256, &c, &e) < 0);
	}
}
