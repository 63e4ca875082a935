/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command was trusted with, kept out of what is written down about it.
 *
 * Known:  stored secrets, and variables that the policy hands to the command and whose names say so.
 * Order:  a receipt gets to know them when the command has ended; before, only to write down its command
 *         line, after the sandbox's first process was forked: none of it may be in that one's memory.
 * Failure: closed. Who cannot know the values writes nothing down.
 */
#ifndef CROFT_SESSION_RUN_HIDDEN_H
#define CROFT_SESSION_RUN_HIDDEN_H

#include "base/json.h"
#include "base/jsonread.h"
#include "ledger/chain/ledger.h"
#include "ledger/redact/redact.h"
#include "policy/policy.h"
#include "session/config/secrets.h"

/* The values of a command under this policy. */
int hidden_know(struct redact *r, const struct policy *p, struct err *e);
/* What has been stored since the stamp, which is new then. Without a change it costs one look. */
int hidden_know_stored(struct redact *r, struct secret_stamp *s, struct err *e);
/* Those of its variables alone, with this environment of the caller's: for one command of a session. */
int hidden_know_variables(
	struct redact *r, const struct policy *p, char *const *caller, struct err *e);
/* Those that anybody's text may hold: stored ones, the caller's variables, options of an environment. */
int hidden_know_all(struct redact *r, const struct strlist *args, struct err *e);
/*
 * Which values there are, for whoever finishes in our place: names, and digests salted with the run's id.
 * Written as member "hidden".
 */
void hidden_note(const struct redact *r, const char *run_id, struct json *j);
/* Know again what was noted. false: one of them cannot be read any more, and not all can be hidden. */
bool hidden_noted(struct redact *r, const struct jnode *noted, const char *run_id);
/*
 * Captured output. Where capture.h left out its middle, the words that are cut there go with it (what is
 * left of a credential cannot be told from anything else), and the line counts them.
 */
void hidden_output(struct redact *r, const struct buf *raw, struct buf *out);
/* Lines of JSON of a process that parses what a sandbox says; one that is no JSON is left out. */
void hidden_lines(struct redact *r, const char *p, size_t n, struct buf *out);

/* The words of a command line. */
void hidden_words(struct redact *r, struct strlist *words);

/* The texts of an event: predicate, title, and files that are JSON. */
struct hidden_event {
	struct ledger_event event; /* points into the rest */
	struct buf predicate, title, files[LEDGER_FILES_MAX];
};
int hidden_event(
	struct hidden_event *ret, const struct ledger_event *ev, struct redact *r, struct err *e);
void hidden_event_done(struct hidden_event *x);

#endif
