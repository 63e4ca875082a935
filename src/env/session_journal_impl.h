/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that implement a session's journal share: see session_journal.h. */
#ifndef CROFT_ENV_SESSION_JOURNAL_IMPL_H
#define CROFT_ENV_SESSION_JOURNAL_IMPL_H

#include <pthread.h>

#include "env/session_frame.h"
#include "env/session_journal.h"
#include "ledger/redact/redact.h"
#include "session/run/hidden.h"

#define SESSION_DIR_PREFIX                                                                         \
	"session-" /* not hexadecimal: a croft without sessions leaves it alone */
#define SESSION_LOG "log"
#define SESSION_BOOT_MAX 40
#define SESSION_RANGES_MAX 4096u
#define SESSION_TEXT_MAX_B (32u << 20)
#define SESSION_NETWORK_MAX_B (4u << 20)

/* Numbers of processes. */
struct sranges {
	struct srange {
		uint32_t first, last;
	} * v;
	size_t n, cap;
	bool coarse; /* there were too many: the last range holds more than was added */
};
bool sranges_add(struct sranges *r, uint32_t process);
bool sranges_join(struct sranges *to, const struct sranges *from);
void sranges_done(struct sranges *r);
void sranges_json(const struct sranges *r, struct json *j, const char *key);

/* Records that will be one event. */
struct sbatch {
	struct sbatch *next;
	uint32_t no, entries_n, receipts_n, started_n, ended_n;
	struct buf entries;  /* objects with commas between them */
	struct buf receipts; /* one line each */
	struct buf outputs;  /* one after the other; entries say where */
	struct buf network;
	struct buf seal; /* what SFRAME_SEAL says; empty: it is not written yet */
	uint64_t first_ms;
	bool begin, end, interrupted;
	bool tried; /* it may be in the ledger though that failed */
};

/* A process that has started and not ended. */
struct sprocess {
	uint32_t id;
	char run[32];
	bool test;
};

/* What the thread works on. The thread alone touches it while it runs. */
struct sjob {
	struct sbatch *batch;
	bool settle; /* look at the tree */
	bool quiet;  /* which counts only if no process started meanwhile */
	uint64_t starts;
	struct sranges alive, running;
	struct timespec from;
	bool settled; /* the tree is in the event */
	struct oid tree; /* then */
	struct timespec when;
	bool in_place; /* there was no thread */
	int r;
	struct err err;
};

struct sjournal {
	struct env *env;
	char id[SJOURNAL_ID_MAX + 1], dir[sizeof(SESSION_DIR_PREFIX) + SJOURNAL_ID_MAX];
	char boot[SESSION_BOOT_MAX]; /* of this machine, when the file was begun; "": not known */
	char *begin; /* JSON: what the first event says of the session */
	char *left;  /* JSON: what the last says of what stayed on the host; NULL: nothing */
	struct timespec started;
	int dir_fd, event_fd;
	struct redact hidden;
	struct secret_stamp stored; /* when the stored ones among them were read */
	/* Of the file; under the lock, since the thread appends, too. */
	pthread_mutex_t lock;
	int log_fd;
	uint64_t log_b, log_first_b;
	uint64_t starts;
	bool broken; /* half a record is at its end */
	/* The loop's. */
	struct sbatch *first, *last;
	uint32_t batch_next;
	uint64_t tip_seq; /* of the ledger, when the first batch will be appended */
	struct oid tree;  /* that the newest event has; none: it has none */
	uint64_t retry_ms;
	struct sprocess *running;
	size_t running_n, running_cap;
	struct sranges alive;    /* at any time since the tree was last recorded */
	struct timespec settled; /* when that was */
	bool busy;
	pthread_t thread;
	struct sjob job;
};

/* The last batch if it takes so much more, or a new one after it; NULL: no memory. */
struct sbatch *sbatch_room(struct sjournal *j, size_t entry_b, size_t receipt_b, size_t output_b);
void sbatch_free(struct sbatch *b);
uint64_t sbatch_waiting_b(const struct sjournal *j);
/* Where the entry is that was added to b last. */
struct sjournal_ref sbatch_ref(const struct sjournal *j, const struct sbatch *b);
/* One write. In the thread, or with the lock held: the second. */
int sjournal_append(struct sjournal *j, const struct sframe *f, struct err *e);
int sjournal_append_locked(struct sjournal *j, const struct sframe *f, struct err *e);
/* An entry of a process that will not end otherwise: "interrupted", "dropped". */
int sjournal_entry(
	struct sjournal *j, uint32_t process, const char *kind, const char *why, struct err *e);
/* Before a record is written: what was stored since the one before. */
int sjournal_learn(struct sjournal *j, struct err *e);
/* What the file says of the session, before its records: SFRAME_SESSION. */
int sjournal_head(struct sjournal *j, int log_fd, uint64_t *ret_b, struct err *e);

/* Which start of the machine this is; "": not known. */
void sjournal_boot(char ret[SESSION_BOOT_MAX]);

struct sjournal *sjournal_new(struct env *v, const char *id);
void sjournal_free(struct sjournal *j);

/* ---- sealing (session_seal.c) ---- */

/* Begin to seal the first batch: in a thread, or (inline) now. The caller has looked that nothing runs. */
int sseal_begin(struct sjournal *j, bool settle, bool quiet, bool in_place, struct err *e);
/* The thread is done, or is waited for. */
int sseal_finish(struct sjournal *j, struct err *e);
/* The last batch of this session that the ledger has; 0: none. */
int sseal_find(struct env *v, const char *id, uint32_t *ret_batch, bool *ret_ended, struct err *e);

/* ---- recovery (session_recover.c) ---- */

/* Take what a file says into a fresh j. 0: all of it; 1: up to log_b; -EBADMSG: not even its beginning. */
int sjournal_read(struct sjournal *j, const void *p, size_t n, uint32_t *ret_sealed);

#endif
