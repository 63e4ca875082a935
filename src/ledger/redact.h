/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets out of captured text before it is written anywhere: values the caller knows (stored secrets,
 * variables that were passed), and forms that are known to be credentials (key blocks, tokens with
 * a vendor's prefix, passwords in URLs, Authorization headers). What went is replaced by
 * [redacted:RULE] and counted by rule; a secret cut by the capture's limits is still found as far as
 * its kept part is recognisable.
 */
#ifndef CROFT_LEDGER_REDACT_H
#define CROFT_LEDGER_REDACT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define REDACT_VALUES_MAX 256
#define REDACT_RULES_MAX 64

struct redact {
	struct strlist values; /* exact strings, at least 8 bytes; names[i] says whose */
	struct strlist names;
	uint64_t fired[REDACT_RULES_MAX];
};

void redact_init(struct redact *r);
void redact_done(struct redact *r); /* wipes the values */
/* value: also found base64-, percent- and JSON-escaped. */
int redact_add(struct redact *r, const char *name, const char *value, struct err *e);
/* Append p to out with everything secret replaced. */
void redact_text(struct redact *r, const void *p, size_t n, struct buf *out);
/* "aws-access-key" …; NULL beyond the last. fired[i] counts rule i; rule 0 is "value". */
const char *redact_rule(size_t i);

#endif
