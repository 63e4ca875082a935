/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The evidence of one environment: refs/croft/env/ID, one commit per event, one writer.
 *
 * Event:  a commit whose tree holds `statement.dsse.json` and the files it speaks of (receipt.json, output,
 *         policy.yaml, network.jsonl …). The envelope (DSSE, ed25519) signs an in-toto Statement v1;
 *         subjects name the workspace's tree and every file with its SHA-256; the predicate is a
 *         standard one where there is one, and always has a member `croft`:
 *         {schema, env, name, seq, kind, time, previous, version}, `previous` being the SHA-256 of the
 *         envelope before (null: the first), and further `title`, `files` (names), `run`, `clock` (what the
 *         clock said when it had run backwards) and, in the first event, `key` (base64).
 *         So the chain holds by signatures and SHA-256 alone, whatever Git's hash; and tree and commit
 *         follow from the statement, so that there is one commit for one event.
 * Order:  objects first (fsync), then the ref by compare-and-swap. A crash in between leaves nothing
 *         but unreachable objects. Commit times are the event's time, so that writing an event again
 *         after a crash gives the same commit.
 * Reading trusts nothing: anybody may have made the history that is read.
 */
#ifndef CROFT_LEDGER_CHAIN_LEDGER_H
#define CROFT_LEDGER_CHAIN_LEDGER_H

#include <stdint.h>
#include <time.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/jsonread.h"
#include "git/read.h"
#include "git/repo.h"
#include "ledger/chain/key.h"

/* 2: sessions may be in it. An event of a kind that is older has it too when it follows one that has. */
#define LEDGER_SCHEMA "croft.ledger/v1"
#define LEDGER_SCHEMA_2 "croft.ledger/v2"
#define LEDGER_REF_PREFIX "refs/croft/env/"
#define LEDGER_FILES_MAX 16
#define LEDGER_SUBJECTS_MAX 32
#define LEDGER_FILE_MAX_B (32u << 20)
#define LEDGER_STATEMENT "statement.dsse.json"

/* Predicate types. */
#define PREDICATE_PROVENANCE "https://slsa.dev/provenance/v1"
#define PREDICATE_TRACE "https://in-toto.io/attestation/runtime-trace/v0.1"
#define PREDICATE_TEST "https://in-toto.io/attestation/test-result/v0.1"
#define PREDICATE_VSA "https://slsa.dev/verification_summary/v1"
#define PREDICATE_EVENT "urn:croft:event:v1"
#define PREDICATE_SESSION "urn:croft:session:v1"

enum event_kind {
	EVENT_CREATED,     /* first of every ledger: base, policy, key */
	EVENT_EXEC,        /* a command ended; runtime trace, or test result with --as test */
	EVENT_INTERRUPTED, /* a command whose supervisor died; what was journalled */
	EVENT_SNAPSHOT,
	EVENT_RESTORED,
	EVENT_FORKED,   /* in the new environment: where it comes from */
	EVENT_REVIEWED, /* the reviewer's decision (VSA) */
	EVENT_APPLIED,  /* SLSA provenance of what landed */
	EVENT_REVERTED,
	EVENT_DISCARDED,
	EVENT_RECOVERED, /* an interrupted landing was completed or taken back */
	EVENT_SESSION,   /* what a session's commands did since its last one: entries (v2) */
	EVENT_NUM
};
extern const char *const event_names[EVENT_NUM];

struct ledger_subject {
	const char *name;
	const char *algorithm; /* "gitTree", "gitCommit", "sha256" */
	const char *value;     /* hex */
};

struct ledger_file {
	const char *name; /* [a-z0-9._-]+ */
	const void *p;
	size_t n;
};

struct ledger_event {
	enum event_kind kind;
	const char *env_id, *env_name;
	struct timespec time;
	const char *predicate_type;
	const char *
		predicate; /* a JSON object's members without braces ("" for none): `croft` is added */
	struct ledger_subject subjects[LEDGER_SUBJECTS_MAX]; /* none: the event before is it */
	size_t subjects_n;
	struct ledger_file files[LEDGER_FILES_MAX]; /* each becomes a subject, too */
	size_t files_n;
	const char *title;   /* first line of the commit message; made printable and short here */
	const char *run_id;  /* NULL: none. See ledger_tip */
	const char *session; /* that is alive and has recorded everything so far; NULL: none */
	const char *version; /* of croft */
};

struct ledger_tip {
	struct oid commit;      /* none: no event yet */
	struct digest envelope; /* of that event */
	uint64_t seq;           /* of that event; the first is 1 */
	char run_id[32];        /* of that event, "" when it has none: recovery asks */
	struct timespec time;   /* of that event: the next is not before it. Zero: not known */
	struct digest key_id;   /* that signed it: another key is refused. "": not known */
	int schema;             /* of that event: 1, 2. 0: no event yet */
};

/* The newest event, from the ref and the objects it names; nothing older is read. */
int ledger_tip(struct ledger_tip *ret, const struct repo *r, const char *env_id, struct err *e);
/*
 * Append after `tip` (as ledger_tip or the last append gave it; it is updated). -EAGAIN when somebody
 * else appended meanwhile. Refuses a ledger written by a newer schema.
 */
int ledger_append(const struct repo *r, const struct ledger_key *k, const struct ledger_event *ev,
	struct ledger_tip *tip, struct err *e);

/* ---- reading ---- */

struct ledger_entry {
	struct oid commit, tree;
	struct digest envelope;
	uint64_t seq;
	int schema;           /* 1, 2 */
	enum event_kind kind; /* EVENT_NUM: a kind this version does not know */
	const char *kind_text, *time, *env_id, *env_name, *predicate_type, *key_id;
	const char *previous; /* NULL: the first */
	const struct jnode *statement, *predicate;
	struct jdoc *doc; /* owns the strings above … */
	char *own;        /* … but for key_id */
};
void ledger_entry_done(struct ledger_entry *x);
/* Commits from the first to `tip`, by walking first parents; caller frees. At most 1,000,000. */
int ledger_commits(const struct repo *r, const struct oid *tip, struct oid **ret, size_t *ret_n,
	struct err *e);
/* Parse one event (no judgement about its truth beyond its form). */
int ledger_read(struct git_reader *g, enum git_hash h, const struct oid *commit,
	struct ledger_entry *ret, struct err *e);
/* One of its files, by name, appended to ret. -ENOENT. */
int ledger_read_file(struct git_reader *g, enum git_hash h, const struct ledger_entry *x,
	const char *name, struct buf *ret, struct err *e);

/* ---- verifying ---- */

struct ledger_verdict {
	uint64_t events; /* that are good, from the first on */
	bool good;
	uint64_t bad_seq; /* first bad one, counted from 1 */
	struct oid bad_commit;
	char why[512];        /* one sentence */
	struct digest key_id; /* the key of the first event */
	uint8_t key[KEY_PUBLIC_LEN];
	struct digest tip; /* envelope of the last good event */
	char env_id[32], env_name[80];
	/*
	 * A session that began and whose end is not there: it runs, or it was cut off and its last records
	 * are missing. "": none. The first such one, and the event where it began.
	 */
	char open_session[24];
	uint64_t open_seq;
};
/*
 * Check everything from the first event on: form, signature, chain, sequence, times that do not run
 * backwards, every file against its subject and no file without one, one environment, one key. key
 * (or NULL) is the one that is expected. Works on a clone, offline. Returns 0 whatever the verdict; -errno
 * only when there was nothing to look at.
 */
int ledger_verify(const struct repo *r, const struct oid *tip, const uint8_t *key,
	struct ledger_verdict *ret, struct err *e);
/*
 * "session X, which began in event N, has no end …", or nothing when every session ended. Good evidence with
 * such a session is not all of it.
 */
void ledger_say_open(const struct ledger_verdict *v, struct buf *out);
/* What signatures do not prove, for people; several lines. */
extern const char ledger_limits[];

#endif
