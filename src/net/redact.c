/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values leave no trace in what comes back.
 *
 * Purpose: a server may echo what it was sent. The keeper gives every answer through here before
 *          the gateway, and so the sandbox, can see it.
 * Views:   the stream is looked at as it came, and with one layer of escapes after the other undone:
 *          a tree of views, each of which reads on where it stopped. An escape that is cut off
 *          waits in the view that will undo it. Where the stream was cut therefore changes nothing:
 *          no view ever begins to read in the middle, where "\\" and what follows would pair up
 *          otherwise.
 * Order:   what was not given out yet is in `shown`. Each turn lets all views read what is new,
 *          covers the values that they find, and gives out all but what may be the beginning of
 *          one.
 * Cost:    a view sleeps while the escapes that lead to it do not occur: what it and those below it
 *          would keep is what the view above it and those below that keep.
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
#define REDACT_KINDS 3u
#define REDACT_VIEWS_MAX 15u /* 1 + 2 + 4 + 8 */
/* What a view may be given in one turn: each layer may have held back one cut escape. */
#define REDACT_NEW_MAX (REDACT_BLOCK + REDACT_LEVELS * ESCAPE_LEN_MAX)

struct piece { /* of the stream, in one view */
	const uint8_t *text;
	const struct escape_span
		*spans; /* where it is in shown; NULL: from `at` on, byte by byte */
	size_t n, at;
};

struct view {
	bool asleep;
	unsigned which; /* escapes that are undone between the view above and this one */
	size_t below[REDACT_KINDS]; /* 0: none */
	uint8_t cut[ESCAPE_LEN_MAX];
	struct escape_span cut_spans[ESCAPE_LEN_MAX];
	size_t cut_n;
	uint8_t *text; /* the end of what was read: it may be the beginning of a value */
	struct escape_span *spans;
	size_t n;
};

struct redact {
	struct needles *needles;
	size_t hold;
	struct view views[REDACT_VIEWS_MAX];
	size_t views_n;
	struct { /* what is new, with the escapes undone that lead to a view of this depth */
		uint8_t *text;
		struct escape_span *spans;
	} fresh[REDACT_LEVELS];
	struct escape_span *spans; /* of what is new, as it came */
	uint8_t *shown;
	size_t n;
	size_t replaced;
};

static void reset(struct redact *r)
{
	for (size_t i = 0; i < r->views_n; i++) {
		r->views[i].asleep = i > 0;
		r->views[i].n = r->views[i].cut_n = 0;
	}
	r->n = 0;
}

static const unsigned kinds[REDACT_KINDS] = {
	ESCAPE_PERCENT, ESCAPE_JSON, ESCAPE_PERCENT | ESCAPE_JSON};

static void view_add(struct redact *r, size_t above, size_t kind)
{
	r->views[above].below[kind] = r->views_n;
	r->views[r->views_n++].which = kinds[kind];
}

/*
 * escapes: some value has '%' or a backslash in it. Undoing both kinds of escapes at once would then
 * undo what is part of the value and not of its encoding, so each kind is tried by itself, in every
 * order. Otherwise both at once is enough, but for one layer: what stands before a value may look
 * like the beginning of an escape of the other kind, and take its first byte.
 */
static void plant(struct redact *r, bool escapes)
{
	r->views_n = 1;
	for (size_t i = 0; escapes && i < REDACT_VIEWS_MAX / 2; i++) {
		view_add(r, i, 0);
		view_add(r, i, 1);
	}
	for (size_t i = 0; !escapes && i < REDACT_LEVELS; i++)
		view_add(r, i, 2);
	for (size_t k = 0; !escapes && k < 2; k++)
		view_add(r, 0, k);
}

static bool allocate(struct redact *r)
{
	size_t kept = 2 * needles_longest(r->needles); /* with the beginning of what is new */
	bool ok = (r->shown = malloc(r->hold + REDACT_BLOCK)) != NULL;

	for (size_t i = 0; i < r->views_n; i++) {
		struct view *v = &r->views[i];

		v->text = malloc(kept + 1);
		v->spans = malloc((kept + 1) * sizeof(*v->spans));
		ok &= v->text && v->spans;
	}
	for (size_t k = 0; k < REDACT_LEVELS; k++) {
		r->fresh[k].text = malloc(REDACT_NEW_MAX);
		r->fresh[k].spans = malloc(REDACT_NEW_MAX * sizeof(*r->fresh[k].spans));
		ok &= r->fresh[k].text && r->fresh[k].spans;
	}
	r->spans = malloc(REDACT_BLOCK * sizeof(*r->spans));
	return ok && r->spans;
}

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
	plant(r, escapes);
	r->hold = longest * REDACT_WIDEST;
	r->needles = needles_new(values, lens, n, SIZE_MAX);
	if (!r->needles || !allocate(r)) {
		redact_free(r);
		return NULL;
	}
	reset(r);
	return r;
}

static void wipe(uint8_t *text, size_t n)
{
	if (text)
		explicit_bzero(text, n);
	free(text);
}

void redact_free(struct redact *r)
{
	size_t kept;

	if (!r)
		return;
	kept = r->needles ? 2 * needles_longest(r->needles) : 0;
	for (size_t i = 0; i < r->views_n; i++) {
		wipe(r->views[i].text, kept);
		free(r->views[i].spans);
	}
	for (size_t k = 0; k < REDACT_LEVELS; k++) {
		wipe(r->fresh[k].text, REDACT_NEW_MAX);
		free(r->fresh[k].spans);
	}
	free(r->spans);
	wipe(r->shown, r->hold + REDACT_BLOCK);
	needles_free(r->needles);
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

/* ---- one view ---- */

static struct escape_span span_at(const struct piece *x, size_t i)
{
	uint32_t at = (uint32_t)(x->at + i);

	return x->spans ? x->spans[i] : (struct escape_span){.start = at, .end = at + 1};
}

static void keep(struct view *v, const struct piece *x, size_t from, size_t to)
{
	memcpy(v->text + v->n, x->text + from, to - from);
	for (size_t i = from; i < to; i++)
		v->spans[v->n + i - from] = span_at(x, i);
	v->n += to - from;
}

/* Values that begin in the first `starts` bytes. */
static void cover_all(struct redact *r, const struct piece *x, size_t starts)
{
	struct needle_hit hit;

	for (size_t at = 0; needles_find(r->needles, x->text, x->n, at, &hit) && hit.at < starts;
		at = hit.at + 1)
		cover(r, span_at(x, hit.at).start, span_at(x, hit.at + hit.len - 1).end);
}

/* Cover what is a value, keep what may be the beginning of one. */
static void view_search(struct redact *r, struct view *v, const struct piece *x, size_t *wait)
{
	size_t old = v->n, most = needles_longest(r->needles) - 1, begun;

	if (old) {
		struct piece seam = {.text = v->text, .spans = v->spans};

		keep(v, x, 0, MIN_OF(x->n, most));
		seam.n = v->n;
		cover_all(r, &seam, old);
	}
	cover_all(r, x, x->n);
	if (old && x->n < most) { /* all of it is kept now */
		begun = needles_begun(r->needles, v->text, v->n);
		v->n -= begun;
		memmove(v->text, v->text + begun, v->n);
		memmove(v->spans, v->spans + begun, v->n * sizeof(*v->spans));
	} else {
		v->n = 0;
		keep(v, x, needles_begun(r->needles, x->text, x->n), x->n);
	}
	if (v->n)
		*wait = MIN_OF(*wait, (size_t)v->spans[0].start);
}

static void cut_keep(struct view *v, const uint8_t *p, const struct escape_span *spans, size_t n)
{
	memcpy(v->cut, p, n);
	memcpy(v->cut_spans, spans, n * sizeof(*spans));
	v->cut_n = n;
}

/* The escape that was cut off, with what follows it. Returns how much of p was read. */
static size_t undo_cut(struct view *v, const uint8_t *p, const struct escape_span *spans, size_t n,
	uint8_t *out, struct escape_span *out_spans, size_t *ret_n)
{
	uint8_t text[2 * ESCAPE_LEN_MAX];
	struct escape_span from[2 * ESCAPE_LEN_MAX];
	size_t old = v->cut_n, take = MIN_OF(n, (size_t)ESCAPE_LEN_MAX);
	struct escape_done d;

	memcpy(text, v->cut, old);
	memcpy(from, v->cut_spans, old * sizeof(*from));
	memcpy(text + old, p, take);
	memcpy(from + old, spans, take * sizeof(*from));
	d = escape_undo(text, old + take, v->which, out, out_spans, from);
	*ret_n = d.n;
	v->cut_n = 0;
	if (d.used >= old)
		return d.used - old;
	cut_keep(v, text + d.used, from + d.used, old + take - d.used); /* that was all */
	return take;
}

/* What is new in the view above, with one layer of escapes undone. Returns how many bytes. */
static size_t undo_new(
	struct view *v, const struct piece *x, uint8_t *out, struct escape_span *out_spans)
{
	const struct escape_span *spans = x->spans;
	const uint8_t *p = x->text;
	size_t n = x->n, at = 0, out_n = 0;
	struct escape_done d;

	if (v->cut_n)
		at = undo_cut(v, p, spans, n, out, out_spans, &out_n);
	if (at == n)
		return out_n;
	d = escape_undo(p + at, n - at, v->which, out + out_n, out_spans + out_n, spans + at);
	cut_keep(v, p + at + d.used, spans + at + d.used, n - at - d.used);
	return out_n + d.n;
}

/* ---- the tree ---- */

static void tail_copy(struct view *to, const struct view *from)
{
	memcpy(to->text, from->text, from->n);
	memcpy(to->spans, from->spans, from->n * sizeof(*from->spans));
	to->n = from->n;
}

/* Make `to`, and what is below it, keep what `from` and what is below that keep. */
static void view_copy(struct redact *r, size_t to, size_t from)
{
	struct view *a = &r->views[to];
	const struct view *b = &r->views[from];

	a->asleep = b->asleep;
	if (a->asleep)
		return;
	tail_copy(a, b);
	memcpy(a->cut, b->cut, sizeof(a->cut));
	memcpy(a->cut_spans, b->cut_spans, sizeof(a->cut_spans));
	a->cut_n = b->cut_n;
	for (size_t k = 0; k < REDACT_KINDS; k++)
		if (a->below[k])
			view_copy(r, a->below[k], b->below[k]);
}

/* Escapes of this kind occur now; none of the views has read what is new yet. */
static void wake(struct redact *r, size_t above, size_t kind)
{
	const struct view *from = &r->views[above];
	struct view *v = &r->views[from->below[kind]];

	for (size_t k = 0; k < REDACT_KINDS; k++)
		if (v->below[k] && k == kind)
			r->views[v->below[k]].asleep = true;
		else if (v->below[k])
			view_copy(r, v->below[k], from->below[k]);
	tail_copy(v, from);
	v->asleep = false;
	v->cut_n = 0;
}

static bool keeps_the_same(const struct view *a, const struct view *b)
{
	return a->n == b->n && memcmp(a->text, b->text, a->n) == 0 &&
	       memcmp(a->spans, b->spans, a->n * sizeof(*a->spans)) == 0;
}

/* Do a and what is below it keep what b and what is below that keep? */
static bool view_same(const struct redact *r, size_t a, size_t b)
{
	const struct view *x = &r->views[a], *y = &r->views[b];
	bool same = x->asleep == y->asleep;

	if (!same || x->asleep)
		return same;
	same = x->cut_n == y->cut_n && memcmp(x->cut, y->cut, x->cut_n) == 0 &&
	       memcmp(x->cut_spans, y->cut_spans, x->cut_n * sizeof(*x->cut_spans)) == 0 &&
	       keeps_the_same(x, y);
	for (size_t k = 0; same && k < REDACT_KINDS; k++)
		same = !x->below[k] || view_same(r, x->below[k], y->below[k]);
	return same;
}

/* Is the view below no other than this one, since escapes of its kind have not occurred for long? */
static bool may_sleep(const struct redact *r, size_t above, size_t kind)
{
	const struct view *from = &r->views[above], *v = &r->views[from->below[kind]];
	bool may = !v->cut_n && keeps_the_same(v, from);

	for (size_t k = 0; may && k < REDACT_KINDS; k++)
		if (v->below[k])
			may = k == kind ? r->views[v->below[k]].asleep
					: view_same(r, v->below[k], from->below[k]);
	return may;
}

/* Which views below this one have to read x? */
static unsigned wake_all(struct redact *r, size_t i, const struct piece *x)
{
	unsigned awake = 0, woken = 0;

	for (size_t k = 0; k < REDACT_KINDS; k++) {
		size_t b = r->views[i].below[k];

		if (b && !r->views[b].asleep)
			awake |= 1u << k;
		else if (b && escape_next(x->text, x->n, kinds[k]) < x->n)
			woken |= 1u << k;
	}
	for (size_t k = 0; k < REDACT_KINDS; k++)
		if (woken & (1u << k))
			wake(r, i, k);
	return awake | woken;
}

/* Let view i, and those below it, read x. */
static void view_read(struct redact *r, size_t i, size_t depth, const struct piece *x, size_t *wait)
{
	unsigned awake = depth < REDACT_LEVELS ? wake_all(r, i, x) : 0;
	struct piece in = *x;

	if (awake && !x->spans) { /* the stream as it came */
		for (size_t at = 0; at < x->n; at++)
			r->spans[at] = span_at(x, at);
		in.spans = r->spans;
	}
	for (size_t k = 0; awake >> k; k++) {
		size_t b = r->views[i].below[k];
		struct view *v = &r->views[b];
		struct piece undone = {
			.text = r->fresh[depth].text, .spans = r->fresh[depth].spans};

		if (!(awake >> k & 1))
			continue;
		undone.n = undo_new(v, &in, r->fresh[depth].text, r->fresh[depth].spans);
		if (v->cut_n) /* it may be a value's first byte */
			*wait = MIN_OF(*wait, (size_t)v->cut_spans[0].start);
		view_read(r, b, depth + 1, &undone, wait);
	}
	view_search(r, &r->views[i], x, wait);
	for (size_t k = 0; awake >> k; k++)
		if ((awake >> k & 1) && may_sleep(r, i, k))
			r->views[r->views[i].below[k]].asleep = true;
}

/* ---- the stream ---- */

/* Let all views read what is new; returns from where in shown bytes must wait. */
static size_t turn(struct redact *r, const uint8_t *p, size_t n)
{
	struct piece x = {.text = p, .n = n, .at = r->n - n};
	size_t wait = r->n;

	view_read(r, 0, 0, &x, &wait);
	return wait;
}

static void spans_move(struct escape_span *spans, size_t n, size_t by)
{
	for (size_t i = 0; i < n; i++) {
		spans[i].start -= MIN_OF(spans[i].start, (uint32_t)by);
		spans[i].end -= MIN_OF(spans[i].end, (uint32_t)by);
	}
}

static void give_out(struct redact *r, size_t n, struct buf *out)
{
	buf_add(out, r->shown, n);
	r->n -= n;
	memmove(r->shown, r->shown + n, r->n);
	for (size_t i = 0; n && i < r->views_n; i++) {
		spans_move(r->views[i].spans, r->views[i].asleep ? 0 : r->views[i].n, n);
		spans_move(r->views[i].cut_spans, r->views[i].cut_n, n);
	}
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

		memcpy(r->shown + r->n, in + at, take);
		r->n += take;
		wait = turn(r, in + at, take);
		at += take;
		/* What waits longer than any value is long is none. */
		if (r->n - wait > r->hold)
			wait = r->n - r->hold;
		give_out(r, wait, out);
	}
	if (last) {
		give_out(r, r->n, out);
		reset(r);
	}
	return r->replaced - before;
}
