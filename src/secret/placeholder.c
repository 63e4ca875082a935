/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders: made from a run's seed, found again in any stream.
 *
 * Order: a stream is searched as it came (level 0), then with one layer of escapes undone (level
 *        1), and so on. A level is searched only where it differs from the one before, so a stream
 *        without escapes is searched once. Between writes each level remembers its last bytes, and
 *        an escape that was cut off.
 */
#include "secret/placeholder.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "secret/escape.h"
#include "secret/needles.h"

#define PREFIX "croft"
#define UNDO_BLOCK 1024u
#define LETTERS 62u
#define UNDO (ESCAPE_PERCENT | ESCAPE_JSON | ESCAPE_TOKENS)

_Static_assert(PLACEHOLDERS_MAX <= 64, "one bit for each");

struct placeholder_set {
	struct needles *needles;
	size_t tail; /* what must be remembered between writes: the longest needle less one byte */
};

/* The n-th block of random text for this seed and name, as hexadecimal digits. */
static void random_block(
	struct digest *ret, const uint8_t seed[32], const char *name, size_t len, uint64_t n)
{
	struct digest who;
	uint8_t in[32 + DIGEST_HEX_LEN + 16];
	uint64_t numbers[2] = {len, n};

	digest_sha256(&who, name, strlen(name));
	memcpy(in, seed, 32);
	memcpy(in + 32, who.hex, DIGEST_HEX_LEN);
	for (size_t i = 0; i < 16; i++)
		in[32 + DIGEST_HEX_LEN + i] = (uint8_t)(numbers[i / 8] >> (8 * (i % 8)));
	digest_sha256(ret, in, sizeof(in));
}

static unsigned digit_value(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

void placeholder_make(char *out, size_t len, const uint8_t seed[32], const char *name)
{
	static const char letters[LETTERS + 1] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	size_t at = MIN_OF(len, sizeof(PREFIX) - 1);

	memcpy(out, PREFIX, at);
	for (uint64_t n = 0; at < len; n++) {
		struct digest block;

		random_block(&block, seed, name, len, n);
		for (size_t i = 0; i < DIGEST_HEX_LEN && at < len; i += 2) {
			unsigned v = digit_value(block.hex[i]) * 16 + digit_value(block.hex[i + 1]);

			/* The rest of the range would make some letters likelier than others. */
			if (v < 256 / LETTERS * LETTERS)
				out[at++] = letters[v % LETTERS];
		}
	}
}

struct placeholder_set *placeholder_set_new(
	const char *const *placeholders, const size_t *lens, size_t n)
{
	struct placeholder_set *s;

	if (n > PLACEHOLDERS_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (lens[i] < PLACEHOLDER_MIN || lens[i] > PLACEHOLDER_MAX)
			return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->needles = needles_new(placeholders, lens, n, PLACEHOLDER_NEEDLE);
	if (!s->needles || needles_longest(s->needles) > PLACEHOLDER_TAIL) {
		placeholder_set_free(s);
		return NULL;
	}
	s->tail = n ? needles_longest(s->needles) - 1 : 0;
	return s;
}

void placeholder_set_free(struct placeholder_set *s)
{
	if (!s)
		return;
	needles_free(s->needles);
	free(s);
}

void placeholder_scan_done(struct placeholder_scan *s)
{
	*s = (struct placeholder_scan){0};
}

/* Which ones p[0..n) holds, as bits. */
static uint64_t search(const struct placeholder_set *set, const uint8_t *p, size_t n)
{
	struct needle_hit hit;
	uint64_t found = 0;

	for (size_t at = 0; needles_find(set->needles, p, n, at, &hit); at = hit.at + 1)
		found |= UINT64_C(1) << hit.who;
	return found;
}

static void tail_keep(
	const struct placeholder_set *set, struct placeholder_level *l, const uint8_t *p, size_t n)
{
	size_t old = n >= set->tail ? 0 : MIN_OF((size_t)l->tail_n, set->tail - n);
	size_t new = MIN_OF(n, set->tail);

	memmove(l->tail, l->tail + l->tail_n - old, old);
	memcpy(l->tail + old, p + n - new, new);
	l->tail_n = (uint8_t)(old + new);
}

/* What a level is given, compared with the level before. */
enum given {
	GIVEN_NEW,   /* other bytes */
	GIVEN_SAME,  /* the same bytes */
	GIVEN_PLAIN, /* the same, and known to have no escape in them */
};

static uint64_t level_search(const struct placeholder_set *set, struct placeholder_level *l,
	const uint8_t *p, size_t n, enum given given)
{
	uint8_t seam[2 * PLACEHOLDER_TAIL];
	size_t over = MIN_OF(n, set->tail);
	uint64_t found = 0;

	if ((given == GIVEN_NEW || l->differs) && l->tail_n) {
		memcpy(seam, l->tail, l->tail_n);
		memcpy(seam + l->tail_n, p, over);
		found = search(set, seam, l->tail_n + over);
	}
	if (given == GIVEN_NEW)
		found |= search(set, p, n);
	tail_keep(set, l, p, n);
	if (given == GIVEN_NEW)
		l->differs = (uint8_t)set->tail;
	else
		l->differs = (uint8_t)(l->differs > n ? l->differs - n : 0);
	return found;
}

static uint64_t level_feed(const struct placeholder_set *set, struct placeholder_scan *s, size_t k,
	const uint8_t *p, size_t n, enum given given);

/*
 * Undo one layer in a block; *ret_used of it was read, less than all only before an escape that is
 * cut off.
 */
static uint64_t level_undo(const struct placeholder_set *set, struct placeholder_scan *s, size_t k,
	const uint8_t *p, size_t n, size_t *ret_used)
{
	uint8_t out[UNDO_BLOCK];
	struct escape_done d = escape_undo(p, n, UNDO, out, NULL, NULL);

	*ret_used = d.used;
	return d.n ? level_feed(set, s, k + 1, out, d.n, d.changed ? GIVEN_NEW : GIVEN_SAME) : 0;
}

/* The escape that the last write cut off, with what follows it. */
static uint64_t level_resume(const struct placeholder_set *set, struct placeholder_scan *s,
	size_t k, const uint8_t *p, size_t n, size_t *ret_used)
{
	struct placeholder_level *l = &s->level[k];
	uint8_t joined[2 * ESCAPE_LEN_MAX];
	size_t old = l->cut_n, take = MIN_OF(n, (size_t)ESCAPE_LEN_MAX), used;
	uint64_t found;

	memcpy(joined, l->cut, old);
	memcpy(joined + old, p, take);
	l->cut_n = 0;
	found = level_undo(set, s, k, joined, old + take, &used);
	if (used >= old) {
		*ret_used = used - old;
		return found;
	}
	/* Still not whole: it is all there is. */
	l->cut_n = (uint8_t)(old + take - used);
	memcpy(l->cut, joined + used, l->cut_n);
	*ret_used = take;
	return found;
}

/*
 * How much has no escape. Of what is plain, only the end can still begin one, with what comes next
 * on this level.
 */
static size_t plain_run(const uint8_t *p, size_t n, enum given given)
{
	size_t known = given == GIVEN_PLAIN && n >= ESCAPE_LEN_MAX ? n - (ESCAPE_LEN_MAX - 1) : 0;

	return known + escape_next(p + known, n - known, UNDO);
}

static uint64_t level_feed(const struct placeholder_set *set, struct placeholder_scan *s, size_t k,
	const uint8_t *p, size_t n, enum given given)
{
	struct placeholder_level *l = &s->level[k];
	uint64_t found = level_search(set, l, p, n, given);
	size_t at = 0;

	if (k == PLACEHOLDER_LEVELS)
		return found;
	if (l->cut_n)
		found |= level_resume(set, s, k, p, n, &at);
	while (at < n) {
		size_t plain = plain_run(p + at, n - at, given), used;

		if (plain)
			found |= level_feed(set, s, k + 1, p + at, plain, GIVEN_PLAIN);
		at += plain;
		if (at == n)
			break;
		found |= level_undo(set, s, k, p + at, MIN_OF(n - at, (size_t)UNDO_BLOCK), &used);
		at += used;
		if (used == 0) {
			l->cut_n = (uint8_t)(n - at); /* less than one escape: a block holds any */
			memcpy(l->cut, p + at, l->cut_n);
			break;
		}
	}
	return found;
}

uint64_t placeholder_find_all(
	const struct placeholder_set *set, struct placeholder_scan *s, const void *p, size_t n)
{
	if (!set || !set->tail || !n)
		return 0;
	return level_feed(set, s, 0, p, n, GIVEN_NEW);
}

int placeholder_find(
	const struct placeholder_set *set, struct placeholder_scan *s, const void *p, size_t n)
{
	uint64_t found = placeholder_find_all(set, s, p, n);

	return found ? __builtin_ctzll(found) : -1;
}
