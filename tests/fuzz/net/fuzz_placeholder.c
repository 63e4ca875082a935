/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that are likely to hold (almost) a placeholder or a value: bytes from 0xe0 on stand for a
 * piece of it in some encoding. Searching a stream in pieces finds exactly what searching it whole
 * does; redaction keeps the length, changes nothing but what it covers, and leaves no value behind.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "must.h"
#include "secret/escape.h"
#include "secret/needles.h"
#include "secret/placeholder.h"
#include "net/keeper/scrub.h"

#define TEXT_MAX (16u << 10)

static const char word[] = "croftAb3xYz9KqLm0PwEr";
/* One with what looks like escapes in it, one that begins as escapes end, one with other letters. */
static const char *const values[] = {
	"sk-9/Va%6c+\"e\\u0041==x", "n0041/Vb6c-rt+u/25==", "Pa ss+w\xf0\x9f\x98\x80rd 0aF u"};
static const char *const words[1] = {word};
static const size_t word_n[1] = {sizeof(word) - 1};

/* One character of the text, written in one of eight ways. */
static void add_char(struct buf *out, unsigned how, unsigned char c)
{
	static const struct {
		const char *before;
		int digits;
	} forms[7] = {
		{"%", 2}, {"%25", 2}, {"\\u", 4}, {"\\\\u", 4}, {"%5Cu", 4}, {"", 2}, {"%2525", 2}};

	if (how == 0)
		buf_addc(out, (char)c);
	else
		buf_addf(out, how % 2 ? "%s%0*x" : "%s%0*X", forms[how - 1].before,
			forms[how - 1].digits, c);
}

static void expand(struct buf *out, const uint8_t *data, size_t n, const char *text, size_t len)
{
	size_t next = 0;

	for (size_t i = 0; i < n && out->len < TEXT_MAX - 64; i++) {
		if (data[i] < 0xe0) {
			buf_addc(out, (char)data[i]);
			continue;
		}
		/* The next one, two … or eight characters of it; then it begins again. */
		for (unsigned k = 0; k < 1u << (data[i] >> 3 & 3); k++) {
			add_char(out, data[i] & 7, (unsigned char)text[next]);
			next = (next + 1) % len;
		}
	}
}

static bool whole_finds(const struct needles *set, const struct buf *b)
{
	static uint8_t text[2][TEXT_MAX];
	struct needle_hit hit;
	size_t n = b->len;

	memcpy(text[0], buf_str(b), n);
	for (size_t k = 0; k <= PLACEHOLDER_LEVELS; k++) {
		if (needles_find(set, text[k % 2], n, 0, &hit))
			return true;
		n = escape_undo(text[k % 2], n, ESCAPE_PERCENT | ESCAPE_JSON | ESCAPE_TOKENS,
			text[(k + 1) % 2], NULL, NULL)
			    .n;
	}
	return false;
}

static void check_placeholder(const struct buf *b, unsigned cut)
{
	static struct needles *needles;
	static struct placeholder_set *set;
	struct placeholder_scan s = {0};
	int who = -1;

	if (!set) {
		needles = needles_new(words, word_n, 1, PLACEHOLDER_NEEDLE);
		set = placeholder_set_new(words, word_n, 1);
	}
	MUST(needles && set);
	for (size_t at = 0; at < b->len && who < 0;) {
		size_t piece = MIN_OF(b->len - at, (size_t)(cut % 97 + 1));

		who = placeholder_find(set, &s, b->data + at, piece);
		at += piece;
		cut = cut * 1103515245u + 12345u;
	}
	MUST((who == 0) == whole_finds(needles, b));
	placeholder_scan_done(&s);
}

/* In pieces whose lengths follow from cut; 0: whole. */
static size_t redact_all(struct scrub *r, const struct buf *b, unsigned cut, struct buf *out)
{
	size_t replaced = 0;

	for (size_t at = 0; at < b->len;) {
		size_t piece = MIN_OF(b->len - at, cut ? (size_t)(cut % 97 + 1) : b->len);

		replaced += scrub_feed(r, b->data + at, piece, false, out);
		at += piece;
		cut = cut ? cut * 1103515245u + 12345u : 0;
	}
	replaced += scrub_feed(r, "", 0, true, out);
	return replaced;
}

static void check_redact(const struct buf *b, unsigned cut, size_t which_value)
{
	static struct needles *all_needles[ARRAY_SIZE(values)];
	static struct scrub
		*redacts[ARRAY_SIZE(values)]; /* each serves one stream after the other */
	struct needles *needles;
	struct scrub *r;
	cleanup_buf struct buf out = BUF_INIT(2 * TEXT_MAX), whole = BUF_INIT(2 * TEXT_MAX);
	struct needle_hit hit;
	size_t replaced;

	if (!redacts[which_value]) {
		const char *const *v = &values[which_value];
		size_t len = strlen(*v);
		struct scrubber *d;

		all_needles[which_value] = needles_new(v, &len, 1, SIZE_MAX);
		d = scrubber_new();
		MUST(d && scrubber_add(d, *v, len));
		redacts[which_value] = scrub_new(d);
	}
	needles = all_needles[which_value];
	r = redacts[which_value];
	MUST(needles && r);
	replaced = redact_all(r, b, cut | 1, &out);
	redact_all(r, b, 0, &whole);
	MUST(out.len == b->len && whole.len == b->len);
	MUST(memcmp(buf_str(&out), buf_str(&whole), out.len) == 0);
	MUST(!needles_find(needles, (const uint8_t *)buf_str(&out), out.len, 0, &hit));
	for (unsigned which = ESCAPE_PERCENT; which <= ESCAPE_JSON; which++) {
		static uint8_t undone[TEXT_MAX];
		size_t n = escape_undo(
			(const uint8_t *)buf_str(&out), out.len, which, undone, NULL, NULL)
				   .n;

		MUST(!needles_find(needles, undone, n, 0, &hit));
	}
	for (size_t i = 0; i < out.len; i++)
		MUST(out.data[i] == b->data[i] || (out.data[i] == '*' && replaced));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf a = BUF_INIT(2 * TEXT_MAX);

	if (!size)
		return 0;
	expand(&a, data + 1, size - 1, word, sizeof(word) - 1);
	check_placeholder(&a, data[0]);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		cleanup_buf struct buf b = BUF_INIT(2 * TEXT_MAX);

		expand(&b, data + 1, size - 1, values[i], strlen(values[i]));
		check_redact(&b, data[0], i);
	}
	return 0;
}
