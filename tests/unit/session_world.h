/* SPDX-License-Identifier: Apache-2.0 */
/* A session in an environment, and commands of it that are only recorded. For test_session_*.c. */
#ifndef CROFT_TESTS_UNIT_SESSION_WORLD_H
#define CROFT_TESTS_UNIT_SESSION_WORLD_H

#include <poll.h>

#include "env/session_journal_impl.h"
#include "land_world.h"
#include "ledger/chain/story.h"

#define SESSION "5e55104a"

static inline struct sjournal *session_open(struct land_world *w, bool brief)
{
	struct sjournal_session s = {.id = SESSION, .tier = "namespace", .brief = brief};
	struct sjournal *j = NULL;

	w->e = ERR_INIT;
	if (sjournal_open(&j, &w->v, &s, &w->e) < 0)
		printf("# %s\n", w->e.msg);
	return j;
}

static inline int session_start(
	struct sjournal *j, uint32_t process, const char *word, struct sjournal_ref *ret)
{
	cleanup_strlist struct strlist argv = STRLIST_INIT(8);
	struct sjournal_start s = {
		.process = process, .argv = &argv, .cwd = "/", .as_test = str_eq(word, "test")};
	struct err e = ERR_INIT;
	char run[16];
	int r;

	snprintf(run, sizeof(run), "%010x", process);
	s.run_id = run;
	env_now(&s.time);
	strlist_add(&argv, word);
	r = sjournal_started(j, &s, ret, &e);
	if (r < 0)
		printf("# %s\n", e.msg);
	return r;
}

static inline int session_end(struct sjournal *j, uint32_t process, const char *word, int code,
	const char *output, struct sjournal_ref *ret)
{
	struct capture_mem out[CAPTURE_STREAMS] = {0};
	struct err e = ERR_INIT;
	struct receipt rc;
	int r;

	receipt_init(&rc);
	snprintf(rc.id, sizeof(rc.id), "%010x", process);
	strlist_add(&rc.command, word);
	rc.tier = "namespace";
	rc.exit_code = code;
	rc.cwd = strdup("/");
	capture_mem_add(&out[CAPTURE_OUT], output, strlen(output));
	r = sjournal_ended(j, process, &rc, out, ret, &e);
	if (r < 0)
		printf("# %s\n", e.msg);
	capture_mem_done(&out[CAPTURE_OUT]);
	receipt_done(&rc);
	return r;
}

static inline int session_command(struct sjournal *j, uint32_t process, const char *word)
{
	int r = session_start(j, process, word, NULL);

	return r < 0 ? r : session_end(j, process, word, 0, "output\n", NULL);
}

/* "The command wrote a file": in the upper layer. */
static inline void session_write(struct land_world *w, const char *name, const char *text)
{
	char path[1024];
	cleanup_fd int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", world_upper(w), name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
}

/* Everything that the ledger says, judged. */
static inline bool session_verify(struct land_world *w, struct ledger_verdict *ret)
{
	struct ledger_tip tip;

	w->e = ERR_INIT;
	if (ledger_tip(&tip, &w->v.repo, w->v.id, &w->e) < 0 ||
		ledger_verify(&w->v.repo, &tip.commit, NULL, ret, &w->e) < 0) {
		printf("# %s\n", w->e.msg);
		return false;
	}
	if (!ret->good)
		printf("# event %llu: %s\n", (unsigned long long)ret->bad_seq, ret->why);
	return ret->good;
}

static inline bool session_story(struct land_world *w, struct story *ret)
{
	struct ledger_tip tip;

	w->e = ERR_INIT;
	if (ledger_tip(&tip, &w->v.repo, w->v.id, &w->e) == 0 &&
		story_read(ret, &w->v.repo, &tip.commit, 0, &w->e) == 0)
		return true;
	printf("# %s\n", w->e.msg);
	return false;
}

/* Closed and opened again, as by the next croft: what a crash left is recovered. */
static inline bool session_reopen(struct land_world *w)
{
	env_done(&w->v);
	if (world_open(w))
		return true;
	printf("# %s\n", w->e.msg);
	return false;
}

#endif
