/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values leave no trace in what comes back.
 *
 * Purpose: a server may echo what it was sent. The keeper gives every answer through here before
 *          the gateway, and so the sandbox, can see it.
 * Order:   what came and was not given out yet is in `raw`, and as it may be seen in `shown`. Each
 *          turn looks for values in raw, then with one layer of escapes undone after the other,
 *          covers what it found in shown, and gives out all but what may be the beginning of a
 *          value.
 * Limits:  at most `hold` bytes wait: a value in the widest encoding that one layer of escapes
 *          makes of it, twice. Everything is allocated at the start, so that nothing can fail
 *          half-way.
 */
#include "net/placeholder.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/escape.h"
#include "net/needles.h"

#define REDACT_BLOCK 4096u
#define REDACT_LEVELS PLACEHOLDER_LEVELS
#define REDACT_WIDEST (2 * ESCAPE_LEN_MAX) /* bytes that may stand for one */

struct redact_level {
	uint8_t *text;
	struct escape_span *spans;
	size_t touched; /* for wiping */
};

struct redact {
	struct needles *needles;
	size_t hold, cap;
	/*
	 * Some value has '%' or a backslash in it. Undoing both kinds of escapes at once would then
	 * undo what is part of the value and not of its encoding, so each kind is tried by itself.
	 */
	bool escapes_within;
	uint8_t *raw, *shown;
	size_t n;
	struct redact_level level[REDACT_LEVELS];
	size_t replaced;
};

struct redact *redact_new(const char *const *values, const size_t *lens, size_t n)
{
	struct redact *r;
	size_t longest = 0;
	bool escapes = false;

	if (n > PLACEHOLDERS_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (lens[i] < PLACEHOLDER_MIN || lens[i] > PLACEHOLDER_MAX)
			return NULL;
		longest = MAX_OF(longest, lens[i]);
		escapes |= memchr(values[i], '%', lens[i]) || memchr(values[i], '\\', lens[i]);
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->escapes_within = escapes;
	r->hold = longest * REDACT_WIDEST;
	r->cap = r->hold + REDACT_BLOCK;
	r->needles = needles_new(values, lens, n, SIZE_MAX);
	r->raw = malloc(r->cap);
	r->shown = malloc(r->cap);
	for (size_t k = 0; k < REDACT_LEVELS; k++) {
		r->level[k].text = malloc(r->cap);
		r->level[k].spans = malloc(r->cap * sizeof(*r->level[k].spans));
		if (!r->level[k].text || !r->level[k].spans)
			goto fail;
	}
	if (r->needles && r->raw && r->shown)
		return r;
fail:
	redact_free(r);
	return NULL;
}

void redact_free(struct redact *r)
{
	if (!r)
		return;
	needles_free(r->needles);
	for (size_t k = 0; k < REDACT_LEVELS; k++) {
		if (r->level[k].text)
			explicit_bzero(r->level[k].text, r->level[k].touched);
		free(r->level[k].text);
		free(r->level[k].spans);
	}
	if (r->raw)
		explicit_bzero(r->raw, r->cap);
	if (r->shown)
		explicit_bzero(r->shown, r->cap);
	free(r->raw);
	free(r->shown);
	explicit_bzero(r, sizeof(*r));
	free(r);
}

/* Cover shown[from..to); a place that is covered already was counted then. */
static void cover(struct redact *r, size_t from, size_t to)
{
	bool fresh = false;

	for (size_t i = from; i < to; i++) {
		fresh |= r->shown[i] != '*';
		r->shown[i] = '*';
	}
	r->replaced += fresh;
}

/*
 * One level's text. Returns from where in raw bytes must wait. spans: NULL when text is raw itself.
 */
static size_t level_cover(
	struct redact *r, const uint8_t *text, size_t n, const struct escape_span *spans)
{
	struct needle_hit hit;
	size_t begun;

	for (size_t at = 0; needles_find(r->needles, text, n, at, &hit); at = hit.at + 1) {
		size_t last = hit.at + hit.len - 1;

		cover(r, spans ? spans[hit.at].start : hit.at, spans ? spans[last].end : last + 1);
	}
	begun = needles_begun(r->needles, text, n);
	if (begun == n)
		return r->n;
	return spans ? spans[begun].start : begun;
}

static void deeper(struct redact *r, size_t k, const uint8_t *text, size_t n,
	const struct escape_span *from, size_t *wait);

/* Undo one layer of escapes of this kind, look, and go on with what is there then. */
static void undo(struct redact *r, size_t k, const uint8_t *text, size_t n,
	const struct escape_span *from, unsigned which, size_t *wait)
{
	struct redact_level *l = &r->level[k];
	struct escape_done d;
	size_t begun;

	if (escape_next(text, n, which) == n)
		return;
	d = escape_undo(text, n, which, l->text, l->spans, from);
	l->touched = MAX_OF(l->touched, d.n);
	/* An escape that is cut off may be a value's first byte. */
	if (d.used < n)
		*wait = MIN_OF(*wait, from ? (size_t)from[d.used].start : d.used);
	begun = level_cover(r, l->text, d.n, l->spans);
	*wait = MIN_OF(*wait, begun);
	deeper(r, k + 1, l->text, d.n, l->spans, wait);
}

static void deeper(struct redact *r, size_t k, const uint8_t *text, size_t n,
	const struct escape_span *from, size_t *wait)
{
	if (k == REDACT_LEVELS)
		return;
	if (!r->escapes_within) {
		undo(r, k, text, n, from, ESCAPE_PERCENT | ESCAPE_JSON, wait);
		return;
	}
	undo(r, k, text, n, from, ESCAPE_PERCENT, wait);
	undo(r, k, text, n, from, ESCAPE_JSON, wait);
}

/* Look at all levels; returns from where in raw bytes must wait. */
static size_t turn(struct redact *r)
{
	size_t wait = level_cover(r, r->raw, r->n, NULL);

	deeper(r, 0, r->raw, r->n, NULL, &wait);
	return wait;
}

static void give_out(struct redact *r, size_t n, struct buf *out)
{
	buf_add(out, r->shown, n);
	r->n -= n;
	memmove(r->raw, r->raw + n, r->n);
	memmove(r->shown, r->shown + n, r->n);
}

size_t redact_feed(struct redact *r, const void *p, size_t n, bool last, struct buf *out)
{
	const uint8_t *in = p;
	size_t before = r->replaced, at = 0;

	if (!r->hold) {
		buf_add(out, p, n);
		return 0;
	}
	while (at < n) {
		size_t take = MIN_OF(n - at, (size_t)REDACT_BLOCK), wait;

		memcpy(r->raw + r->n, in + at, take);
		memcpy(r->shown + r->n, in + at, take);
		r->n += take;
		at += take;
		wait = turn(r);
		/* What waits longer than any value is long is none. */
		if (r->n - wait > r->hold)
			wait = r->n - r->hold;
		give_out(r, wait, out);
	}
	if (last)
		give_out(r, r->n, out);
	return r->replaced - before;
}
