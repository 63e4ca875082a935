/* SPDX-License-Identifier: Apache-2.0 */
/* What redact.c puts together: spans of text that go, from values (known) and from forms (known kinds). */
#ifndef CROFT_LEDGER_REDACT_IMPL_H
#define CROFT_LEDGER_REDACT_IMPL_H

#include "ledger/redact.h"

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

/* Every place of a value, in any order. */
void redact_values(const struct strlist *values, const char *p, size_t n, struct redact_spans *ret);
/* Every place of a known form, in order, not overlapping. */
void redact_forms(const char *p, size_t n, struct redact_spans *ret);

#endif
