/* SPDX-License-Identifier: Apache-2.0 */
/* base/digest: published vectors, and the processor's instructions against libmd. */
#include "test.h"

#include <string.h>

#include "base/digest.h"

TEST(published_vectors)
{
	struct digest d;

	digest_sha256(&d, "", 0);
	CHECK_STR(d.hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	digest_sha256(&d, "abc", 3);
	CHECK_STR(d.hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	digest_sha256(&d, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56);
	CHECK_STR(d.hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* Every length around the ends of blocks, where the padding is. */
TEST(both_ways_give_the_same)
{
	static uint8_t in[4096];
	uint8_t raw[DIGEST_RAW_B];
	char hex[DIGEST_HEX_LEN + 1];
	struct digest d;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * 167 + i / 251);
	for (size_t n = 0; n <= sizeof(in); n += n < 260 ? 1 : 61) {
		digest_sha256(&d, in, n);
		digest_raw_libmd(raw, in, n);
		for (size_t i = 0; i < sizeof(raw); i++)
			snprintf(hex + 2 * i, 3, "%02x", raw[i]);
		CHECK_STR(d.hex, hex);
	}
}
