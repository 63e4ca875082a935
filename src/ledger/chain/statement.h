/* SPDX-License-Identifier: Apache-2.0 */
/* From an event to bytes: statement, tree and commit. Whoever verifies makes the same bytes again. */
#ifndef CROFT_LEDGER_CHAIN_STATEMENT_H
#define CROFT_LEDGER_CHAIN_STATEMENT_H

#include "ledger/chain/ledger.h"

#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define LEDGER_SCHEMA_PREFIX "croft.ledger/"
#define LEDGER_TIME_LEN 27 /* "2026-01-02T03:04:05.123456Z" */
#define LEDGER_TITLE_MAX 120
#define LEDGER_ID_LEN 16
#define LEDGER_NAME_MAX 79
#define LEDGER_COMMIT_MAX_B 4096u
#define LEDGER_TREE_MAX_B 16384u

struct ledger_time {
	char s[LEDGER_TIME_LEN + 1];
};

/* false: before 1970 or after 9999. */
bool ledger_time_text(const struct timespec *t, struct ledger_time *ret);
/* Exactly that form, a day that exists. */
bool ledger_time_parse(const char *s, struct timespec *ret);
bool ledger_id_valid(const char *id);
/* [a-z0-9._-]+, not beginning with a dot, not the statement's. */
bool ledger_file_name_valid(const char *name);

/* One printable line of at most LEDGER_TITLE_MAX bytes; never empty. */
struct ledger_title {
	char s[LEDGER_TITLE_MAX + 1];
};
void ledger_title(const char *text, enum event_kind kind, struct ledger_title *ret);

struct statement_place {
	uint64_t seq;
	int schema;
	const char *previous; /* NULL: the first */
	const char *time;
	const char *clock; /* NULL: the clock agreed */
	const char *title;
	const uint8_t *key; /* of the first event, else NULL */
};
/* The schema of an event of this kind after one of that schema (0: the first). */
int statement_schema(enum event_kind kind, int after);
/* Appended to out. */
int statement_write(const struct ledger_event *ev, const struct statement_place *at,
	struct buf *out, struct err *e);

/* Names with blobs, sorted here, as a raw tree. */
struct ledger_blob {
	const char *name;
	struct oid oid;
};
void ledger_tree_text(struct ledger_blob *v, size_t n, struct buf *out);
void ledger_commit_text(const struct oid *tree, const struct oid *parent, int64_t seconds,
	const char *title, struct buf *out);

#endif
