/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redaction of streams: see scrub.h.
 *
 * Views:   the stream is looked at as it came, and with one layer of escapes after the other undone:
 *          a tree of views, each of which reads on where it stopped. An escape that is cut off
 *          waits in the view that will undo it. Where the stream was cut therefore changes nothing:
 *          no view ever begins to read in the middle, where "\\" and what follows would pair up
 *          otherwise.
 * Order:   what was not given out yet is in `shown`. Each turn lets all views read what is new,
 *          covers the values that they find, and gives out all but the tails of the views. A tail
 *          is the longest value's length less one, whatever is in it.
 * Lines:   no value holds LF, CR or NUL, and no escape does. What ends with one of them is given
 *          out at once, and all views begin anew.
 * Cost:    a view sleeps while the escapes that lead to it do not occur: what it and those below it
 *          would keep is what the view above it and those below that keep.
 * Memory:  work is done in the scrubber's room, which is wiped after each call. A stream has memory
 *          of its own for what waits only.
 * Limits:  at most `hold` bytes wait: a value in the widest encoding that one layer of escapes
 *          makes of it, twice.
 */
#include "net/keeper/scrub.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "secret/escape.h"
#include "secret/value.h"
#include "secret/placeholder.h"
#include "net/keeper/values.h"

#define REDACT_BLOCK 4096u
#define REDACT_LEVELS PLACEHOLDER_LEVELS
#define REDACT_WIDEST 6u /* bytes that may stand for one of a form: \uXXXX */
#define REDACT_HOLD_MAX (REDACT_WIDEST * VALUE_FORM_MAX_B)
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
	uint8_t *text; /* the end of what was read, folded: a value may have begun in it */
	struct escape_span *spans; /* the first view has none: its bytes are where they came */
	size_t n, cap;
};

struct scrubber {
	struct secret memory; /* that this is in */
	struct values values;
	struct { /* what is new, with the escapes undone that lead to a view of this depth */
		uint8_t text[REDACT_NEW_MAX];
		struct escape_span spans[REDACT_NEW_MAX];
	} fresh[REDACT_LEVELS];
	struct escape_span spans[REDACT_BLOCK]; /* of what is new, as it came */
	uint8_t folded[REDACT_NEW_MAX];         /* what is new in the view that is searched */
	uint8_t seam[2 * VALUE_FORM_MAX_B];     /* a tail and the beginning of what is new */
	uint8_t shown[REDACT_HOLD_MAX + REDACT_BLOCK];
	bool undone; /* fresh was used */
};

struct scrub {
	struct scrubber *d;
	struct view views[REDACT_VIEWS_MAX];
	size_t views_n;
	bool escapes;  /* how views are planted */
	uint8_t *held; /* the first of shown, between calls */
	size_t n, held_cap;
	size_t replaced;
	bool failed;
};

/* ---- shared ---- */

struct scrubber *scrubber_new(void)
{
	struct secret memory;
	struct scrubber *d;

	if (secret_init(&memory, sizeof(*d)) < 0)
		return NULL;
	d = (struct scrubber *)(void *)memory.data;
	d->memory = memory;
	if (values_init(&d->values) < 0) {
		scrubber_free(d);
		return NULL;
	}
	return d;
}

void scrubber_free(struct scrubber *d)
{
	struct secret memory;

	if (!d)
		return;
	memory = d->memory;
	secret_done(&memory);
}

int scrubber_reset(struct scrubber *d)
{
	return values_init(&d->values);
}

bool scrubber_add(struct scrubber *d, const char *value, size_t n)
{
	return values_add(&d->values, value, n);
}

bool scrubber_locked(const struct scrubber *d)
{
	return d->memory.locked;
}

/* A value that ends later may have begun in so many bytes of a view. */
static size_t tail_max(const struct scrubber *d)
{
	return d->values.longest - 1; /* there are values */
}

/* ---- a stream's memory ---- */

static void wipe(void *p, size_t n)
{
	if (p)
		explicit_bzero(p, n);
	free(p);
}

static void view_forget(struct view *v)
{
	wipe(v->text, v->cap);
	free(v->spans);
	v->text = NULL;
	v->spans = NULL;
	v->n = v->cap = 0;
}

/* Room for a whole tail. */
static bool view_room(struct scrub *r, struct view *v)
{
	size_t cap = tail_max(r->d);
	struct escape_span *spans = NULL;
	uint8_t *text;

	if (v->cap >= cap)
		return true;
	text = malloc(cap);
	if (v != r->views)
		spans = malloc(cap * sizeof(*spans));
	if (!text || (v != r->views && !spans)) {
		free(text);
		free(spans);
		r->failed = true;
		return false;
	}
	if (v->n)
		memcpy(text, v->text, v->n);
	if (v->n && spans)
		memcpy(spans, v->spans, v->n * sizeof(*spans));
	wipe(v->text, v->cap);
	free(v->spans);
	v->text = text;
	v->spans = spans;
	v->cap = cap;
	return true;
}

static const unsigned kinds[REDACT_KINDS] = {
	ESCAPE_PERCENT, ESCAPE_JSON, ESCAPE_PERCENT | ESCAPE_JSON};

static void view_add(struct scrub *r, size_t above, size_t kind)
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
static void plant(struct scrub *r, bool escapes)
{
	for (size_t i = 0; i < r->views_n; i++) {
		view_forget(&r->views[i]);
		memset(r->views[i].below, 0, sizeof(r->views[i].below));
	}
	r->escapes = escapes;
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

/* The stream begins anew. */
static void reset(struct scrub *r)
{
	if (!r->views_n || r->escapes != r->d->values.escapes)
		plant(r, r->d->values.escapes);
	for (size_t i = 0; i < r->views_n; i++) {
		r->views[i].asleep = i > 0;
		r->views[i].n = r->views[i].cut_n = 0;
	}
	r->n = 0;
}

struct scrub *scrub_new(struct scrubber *d)
{
	struct scrub *r = calloc(1, sizeof(*r));

	if (r) {
		r->d = d;
		reset(r);
	}
	return r;
}

/* Nothing waits: no memory either. */
static void forget(struct scrub *r)
{
	for (size_t i = 0; i < r->views_n; i++)
		view_forget(&r->views[i]);
	wipe(r->held, r->held_cap);
	r->held = NULL;
	r->held_cap = 0;
}

void scrub_free(struct scrub *r)
{
	if (!r)
		return;
	forget(r);
	explicit_bzero(r, sizeof(*r));
	free(r);
}

/* Cover shown[from..to); a place that is covered already was counted then. */
static void cover(struct scrub *r, size_t from, size_t to)
{
	uint8_t *shown = r->d->shown;
	bool fresh = false;

	for (size_t i = from; i < to; i++) {
		fresh |= shown[i] != '*';
		shown[i] = '*';
	}
	r->replaced += fresh;
}

/* ---- one view ---- */

/* Byte i of what came from `at` on; at may be before what was given out, which is 0. */
static struct escape_span span_plain(ptrdiff_t at, size_t i)
{
	ptrdiff_t start = at + (ptrdiff_t)i;

	return (struct escape_span){.start = start > 0 ? (uint32_t)start : 0,
		.end = start + 1 > 0 ? (uint32_t)(start + 1) : 0};
}

static struct escape_span span_at(const struct piece *x, size_t i)
{
	return x->spans ? x->spans[i] : span_plain((ptrdiff_t)x->at, i);
}

/* Of byte i of the tail; end: where in shown the first view stopped to read. */
static struct escape_span tail_span(const struct view *v, size_t i, size_t end)
{
	return v->spans ? v->spans[i] : span_plain((ptrdiff_t)end - (ptrdiff_t)v->n, i);
}

/* Values that begin in the tail and end in x. */
static void cover_seam(struct scrub *r, const struct view *v, const struct piece *x)
{
	size_t over = MIN_OF(x->n, tail_max(r->d)), at = 0;
	uint8_t *seam = r->d->seam;
	struct value_hit hit;

	memcpy(seam, v->text, v->n);
	memcpy(seam + v->n, x->text, over);
	while (values_find(&r->d->values, seam, v->n + over, &at, &hit))
		if (hit.start < v->n && hit.end > v->n) /* others were found, or will be */
			cover(r, tail_span(v, hit.start, x->at).start,
				span_at(x, hit.end - 1 - v->n).end);
}

/* The last bytes of the tail with x behind it. */
static void tail_keep(struct scrub *r, struct view *v, const struct piece *x)
{
	size_t most = tail_max(r->d), take = MIN_OF(x->n, most), old = MIN_OF(v->n, most - take);

	memmove(v->text, v->text + v->n - old, old);
	memcpy(v->text + old, x->text + x->n - take, take);
	if (v->spans) {
		memmove(v->spans, v->spans + v->n - old, old * sizeof(*v->spans));
		for (size_t i = 0; i < take; i++)
			v->spans[old + i] = span_at(x, x->n - take + i);
	}
	v->n = old + take;
}

/* Cover what is a value, keep the tail: what is shown of it waits. */
static void view_search(struct scrub *r, struct view *v, const struct piece *read, size_t *wait)
{
	struct piece folded = *read;
	const struct piece *x = &folded;
	struct value_hit hit;
	size_t at = 0;

	if (!view_room(r, v))
		return;
	values_fold(r->d->folded, read->text, read->n);
	folded.text = r->d->folded;
	if (v->n && x->n)
		cover_seam(r, v, x);
	while (values_find(&r->d->values, x->text, x->n, &at, &hit))
		cover(r, span_at(x, hit.start).start, span_at(x, hit.end - 1).end);
	if (x->n)
		tail_keep(r, v, x);
	if (v->n)
		*wait = MIN_OF(*wait, (size_t)tail_span(v, 0, r->n).start);
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

/* end: where in shown `from` stopped to read. */
static void tail_copy(struct scrub *r, struct view *to, const struct view *from, size_t end)
{
	to->n = 0;
	if (!from->n || !view_room(r, to))
		return;
	memcpy(to->text, from->text, from->n);
	for (size_t i = 0; i < from->n; i++)
		to->spans[i] = tail_span(from, i, end);
	to->n = from->n;
}

/* Make `to`, and what is below it, keep what `from` and what is below that keep. */
static void view_copy(struct scrub *r, size_t to, size_t from)
{
	struct view *a = &r->views[to];
	const struct view *b = &r->views[from];

	a->asleep = b->asleep;
	if (a->asleep)
		return;
	tail_copy(r, a, b, 0);
	memcpy(a->cut, b->cut, sizeof(a->cut));
	memcpy(a->cut_spans, b->cut_spans, sizeof(a->cut_spans));
	a->cut_n = b->cut_n;
	for (size_t k = 0; k < REDACT_KINDS; k++)
		if (a->below[k])
			view_copy(r, a->below[k], b->below[k]);
}

/* Escapes of this kind occur now; none of the views has read what is new yet. */
static void wake(struct scrub *r, size_t above, size_t kind, size_t end)
{
	const struct view *from = &r->views[above];
	struct view *v = &r->views[from->below[kind]];

	for (size_t k = 0; k < REDACT_KINDS; k++)
		if (v->below[k] && k == kind)
			r->views[v->below[k]].asleep = true;
		else if (v->below[k])
			view_copy(r, v->below[k], from->below[k]);
	tail_copy(r, v, from, end);
	v->asleep = false;
	v->cut_n = 0;
}

static bool keeps_the_same(const struct scrub *r, const struct view *a, const struct view *b)
{
	if (a->n != b->n || (a->n && memcmp(a->text, b->text, a->n) != 0))
		return false;
	for (size_t i = 0; i < a->n; i++) {
		struct escape_span x = tail_span(a, i, r->n), y = tail_span(b, i, r->n);

		if (x.start != y.start || x.end != y.end)
			return false;
	}
	return true;
}

/* Do a and what is below it keep what b and what is below that keep? */
static bool view_same(const struct scrub *r, size_t a, size_t b)
{
	const struct view *x = &r->views[a], *y = &r->views[b];
	bool same = x->asleep == y->asleep;

	if (!same || x->asleep)
		return same;
	same = x->cut_n == y->cut_n && memcmp(x->cut, y->cut, x->cut_n) == 0 &&
	       memcmp(x->cut_spans, y->cut_spans, x->cut_n * sizeof(*x->cut_spans)) == 0 &&
	       keeps_the_same(r, x, y);
	for (size_t k = 0; same && k < REDACT_KINDS; k++)
		same = !x->below[k] || view_same(r, x->below[k], y->below[k]);
	return same;
}

/* Is the view below no other than this one, since escapes of its kind have not occurred for long? */
static bool may_sleep(const struct scrub *r, size_t above, size_t kind)
{
	const struct view *from = &r->views[above], *v = &r->views[from->below[kind]];
	bool may = !v->cut_n && keeps_the_same(r, v, from);

	for (size_t k = 0; may && k < REDACT_KINDS; k++)
		if (v->below[k])
			may = k == kind ? r->views[v->below[k]].asleep
					: view_same(r, v->below[k], from->below[k]);
	return may;
}

/* Which views below this one have to read x? */
static unsigned wake_all(struct scrub *r, size_t i, const struct piece *x)
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
			wake(r, i, k, x->at);
	return awake | woken;
}

/* Let view i, and those below it, read x. */
static void view_read(struct scrub *r, size_t i, size_t depth, const struct piece *x, size_t *wait)
{
	unsigned awake = depth < REDACT_LEVELS ? wake_all(r, i, x) : 0;
	struct scrubber *d = r->d;
	struct piece in = *x;

	if (awake && !x->spans) { /* the stream as it came */
		for (size_t at = 0; at < x->n; at++)
			d->spans[at] = span_at(x, at);
		in.spans = d->spans;
	}
	for (size_t k = 0; !r->failed && awake >> k; k++) {
		size_t b = r->views[i].below[k];
		struct view *v = &r->views[b];
		struct piece undone = {
			.text = d->fresh[depth].text, .spans = d->fresh[depth].spans};

		if (!(awake >> k & 1))
			continue;
		d->undone = true;
		undone.n = undo_new(v, &in, d->fresh[depth].text, d->fresh[depth].spans);
		if (v->cut_n) /* it may be a value's first byte */
			*wait = MIN_OF(*wait, (size_t)v->cut_spans[0].start);
		view_read(r, b, depth + 1, &undone, wait);
	}
	if (r->failed)
		return;
	view_search(r, &r->views[i], x, wait);
	for (size_t k = 0; awake >> k; k++)
		if ((awake >> k & 1) && may_sleep(r, i, k))
			r->views[r->views[i].below[k]].asleep = true;
}

/* ---- the stream ---- */

/* Let all views read p, the last n bytes of shown; returns from where in it bytes must wait. */
static size_t turn(struct scrub *r, const uint8_t *p, size_t n)
{
	struct piece x = {.text = p, .n = n, .at = r->n - n};
	size_t wait = r->n, hold = REDACT_WIDEST * r->d->values.longest;

	view_read(r, 0, 0, &x, &wait);
	/* What waits longer than any value is long is none. */
	return r->n - wait > hold ? r->n - hold : wait;
}

static void spans_move(struct escape_span *spans, size_t n, size_t by)
{
	for (size_t i = 0; i < n; i++) {
		spans[i].start -= MIN_OF(spans[i].start, (uint32_t)by);
		spans[i].end -= MIN_OF(spans[i].end, (uint32_t)by);
	}
}

static void give_out(struct scrub *r, size_t n, struct buf *out)
{
	uint8_t *shown = r->d->shown;

	buf_add(out, shown, n);
	r->n -= n;
	memmove(shown, shown + n, r->n);
	for (size_t i = 0; n && i < r->views_n; i++) {
		struct view *v = &r->views[i];

		if (v->asleep)
			continue;
		spans_move(v->spans, v->spans ? v->n : 0, n);
		spans_move(v->cut_spans, v->cut_n, n);
	}
}

/* How much of p is whole lines. */
static size_t lines(const uint8_t *p, size_t n)
{
	static const char ends[] = {'\n', '\r', '\0'};
	size_t whole = 0;

	for (size_t i = 0; i < sizeof(ends); i++) {
		const uint8_t *at = memrchr(p + whole, ends[i], n - whole);

		whole = at ? (size_t)(at - p) + 1 : whole;
	}
	return whole;
}

/* Work is done in shown; between calls the stream has its own copy. */
static void take_up(struct scrub *r)
{
	if (r->n)
		memcpy(r->d->shown, r->held, r->n);
}

static void put_down(struct scrub *r, size_t used)
{
	struct scrubber *d = r->d;

	if (r->n > r->held_cap) {
		wipe(r->held, r->held_cap);
		r->held = malloc(2 * r->n);
		r->held_cap = r->held ? 2 * r->n : 0;
		r->failed |= !r->held;
	}
	if (r->failed)
		r->n = 0; /* nothing more is given out */
	if (r->n)
		memcpy(r->held, d->shown, r->n);
	explicit_bzero(d->shown, used);
	explicit_bzero(d->folded, sizeof(d->folded));
	explicit_bzero(d->seam, 2 * d->values.longest);
	for (size_t k = 0; d->undone && k < REDACT_LEVELS; k++)
		explicit_bzero(d->fresh[k].text, sizeof(d->fresh[k].text));
	d->undone = false;
}

/* As much of p as is taken at once. */
static size_t feed_some(struct scrub *r, const uint8_t *p, size_t n, struct buf *out)
{
	size_t most = MIN_OF(n, (size_t)REDACT_BLOCK), whole = lines(p, most), wait;
	size_t take = whole ? whole : most;

	memcpy(r->d->shown + r->n, p, take);
	r->n += take;
	wait = turn(r, p, take);
	if (r->failed)
		return take;
	give_out(r, whole ? r->n : wait, out);
	if (whole)
		reset(r);
	return take;
}

size_t scrub_feed(struct scrub *r, const void *p, size_t n, bool last, struct buf *out)
{
	size_t before = r->replaced, used = r->n + MIN_OF(n, (size_t)REDACT_BLOCK), at = 0;
	bool values = r->d->values.n > 0;

	take_up(r);
	while (values && at < n && !r->failed) {
		used = MAX_OF(used, r->n + MIN_OF(n - at, (size_t)REDACT_BLOCK));
		at += feed_some(r, (const uint8_t *)p + at, n - at, out);
	}
	if (!r->failed && (last || !values))
		give_out(r, r->n, out);
	put_down(r, used);
	if (!r->failed && !values)
		buf_add(out, p, n);
	if (last || !values) {
		reset(r);
		forget(r);
	}
	out->failed |= r->failed;
	return r->replaced - before;
}

bool scrub_waits(const struct scrub *r)
{
	return r->n > 0;
}

void scrub_release(struct scrub *r, struct buf *out)
{
	size_t used = r->n;

	if (r->failed)
		return;
	take_up(r);
	give_out(r, r->n, out);
	put_down(r, used);
}
