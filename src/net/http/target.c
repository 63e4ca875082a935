/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's path and query in the one spelling that is judged and forwarded.
 *
 * Trust: hostile text. Servers differ in how they undo escapes, so whatever two of them could read
 *        as two different paths is refused here rather than guessed at.
 */
#include "net/http/fields.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

enum path_char {
	PATH_BAD,    /* control, non-ASCII, backslash, '#' */
	PATH_KEEP,   /* unreserved, sub-delimiters, ':' and '@', '/' */
	PATH_ESCAPE, /* '%' */
	PATH_ENCODE, /* printable, but not of a path */
};

static const unsigned char path_chars[256] = {['a' ... 'z'] = PATH_KEEP,
	['A' ... 'Z'] = PATH_KEEP,
	['0' ... '9'] = PATH_KEEP,
	['/'] = PATH_KEEP,
	[':'] = PATH_KEEP,
	[';'] = PATH_KEEP,
	['-'] = PATH_KEEP,
	['.'] = PATH_KEEP,
	['_'] = PATH_KEEP,
	['~'] = PATH_KEEP,
	['!'] = PATH_KEEP,
	['$'] = PATH_KEEP,
	['&'] = PATH_KEEP,
	['\''] = PATH_KEEP,
	['('] = PATH_KEEP,
	[')'] = PATH_KEEP,
	['*'] = PATH_KEEP,
	['+'] = PATH_KEEP,
	[','] = PATH_KEEP,
	['='] = PATH_KEEP,
	['@'] = PATH_KEEP,
	['%'] = PATH_ESCAPE,
	['"'] = PATH_ENCODE,
	['<'] = PATH_ENCODE,
	['>'] = PATH_ENCODE,
	['['] = PATH_ENCODE,
	[']'] = PATH_ENCODE,
	['^'] = PATH_ENCODE,
	['`'] = PATH_ENCODE,
	['{'] = PATH_ENCODE,
	['|'] = PATH_ENCODE,
	['}'] = PATH_ENCODE};

/* The byte that p[0..n) begins with as "%XX", or -1. */
static int escaped_byte(const char *p, size_t n)
{
	if (n < 3 || p[0] != '%' || hex_digit(p[1]) < 0 || hex_digit(p[2]) < 0)
		return -1;
	return hex_digit(p[1]) * 16 + hex_digit(p[2]);
}

static bool unreserved(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

/* Bytes that change what a path means when a server undoes an escape once more. */
static bool meaningful(int c)
{
	return c == '.' || c == '/' || c == '\\' || c == ';' || c == '%' || (c >= 0 && c < 0x20) ||
	       c == 0x7f;
}

struct path {
	const char *in;
	size_t n, at; /* at: the next character to read */
	char *out;
	size_t len;
	bool keep_slash;
};

static void path_encode(struct path *p, unsigned char c)
{
	static const char hex[] = "0123456789ABCDEF";

	p->out[p->len++] = '%';
	p->out[p->len++] = hex[c >> 4];
	p->out[p->len++] = hex[c & 15];
}

/* "%2F" where package managers put it: the segment is "@scope%2Fname". */
static bool scope_slash(const struct path *p)
{
	const char *slash = memrchr(p->out, '/', p->len);
	size_t from = slash ? (size_t)(slash - p->out) + 1 : 0;

	return p->len - from >= 2 && p->out[from] == '@' && p->at + 3 < p->n &&
	       p->in[p->at + 3] != '/';
}

/* A well-formed UTF-8 character, all of it escaped. */
static const struct http_problem *path_utf8(struct path *p)
{
	char raw[4];
	size_t n = 0, len;

	while (n < sizeof(raw)) {
		int c = escaped_byte(p->in + p->at + 3 * n, p->n - p->at - 3 * n);

		if (c < 0x80)
			break;
		raw[n++] = (char)c;
	}
	len = utf8_len(raw, n);
	if (!len)
		return HTTP_PROBLEM(400, "the path has ill-formed UTF-8");
	for (size_t i = 0; i < len; i++)
		path_encode(p, (unsigned char)raw[i]);
	p->at += 3 * len;
	return NULL;
}

static const struct http_problem *path_escape(struct path *p)
{
	int c = escaped_byte(p->in + p->at, p->n - p->at);

	if (c < 0)
		return HTTP_PROBLEM(400, "the path has a bad percent escape");
	if (c >= 0x80)
		return path_utf8(p);
	if (c == '/' && p->keep_slash)
		path_encode(p, '/');
	else if (c == '/' && scope_slash(p))
		p->out[p->len++] = '/';
	else if (c == '/')
		return HTTP_PROBLEM(
			400, "the path has an encoded slash, which servers read differently");
	else if (c == '\\' || c < 0x20 || c == 0x7f)
		return HTTP_PROBLEM(400, "the path has an encoded backslash or control character");
	else if (unreserved(c) || c == '@')
		p->out[p->len++] = (char)c;
	else
		path_encode(p, (unsigned char)c);
	p->at += 3;
	return NULL;
}

/* p->out has room for three times what is read. */
static const struct http_problem *path_read(struct path *p)
{
	while (p->at < p->n) {
		const struct http_problem *problem;
		unsigned char c = (unsigned char)p->in[p->at];

		switch ((enum path_char)path_chars[c]) {
		case PATH_KEEP:
			p->out[p->len++] = (char)c;
			p->at++;
			break;
		case PATH_ENCODE:
			path_encode(p, c);
			p->at++;
			break;
		case PATH_ESCAPE:
			problem = path_escape(p);
			if (problem)
				return problem;
			break;
		case PATH_BAD:
			return HTTP_PROBLEM(400, "the path has characters that no path has");
		}
	}
	return NULL;
}

/* In what was written: an escape, the first character of which was escaped itself. */
static bool path_twice(const char *path, size_t n)
{
	for (size_t at = 0; at + 5 <= n; at++) {
		const char *mark = memchr(path + at, '%', n - 4 - at);

		if (!mark)
			return false;
		at = (size_t)(mark - path);
		if (mark[1] == '2' && mark[2] == '5' && hex_digit(mark[3]) >= 0 &&
			hex_digit(mark[4]) >= 0 &&
			meaningful(hex_digit(mark[3]) * 16 + hex_digit(mark[4])))
			return true;
	}
	return false;
}

/* "", "." and ".." are no segments, nor are they before ';' in any spelling. */
static const struct http_problem *path_segments(const char *path, size_t n)
{
	for (size_t at = 1; at <= n;) {
		const char *s = path + at, *slash = memchr(s, '/', n - at);
		size_t len = slash ? (size_t)(slash - s) : n - at, dots = 0;

		if (!len && slash)
			return HTTP_PROBLEM(400, "the path has an empty segment");
		while (dots < len && s[dots] == '.')
			dots++;
		if ((dots == 1 || dots == 2) && (dots == len || s[dots] == ';' ||
							escaped_byte(s + dots, len - dots) == ';'))
			return HTTP_PROBLEM(400, "the path has a dot segment");
		at += len + 1;
	}
	return NULL;
}

/* With "%2F" kept: would it be a proper path, too, for a server that undoes it? */
static const struct http_problem *path_segments_undone(struct path *p)
{
	char *plain = p->out + p->len + 1; /* room for it was made */
	size_t n = 0;

	for (size_t i = 0; i < p->len; i++) {
		bool slash = p->len - i >= 3 && memcmp(p->out + i, "%2F", 3) == 0;

		plain[n++] = slash ? '/' : p->out[i];
		i += slash ? 2 : 0;
	}
	return path_segments(plain, n);
}

/* Nothing of it is judged: what cannot be in a request line is all that is refused. */
static const struct http_problem *as_sent(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] <= 0x20 || p[i] == 0x7f || p[i] == '#')
			return HTTP_PROBLEM(400, "the target has characters that no target has");
	return NULL;
}

static const struct http_problem *path_judged(struct path *p)
{
	const struct http_problem *problem = path_read(p);

	if (!problem && p->len > HTTP_PATH_MAX)
		problem = HTTP_PROBLEM(414, "the path is too long");
	if (!problem && path_twice(p->out, p->len))
		problem = HTTP_PROBLEM(400, "the path is percent-encoded twice");
	if (!problem && p->out[0] == '/')
		problem = path_segments(p->out, p->len);
	if (!problem && p->keep_slash)
		problem = path_segments_undone(p);
	return problem;
}

static const struct http_problem *query_check(const char *q, size_t n)
{
	if (n > HTTP_PATH_MAX)
		return HTTP_PROBLEM(414, "the query is too long");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)q[i];

		if (c <= 0x20 || c >= 0x7f || c == '#')
			return HTTP_PROBLEM(400, "the query has characters that no query has");
		if (c == '%' && escaped_byte(q + i, n - i) < 0)
			return HTTP_PROBLEM(400, "the query has a bad percent escape");
	}
	return NULL;
}

const struct http_problem *request_target(struct http_request *r, const char *target, size_t n)
{
	const char *mark = n ? memchr(target, '?', n) : NULL;
	size_t path_n = mark ? (size_t)(mark - target) : n;
	struct path p = {.in = target, .n = path_n};
	const struct http_problem *problem;
	size_t query_n;

	if (path_n > HTTP_PATH_MAX)
		return HTTP_PROBLEM(414, "the path is too long");
	if (n == 1 && target[0] == '*') {
		if (!str_eq(r->method, "OPTIONS"))
			return HTTP_PROBLEM(400, "only OPTIONS may ask about *");
	} else if (!path_n || target[0] != '/') {
		return HTTP_PROBLEM(400, "the target does not begin with /");
	}
	query_n = mark ? n - path_n - 1 : 0;
	p.keep_slash = r->form.path == NET_PATH_KEEP_SLASH;
	p.out = arena_text(&r->arena, (p.keep_slash ? 6 : 3) * path_n + 2 + query_n + 1);
	if (!p.out)
		return HTTP_PROBLEM(503, "out of memory");
	if (r->form.path == NET_PATH_AS_SENT) {
		problem = as_sent(target, path_n);
		memcpy(p.out, target, path_n);
		p.len = path_n;
	} else {
		problem = path_judged(&p);
	}
	if (!problem && query_n)
		problem = !r->form.query_as_sent    ? query_check(mark + 1, query_n)
			  : query_n > HTTP_PATH_MAX ? HTTP_PROBLEM(414, "the query is too long")
						    : as_sent(mark + 1, query_n);
	if (problem)
		return problem;
	r->path = p.out;
	r->path[p.len] = '\0';
	r->query = r->path + p.len + 1;
	if (query_n)
		memcpy(r->query, mark + 1, query_n);
	r->query[query_n] = '\0';
	return NULL;
}

bool request_reads_as(const struct http_request *r, struct net_target_form form)
{
	cleanup_buf struct buf target = BUF_INIT(4 * HTTP_PATH_MAX);
	struct http_request again;
	bool same;

	if (form.path >= r->form.path && form.query_as_sent >= r->form.query_as_sent)
		return true;
	request_init(&again);
	again.form = form;
	memcpy(again.method, r->method, sizeof(again.method));
	buf_addf(&target, "%s%s%s", r->path, r->query[0] ? "?" : "", r->query);
	same = !target.failed && !request_target(&again, buf_str(&target), target.len) &&
	       str_eq(again.path, r->path);
	request_done(&again);
	return same;
}
