/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets out of text: see redact.h. redact_values.c and redact_forms.c find, this replaces.
 *
 * Failure: closed. Without memory to look, nothing of the text is given out and the buffer fails.
 */
#include "ledger/redact/redact.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ledger/redact/redact_impl.h"

#define VALUE_MIN 8u
#define VALUE_MAX 65536u

static const char *const rules[REDACT_KIND_NUM] = {
	[REDACT_VALUE] = "value",
	[REDACT_PRIVATE_KEY] = "private-key",
	[REDACT_AWS] = "aws-access-key",
	[REDACT_GITHUB] = "github-token",
	[REDACT_GITLAB] = "gitlab-token",
	[REDACT_SLACK] = "slack-token",
	[REDACT_API_KEY] = "api-key",
	[REDACT_GOOGLE] = "google-api-key",
	[REDACT_NPM] = "npm-token",
	[REDACT_PYPI] = "pypi-token",
	[REDACT_STRIPE] = "stripe-key",
	[REDACT_JWT] = "jwt",
	[REDACT_AUTHORIZATION] = "authorization",
	[REDACT_URL_PASSWORD] = "url-password",
	[REDACT_ASSIGNMENT] = "assignment",
};
static_assert(
	REDACT_KIND_NUM == 15 && REDACT_KIND_NUM <= REDACT_RULES_MAX, "a rule without a name");

void redact_init(struct redact *r)
{
	*r = (struct redact){.values = STRLIST_INIT(REDACT_VALUES_MAX),
		.names = STRLIST_INIT(REDACT_VALUES_MAX)};
}

void redact_done(struct redact *r)
{
	for (size_t i = 0; i < r->values.n; i++)
		explicit_bzero(r->values.v[i], strlen(r->values.v[i]));
	strlist_done(&r->values);
	strlist_done(&r->names);
	redact_table_free(r->table);
	redact_init(r);
}

int redact_add(struct redact *r, const char *name, const char *value, struct err *e)
{
	size_t n = strlen(value);

	if (n < VALUE_MIN || n > VALUE_MAX)
		return err_invalid(e,
			"the value of %.80s cannot be found in text: it has %zu bytes, not %u to "
			"%u",
			name, n, VALUE_MIN, VALUE_MAX);
	if (strlist_has(&r->values, value))
		return 0;
	if (!strlist_add(&r->names, name) || !strlist_add(&r->values, value))
		return err_set(e, r->values.n >= REDACT_VALUES_MAX ? E2BIG : ENOMEM,
			"keep the value of %.80s out of what is recorded", name);
	redact_table_free(r->table);
	r->table = NULL;
	return 0;
}

const char *redact_rule(size_t i)
{
	return i < REDACT_KIND_NUM ? rules[i] : NULL;
}

void redact_spans_add(struct redact_spans *s, size_t start, size_t end, enum redact_kind kind)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct redact_span *v = reallocarray(s->v, cap, sizeof(*v));

		if (!v) {
			s->failed = true;
			return;
		}
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct redact_span){start, end, kind};
}

/* By place; what is a value is called so rather than by its form. */
static int by_start(const void *a, const void *b)
{
	const struct redact_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->kind > y->kind) - (x->kind < y->kind);
}

static void redact(
	struct redact *r, const char *text, size_t n, struct redact_ends ends, struct buf *out)
{
	struct redact_spans s = {0};
	size_t at = 0;

	redact_values(r, text, n, ends, &s);
	redact_forms(text, n, &s);
	if (s.failed) {
		out->failed = true;
		free(s.v);
		return;
	}
	if (s.n > 1)
		qsort(s.v, s.n, sizeof(*s.v), by_start);
	for (size_t i = 0; i < s.n;) {
		size_t end = s.v[i].end;

		buf_add(out, text + at, s.v[i].start - at);
		buf_addf(out, "[redacted:%s]", rules[s.v[i].kind]);
		r->fired[s.v[i].kind]++;
		/* Everything that overlaps goes with it. */
		for (i++; i < s.n && s.v[i].start < end; i++)
			end = MAX_OF(end, s.v[i].end);
		at = end;
	}
	buf_add(out, text + at, n - at);
	free(s.v);
}

void redact_part(struct redact *r, const void *p, size_t n, unsigned cut, struct buf *out)
{
	redact(r, p, n, (struct redact_ends){.cut = cut}, out);
}

void redact_text(struct redact *r, const void *p, size_t n, struct buf *out)
{
	redact_part(r, p, n, REDACT_CUT_BEFORE | REDACT_CUT_BEHIND, out);
}

void redact_field(struct redact *r, const void *p, size_t n, struct buf *out)
{
	redact(r, p, n, (struct redact_ends){.cut = REDACT_CUT_BEHIND, .field = true}, out);
}
