/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command in an environment: stage, journal, run, record.
 */
#ifndef CROFT_ENV_ENV_EXEC_H
#define CROFT_ENV_ENV_EXEC_H

#include "env/env.h"
#include "session/run/receipt.h"

struct env_exec {
	struct policy *policy;
	const char *cwd; /* absolute, in the workspace; NULL: its top */
	char *const *argv;
	char *const *environ;
	int stdio[3]; /* -1: /dev/null */
	bool own_stdio;
	bool as_test;
	bool read_only; /* nothing can be changed, nothing is recorded; any number at a time */
	bool allow_degraded;
	const char *label;
};

/*
 * v must hold the write lock (the read lock when read_only). ret must be receipt_init()ed. 0 when the
 * command ran, whatever its exit; its event is in the ledger then, or a degradation of the receipt
 * says why it is still in the journal.
 */
int env_exec(struct env *v, const struct env_exec *x, struct receipt *ret, struct err *e);

#endif
