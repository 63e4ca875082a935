/* SPDX-License-Identifier: Apache-2.0 */
/* A review on a terminal: item by item, one key each. */
#ifndef CROFT_CLI_REVIEW_WALK_H
#define CROFT_CLI_REVIEW_WALK_H

#include "cli/cli.h"

/*
 * Walk until everything is decided or the reviewer leaves. 1: save; 0: do not; -1: the terminal is gone,
 * or cannot be used. The terminal is as it was afterwards, and also when a signal ends us.
 */
int review_walk(struct croft *c, struct croft_review *r);

/* ---- the editor ---- */

/*
 * Let the user's editor ($VISUAL, $EDITOR, vi) change a text, in a private file outside every workspace.
 * The new text (caller frees), or NULL after a message on stderr.
 */
char *review_editor(const char *text);

#endif
