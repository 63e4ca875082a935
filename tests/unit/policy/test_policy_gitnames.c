/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a Git directory: what committing needs, and that nothing else is open. */
#include "test.h"

#include "base/cleanup.h"
#include "policy/policy.h"

TEST(names)
{
	static const struct {
		const char *rest;
		enum gitname is;
	} cases[] = {
		{"", GITNAME_OPEN},
		{"HEAD", GITNAME_OPEN},
		{"HEAD.lock", GITNAME_OPEN},
		{"index", GITNAME_OPEN},
		{"index.lock", GITNAME_OPEN},
		{"next-index-123.lock", GITNAME_OPEN},
		{"next-index-", GITNAME_HELD},
		{"next-index-1/x", GITNAME_HELD},
		{"index.stash.42", GITNAME_OPEN},
		{"indexx", GITNAME_HELD},
		{"head", GITNAME_HELD},
		{"refs", GITNAME_OPEN},
		{"refs/heads/a.lock", GITNAME_OPEN},
		{"refs/replace", GITNAME_HELD},
		{"refs/replace/x", GITNAME_HELD},
		{"refs/replaced", GITNAME_OPEN},
		{"refsx", GITNAME_HELD},
		{"logs/HEAD", GITNAME_OPEN},
		{"objects", GITNAME_OPEN},
		{"objects/ab", GITNAME_OPEN},
		{"objects/abc", GITNAME_HELD},
		{"objects/AB", GITNAME_HELD},
		{"objects/ab/tmp_obj_X", GITNAME_OPEN},
		{"objects/ab/tmp_obj_X/y", GITNAME_HELD},
		{"objects/ab/0123456789012345678901234567890123456g", GITNAME_HELD},
		{"objects/ab/01234567890123456789012345678901234567", GITNAME_NEW},
		{"objects/pack", GITNAME_HELD},
		{"objects/pack/x", GITNAME_HELD},
		{"objects/info", GITNAME_HELD},
		{"objects/info/alternates", GITNAME_HELD},
		{"config", GITNAME_HELD},
		{"config.lock", GITNAME_HELD},
		{"config.worktree", GITNAME_HELD},
		{"hooks", GITNAME_HELD},
		{"hooks/x", GITNAME_HELD},
		{"info/attributes", GITNAME_HELD},
		{"modules", GITNAME_HELD},
		{"commondir", GITNAME_HELD},
		{"worktrees/x/HEAD", GITNAME_HELD},
		{"rebase-merge/git-rebase-todo", GITNAME_HELD},
		{"packed-refs", GITNAME_OPEN},
		{"packed-refs.new", GITNAME_OPEN},
		{"anything", GITNAME_HELD},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (gitname_of(cases[i].rest) != cases[i].is)
			test_fail(__FILE__, __LINE__, "%s is %d", cases[i].rest, gitname_of(cases[i].rest));
}

TEST(a_grant_for_committing_holds_the_rest)
{
	struct policy_rule rules[] = {{.access = ACCESS_WRITE, .path = "/w"},
		{.access = ACCESS_WRITE, .path = "/w/.git", .git = true},
		{.access = ACCESS_WRITE, .path = "/w/.git/description"},
		{.access = ACCESS_WRITE, .path = "/w/.git/worktrees/a", .git = true}};
	struct policy p = {.rules = rules, .rules_n = ARRAY_SIZE(rules), .gits = true};
	const struct policy_rule *r = NULL;

	CHECK(policy_access(&p, "/w/.git/HEAD", &r) == ACCESS_WRITE);
	CHECK(policy_access(&p, "/w/.git/config", &r) == ACCESS_READ && policy_rule_is_git(r));
	CHECK(policy_access(&p, "/w/.git/description", &r) == ACCESS_WRITE); /* named */
	CHECK(policy_access(&p, "/w/.git/worktrees/a/HEAD", &r) == ACCESS_WRITE);
	CHECK(policy_access(&p, "/w/.git/worktrees/a/commondir", &r) == ACCESS_READ);
	CHECK(policy_access(&p, "/w/.git/worktrees/b/HEAD", &r) == ACCESS_READ);
	CHECK(policy_git_name(&p, "/w/x") == GITNAME_NONE);
	CHECK(policy_git_name(&p, "/w/.git/config") == GITNAME_HELD);
}
