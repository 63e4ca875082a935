/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting rules and names. The input is mostly made of sorted stretches (tables, files that people
 * keep in order), which a natural merge sort uses; a library's qsort would be the largest single
 * cost of loading the default policy.
 */
#include <stdlib.h>
#include <string.h>

#include "policy/policy_impl.h"

#define INSERTION_MAX 64

static int gathered_cmp(const struct gathered *x, const struct gathered *y)
{
	int c = strcmp(x->r->path, y->r->path);

	if (c == 0)
		c = (int)x->r->glob - (int)y->r->glob;
	if (c == 0)
		c = (int)x->order - (int)y->order;
	if (c == 0) /* within a layer "read" and "write" together mean write */
		c = (int)x->r->access - (int)y->r->access;
	return c;
}

/* Where the sorted stretch that begins at i ends. */
static size_t stretch(const struct gathered *v, size_t i, size_t n)
{
	for (i++; i < n && gathered_cmp(&v[i - 1], &v[i]) <= 0;)
		i++;
	return i;
}

static void merge(struct gathered *out, const struct gathered *a, size_t an,
	const struct gathered *b, size_t bn)
{
	while (an && bn) {
		if (gathered_cmp(a, b) <= 0) {
			*out++ = *a++;
			an--;
		} else {
			*out++ = *b++;
			bn--;
		}
	}
	memcpy(out, an ? a : b, (an + bn) * sizeof(*out));
}

void sort_gathered(struct gathered *v, struct gathered *tmp, size_t n)
{
	struct gathered *from = v, *to = tmp, *swap;

	for (;;) {
		size_t out = 0, merged = 0;

		while (out < n) {
			size_t mid = stretch(from, out, n);
			size_t end = mid < n ? stretch(from, mid, n) : n;

			merge(to + out, from + out, mid - out, from + mid, end - mid);
			out = end;
			merged++;
		}
		swap = from;
		from = to;
		to = swap;
		if (merged <= 1)
			break;
	}
	if (from != v)
		memcpy(v, from, n * sizeof(*v));
}

static int text_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void sort_text(char **v, size_t n)
{
	if (n > INSERTION_MAX) {
		qsort(v, n, sizeof(*v), text_cmp);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		char *s = v[i];
		size_t k = i;

		for (; k > 0 && strcmp(v[k - 1], s) > 0; k--)
			v[k] = v[k - 1];
		v[k] = s;
	}
}
