/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4: a short keyed hash that cannot be predicted without the key. Pure. */
#ifndef CROFT_BASE_SIPHASH_H
#define CROFT_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(const uint64_t key[2], const void *p, size_t n);

#endif
