/* SPDX-License-Identifier: Apache-2.0 */
/* What every fuzz target has: its entry, and a claim that ends it when it does not hold. */
#ifndef CROFT_FUZZ_MUST_H
#define CROFT_FUZZ_MUST_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define MUST(c)                                                                                    \
	do {                                                                                       \
		if (!(c))                                                                          \
			abort();                                                                   \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
