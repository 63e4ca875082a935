/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: what is shown on a terminal. */
#include <stdlib.h>

#include "base/str.h"
#include "croft.h"
#include "session/stdio/terminal.h"

struct croft_filter {
	struct termfilter filter;
};

struct croft_filter *croft_filter_new(void)
{
	struct croft_filter *f = calloc(1, sizeof(*f));

	if (f) {
		const char *term = getenv("TERM");

		f->filter.console = term && str_eq(term, "linux");
	}
	return f;
}

void croft_filter_free(struct croft_filter *f)
{
	free(f);
}

size_t croft_filter_run(struct croft_filter *f, const void *in, size_t n, void *ret)
{
	_Static_assert(CROFT_FILTER_MORE >= TERMFILTER_HOLD, "room for what was withheld");
	return termfilter_run(&f->filter, in, n, ret);
}
