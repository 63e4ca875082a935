/* SPDX-License-Identifier: Apache-2.0 */
/* base/siphash: the vectors of its authors. */
#include "test.h"

#include "base/siphash.h"

TEST(published_vectors)
{
	const uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
	uint8_t in[64];

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	CHECK(siphash(key, in, 0) == 0x726fdb47dd0e0e31u);
	CHECK(siphash(key, in, 1) == 0x74f839c593dc67fdu);
	CHECK(siphash(key, in, 8) == 0x93f5f5799a932462u);
	CHECK(siphash(key, in, 15) == 0xa129ca6149be45e5u);
	CHECK(siphash(key, in, 63) == 0x958a324ceb064572u);
}
