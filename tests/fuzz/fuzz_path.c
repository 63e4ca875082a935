/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a path, and as a pattern with a path to match (separated by a newline). Beyond not
 * crashing: normalising is idempotent and leaves nothing to normalise, an accepted rule path
 * survives being read again, and the three questions about patterns agree with each other.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "must.h"
#include "policy/policy_impl.h"

static const struct policy_context ctxs[] = {{.home = "/home/u", .workspace = "/home/u/w"},
	{.home = "/h*", .workspace = "/w[a]\\?/x"}, {.home = "/", .workspace = "/"}};

static void check_normal(const char *p)
{
	MUST(p[0] == '/');
	MUST(!strstr(p, "//") && !strstr(p, "/./") && !strstr(p, "/../"));
	MUST(!str_ends(p, "/.") && !str_ends(p, "/.."));
	MUST(!p[1] || p[strlen(p) - 1] != '/');
	MUST(strlen(p) < POLICY_PATH_MAX);
}

static void check_path(const char *s)
{
	cleanup_free char *a = NULL, *b = NULL;
	struct err e = ERR_INIT;

	if (policy_path_normalise(&a, s, &e) < 0) {
		MUST(e.msg[0]);
		return;
	}
	check_normal(a);
	MUST(policy_path_normalise(&b, a, &e) == 0 && str_eq(a, b));
}

static void check_matching(const char *pattern, bool glob, const char *path)
{
	cleanup_free char *base = policy_glob_base(pattern);
	cleanup_free char *full = NULL;
	unsigned depth = 0;
	struct err e = ERR_INIT;
	bool covers;

	MUST(base && base[0] == '/');
	if (policy_path_normalise(&full, path, &e) < 0)
		return;
	covers = policy_glob_covers(pattern, full, &depth);
	if (policy_glob_match(pattern, full)) {
		MUST(covers && depth <= path_depth(full));
		MUST(glob_reaches(pattern, full));
		MUST(!glob || path_within(base, full) || policy_has_glob(base));
	}
	if (covers)
		MUST(depth <= path_depth(full));
}

static void check_rule(const char *text, const char *path, const struct policy_context *ctx)
{
	cleanup_free char *a = NULL;
	bool glob = false;
	struct err e = ERR_INIT;

	if (policy_pattern_expand(&a, &glob, text, ctx, &e) < 0) {
		MUST(e.msg[0] && e.kind == ERR_INVALID);
		return;
	}
	check_normal(a);
	if (glob) {
		MUST(!glob_check(a));
		check_matching(a, glob, path);
		check_matching(a, glob, a);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = strndup((const char *)data, size);
	cleanup_free char *plain = NULL;
	struct err e = ERR_INIT;
	char *path;

	MUST(text);
	check_path(text);
	path = strchr(text, '\n');
	if (path)
		*path++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(ctxs); i++)
		check_rule(text, path ? path : "/home/u/w/a/b", &ctxs[i]);
	if (policy_path_expand(&plain, text, &ctxs[0], &e) == 0)
		check_normal(plain);
	if (path)
		check_path(path);
	return 0;
}
