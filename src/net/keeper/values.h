/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every form of every value that must not come back, as keyed hashes.
 *
 * Purpose: find whole values in a text. What is kept is a hash of each form under a random key of
 *          this process, not the form: however many connections search, no value is copied.
 * Trust:   the sandbox may choose the text and measure how long a search takes. The time depends on
 *          the text and on the number of values, and on what they are only where the text already
 *          has VALUE_WINDOW_B bytes of a form: there is nothing to be guessed byte by byte.
 * Limits:  a form is found with certainty; a text that is none is taken for one with a chance of
 *          2^-64.
 *
 * A struct values is plain memory: the owner decides where it is kept, and wipes it.
 */
#ifndef CROFT_NET_KEEPER_VALUES_H
#define CROFT_NET_KEEPER_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secret/forms.h"

#define VALUE_MIN_B 16u
#define VALUE_MAX_B 4096u
#define VALUES_MAX 128u /* those that are bound now, and those that were before in this run */
#define VALUE_STEP 4u   /* every so many bytes of a text a window is looked up */
#define VALUE_WINDOW_B 13u
#define VALUE_FORM_MAX_B (FORM_WIDEST * VALUE_MAX_B)
#define VALUE_MAP_BITS 17u
#define VALUE_ROW_BITS 12u

struct value_form {
	uint64_t sum;
	uint32_t len;
};

struct value_window {
	uint64_t hash;
	uint16_t form;
	uint16_t next;   /* of those in the same row, 1-based */
	uint16_t behind; /* how many bytes of the form follow it */
};

struct values {
	uint64_t window_key[2], sum_key[2];
	size_t n, forms_n, windows_n, longest;
	bool escapes;                            /* some value has '%' or a backslash in it */
	uint8_t map[(1u << VALUE_MAP_BITS) / 8]; /* which windows may be one */
	uint16_t rows[1u << VALUE_ROW_BITS];     /* first window, 1-based */
	struct value_form forms[VALUES_MAX * FORMS_NUM];
	struct value_window windows[VALUES_MAX * FORMS_NUM * VALUE_STEP];
	uint8_t form[VALUE_FORM_MAX_B]; /* one form, while it is added; wiped */
};

/*
 * What is searched is text without regard to case, and with blanks for '+', as forms of web pages have
 * them: a server may write a value so. out may be p.
 */
void values_fold(uint8_t *out, const uint8_t *p, size_t n);

/* No values; new keys. 0, or -errno when there is no randomness. */
int values_init(struct values *s);
/* false: too short, too long, or there is no more room. One that is there already is not added twice. */
bool values_add(struct values *s, const char *value, size_t n);

struct value_hit {
	size_t start, end;
};
/*
 * The next part of a text, folded, that one or more forms cover, from *at on; 0 for the first call. Parts
 * may overlap.
 */
bool values_find(
	const struct values *s, const uint8_t *p, size_t n, size_t *at, struct value_hit *ret);

#endif
