/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the command list of a push, and as method, path and query. The list means the same
 * however it is cut, is taken over unchanged, and holds only ref names that cannot be mistaken for
 * patterns or paths.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "must.h"
#include "net/http/git.h"

static int read_all(struct git_commands *g, const char *p, size_t n, size_t step, size_t *ret_used)
{
	size_t at = 0, used;
	int got = 0;

	while (got == 0 && at < n) {
		size_t piece = MIN_OF(step, n - at);

		got = git_commands_read(g, p + at, piece, &used);
		MUST(used <= piece && (got != 0 || used == piece));
		at += used;
	}
	*ret_used = at;
	return got;
}

static void check_refs(const struct git_commands *g)
{
	for (size_t i = 0; i < g->refs.n; i++) {
		const char *ref = g->refs.v[i];

		MUST(str_starts(ref, "refs/") && !strpbrk(ref, " *?[\\~^:\n\t") &&
			!strstr(ref, ".."));
		MUST(!strstr(ref, "//") && !str_ends(ref, "/") && utf8_valid(ref, strlen(ref)));
	}
}

static void check_commands(const char *p, size_t n)
{
	struct git_commands a, b;
	size_t used_a, used_b;
	int one, other;

	git_commands_init(&a);
	git_commands_init(&b);
	one = read_all(&a, p, n, n ? n : 1, &used_a);
	other = read_all(&b, p, n, 1, &used_b);
	MUST(one == other);
	if (one == 1) {
		MUST(used_a == used_b && a.head.len == used_a &&
			memcmp(a.head.data, p, used_a) == 0);
		MUST(a.refs.n == b.refs.n);
		check_refs(&a);
	}
	git_commands_done(&a);
	git_commands_done(&b);
}

static void check_classify(const char *p, size_t n)
{
	cleanup_free char *text = strndup(p, n);
	char *path, *query, repo[64] = "";
	enum git_what what;

	MUST(text);
	path = strchr(text, ' ');
	if (!path)
		return;
	*path++ = '\0';
	query = strchr(path, '?');
	if (query)
		*query++ = '\0';
	what = git_classify(text, path, query ? query : "", repo, sizeof(repo));
	MUST((what == GIT_FETCH || what == GIT_PUSH) == (repo[0] != '\0'));
	if (repo[0])
		MUST(path[0] == '/' && str_starts(path + 1, repo) && !str_ends(repo, "/"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_commands((const char *)data, size);
	check_classify((const char *)data, size);
	return 0;
}
