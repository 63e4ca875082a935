/* SPDX-License-Identifier: Apache-2.0 */
/* Ledgers: written and found good, in clones and packed; then each way to lie in one, and its name. */
#include "test.h"

#include <time.h>

#include "ledger_world.h"

TEST(good)
{
	struct ledger_verdict v;
	struct ledger_tip tip;
	uint8_t other[32] = {1};

	WORLD(w, "");
	CHECK(world_fill(&w, 4));
	CHECK_INT(w.tip.seq, 4);
	v = world_verify(&w, &w.tip.commit);
	CHECK(v.good);
	CHECK_INT(v.events, 4);
	CHECK_STR(v.env_id, WORLD_ENV);
	CHECK_STR(v.env_name, "fix-it");
	CHECK_STR(v.tip.hex, w.tip.envelope.hex);
	CHECK_STR(v.key_id.hex, w.key.id.hex);
	CHECK(memcmp(v.key, w.key.public, sizeof(v.key)) == 0);
	CHECK_INT(ledger_verify(&w.repo, &w.tip.commit, NULL, &v, &w.e), 0);
	CHECK(v.good);
	CHECK_INT(ledger_verify(&w.repo, &w.tip.commit, other, &v, &w.e), 0);
	CHECK(!v.good && v.bad_seq == 1 && strstr(v.why, "not with the one that was given"));
	CHECK_INT(ledger_tip(&tip, &w.repo, WORLD_ENV, &w.e), 0);
	CHECK(memcmp(&tip.commit, &w.tip.commit, sizeof(tip.commit)) == 0);
	CHECK_STR(tip.envelope.hex, w.tip.envelope.hex);
	CHECK_STR(tip.key_id.hex, w.key.id.hex);
	CHECK_STR(tip.run_id, "00112233aa");
	CHECK_INT(tip.seq, 4);
	CHECK(tip.time.tv_sec == w.tip.time.tv_sec && tip.time.tv_nsec == 123456000);
	CHECK_INT(ledger_tip(&tip, &w.repo, "ffffffffffffffff", &w.e), 0);
	CHECK(oid_is_none(&tip.commit) && tip.seq == 0);
	CHECK(ledger_tip(&tip, &w.repo, "../../heads/main", &w.e) < 0);
}

TEST(git_has_no_complaints)
{
	struct ledger_verdict v;
	struct ledger_tip tip;

	WORLD(w, "");
	CHECK(world_fill(&w, 3));
	CHECK_INT(world_sh(&w, "cd repo && git fsck --strict --full && test $(git rev-list "
			       "--count " WORLD_REF ") = 3"),
		0);
	CHECK_INT(
		world_sh(&w, "cd repo && test \"$(git log -1 --format='%an <%ae> %at %s' " WORLD_REF
			     ")\" = 'croft <croft@localhost> 1760000002 an event'"),
		0);
	CHECK_INT(world_sh(&w,
			  "cd repo && git pack-refs --all && git gc -q --prune=now && test -z "
			  "\"$(find .git/objects -type f ! -path '*/pack/*' ! -path '*/info/*')\""),
		0);
	v = world_verify(&w, &w.tip.commit);
	CHECK(v.good && v.events == 3);
	CHECK_INT(ledger_tip(&tip, &w.repo, WORLD_ENV, &w.e), 0);
	CHECK_INT(tip.seq, 3);
	CHECK(world_fill(&w, 0));
}

TEST(in_a_clone_and_sha256)
{
	cleanup_repo struct repo clone = {0};
	struct ledger_verdict v = {0};
	char dir[96];

	WORLD(w, "--object-format=sha256");
	CHECK(w.repo.hash == GIT_SHA256);
	CHECK(world_fill(&w, 3));
	CHECK_INT(world_sh(&w, "cd repo && git -c user.name=a -c user.email=a@b commit -q "
			       "--allow-empty -m x && cd .. && git clone -q repo clone && cd clone "
			       "&& git fetch -q origin '" WORLD_REF ":" WORLD_REF "'"),
		0);
	snprintf(dir, sizeof(dir), "%s/clone", w.top);
	CHECK_INT(repo_open(&clone, dir, w.state, &w.e), 0);
	CHECK_INT(ledger_verify(&clone, &w.tip.commit, w.key.public, &v, &w.e), 0);
	CHECK(v.good && v.events == 3);
}

/* The same event again makes the same commit; a second writer is told. */
TEST(again_and_at_once)
{
	struct ledger_event ev = world_event(EVENT_EXEC, "x", 9);
	struct ledger_tip mine, theirs;
	struct oid first;

	WORLD(w, "");
	CHECK(world_fill(&w, 2));
	mine = theirs = w.tip;
	CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &mine, &w.e), 0);
	CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &theirs, &w.e), -EAGAIN);
	CHECK_INT(theirs.seq, 2);
	first = mine.commit;
	CHECK_INT(ref_move(&w.repo, WORLD_REF, &mine.commit, &w.tip.commit, &w.e), 0);
	CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &theirs, &w.e), 0);
	CHECK(oid_eq(&first, &theirs.commit));
}

TEST(clock_that_runs_backwards)
{
	struct ledger_event ev = world_event(EVENT_EXEC, "x", -5000);
	cleanup_entry struct ledger_entry x = {0};
	cleanup_git_reader struct git_reader *g = NULL;
	cleanup_buf struct buf out = BUF_INIT(100);

	WORLD(w, "");
	CHECK(world_fill(&w, 3));
	CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e), 0);
	CHECK(world_verify(&w, &w.tip.commit).good);
	CHECK_INT(git_reader_open(&g, w.repo.store, &w.e), 0);
	CHECK_INT(ledger_read(g, w.repo.hash, &w.tip.commit, &x, &w.e), 0);
	CHECK_STR(x.time, "2025-10-09T08:53:22.123456Z");
	CHECK_STR(jstr(jget(entry_croft(&x), "clock")), "2025-10-09T07:30:00.123456Z");
	CHECK_INT(x.kind, EVENT_EXEC);
	CHECK_INT(ledger_read_file(g, w.repo.hash, &x, "output", &out, &w.e), 0);
	CHECK_STR(buf_str(&out), "x");
	CHECK_INT(ledger_read_file(g, w.repo.hash, &x, "nothing", &out, &w.e), -ENOENT);
}

TEST(events_that_are_refused)
{
	struct ledger_event ev;
	struct ledger_tip before;

	WORLD(w, "");
	ev = world_event(EVENT_EXEC, "x", 0);
	CHECK(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e) < 0); /* not the first */
	CHECK(world_fill(&w, 1));
	before = w.tip;
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		ev = world_event(EVENT_EXEC, "x", 1);                                              \
		change;                                                                            \
		w.e = ERR_INIT;                                                                    \
		CHECK(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e) < 0);                      \
		CHECK(w.e.msg[0] && memcmp(&before, &w.tip, sizeof(before)) == 0);                 \
	} while (0)
	REFUSED(ev.kind = EVENT_CREATED);
	REFUSED(ev.predicate = "\"croft\":{}");
	REFUSED(ev.predicate = "\"a\":1,\"a\":2");
	REFUSED(ev.predicate = "\"a\":1},\"predicate\":{\"b\":1");
	REFUSED(ev.predicate = "oops");
	REFUSED(ev.files[0].name = LEDGER_STATEMENT);
	REFUSED(ev.files[0].name = "../x");
	REFUSED(ev.files[0].name = ".git");
	REFUSED(ev.files[0].name = "output");
	REFUSED(ev.subjects[0].value = "xyz");
	REFUSED(ev.subjects[0].algorithm = "git Tree");
	REFUSED(ev.env_id = "..");
	REFUSED(ev.time.tv_sec = -1);
	REFUSED(w.key.id.hex[0] ^= 1);
}

/* Nothing to speak of but the ledger itself. */
TEST(event_without_subject)
{
	struct ledger_event ev = world_event(EVENT_SNAPSHOT, "", 3);
	cleanup_entry struct ledger_entry x = {0};
	cleanup_git_reader struct git_reader *g = NULL;
	struct digest before;

	WORLD(w, "");
	ev.files_n = ev.subjects_n = 0;
	ev.predicate = "";
	ev.kind = EVENT_CREATED;
	CHECK(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e) < 0);
	CHECK(world_fill(&w, 2));
	before = w.tip.envelope;
	ev.kind = EVENT_SNAPSHOT;
	CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e), 0);
	CHECK(world_verify(&w, &w.tip.commit).good);
	CHECK_INT(git_reader_open(&g, w.repo.store, &w.e), 0);
	CHECK_INT(ledger_read(g, w.repo.hash, &w.tip.commit, &x, &w.e), 0);
	CHECK_STR(jstr(jget(jget(jat(jget(x.statement, "subject"), 0), "digest"), "sha256")),
		before.hex);
}

TEST(titles)
{
	struct ledger_title t;
	char text[300];

	ledger_title("run\n\x1b[31m red", EVENT_EXEC, &t);
	CHECK_STR(t.s, "run\\x0a\\x1b[31m red");
	ledger_title("", EVENT_EXEC, &t);
	CHECK_STR(t.s, "exec");
	ledger_title(NULL, EVENT_APPLIED, &t);
	CHECK_STR(t.s, "applied");
	memset(text, 'a', sizeof(text));
	memcpy(text + LEDGER_TITLE_MAX - 1, "\xe2\x82\xac", 3);
	text[sizeof(text) - 1] = '\0';
	ledger_title(text, EVENT_EXEC, &t);
	CHECK_INT(strlen(t.s), LEDGER_TITLE_MAX - 1);
}

TEST(times)
{
	static const char *const bad[] = {"", "2026-01-02T03:04:05Z", "2026-02-30T00:00:00.000000Z",
		"2026-01-02T24:00:00.000000Z", "2026-01-02T03:04:05.123456+",
		"1969-12-31T23:59:59.000000Z", "2026-01-02 03:04:05.123456Z",
		"2026-01-02T03:04:60.123456Z"};
	struct timespec t = {.tv_sec = 1767323045, .tv_nsec = 123456999};
	struct ledger_time text;

	CHECK(ledger_time_text(&t, &text));
	CHECK_STR(text.s, "2026-01-02T03:04:05.123456Z");
	CHECK(ledger_time_parse(text.s, &t));
	CHECK(t.tv_sec == 1767323045 && t.tv_nsec == 123456000);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!ledger_time_parse(bad[i], &t));
	t.tv_sec = 253402300800;
	CHECK(!ledger_time_text(&t, &text));
}

/* A bound far above what it takes: it is there to find a git that was started, or a quadratic walk. */
TEST(appending_starts_nothing)
{
	struct ledger_event ev = world_event(EVENT_EXEC, "output\n", 5);
	struct timespec a, b;
	double ms;

	WORLD(w, "");
	CHECK(world_fill(&w, 1));
	setenv("PATH", "/nonexistent", 1);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int i = 0; i < 20; i++)
		CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
	ms = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 20e6;
	printf("# %.3f ms of processor time each\n", ms);
	CHECK(ms < 50);
	CHECK(world_verify(&w, &w.tip.commit).good);
}

/* ---- sessions ---- */

/* An event of a session; members of its predicate. */
static int session_event(struct world *w, const char *members, long at_s)
{
	struct ledger_event ev = world_event(EVENT_SESSION, "", at_s);

	ev.predicate_type = PREDICATE_SESSION;
	ev.predicate = members;
	return ledger_append(&w->repo, &w->key, &ev, &w->tip, &w->e);
}

static bool verdict_of(struct world *w, struct ledger_verdict *ret)
{
	return ledger_verify(&w->repo, &w->tip.commit, NULL, ret, &w->e) == 0;
}

TEST(a_schema_does_not_go_back)
{
	struct ledger_event ev = world_event(EVENT_EXEC, "x", 9);
	struct ledger_tip tip;
	struct ledger_verdict v;

	WORLD(w, "");
	CHECK(world_fill(&w, 2));
	CHECK_INT(w.tip.schema, 1);
	CHECK_INT(session_event(&w, "\"session\":\"aa\",\"begin\":{},\"end\":{}", 8), 0);
	CHECK_INT(w.tip.schema, 2);
	CHECK_INT(ledger_append(&w.repo, &w.key, &ev, &w.tip, &w.e), 0);
	CHECK_INT(ledger_tip(&tip, &w.repo, WORLD_ENV, &w.e), 0);
	CHECK_INT(tip.schema, 2);
	CHECK(verdict_of(&w, &v) && v.good && !v.open_session[0]);
}

TEST(sessions_begin_and_end_in_order)
{
	struct ledger_verdict v;

	WORLD(w, "");
	CHECK(world_fill(&w, 1));
	CHECK_INT(session_event(&w, "\"session\":\"aa\",\"begin\":{}", 1), 0);
	CHECK(verdict_of(&w, &v) && v.good);
	CHECK_STR(v.open_session, "aa");
	CHECK_INT(session_event(&w, "\"session\":\"aa\"", 2), 0);
	/* Another begins: the first one never ended, whatever comes later. */
	CHECK_INT(session_event(&w, "\"session\":\"bb\",\"begin\":{},\"end\":{}", 3), 0);
	CHECK(verdict_of(&w, &v) && v.good);
	CHECK_STR(v.open_session, "aa");
	CHECK_INT(v.open_seq, 2);
	CHECK_INT(session_event(&w, "\"session\":\"aa\",\"end\":{}", 4), 0);
	CHECK(verdict_of(&w, &v) && !v.good && v.bad_seq == 5);
	CHECK(strstr(v.why, "did not begin, or has ended"));
}
