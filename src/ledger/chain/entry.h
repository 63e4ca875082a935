/* SPDX-License-Identifier: Apache-2.0 */
/* One event as it is stored, with the bytes it came from: what verifying needs beyond ledger.h. */
#ifndef CROFT_LEDGER_CHAIN_ENTRY_H
#define CROFT_LEDGER_CHAIN_ENTRY_H

#include "ledger/chain/dsse.h"
#include "ledger/chain/ledger.h"
#include "ledger/chain/statement.h"

#define LEDGER_EVENTS_MAX 1000000u

/*
 * Where objects come from: loose ones of our own making natively when objects_fd is there, all others
 * from git, which is started when the first one is asked for and git_dir is not NULL.
 */
struct entry_source {
	enum git_hash hash;
	int objects_fd;
	const char *git_dir;
	struct git_reader *git; /* borrowed when git_dir is NULL */
};
int entry_source_open(struct entry_source *ret, const struct repo *r, struct err *e);
void entry_source_done(struct entry_source *s);
#define cleanup_entry_source __attribute__((cleanup(entry_source_done)))
/* Appended to ret. -ENOENT when there is no such object. */
int entry_object(struct entry_source *s, const struct oid *o, enum git_type want, struct buf *ret,
	struct err *e);

struct entry_raw {
	struct buf commit, tree, envelope;
	struct oid statement; /* blob of the envelope */
	int parents_n;
	struct oid parent; /* first */
	struct dsse dsse;
};
void entry_raw_done(struct entry_raw *x);
#define cleanup_entry_raw __attribute__((cleanup(entry_raw_done)))
#define cleanup_entry __attribute__((cleanup(ledger_entry_done)))

int entry_load(struct entry_source *s, const struct oid *commit, struct entry_raw *ret_raw,
	struct ledger_entry *ret, struct err *e);
/* The `croft` member. */
const struct jnode *entry_croft(const struct ledger_entry *x);

/* Is this failure about the object that was asked for, rather than about asking? */
bool entry_flaw(int r);
/*
 * Commits by first parents, the first event first. When one cannot be read, what came after it is
 * returned all the same (the caller frees it), with its name in *ret_at and what is wrong in e.
 */
int entry_walk(struct entry_source *s, const struct oid *tip, struct oid **ret, size_t *ret_n,
	struct oid *ret_at, struct err *e);

#endif
