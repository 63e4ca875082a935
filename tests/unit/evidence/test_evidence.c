/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence as it is asked for: found by every name it has, judged in words, sent and fetched exactly. */
#include "test.h"

#include "evidence/evidence.h"
#include "ledger_world.h"

#define OUT_MAX (1u << 20)
#define OTHER_ENV "fedcba9876543210"

/* As the user's shell in that directory of the world would be. */
static bool stand_in(struct world *w, const char *dir)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/xdg", w->top);
	setenv("XDG_STATE_HOME", path, 1);
	setenv("HOME", w->top, 1);
	snprintf(path, sizeof(path), "%s/%s", w->top, dir);
	return chdir(path) == 0;
}

static int verify(const char *what, const char *key, struct buf *out)
{
	cleanup_evidence struct evidence v = {0};
	struct err e = ERR_INIT;
	int r = evidence_find_any(&v, what, &e);

	buf_reset(out);
	if (r == 0)
		r = evidence_verify(&v, key, false, out, &e);
	if (r < 0)
		buf_adds(out, e.msg);
	return r;
}

TEST(found_by_every_name)
{
	static const char *const names[] = {WORLD_ENV, WORLD_REF, "fix-it"};
	cleanup_buf struct buf b = BUF_INIT(OUT_MAX);
	struct err e = ERR_INIT;

	WORLD(w, "");
	CHECK(world_fill(&w, 3) && stand_in(&w, "repo"));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		cleanup_evidence struct evidence v = {0};

		e = ERR_INIT;
		CHECK_INT(evidence_find(&v, names[i], &e), 0);
		CHECK_INT(v.ledgers_n, 1);
		CHECK_STR(v.ledgers[0].id, WORLD_ENV);
		CHECK(oid_eq(&v.ledgers[0].tip, &w.tip.commit));
	}
	for (size_t i = 0; i < 4; i++) {
		static const char *const not [] = {"nobody", OTHER_ENV, "refs/croft/env/x", "-x"};
		cleanup_evidence struct evidence v = {0};

		e = ERR_INIT;
		CHECK_INT(evidence_find(&v, not [i], &e), -ENOENT);
		CHECK(e.msg[0]);
	}
	CHECK_INT(verify(NULL, NULL, &b), 0);
	CHECK(strstr(b.data, "good: fix-it (" WORLD_ENV "): 3 events"));
	CHECK(strstr(b.data, "unknown here"));
	CHECK(strstr(b.data, "What signatures do not prove"));
	CHECK(verify("nonsense", NULL, &b) < 0);
}

TEST(keys)
{
	cleanup_buf struct buf b = BUF_INIT(OUT_MAX);
	char own[160], other[160];
	struct ledger_key k;

	WORLD(w, "");
	CHECK(world_fill(&w, 2) && stand_in(&w, "repo"));
	snprintf(own, sizeof(own), "%s/keys/ledger.pub", w.state);
	snprintf(other, sizeof(other), "%s/other", w.top);
	CHECK_INT(ledger_key_load(&k, other, &w.e), 0);
	snprintf(other, sizeof(other), "%s/other/keys/ledger.pub", w.top);
	CHECK_INT(verify("fix-it", own, &b), 0);
	CHECK(strstr(b.data, "the one that was given"));
	CHECK_INT(verify("fix-it", other, &b), 1);
	CHECK(strstr(b.data, "BAD: fix-it (" WORLD_ENV "): event 1 (created, commit "));
	CHECK(verify("fix-it", "/nonexistent", &b) < 0);
}

/* The ref of one environment is made to point at another's ledger. */
TEST(under_a_wrong_name)
{
	cleanup_buf struct buf b = BUF_INIT(OUT_MAX);

	WORLD(w, "");
	CHECK(world_fill(&w, 2) && stand_in(&w, "repo"));
	CHECK_INT(world_sh(&w, "cd repo && git update-ref refs/croft/env/" OTHER_ENV " " WORLD_REF),
		0);
	CHECK_INT(verify(OTHER_ENV, NULL, &b), 1);
	CHECK(strstr(b.data, "belongs to the environment " WORLD_ENV));
}

TEST(by_a_landed_commit)
{
	cleanup_buf struct buf b = BUF_INIT(OUT_MAX);
	char script[600];

	WORLD(w, "");
	CHECK(world_fill(&w, 3) && stand_in(&w, "repo"));
	snprintf(script, sizeof(script),
		"cd repo && git config user.name a && git config user.email a@b && git commit -q "
		"--allow-empty -m 'x\n\nCroft-Env: " WORLD_ENV
		"\nCroft-Evidence: %s' && git commit -q --allow-empty -m plain",
		w.tip.envelope.hex);
	CHECK_INT(world_sh(&w, script), 0);
	CHECK_INT(verify("HEAD^", NULL, &b), 0);
	CHECK(strstr(b.data, "good: fix-it"));
	CHECK(strstr(b.data, "no event names it or its tree"));
	CHECK(verify("HEAD", NULL, &b) < 0);
	CHECK(strstr(b.data, "no Croft-Env trailer"));
	/* The newest event is cut off: only the trailer can tell. */
	CHECK_INT(world_sh(&w, "cd repo && git update-ref " WORLD_REF " " WORLD_REF "^"), 0);
	CHECK_INT(verify("fix-it", NULL, &b), 0);
	CHECK_INT(verify("HEAD^", NULL, &b), 1);
	CHECK(strstr(b.data, "event 3: it is missing: the commit rests on"));
}

TEST(log_and_show)
{
	cleanup_evidence struct evidence v = {0};
	cleanup_buf struct buf b = BUF_INIT(OUT_MAX);
	cleanup_jdoc struct jdoc *d = NULL;
	struct ledger_event ev = world_event(EVENT_EXEC, "x", 9);
	struct err e = ERR_INIT;
	size_t lines = 0;

	WORLD(w, "");
	CHECK(world_fill(&w, 3) && stand_in(&w, "repo"));
	ev.title = "\x1b[2J";
	ev.predicate =
		"\"note\":\"\\u001b[31m \\u202e x\",\"half\":0.5,\"list\":[1,[],{\"a\":null}]";
	CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e), 0);
	CHECK_INT(evidence_find(&v, "fix-it", &e), 0);
	CHECK_INT(evidence_log(&v, 0, false, &b, &e), 0);
	for (char *p = b.data; *p; p++)
		lines += *p == '\n';
	CHECK_INT(lines, 4);
	CHECK(str_starts(b.data, "   1  2025-10-09 08:53:20  created     an event\n"));
	CHECK(!strchr(b.data, '\x1b'));
	buf_reset(&b);
	CHECK_INT(evidence_log(&v, 1, false, &b, &e), 0);
	CHECK(str_starts(b.data, "   4  "));
	buf_reset(&b);
	CHECK_INT(evidence_show(&v, 4, false, &b, &e), 0);
	CHECK(!strchr(b.data, '\x1b') && !strstr(b.data, "\xe2\x80\xae"));
	CHECK(strstr(b.data, "note: \\x1b[31m \\u{202e} x"));
	buf_reset(&b);
	CHECK_INT(evidence_show(&v, 0, true, &b, &e), 0);
	CHECK_INT(jdoc_parse(&d, b.data, b.len, &e), 0);
	CHECK_INT(jlen(jget(jdoc_root(d), "events")), 4);
	buf_reset(&b);
	CHECK(evidence_show(&v, 5, false, &b, &e) < 0);
}

/* ---- elsewhere ---- */

static int refs_at(struct world *w, const char *dir)
{
	char script[200];

	for (int n = 0; n < 5; n++) {
		snprintf(script, sizeof(script),
			"cd %s && test $(git for-each-ref refs/croft | wc -l) = %d", dir, n);
		if (world_sh(w, script) == 0)
			return n;
	}
	return -1;
}

TEST(push_and_fetch)
{
	static const char *const one[] = {"fix-it", NULL}, *const by_id[] = {WORLD_ENV, NULL},
				 *const missing[] = {"0000000000000000", NULL};
	cleanup_buf struct buf b = BUF_INIT(OUT_MAX);
	struct ledger_event ev = world_event(EVENT_EXEC, "theirs", 50);
	struct err e = ERR_INIT;

	WORLD(w, "");
	CHECK(world_fill(&w, 2));
	CHECK_INT(world_sh(&w, "git init -q --bare hub && git init -q clone && cd repo && git "
			       "update-ref refs/croft/env/" OTHER_ENV " " WORLD_REF
			       " && git tag t " WORLD_REF),
		0);
	CHECK(stand_in(&w, "repo"));
	CHECK_INT(evidence_push("../hub", one, false, &b, &e), -EINVAL); /* two of that name here */
	e = ERR_INIT;
	CHECK_INT(evidence_push("../hub", by_id, false, &b, &e), 0);
	CHECK_INT(refs_at(&w, "hub"), 1); /* only what was asked for */
	CHECK_INT(world_sh(&w, "cd hub && test -z \"$(git tag)\""), 0);
	CHECK(evidence_push("--upload-pack=x", by_id, false, &b, &e) < 0);
	CHECK(evidence_push("../nowhere", by_id, false, &b, &e) < 0);
	CHECK(stand_in(&w, "clone"));
	buf_reset(&b);
	e = ERR_INIT;
	CHECK_INT(evidence_fetch("../hub", NULL, true, &b, &e), 0);
	CHECK(strstr(b.data, "fix-it, 2 events, good"));
	CHECK_INT(refs_at(&w, "clone"), 1);
	CHECK(evidence_fetch("../hub", missing, false, &b, &e) < 0);
	/* It goes on here; the clone follows. */
	CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e), 0);
	CHECK(stand_in(&w, "repo"));
	e = ERR_INIT;
	CHECK_INT(evidence_push("../hub", by_id, false, &b, &e), 0);
	CHECK(stand_in(&w, "clone"));
	buf_reset(&b);
	CHECK_INT(evidence_fetch("../hub", one, false, &b, &e), 0);
	CHECK(strstr(b.data, "3 events, good"));
	buf_reset(&b);
	CHECK_INT(evidence_fetch("../hub", by_id, false, &b, &e), 0);
	CHECK(strstr(b.data, "is up to date"));
}

/* A hub that takes an event away, with a configuration that forces everything. */
TEST(no_continuation)
{
	static const char *const by_id[] = {WORLD_ENV, NULL};
	cleanup_buf struct buf b = BUF_INIT(OUT_MAX);
	struct err e = ERR_INIT;

	WORLD(w, "");
	CHECK(world_fill(&w, 3));
	CHECK_INT(world_sh(&w, "git init -q --bare hub && cd repo && git push -q ../hub " WORLD_REF
			       "^:" WORLD_REF " && git remote add o ../hub && git config --add "
			       "remote.o.fetch '+refs/*:refs/*'"),
		0);
	CHECK(stand_in(&w, "repo"));
	CHECK(evidence_fetch("o", by_id, false, &b, &e) < 0);
	CHECK(strstr(e.msg, "no continuation"));
	CHECK_INT(verify("fix-it", NULL, &b), 0);
	CHECK(strstr(b.data, "3 events"));
	/* And the other way: what is at the hub is not overwritten. */
	CHECK_INT(world_sh(&w,
			  "cd repo && git update-ref " WORLD_REF " " WORLD_REF "~2 && cd ../hub"),
		0);
	e = ERR_INIT;
	CHECK(evidence_push("o", by_id, false, &b, &e) < 0);
}
