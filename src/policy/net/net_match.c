/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a rule that leads to the right place match the request? What cannot be seen clearly (a query
 * that does not parse, refs that are not known yet) matches a deny and does not match a grant.
 */
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

/* ---- query strings ---- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decoding and '+' as a blank; false when it is malformed. */
static bool decode(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] != '%') {
			buf_addc(out, s[i] == '+' ? ' ' : s[i]);
			continue;
		}
		if (n - i < 3 || hex(s[i + 1]) < 0 || hex(s[i + 2]) < 0)
			return false;
		buf_addc(out, (char)(hex(s[i + 1]) * 16 + hex(s[i + 2])));
		i += 2;
	}
	return !out->failed;
}

struct seen {
	bool any, all, unclear; /* some value matches, every one does, it cannot be told */
};

/* What the values of one parameter are, however they are spelled. */
static struct seen query_look(const struct net_query *q, const char *query)
{
	cleanup_buf struct buf name = BUF_INIT(16u << 10), value = BUF_INIT(16u << 10);
	struct seen seen = {.all = true};
	bool there = false;

	if (strchr(query, ';')) /* a separator for some servers, a character for others */
		seen.unclear = true;
	while (*query) {
		size_t n = strcspn(query, "&");
		const char *eq = memchr(query, '=', n);
		size_t k = eq ? (size_t)(eq - query) : n;

		buf_reset(&name);
		buf_reset(&value);
		if (!decode(&name, query, k) || (eq && !decode(&value, eq + 1, n - k - 1))) {
			seen.unclear = true;
		} else if (name.len == strlen(q->name) &&
			   memcmp(buf_str(&name), q->name, name.len) == 0) {
			bool is = net_wild(
				q->pattern, strlen(q->pattern), buf_str(&value), value.len);

			there = true;
			seen.any = seen.any || is;
			seen.all = seen.all && is;
		}
		query += n + (query[n] == '&');
	}
	seen.all = seen.all && there;
	return seen;
}

static bool query_ok(const struct net_rule *r, const char *query)
{
	for (size_t i = 0; i < r->query_n; i++) {
		struct seen s = query_look(&r->query[i], query);

		if (r->effect == NET_DENY ? !(s.any || s.unclear) : !s.all || s.unclear)
			return false;
	}
	return true;
}

/* ---- does a rule match a request ---- */

bool net_listed(const char *const *v, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i], s))
			return true;
	return n == 0;
}

bool net_path_listed(const char *const *v, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (net_path_matches(v[i], path))
			return true;
	return n == 0;
}

/*
 * For denies: servers differ in what else they take for this path. Parameters behind ';' are
 * dropped from each segment, and a slash at the end; letters match in either case.
 */
static bool path_denied(const char *const *v, size_t n, const char *path)
{
	cleanup_buf struct buf plain = BUF_INIT(16u << 10);

	if (n == 0 || net_path_listed(v, n, path))
		return true;
	for (size_t i = 0; path[i];) {
		bool params = path[i] == ';' || strncmp(path + i, "%3B", 3) == 0;

		if (params) {
			i += strcspn(path + i, "/");
		} else if (strncmp(path + i, "%2F", 3) == 0) { /* encoded-slash: keep */
			buf_addc(&plain, '/');
			i += 3;
		} else {
			buf_addc(&plain, path[i++]);
		}
	}
	if (plain.failed)
		return true;
	for (int slash = 0; slash < 2; slash++) {
		const char *text = buf_str(&plain);

		for (size_t i = 0; i < n; i++)
			if (v[i][0] == '/' && text[0] == '/' &&
				net_segments_match(v[i] + 1, text + 1, true))
				return true;
		if (plain.len < 2 || plain.data[plain.len - 1] != '/')
			break;
		plain.data[--plain.len] = '\0';
	}
	return false;
}

static bool repo_listed(const struct net_rule *r, const char *repo)
{
	for (size_t i = 0; i < r->repos_n; i++)
		if (net_segments_match(r->repos[i], repo, r->effect == NET_DENY))
			return true;
	return r->repos_n == 0;
}

static bool ref_listed(const struct net_rule *r, const char *ref)
{
	for (size_t i = 0; i < r->refs_n; i++)
		if (net_segments_match(r->refs[i], ref, false))
			return true;
	return r->refs_n == 0;
}

/* Before the refs of a push are known, only its advertisement may pass. */
static bool refs_allowed(const struct net_rule *r, const struct net_request *q)
{
	if (r->refs_n == 0)
		return true;
	if (!q->git_refs)
		return str_eq(q->method, "GET");
	for (size_t i = 0; i < q->git_refs_n; i++)
		if (!ref_listed(r, q->git_refs[i]))
			return false;
	return true;
}

static bool refs_denied(const struct net_rule *r, const struct net_request *q)
{
	if (r->refs_n == 0)
		return true;
	if (!q->git_refs)
		return !str_eq(q->method, "GET");
	for (size_t i = 0; i < q->git_refs_n; i++)
		if (ref_listed(r, q->git_refs[i]))
			return true;
	return false;
}

/* NULL when the request is within the rule, else what is not. */
static const char *git_outside(const struct net_rule *r, const struct net_request *q)
{
	if (!q->git_repo)
		return "is not Git's smart protocol, which is all that mode git carries";
	if (!repo_listed(r, q->git_repo))
		return "is about a repository that is not listed under repos";
	if (q->git_push && !r->push)
		return "is a push, and the rule allows fetching only";
	if (q->git_push && !refs_allowed(r, q))
		return "pushes to a ref that is not listed under refs";
	return NULL;
}

const char *net_rule_outside(const struct net_rule *r, const struct net_request *q)
{
	const char *why;

	if (!net_mode_inspects(r->mode))
		return "came where nothing is inspected";
	if (!q->tls && q->port != 80 && !r->plaintext)
		return "is not encrypted; plaintext: true would allow that";
	if (q->upgrade_ws && r->mode != NET_WS)
		return "asks for a WebSocket, which needs mode ws";
	if (!net_listed(r->methods, r->methods_n, q->method))
		return "has a method that is not listed";
	if (!net_path_listed(r->paths, r->paths_n, q->path))
		return "has a path that is not listed";
	if (!query_ok(r, q->query))
		return "has a query that the rule does not allow";
	if (r->mode == NET_REGISTRY && !str_eq(q->method, "GET") && !str_eq(q->method, "HEAD"))
		return "is not GET or HEAD, which is all that mode registry carries";
	if (r->mode == NET_REGISTRY && q->has_body)
		return "has a body, which mode registry does not carry";
	if (r->mode == NET_GIT && (why = git_outside(r, q)))
		return why;
	return NULL;
}

bool net_rule_denies(const struct net_rule *r, const struct net_request *q)
{
	if (!net_listed(r->methods, r->methods_n, q->method) ||
		!path_denied(r->paths, r->paths_n, q->path) || !query_ok(r, q->query))
		return false;
	if (r->mode != NET_GIT)
		return true;
	/* Which repository, and whether it is a push, only the server knows. */
	if (q->git_unclear)
		return !r->push || strcasestr(q->path, "git-receive-pack");
	return q->git_repo && repo_listed(r, q->git_repo) && (!r->push || q->git_push) &&
	       (!q->git_push || refs_denied(r, q));
}
