/* SPDX-License-Identifier: Apache-2.0 */
/* Text helpers: checked numbers, UTF-8, safe display, nearest names, string lists. */
#ifndef CROFT_BASE_STR_H
#define CROFT_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

static inline bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static inline bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix);

/* 0..15, or -1. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Length in bytes of the well-formed UTF-8 sequence at s (1..4), 0 if ill-formed or n == 0. */
size_t utf8_len(const char *s, size_t n);
bool utf8_valid(const char *s, size_t n);
/* Writes the character c, below 0x110000; returns how many bytes. */
size_t utf8_put(char to[4], uint32_t c);
/* The character that two units of UTF-16 are together (as JSON writes those beyond 0xffff), or 0. */
uint32_t utf16_pair(uint32_t high, uint32_t low);
/* The character of a well-formed sequence of len bytes; and whether str_show() would not show it as it is. */
uint32_t utf8_code(const char *s, size_t len);
bool str_unsafe(const char *s, size_t len);

/*
 * Add text that came from a sandbox or a file to something a person will read: ill-formed UTF-8 and every
 * character that Unicode makes invisible, unassigned, private or a control (base/unseen.h) appear as \xNN
 * or \u{NNNN}; so do spaces other than U+0020, because in a name they deceive.
 */
void str_show(struct buf *out, const char *s, size_t n);
/* The same for the lines of a file: other spaces stay, since texts in many languages have them. */
void str_show_text(struct buf *out, const char *s, size_t n);
/*
 * A word for a POSIX shell that stands for exactly these bytes: as it is, in single quotes, or, when a
 * character of it cannot be shown, as "$(printf '…')". For every command or option that is suggested.
 * false, and nothing added: no word can (a NUL, a newline at the end).
 */
bool str_shell(struct buf *out, const char *s, size_t n);
void str_show_all(struct buf *out, const char *s);

/* min to max lower-case hexadecimal digits and nothing else. */
bool str_hex(const char *s, size_t min, size_t max);
/* Whole-string unsigned decimal within [0,max]; false on anything else. */
bool str_u64(const char *s, uint64_t max, uint64_t *ret);
/* "512", "64K", "2M", "1.5G", "1T" (powers of 1024; optional trailing "B" or "iB"). */
bool str_size(const char *s, uint64_t *ret_b);
/* "90" (seconds), "500ms", "10s", "5m", "2h", "1d". */
bool str_duration(const char *s, uint64_t *ret_ms);
/* "1.5" scaled by 1000, within max_milli. */
bool str_milli(const char *s, uint64_t max_milli, uint64_t *ret_milli);

/* The name in the list closest to `s` by edit distance, or NULL if none is plausibly meant. */
const char *str_nearest(const char *s, const char *const *names, size_t n);

/* fnmatch-like match of one name without slashes: '*' and '?' only. */
bool str_wild(const char *pattern, const char *name);

/* A growing list of owned strings with a maximum. */
struct strlist {
	char **v;
	size_t n;
	size_t cap;
	size_t max;
};

#define STRLIST_INIT(max_n) ((struct strlist){.max = (max_n)})
#define cleanup_strlist __attribute__((cleanup(strlist_done)))

bool strlist_add(struct strlist *l, const char *s); /* copies; false when full or out of memory */
bool strlist_addn(struct strlist *l, const char *s, size_t n);
bool strlist_has(const struct strlist *l, const char *s);
void strlist_sort(struct strlist *l);
/* What `to` held is let go; untouched, and false, when out of memory. */
bool strlist_copy(struct strlist *to, const struct strlist *from);
void strlist_done(struct strlist *l);

#endif
