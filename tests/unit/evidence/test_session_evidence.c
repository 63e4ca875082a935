/* SPDX-License-Identifier: Apache-2.0 */
/* evidence: what a session's commands did is told, judged, exported and replayed as other commands' is. */
#include "session_world.h"

#include "engine/engine.h"
#include "env/env_ran.h"
#include "evidence/evidence.h"
#include "evidence/export.h"
#include "evidence/gate_rules.h"
#include "evidence/replay.h"

#define OUT_MAX_B (1u << 20)

static struct sjournal *begun(struct land_world *w)
{
	struct sjournal *j = session_open(w, false);

	return j && sjournal_wait(j, &w->e) == 0 ? j : NULL;
}

/* An event as landing writes it. */
static bool landed(struct land_world *w)
{
	struct ledger_event ev = {.kind = EVENT_APPLIED,
		.env_id = w->v.id,
		.env_name = w->v.name,
		.predicate_type = PREDICATE_PROVENANCE,
		.predicate = "\"landing\":{\"how\":\"commit\",\"reviewed\":false}",
		.title = "applied"};

	env_now(&ev.time);
	return env_event(&w->v, &ev, &w->e) == 0;
}

/* ---- the story ---- */

TEST(commands_are_told_in_the_order_of_their_start)
{
	cleanup_story struct story s = {0};
	cleanup_world struct land_world w;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	CHECK((j = begun(&w)));
	CHECK_INT(session_command(j, 1, "alone"), 0);
	CHECK_INT(session_start(j, 2, "server", NULL), 0);
	CHECK_INT(session_start(j, 3, "never", NULL), 0);
	CHECK_INT(sjournal_dropped(j, 3, "no such program", &w.e), 0);
	CHECK_INT(session_start(j, 4, "test", NULL), 0);
	CHECK_INT(sjournal_flush(j, false, &w.e), 0);
	CHECK_INT(session_end(j, 4, "test", 0, "fine\n", NULL), 0);
	CHECK_INT(session_start(j, 5, "left", NULL), 0);
	CHECK_INT(session_end(j, 2, "server", 3, "", NULL), 0);
	CHECK_INT(sjournal_flush(j, false, &w.e), 0);
	CHECK(session_story(&w, &s));
	CHECK_INT(s.commands_n, 4);
	CHECK_STR(jstr(jat(s.commands[0].argv, 0)), "alone");
	CHECK(!s.commands[0].overlapped && s.commands[1].overlapped && s.commands[2].overlapped);
	CHECK_INT(s.commands[1].since, 3);
	CHECK_INT(s.commands[1].seq, 4);
	CHECK_STR(story_command_name(&s.commands[1]).s, "4.3");
	CHECK_INT(s.commands[1].exit_code, 3);
	CHECK(s.commands[2].test && s.commands[2].passed && s.commands[2].receipt);
	CHECK_STR(s.commands[3].tier, "namespace");
	CHECK(s.commands[3].running && !s.commands[3].receipt && s.commands[3].overlapped);
	CHECK_STR(jstr(jat(s.commands[3].argv, 0)), "left");
	sjournal_abandon(j);
}

TEST(a_tree_is_of_a_command_that_alone_can_have_made_it)
{
	cleanup_story struct story s = {0};
	cleanup_world struct land_world w;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	CHECK((j = begun(&w)));
	session_write(&w, "new", "1");
	CHECK_INT(session_command(j, 1, "alone"), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0);
	session_write(&w, "new", "2");
	CHECK_INT(session_command(j, 2, "one of two"), 0);
	CHECK_INT(session_command(j, 3, "two of two"), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0);
	/* Two that changed nothing. */
	CHECK_INT(session_command(j, 4, "look"), 0);
	CHECK_INT(session_command(j, 5, "look"), 0);
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK(session_story(&w, &s));
	CHECK_INT(s.commands_n, 5);
	CHECK(s.commands[0].tree && str_eq(s.commands[0].tree, story_tree(&s.entries[2])));
	CHECK(!s.commands[1].tree && !s.commands[2].tree && story_tree(&s.entries[3]));
	CHECK(s.commands[3].tree && s.commands[4].tree);
	CHECK_STR(s.commands[4].tree, story_tree(&s.entries[3]));
}

/* A session that was cut off ran its commands behind its own boundary, receipts or not. */
TEST(the_weakest_tier_is_known_without_receipts)
{
	struct sjournal_session weak = {.id = "5e550002", .tier = "process"};
	cleanup_world struct land_world w;
	struct land_ran ran;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	CHECK((j = begun(&w)));
	CHECK_INT(session_start(j, 1, "cut off", NULL), 0);
	sjournal_abandon(j);
	CHECK(session_reopen(&w));
	land_ran(&w.v, &ran);
	CHECK_STR(ran.tier, "namespace");
	CHECK_INT(sjournal_open(&j, &w.v, &weak, &w.e), 0);
	CHECK_INT(session_start(j, 1, "running", NULL), 0);
	CHECK_INT(sjournal_flush(j, false, &w.e), 0);
	land_ran(&w.v, &ran);
	CHECK_STR(ran.tier, "process");
	sjournal_abandon(j);
}

/* ---- the gate ---- */

/* The rules of the problems, as letters in order: what a gate says of the landing that is the event `seq`. */
static const char *judged(struct land_world *w, const char *text, uint64_t seq)
{
	cleanup_story struct story s = {0};
	cleanup_gate struct gate g;
	struct gate_problems p = {0};
	struct ledger_verdict v;
	struct gate_facts f = {
		.verdict = &v, .story = &s, .landed_seq = seq, .today = "2026-01-01"};
	static char rules[GATE_PROBLEMS_MAX + 1];

	gate_init(&g);
	if (gate_parse(&g, "g", text, strlen(text), &w->e) < 0 || !session_verify(w, &v) ||
		!session_story(w, &s))
		return "?";
	gate_judge(&g, &f, &p);
	for (size_t i = 0; i < p.n; i++) {
		printf("# %s\n", p.v[i].text);
		rules[i] = "-EKtrdTD"[p.v[i].rule];
	}
	rules[p.n] = '\0';
	return rules;
}

#define PLAIN "version: 1\n"
#define TESTED "version: 1\nrequire:\n  tests: passed\n"
#define TIERED "version: 1\nrequire:\n  tiers: [namespace]\n"

TEST(a_session_that_never_ended_is_no_evidence)
{
	cleanup_world struct land_world w;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	CHECK((j = begun(&w)));
	CHECK_INT(session_command(j, 1, "make"), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0);
	CHECK(landed(&w)); /* from the session itself: it says so */
	CHECK_STR(judged(&w, PLAIN, 4), "");
	CHECK_STR(judged(&w, TIERED, 4), "");
	sjournal_abandon(j);
	/* Its journal is lost, and somebody else lands. */
	world_sh(&w, "rm -r %s/envs/e1/journal/session-" SESSION, w.state);
	CHECK(session_reopen(&w) && landed(&w));
	CHECK_STR(judged(&w, PLAIN, 5), "E");
	CHECK_STR(judged(&w, PLAIN, 4), "");
}

TEST(what_ran_when_it_landed_is_not_judged_yet)
{
	cleanup_world struct land_world w;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	CHECK((j = begun(&w)));
	CHECK_INT(session_start(j, 1, "server", NULL), 0);
	CHECK_INT(sjournal_flush(j, false, &w.e), 0);
	CHECK(landed(&w));
	CHECK_STR(judged(&w, PLAIN, 4), "d");
	CHECK_STR(judged(&w, PLAIN, 1), ""); /* before it began */
	CHECK_INT(session_end(j, 1, "server", 0, "", NULL), 0);
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK_STR(judged(&w, PLAIN, 4), "");
}

TEST(tests_must_have_run_on_what_landed)
{
	cleanup_world struct land_world w;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	CHECK((j = begun(&w)));
	session_write(&w, "new", "1");
	CHECK_INT(session_command(j, 1, "test"), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0); /* 3: tested, by itself */
	CHECK(landed(&w));                           /* 4 */
	CHECK_STR(judged(&w, TESTED, 4), "");
	CHECK_INT(session_command(j, 2, "look"), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0); /* 5: nothing changed */
	CHECK(landed(&w));
	CHECK_STR(judged(&w, TESTED, 6), "");
	session_write(&w, "new", "2");
	CHECK_INT(session_command(j, 3, "make"), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0); /* 7: changed after the test */
	CHECK(landed(&w));
	CHECK_STR(judged(&w, TESTED, 8), "t");
	session_write(&w, "new", "3");
	CHECK_INT(session_command(j, 4, "test"), 0);
	CHECK_INT(session_command(j, 5, "make"), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0); /* 9: beside something else */
	CHECK(landed(&w));
	CHECK_STR(judged(&w, TESTED, 10), "t");
	CHECK_INT(session_start(j, 6, "test", NULL), 0);
	CHECK_INT(session_end(j, 6, "test", 1, "", NULL), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0); /* 11: failed */
	CHECK(landed(&w));
	CHECK_STR(judged(&w, TESTED, 12), "t");
	CHECK_INT(sjournal_close(j, &w.e), 0);
}

/* ---- words ---- */

static bool stand_in(struct land_world *w)
{
	return chdir(w->work) == 0;
}

TEST(log_show_and_verify_know_sessions)
{
	cleanup_evidence struct evidence v = {0};
	cleanup_buf struct buf b = BUF_INIT(OUT_MAX_B);
	cleanup_jdoc struct jdoc *d = NULL;
	cleanup_world struct land_world w;
	struct sjournal *j;
	struct err e = ERR_INIT;

	CHECK(world_make(&w, true) && stand_in(&w));
	CHECK((j = begun(&w)));
	CHECK_INT(session_start(j, 1, "\x1b[2J", NULL), 0);
	CHECK_INT(session_end(j, 1, "x", 4, "out\n", NULL), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0);
	CHECK_INT(evidence_find(&v, "e1", &e), 0);
	CHECK_INT(evidence_log(&v, 1, false, &b, &e), 0);
	CHECK(strstr(b.data, "session 5e55104a: 1 started, 1 ended\n"));
	CHECK(strstr(b.data, "started  process 1: \\x1b[2J\n") && !strchr(b.data, '\x1b'));
	CHECK(strstr(b.data, "  3.2  ") && strstr(b.data, "ended  process 1: exit 4\n"));
	buf_reset(&b);
	CHECK_INT(evidence_log(&v, 0, true, &b, &e), 0);
	CHECK_INT(jdoc_parse(&d, b.data, b.len, &e), 0);
	CHECK_INT(jlen(jget(jat(jget(jdoc_root(d), "events"), 2), "entries")), 2);
	buf_reset(&b);
	CHECK_INT(evidence_show_entry(&v, 3, 2, false, &b, &e), 0);
	CHECK(str_starts(b.data, "entry 3.2 of session 5e55104a\n") && strstr(b.data, "code: 4\n"));
	jdoc_free(d);
	d = NULL;
	buf_reset(&b);
	CHECK_INT(evidence_show_entry(&v, 3, 1, true, &b, &e), 0);
	CHECK_INT(jdoc_parse(&d, b.data, b.len, &e), 0);
	CHECK_STR(jstr(jget(jget(jdoc_root(d), "record"), "kind")), "started");
	CHECK(evidence_show_entry(&v, 3, 3, false, &b, &e) < 0);
	CHECK(evidence_show_entry(&v, 1, 1, false, &b, &e) < 0);
	buf_reset(&b);
	CHECK_INT(evidence_verify(&v, NULL, false, &b, &e), 1);
	CHECK(str_starts(b.data, "INTERRUPTED: e1 (") &&
		strstr(b.data, "has no end: it still runs"));
	buf_reset(&b);
	CHECK_INT(evidence_verify(&v, NULL, true, &b, &e), 1);
	CHECK(strstr(b.data, "\"interrupted\": {") && !strstr(b.data, "\"good\": true"));
	CHECK_INT(sjournal_close(j, &w.e), 0);
	evidence_done(&v);
	v = (struct evidence){0};
	buf_reset(&b);
	CHECK_INT(evidence_find(&v, "e1", &e), 0);
	CHECK_INT(evidence_verify(&v, NULL, false, &b, &e), 0);
	CHECK(str_starts(b.data, "good: e1 ("));
}

/* ---- a bundle ---- */

TEST(a_bundle_has_every_command)
{
	cleanup_buf struct buf said = BUF_INIT(OUT_MAX_B);
	cleanup_world struct land_world w;
	struct export_request q = {.what = "e1", .directory = "out", .output = true};
	struct sjournal *j;

	CHECK(world_make(&w, true) && stand_in(&w));
	CHECK((j = begun(&w)));
	CHECK_INT(session_start(j, 1, "one", NULL), 0);
	CHECK_INT(session_start(j, 2, "two", NULL), 0);
	CHECK_INT(session_end(j, 2, "two", 0, "from two\n", NULL), 0);
	CHECK_INT(session_end(j, 1, "one", 0, "from one\n", NULL), 0);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0);
	CHECK_INT(export_bundle(&q, &said, &w.e), 0);
	CHECK_STR(world_sh(&w, "cat out/output/3.3.txt out/output/3.4.txt"), "from two\nfrom one");
	CHECK_STR(world_sh(&w, "grep -c '\"id\":\"0000000002\"' out/receipts/3.3.json"), "1");
	CHECK_STR(world_sh(&w, "ls out/receipts | wc -l"), "2");
	CHECK_STR(world_sh(&w, "grep -c 'not complete' out/report.md"), "1");
	CHECK_STR(world_sh(&w, "cd out && sha256sum -c MANIFEST 2>&1 | grep -vc OK"), "0");
	/* The program of README.txt, as it stands. */
	CHECK_STR(world_sh(&w, "cd out && sed -n '/tmp=$(mktemp -d)/,/^3[.]/p' README.txt | sed "
			       "'$d' >../x && "
			       "sh ../x"),
		"3 events: every signature and every link is good\n"
		"event 2: the session that began here has no end: it still ran, or was "
		"interrupted");
	CHECK_INT(sjournal_close(j, &w.e), 0);
	q.directory = "whole";
	CHECK_INT(export_bundle(&q, &said, &w.e), 0);
	CHECK_STR(world_sh(&w, "cd whole && sh ../x"),
		"4 events: every signature and every link is good");
	CHECK_STR(world_sh(&w, "grep -c 'not complete' whole/report.md"), "0");
}

/* ---- a replay ---- */

TEST(a_replay_runs_what_overlapped_one_after_the_other)
{
	char *environ_[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
	struct replay_request q = {.name = "e1", .environ = environ_};
	cleanup_world struct land_world w;
	cleanup_replay struct replay r = {0};
	struct sjournal *j;
	struct err e = ERR_INIT;

	if (engine_namespace.probe(&e) < 0)
		SKIP("no namespaces here");
	CHECK(world_make(&w, true) && stand_in(&w));
	CHECK((j = begun(&w)));
	CHECK_INT(session_start(j, 1, "/bin/true", NULL), 0);
	CHECK_INT(session_start(j, 2, "/bin/false", NULL), 0);
	CHECK_INT(session_end(j, 2, "/bin/false", 1, "", NULL), 0);
	CHECK_INT(session_end(j, 1, "/bin/true", 1, "", NULL), 0); /* no: it is 0 */
	CHECK_INT(session_start(j, 3, "/bin/true", NULL), 0);
	CHECK_INT(sjournal_flush(j, false, &w.e), 0);
	sjournal_abandon(j);
	CHECK_INT(replay(&r, &q, &w.e), 0);
	CHECK_INT(r.commands_n, 3);
	CHECK(r.commands[0].state == REPLAY_DIFFERS && r.commands[1].state == REPLAY_HOLDS);
	CHECK(r.commands[2].state == REPLAY_NOT);
	CHECK_INT(r.notes.n, 2);
	CHECK(strstr(r.notes.v[0], "not complete") && strstr(r.notes.v[1], "one after the other"));
}
