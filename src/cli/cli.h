/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: one file per command, on top of croft.h and nothing else. */
#ifndef CROFT_CLI_CLI_H
#define CROFT_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "croft_run.h"

/* Each takes argv from its own name on and returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_agent(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_learn(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_pending(int argc, char **argv);
int cmd_allow(int argc, char **argv);
int cmd_deny(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_prove(int argc, char **argv);
int cmd_secret(int argc, char **argv);
int cmd_new(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_log(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_fork(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_gc(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_review(int argc, char **argv);
int cmd_apply(int argc, char **argv);
int cmd_revert(int argc, char **argv);
int cmd_discard(int argc, char **argv);
int cmd_evidence(int argc, char **argv);
int cmd_evidence_export(int argc, char **argv);
int cmd_evidence_check(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_up(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_port(int argc, char **argv);
int cmd_pause(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_complete(int argc, char **argv);
int cmd_session(int argc, char **argv); /* a session's own process */

/* The nth command that people may use, and what it does; false: there are not so many. */
bool cli_command(size_t n, const char **ret_name, const char **ret_what);
/* What main does with a command and its arguments. */
int cli_run_word(const char *word, int argc, char **argv);

/* Print "croft: sentence" and return the status that stands for the failure. */
int cli_fail(struct croft *c);
/* The same when a command was to be started: what was typed ahead for it on a terminal is dropped. */
int cli_fail_start(struct croft *c);
/* A usage error: "croft CMD: sentence" with the way to help; returns 125. */
int cli_usage(const char *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* For a command without a name: the last environment of this directory, which is told. NULL: told why not. */
const char *cli_last_env(const char *cmd);
/*
 * Standard output, in one place: what cannot be written is told once, in one sentence, and is a failure
 * whatever else happened; a reader that went away ("| head") is silent, and gives 128+SIGPIPE. cli_print
 * returns 0 or that status; main asks cli_end for what is still in the buffer, and gives `code` otherwise.
 */
int cli_print(const char *text);
int cli_end(int code);
/* "90s", "10m", "2h", "500ms"; a bare number is seconds. -1: it is none. */
int cli_duration(const char *text, unsigned long long *ret_ms);
/* Which of fds 0, 1, 2 were closed when we started. */
extern bool cli_closed[3];

/*
 * Options. A table of these drives parsing, so that every command treats "--name value",
 * "--name=value", bundling errors and unknown names (with a suggestion) alike.
 */
enum opt_kind { OPT_FLAG, OPT_VALUE, OPT_LIST };

#define OPT_LIST_MAX 1024

struct opt_list {
	const char *v[OPT_LIST_MAX + 1]; /* NULL-terminated */
	int n;
};

struct opt {
	const char *name; /* without dashes */
	char letter;      /* 0: none */
	enum opt_kind kind;
	void *to; /* bool *, const char **, struct opt_list * */
};

/*
 * Parse until "--", the first word that is no option, or the end. Returns the index of the first
 * remaining word, or -1 after a printed usage error.
 */
int opt_parse(const char *cmd, int argc, char **argv, const struct opt *opts, int opts_n);
/*
 * For commands whose words are all their own: options may come before, between and after them. The
 * words are moved to the end of argv; returns the index of the first, or -1.
 */
#define OPT_WORDS_MAX 4096
int opt_parse_words(const char *cmd, int argc, char **argv, const struct opt *opts, int opts_n);

#endif
