/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a body, as Range asks for them.
 *
 * Purpose: a value that a server gives back in parts of a few bytes would be seen by no search. So
 *          more is asked for than the command wants, by RANGE_MARGIN_B on either side, which is more
 *          than the longest value takes in its longest form; that is searched, and cut to what was
 *          wanted. Each part is then as the whole would have been.
 * Trust:   the request is the sandbox's, the answer the server's. One range of bytes is understood;
 *          other Range fields are dropped, and the whole is sent, as every server may. A part whose
 *          place is not the one that was asked for is refused.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/keeper/keeper_impl.h"

#define RANGE_MARGIN_B (32u << 10) /* values have at most 4096 bytes, of at most six characters */
#define NUMBER_MAX (UINT64_MAX / 4)

static_assert(RANGE_MARGIN_B > 6 * 4096, "the longest form of the longest value");

/* Digits only, all of them at *p, which moves behind them. */
static bool number(const char **p, uint64_t *ret)
{
	uint64_t n = 0;

	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++) {
		if (n > NUMBER_MAX / 10)
			return false;
		n = n * 10 + (uint64_t)(**p - '0');
	}
	*ret = n;
	return true;
}

/* "bytes=a-b", "bytes=a-", "bytes=-n". */
static bool wanted(struct range *r, const char *text)
{
	struct range w = {.asked = true, .last = UINT64_MAX};

	if (!text || strncmp(text, "bytes=", 6) != 0)
		return false;
	text += 6;
	w.suffix = *text == '-';
	if (!w.suffix && !number(&text, &w.first))
		return false;
	if (*text++ != '-')
		return false;
	if (*text && !number(&text, &w.last))
		return false;
	if (*text || (w.suffix && w.last == UINT64_MAX) || (!w.suffix && w.last < w.first))
		return false;
	*r = w;
	return true;
}

bool range_ask(struct conn *c)
{
	struct http_request *r = &c->req;
	struct range *w = &c->range;
	uint64_t from;
	char text[80];

	*w = (struct range){0};
	if (!str_eq(r->method, "GET") || !wanted(w, fields_get(&r->fields, "range"))) {
		fields_remove(&r->fields, "range");
		fields_remove(&r->fields, "if-range");
		return true;
	}
	fields_remove(&r->fields, "range");
	from = w->first > RANGE_MARGIN_B ? w->first - RANGE_MARGIN_B : 0;
	w->from = from;
	if (w->suffix)
		snprintf(text, sizeof(text), "bytes=-%" PRIu64, w->last + RANGE_MARGIN_B);
	else if (w->last == UINT64_MAX)
		snprintf(text, sizeof(text), "bytes=%" PRIu64 "-", from);
	else
		snprintf(text, sizeof(text), "bytes=%" PRIu64 "-%" PRIu64, from,
			w->last + RANGE_MARGIN_B);
	return !fields_add(&r->fields, &r->arena, "range", 5, text, strlen(text));
}

/* "bytes A-B/T"; T is UINT64_MAX for '*'. */
static bool given(const char *text, uint64_t *a, uint64_t *b, uint64_t *total)
{
	*total = UINT64_MAX;
	if (!text || strncmp(text, "bytes ", 6) != 0)
		return false;
	text += 6;
	if (!number(&text, a) || *text++ != '-' || !number(&text, b) || *text++ != '/' || *a > *b)
		return false;
	if (str_eq(text, "*"))
		return true;
	return number(&text, total) && !*text && *b < *total;
}

/*
 * A sum of the part that came would be that of a part which may end within a value: whoever may choose
 * where it ends could try the value's bytes one after the other. It is not that of what is given, either.
 */
static void drop_sums(struct http_fields *f)
{
	static const char *const words[] = {
		"digest", "md5", "crc", "sha1", "sha2", "sha5", "sha-", "checksum", "hash"};
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		bool sum = false;

		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			sum = sum || strstr(f->v[i].name, words[k]);
		if (!sum)
			f->v[n++] = f->v[i];
	}
	f->n = n;
}

static bool say(struct http_response *r, const char *text)
{
	fields_remove(&r->fields, "content-range");
	return !fields_add(&r->fields, &r->arena, "content-range", 13, text, strlen(text));
}

/*
 * Is a..b all that was asked for, as far as there is so much? What ends or begins elsewhere, since the server
 * obeyed another field or had enough, could show a value cut in two, and margins would be missing.
 */
static bool as_asked(const struct range *w, uint64_t a, uint64_t b, uint64_t total)
{
	uint64_t most = w->last == UINT64_MAX ? UINT64_MAX : w->last + RANGE_MARGIN_B;

	if (w->suffix)
		return total != UINT64_MAX && b == total - 1 &&
		       a == (total > most ? total - most : 0);
	return a == w->from && (b == most || (total != UINT64_MAX && b == total - 1 && b < most));
}

const char *range_settle(struct conn *c, struct http_response *r)
{
	static const char wrong[] = "the server sent another part than the one that was asked for";
	struct range *w = &c->range;
	uint64_t a, b, total, first = w->first, last;
	char text[80], of[24] = "*";

	if (r->status != 206)
		return NULL;
	if (!w->asked || !given(fields_get(&r->fields, "content-range"), &a, &b, &total) ||
		(r->body == HTTP_BODY_LENGTH && r->length != b - a + 1) ||
		!as_asked(w, a, b, total))
		return wrong;
	if (w->suffix)
		first = total > w->last ? total - w->last : 0;
	last = w->suffix ? b : MIN_OF(b, w->last);
	if (total != UINT64_MAX)
		snprintf(of, sizeof(of), "%" PRIu64, total);
	w->cut = true;
	drop_sums(&r->fields);
	if (first > last) { /* all of it is margin: there is nothing where the command looks */
		r->status = 416;
		snprintf(text, sizeof(text), "bytes */%s", of);
	} else {
		w->skip = first - a;
		w->left = last - first + 1;
		snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%s", first, last, of);
	}
	r->length = w->left;
	return say(r, text) ? NULL : "the answer's head is too long";
}

void range_cut(struct conn *c, struct buf *clean)
{
	struct range *w = &c->range;
	size_t skip = (size_t)MIN_OF(w->skip, (uint64_t)clean->len), keep;

	if (!w->cut || clean->failed || !clean->len)
		return;
	w->skip -= skip;
	keep = (size_t)MIN_OF(w->left, (uint64_t)(clean->len - skip));
	w->left -= keep;
	memmove(clean->data, clean->data + skip, keep);
	clean->len = keep;
}
