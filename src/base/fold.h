/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are one name to some file system: which differ only in case or in Unicode normalisation.
 *
 * Purpose: one comparison for every place that asks whether two names can be together. Two names are twins
 *          when their keys are equal: decomposed canonically (NFD: "é" is "e" and an accent, in one order of
 *          marks), then each character's case folded (CaseFolding.txt, statuses C and S).
 * Trust:   names are hostile. Bytes that are not UTF-8 are kept, so a key is made of any name.
 * Limits:  compatibility forms stay apart (the ligature "fi" is not "f", "i"), and so does what only full
 *          case folding joins ("ß" and "ss"). More than FOLD_MARKS_MAX marks in a row are put in order in
 *          pieces of that many; a name of 255 bytes has fewer.
 */
#ifndef CROFT_BASE_FOLD_H
#define CROFT_BASE_FOLD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define FOLD_MARKS_MAX 256u
#define FOLD_KEY_MAX_B(n) (3 * (n) + 1) /* of a name of n bytes; for BUF_INIT() */

/* Adds the key of a name, or of a path; check out->failed. */
void fold_key(struct buf *out, const char *name, size_t n);
/* Are these twins, or the same? Also true when memory ran out. */
bool fold_same(const char *a, size_t a_n, const char *b, size_t b_n);

/* Names with their keys. They belong to the caller, and stay until the list is done with. */
struct fold_name {
	const char *name, *key; /* key may be name itself */
	const void *of;         /* the caller's */
};

struct fold_list {
	struct fold_name *v;
	size_t n, cap;
};
#define cleanup_fold_list __attribute__((cleanup(fold_list_done)))

bool fold_list_add(struct fold_list *l, const char *name, const void *of); /* false: no memory */
/* By key, so that twins are neighbours, then by name. */
void fold_list_sort(struct fold_list *l);
/* Are those at i and i + 1 of the sorted list twins? */
bool fold_list_twins(const struct fold_list *l, size_t i);
/* Where in the sorted list the first with this key, or a greater one, is. */
size_t fold_list_at(const struct fold_list *l, const char *key);
void fold_list_done(struct fold_list *l);

#endif
