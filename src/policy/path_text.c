/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths as written in a policy become absolute and normalised, by text alone.
 *
 * Trust:   the text is anyone's. What is ambiguous (relative to what?, whose home?, a ".." after a
 *          wildcard) is an error, never a guess.
 * Limits:  POLICY_PATH_MAX bytes including the NUL, before and after expansion.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy_impl.h"

#define SHOWN_MAX 256 /* bytes of a path that an error repeats */

static int path_bad(struct err *e, const char *path, const char *why)
{
	cleanup_buf struct buf b = BUF_INIT(SHOWN_MAX * 8);
	size_t n = strlen(path);

	str_show(&b, path, MIN_OF(n, SHOWN_MAX));
	if (n > SHOWN_MAX)
		buf_adds(&b, "...");
	return err_invalid(e, "\"%s\" %s", buf_str(&b), why);
}

/*
 * Append the components of `in` to out[0..n), which is normalised and has no trailing slash. ".."
 * removes the last one; behind a wildcard it is ambiguous. Returns the new length, or -1 for that.
 * `out` has room for all of `in` and one more byte.
 */
static long append(char *out, size_t n, const char *in, bool pattern)
{
	while (*in) {
		const char *start;
		size_t len;

		while (*in == '/')
			in++;
		for (start = in; *in && *in != '/';)
			in++;
		len = (size_t)(in - start);
		if (len == 0 || (len == 1 && start[0] == '.'))
			continue;
		if (len == 2 && start[0] == '.' && start[1] == '.') {
			while (n > 0 && out[--n] != '/')
				if (pattern && strchr("*?[", out[n]))
					return -1;
			continue;
		}
		out[n++] = '/';
		memcpy(out + n, start, len);
		n += len;
	}
	if (n == 0)
		out[n++] = '/';
	out[n] = '\0';
	return (long)n;
}

int policy_path_normalise(char **ret, const char *path, struct err *e)
{
	char *s;

	if (path[0] != '/')
		return path_bad(e, path, "is not an absolute path");
	if (strlen(path) >= POLICY_PATH_MAX)
		return path_bad(e, path, "is longer than 4095 bytes");
	s = malloc(strlen(path) + 2);
	if (!s)
		return err_set(e, ENOMEM, "normalise a path");
	append(s, 0, path, false);
	*ret = s;
	return 0;
}

static int path_check_text(const char *path, struct err *e)
{
	size_t n = strlen(path);

	if (n == 0)
		return err_invalid(e, "a path is empty");
	if (n >= POLICY_PATH_MAX)
		return path_bad(e, path, "is longer than 4095 bytes");
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)path[i] < 0x20 || path[i] == 0x7f)
			return path_bad(e, path, "holds a control character");
	if (!utf8_valid(path, n))
		return path_bad(e, path, "is not UTF-8");
	return 0;
}

/* What stands before the rest of the text: home, workspace, or nothing. */
static int path_prefix(const char **ret_prefix, const char **ret_rest, const char *path,
	const struct policy_context *ctx, struct err *e)
{
	if (path[0] == '/') {
		*ret_prefix = "";
		*ret_rest = path;
		return 0;
	}
	if (path[0] == '~' && (path[1] == '/' || !path[1])) {
		*ret_prefix = ctx->home;
		*ret_rest = path + 1;
		return 0;
	}
	if (path[0] == '.' && (path[1] == '/' || !path[1])) {
		*ret_prefix = ctx->workspace;
		*ret_rest = path + 1;
		return 0;
	}
	if (path[0] == '~')
		return path_bad(e, path,
			"names another user's home, which is not supported; write the absolute "
			"path");
	return path_bad(e, path,
		"is relative; write ./path for the workspace, ~/path for the home directory, or "
		"/path");
}

#define EXPANDED_MAX (4 * POLICY_PATH_MAX)

/* The prefix is a plain path, so inside a pattern its own characters are escaped. */
static size_t put_prefix(char *out, const char *prefix, bool pattern)
{
	size_t n = 0;

	if (prefix[0] == '/' && !prefix[1])
		return 0;
	for (; *prefix && n < 2 * POLICY_PATH_MAX; prefix++) {
		if (pattern && strchr("*?[]\\", *prefix))
			out[n++] = '\\';
		out[n++] = *prefix;
	}
	return n;
}

/* Into out[EXPANDED_MAX]; returns the length, less than POLICY_PATH_MAX, or -errno. */
static long expand(
	char *out, const char *path, bool pattern, const struct policy_context *ctx, struct err *e)
{
	const char *prefix = "", *rest = path;
	long n;
	int r = path_check_text(path, e);

	if (r == 0)
		r = path_prefix(&prefix, &rest, path, ctx, e);
	if (r < 0)
		return r;
	n = append(out, put_prefix(out, prefix, pattern), rest, pattern);
	if (n < 0)
		return path_bad(e, path, "has \"..\" after a wildcard");
	if (n >= (long)POLICY_PATH_MAX)
		return path_bad(e, path, "is longer than 4095 bytes when expanded");
	return n;
}

int policy_path_expand(
	char **ret, const char *path, const struct policy_context *ctx, struct err *e)
{
	char out[EXPANDED_MAX];
	long n = expand(out, path, false, ctx, e);
	char *s;

	if (n < 0)
		return (int)n;
	s = strndup(out, (size_t)n);
	if (!s)
		return err_set(e, ENOMEM, "expand a path");
	*ret = s;
	return 0;
}

/* Wildcards that are not escaped. */
static bool has_wildcard(const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' && s[1])
			s++;
		else if (*s == '*' || *s == '?' || *s == '[')
			return true;
	}
	return false;
}

int pattern_expand(struct arena *a, const char **ret, bool *ret_glob, const char *text,
	const struct policy_context *ctx, struct err *e)
{
	bool pattern = policy_has_glob(text), glob = false;
	char out[EXPANDED_MAX];
	const char *why;
	long n;

	if (pattern) {
		why = glob_check(text);
		if (why)
			return path_bad(e, text, why);
		glob = has_wildcard(text);
	}
	n = expand(out, text, pattern, ctx, e);
	if (n < 0)
		return (int)n;
	if (pattern && !glob)
		glob_unescape(out);
	*ret = arena_dup(a, out);
	*ret_glob = glob;
	return *ret ? 0 : err_set(e, ENOMEM, "expand a path");
}

int policy_pattern_expand(char **ret, bool *ret_glob, const char *text,
	const struct policy_context *ctx, struct err *e)
{
	struct arena a = {0};
	const char *s = NULL;
	int r = pattern_expand(&a, &s, ret_glob, text, ctx, e);

	if (r == 0) {
		*ret = strdup(s);
		if (!*ret)
			r = err_set(e, ENOMEM, "expand a path");
	}
	arena_done(&a);
	return r;
}

void policy_path_literal(struct buf *out, const char *path)
{
	bool pattern = policy_has_glob(path);

	for (; *path; path++) {
		if (pattern && strchr("*?[]\\", *path))
			buf_addc(out, '\\');
		buf_addc(out, *path);
	}
}

bool policy_path_option(struct buf *out, const char *option, const char *path)
{
	cleanup_buf struct buf literal = BUF_INIT(2 * POLICY_PATH_MAX), word = BUF_INIT(16384);
	struct err ignored = ERR_INIT;

	policy_path_literal(&literal, path);
	if (path[0] != '/' || path_check_text(buf_str(&literal), &ignored) < 0 ||
		!str_shell(&word, buf_str(&literal), literal.len) || word.failed)
		return false;
	buf_addf(out, "%s %s", option, buf_str(&word));
	return true;
}

unsigned path_depth(const char *path)
{
	unsigned n = 0;

	for (; *path; path++)
		n += path[0] == '/' && path[1] && path[1] != '/';
	return n;
}

bool path_within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	if (n == 1 && dir[0] == '/')
		return path[0] == '/';
	return strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]);
}
