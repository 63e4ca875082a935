/* SPDX-License-Identifier: Apache-2.0 */
/* env: commands of a session are recorded whole, in batches, whatever ends croft and when. */
#include "session_world.h"
#include "os/clock.h"

#include <signal.h>

static const struct jnode *entries_of(const struct ledger_entry *x)
{
	return jget(x->predicate, "entries");
}

static int64_t num(const struct jnode *n, const char *key)
{
	int64_t v = -1;

	jint(jget(n, key), &v);
	return v;
}

static const char *log_path(struct land_world *w)
{
	static char path[400];

	snprintf(path, sizeof(path), "%s/envs/e1/journal/session-" SESSION "/log", w->state);
	return path;
}

TEST(commands_at_once_are_one_event)
{
	cleanup_story struct story s = {0};
	cleanup_world struct land_world w;
	struct sjournal_ref started, ended;
	struct ledger_verdict v;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	j = session_open(&w, false);
	CHECK(j && sjournal_wait(j, &w.e) == 0);
	CHECK(session_verify(&w, &v));
	CHECK_STR(v.open_session, SESSION);
	CHECK_INT(v.open_seq, 2);
	CHECK_INT(sjournal_due_ms(j), UINT64_MAX);
	CHECK_INT(session_start(j, 1, "one", &started), 0);
	CHECK_INT(started.event, 3);
	CHECK_INT(started.entry, 1);
	CHECK_INT(session_start(j, 2, "two", NULL), 0);
	CHECK(session_start(j, 2, "again", NULL) < 0);
	CHECK_INT(session_end(j, 2, "two", 7, "from two\n", NULL), 0);
	CHECK_INT(session_end(j, 1, "one", 0, "from one\n", &ended), 0);
	CHECK(session_end(j, 1, "one", 0, "", NULL) < 0);
	CHECK_INT(ended.event, 3);
	CHECK_INT(ended.entry, 4);
	CHECK(sjournal_due_ms(j) <= clock_ms() + SJOURNAL_SEAL_MS);
	CHECK_INT(sjournal_flush(j, true, &w.e), 0);
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK(access(log_path(&w), F_OK) < 0);
	CHECK(session_verify(&w, &v));
	CHECK_STR(v.open_session, "");
	CHECK_INT(v.events, 4); /* created, begin, commands, end */
	CHECK(session_story(&w, &s));
	CHECK(s.entries[2].kind == EVENT_SESSION && s.entries[2].schema == 2);
	CHECK(s.entries[0].schema == 1);
	CHECK_INT(jlen(entries_of(&s.entries[2])), 4);
	CHECK_INT(num(jat(entries_of(&s.entries[2]), 2), "n"), 3);
	CHECK_INT(num(jat(entries_of(&s.entries[2]), 2), "process"), 2);
	CHECK_INT(num(jget(jat(entries_of(&s.entries[2]), 2), "exit"), "code"), 7);
	CHECK_INT(num(jat(entries_of(&s.entries[2]), 2), "outputAt"), 0);
	CHECK_INT(num(jat(entries_of(&s.entries[2]), 3), "outputAt"), 9);
	CHECK_INT(num(jat(entries_of(&s.entries[2]), 3), "receipt"), 2);
}

TEST(a_session_of_one_command_is_one_event)
{
	cleanup_world struct land_world w;
	struct ledger_verdict v;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	j = session_open(&w, true);
	CHECK(j && !sjournal_busy(j));
	CHECK_INT(session_command(j, 1, "one"), 0);
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK(session_verify(&w, &v));
	CHECK_INT(v.events, 2);
	CHECK_STR(v.open_session, "");
	/* One that never ran anything leaves nothing. */
	j = session_open(&w, true);
	CHECK(j && sjournal_close(j, &w.e) == 0);
	CHECK(session_verify(&w, &v));
	CHECK_INT(v.events, 2);
}

TEST(batches_are_sealed_by_the_loop)
{
	cleanup_world struct land_world w;
	struct ledger_verdict v;
	struct sjournal *j;
	uint32_t n = 1;

	CHECK(world_make(&w, true));
	j = session_open(&w, false);
	CHECK(j);
	/* More than one event holds, while a thread seals. */
	for (; n <= 3 * SJOURNAL_BATCH_MAX / 2; n++) {
		CHECK_INT(session_command(j, n, "many"), 0);
		CHECK_INT(sjournal_poll(j, true, &w.e), 0);
	}
	while (j->first) {
		struct pollfd p = {.fd = sjournal_fd(j), .events = POLLIN};

		if (sjournal_busy(j))
			CHECK(poll(&p, 1, 60000) == 1);
		else
			j->first->first_ms = 0;
		CHECK_INT(sjournal_poll(j, true, &w.e), 0);
	}
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK(session_verify(&w, &v));
	CHECK(v.events >= 5);
}

/* ---- secrets ---- */

TEST(secrets_are_in_neither_file_nor_event)
{
	static const char secret[] = "correct-horse-battery";
	struct policy_var set = {
		.name = (char[]){"MY_TOKEN"}, .value = (char[]){"correct-horse-battery"}};
	struct policy p = {.env_set = &set, .env_set_n = 1};
	struct sjournal_session s = {.id = SESSION, .policy = &p, .label = secret};
	cleanup_buf struct buf text = BUF_INIT(1u << 20);
	cleanup_world struct land_world w;
	struct sjournal *j = NULL;

	CHECK(world_make(&w, true));
	CHECK_INT(sjournal_open(&j, &w.v, &s, &w.e), 0);
	CHECK_INT(session_start(j, 1, secret, NULL), 0);
	CHECK_INT(session_end(j, 1, secret, 0, "it is correct-horse-battery\n", NULL), 0);
	CHECK_INT(session_command(j, 2, "plain"), 0);
	CHECK_INT(file_read_at(AT_FDCWD, log_path(&w), &text), 0);
	CHECK(!memmem(text.data, text.len, secret, strlen(secret)));
	CHECK(memmem(text.data, text.len, "plain", 5) &&
		memmem(text.data, text.len, "[redacted:", 10));
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK_STR(world_sh(&w,
			  "for c in $(git rev-list refs/croft/env/%s); do for f in $(git ls-tree "
			  "--name-only $c); do git show $c:$f | sed "
			  "'s/.*\"payload\":\"\\([^\"]*\\).*/\\1/' "
			  ">x; cat x; base64 -d x 2>/dev/null; done; done | grep -ac -e "
			  "correct-horse",
			  w.v.id),
		"0");
}

/* ---- trees ---- */

TEST(a_tree_belongs_to_what_was_alive)
{
	cleanup_story struct story s = {0};
	cleanup_world struct land_world w;
	const struct jnode *who;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	j = session_open(&w, false);
	CHECK(j && sjournal_wait(j, &w.e) == 0);
	CHECK_INT(session_start(j, 1, "server", NULL), 0);
	CHECK_INT(session_command(j, 2, "make"), 0);
	session_write(&w, "made", "by two\n");
	/* Something runs: no look at the tree, unless the caller wants one (a snapshot, a review). */
	CHECK_INT(sjournal_seal(j, true, &w.e), 0);
	CHECK_INT(sjournal_wait(j, &w.e), 0);
	CHECK_INT(session_command(j, 3, "test"), 0);
	CHECK_INT(sjournal_flush(j, false, &w.e), 0);
	CHECK_INT(session_end(j, 1, "server", 0, "", NULL), 0);
	session_write(&w, "made", "by one\n");
	CHECK_INT(sjournal_flush(j, true, &w.e), 0);
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK(session_story(&w, &s));
	CHECK_INT(s.entries_n, 6);
	CHECK(!jget(s.entries[2].predicate, "interval") && !story_tree(&s.entries[2]));
	who = jget(jget(s.entries[3].predicate, "interval"), "processes");
	CHECK(jlen(who) == 1 && story_tree(&s.entries[3]));
	CHECK(jlen(jget(s.entries[3].predicate, "running")) == 1);
	/* The server ran on, so it is one of those that made the next tree. */
	who = jget(jget(s.entries[4].predicate, "interval"), "processes");
	CHECK_INT(jlen(who), 1);
	CHECK(story_tree(&s.entries[4]));
	CHECK(strcmp(story_tree(&s.entries[3]), story_tree(&s.entries[4])) != 0);
	/* Nothing was alive before the end: nobody is said to have changed anything. */
	CHECK(!jget(s.entries[5].predicate, "interval") ||
		jlen(jget(jget(s.entries[5].predicate, "interval"), "processes")) == 0);
}

/* A process that is recorded while the thread looks at the tree: the look does not count. */
TEST(a_look_while_something_starts_does_not_count)
{
	cleanup_story struct story s = {0};
	cleanup_world struct land_world w;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	j = session_open(&w, false);
	CHECK(j && sjournal_wait(j, &w.e) == 0);
	CHECK_INT(session_command(j, 1, "make"), 0);
	pthread_mutex_lock(&j->lock); /* the thread cannot come to its end */
	CHECK_INT(sjournal_seal(j, true, &w.e), 0);
	j->starts++; /* as sjournal_started() does before the process exists */
	pthread_mutex_unlock(&j->lock);
	CHECK_INT(sjournal_wait(j, &w.e), 0);
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK(session_story(&w, &s));
	CHECK(!jget(s.entries[2].predicate, "interval"));
	CHECK(jget(s.entries[3].predicate, "interval"));
	CHECK_INT(jlen(jget(jget(s.entries[3].predicate, "interval"), "processes")), 1);
}

/* ---- crashes ---- */

/* A session that does what all of them do; never returns. */
static void live_and_die(struct land_world *w, const char *at)
{
	struct sjournal *j;

	setenv("CROFT_CRASH_AT", at, 1);
	j = session_open(w, false);
	if (!j || sjournal_wait(j, &w->e) < 0)
		_exit(3);
	for (uint32_t i = 1; i <= 6; i += 2) {
		session_start(j, i, "first", NULL);
		session_start(j, i + 1, "second", NULL);
		session_end(j, i, "first", 0, "x\n", NULL);
		session_write(w, "file", i == 1 ? "a" : i == 3 ? "b" : "c");
		if (i == 5)
			raise(SIGKILL);
		session_end(j, i + 1, "second", 0, "y\n", NULL);
		if (sjournal_flush(j, true, &w->e) < 0)
			_exit(4);
	}
	_exit(5);
}

/* How many entries of that kind the ledger has. */
static int count(const struct story *s, const char *kind)
{
	int n = 0;

	for (size_t i = 0; i < s->entries_n; i++)
		for (size_t k = 0; k < jlen(entries_of(&s->entries[i])); k++) {
			const char *is = jstr(jget(jat(entries_of(&s->entries[i]), k), "kind"));

			n += is && str_eq(is, kind);
		}
	return n;
}

static bool died(struct land_world *w, const char *at)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		live_and_die(w, at);
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) || WEXITSTATUS(status) == 137;
}

TEST(nothing_that_was_recorded_is_lost)
{
	static const struct {
		const char *at;
		int started, ended, interrupted;
	} cases[] = {{"none", 6, 5, 1}, {"session.started:1", 1, 0, 1},
		{"session.started:4", 4, 2, 2}, {"session.ended:2", 2, 2, 0},
		{"session.seal:2", 2, 2, 0}, {"session.event:2", 2, 2, 0},
		{"session.sealed:2", 2, 2, 0}, {"session.seal:1", 0, 0, 0},
		{"session.event:1", 0, 0, 0}, {"session.sealed:3", 4, 4, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup_story struct story s = {0};
		cleanup_world struct land_world w;
		struct ledger_verdict v;

		CHECK(world_make(&w, true));
		CHECK(died(&w, cases[i].at));
		CHECK(session_verify(&w, &v));
		CHECK(session_reopen(&w));
		CHECK(w.v.notes.n == 1 && strstr(w.v.notes.v[0], "was cut off"));
		CHECK(session_verify(&w, &v));
		CHECK_STR(v.open_session, "");
		CHECK(session_story(&w, &s));
		CHECK_INT(count(&s, "started"), cases[i].started);
		CHECK_INT(count(&s, "ended"), cases[i].ended);
		CHECK_INT(count(&s, "interrupted"), cases[i].interrupted);
		CHECK(access(log_path(&w), F_OK) < 0);
		/* And again: there is nothing more to recover. */
		CHECK(session_reopen(&w) && w.v.notes.n == 0);
	}
}

/* The records of the file in another order: `last` moves to the end. */
static bool move_to_end(const char *path, enum sframe_kind last)
{
	cleanup_buf struct buf all = BUF_INIT(1 << 20), moved = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
	cleanup_fd int fd = open(path, O_RDWR | O_CLOEXEC);
	size_t at = 0, from = 0;
	struct sframe f;

	if (fd < 0 || file_read_fd(fd, &all) < 0)
		return false;
	for (; sframe_next(all.data, all.len, &at, &f) == 1; from = at)
		buf_add(f.kind == last ? &moved : &out, (const char *)all.data + from, at - from);
	buf_add(&out, moved.data, moved.len);
	return from == all.len && moved.len && pwrite(fd, out.data, out.len, 0) == (ssize_t)out.len;
}

/* The thread that seals the session's begin is slow: a command's record comes before its SFRAME_SEAL. */
TEST(a_seal_may_come_after_the_next_record)
{
	cleanup_story struct story s = {0};
	cleanup_world struct land_world w;
	struct ledger_verdict v;
	pid_t pid;

	CHECK(world_make(&w, true));
	pid = fork();
	if (pid == 0) {
		struct sjournal *j = session_open(&w, false);

		if (!j || sjournal_wait(j, &w.e) < 0 || session_start(j, 1, "first", NULL) < 0)
			_exit(3);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	CHECK(move_to_end(log_path(&w), SFRAME_SEAL));
	CHECK(move_to_end(log_path(&w), SFRAME_SEALED));
	CHECK(session_reopen(&w));
	CHECK(w.v.notes.n == 1 && strstr(w.v.notes.v[0], "while 1 command ran"));
	CHECK(!strstr(w.v.notes.v[0], "may be missing"));
	CHECK(session_verify(&w, &v) && !v.open_session[0]);
	CHECK(session_story(&w, &s));
	CHECK_INT(count(&s, "started"), 1);
	CHECK_INT(count(&s, "interrupted"), 1);
}

TEST(recovery_that_dies_is_recovered)
{
	static const char *const at[] = {"session.seal", "session.event", "session.sealed"};

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		cleanup_story struct story s = {0};
		cleanup_world struct land_world w;
		struct ledger_verdict v;
		pid_t pid;

		CHECK(world_make(&w, true));
		CHECK(died(&w, "none"));
		env_done(&w.v);
		pid = fork();
		if (pid == 0) {
			setenv("CROFT_CRASH_AT", at[i], 1);
			world_open(&w);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		CHECK(session_reopen(&w));
		CHECK(session_verify(&w, &v) && !v.open_session[0]);
		CHECK(session_story(&w, &s));
		CHECK_INT(count(&s, "started"), 6);
		CHECK_INT(count(&s, "ended"), 5);
		CHECK_INT(count(&s, "interrupted"), 1);
	}
}

/*
 * The file ends anywhere, in zeros or in what another file had. After a start of the machine nobody knows
 * what is missing, and the session has no end; before, it is a record that was being written.
 */
TEST(a_torn_end_ends_the_record_and_not_the_environment)
{
	for (int at = 0; at < 8; at++) {
		int how = at % 4;
		bool again = at >= 4, unended = again || how >= 2;
		cleanup_story struct story s = {0};
		cleanup_world struct land_world w;
		struct ledger_verdict v;
		struct stat st;
		char zeros[3000] = "";

		CHECK(world_make(&w, true));
		CHECK(died(&w, "session.ended:4"));
		CHECK(stat(log_path(&w), &st) == 0);
		if (how == 0) {
			CHECK(truncate(log_path(&w), st.st_size - 1) == 0);
		} else if (how == 1) {
			cleanup_fd int fd = open(log_path(&w), O_WRONLY | O_APPEND | O_CLOEXEC);

			CHECK(write(fd, zeros, sizeof(zeros)) == (ssize_t)sizeof(zeros));
		} else if (how == 2) {
			CHECK(truncate(log_path(&w), 0) == 0);
		} else {
			CHECK(unlink(log_path(&w)) == 0);
		}
		if (again)
			setenv("CROFT_FORCE_FAIL", "boot-id", 1);
		CHECK(session_reopen(&w));
		unsetenv("CROFT_FORCE_FAIL");
		CHECK(w.v.notes.n == 1 && strstr(w.v.notes.v[0],
						   unended ? "may be missing" : "nobody was told of"));
		CHECK(session_verify(&w, &v));
		CHECK_STR(v.open_session, unended ? SESSION : "");
		CHECK(session_story(&w, &s));
		CHECK_INT(count(&s, "started"), how < 2 ? 4 : 2);
		CHECK_INT(count(&s, "ended"), how == 0 ? 3 : how == 1 ? 4 : 2);
		CHECK_INT(count(&s, "interrupted"), how == 0 ? 1 : 0);
	}
}

/* The journal of a session is gone: its ledger says that it never ended. */
TEST(a_session_without_an_end_is_told)
{
	cleanup_world struct land_world w;
	struct ledger_verdict v;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	CHECK(died(&w, "session.started:3"));
	world_sh(&w, "rm -r %s/envs/e1/journal/session-" SESSION, w.state);
	CHECK(session_reopen(&w));
	CHECK(session_verify(&w, &v));
	CHECK_STR(v.open_session, SESSION);
	CHECK_INT(v.open_seq, 2);
	j = session_open(&w, true);
	CHECK(j && session_command(j, 1, "later") == 0 && sjournal_close(j, &w.e) == 0);
	CHECK(session_verify(&w, &v));
	CHECK_STR(v.open_session, SESSION);
	CHECK_INT(v.open_seq, 2);
}

/* ---- what is in the way ---- */

TEST(what_the_ledger_does_not_take_is_tried_again)
{
	cleanup_world struct land_world w;
	struct ledger_verdict v;
	struct sjournal *j;
	uint64_t failed_ms;

	CHECK(world_make(&w, true));
	j = session_open(&w, false);
	CHECK(j && sjournal_wait(j, &w.e) == 0);
	CHECK_INT(session_command(j, 1, "one"), 0);
	world_sh(&w, "mv .git/objects .git/gone");
	failed_ms = clock_ms();
	CHECK(sjournal_flush(j, true, &w.e) < 0 && w.e.msg[0]);
	CHECK_INT(session_command(j, 2, "two"), 0);
	CHECK(sjournal_due_ms(j) != UINT64_MAX);
	CHECK(sjournal_due_ms(j) >= failed_ms + SJOURNAL_RETRY_MS);
	world_sh(&w, "mv .git/gone .git/objects");
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK(session_verify(&w, &v) && !v.open_session[0]);
	CHECK_INT(v.events, 4); /* created, begin, one; two and the end */
}

/* The file does not grow for ever; what still runs is carried over. */
TEST(the_file_begins_anew)
{
	cleanup_free char *large = malloc((1u << 20) + 1);
	cleanup_story struct story s = {0};
	cleanup_world struct land_world w;
	struct sjournal *j;
	struct stat st;

	memset(large, 'x', 1u << 20);
	large[1u << 20] = '\0';
	CHECK(world_make(&w, true));
	j = session_open(&w, false);
	CHECK(j);
	CHECK_INT(session_start(j, 1, "server", NULL), 0);
	for (uint32_t i = 2; i < 36; i++) {
		CHECK_INT(session_start(j, i, "loud", NULL), 0);
		CHECK_INT(session_end(j, i, "loud", 0, large, NULL), 0);
	}
	CHECK(stat(log_path(&w), &st) == 0 && st.st_size > 16 << 20);
	/* Something always waits when a batch is done. */
	CHECK_INT(sjournal_wait(j, &w.e), 0);
	CHECK_INT(sjournal_seal(j, false, &w.e), 0);
	CHECK_INT(session_command(j, 36, "meanwhile"), 0);
	CHECK_INT(sjournal_wait(j, &w.e), 0);
	CHECK(stat(log_path(&w), &st) == 0 && st.st_size < 4096);
	sjournal_abandon(j);
	CHECK(session_reopen(&w));
	CHECK(session_story(&w, &s));
	CHECK_INT(count(&s, "ended"), 35);
	CHECK_INT(count(&s, "interrupted"), 1);
}

/* ---- cost ---- */

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Many commands share an event and its flush; what that takes is told, and measured in bench/. */
TEST(a_thousand_commands_are_a_few_events)
{
	const uint32_t n = 1000;
	cleanup_world struct land_world w;
	struct ledger_verdict v;
	double wall, loop, all, batch = 0;
	uint64_t from;
	struct sjournal *j;

	CHECK(world_make(&w, true));
	j = session_open(&w, false);
	CHECK(j && sjournal_wait(j, &w.e) == 0);
	from = w.v.tip.seq;
	wall = seconds(CLOCK_MONOTONIC);
	loop = seconds(CLOCK_THREAD_CPUTIME_ID);
	all = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (uint32_t i = 1; i <= n; i++) {
		CHECK_INT(session_command(j, i, "true"), 0);
		CHECK_INT(sjournal_poll(j, false, &w.e), 0);
	}
	loop = seconds(CLOCK_THREAD_CPUTIME_ID) - loop;
	CHECK_INT(sjournal_flush(j, true, &w.e), 0);
	wall = seconds(CLOCK_MONOTONIC) - wall;
	all = seconds(CLOCK_PROCESS_CPUTIME_ID) - all;
	printf("# a command: %.3f ms, of these %.3f ms of the loop's time; %.3f ms of all "
	       "threads'\n",
		wall * 1000 / n, loop * 1000 / n, all * 1000 / n);
	printf("# events: %llu\n", (unsigned long long)(w.v.tip.seq - from));
	CHECK(w.v.tip.seq - from <=
		2 + n / (SJOURNAL_BATCH_MAX / 4) + (uint64_t)(wall * 1000 / SJOURNAL_SEAL_MS));
	for (uint32_t i = 0; i < 20; i++) {
		CHECK_INT(session_command(j, n + 1 + i, "true"), 0);
		wall = seconds(CLOCK_MONOTONIC);
		CHECK_INT(sjournal_flush(j, false, &w.e), 0);
		batch += seconds(CLOCK_MONOTONIC) - wall;
	}
	printf("# an event of one command: %.3f ms\n", batch * 1000 / 20);
	CHECK_INT(sjournal_close(j, &w.e), 0);
	CHECK(session_verify(&w, &v));
}
