/* SPDX-License-Identifier: Apache-2.0 */
/* The two checksums of Git's files: Adler-32 ends a zlib stream, CRC-32 guards an entry of a pack. */
#ifndef CROFT_GIT_SUM_H
#define CROFT_GIT_SUM_H

#include <stddef.h>
#include <stdint.h>

#define ADLER32_BEGIN 1u
#define CRC32_BEGIN 0u

uint32_t sum_adler32(uint32_t sum, const void *p, size_t n);
/* The same of n zero bytes, at once. */
uint32_t sum_adler32_zeros(uint32_t sum, uint64_t n);
uint32_t sum_crc32(uint32_t sum, const void *p, size_t n);

#endif
