/* SPDX-License-Identifier: Apache-2.0 */
/* From a journal to an event of the ledger. Used by journal.c only. */
#ifndef CROFT_CORE_JOURNAL_EVENT_H
#define CROFT_CORE_JOURNAL_EVENT_H

#include "core/journal.h"

/*
 * Write down, synced, everything the event will say: event.json (kind, time, predicate, subjects) and
 * its files, secrets taken out. Then the event is determined.
 */
int journal_seal(struct journal *j, struct env *v, struct receipt *r, struct err *e);
/* Append the event that was sealed. */
int journal_event(struct env *v, int dir_fd, const char *run_id, struct err *e);
/* A command whose supervisor died: what is known. */
int journal_interrupted(struct env *v, int dir_fd, const char *run_id, struct err *e);

#endif
