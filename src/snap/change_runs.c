/* SPDX-License-Identifier: Apache-2.0 */
/* Which changes run on the reader's machine: see change_runs() in change.h; the list is policy/runs.h. */
#include "snap/change.h"

#include <string.h>

#include "base/str.h"
#include "policy/runs.h"
#include "snap/scan_impl.h"

const char *change_runs(const char *path, unsigned mode)
{
	const struct runs_entry *x = mode ? runs_find(path) : NULL; /* what is gone does not run */

	return x ? runs_why_text[x->why] : NULL;
}

const char *change_runs_in(const struct repo *r, const char *path, unsigned mode)
{
	const char *why = change_runs(path, mode);

	if (why || !r || mode == 0)
		return why;
	if (r->hooks_path && path_under(r->hooks_path, path))
		return runs_why_text[RUNS_HOOK];
	for (size_t i = 0; i < r->included.n; i++)
		if (path_under(r->included.v[i], path))
			return runs_why_text[RUNS_GITCONF];
	return NULL;
}

bool change_runs_below(const struct repo *r, const char *path)
{
	if (runs_begin(path))
		return true;
	if (r && r->hooks_path && path_under(path, r->hooks_path))
		return true;
	for (size_t i = 0; r && i < r->included.n; i++)
		if (path_under(path, r->included.v[i]))
			return true;
	return false;
}
