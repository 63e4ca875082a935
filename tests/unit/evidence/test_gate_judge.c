/* SPDX-License-Identifier: Apache-2.0 */
/* The judgement of commits: real repositories, real ledgers, and what must not count. */
#include "test.h"

#include "evidence/gate.h"
#include "export_world.h"

#define GIT "git -c user.name=u -c user.email=u@example.org -c commit.gpgsign=false "
#define TODAY "2026-06-15"
/* A line of paths.jsonl. */
#define ADDED                                                                                      \
	"{\"path\":\"%s\",\"mode\":\"100644\",\"blob\":\"%s\",\"oldMode\":\"000000\","             \
	"\"oldBlob\":null}\n"

static bool make_gate(struct gate *g, const char *text)
{
	struct err e = ERR_INIT;

	gate_init(g);
	if (gate_parse(g, "g", text, strlen(text), &e) == 0)
		return true;
	printf("# %s\n", e.msg);
	return false;
}

/* Judge the newest commit; the state, and the first problem's rule in *ret_rule. */
static enum gate_state judge(struct world *w, const char *gate, int *ret_rule, const char **ret_by)
{
	cleanup_gate_commits struct gate_commits c = {0};
	cleanup_gate_index struct gate_index x = {0};
	cleanup_gate struct gate g;
	static char by[16];

	*ret_rule = -1;
	if (!make_gate(&g, gate) || gate_commits_read(&c, &w->repo, "HEAD", &w->e) < 0 ||
		gate_index_make(&x, &w->repo, &g, &w->e) < 0) {
		printf("# %s\n", w->e.msg);
		return GATE_STATE_NUM;
	}
	gate_trace(&g, &x, &c.v[c.n - 1], TODAY);
	for (size_t i = 0; i < c.v[c.n - 1].problems.n; i++)
		printf("# %s\n", c.v[c.n - 1].problems.v[i].text);
	if (c.v[c.n - 1].problems.n)
		*ret_rule = (int)c.v[c.n - 1].problems.v[0].rule;
	snprintf(by, sizeof(by), "%s", c.v[c.n - 1].matched ? c.v[c.n - 1].matched : "");
	*ret_by = by;
	return c.v[c.n - 1].state;
}

/* Base commit with file a; then a commit that adds b with this message. */
static bool make_commits(struct world *w, const char *message)
{
	char script[1024];

	snprintf(script, sizeof(script),
		"cd repo && echo a > a && git add a && " GIT
		"commit -qm base && echo b > b && git add b && " GIT "commit -qm '%s'",
		message);
	return world_sh(w, script) == 0;
}

/* Landed as the newest commit is, by its own names. */
static bool land_head(struct world *w, const char *accepted, bool reviewed)
{
	char *commit = world_ask(w, "git rev-parse HEAD"),
	     *tree = world_ask(w, "git rev-parse HEAD:"),
	     *onto = world_ask(w, "git rev-parse HEAD^"),
	     *patch = world_ask(w, "git diff-tree -p --full-index HEAD^ HEAD | git patch-id "
				   "--verbatim | cut -d' ' -f1"),
	     *blob = world_ask(w, "git rev-parse HEAD:b");
	char line[256];
	bool ok;

	snprintf(line, sizeof(line), ADDED, "b", blob);
	ok = world_landed(w, tree, commit, onto, patch, accepted ? accepted : tree, reviewed, line);
	free(commit);
	free(tree);
	free(onto);
	free(patch);
	free(blob);
	return ok;
}

#define PLAIN "version: 1\n"

TEST(untouched_and_claimed)
{
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "by hand"));
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_UNTOUCHED);
	CHECK_INT(judge(&w, "version: 1\nrequire: {evidence: all}\n", &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_NO_EVIDENCE);
	/* A trailer asks for evidence; it is none. */
	CHECK_INT(
		world_sh(&w, "cd repo && " GIT "commit -q --amend -m 'x\n\nAssisted-by: a:b'"), 0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_NO_EVIDENCE);
	CHECK_INT(judge(&w, "version: 1\nignore: {paths: [b]}\n", &rule, &by), GATE_IGNORED);
}

TEST(traced_by_every_way)
{
	static const struct {
		const char *change, *by;
	} ways[] = {{"true", "commit"}, {GIT "commit -q --amend -m reworded", "tree"},
		/* rebased onto another base: other tree, same patch */
		{"git checkout -q --orphan o && git rm -q --cached b && echo z > z && git add z "
		 "&& " GIT "commit -qm other && git add b && " GIT "commit -qm picked",
			"patch"},
		/* squashed with another landed file: only the files are the same */
		{"echo 1 > c && git add c && " GIT "commit -q --amend -m squashed", "files"}};

	for (size_t i = 0; i < 4; i++) {
		char script[1024], *blob, line[256];
		const char *by;
		int rule;
		WORLD(w, i % 2 ? "--object-format=sha256" : "");

		CHECK(make_commits(&w, "agent"));
		CHECK(world_created(&w) && land_head(&w, NULL, false));
		snprintf(script, sizeof(script), "cd repo && %s", ways[i].change);
		CHECK_INT(world_sh(&w, script), 0);
		if (i == 3) {
			blob = world_ask(&w, "git rev-parse HEAD:c");
			snprintf(line, sizeof(line), ADDED, "c", blob);
			free(blob);
			/* Without it the commit is traced in part only. */
			CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
			CHECK_INT(rule, GATE_NO_EVIDENCE);
			CHECK(world_landed(&w, TREE_B, NULL, NULL, NULL, TREE_B, false, line));
		}
		CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_GOOD);
		CHECK_STR(by, ways[i].by);
	}
}

TEST(a_trailer_of_another_environment)
{
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "agent"));
	CHECK(world_created(&w) && land_head(&w, NULL, false));
	CHECK_INT(world_sh(&w, "cd repo && echo evil > e && git add e && " GIT
			       "commit -qm 'x\n\nCroft-Env: " WORLD_ENV "'"),
		0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_NO_EVIDENCE);
}

TEST(bad_ledgers_prove_nothing)
{
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "agent\n\nCroft-Env: " WORLD_ENV));
	CHECK(world_created(&w) && land_head(&w, NULL, false));
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_GOOD);
	/* The newest event once more, with another tree: what was signed is not what is there. */
	CHECK_INT(world_sh(&w, "cd repo && t=$(git ls-tree " WORLD_REF
			       " | grep -v paths.jsonl | git mktree) && c=$(" GIT
			       "commit-tree -p " WORLD_REF "^ -m x $t) && git update-ref " WORLD_REF
			       " $c"),
		0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_BAD_EVIDENCE);
}

TEST(a_ledger_under_another_name)
{
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "agent\n\nCroft-Env: fedcba9876543210"));
	CHECK(world_created(&w) && land_head(&w, NULL, false));
	CHECK_INT(
		world_sh(&w, "cd repo && git update-ref refs/croft/env/fedcba9876543210 " WORLD_REF
			     " && git update-ref -d " WORLD_REF),
		0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_BAD_EVIDENCE);
}

TEST(keys)
{
	char gate[256], all[256];
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "agent\n\nCroft-Env: " WORLD_ENV));
	CHECK(world_created(&w) && land_head(&w, NULL, false));
	snprintf(gate, sizeof(gate), "version: 1\nrequire: {keys: [%s]}\n", w.key.id.hex);
	CHECK_INT(judge(&w, gate, &rule, &by), GATE_GOOD);
	gate[strlen(gate) - 5] = gate[strlen(gate) - 5] == '0' ? '1' : '0';
	CHECK_INT(judge(&w, gate, &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_KEY);
	/* A commit that says nothing is not made an agent's by what a stranger signs. */
	CHECK_INT(world_sh(&w, "cd repo && " GIT "commit -q --amend -m 'by hand'"), 0);
	CHECK_INT(judge(&w, gate, &rule, &by), GATE_UNTOUCHED);
	snprintf(all, sizeof(all), "version: 1\nrequire: {evidence: all, keys: [%.*s]}\n", 64,
		strchr(gate, '[') + 1);
	CHECK_INT(judge(&w, all, &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_NO_EVIDENCE);
}

/* The same repository with a ledger of another environment, signed with the same key. */
static void world_other(struct world *w, const char *id)
{
	w->tip = (struct ledger_tip){0};
	w->env_id = id;
}

#define OTHER_ENV "00000000000000ff"

TEST(a_ledger_that_cannot_be_told)
{
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "agent"));
	CHECK(world_created(&w) && land_head(&w, NULL, false));
	world_other(&w, OTHER_ENV);
	CHECK(world_created(&w));
	CHECK(world_append(&w, EVENT_EXEC, PREDICATE_TRACE, "\"treeAfter\":\"x\"", TREE_A,
		"receipt.json", "{"));
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_GOOD);
	/* Who names it is told. */
	CHECK_INT(world_sh(&w, "cd repo && echo c > c && git add c && " GIT
			       "commit -qm 'x\n\nCroft-Env: " OTHER_ENV "'"),
		0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_BAD_EVIDENCE);
}

TEST(of_two_that_landed_it_a_good_one_counts)
{
	static const char *const ids[] = {"00000000000000ff", "ff00000000000000"};
	const char *by;
	int rule;

	for (size_t i = 0; i < 2; i++) {
		WORLD(w, "");

		CHECK(make_commits(&w, "agent"));
		CHECK(world_created(&w) && land_head(&w, NULL, false));
		CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_GOOD);
		world_other(&w, ids[i]);
		CHECK(world_created(&w) && world_exec(&w, TREE_B, NULL, "namespace", "/x") &&
			land_head(&w, NULL, false));
		CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_GOOD);
		CHECK_STR(by, "commit");
		/* The good one gone, the other has to answer for it. */
		CHECK_INT(world_sh(&w, "cd repo && git update-ref -d " WORLD_REF), 0);
		CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
		CHECK_INT(rule, GATE_DENIALS);
	}
}

/* An old ledger does not say what was there before: a commit is touched by it, and not proved. */
TEST(a_file_from_nowhere)
{
	char *blob, line[256];
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "agent") && world_created(&w));
	blob = world_ask(&w, "git rev-parse HEAD:b");
	snprintf(
		line, sizeof(line), "{\"path\":\"b\",\"mode\":\"100644\",\"blob\":\"%s\"}\n", blob);
	CHECK(world_landed(&w, TREE_B, NULL, NULL, NULL, TREE_B, false, line));
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_NO_EVIDENCE);
	snprintf(line, sizeof(line), ADDED, "b", blob);
	free(blob);
	CHECK(world_landed(&w, TREE_B, NULL, NULL, NULL, TREE_B, false, line));
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_GOOD);
	CHECK_STR(by, "files");
}

#define HOST                                                                                       \
	"{\"host\":\"h\",\"port\":1,\"connections\":9223372036854775807,\"up_b\":-5,"              \
	"\"requests\":7}"

/* Numbers as large as they can be written do not add up to small ones. */
TEST(sums_stay_large)
{
	/* Together, one more than a count can hold. */
	static const char *const lost[] = {"9223372036854775807", "9223372036854775807", "2"};
	cleanup_story struct story s = {0};
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "agent") && world_created(&w));
	for (int i = 0; i < 3; i++) {
		char receipt[1024];

		snprintf(receipt, sizeof(receipt),
			"{\"tier\":\"namespace\",\"degradations\":[],\"network\":{\"hosts\":[" HOST
			"," HOST "]},\"denials\":[],\"denials_beyond_limit\":%s}",
			lost[i]);
		CHECK(world_append(&w, EVENT_EXEC, PREDICATE_TRACE, "\"treeAfter\":\"x\"", TREE_A,
			"receipt.json", receipt));
	}
	CHECK_INT(story_read(&s, &w.repo, &w.tip.commit, 0, &w.e), 0);
	CHECK(s.denials_lost == UINT64_MAX);
	CHECK_INT(s.hosts_n, 1);
	CHECK(s.hosts[0].connections == INT64_MAX && s.hosts[0].up_b == 0);
	CHECK_INT(s.hosts[0].requests, 42);
	CHECK(land_head(&w, NULL, false));
	CHECK_INT(judge(&w, "version: 1\nrequire: {max-denials: 1000}\n", &rule, &by), GATE_BAD);
	CHECK_INT(rule, GATE_DENIALS);
}

#define TESTS "version: 1\nrequire: {tests: passed}\n"

/* A ledger with these steps before the landing; what the gate says of it. */
struct step {
	const char *test, *tree, *tier, *denied;
};

static enum gate_state steps(const char *gate, const struct step *v, size_t n, int *ret_rule)
{
	const char *by;
	enum gate_state s = GATE_STATE_NUM;
	struct world w;
	bool ok = world_make(&w, "") && make_commits(&w, "agent") && world_created(&w);

	for (size_t i = 0; i < n && ok; i++)
		ok = world_exec(
			&w, v[i].tree, v[i].test, v[i].tier ? v[i].tier : "namespace", v[i].denied);
	if (ok && land_head(&w, TREE_B, false))
		s = judge(&w, gate, ret_rule, &by);
	world_done(&w);
	return s;
}

TEST(tests_must_have_passed_on_what_landed)
{
	static const struct {
		struct step v[3];
		size_t n;
		enum gate_state want;
	} cases[] = {
		{{{NULL, TREE_B, NULL, NULL}}, 1, GATE_BAD},
		{{{"PASSED", TREE_B, NULL, NULL}}, 1, GATE_GOOD},
		{{{"FAILED", TREE_B, NULL, NULL}}, 1, GATE_BAD},
		{{{"FAILED", TREE_A, NULL, NULL}, {"PASSED", TREE_B, NULL, NULL}}, 2, GATE_GOOD},
		{{{"PASSED", TREE_A, NULL, NULL}, {NULL, TREE_B, NULL, NULL}}, 2, GATE_BAD},
		{{{"PASSED", TREE_B, NULL, NULL}, {NULL, TREE_B, NULL, NULL}}, 2, GATE_GOOD},
		{{{"PASSED", TREE_A, NULL, NULL}}, 1, GATE_BAD},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rule = -1;
		enum gate_state got = steps(TESTS, cases[i].v, cases[i].n, &rule);

		if (got != cases[i].want || (got == GATE_BAD && rule != GATE_TESTS))
			test_fail(__FILE__, __LINE__, "case %zu: %d, rule %d", i, got, rule);
	}
}

TEST(tiers_and_denials)
{
	static const struct {
		const char *gate;
		struct step v;
		enum gate_state want;
		int rule;
	} cases[] = {
		{"version: 1\nrequire: {tiers: [namespace]}\n", {NULL, TREE_B, "namespace", NULL},
			GATE_GOOD, -1},
		{"version: 1\nrequire: {tiers: [namespace]}\n", {NULL, TREE_B, "process", NULL},
			GATE_BAD, GATE_TIER},
		{PLAIN, {NULL, TREE_B, NULL, "/home/u/.ssh/id"}, GATE_BAD, GATE_DENIALS},
		{"version: 1\nrequire: {max-denials: 1}\n", {NULL, TREE_B, NULL, "/home/u/.ssh/id"},
			GATE_GOOD, -1},
		{"version: 1\nrequire: {allowed-denials: [{path: '/home/*/.ssh/**', reason: r}]}\n",
			{NULL, TREE_B, NULL, "/home/u/.ssh/id"}, GATE_GOOD, -1},
		{"version: 1\nrequire: {allowed-denials: [{path: /home/u/.aws, reason: r}]}\n",
			{NULL, TREE_B, NULL, "/home/u/.ssh/id"}, GATE_BAD, GATE_DENIALS},
		{"version: 1\nrequire: {allowed-denials: [{path: /home/u, reason: r, expires: "
		 "2026-06-15}]}\n",
			{NULL, TREE_B, NULL, "/home/u/.ssh/id"}, GATE_GOOD, -1},
		{"version: 1\nrequire: {allowed-denials: [{path: /home/u, reason: r, expires: "
		 "2026-06-14}]}\n",
			{NULL, TREE_B, NULL, "/home/u/.ssh/id"}, GATE_BAD, GATE_DENIALS},
		{"version: 1\nrequire: {allowed-denials: [{host: '*.x', reason: r}]}\n",
			{NULL, TREE_B, NULL, "/home/u/.ssh/id"}, GATE_BAD, GATE_DENIALS},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rule = -1;
		enum gate_state got = steps(cases[i].gate, &cases[i].v, 1, &rule);

		if (got != cases[i].want || rule != cases[i].rule)
			test_fail(__FILE__, __LINE__, "case %zu: %d, rule %d", i, got, rule);
	}
}

TEST(reviews)
{
	static const char gate[] = "version: 1\nrequire: {review: true}\n";
	static const struct {
		const char *result, *after; /* tree of a command after the review, or NULL */
		enum gate_state want;
	} cases[] = {{NULL, NULL, GATE_BAD}, {"PASSED", NULL, GATE_GOOD},
		{"FAILED", NULL, GATE_BAD}, {"PASSED", TREE_A, GATE_BAD},
		{"PASSED", TREE_B, GATE_GOOD}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *by;
		int rule;
		WORLD(w, "");

		CHECK(make_commits(&w, "agent") && world_created(&w));
		CHECK(!cases[i].result || world_reviewed(&w, TREE_B, cases[i].result));
		CHECK(!cases[i].after || world_exec(&w, cases[i].after, NULL, "namespace", NULL));
		CHECK(land_head(&w, TREE_B, cases[i].result != NULL));
		CHECK_INT(judge(&w, gate, &rule, &by), cases[i].want);
		CHECK(cases[i].want == GATE_GOOD || rule == GATE_REVIEW);
	}
}

TEST(several_commits_of_one_landing)
{
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "first of two"));
	CHECK(world_created(&w));
	{
		char *onto, *commit, *tree;

		CHECK_INT(world_sh(&w, "cd repo && echo 2 > b && echo d > d && git add . && " GIT
				       "commit -qm 'second of two' && git branch two"),
			0);
		onto = world_ask(&w, "git rev-parse HEAD~2");
		commit = world_ask(&w, "git rev-parse HEAD");
		tree = world_ask(&w, "git rev-parse HEAD:");
		CHECK(world_landed(&w, tree, commit, onto, NULL, tree, false, NULL));
		free(onto);
		free(commit);
		free(tree);
	}
	CHECK_INT(world_sh(&w, "cd repo && git reset -q --hard HEAD^"), 0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_GOOD);
	CHECK_STR(by, "commit");
	/* What it landed on is not its own. */
	CHECK_INT(world_sh(&w, "cd repo && git reset -q --hard HEAD^"), 0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_UNTOUCHED);
}

TEST(merges)
{
	const char *by;
	int rule;
	WORLD(w, "");

	CHECK(make_commits(&w, "x"));
	CHECK_INT(world_sh(&w, "cd repo && git checkout -q -b side HEAD^ && echo s > s && git add "
			       "s && " GIT "commit -qm side && git checkout -q - && " GIT
			       "merge -q --no-ff -m 'm\n\nAssisted-by: a:b' side"),
		0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_MERGE);
	/* One that brings something of its own is a commit like any other. */
	CHECK_INT(world_sh(&w, "cd repo && echo evil > a && git add a && " GIT
			       "commit -q --amend --no-edit"),
		0);
	CHECK_INT(judge(&w, PLAIN, &rule, &by), GATE_BAD);
}

TEST(ranges)
{
	static const char *const bad[] = {"--all", "-n1", "", "nothing..here", "HEAD; id"};
	cleanup_gate_commits struct gate_commits c = {0};
	WORLD(w, "");

	CHECK(make_commits(&w, "x"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(gate_commits_read(&c, &w.repo, bad[i], &w.e) < 0);
	CHECK_INT(gate_commits_read(&c, &w.repo, "HEAD^..HEAD", &w.e), 0);
	CHECK_INT(c.n, 1);
	CHECK_INT(c.v[0].paths_n, 1);
	CHECK_STR(c.v[0].paths[0].path, "b");
}
