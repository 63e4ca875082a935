/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structured summary of one command: what ran, under what policy, what was really enforced,
 * what was denied, what it changed. Written however the command ends. JSON is the form of record
 * (schema "croft.receipt/v1", docs/ARCHITECTURE.md); the text is for people and escapes everything.
 */
#ifndef CROFT_SESSION_RUN_RECEIPT_H
#define CROFT_SESSION_RUN_RECEIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/digest.h"
#include "session/net/network.h"
#include "session/run/planted.h"
#include "session/run/record.h"
#include "session/run/supervise.h"
#include "engine/engine.h"
#include "ledger/redact/redact.h"
#include "os/cgroup.h"

#define RECEIPT_LABEL_MAX 256
#define RECEIPT_JSON_MAX (24u << 20)
#define RUN_ID_LEN 10

/* How what the command changed is known. */
enum files_by {
	FILES_UNKNOWN,
	FILES_BY_LAYERS,  /* staged or discarded: as the upper layer has it */
	FILES_BY_WATCHER, /* every call that changes a path was seen */
	FILES_BY_TIMES,   /* session/run/changed.h */
	FILES_BY_SESSION, /* of many commands together: the session's events say in which interval */
};

struct receipt {
	char id[RUN_ID_LEN + 1];
	struct timespec started;
	struct policy policy; /* as settled for this run; shares the memory of the one asked for */
	struct strlist command;
	char *cwd, *workspace, *label; /* label: at most RECEIPT_LABEL_MAX bytes */
	char *profile;
	const char *tier;
	bool discard, staged; /* neither: the workspace itself was written */
	bool allow_degraded;
	bool fell_back; /* to a lower tier than tried first; degradations.v[0] says why */
	struct digest policy_digest, enforced_digest;
	struct enforced enforced;
	enum cgroup_kind cgroup_kind;
	unsigned cgroup_has;
	struct policy_limits limits;
	struct strlist degradations;
	uint64_t fixed; /* bit i: degradation i is one of receipt_degrade_fixed() */
	struct strlist limits_hit;
	struct outcome outcome;
	int exit_code; /* as the shell would see it */
	int exit_signal;
	uint64_t wall_us, cpu_us, peak_memory_b;
	enum observe observe;
	enum files_by files_by;
	unsigned files_entries; /* by times: how many were looked at, at most */
	bool settled;           /* staged, and compared with the start: the two below are known */
	size_t differ;          /* of the files that were written: they are not as at the start */
	uint64_t ignored; /* Git ignores them: they stay in the environment, and do not land */
	struct record record;
	struct planted planted; /* what the host will execute of it */
	size_t left_from; /* of a session: the degradations from here on are known since its end */
	struct network network;
	struct redact hidden; /* what its JSON must not say */
	bool hidden_unknown;  /* and could not be found out: then there is no JSON */
	char *json;           /* cached renderings */
	char *text;
};

int receipt_init(struct receipt *r);
void receipt_done(struct receipt *r);
/* What no setting or installation changes here: in the receipt, and of the summary only with -v. */
void receipt_degrade_fixed(struct receipt *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void receipt_degrade(struct receipt *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Compute digests and exit code; call once, when everything else is known. */
void receipt_seal(struct receipt *r, const struct plan *p);
/* Find out what must be hidden; call once, when the command has ended (session/run/hidden.h). */
void receipt_hide(struct receipt *r);
/* Every string has been through redaction: whatever is added to it, a later field included. */
void receipt_json(struct receipt *r, struct buf *out, bool indent);
/* The same for who knows what must be hidden: r->hidden and r->hidden_unknown do not count. */
void receipt_json_hiding(
	const struct receipt *r, struct redact *hidden, struct buf *out, bool indent);
void receipt_text(const struct receipt *r, struct buf *out, bool verbose);

#endif
