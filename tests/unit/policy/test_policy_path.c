/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and wildcards of policies: every spelling has one meaning or is refused. */
#include "test.h"

#include "policy/policy_impl.h"

static const struct policy_context ctx = {.home = "/home/u", .workspace = "/home/u/w"};

static char *normal(const char *s)
{
	static char *kept;
	struct err e = ERR_INIT;

	free(kept);
	kept = NULL;
	return policy_path_normalise(&kept, s, &e) < 0 ? e.msg[0] ? (char *)"error" : NULL : kept;
}

TEST(normalise)
{
	static const char *const cases[][2] = {{"/", "/"}, {"//", "/"}, {"/a/", "/a"},
		{"/a//b", "/a/b"}, {"/./a", "/a"}, {"/a/./b/.", "/a/b"}, {"/a/../b", "/b"},
		{"/..", "/"}, {"/../../x", "/x"}, {"/a/b/../../c/", "/c"}, {"/a/...", "/a/..."},
		{"/.a/..b", "/.a/..b"}, {"/a/b/..", "/a"}, {"////a////", "/a"}, {"a", "error"},
		{"", "error"}, {"./a", "error"}, {"/a\nb", "/a\nb"}, {"/\xff", "/\xff"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_STR(normal(cases[i][0]), cases[i][1]);
}

TEST(normalise_length)
{
	char s[5000];

	memset(s, 'a', sizeof(s));
	s[0] = '/';
	s[4095] = '\0';
	CHECK_INT(strlen(normal(s)), 4095);
	s[4095] = 'a';
	s[4096] = '\0';
	CHECK_STR(normal(s), "error");
}

/* The expansion, or the error message. */
static const char *expand(const char *s)
{
	static char *kept;
	static struct err e;

	free(kept);
	kept = NULL;
	e = ERR_INIT;
	return policy_path_expand(&kept, s, &ctx, &e) < 0 ? e.msg : kept;
}

TEST(expand_paths)
{
	static const char *const cases[][2] = {{"~", "/home/u"}, {"~/", "/home/u"},
		{"~/x", "/home/u/x"}, {".", "/home/u/w"}, {"./", "/home/u/w"},
		{"./x/", "/home/u/w/x"}, {"/x", "/x"}, {"./../y", "/home/u/y"},
		{"~/../../etc", "/etc"}, {"/a,b:c", "/a,b:c"}, {"/with space", "/with space"},
		{"/\xc3\xa9", "/\xc3\xa9"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_STR(expand(cases[i][0]), cases[i][1]);
}

TEST(expand_refuses)
{
	CHECK(strstr(expand("x"), "\"x\" is relative; write ./path"));
	CHECK(strstr(expand("../x"), "is relative"));
	CHECK(strstr(expand(".x"), "is relative"));
	CHECK(strstr(expand("~root/x"), "another user's home"));
	CHECK(strstr(expand("$HOME/x"), "is relative"));
	CHECK(strstr(expand(""), "a path is empty"));
	CHECK(strstr(expand("/a\nb"), "\"/a\\x0ab\" holds a control character"));
	CHECK(strstr(expand("/a\x7f"), "control character"));
	CHECK(strstr(expand("/a\xff"), "is not UTF-8"));
	CHECK(strstr(expand("/a\xc0\xaf"), "is not UTF-8"));
}

TEST(expand_length)
{
	char s[4200];

	memset(s, 'a', sizeof(s));
	memcpy(s, "~/", 2);
	s[4090] = '\0'; /* fits, but not behind the home directory */
	CHECK(strstr(expand(s), "longer than 4095 bytes when expanded"));
	memcpy(s, "/a", 2);
	CHECK_INT(strlen(expand(s)), 4090);
	s[4090] = 'a';
	s[4199] = '\0';
	CHECK(strstr(expand(s), "longer than 4095 bytes"));
}

static const char *pattern(const char *s, bool *glob, const struct policy_context *c)
{
	static char *kept;
	static struct err e;

	free(kept);
	kept = NULL;
	e = ERR_INIT;
	*glob = false;
	return policy_pattern_expand(&kept, glob, s, c, &e) < 0 ? e.msg : kept;
}

TEST(patterns)
{
	bool g;

	CHECK_STR(pattern("./**/*.env", &g, &ctx), "/home/u/w/**/*.env");
	CHECK(g);
	CHECK_STR(pattern("/a/\\*b", &g, &ctx), "/a/*b");
	CHECK(!g);
	CHECK_STR(pattern("/a/\\[x\\]", &g, &ctx), "/a/[x]");
	CHECK(!g);
	CHECK_STR(pattern("/a/\\[x\\]/*", &g, &ctx), "/a/\\[x\\]/*");
	CHECK(g);
	CHECK_STR(pattern("/a/./*//b/", &g, &ctx), "/a/*/b");
	CHECK(g);
	CHECK_STR(pattern("/a/b/../*", &g, &ctx), "/a/*");
}

TEST(patterns_refused)
{
	static const char *const cases[][2] = {{"/a/**b", "** inside a name"},
		{"/a/b**", "** inside a name"}, {"/a/***", "** inside a name"},
		{"/a/[b", "not a complete set"}, {"/a/[]", "not a complete set"},
		{"/a/[!]", "not a complete set"}, {"/a/[b/c]", "not a complete set"},
		{"/a/[z-a]", "not a complete set"}, {"/a/[[:alpha:]]", "not a complete set"},
		{"/a\\b", "backslash before an ordinary character"},
		{"/a/*\\", "backslash before an ordinary character"},
		{"/a/*/../b", "\"..\" after a wildcard"}, {"/a/**/..", "\"..\" after a wildcard"},
		{"*.env", "is relative"}, {"**/x", "is relative"}};
	bool g;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strstr(pattern(cases[i][0], &g, &ctx), cases[i][1])) {
			CHECK_STR(pattern(cases[i][0], &g, &ctx), cases[i][1]);
		}
}

/* A workspace whose own name looks like a pattern: its characters stand for themselves. */
TEST(pattern_prefix_is_plain)
{
	static const struct policy_context odd = {.home = "/h", .workspace = "/h/my[ab]*"};
	bool g;
	char copy[2048];

	CHECK_STR(pattern("./x", &g, &odd), "/h/my[ab]*/x");
	CHECK(!g);
	snprintf(copy, sizeof(copy), "%s", pattern("./*.c", &g, &odd));
	CHECK(g);
	CHECK_STR(copy, "/h/my\\[ab\\]\\*/*.c");
	CHECK(policy_glob_match(copy, "/h/my[ab]*/x.c"));
	CHECK(!policy_glob_match(copy, "/h/mya/x.c"));
	CHECK(!policy_glob_match(copy, "/h/my[ab]z/x.c"));
}

TEST(glob_match)
{
	static const struct {
		const char *pattern, *path;
		bool match;
	} cases[] = {
		{"/a/*", "/a/b", true},
		{"/a/*", "/a/b/c", false},
		{"/a/*", "/a", false},
		{"/a/*", "/a/.hidden", true},
		{"/a/*.c", "/a/x.c", true},
		{"/a/*.c", "/a/x.h", false},
		{"/a/*.c", "/a/.c", true},
		{"/a/?", "/a/b", true},
		{"/a/?", "/a/bc", false},
		{"/a/?", "/a/\xc3\xa9", true}, /* one character, two bytes */
		{"/a/?", "/a/\xff", true},     /* an ill-formed byte is a character of its own */
		{"/a/??", "/a/\xc3\xa9", false},
		{"/a/[abc]", "/a/b", true},
		{"/a/[abc]", "/a/d", false},
		{"/a/[a-c]x", "/a/bx", true},
		{"/a/[!a-c]", "/a/d", true},
		{"/a/[!a-c]", "/a/b", false},
		{"/a/[^a]", "/a/b", true},
		{"/a/[]x]", "/a/]", true},
		{"/a/[a-]", "/a/-", true},
		{"/a/[\\]]", "/a/]", true},
		{"/a/[\xc3\xa0-\xc3\xbf]", "/a/\xc3\xa9", true},
		{"/a/\\*", "/a/*", true},
		{"/a/\\*", "/a/b", false},
		{"/a/**", "/a/b", true},
		{"/a/**", "/a/b/c/d", true},
		{"/a/**", "/a", false},
		{"/a/**/b", "/a/b", true},
		{"/a/**/b", "/a/x/b", true},
		{"/a/**/b", "/a/x/y/b", true},
		{"/a/**/b", "/a/x/y/bb", false},
		{"/**/b", "/b", true},
		{"/**/**/b", "/x/b", true},
		{"/a/**/x/**/b", "/a/1/x/2/3/b", true},
		{"/a/**/x/**/b", "/a/1/2/3/b", false},
		{"/a*b*c", "/aXbYbZc", true},
		{"/a*b*c", "/aXbYbZ", false},
		{"/a/[id].js", "/a/[id].js", true}, /* spelled exactly like the pattern */
		{"/a/[id].js", "/a/i.js", true},
		{"/x", "/x", true},
		{"/x", "/y", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (policy_glob_match(cases[i].pattern, cases[i].path) != cases[i].match) {
			test_fail(__FILE__, __LINE__, "%s against %s is not %d", cases[i].pattern,
				cases[i].path, cases[i].match);
			return;
		}
}

TEST(glob_covers)
{
	static const struct {
		const char *pattern, *path;
		int depth; /* -1: not covered */
	} cases[] = {
		{"/a", "/a", 1},
		{"/a", "/a/b/c", 1},
		{"/a", "/ab", -1},
		{"/a/*", "/a/b/c", 2},
		{"/a/*", "/a", -1},
		{"/a/**", "/a/b/c/d", 2}, /* everything below: decided at the first name */
		{"/a/**/.env", "/a/x/.env", 3},
		{"/a/**/.env", "/a/x/.env/y", 3},
		{"/a/**/.env", "/a/.env/x/.env", 4}, /* the deepest match counts */
		{"/a/**/.env", "/a/x/env", -1},
		{"/**/x", "/q/x/y", 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned depth = 99;
		bool covers = policy_glob_covers(cases[i].pattern, cases[i].path, &depth);

		CHECK_INT(covers, cases[i].depth >= 0);
		if (covers)
			CHECK_INT(depth, cases[i].depth);
	}
}

TEST(glob_reach)
{
	CHECK(glob_reaches("/a/**/x", "/a/b"));
	CHECK(glob_reaches("/a/*/x", "/a/b"));
	CHECK(glob_reaches("/a/*", "/a/b"));
	CHECK(!glob_reaches("/a/*.c", "/a/b"));
	CHECK(!glob_reaches("/a/*", "/a/b/c")); /* covers it from above, which is not deeper */
	CHECK(!glob_reaches("/a/b/*", "/c"));
}

TEST(glob_base)
{
	static const char *const cases[][2] = {{"/a/b/*", "/a/b"}, {"/a/b*/c", "/a"}, {"/*", "/"},
		{"/**/x", "/"}, {"/a\\[1\\]/b/[x]", "/a[1]/b"}, {"/a/b", "/a/b"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *base = policy_glob_base(cases[i][0]);

		CHECK_STR(base, cases[i][1]);
		free(base);
	}
}

/* A pattern made to explode a backtracking matcher takes no noticeable time. */
TEST(glob_hostile)
{
	char pat[4000] = "", path[4000] = "";
	size_t n = 0, m = 0;

	for (int i = 0; i < 200; i++)
		n += (size_t)snprintf(pat + n, sizeof(pat) - n, "/**/a");
	for (int i = 0; i < 900; i++)
		m += (size_t)snprintf(path + m, sizeof(path) - m, "/a");
	snprintf(pat + n, sizeof(pat) - n, "/b");
	CHECK(!policy_glob_match(pat, path));
	snprintf(pat, sizeof(pat), "/*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b");
	memset(path, 'a', 255);
	path[0] = '/';
	path[255] = '\0';
	CHECK(!policy_glob_match(pat, path));
}

TEST(has_glob)
{
	CHECK(policy_has_glob("/a/*"));
	CHECK(policy_has_glob("/a?"));
	CHECK(policy_has_glob("/[a]"));
	CHECK(policy_has_glob("/a\\b"));
	CHECK(!policy_has_glob("/a/b]c{d}!"));
}
