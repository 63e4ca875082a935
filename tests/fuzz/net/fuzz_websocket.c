/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a WebSocket: the verdict does not depend on how the bytes were cut. */
#include <stdint.h>
#include <stdlib.h>

#include "net/http/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ws_check whole, pieces;
	const char *a, *b = NULL;

	if (!size)
		return 0;
	whole = pieces = (struct ws_check){.masked = data[0] & 1};
	a = ws_check(&whole, data + 1, size - 1);
	for (size_t i = 1; i < size && !b; i++)
		b = ws_check(&pieces, data + i, 1);
	if (a != b || (!a && (whole.left != pieces.left || whole.in_message != pieces.in_message)))
		abort();
	return 0;
}
