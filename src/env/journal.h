/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command in an environment, written down as it happens: journal/RUN/{started.json, stdout, stderr,
 * event}.
 *
 * Order:  started.json before the command exists; output as it comes (capped); event when it has
 *         ended, whole or not at all; then the event in the ledger, synced; then the directory is spare.
 *         Whoever opens the environment next for writing finishes what is unfinished: with "event", the
 *         same one is written (the same bytes: time and signature are determined); without, an
 *         "interrupted" event says what is known. Nothing that was journalled is lost.
 */
#ifndef CROFT_ENV_JOURNAL_H
#define CROFT_ENV_JOURNAL_H

#include "session/stdio/capture.h"
#include "env/env.h"
#include "session/run/receipt.h"

struct journal {
	int dir_fd;
	char run_id[32];
	struct capture capture; /* hand it to run_request.capture */
	bool as_test;
};

#define JOURNAL_INIT ((struct journal){.dir_fd = -1, .capture = CAPTURE_INIT})

/* A place for the run, and files for its output when that is to be kept. */
int journal_open(struct journal *j, struct env *v, const char *run_id, bool as_test, bool capture,
	struct err *e);
/* One that was opened and begun before (its output was not captured). */
int journal_resume(struct journal *j, struct env *v, const char *run_id, struct err *e);
/* The command will exist: say so first. */
int journal_begin(struct journal *j, const struct env *v, const struct receipt *r, struct err *e);
/* What journal_begin() writes, as text; and writing such a text later, for one that was begun elsewhere. */
int journal_started(const struct receipt *r, bool as_test, struct buf *ret, struct err *e);
int journal_begin_as(struct journal *j, const char *started, size_t n, struct err *e);
/* The command has ended: event, clean-up. What r hides is in none of it. */
int journal_end(struct journal *j, struct env *v, struct receipt *r, struct err *e);
/* It never ran: forget it. */
int journal_drop(struct journal *j, struct env *v);
void journal_done(struct journal *j);
/* A file of a run, in place: whoever reads it must be able to tell that it is whole. 0 or -errno. */
int journal_put(int dir_fd, const char *name, const void *p, size_t n);
/* Finish what crashes left; sentences go to v->notes. Needs the write lock. */
int journal_recover(struct env *v, struct err *e);

#endif
