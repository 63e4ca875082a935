/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a session: every command of a live environment, however many run at once, in one file,
 * journal/session-ID/log, and from there in batches into the ledger (EVENT_SESSION).
 *
 * Order:   sjournal_open() -> sjournal_started() before a command exists, sjournal_ended() after it has
 *          ended, in any order between commands -> sjournal_poll() in the loop -> sjournal_close().
 * Promise: when sjournal_started() or sjournal_ended() has returned, the record is in the file: one write(),
 *          no flush. No kill -9 loses it. A batch is sealed at most SJOURNAL_SEAL_MS after its first record:
 *          one event, one signature, one flush. A power cut may lose what was not sealed yet; the ledger then
 *          has a session that began and never ended, and verifying says so.
 * Secrets: taken out before a record is written, so the file never holds them. The values are learnt in
 *          sjournal_open(), which is called only after the sandbox's first process was forked; what is
 *          stored later is learnt before the next record is written. What was written before stays.
 * Threads: one thread calls these functions (the session's loop). A batch is made into an event (signature,
 *          objects, flush; also the look at the tree) by a thread that sjournal_seal() starts and that
 *          sjournal_poll() or sjournal_wait() ends. While it runs (sjournal_busy()), v is lent to it:
 *          call no function that changes *v or appends to its ledger; reading the record's members is
 *          fine. sjournal_started() and sjournal_ended() may be called all the time. Before anything
 *          else is recorded in the ledger (snapshot, review, landing): sjournal_flush(). The thread has all
 *          signals blocked and starts no process, unless the ledger is in a repository whose refs are
 *          reftables or whose newest event was packed: then it starts git and waits for that process alone.
 *          While it runs the signing key is in memory and malloc may be locked: fork nothing that does not
 *          execute a program at once, least of all a sandbox's process; sjournal_wait() first.
 * Crash:   env_open() for writing finds the file, records as interrupted what had started and not ended,
 *          seals everything and ends the session in the ledger (sjournal_recover()). What was being sealed
 *          is made again with the same bytes: time and tree were written down first.
 */
#ifndef CROFT_ENV_SESSION_JOURNAL_H
#define CROFT_ENV_SESSION_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "env/env.h"
#include "session/run/receipt.h"
#include "session/stdio/capture_mem.h"

#define SJOURNAL_SEAL_MS 200u                /* a record waits no longer for its event */
#define SJOURNAL_RETRY_MS 1000u              /* after the ledger did not take a batch */
#define SJOURNAL_BATCH_MAX 1024u             /* records of one event */
#define SJOURNAL_ENTRIES_MAX_B (3u << 20)    /* of one event's entries; they are in its statement */
#define SJOURNAL_FILE_MAX_B (24u << 20)      /* of one event's receipts, and of its outputs */
#define SJOURNAL_UNSEALED_MAX_B (256u << 20) /* beyond it no command may start */
#define SJOURNAL_LOG_MAX_B (512u << 20)
#define SJOURNAL_RUNNING_MAX 65536u
#define SJOURNAL_ID_MAX 20

/* What all commands of a session have in common; strings are copied into its first record. */
struct sjournal_session {
	const char *id; /* lower-case hexadecimal digits, at most SJOURNAL_ID_MAX */
	const char *tier, *policy_digest, *enforced_digest, *label; /* NULL: left out */
	const struct strlist *degradations;                         /* or NULL */
	const struct policy *policy; /* whose values are hidden; NULL: stored secrets' only */
	/* A session of one command: its beginning is sealed together with its first records. */
	bool brief;
};

struct sjournal_start {
	uint32_t process; /* the session's number for it; never used twice */
	const char *run_id;
	struct timespec time;
	const struct strlist *argv;
	const char *cwd, *label;   /* label: or NULL */
	const char *policy_digest; /* NULL: the session's */
	bool as_test, tty;
	const struct redact *hidden; /* values that came with it, hidden from now on; or NULL */
};

/* Where a record will be: entry `entry` of event `event` of the ledger, in batch `batch` of the session. */
struct sjournal_ref {
	uint64_t event; /* as long as everybody else who appends calls sjournal_flush() first */
	uint32_t batch, entry; /* both counted from 1 */
};

struct sjournal;

int sjournal_open(
	struct sjournal **ret, struct env *v, const struct sjournal_session *s, struct err *e);
/* The command will exist: call it before the command does. -ENOSPC: too much waits to be sealed. */
int sjournal_started(struct sjournal *j, const struct sjournal_start *s, struct sjournal_ref *ret,
	struct err *e);
/*
 * The command has ended. r: receipt_seal()ed, with its own record and outcome, and whatever of the network
 * is to be told; it needs no receipt_hide(). out: stdout and stderr (a terminal's output is in the first);
 * NULL: not captured.
 */
int sjournal_ended(struct sjournal *j, uint32_t process, struct receipt *r,
	const struct capture_mem out[CAPTURE_STREAMS], struct sjournal_ref *ret, struct err *e);
/* It never came to exist. */
int sjournal_dropped(struct sjournal *j, uint32_t process, const char *why, struct err *e);

/* For poll(): when sjournal_poll() has something to do, in CLOCK_MONOTONIC ms (UINT64_MAX: nothing) … */
uint64_t sjournal_due_ms(const struct sjournal *j);
/* … and a descriptor that is readable when the thread is done. */
int sjournal_fd(const struct sjournal *j);
bool sjournal_busy(const struct sjournal *j);
/* Does what is due: ends the thread that is done, begins sealing. quiescent: no command exists now. */
int sjournal_poll(struct sjournal *j, bool quiescent, struct err *e);
/* The newest event that is sealed, and the tree it has (none: it has none). */
uint64_t sjournal_recorded(const struct sjournal *j, struct oid *ret_tree);
/* Begin to seal what waits, due or not; nothing when the thread runs already. */
int sjournal_seal(struct sjournal *j, bool quiescent, struct err *e);
/* Wait for the thread. 0: nothing runs; what it could not do is the error, and is tried again. */
int sjournal_wait(struct sjournal *j, struct err *e);
/* Seal everything and wait: afterwards the environment is the caller's until the next record. */
int sjournal_flush(struct sjournal *j, bool quiescent, struct err *e);
/*
 * For the session's end, once nothing of its sandbox is left: what it left in trees that were written in
 * place, and what was weaker than its beginning says.
 */
int sjournal_left(struct sjournal *j, const struct receipt *r, struct err *e);
/* Seal the rest and the session's end; on success the journal is gone. Frees j whatever happens. */
int sjournal_close(struct sjournal *j, struct err *e);
/* The sandbox ended by itself: what is left of its record is written, and the next one says so. Frees j. */
void sjournal_leave(struct sjournal *j);
/* Free it as a crash would leave it; the journal stays. */
void sjournal_abandon(struct sjournal *j);

/* Finish what a crash left of sessions and tell v->notes. Called by env_open() with the write lock. */
int sjournal_recover(struct env *v, struct err *e);

#endif
