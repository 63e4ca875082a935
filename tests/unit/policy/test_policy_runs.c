/* SPDX-License-Identifier: Apache-2.0 */
/* policy/runs: the list of names that run on the host, and looking a path up in it. */
#include "test.h"

#include <string.h>

#include "base/cleanup.h"
#include "policy/policy.h"
#include "policy/runs.h"

#define HOME "/home/u"

static bool held(const char *path, const char *grant)
{
	return runs_held(path, HOME, strlen(grant), NULL) != NULL;
}

TEST(every_entry_has_a_reason_and_a_source)
{
	CHECK(runs_table_n > 400 && runs_table_n <= RUNS_TABLE_MAX);
	for (size_t i = 0; i < runs_table_n; i++) {
		const struct runs_entry *x = &runs_table[i];
		const char *star = strchr(x->pattern, '*'), *slash = strchr(x->pattern, '/');

		if (!x->source || strlen(x->source) < 5 || !runs_why_text[x->why])
			test_fail(__FILE__, __LINE__, "%s has no source", x->pattern);
		if (x->pattern[0] == '/' || !x->pattern[0])
			test_fail(__FILE__, __LINE__, "%s is no pattern", x->pattern);
		/* What is held is looked up by its first part, and the rest as it is spelled. */
		if (x->hold != HOLD_NOT && star && slash && slash[1])
			test_fail(__FILE__, __LINE__, "%s cannot be held", x->pattern);
		for (size_t k = 0; k < i; k++)
			if (strcmp(runs_table[k].pattern, x->pattern) == 0)
				test_fail(__FILE__, __LINE__, "%s is there twice", x->pattern);
	}
}

TEST(names_that_were_missing_are_marked)
{
	static const char *const names[] = {".env", ".hg/hgrc", ".jj/repo/config.toml",
		".jj/config", "eslint.config.mjs", "vite.config.ts", "tests/conftest.py",
		"build.rs", "crate/build.rs", "CMakePresets.json", "build.gradle",
		"app/build.gradle.kts", ".luarc.json", ".gitignore", "sub/.gitignore",
		".ripgreprc"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!runs_find(names[i]))
			test_fail(__FILE__, __LINE__, "%s is not marked", names[i]);
	CHECK(!runs_find("src/build.rsx") && !runs_find("gitignore") && !runs_find("env"));
}

/* U+017F, the long s, and U+212A, the Kelvin sign, are s and k where case does not count. */
TEST(letters_that_fold_to_ascii_are_marked)
{
	CHECK(runs_find(".v\xc5\xbf\x43ODE/tasks.json"));
	CHECK(runs_find("caf\xc3\xa9/.hus\xe2\x84\xaay/pre-push"));
	CHECK(runs_find("caf\xc3\xa9/.husky/pre-push"));
	CHECK(runs_begin("x/.v\xc5\xbf\x63ode") == runs_begin("x/.vscode"));
	CHECK(!runs_find(".hus\xc4\xb8y/pre-push") && !runs_find("caf\xc3\xa9/husky"));
}

TEST(names_are_held_inside_a_wider_grant)
{
	CHECK(held("/w/.envrc", "/w"));
	CHECK(held("/w/.EnvRC", "/w"));
	CHECK(held("/w/a/b/.vscode/tasks.json", "/w"));
	CHECK(held("/w/.vscode", "/w"));
	CHECK(!held("/w/.vscode/tasks.json", "/w/.vscode")); /* granted by name */
	CHECK(!held("/w/.vscode/tasks.json", "/w/.vscode/tasks.json"));
	CHECK(held("/w/.vscode/x/.envrc", "/w/.vscode"));
	CHECK(!held("/w/.vscode-not/x", "/w"));
	CHECK(!held("/w/build.rs", "/w")); /* marked, but a project's own work */
	CHECK(!held("/w/.npmrc", "/w"));
	CHECK(held(HOME "/.npmrc", HOME));
	CHECK(held(HOME "/.config/autostart/x", HOME "/.config"));
	CHECK(!held("/w/.config/autostart/x", "/w"));
	CHECK(!held("/w/node_modules/p/.vscode/x", "/w"));
	CHECK(held("/w/node_modules/p/.vscode/x", "/w/node_modules/p")); /* that is the workspace */
}

TEST(directories_on_the_way_are_known)
{
	CHECK(runs_held_below("/w/.config", HOME)); /* .config/mise */
	CHECK(runs_held_below(HOME "/.local", HOME));
	CHECK(!runs_held_below("/w/.local", HOME));
	CHECK(!runs_held_below("/w/src", HOME));
	CHECK(runs_held_alike("/w/a", "/w/b", HOME));
	CHECK(!runs_held_alike("/w/a", "/w/.config", HOME));
	CHECK(!runs_held_alike("/w/node_modules/a", "/w/a", HOME));
	CHECK(!runs_held_alike("/home", "/elsewhere", HOME));
}

static enum access ask(struct policy *p, const char *path)
{
	const struct policy_rule *r = NULL;

	return policy_access(p, path, &r);
}

TEST(a_policy_that_holds_says_read)
{
	struct policy_rule rules[] = {{.access = ACCESS_WRITE, .path = "/w"},
		{.access = ACCESS_WRITE, .path = "/w/.envrc"},
		{.access = ACCESS_WRITE, .path = "/w/**/.mcp.json", .glob = true},
		{.access = ACCESS_WRITE, .path = "/x/*", .glob = true},
		{.access = ACCESS_WRITE, .path = "/staged"}};
	struct policy p = {.rules = rules, .rules_n = ARRAY_SIZE(rules)};
	const struct policy_rule *r = NULL;

	CHECK(ask(&p, "/w/.bashrc") == ACCESS_WRITE);
	policy_hold(&p, HOME, "/staged");
	CHECK(policy_access(&p, "/w/.vscode/tasks.json", &r) == ACCESS_READ);
	CHECK(policy_rule_holds(r, "/w/.vscode/tasks.json") == strlen("/w/.vscode"));
	CHECK(ask(&p, "/w/file") == ACCESS_WRITE);
	CHECK(ask(&p, "/w/.envrc") == ACCESS_WRITE);
	CHECK(ask(&p, "/w/a/.envrc") == ACCESS_READ);
	CHECK(ask(&p, "/w/a/.mcp.json") == ACCESS_WRITE); /* a pattern that spells it */
	CHECK(ask(&p, "/x/.bashrc") == ACCESS_READ);      /* a pattern that does not */
	CHECK(ask(&p, "/staged/.bashrc") == ACCESS_WRITE);
	CHECK(ask(&p, "/elsewhere/.bashrc") == ACCESS_DENY);
}

TEST(directories_whose_contents_run)
{
	static const struct {
		const char *path, *dir; /* NULL: not one */
	} cases[] = {{"/w/.vscode", "/w/.vscode"}, {"/w/a/.vscode/x", "/w/a/.vscode"},
		{HOME "/.claude", HOME "/.claude"}, {HOME "/.config/nvim/lua", HOME "/.config/nvim"},
		{"/w/.config/nvim", NULL}, {HOME "/.config", NULL}, {"/w/.envrc", NULL},
		{"/w/.git", NULL}, {"/w/.git/hooks", "/w/.git/hooks"}, {"/w/hooks", NULL},
		{"/w/.github/workflows", NULL}, {"/", NULL}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t end = 0;
		const struct runs_entry *x = runs_inside(cases[i].path, HOME, &end);

		if (!!x != !!cases[i].dir || (x && end != strlen(cases[i].dir)))
			test_fail(__FILE__, __LINE__, "%s", cases[i].path);
	}
	CHECK(runs_pattern("/w/**/.envrc") && runs_pattern("/w/.conf*/mise"));
	CHECK(!runs_pattern("/w/**/out"));
}

TEST(a_pattern_does_not_open_a_directory_that_runs)
{
	struct policy_rule rules[] = {{.access = ACCESS_WRITE, .path = "/w/.cl*/x", .glob = true},
		{.access = ACCESS_WRITE, .path = "/x/.cl*/x", .glob = true, .runs = true}};
	struct policy p = {.rules = rules, .rules_n = ARRAY_SIZE(rules)};

	policy_hold(&p, HOME, NULL);
	CHECK(ask(&p, "/w/.claude/x") == ACCESS_READ);
	CHECK(ask(&p, "/w/.cl/x") == ACCESS_WRITE);
	CHECK(ask(&p, "/x/.claude/x") == ACCESS_WRITE);
}
