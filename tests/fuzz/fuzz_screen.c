/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen model on any bytes: it stays sound at every size, its dump passes the terminal filter
 * as it is and makes an equal model, and so does what follows the dump.
 * The first four bytes: rows, columns, how much is fed before the first dump, the size after it.
 */
#include "must.h"

#include "../unit/screen_world.h"
#include "base/cleanup.h"

#define INPUT_MAX 4096

static void check(const struct model *m, struct model *ret_copy)
{
	bool trimmed = false;

	MUST(!m->failed && screen_sound(m));
	MUST(!screen_copy(m, ret_copy, &trimmed));
	MUST(!trimmed && screen_sound(ret_copy));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct model m, copy, again;
	size_t first;

	if (size < 4 || size > INPUT_MAX)
		return 0;
	MUST(model_init(&m, data[0] % 16, data[1] % 40));
	first = MIN_OF((size_t)data[2] * 2, size - 4);
	model_feed(&m, data + 4, first);
	check(&m, &copy);
	model_feed(&m, data + 4 + first, size - 4 - first);
	model_feed(&copy, data + 4 + first, size - 4 - first);
	MUST(m.parser.string_n || copy.parser.string_n || !screen_differs(&m, &copy));
	MUST(model_resize(&m, data[3] % 16, data[3] / 6));
	check(&m, &again);
	model_done(&m);
	model_done(&copy);
	model_done(&again);
	return 0;
}
