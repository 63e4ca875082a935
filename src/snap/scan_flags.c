/* SPDX-License-Identifier: Apache-2.0 */
/* Flags that depend on more than the path itself: see scan_impl.h. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "snap/scan_impl.h"

static const char by_link[] = "symlink to where tools look for files that run";
static const char unknown[] = "more symlinks lead to files that run than can be followed";

/* Something is there at the end that a tool could open. */
static bool is_there(const struct item *it)
{
	return it->layer != ITEM_GONE && it->new_mode && it->new_mode != 040000;
}

/* Why a path runs by other names that symlinks give it; NULL: it does not. */
static int runs_by_alias(struct walk *w, const struct aliases *a, struct item *it)
{
	bool link = it->new_mode == 0120000;

	if (a->too_many)
		it->runs = unknown;
	for (size_t i = 0; !it->runs && i < a->n; i++) {
		const char *rest = path_under(a->v[i].real, it->path);
		cleanup_free char *name = NULL;

		if (!rest) { /* a symlink in place of a directory on the way there */
			if (link && path_under(it->path, a->v[i].real))
				it->runs = by_link;
			continue;
		}
		name = path_join(a->v[i].name, rest);
		if (!name)
			return walk_no_memory(w);
		it->runs = change_runs_in(w->s->repo, name, it->new_mode);
		if (!it->runs && link && change_runs_below(w->s->repo, name))
			it->runs = by_link;
	}
	return 0;
}

int walk_flags(struct walk *w)
{
	cleanup_aliases struct aliases a = {0};
	bool more = false;
	int r = live_submodules(w);

	for (size_t i = 0; r == 0 && i < w->n; i++) {
		struct item *it = &w->v[i];

		if (!is_there(it))
			continue;
		it->runs = change_runs_in(w->s->repo, it->path, it->new_mode);
		if (!it->runs && it->new_mode == 0120000 && change_runs_below(w->s->repo, it->path))
			it->runs = by_link;
		more |= !it->runs;
	}
	if (r == 0 && more)
		r = aliases_find(w, &a);
	for (size_t i = 0; r == 0 && i < w->n; i++)
		if (is_there(&w->v[i]) && !w->v[i].runs)
			r = runs_by_alias(w, &a, &w->v[i]);
	return r;
}
