/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders: what a sandbox holds instead of secrets, and how they are found again.
 *
 * A placeholder has exactly the length of its value (16..4096; shorter values are refused when a
 * secret is set), begins with "croft" and is otherwise random letters and digits of this project, so it
 * passes for a token in most checks. The gateway knows placeholders, never values; the keeper knows
 * both.
 *
 * Scanning finds a placeholder in a byte stream also when it comes percent-encoded (any mix),
 * base64 or base64url (at any of the three alignments), JSON-escaped (\uXXXX), hexadecimal, these
 * within each other up to PLACEHOLDER_LEVELS escapes deep, or split across writes. It is known by
 * its first PLACEHOLDER_NEEDLE characters, so it is found before it is complete, and what has to be
 * remembered of a stream is small. Pure.
 */
#ifndef CROFT_SECRET_PLACEHOLDER_H
#define CROFT_SECRET_PLACEHOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACEHOLDERS_MAX 64
#define PLACEHOLDER_MIN 16
#define PLACEHOLDER_MAX 4096
#define PLACEHOLDER_NEEDLE 32u
#define PLACEHOLDER_LEVELS 3u
#define PLACEHOLDER_TAIL (2 * PLACEHOLDER_NEEDLE) /* hexadecimal is the longest */

/*
 * Derived from the run's random seed, the secret's name and the value's length. Writes len bytes
 * and no NUL.
 */
void placeholder_make(char *out, size_t len, const uint8_t seed[32], const char *name);

struct placeholder_set; /* compiled: all encodings of all placeholders */
/* NULL when out of memory, or when one is outside 16..4096 or there are too many. n may be 0. */
struct placeholder_set *placeholder_set_new(
	const char *const *placeholders, const size_t *lens, size_t n);
void placeholder_set_free(struct placeholder_set *s);

struct placeholder_scan {          /* per stream; zero-initialised */
	struct placeholder_level { /* 0: as it came; each next: one layer of escapes undone */
		uint8_t tail[PLACEHOLDER_TAIL];
		uint8_t tail_n;
		uint8_t cut[12]; /* an escape that the last write left unfinished */
		uint8_t cut_n;
		uint8_t differs; /* how many bytes of the tail may differ from the level before */
	} level[PLACEHOLDER_LEVELS + 1];
};
void placeholder_scan_done(struct placeholder_scan *s);
/*
 * Which placeholders (the end of what came before and) p[0..n) holds: bit i for index i. One that
 * ended near the end of the last write may be told again.
 */
uint64_t placeholder_find_all(
	const struct placeholder_set *set, struct placeholder_scan *s, const void *p, size_t n);
/*
 * The lowest of them, or -1: enough where any is a reason to refuse. Where one may be allowed ask
 * for all, or it could hide another.
 */
int placeholder_find(
	const struct placeholder_set *set, struct placeholder_scan *s, const void *p, size_t n);

#endif
