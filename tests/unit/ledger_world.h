/* SPDX-License-Identifier: Apache-2.0 */
/* A repository with a ledger in it, for tests that write, read and spoil evidence. */
#ifndef CROFT_TESTS_LEDGER_WORLD_H
#define CROFT_TESTS_LEDGER_WORLD_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ledger/chain/entry.h"
#include "ledger/chain/ledger.h"
#include "test.h"

#define WORLD_ENV "0123456789abcdef"
#define WORLD_REF LEDGER_REF_PREFIX WORLD_ENV

struct world {
	char top[64], state[96], dir[96];
	struct repo repo;
	struct ledger_key key;
	struct ledger_tip tip;
	const char *env_id; /* NULL: WORLD_ENV */
	struct err e;
};

/* sh -c in the world's directory, with nobody's configuration; its status. */
static inline int world_sh(const struct world *w, const char *script)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		setenv("HOME", w->top, 1);
		setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
		setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
		if (chdir(w->top) == 0)
			execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static inline void world_done(struct world *w)
{
	pid_t pid = fork();

	repo_done(&w->repo);
	if (pid == 0) {
		execlp("rm", "rm", "-rf", w->top, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

/* "" or "--object-format=sha256" */
static inline bool world_make(struct world *w, const char *format)
{
	char script[256];

	*w = (struct world){.top = "/tmp/croft-ledger.XXXXXX"};
	if (!mkdtemp(w->top))
		return false;
	snprintf(w->state, sizeof(w->state), "%s/state", w->top);
	snprintf(w->dir, sizeof(w->dir), "%s/repo", w->top);
	snprintf(script, sizeof(script), "git init -q %s repo", format);
	if (mkdir(w->state, 0700) < 0 || world_sh(w, script) != 0)
		return false;
	setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
	if (repo_open(&w->repo, w->dir, w->state, &w->e) < 0 ||
		ledger_key_load(&w->key, w->state, &w->e) < 0) {
		printf("# %s\n", w->e.msg);
		return false;
	}
	return true;
}
#define WORLD(w, format)                                                                           \
	__attribute__((cleanup(world_done))) struct world w = {0};                                 \
	CHECK(world_make(&w, format))

static inline struct ledger_event world_event(enum event_kind kind, const char *output, long at_s)
{
	return (struct ledger_event){.kind = kind,
		.env_id = WORLD_ENV,
		.env_name = "fix-it",
		.version = "0.1.0",
		.time = {1760000000 + at_s, 123456789},
		.predicate_type = PREDICATE_EVENT,
		.predicate = "\"note\":\"plain\"",
		.subjects = {{"workspace", "gitTree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}},
		.subjects_n = 1,
		.files = {{"receipt.json", "{}", 2}, {"output", output, strlen(output)}},
		.files_n = 2,
		.run_id = kind == EVENT_EXEC ? "00112233aa" : NULL,
		.title = "an event"};
}

/* created, then n-1 commands. */
static inline bool world_fill(struct world *w, int n)
{
	for (int i = 0; i < n; i++) {
		char output[32];
		struct ledger_event ev;

		snprintf(output, sizeof(output), "output %d\n", i + 1);
		ev = world_event(i ? EVENT_EXEC : EVENT_CREATED, output, i);
		if (ledger_append(&w->repo, &w->key, &ev, &w->tip, &w->e) < 0) {
			printf("# %s\n", w->e.msg);
			return false;
		}
	}
	return true;
}

static inline struct ledger_verdict world_verify(struct world *w, const struct oid *tip)
{
	struct ledger_verdict v = {0};

	w->e = ERR_INIT;
	if (ledger_verify(&w->repo, tip, w->key.public, &v, &w->e) < 0)
		printf("# %s\n", w->e.msg);
	else if (!v.good)
		printf("# event %d: %s\n", (int)v.bad_seq, v.why);
	return v;
}

#endif
