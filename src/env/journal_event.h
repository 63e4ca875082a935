/* SPDX-License-Identifier: Apache-2.0 */
/* From a journal to an event of the ledger. Used by journal.c, and by session_seal.c where it says so. */
#ifndef CROFT_ENV_JOURNAL_EVENT_H
#define CROFT_ENV_JOURNAL_EVENT_H

#include "env/journal.h"

#define JOURNAL_EVENT_MAX_B (48u << 20)

/*
 * Write down everything the event will say, secrets taken out, and keep it in ret. Then the event is
 * determined.
 */
int journal_seal(
	struct journal *j, struct env *v, struct receipt *r, struct buf *ret, struct err *e);
/* Is this all that was sealed? A power cut may have torn it. */
bool journal_is_whole(const struct buf *sealed);
/* Append the event that was sealed, and is whole. */
int journal_event(struct env *v, const char *run_id, const struct buf *sealed, struct err *e);
/* A command whose supervisor died, or (why, else NULL) whose record could not be taken: what is known. */
int journal_interrupted(
	struct env *v, int dir_fd, const char *run_id, const char *why, struct err *e);
/* Names this machine to itself: the same every time, and telling nobody which one it is. */
void journal_host_id(struct digest *ret);

#endif
