/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first policy for a project, from what lies in its top directory.
 *
 * Purpose: what croft init writes: a croft.yaml whose every line is explained.
 * Trust:   the project may be hostile. Only the presence of files and fixed words in them decide; not
 *          one byte of them is copied. Files are opened without following symlinks, and read up to a
 *          maximum.
 * Limits:  it knows the top directory only. What it does not recognise gets no grant.
 */
#ifndef CROFT_LEARN_FIRST_POLICY_H
#define CROFT_LEARN_FIRST_POLICY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct first_policy {
	struct buf yaml;      /* the file */
	struct strlist found; /* what was recognised, for a person: "Node.js (package.json)" */
	bool widens;          /* it grants something, so its bytes need the user's approval */
};

/* dir: of the project. */
int first_policy_make(struct first_policy *ret, const char *dir, struct err *e);
void first_policy_done(struct first_policy *f);

#endif
