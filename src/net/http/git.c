/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git over HTTP: which repository a request is about, and which refs a push changes.
 *
 * Trust: a push is judged by its command list and then forwarded as it came, so this must read the
 *        list as the server does. What the server might read otherwise is malformed here.
 */
#include "net/http/git.h"

#include <string.h>

#include "base/cleanup.h"

#define PKT_HEAD 4u
#define PKT_MAX 65520u

/* The path without `suffix`, or 0. */
static size_t before_suffix(const char *path, size_t n, const char *suffix)
{
	size_t m = strlen(suffix);

	return n > m && memcmp(path + n - m, suffix, m) == 0 ? n - m : 0;
}

/* Something of Git's that is not the smart protocol, or that only some servers take for it. */
static bool dumb_path(const char *path, size_t n)
{
	static const char *const suffixes[] = {"/HEAD", "/git-upload-archive",
		"/objects/info/packs", "/objects/info/alternates", "/objects/info/http-alternates"};

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (before_suffix(path, n, suffixes[i]))
			return true;
	return strstr(path, "/info/lfs/") || strstr(path, ".git/objects/") ||
	       strcasestr(path, "/git-receive-pack") || strcasestr(path, "/git-upload-pack") ||
	       strcasestr(path, "/info/refs");
}

/* "/owner/name.git" to "owner/name". */
static bool repo_name(const char *path, size_t n, char *ret_repo, size_t repo_max)
{
	if (n < 2 || path[0] != '/' || path[n - 1] == '/')
		return false;
	path++;
	n--;
	if (n > 4 && memcmp(path + n - 4, ".git", 4) == 0)
		n -= 4;
	if (path[n - 1] == '/' || n >= repo_max)
		return false;
	memcpy(ret_repo, path, n);
	ret_repo[n] = '\0';
	return true;
}

enum git_what git_classify(
	const char *method, const char *path, const char *query, char *ret_repo, size_t repo_max)
{
	size_t n = strlen(path), repo_n;
	enum git_what what = GIT_OTHER;

	if ((repo_n = before_suffix(path, n, "/info/refs"))) {
		if (!str_eq(method, "GET"))
			return GIT_OTHER;
		/*
		 * Exactly this: a second `service` would leave it to the server which one counts.
		 */
		if (str_eq(query, "service=git-upload-pack"))
			what = GIT_FETCH;
		else if (str_eq(query, "service=git-receive-pack"))
			what = GIT_PUSH;
	} else if ((repo_n = before_suffix(path, n, "/git-upload-pack"))) {
		what = GIT_FETCH;
	} else if ((repo_n = before_suffix(path, n, "/git-receive-pack"))) {
		what = GIT_PUSH;
	} else {
		return dumb_path(path, n) ? GIT_OTHER : GIT_NOT;
	}
	if (what == GIT_OTHER)
		return GIT_OTHER;
	if (!before_suffix(path, n, "/info/refs") && (!str_eq(method, "POST") || query[0]))
		return GIT_OTHER;
	return repo_name(path, repo_n, ret_repo, repo_max) ? what : GIT_OTHER;
}

void git_commands_init(struct git_commands *g)
{
	*g = (struct git_commands){
		.head = BUF_INIT(GIT_COMMANDS_MAX_B), .refs = STRLIST_INIT(GIT_REFS_MAX)};
}

void git_commands_done(struct git_commands *g)
{
	buf_done(&g->head);
	strlist_done(&g->refs);
	g->done = false;
	g->at = 0;
}

/* Length of a pkt-line from its four digits, or -1. */
static int pkt_length(const char *p)
{
	int v = 0;

	for (size_t i = 0; i < PKT_HEAD; i++) {
		char c = p[i];
		int d = c >= '0' && c <= '9'   ? c - '0'
			: c >= 'a' && c <= 'f' ? c - 'a' + 10
			: c >= 'A' && c <= 'F' ? c - 'A' + 10
					       : -1;

		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

/* Digits of an object name at p: 40 or 64, followed by a blank; 0: neither. */
static size_t oid_length(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && ((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
		i++;
	return (i == 40 || i == 64) && i < n && p[i] == ' ' ? i : 0;
}

/* As git itself wants ref names, and always below refs/. */
static bool ref_good(const char *ref, size_t n)
{
	if (n < 6 || memcmp(ref, "refs/", 5) != 0 || !utf8_valid(ref, n))
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)ref[i];
		unsigned char next = i + 1 < n ? (unsigned char)ref[i + 1] : '/';

		if (c <= 0x20 || c == 0x7f || strchr("~^:?*[\\", c))
			return false;
		if ((c == '.' && (next == '.' || next == '/')) || (c == '@' && next == '{'))
			return false;
		if (c == '/' && (next == '/' || next == '.'))
			return false;
	}
	return !(n >= 5 && memcmp(ref + n - 5, ".lock", 5) == 0);
}

/* "old new ref", perhaps with NUL and capabilities, or "shallow oid". */
static bool command_read(struct git_commands *g, const char *p, size_t n)
{
	const char *nul;
	size_t oid;

	if (n && p[n - 1] == '\n')
		n--;
	if (n > 8 && memcmp(p, "shallow ", 8) == 0) {
		for (size_t i = 8; i < n; i++)
			if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
				return false;
		return n == 8 + 40 || n == 8 + 64;
	}
	oid = oid_length(p, n);
	if (!oid || n < 2 * oid + 2 || oid_length(p + oid + 1, n - oid - 1) != oid)
		return false;
	p += 2 * oid + 2;
	n -= 2 * oid + 2;
	nul = memchr(p, '\0', n);
	if (nul)
		n = (size_t)(nul - p);
	return ref_good(p, n) && strlist_addn(&g->refs, p, n);
}

/* How many bytes the current pkt-line lacks; 0: it is complete; -1: malformed. */
static long pkt_lacks(const struct git_commands *g)
{
	size_t have = g->head.len - g->at;
	int len;

	if (have < PKT_HEAD)
		return (long)(PKT_HEAD - have);
	len = pkt_length(g->head.data + g->at);
	if (len < 0 || (len > 0 && len <= (int)PKT_HEAD) || len > (int)PKT_MAX)
		return -1;
	return len > (int)have ? len - (long)have : 0;
}

int git_commands_read(struct git_commands *g, const char *p, size_t n, size_t *ret_used)
{
	*ret_used = 0;
	while (!g->done) {
		long lacks = pkt_lacks(g);
		size_t take = lacks > 0 ? MIN_OF((size_t)lacks, n - *ret_used) : 0, len;

		if (lacks < 0)
			return -1;
		if (lacks > 0 && !take)
			return 0;
		if (take) {
			buf_add(&g->head, p + *ret_used, take);
			if (g->head.failed)
				return -1;
			*ret_used += take;
			continue;
		}
		len = (size_t)pkt_length(g->head.data + g->at);
		g->done = len == 0;
		if (len && !command_read(g, g->head.data + g->at + PKT_HEAD, len - PKT_HEAD))
			return -1;
		g->at += len ? len : PKT_HEAD;
	}
	return 1;
}
