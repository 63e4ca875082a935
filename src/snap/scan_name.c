/* SPDX-License-Identifier: Apache-2.0 */
/* Names and targets that mean something else on another machine: see scan_impl.h. */
#include "snap/scan_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fold.h"
#include "base/str.h"

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

const char *path_under(const char *dir, const char *path)
{
	const char *end = path;

	if (!*dir)
		return path;
	for (const char *p = dir; *p; p++) /* as many slashes as dir has */
		if (*p == '/' && *(end += strcspn(end, "/")))
			end++;
	end += strcspn(end, "/");
	if (!fold_same(dir, strlen(dir), path, (size_t)(end - path)))
		return NULL;
	return *end ? end + 1 : end;
}

/* What Git looks for to take a directory for a repository without being called ".git". */
static const char *const git_dir_names[] = {"HEAD", "objects", "refs", "commondir"};

unsigned git_dir_bit(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(git_dir_names); i++)
		if (fold_same(git_dir_names[i], strlen(git_dir_names[i]), name, strlen(name)))
			return 1u << i;
	return 0;
}

const char *git_dir_name(unsigned i)
{
	return i < ARRAY_SIZE(git_dir_names) ? git_dir_names[i] : NULL;
}

bool git_dir_like(unsigned bits)
{
	const unsigned own = 1u << 1 | 1u << 2, elsewhere = 1u << 3;

	return (bits & GIT_DIR_HEAD) && ((bits & own) == own || (bits & elsewhere));
}

/* Length of a character that HFS+ leaves out when it compares names, else 0. */
static size_t hfs_ignored(const unsigned char *s)
{
	if (s[0] == 0xe2 && s[1] == 0x80 &&
		((s[2] >= 0x8c && s[2] <= 0x8f) || (s[2] >= 0xaa && s[2] <= 0xae)))
		return 3; /* U+200C-200F, U+202A-202E */
	if (s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xaa && s[2] <= 0xaf)
		return 3; /* U+206A-206F */
	if (s[0] == 0xef && s[1] == 0xbb && s[2] == 0xbf)
		return 3; /* U+FEFF */
	return 0;
}

static bool hfs_is_git(const char *name, size_t n)
{
	static const char want[] = ".git";
	size_t at = 0;

	for (size_t i = 0; i < n;) {
		unsigned char three[3] = {(unsigned char)name[i],
			i + 1 < n ? (unsigned char)name[i + 1] : 0,
			i + 2 < n ? (unsigned char)name[i + 2] : 0};
		size_t skip = hfs_ignored(three);

		if (skip) {
			i += skip;
			continue;
		}
		if (at >= sizeof(want) - 1 || lower(name[i]) != want[at])
			return false;
		at++;
		i++;
	}
	return at == sizeof(want) - 1;
}

/* ".git" or "git~1", then only blanks and dots, or a colon that names a stream. */
static bool ntfs_is_git(const char *name, size_t n)
{
	char head[6] = {0};
	size_t i;

	for (i = 0; i < 5 && i < n; i++)
		head[i] = lower(name[i]);
	if (memcmp(head, ".git", 4) == 0)
		i = 4;
	else if (!(memcmp(head, "git~", 4) == 0 && head[4] >= '1' && head[4] <= '9'))
		return false;
	for (; i < n && name[i] != ':'; i++)
		if (name[i] != ' ' && name[i] != '.')
			return false;
	return true;
}

bool name_is_git(const char *name)
{
	for (;;) {
		size_t n = strcspn(name, "\\"); /* a separator elsewhere */

		if (hfs_is_git(name, n) || ntfs_is_git(name, n))
			return true;
		if (!name[n])
			return false;
		name += n + 1;
	}
}

/*
 * Leading ".." climb through real directories, so counting them is exact. A ".." after a name is
 * not: the name may be a symlink to a shallower place, from which ".." leads out. No such target is
 * needed by anybody, so none passes.
 */
bool link_escapes(const char *path, const char *target)
{
	size_t depth = 0;
	bool named = false;

	for (const char *p = path; (p = strchr(p, '/')); p++)
		depth++;
	if (target[0] == '/' || !target[0])
		return true;
	for (const char *p = target; *p;) {
		size_t n = strcspn(p, "/");
		char part[256];

		if (n >= sizeof(part))
			return true;
		memcpy(part, p, n);
		part[n] = '\0';
		p += n;
		p += strspn(p, "/");
		if (n == 0 || str_eq(part, "."))
			continue;
		if (str_eq(part, "..")) {
			if (named || depth == 0)
				return true;
			depth--;
			continue;
		}
		if (name_is_git(part))
			return true;
		named = true;
	}
	return false;
}

char *path_join(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), slash = n && m ? 1 : 0;
	char *p = malloc(n + slash + m + 1);

	if (!p)
		return NULL;
	memcpy(p, a, n);
	if (slash)
		p[n] = '/';
	memcpy(p + n + slash, b, m + 1);
	return p;
}
