/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets out of captured text before it is written anywhere: values the caller knows (stored secrets,
 * variables that were passed), and forms that are known to be credentials (key blocks, tokens with
 * a vendor's prefix, passwords in URLs, Authorization headers). What went is replaced by
 * [redacted:RULE] and counted by rule; a secret cut by the capture's limits is still found as far as
 * its kept part is recognisable.
 */
#ifndef CROFT_LEDGER_REDACT_REDACT_H
#define CROFT_LEDGER_REDACT_REDACT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define REDACT_VALUES_MAX 2048 /* all that can be stored, and variables */
#define REDACT_RULES_MAX 64

struct redact_table;

struct redact {
	struct strlist values; /* at least 8 bytes each; names[i] says whose */
	struct strlist names;
	uint64_t fired[REDACT_RULES_MAX];
	struct redact_table *table; /* of the values, made when text is first looked at */
};

/* Which ends of a text may be missing. */
enum redact_cut { REDACT_WHOLE = 0, REDACT_CUT_BEFORE = 1, REDACT_CUT_BEHIND = 2 };

void redact_init(struct redact *r);
void redact_done(struct redact *r); /* wipes the values */
/* value: in either case, '+' for blanks; also found as hex, base64-, percent- and JSON-escaped. */
int redact_add(struct redact *r, const char *name, const char *value, struct err *e);
/* Append p to out with everything secret replaced; both ends may be missing. */
void redact_text(struct redact *r, const void *p, size_t n, struct buf *out);
void redact_part(struct redact *r, const void *p, size_t n, unsigned cut, struct buf *out);
/*
 * A name, path or sentence by itself. It is whole unless it is as long as a maximum, so the beginning of
 * a value at its end counts only then, or when it is most of the value.
 */
void redact_field(struct redact *r, const void *p, size_t n, struct buf *out);
/*
 * JSON, also members without their braces, or lines: every string that is a value goes through
 * redact_field(); numbers, keys and layout stay. -EBADMSG: not JSON (out is to be thrown away); -ENOMEM.
 */
int redact_json(struct redact *r, const char *p, size_t n, struct buf *out);
/* "aws-access-key" …; NULL beyond the last. fired[i] counts rule i; rule 0 is "value". */
const char *redact_rule(size_t i);

#endif
