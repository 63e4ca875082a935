/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 through libmd. */
#include "base/digest.h"

#include <stdint.h>
#include <sha2.h>

void digest_sha256(struct digest *ret, const void *p, size_t n)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t raw[SHA256_DIGEST_LENGTH];
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	SHA256Update(&ctx, p, n);
	SHA256Final(raw, &ctx);
	for (size_t i = 0; i < sizeof(raw); i++) {
		ret->hex[2 * i] = hex[raw[i] >> 4];
		ret->hex[2 * i + 1] = hex[raw[i] & 15];
	}
	ret->hex[DIGEST_HEX_LEN] = '\0';
}
