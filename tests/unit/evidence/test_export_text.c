/* SPDX-License-Identifier: Apache-2.0 */
/* What is written for others: nothing that a sandbox says becomes markup, notes merge, SARIF is JSON. */
#include "test.h"

#include "evidence/notes.h"
#include "evidence/replay.h"
#include "export_world.h"
#include "show/report.h"
#include "show/sarif.h"

static const char *escaped(enum doc_format f, const char *s)
{
	static struct buf b;

	buf_done(&b);
	b = BUF_INIT(65536);
	doc_escape(&b, f, s, strlen(s));
	return buf_str(&b);
}

TEST(escapes)
{
	CHECK_STR(escaped(DOC_HTML, "<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
	CHECK_STR(escaped(DOC_MARKDOWN, "a|b`c*d_e[f](g)#h<i>"),
		"a\\|b\\`c\\*d\\_e\\[f\\]\\(g\\)\\#h\\<i\\>");
	CHECK_STR(escaped(DOC_MARKDOWN, "a\\|b"), "a\\\\\\|b");
	CHECK_STR(escaped(DOC_MARKDOWN, "a\nb\x1b[31m"), "a\\\\x0ab\\\\x1b\\[31m");
	CHECK_STR(escaped(DOC_HTML, "\xe2\x80\xae"
				    "x\xff"),
		"\\u{202e}x\\xff");
}

/* A story and its verdict from a whole ledger. */
static bool tell(struct world *w, struct story *s, struct ledger_verdict *v)
{
	if (world_created(w) && world_exec(w, TREE_B, NULL, "namespace", HOSTILE) &&
		world_exec(w, TREE_B, "PASSED", "namespace", NULL) &&
		world_reviewed(w, TREE_B, "PASSED") &&
		world_landed(w, TREE_B, NULL, NULL, NULL, TREE_B, true, NULL) &&
		ledger_verify(&w->repo, &w->tip.commit, NULL, v, &w->e) == 0 &&
		story_read(s, &w->repo, &w->tip.commit, 0, &w->e) == 0)
		return true;
	printf("# %s\n", w->e.msg);
	return false;
}

TEST(stories)
{
	cleanup_story struct story s = {0}, part = {0};
	cleanup_buf struct buf argv = BUF_INIT(256);
	struct ledger_verdict v = {0};
	WORLD(w, "");

	CHECK(tell(&w, &s, &v));
	CHECK_INT(s.entries_n, 5);
	CHECK_INT(s.commands_n, 2);
	CHECK_INT(s.denials_n, 1);
	CHECK_INT(s.denials[0].seq, 2);
	CHECK_INT(s.hosts_n, 1);
	CHECK_INT(s.hosts[0].connections, 4);
	CHECK_INT(s.reviews_n, 1);
	CHECK_INT(s.landings_n, 1);
	CHECK_STR(s.agent, "bot");
	CHECK_INT(s.commands[0].wall_us, 1234567);
	CHECK(!s.commands[0].test && s.commands[1].test && s.commands[1].passed);
	story_argv(&s.commands[0], &argv);
	CHECK_STR(buf_str(&argv), "make 'check it'");
	CHECK_INT(story_read(&part, &w.repo, &w.tip.commit, 2, &w.e), 0);
	CHECK_INT(part.entries_n, 2);
}

/* Is there one that no backslash stands before? */
static bool bare(const char *text, const char *needle)
{
	for (const char *p = text; (p = strstr(p, needle)); p++)
		if (p == text || p[-1] != '\\')
			return true;
	return false;
}

TEST(reports)
{
	static const char *const in_order[] = {"Evidence", "What landed", "Flagged files",
		"Denials", "Network", "Commands", "Tests", "Review", "Claims",
		"What this does not prove"};
	cleanup_story struct story s = {0};
	struct ledger_verdict v = {0};
	struct report_file f = {
		.path = HOSTILE, .new_mode = 0100755, .added = 1, .runs = "Git hook"};
	WORLD(w, "");

	CHECK(tell(&w, &s, &v));
	for (int i = 0; i < 2; i++) {
		cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);
		const struct report r = {.story = &s,
			.verdict = &v,
			.version = "1",
			.env_name = HOSTILE,
			.env_id = WORLD_ENV,
			.landed = true,
			.files = &f,
			.files_n = 1};
		const char *at;

		report_write(&r, i ? DOC_HTML : DOC_MARKDOWN, &b);
		CHECK(!b.failed);
		at = buf_str(&b);
		for (size_t k = 0; k < sizeof(in_order) / sizeof(in_order[0]); k++) {
			at = strstr(at, in_order[k]);
			CHECK(at);
		}
		CHECK(!bare(buf_str(&b), "<script"));
		CHECK(!bare(buf_str(&b), "[a]") || i);
		CHECK(!strstr(buf_str(&b), "\xe2\x80\xae"));
		CHECK(strstr(buf_str(&b), "Git hook"));
		CHECK(!i || strstr(buf_str(&b), "default-src 'none'"));
	}
}

TEST(sarif)
{
	cleanup_story struct story s = {0};
	cleanup_jdoc struct jdoc *doc = NULL;
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct ledger_verdict v = {0};
	const struct jnode *run, *result;
	char inside[160];
	WORLD(w, "");

	snprintf(inside, sizeof(inside), "%s/a b", w.dir);
	CHECK(world_created(&w) && world_exec(&w, TREE_B, NULL, "namespace", inside) &&
		world_exec(&w, TREE_B, NULL, "namespace", "/etc/shadow"));
	CHECK_INT(story_read(&s, &w.repo, &w.tip.commit, 0, &w.e), 0);
	(void)v;
	sarif_denials(&s, "1", &b);
	CHECK_INT(jdoc_parse(&doc, buf_str(&b), b.len, &w.e), 0);
	CHECK_STR(jstr(jget(jdoc_root(doc), "version")), "2.1.0");
	run = jat(jget(jdoc_root(doc), "runs"), 0);
	CHECK_INT(jlen(jget(run, "results")), 2);
	result = jat(jget(run, "results"), 0);
	CHECK_STR(jstr(jget(result, "ruleId")), "read");
	CHECK_STR(jstr(jget(result, "level")), "warning");
	CHECK(strstr(jstr(jget(jget(result, "message"), "text")), "--read"));
	CHECK_STR(jstr(jget(jget(jget(jat(jget(result, "locations"), 0), "physicalLocation"),
				    "artifactLocation"),
			  "uri")),
		"a%20b");
	CHECK_STR(jstr(jget(jget(result, "properties"), "event")), "2");
	result = jat(jget(run, "results"), 1);
	CHECK(!jget(jat(jget(result, "locations"), 0), "physicalLocation"));
}

/* ------------------------------------------------------------------ notes */

static bool two_files(struct notes *n)
{
	*n = (struct notes){
		.files = calloc(2, sizeof(*n->files)), .files_n = 2, .left_out = STRLIST_INIT(16)};
	n->files[0].path = strdup("a b.c");
	n->files[1].path = strdup("x");
	return oid_parse(&n->commit, TREE_B, 40);
}

TEST(lines)
{
	static const char patch[] =
		"diff --git a/x b/x\n@@ -1,2 +3,4 @@ f\n+diff --git a/y b/y\n"
		"+@@ -9 +9 @@\n@@ -8 +7 @@\n-a\n+b\n@@ -20,3 +19,0 @@\n"
		"diff --git a/z b/z\ndeleted file mode 100644\n@@ -1 +0,0 @@\n-o\n"
		"diff --git a/z b/z\nnew file mode 120000\n@@ -0,0 +1 @@\n+t\n";
	static const bool twice[] = {false, true};
	cleanup_notes struct notes n = {0};
	struct err e = ERR_INIT;

	CHECK(two_files(&n));
	CHECK_INT(notes_parse(&n, patch, strlen(patch), twice, &e), 0);
	CHECK_INT(n.files[0].ranges_n, 1); /* 3-6 and 7 are one */
	CHECK_INT(n.files[0].ranges[0].first, 3);
	CHECK_INT(n.files[0].ranges[0].last, 7);
	CHECK_INT(n.files[1].ranges_n, 1);
	CHECK_INT(notes_parse(&n, "@@ -1 +1 @@\n", 12, twice, &e), -EBADMSG);
}

TEST(git_ai_notes)
{
	static const bool twice[] = {false, false};
	static const char patch[] =
		"diff --git a/x b/x\n@@ -0,0 +1,3 @@\ndiff --git a/z b/z\n@@ -0,0 +5 @@\n";
	static const char old[] = "x\n  d9978a8723e02b52 1\nz\n  h_00000000000000 7\n---\n{\"a\": "
				  "1.5, \"sessions\": {\"s_x\": {}}}\n";
	struct story_landing l;
	cleanup_story struct story s = {0};
	cleanup_notes struct notes n = {0};
	cleanup_buf struct buf fresh = BUF_INIT(65536), merged = BUF_INIT(65536),
			       again = BUF_INIT(65536);
	cleanup_jdoc struct jdoc *doc = NULL;
	struct ledger_verdict v = {0};
	WORLD(w, "");

	CHECK(tell(&w, &s, &v) && two_files(&n));
	l = s.landings[0];
	CHECK_INT(notes_parse(&n, patch, strlen(patch), twice, &w.e), 0);
	CHECK_INT(notes_git_ai(&n, &s, &l, NULL, &fresh, &w.e), 0);
	CHECK(strncmp(buf_str(&fresh), "\"a b.c\"\n  s_", 12) == 0);
	CHECK(strstr(buf_str(&fresh), " 1-3\nx\n  s_") && strstr(buf_str(&fresh), "\n---\n{"));
	CHECK(strstr(buf_str(&fresh), "authorship/3.0.0"));
	CHECK_INT(notes_git_ai(&n, &s, &l, buf_str(&fresh), &again, &w.e), 1);
	/* What was there stays as it is. */
	CHECK_INT(notes_git_ai(&n, &s, &l, old, &merged, &w.e), 0);
	CHECK(strncmp(buf_str(&merged), "x\n  d9978a8723e02b52 1\n  s_", 27) == 0);
	CHECK(strstr(buf_str(&merged), "z\n  h_00000000000000 7\n\"a b.c\"\n"));
	CHECK(strstr(buf_str(&merged), "\"a\": 1.5") && strstr(buf_str(&merged), "\"s_x\": {}"));
	CHECK_INT(jdoc_parse(&doc, strstr(buf_str(&merged), "---\n") + 4,
			  strlen(strstr(buf_str(&merged), "---\n") + 4), &w.e),
		0);
	CHECK_INT(jlen(jget(jdoc_root(doc), "sessions")), 2);
	CHECK(notes_git_ai(&n, &s, &l, "somebody's text\n", &again, &w.e) < 0);
	CHECK(notes_git_ai(&n, &s, &l, "---\n[1]\n", &again, &w.e) < 0);
}

TEST(agent_trace)
{
	cleanup_story struct story s = {0};
	cleanup_notes struct notes n = {0};
	cleanup_buf struct buf b = BUF_INIT(65536);
	cleanup_jdoc struct jdoc *doc = NULL;
	static const bool twice[] = {false, false};
	static const char patch[] = "diff --git a/x b/x\n@@ -0,0 +1,3 @@\n";
	struct ledger_verdict v = {0};
	const struct jnode *file;
	WORLD(w, "");

	CHECK(tell(&w, &s, &v) && two_files(&n));
	n.files[0].mixed = true;
	CHECK_INT(notes_parse(&n, patch, strlen(patch), twice, &w.e), 0);
	notes_agent_trace(&n, &s, &s.landings[0], "1", &b);
	CHECK_INT(jdoc_parse(&doc, buf_str(&b), b.len, &w.e), 0);
	CHECK_INT(jlen(jget(jdoc_root(doc), "files")), 1); /* x has no lines of the agent's */
	file = jat(jget(jdoc_root(doc), "files"), 0);
	CHECK_STR(jstr(jget(jget(jat(jget(file, "conversations"), 0), "contributor"), "type")),
		"mixed");
	CHECK_INT(strlen(jstr(jget(jdoc_root(doc), "id"))), 36);
}

/* ------------------------------------------------------------------ replays */

TEST(replay_compares)
{
	struct replay r = {0};
	struct replay_command c = {0};
	struct ledger_verdict v = {0};
	WORLD(w, "");

	CHECK(tell(&w, &r.old, &v));
	CHECK_INT(story_read(&r.new, &w.repo, &w.tip.commit, 0, &w.e), 0);
	c.old = &r.old.commands[0];
	c.new = &r.new.commands[0];
	replay_judge(&r, &c);
	CHECK_INT(c.state, REPLAY_HOLDS);
	r.new.commands[0].exit_code = 3;
	replay_judge(&r, &c);
	CHECK(c.state == REPLAY_DIFFERS && !c.exit_same && c.tree_same);
	r.new.commands[0].exit_code = 0;
	r.new.commands[0].tree = TREE_A;
	replay_judge(&r, &c);
	CHECK(c.state == REPLAY_DIFFERS && c.exit_same && !c.tree_same);
	r.new.commands[0].tree = TREE_B;
	r.new.denials[0].path = "/another";
	replay_judge(&r, &c);
	CHECK(c.state == REPLAY_DIFFERS && c.denials_new == 1 && c.denials_gone == 1);
	CHECK(!replay_cannot(&r.old.commands[0]));
	r.old.commands[0].interrupted = true;
	CHECK(replay_cannot(&r.old.commands[0]));
	story_done(&r.old);
	story_done(&r.new);
}
