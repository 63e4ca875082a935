/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal filter on any bytes: however the stream is cut the same comes out, filtering again
 * changes nothing, and a second, simpler reading of the result finds nothing forbidden.
 * The first byte chooses the kind of terminal and the size of the pieces.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "session/stdio/terminal.h"

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t filter(
	uint8_t *out, const uint8_t *in, size_t n, size_t piece, const struct termfilter *like)
{
	struct termfilter f = {.latin = like->latin, .console = like->console};
	size_t got = 0;

	for (size_t i = 0; i < n; i += piece)
		got += termfilter_run(&f, in + i, n - i < piece ? n - i : piece, out + got);
	return got + termfilter_end(&f, out + got);
}

static void must(int ok)
{
	if (!ok)
		abort();
}

/* Every ESC in the output begins something that is known to be harmless, judged by its next
 * byte. */
static void check(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t next = i + 1 < n ? p[i + 1] : 0;

		must(p[i] != 0x05 && p[i] != 0x18);
		if (p[i] != 0x1b)
			continue;
		must(i + 1 < n && !strchr("PX^_GA%", next ? next : '\n'));
		if (next != ']')
			continue;
		must(n - i > 3);
		must(memcmp(p + i + 2, "52", 2) != 0 && memcmp(p + i + 2, "7;", 2) != 0);
		must(memcmp(p + i + 2, "50", 2) != 0 && memcmp(p + i + 2, "777", 2) != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t whole[INPUT_MAX + TERMFILTER_HOLD], cut[INPUT_MAX + TERMFILTER_HOLD];
	struct termfilter like = {0};
	size_t n, m, piece;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	like.latin = data[0] & 1;
	like.console = data[0] & 2;
	piece = 1 + (data[0] >> 2);
	data++, size--;
	n = filter(whole, data, size, size, &like);
	must(n <= size);
	m = filter(cut, data, size, piece, &like);
	must(n == m && memcmp(whole, cut, n) == 0);
	if (!like.console)
		check(whole, n);
	if (n) {
		m = filter(cut, whole, n, n, &like);
		must(n == m && memcmp(whole, cut, n) == 0);
	}
	return 0;
}
