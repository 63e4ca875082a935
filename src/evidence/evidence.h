/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence as people ask for it: found by what they call it, judged, shown, sent and fetched.
 *
 * Finding: an environment of this machine's by name; otherwise in the repository around the current
 *          directory, which may be a clone that never had one: by id, by ref, by the name that the entries
 *          say, or by a commit whose trailers (Croft-Env, Croft-Evidence) name it.
 * Trust:   a ledger is anybody's until it is verified, and what it says is shown through str_show().
 *          A trailer proves nothing: it says where to look.
 * Sending: as the user, whole refs by their exact names, never forced.
 */
#ifndef CROFT_EVIDENCE_EVIDENCE_H
#define CROFT_EVIDENCE_EVIDENCE_H

#include "base/buf.h"
#include "base/err.h"
#include "git/repo.h"
#include "ledger/chain/ledger.h"

#define EVIDENCE_LEDGERS_MAX 100000u

struct evidence_ledger {
	char id[17];
	struct oid tip;
	char claimed[DIGEST_HEX_LEN + 1]; /* Croft-Evidence of the commit, or "" */
};

struct evidence {
	char *state_dir;
	struct repo repo;
	struct evidence_ledger *ledgers;
	size_t ledgers_n, ledgers_cap;
	struct oid commit, commit_tree; /* when found by a commit */
};

void evidence_done(struct evidence *v);
#define cleanup_evidence __attribute__((cleanup(evidence_done)))
/* The repository around the current directory, no ledger chosen. */
int evidence_here(struct evidence *ret, struct err *e);
/* One ledger, by name, id or ref. -ENOENT with a sentence. */
int evidence_find(struct evidence *ret, const char *what, struct err *e);
/* That, or those a commit names. NULL: all that are here. */
int evidence_find_any(struct evidence *ret, const char *what, struct err *e);
/* Every ledger of the repository that is open, added. */
int evidence_add_all(struct evidence *v, struct err *e);

/* 0: all good, 1: not. key_file: PEM, or NULL. */
int evidence_verify(
	struct evidence *v, const char *key_file, bool as_json, struct buf *out, struct err *e);
/* event 0: all of them. */
int evidence_show(struct evidence *v, uint64_t event, bool as_json, struct buf *out, struct err *e);
/* One entry of an event of a session, both counted from 1. */
int evidence_show_entry(struct evidence *v, uint64_t event, uint64_t entry, bool as_json,
	struct buf *out, struct err *e);
/* One line an event, and one an entry of a session's; n 0: all, else the last n. */
int evidence_log(struct evidence *v, size_t n, bool as_json, struct buf *out, struct err *e);
/* The public key of this user on this machine. */
int evidence_key(bool as_json, struct buf *out, struct err *e);

/* Names as evidence_find() takes them; all: every ledger of the repository here, or of the remote. */
int evidence_push(
	const char *remote, const char *const *names, bool all, struct buf *out, struct err *e);
int evidence_fetch(
	const char *remote, const char *const *names, bool all, struct buf *out, struct err *e);

#endif
