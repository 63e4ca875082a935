/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internal form of requests and responses: made whole, or refused.
 *
 * Order:   Connection is read first, because it may name other headers; then one pass over all
 *          fields takes out what belongs to this hop and to framing and keeps the rest in the order
 *          it came.
 * Failure: a problem leaves a message that must only be given to *_done().
 */
#include "net/http/request.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/fields.h"
#include "net/http/git.h"

#define HTTP_ADDR_TEXT_MAX 64u

void request_init(struct http_request *r)
{
	*r = (struct http_request){0};
}

void request_done(struct http_request *r)
{
	for (struct arena_block *b = r->wipe ? r->arena.head : NULL; b; b = b->next)
		explicit_bzero(b->data, b->used);
	arena_done(&r->arena);
	request_init(r);
}

void response_init(struct http_response *r)
{
	*r = (struct http_response){0};
}

void response_done(struct http_response *r)
{
	arena_done(&r->arena);
	response_init(r);
}

const struct http_problem *request_method(struct http_request *r, const char *text, size_t n)
{
	if (!n || n > HTTP_METHOD_MAX)
		return HTTP_PROBLEM(400, "the method is empty or too long");
	for (size_t i = 0; i < n; i++) {
		if ((text[i] < 'A' || text[i] > 'Z') && (text[i] != '-' || i == 0))
			return HTTP_PROBLEM(400, "the method has characters other than A-Z and -");
	}
	memcpy(r->method, text, n);
	r->method[n] = '\0';
	if (str_eq(r->method, "TRACE") || str_eq(r->method, "TRACK"))
		return HTTP_PROBLEM(405, "TRACE is not carried: it echoes credentials");
	if (str_eq(r->method, "CONNECT"))
		return HTTP_PROBLEM(501, "CONNECT within a connection is not carried");
	if (str_eq(r->method, "PRI"))
		return HTTP_PROBLEM(505, "HTTP/2 without TLS is not spoken here");
	return NULL;
}

bool http_length(uint64_t *ret, const char *text, size_t n)
{
	uint64_t v = 0;

	if (!n || n > 19)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(text[i] - '0'); /* 19 digits fit */
	}
	if (v > HTTP_LENGTH_MAX)
		return false;
	*ret = v;
	return true;
}

struct authority {
	char host[NET_NAME_MAX + 1];
	uint16_t port;
};

static bool authority_port(struct authority *a, const char *text, size_t n)
{
	uint64_t port;

	if (n > 5 || !http_length(&port, text, n) || text[0] == '0' || port > UINT16_MAX)
		return false;
	a->port = (uint16_t)port;
	return true;
}

static bool authority_addr(struct authority *a, const char *text, size_t n, bool v6)
{
	cleanup_buf struct buf shown = BUF_INIT(HTTP_ADDR_TEXT_MAX);
	struct net_addr addr;

	if (!net_addr_parse(&addr, text, n) || addr.v6 != v6)
		return false;
	net_addr_show(&shown, &addr);
	if (shown.failed || shown.len >= sizeof(a->host))
		return false;
	memcpy(a->host, buf_str(&shown), shown.len + 1);
	return true;
}

static const struct http_problem *authority_parse(struct authority *a, const char *text, size_t n)
{
	const char *colon, *end = n && text[0] == '[' ? memchr(text, ']', n) : NULL;
	size_t name_n;
	bool good;

	*a = (struct authority){0};
	if (!n || memchr(text, '@', n))
		return HTTP_PROBLEM(400, "the host is empty or has a user name in it");
	if (end) {
		name_n = (size_t)(end - text) + 1;
		good = authority_addr(a, text + 1, name_n - 2, true);
	} else {
		colon = memchr(text, ':', n);
		name_n = colon ? (size_t)(colon - text) : n;
		good = net_name(a->host, text, name_n) || authority_addr(a, text, name_n, false);
	}
	if (!good)
		return HTTP_PROBLEM(400, "the host is not a canonical name or address");
	if (name_n < n &&
		(text[name_n] != ':' || !authority_port(a, text + name_n + 1, n - name_n - 1)))
		return HTTP_PROBLEM(400, "the host's port is not a number from 1 to 65535");
	return NULL;
}

const struct http_problem *request_authority(struct http_request *r, const char *text, size_t n)
{
	const struct http_problem *problem;
	struct authority a;

	problem = authority_parse(&a, text, n);
	if (problem)
		return problem;
	memcpy(r->host, a.host, sizeof(r->host));
	r->port = a.port;
	return NULL;
}

/* What one pass over the fields has seen. */
struct finish {
	struct connection connection;
	unsigned seen; /* bits of enum field_kind */
	uint64_t length;
	size_t cookies;
	bool ws_wanted; /* upgrade: websocket, and nothing else */
	bool h1;
};

static bool seen(const struct finish *s, enum field_kind k)
{
	return s->seen & 1u << k;
}

/* Absolute-form, :authority and Host must say the same. */
static const struct http_problem *finish_host(struct http_request *r, const struct http_field *x)
{
	const struct http_problem *problem;
	struct authority a;

	if (!r->host[0])
		return request_authority(r, x->value, x->value_len);
	problem = authority_parse(&a, x->value, x->value_len);
	if (problem)
		return problem;
	if (!str_eq(a.host, r->host) || a.port != r->port)
		return HTTP_PROBLEM(400, "Host is not the host of the target");
	return NULL;
}

static const struct http_problem *finish_te(struct http_request *r, const struct http_field *x)
{
	const char *p = x->value, *end = p + x->value_len, *t;
	size_t n;

	while (token_next(&p, end, &t, &n) > 0)
		if (token_is(t, n, "trailers"))
			r->trailers_ok = true;
	return NULL;
}

/* Takes in one special field; what it returns to keep stays among the fields. */
static const struct http_problem *finish_field(
	struct http_request *r, struct finish *s, const struct http_field *x, bool *ret_keep)
{
	enum field_kind k = x->kind;

	*ret_keep = k == FIELD_COOKIE || k == FIELD_AUTHORIZATION || k == FIELD_TYPE ||
		    k == FIELD_WS_KEY;
	if (seen(s, k) && k != FIELD_COOKIE && k != FIELD_TE)
		return HTTP_PROBLEM(400, "a header that says one thing comes twice");
	s->seen |= 1u << k;
	switch (k) {
	case FIELD_HOST:
		return finish_host(r, x);
	case FIELD_LENGTH:
		if (!http_length(&s->length, x->value, x->value_len))
			return HTTP_PROBLEM(400, "Content-Length is not a number");
		return NULL;
	case FIELD_CODING:
		if (!s->h1 || r->http10)
			return HTTP_PROBLEM(400, "this version of HTTP has no Transfer-Encoding");
		if (!token_is(x->value, x->value_len, "chunked"))
			return HTTP_PROBLEM(501, "only the transfer coding chunked is carried");
		return NULL;
	case FIELD_EXPECT:
		if (!token_is(x->value, x->value_len, "100-continue"))
			return HTTP_PROBLEM(417, "only 100-continue may be expected");
		return NULL;
	case FIELD_UPGRADE:
		s->ws_wanted = token_is(x->value, x->value_len, "websocket");
		return NULL;
	case FIELD_TE:
		return finish_te(r, x);
	case FIELD_COOKIE:
		s->cookies++;
		return NULL;
	default:
		return NULL;
	}
}

static const struct http_problem *finish_fields(struct http_request *r, struct finish *s)
{
	struct http_fields *f = &r->fields;
	size_t kept = 0;

	if (!fields_connection(f, false, &s->connection))
		return HTTP_PROBLEM(400, "Connection names a header that belongs to the request");
	for (size_t i = 0; i < f->n; i++) {
		const struct http_problem *problem;
		bool keep = f->v[i].kind == FIELD_PLAIN;

		if (f->v[i].kind > FIELD_DROP && f->v[i].kind != FIELD_CONNECTION) {
			problem = finish_field(r, s, &f->v[i], &keep);
			if (problem)
				return problem;
		}
		if (keep) {
			if (kept != i)
				f->v[kept] = f->v[i];
			kept++;
		}
	}
	f->n = kept;
	return NULL;
}

/* HTTP/2 may send a cookie in pieces; servers of HTTP/1.1 read one header. */
static const struct http_problem *finish_cookies(struct http_request *r)
{
	struct http_field *first = NULL;
	size_t total = 0, kept = 0, at = 0;
	char *joined;

	for (size_t i = 0; i < r->fields.n; i++)
		if (r->fields.v[i].kind == FIELD_COOKIE)
			total += r->fields.v[i].value_len + 2;
	if (total > HTTP_HEAD_MAX_B)
		return HTTP_PROBLEM(431, "the cookies are too long");
	joined = arena_text(&r->arena, total + 1);
	if (!joined)
		return HTTP_PROBLEM(503, "out of memory");
	for (size_t i = 0; i < r->fields.n; i++) {
		struct http_field *x = &r->fields.v[i];

		if (x->kind == FIELD_COOKIE) {
			if (at && x->value_len) {
				memcpy(joined + at, "; ", 2);
				at += 2;
			}
			memcpy(joined + at, x->value, x->value_len);
			at += x->value_len;
			if (first)
				continue;
			first = &r->fields.v[kept];
		}
		r->fields.v[kept++] = *x;
	}
	joined[at] = '\0';
	first->value = joined;
	first->value_len = (uint32_t)at;
	r->fields.n = kept;
	return NULL;
}

static const struct http_problem *finish_body(struct http_request *r, const struct finish *s)
{
	if (seen(s, FIELD_CODING) && seen(s, FIELD_LENGTH))
		return HTTP_PROBLEM(400, "both Content-Length and Transfer-Encoding");
	if (s->h1) {
		r->body = seen(s, FIELD_CODING) ? HTTP_BODY_STREAM
			  : s->length           ? HTTP_BODY_LENGTH
						: HTTP_BODY_NONE;
	} else if (seen(s, FIELD_LENGTH)) {
		if (r->body == HTTP_BODY_NONE && s->length)
			return HTTP_PROBLEM(400, "Content-Length, but the stream has no body");
		if (r->body != HTTP_BODY_NONE)
			r->body = HTTP_BODY_LENGTH;
	}
	r->length = r->body == HTTP_BODY_LENGTH ? s->length : 0;
	r->expect_continue = seen(s, FIELD_EXPECT) && !r->http10 && r->body != HTTP_BODY_NONE;
	return NULL;
}

static const struct http_problem *finish_git(struct http_request *r)
{
	char repo[GIT_REPO_MAX + 1];
	enum git_what what = git_classify(r->method, r->path, r->query, repo, sizeof(repo));

	r->git_unclear = what == GIT_OTHER;
	if (what != GIT_FETCH && what != GIT_PUSH)
		return NULL;
	r->git_push = what == GIT_PUSH;
	r->git_repo = arena_dup(&r->arena, repo);
	return r->git_repo ? NULL : HTTP_PROBLEM(503, "out of memory");
}

static const struct http_problem *finish_request(struct http_request *r, bool h1)
{
	struct finish s = {.h1 = h1};
	const struct http_problem *problem = finish_fields(r, &s);

	if (!problem && s.cookies > 1)
		problem = finish_cookies(r);
	if (!problem)
		problem = finish_body(r, &s);
	if (problem)
		return problem;
	if (!r->host[0] || (h1 && !seen(&s, FIELD_HOST)))
		return HTTP_PROBLEM(400, "there is no Host");
	if (!r->method[0] || !r->path)
		return HTTP_PROBLEM(400, "there is no method or no target");
	r->close = s.connection.close || (r->http10 && !s.connection.keep_alive);
	r->upgrade_ws = h1 && !r->http10 && s.ws_wanted && s.connection.upgrade &&
			seen(&s, FIELD_WS_KEY) && str_eq(r->method, "GET") &&
			r->body == HTTP_BODY_NONE;
	return finish_git(r);
}

const struct http_problem *request_finish(struct http_request *r)
{
	return finish_request(r, false);
}

const struct http_problem *request_finish_h1(struct http_request *r)
{
	return finish_request(r, true);
}

/* ---- responses ---- */

static const struct http_problem *answer_field(
	struct http_response *r, struct finish *s, const struct http_field *x)
{
	enum field_kind k = x->kind;

	if (k != FIELD_LENGTH && k != FIELD_CODING && k != FIELD_UPGRADE)
		return NULL;
	if (seen(s, k) && k != FIELD_UPGRADE)
		return HTTP_PROBLEM(502, "the server frames its answer twice");
	s->seen |= 1u << k;
	if (k == FIELD_LENGTH && !http_length(&s->length, x->value, x->value_len))
		return HTTP_PROBLEM(502, "the server's Content-Length is not a number");
	if (k == FIELD_CODING &&
		(!s->h1 || r->http10 || !token_is(x->value, x->value_len, "chunked")))
		return HTTP_PROBLEM(502, "the server uses a transfer coding other than chunked");
	if (k == FIELD_UPGRADE)
		s->ws_wanted = token_is(x->value, x->value_len, "websocket");
	return NULL;
}

static const struct http_problem *answer_fields(struct http_response *r, struct finish *s)
{
	struct http_fields *f = &r->fields;
	size_t kept = 0;

	if (!fields_connection(f, true, &s->connection))
		return HTTP_PROBLEM(502, "the server's Connection is malformed");
	for (size_t i = 0; i < f->n; i++) {
		enum field_kind k = f->v[i].kind;
		const struct http_problem *problem = answer_field(r, s, &f->v[i]);

		if (problem)
			return problem;
		if (k == FIELD_PLAIN || k == FIELD_TYPE || k == FIELD_COOKIE ||
			k == FIELD_AUTHORIZATION || k == FIELD_WS_KEY) {
			if (kept != i)
				f->v[kept] = f->v[i];
			kept++;
		}
	}
	f->n = kept;
	return NULL;
}

static bool bodyless(const struct http_response *r, const char *method)
{
	return r->status < 200 || r->status == 204 || r->status == 304 || str_eq(method, "HEAD");
}

static const struct http_problem *answer_body(
	struct http_response *r, const struct finish *s, const char *method)
{
	bool coded = seen(s, FIELD_CODING), counted = seen(s, FIELD_LENGTH);

	if (coded && counted)
		return HTTP_PROBLEM(
			502, "the server sends both Content-Length and Transfer-Encoding");
	/* 1xx and 204 must not state a length; one that does anyway means nothing. */
	r->has_length = counted && r->status >= 200 && r->status != 204;
	r->length = r->has_length ? s->length : 0;
	if (bodyless(r, method)) {
		r->body = HTTP_BODY_NONE;
		return NULL;
	}
	if (!s->h1) {
		if (r->body == HTTP_BODY_NONE && r->length)
			return HTTP_PROBLEM(502, "the server states a length and sends no body");
		if (r->body != HTTP_BODY_NONE && counted)
			r->body = HTTP_BODY_LENGTH;
		return NULL;
	}
	r->body = coded       ? HTTP_BODY_STREAM
		  : !counted  ? HTTP_BODY_STREAM
		  : r->length ? HTTP_BODY_LENGTH
			      : HTTP_BODY_NONE;
	r->until_close = !coded && !counted;
	r->close |= r->until_close;
	return NULL;
}

static const struct http_problem *finish_response(
	struct http_response *r, const char *method, bool h1)
{
	struct finish s = {.h1 = h1};
	const struct http_problem *problem;

	if (r->status < 100 || r->status > 599)
		return HTTP_PROBLEM(502, "the server's status is not one of HTTP");
	problem = answer_fields(r, &s);
	if (problem)
		return problem;
	r->close = s.connection.close || (r->http10 && !s.connection.keep_alive);
	problem = answer_body(r, &s, method);
	if (problem)
		return problem;
	r->upgrade_ws = h1 && r->status == 101 && s.ws_wanted && s.connection.upgrade && !r->http10;
	if (r->status == 101 && !r->upgrade_ws)
		return HTTP_PROBLEM(502, "the server switches to a protocol that is not carried");
	return NULL;
}

const struct http_problem *response_finish(struct http_response *r, const char *method)
{
	return finish_response(r, method, false);
}

const struct http_problem *response_finish_h1(struct http_response *r, const char *method)
{
	return finish_response(r, method, true);
}

void request_question(
	const struct http_request *r, uint16_t port, bool tls, struct net_request *ret)
{
	*ret = (struct net_request){
		.host = r->host,
		.port = port,
		.tls = tls,
		.method = r->method,
		.path = r->path ? r->path : "",
		.query = r->query ? r->query : "",
		.has_body =
			r->body == HTTP_BODY_STREAM || (r->body == HTTP_BODY_LENGTH && r->length),
		.upgrade_ws = r->upgrade_ws,
		.git_repo = r->git_repo,
		.git_push = r->git_push,
		.git_unclear = r->git_unclear,
	};
}
