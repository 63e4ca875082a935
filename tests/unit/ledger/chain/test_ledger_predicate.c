/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates: members where the standards have them, from a real receipt, whatever text is in it. */
#include "test.h"

#include "base/cleanup.h"
#include "base/jsonread.h"
#include "base/str.h"
#include "ledger/chain/predicate.h"

#define D "0000000000000000000000000000000000000000000000000000000000000001"

static const char receipt[] =
	"{\"schema\":\"croft.receipt/"
	"v1\",\"id\":\"00112233aa\",\"command\":[\"npm\",\"test\"],\"cwd\":\"/"
	"w\",\"policy\":{\"digest\":\"" D
	"\",\"enforced_digest\":\"e\"},\"tier\":\"namespace\",\"degradations\":[\"one\"],\"exit\":{"
	"\"code\":0,\"signal\":null,\"timed_out\":false},\"usage\":{\"wall_ms\":1.234},\"denials\":"
	"[{\"id\":\"x.1\",\"path\":\"/etc/"
	"\\u001b[31m\\\"shadow\",\"count\":2}],\"network\":{\"hosts\":[{\"host\":\"a.test\","
	"\"port\":443}]},\"files\":{\"changed\":[{\"path\":\"a\",\"change\":\"created\"}],"
	"\"complete\":true},\"coverage\":{\"reads\":\"not observed\"}}";

/* The members as an object, parsed strictly. */
static struct jdoc *whole(struct buf *members)
{
	cleanup_buf struct buf b = BUF_INIT(PREDICATE_MAX_B);
	struct err e = ERR_INIT;
	struct jdoc *d = NULL;

	buf_addf(&b, "{%s}", buf_str(members));
	if (members->failed || jdoc_parse(&d, buf_str(&b), b.len, &e) < 0)
		printf("# %s\n# %s\n", e.msg, buf_str(&b));
	return d;
}

static const char *text(const struct jnode *n, const char *a, const char *b)
{
	const struct jnode *x = jget(n, a);

	return jstr(b ? jget(x, b) : x);
}

TEST(trace)
{
	cleanup_jdoc struct jdoc *r = NULL;
	cleanup_jdoc struct jdoc *d = NULL;
	cleanup_buf struct buf b = BUF_INIT(PREDICATE_MAX_B);
	const struct jnode *n;
	struct err e = ERR_INIT;
	struct redact red;
	int64_t v;

	redact_init(&red);
	red.fired[2] = 3;
	CHECK_INT(jdoc_parse(&r, receipt, strlen(receipt), &e), 0);
	predicate_trace(&(struct predicate_exec){.receipt = jdoc_root(r),
				.run_id = "00112233aa",
				.host_id = "h",
				.started = "s",
				.finished = "f",
				.tree_after = "t",
				.output = {.bytes = 7, .captured = true, .redactions = &red}},
		&b);
	d = whole(&b);
	n = jdoc_root(d);
	CHECK_STR(text(n, "monitor", "type"), "croft");
	CHECK_STR(
		jstr(jget(jget(jget(jget(n, "monitor"), "configSource"), "digest"), "sha256")), D);
	CHECK(jget(jget(n, "monitor"), "tracePolicy"));
	CHECK_STR(text(n, "monitoredProcess", "hostID"), "h");
	CHECK_STR(jstr(jat(jget(jget(n, "monitoredProcess"), "event"), 1)), "test");
	CHECK_STR(text(jat(jget(jget(n, "monitorLog"), "network"), 0), "host", NULL), "a.test");
	CHECK_STR(text(jat(jget(jget(n, "monitorLog"), "fileAccess"), 0), "path", NULL), "a");
	CHECK(jtrue(jget(jget(n, "monitorLog"), "fileAccessComplete")));
	CHECK_STR(text(n, "metadata", "buildStartedOn"), "s");
	CHECK_STR(text(n, "metadata", "buildFinishedOn"), "f");
	CHECK_STR(text(jat(jget(n, "denials"), 0), "path", NULL), "/etc/\x1b[31m\"shadow");
	CHECK_STR(text(n, "enforcedDigest", NULL), "e");
	CHECK_STR(text(n, "treeAfter", NULL), "t");
	CHECK_STR(jstr(jat(jget(n, "degradations"), 0)), "one");
	CHECK(jint(jget(jget(jget(n, "output"), "redactions"), "aws-access-key"), &v) && v == 3);
	CHECK(!jtrue(jget(n, "interrupted")));
	redact_done(&red);
}

TEST(interrupted)
{
	static const char *const argv[] = {"sh", "-c", "\xff\"", NULL};
	cleanup_jdoc struct jdoc *d = NULL;
	cleanup_buf struct buf b = BUF_INIT(PREDICATE_MAX_B);

	predicate_trace(&(struct predicate_exec){.argv = argv, .note = "killed"}, &b);
	d = whole(&b);
	CHECK(jtrue(jget(jdoc_root(d), "interrupted")));
	CHECK_STR(jstr(jat(jget(jget(jdoc_root(d), "monitoredProcess"), "event"), 2)),
		"\xef\xbf\xbd\"");
	CHECK_STR(text(jdoc_root(d), "note", NULL), "killed");
}

static const char *tested(const char *code, char ret[16])
{
	cleanup_jdoc struct jdoc *r = NULL;
	cleanup_jdoc struct jdoc *d = NULL;
	cleanup_buf struct buf b = BUF_INIT(PREDICATE_MAX_B);
	struct err e = ERR_INIT;
	char json[256];
	const char *list;

	snprintf(json, sizeof(json), "{\"command\":[\"a\",\"b\"],\"exit\":{\"code\":%s}}", code);
	if (jdoc_parse(&r, json, strlen(json), &e) < 0)
		return NULL;
	predicate_test(&(struct predicate_exec){.receipt = jdoc_root(r)}, &b);
	d = whole(&b);
	snprintf(ret, 16, "%s", text(jdoc_root(d), "result", NULL));
	list = str_eq(ret, "PASSED") ? "passedTests" : "failedTests";
	if (!jstr(jat(jget(jdoc_root(d), list), 0)) ||
		!str_eq(jstr(jat(jget(jdoc_root(d), list), 0)), "a b"))
		return NULL;
	return ret;
}

TEST(tests)
{
	char s[16];

	CHECK_STR(tested("0", s), "PASSED");
	CHECK_STR(tested("1", s), "FAILED");
	CHECK_STR(tested("124", s), "FAILED");
	CHECK_STR(tested("null", s), "FAILED");
	CHECK_STR(tested("0.5", s), "FAILED");
}

TEST(review)
{
	const char *const in[] = {D};
	const struct predicate_path paths[] = {{"a", DECISION_ACCEPTED, NULL},
		{"b\n", DECISION_REJECTED, "no"}, {"c", DECISION_EDITED, NULL}};
	cleanup_jdoc struct jdoc *d = NULL;
	cleanup_buf struct buf b = BUF_INIT(PREDICATE_MAX_B);
	const struct jnode *n;

	predicate_review(&(struct predicate_review){.verifier = "A <a@b>",
				 .time = "t",
				 .resource_uri = "u",
				 .policy_digest = D,
				 .inputs = in,
				 .inputs_n = 1,
				 .passed = true,
				 .paths = paths,
				 .paths_n = 3},
		&b);
	d = whole(&b);
	n = jdoc_root(d);
	CHECK_STR(text(n, "verifier", "id"), "A <a@b>");
	CHECK_STR(text(n, "verificationResult", NULL), "PASSED");
	CHECK_STR(text(jat(jget(n, "inputAttestations"), 0), "digest", "sha256"), D);
	CHECK_STR(text(jat(jget(n, "decisions"), 1), "path", NULL), "b\n");
	CHECK_STR(text(jat(jget(n, "decisions"), 1), "decision", NULL), "rejected");
	CHECK_STR(text(jat(jget(n, "decisions"), 2), "decision", NULL), "edited");
	CHECK_INT(jlen(jget(n, "verifiedLevels")), 1);
}

TEST(applied_by_tier)
{
	static const char *const tiers[] = {"namespace", "process"};
	const char *const paths[] = {"src/a.c"};

	for (size_t i = 0; i < 2; i++) {
		cleanup_jdoc struct jdoc *d = NULL;
		cleanup_buf struct buf b = BUF_INIT(PREDICATE_MAX_B);
		const struct jnode *n;
		char want[64];

		predicate_applied(&(struct predicate_applied){.env_id = "e",
					  .mode = "squash",
					  .paths = paths,
					  .paths_n = 1,
					  .policy_digest = D,
					  .tier = tiers[i],
					  .base_commit = "c"},
			&b);
		d = whole(&b);
		n = jdoc_root(d);
		snprintf(want, sizeof(want), "urn:croft:tier:%s:v1", tiers[i]);
		CHECK_STR(text(jget(n, "runDetails"), "builder", "id"), want);
		CHECK_STR(text(jget(n, "buildDefinition"), "buildType", NULL),
			"urn:croft:landing:v1");
		CHECK_STR(text(jget(n, "buildDefinition"), "externalParameters", "mode"), "squash");
		CHECK_STR(
			jstr(jget(jget(jat(jget(jget(n, "buildDefinition"), "resolvedDependencies"),
					       0),
					  "digest"),
				"gitCommit")),
			"c");
	}
}

TEST(created_and_plain)
{
	const struct predicate_member v[] = {{"label", "x\"y"}, {"none", NULL}, {"by", "me"}};
	cleanup_jdoc struct jdoc *c = NULL;
	cleanup_jdoc struct jdoc *p = NULL;
	cleanup_buf struct buf b = BUF_INIT(PREDICATE_MAX_B);

	predicate_created(&(struct predicate_created){.base_commit = "c",
				  .tree = "t",
				  .policy_digest = D,
				  .agent = "a",
				  .parent_env = "p",
				  .parent_event = D,
				  .kernel = "6.1"},
		&b);
	c = whole(&b);
	CHECK_STR(text(jdoc_root(c), "base", "gitCommit"), "c");
	CHECK_STR(text(jdoc_root(c), "agent", "name"), "a");
	CHECK_STR(jstr(jget(jget(jget(jdoc_root(c), "parent"), "digest"), "sha256")), D);
	CHECK(!jget(jdoc_root(c), "task"));
	buf_reset(&b);
	predicate_plain(v, 3, &b);
	p = whole(&b);
	CHECK_STR(text(jdoc_root(p), "label", NULL), "x\"y");
	CHECK_INT(jlen(jdoc_root(p)), 2);
}

/* A list without end is cut, and says so. */
TEST(bounded)
{
	static struct predicate_path paths[PREDICATE_LIST_MAX + 7];
	cleanup_jdoc struct jdoc *d = NULL;
	cleanup_buf struct buf b = BUF_INIT(PREDICATE_MAX_B);
	int64_t v;

	for (size_t i = 0; i < PREDICATE_LIST_MAX + 7; i++)
		paths[i].path = "p";
	predicate_review(
		&(struct predicate_review){.paths = paths, .paths_n = PREDICATE_LIST_MAX + 7}, &b);
	d = whole(&b);
	CHECK_INT(jlen(jget(jdoc_root(d), "decisions")), PREDICATE_LIST_MAX);
	CHECK(jint(jget(jdoc_root(d), "decisionsBeyondLimit"), &v) && v == 7);
}
