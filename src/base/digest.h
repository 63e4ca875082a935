/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 as lower-case hexadecimal text, the only form in which digests appear. */
#ifndef CROFT_BASE_DIGEST_H
#define CROFT_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_RAW_B 32
#define DIGEST_HEX_LEN 64

struct digest {
	char hex[DIGEST_HEX_LEN + 1];
};

void digest_sha256(struct digest *ret, const void *p, size_t n);
/* Always by libmd: what the other way is compared with. */
void digest_raw_libmd(uint8_t ret[DIGEST_RAW_B], const void *p, size_t n);

#endif
