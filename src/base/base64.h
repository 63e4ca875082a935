/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, standard alphabet, padded; strict when read: one text per value. */
#ifndef CROFT_BASE_BASE64_H
#define CROFT_BASE_BASE64_H

#include <stddef.h>

static inline size_t base64_len(size_t n)
{
	return (n + 2) / 3 * 4;
}

/* base64_len(n) characters, no NUL. */
void base64_encode(char *out, const void *p, size_t n);
/* Bytes written, or -1: not base64, bits left over, or more than max. */
long base64_decode(void *out, size_t max, const char *p, size_t n);

#endif
