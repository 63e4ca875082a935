/* SPDX-License-Identifier: Apache-2.0 */
/* Which names of a Git directory committing needs: see gitnames.h. */
#include "policy/gitnames.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* Files at the top, each also with ".lock". */
static const char *const files[] = {"index", "HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG",
	"MERGE_MODE", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "COMMIT_EDITMSG",
	"TAG_EDITMSG", "packed-refs", "packed-refs.new"};
/* Followed by digits: the index of a commit of some paths, and of a stash. */
static const char *const numbered[] = {"next-index-", "index.stash."};

static bool is_hex(const char *s, size_t n)
{
	return strspn(s, "0123456789abcdef") >= n;
}

static bool is_file(const char *name)
{
	size_t n = strlen(name);

	if (str_ends(name, ".lock"))
		n -= strlen(".lock");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (strlen(files[i]) == n && memcmp(files[i], name, n) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(numbered); i++) {
		size_t k = strlen(numbered[i]);

		if (n > k && memcmp(name, numbered[i], k) == 0 && strspn(name + k, "0123456789") == n - k)
			return true;
	}
	return false;
}

/* "ab", "ab/cdef…", "ab/tmp_obj_x": loose objects and what becomes one. */
static enum gitname object(const char *rest)
{
	size_t n = strlen(rest);

	if (!is_hex(rest, 2) || (rest[2] && rest[2] != '/'))
		return GITNAME_HELD;
	if (!rest[2])
		return GITNAME_OPEN;
	rest += 3;
	n -= 3;
	if (str_starts(rest, "tmp_obj_") && !strchr(rest, '/'))
		return GITNAME_OPEN;
	return (n == 38 || n == 62) && is_hex(rest, n) ? GITNAME_NEW : GITNAME_HELD;
}

static bool is_at(const char *dir, const char *rest)
{
	size_t n = strlen(dir);

	return strncmp(dir, rest, n) == 0 && (!rest[n] || rest[n] == '/');
}

enum gitname gitname_of(const char *rest)
{
	if (!*rest || str_eq(rest, "objects") || str_eq(rest, "objects/maintenance.lock") ||
		is_at("logs", rest))
		return GITNAME_OPEN;
	if (str_starts(rest, "objects/"))
		return object(rest + strlen("objects/"));
	if (is_at("refs", rest))
		return is_at("refs/replace", rest) ? GITNAME_HELD : GITNAME_OPEN;
	return is_file(rest) ? GITNAME_OPEN : GITNAME_HELD;
}
