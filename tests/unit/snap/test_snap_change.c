/* SPDX-License-Identifier: Apache-2.0 */
/* snap/change, names that run or deceive, line endings, the stat cache. */
#include "test.h"

#include "os/path.h"
#include "snap/change.h"
#include "snap/eol.h"
#include "snap/scan_impl.h"
#include "snap/statcache.h"
#include "snap_world.h"

TEST(changes_are_sorted_and_found)
{
	cleanup_changes struct changes c = {0};

	CHECK(changes_add(&c, "b/x") && changes_add(&c, "a") && changes_add(&c, "b"));
	changes_sort(&c);
	CHECK_STR(c.v[0].path, "a");
	CHECK_STR(c.v[2].path, "b/x");
	CHECK(changes_find(&c, "b/x") == &c.v[2]);
	CHECK(!changes_find(&c, "c"));
}

TEST(every_flag_has_a_word)
{
	for (unsigned bit = 0; bit <= 14; bit++)
		CHECK(change_flag_text(1u << bit) != NULL);
	CHECK(!change_flag_text(1u << 15));
	CHECK(!change_flag_text(CHANGE_CASE | CHANGE_RUNS));
}

TEST(what_runs_is_known_by_name)
{
	static const char *const runs[] = {".git/hooks/pre-commit", ".husky/pre-push", ".bashrc",
		"home/u/.profile", ".ssh/config", ".config/systemd/user/x.service",
		".config/autostart/x.desktop", ".npmrc", "pkg/.npmrc", "pip.conf",
		".claude/settings.json", ".MCP.json", "sub/AGENTS.md", ".cursor/rules/x.mdc",
		".gemini/settings.json", ".codex/config.toml", ".vscode/tasks.json",
		".idea/workspace.xml", ".devcontainer/devcontainer.json", ".envrc",
		".github/workflows/ci.yml", ".GitHub/Workflows/ci.yml", ".gitlab-ci.yml",
		"a/b/Jenkinsfile", ".inputrc", "venv/lib/python3/site-packages/x.pth",
		"proj.code-workspace", ".vimrc", "etc/cron.d/job"};
	static const char *const not [] = {"Makefile", "package.json", "src/main.c", "README.md",
		"github/workflows/ci.yml", "x.bashrc", ".bashrc.md", "hooks/useState.ts",
		"models/resnet.pth", ".github/ISSUE_TEMPLATE.md", "vscode/tasks.json",
		"docs/AGENTS.md.txt"};

	for (size_t i = 0; i < ARRAY_SIZE(runs); i++)
		if (!change_runs(runs[i], 0100644))
			test_fail(__FILE__, __LINE__, "%s is not known", runs[i]);
	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		if (change_runs(not [i], 0100755))
			test_fail(__FILE__, __LINE__, "%s is taken for %s", not [i],
				change_runs(not [i], 0100755));
	CHECK(!change_runs(".bashrc", 0)); /* gone */
}

TEST(git_directories_in_disguise)
{
	static const char *const git[] = {".git", ".GIT", ".Git", ".g\xe2\x80\x8cit",
		"\xef\xbb\xbf.git", ".git ", ".git.", ".git . .", "git~1", "GIT~2", ".git::$INDEX",
		"git~1 .", "x\\.git", ".git\\config"};
	static const char *const not [] = {".gitignore", "git", ".gitx", "git~", "git~x", "a.git",
		".github", "\xe2\x80\x8c", ".gi", "git~1x"};

	for (size_t i = 0; i < ARRAY_SIZE(git); i++)
		if (!name_is_git(git[i]))
			test_fail(__FILE__, __LINE__, "%s", git[i]);
	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		if (name_is_git(not [i]))
			test_fail(__FILE__, __LINE__, "%s", not [i]);
}

TEST(symlinks_that_escape)
{
	CHECK(link_escapes("l", "/etc/passwd"));
	CHECK(link_escapes("l", ".."));
	CHECK(link_escapes("a/l", "../.."));
	CHECK(link_escapes("a/l", "../../x"));
	CHECK(link_escapes("l", ".git/config"));
	CHECK(link_escapes("a/l", "../.GIT/hooks"));
	CHECK(link_escapes("l", "x/../../y"));
	CHECK(link_escapes("l", "x/../y")); /* x may be a symlink to the top */
	CHECK(!link_escapes("l", "x/y"));
	CHECK(!link_escapes("a/b/l", "../../x"));
	CHECK(!link_escapes("a/l", "./../x/./y"));
	CHECK(!link_escapes("l", ".github/x"));
}

TEST(line_endings_follow_the_attributes)
{
	CHECK_INT(eol_action(&(struct eol_attrs){"set", "unspecified", "unspecified"}, false),
		EOL_TEXT);
	CHECK_INT(eol_action(&(struct eol_attrs){"unset", "set", "crlf"}, true), EOL_RAW);
	CHECK_INT(eol_action(&(struct eol_attrs){"auto", "unspecified", "crlf"}, false), EOL_AUTO);
	CHECK_INT(eol_action(&(struct eol_attrs){"unspecified", "input", "unspecified"}, false),
		EOL_TEXT);
	CHECK_INT(eol_action(&(struct eol_attrs){"unspecified", "unspecified", "lf"}, false),
		EOL_TEXT);
	CHECK_INT(
		eol_action(&(struct eol_attrs){"unspecified", "unspecified", "unspecified"}, false),
		EOL_RAW);
	CHECK_INT(
		eol_action(&(struct eol_attrs){"unspecified", "unspecified", "unspecified"}, true),
		EOL_AUTO);
}

TEST(line_endings_convert)
{
	char a[] = "a\r\nb\rc\r\n\r";

	CHECK(eol_has_crlf("x\ry\r\n", 5));
	CHECK(!eol_has_crlf("x\ry\n\r", 5));
	CHECK_INT(eol_to_lf(a, sizeof(a) - 1), 7);
	CHECK(memcmp(a, "a\nb\rc\n\r", 7) == 0);
	CHECK(eol_is_binary("a\0b", 3));
	CHECK(eol_is_binary("a\rb", 3));
	CHECK(!eol_is_binary("plain\r\ntext\t\n", 13));
	CHECK(eol_is_binary("\x01\x02\x03", 3));
}

/* A file's state, and one in which its ctime is a minute old: real files cannot be backdated. */
static struct stat aged(const char *name)
{
	struct stat st = {0};

	world_sh("echo x > %s", name);
	stat(world_path(name), &st);
	st.st_ctim.tv_sec -= 60;
	return st;
}

static struct oid some_oid(uint8_t n)
{
	struct oid o = {.n = 20};

	memset(o.v, n, 20);
	return o;
}

TEST(the_cache_keeps_what_has_aged)
{
	cleanup_statcache struct statcache *a = NULL, *b = NULL, *c = NULL;
	cleanup_fd int dir = -1;
	struct stat st, fresh, other;
	struct oid o = some_oid(7), got = {0};
	cleanup_buf struct buf kept = BUF_INIT(65536);
	uint32_t bits = 0;

	CHECK(world_make());
	dir = world_dir("cache");
	st = aged("f1");
	fresh = st;
	fresh.st_ctim.tv_sec += 60;
	a = statcache_open(dir, "c", "ctx");
	CHECK(a && !statcache_find(a, "p/f1", &st, &got, &bits));
	statcache_put(a, "p/f1", &st, &o, 3);
	statcache_put(a, "a", &st, &o, 1);
	statcache_put(a, "young", &fresh, &o, 1);
	statcache_put(a, "p/f1", &st, &o, 4); /* the first answer is kept */
	statcache_save(a, dir, "c");
	CHECK_INT(file_read_at(dir, "c", &kept), 0);
	CHECK(kept.len > 0 && !memmem(kept.data, kept.len, "p/f1", 4)); /* a path may be a secret */
	b = statcache_open(dir, "c", "ctx");
	CHECK(b && statcache_find(b, "p/f1", &st, &got, &bits));
	CHECK(oid_eq(&got, &o) && bits == 3);
	CHECK(!statcache_find(b, "young", &fresh, &got, &bits));
	CHECK(!statcache_find(b, "p/f2", &st, &got, &bits));
	other = st;
	other.st_ctim.tv_nsec ^= 1;
	CHECK(!statcache_find(b, "p/f1", &other, &got, &bits));
	other = st;
	other.st_mode ^= 0100;
	CHECK(!statcache_find(b, "p/f1", &other, &got, &bits));
	c = statcache_open(dir, "c", "another start");
	CHECK(c && !statcache_find(c, "p/f1", &st, &got, &bits));
}

TEST(a_damaged_cache_is_empty)
{
	cleanup_fd int dir = -1;
	struct stat st;
	struct oid o = some_oid(9), got;
	uint32_t bits;
	struct statcache *c;

	CHECK(world_make());
	dir = world_dir("cache2");
	st = aged("f2");
	c = statcache_open(dir, "c", "x");
	statcache_put(c, "f2", &st, &o, 0);
	statcache_save(c, dir, "c");
	statcache_close(c);
	for (int at = 0; at < 234; at += 3) {
		CHECK(world_sh("cp cache2/c cache2/d") == 0);
		CHECK(test_invert(dir, "d", at));
		c = statcache_open(dir, "d", "x");
		CHECK(c);
		CHECK(!statcache_find(c, "f2", &st, &got, &bits));
		statcache_close(c);
	}
	for (int n = 0; n < 231; n += 7) {
		CHECK(world_sh("head -c %d cache2/c > cache2/d", n) == 0);
		c = statcache_open(dir, "d", "x");
		CHECK(c);
		CHECK(!statcache_find(c, "f2", &st, &got, &bits));
		statcache_close(c);
	}
}
