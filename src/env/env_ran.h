/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behind what boundary the work of an environment was done, as the receipts in its ledger say: not
 * what was asked for, but what ran.
 */
#ifndef CROFT_ENV_ENV_RAN_H
#define CROFT_ENV_ENV_RAN_H

#include "base/digest.h"
#include "env/env.h"

struct land_ran {
	/*
	 * The weakest that any command had: static text. NULL: no command ran; "unknown": one left no
	 * receipt, or the ledger cannot be read.
	 */
	const char *tier;
	/* Of the last command, or what it was made with; "": not known. */
	char policy[DIGEST_HEX_LEN + 1];
};

/* Of this environment, and of those it was forked from. Never fails: what is not known is said so. */
void land_ran(struct env *v, struct land_ran *ret);

#endif
