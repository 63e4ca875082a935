/* SPDX-License-Identifier: Apache-2.0 */
/* A process in a session that is up, with our terminal or our standard descriptors. */
#ifndef CROFT_CLI_JOIN_H
#define CROFT_CLI_JOIN_H

#include "cli/common.h"

struct join {
	const char *name;
	const char *const *argv; /* NULL: attach to `process` */
	unsigned process;
	unsigned long long offset; /* attach: from this byte on */
	bool from_end;
	bool plain;  /* attach: it has no terminal, so ours stays as it is, and ctrl-C lets go */
	bool look;   /* attach: output only, until the end of it (or on, with follow) */
	bool follow;
	const char *cwd;             /* NULL: the workspace */
	const struct opt_list *set;  /* --env, or NULL */
	const char *timeout, *json, *label;
	const struct common *limits; /* whose limits are the process's own, or NULL */
	bool as_test, detach, quiet, verbose;
	bool stay; /* although who started us ends */
};

/* May `now` be asked of the session? 0, or an exit status after a message. */
int join_check(const char *cmd, struct croft *c, const char *name, const struct common *now);
/* The same of croft up, whose options decide about the environment and time limit of every command, too. */
int join_check_up(struct croft *c, const char *name, const struct common *now);
#define JOIN_ENDED (-1)
/*
 * Returns the exit status. JOIN_ENDED: the session ended without starting the command; not with `detach`.
 */
int join_run(struct croft *c, struct croft_sandbox *s, const struct join *j);

#endif
