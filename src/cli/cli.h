/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: one file per command, on top of croft.h and nothing else. */
#ifndef CROFT_CLI_CLI_H
#define CROFT_CLI_CLI_H

#include <stdbool.h>

#include "croft.h"

/* Each takes argv from its own name on and returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_learn(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_pending(int argc, char **argv);
int cmd_allow(int argc, char **argv);
int cmd_deny(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_prove(int argc, char **argv);
int cmd_secret(int argc, char **argv);

/* Print "croft: sentence" and return the status that stands for the failure. */
int cli_fail(struct croft *c);
/* A usage error: "croft CMD: sentence" with the way to help; returns 125. */
int cli_usage(const char *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
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

#endif
