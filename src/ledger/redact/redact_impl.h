/* SPDX-License-Identifier: Apache-2.0 */
/* What redact.c puts together: spans of text that go, from values (known) and from forms (known kinds). */
#ifndef CROFT_LEDGER_REDACT_REDACT_IMPL_H
#define CROFT_LEDGER_REDACT_REDACT_IMPL_H

#include "ledger/redact/redact.h"

enum redact_kind {
	REDACT_VALUE,
	REDACT_PRIVATE_KEY,
	REDACT_AWS,
	REDACT_GITHUB,
	REDACT_GITLAB,
	REDACT_SLACK,
	REDACT_API_KEY,
	REDACT_GOOGLE,
	REDACT_NPM,
	REDACT_PYPI,
	REDACT_STRIPE,
	REDACT_JWT,
	REDACT_AUTHORIZATION,
	REDACT_URL_PASSWORD,
	REDACT_ASSIGNMENT,
	REDACT_KIND_NUM
};

struct redact_span {
	size_t start, end;
	enum redact_kind kind;
};

struct redact_spans {
	struct redact_span *v;
	size_t n, cap;
	bool failed; /* out of memory: nothing may be shown */
};

void redact_spans_add(struct redact_spans *s, size_t start, size_t end, enum redact_kind kind);

struct redact_ends {
	unsigned cut; /* enum redact_cut */
	bool field;   /* and cut only by a maximum */
};

/* Every place of a value, in any order. */
void redact_values(struct redact *r, const char *p, size_t n, struct redact_ends ends,
	struct redact_spans *ret);
void redact_table_free(struct redact_table *t); /* wipes */
/* One escape or byte of a JSON string: how many bytes it takes, and at most three that it gives. */
size_t redact_undo_json(const char *p, size_t n, char to[4], size_t *ret_n);
/* Every place of a known form, in order, not overlapping. */
void redact_forms(const char *p, size_t n, struct redact_spans *ret);

#endif
