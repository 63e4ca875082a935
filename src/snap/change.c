/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of changes: see change.h. */
#include "snap/change.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void changes_done(struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].path);
	free(c->v);
	*c = (struct changes){0};
}

struct change *changes_add(struct changes *c, const char *path)
{
	struct change *ch;
	char *copy;

	if (c->n >= CHANGES_MAX)
		return NULL;
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		struct change *v = realloc(c->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		c->v = v;
		c->cap = cap;
	}
	copy = strdup(path);
	if (!copy)
		return NULL;
	ch = &c->v[c->n++];
	*ch = (struct change){.path = copy};
	return ch;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

void changes_sort(struct changes *c)
{
	if (c->n)
		qsort(c->v, c->n, sizeof(*c->v), by_path);
}

const struct change *changes_find(const struct changes *c, const char *path)
{
	size_t lo = 0, hi = c->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int cmp = strcmp(c->v[mid].path, path);

		if (cmp == 0)
			return &c->v[mid];
		if (cmp < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

const char *change_flag_text(unsigned one_flag)
{
	static const struct {
		enum change_flag flag;
		const char *text;
	} words[] = {
		{CHANGE_IGNORED, "ignored by the project"},
		{CHANGE_NESTED_GIT, "nested .git"},
		{CHANGE_SPECIAL, "device, pipe or socket"},
		{CHANGE_SETID, "set-user-id, set-group-id or sticky"},
		{CHANGE_FILECAP, "file capabilities"},
		{CHANGE_GITLINK, "commit of a submodule"},
		{CHANGE_ESCAPES, "symlink out of the workspace"},
		{CHANGE_CASE, "differs from another path only in case or Unicode normalisation"},
		{CHANGE_UNREADABLE, "unreadable"},
		{CHANGE_EMPTY_DIR, "empty directory"},
		{CHANGE_BAD_NAME, "a name Git does not take"},
		{CHANGE_SUBMODULE, "inside a submodule"},
		{CHANGE_TOO_LARGE, "too large"},
		{CHANGE_NOT_READ, "not read"},
		{CHANGE_RUNS, "runs on your machine"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].flag == one_flag)
			return words[i].text;
	return NULL;
}
