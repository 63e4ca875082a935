/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1 heads: from text to the internal form.
 *
 * Order: the lines of the head are found first, each ending in CRLF and nothing else, so a head
 *        that is incomplete costs no memory. Then the head is copied once into the message's
 *        memory, and names and values are checked and terminated in place there.
 * Limits: HTTP_HEAD_MAX_B bytes, HTTP_HEADERS_MAX lines.
 */
#include "net/http/http1.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/fields.h"

#define LINES_MAX (HTTP_HEADERS_MAX + 1)

struct lines {
	size_t n;
	size_t head_n;           /* bytes, with the empty line */
	uint32_t end[LINES_MAX]; /* where each line's CR is */
};

/* 1: the head is complete; 0: not yet; -1: a problem. */
static int lines_find(
	struct lines *l, const char *p, size_t n, const struct http_problem **ret_problem)
{
	size_t limit = MIN_OF(n, (size_t)HTTP_HEAD_MAX_B), at = 0;

	l->n = 0;
	while (at < limit) {
		const char *lf = memchr(p + at, '\n', limit - at);
		size_t end;

		if (!lf)
			break;
		end = (size_t)(lf - p);
		if (end == at || p[end - 1] != '\r') {
			*ret_problem = HTTP_PROBLEM(400, "a line does not end in CR LF");
			return -1;
		}
		if (end - 1 == at && l->n) {
			l->head_n = end + 1;
			return 1;
		}
		if (end - 1 == at) {
			*ret_problem = HTTP_PROBLEM(400, "the first line is empty");
			return -1;
		}
		if (l->n == LINES_MAX) {
			l->n++; /* one too many */
			break;
		}
		l->end[l->n++] = (uint32_t)(end - 1);
		at = end + 1;
	}
	if (n < HTTP_HEAD_MAX_B && l->n <= LINES_MAX)
		return 0;
	*ret_problem = HTTP_PROBLEM(431, "the head is too large");
	return -1;
}

/* The lines after the first, in place; `head` is the message's own copy. */
static const struct http_problem *fields_read(
	struct http_fields *f, struct arena *a, char *head, const struct lines *l)
{
	size_t at = l->end[0] + 2;

	for (size_t i = 1; i < l->n; i++) {
		size_t end = l->end[i];
		char *colon = memchr(head + at, ':', end - at);
		const struct http_problem *problem;

		if (!colon)
			return HTTP_PROBLEM(400, "a header line has no colon");
		problem = fields_own(f, a, head + at, (size_t)(colon - (head + at)), colon + 1,
			(size_t)(head + end - (colon + 1)));
		if (problem)
			return problem;
		at = end + 2;
	}
	return NULL;
}

/* Room for the copy, the list of fields and what follows, so that most messages have one block. */
static char *head_copy(struct arena *a, struct http_fields *f, const char *p, const struct lines *l)
{
	size_t list_b = l->n * sizeof(*f->v);
	char *head;

	if (!arena_reserve(a, list_b + 5 * l->head_n + 64))
		return NULL;
	f->v = arena_alloc(a, list_b);
	f->cap = f->v ? l->n : 0;
	head = f->v ? arena_text(a, l->head_n) : NULL;
	if (head)
		memcpy(head, p, l->head_n);
	return head;
}

/* "HTTP/1.1" or "HTTP/1.0". */
static bool version_read(const char *p, size_t n, bool *ret_http10)
{
	if (n != 8 || memcmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1'))
		return false;
	*ret_http10 = p[7] == '0';
	return true;
}

/* "http://authority/path": the authority is kept, and Host must agree with it later. */
static const struct http_problem *target_read(struct http_request *r, const char *t, size_t n)
{
	const struct http_problem *problem;
	size_t scheme, host = 0;

	if (!n || t[0] == '/' || t[0] == '*')
		return request_target(r, t, n);
	scheme = n > 7 && memcmp(t, "http://", 7) == 0    ? 7
		 : n > 8 && memcmp(t, "https://", 8) == 0 ? 8
							  : 0;
	if (!scheme)
		return HTTP_PROBLEM(400, "the target is neither a path nor an http URL");
	while (scheme + host < n && t[scheme + host] != '/' && t[scheme + host] != '?')
		host++;
	problem = request_authority(r, t + scheme, host);
	if (problem)
		return problem;
	t += scheme + host;
	n -= scheme + host;
	if (!n)
		return request_target(r, str_eq(r->method, "OPTIONS") ? "*" : "/", 1);
	if (t[0] == '?')
		return HTTP_PROBLEM(400, "the target has a query and no path");
	return request_target(r, t, n);
}

/* method SP target SP version, one blank each. */
static const struct http_problem *request_line(struct http_request *r, const char *p, size_t n)
{
	const char *first = memchr(p, ' ', n), *last = memrchr(p, ' ', n);
	const struct http_problem *problem;

	if (!first || first == last)
		return HTTP_PROBLEM(400, "the request line is not: method, target, version");
	if (!version_read(last + 1, (size_t)(p + n - (last + 1)), &r->http10))
		return HTTP_PROBLEM(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
	problem = request_method(r, p, (size_t)(first - p));
	if (problem)
		return problem;
	return target_read(r, first + 1, (size_t)(last - (first + 1)));
}

int http1_request(
	struct http_request *ret, const char *p, size_t n, const struct http_problem **ret_problem)
{
	return http1_request_as(ret, (struct net_target_form){0}, p, n, ret_problem);
}

int http1_request_as(struct http_request *ret, struct net_target_form form, const char *p, size_t n,
	const struct http_problem **ret_problem)
{
	const struct http_problem *problem;
	struct lines l;
	char *head;
	int found;

	request_init(ret);
	ret->form = form;
	found = lines_find(&l, p, n, ret_problem);
	if (found <= 0)
		return found;
	head = head_copy(&ret->arena, &ret->fields, p, &l);
	problem = head ? request_line(ret, head, l.end[0]) : HTTP_PROBLEM(503, "out of memory");
	if (!problem)
		problem = fields_read(&ret->fields, &ret->arena, head, &l);
	if (!problem)
		problem = request_finish_h1(ret);
	if (problem) {
		request_done(ret);
		*ret_problem = problem;
		return -1;
	}
	return (int)l.head_n;
}

/* version SP status [SP reason]; the reason is dropped. */
static const struct http_problem *status_line(struct http_response *r, const char *p, size_t n)
{
	if (n < 12 || !version_read(p, 8, &r->http10) || p[8] != ' ')
		return HTTP_PROBLEM(502, "the server does not speak HTTP/1.1");
	for (size_t i = 9; i < 12; i++) {
		if (p[i] < '0' || p[i] > '9')
			return HTTP_PROBLEM(502, "the server's status is not a number");
		r->status = r->status * 10 + (unsigned)(p[i] - '0');
	}
	if (n > 12 && p[12] != ' ')
		return HTTP_PROBLEM(502, "the server's status is not a number");
	for (size_t i = 12; i < n; i++)
		if ((unsigned char)p[i] < 0x20 && p[i] != '\t')
			return HTTP_PROBLEM(502, "the server's reason has control characters");
	return NULL;
}

int http1_response(struct http_response *ret, const char *method, const char *p, size_t n,
	const struct http_problem **ret_problem)
{
	const struct http_problem *problem = NULL;
	struct lines l;
	char *head;
	int found;

	response_init(ret);
	found = lines_find(&l, p, n, &problem);
	if (found == 0)
		return 0;
	if (!problem) {
		head = head_copy(&ret->arena, &ret->fields, p, &l);
		problem = head ? status_line(ret, head, l.end[0])
			       : HTTP_PROBLEM(503, "out of memory");
		if (!problem)
			problem = fields_read(&ret->fields, &ret->arena, head, &l);
		if (!problem)
			problem = response_finish_h1(ret, method);
	}
	if (problem) {
		response_done(ret);
		*ret_problem = problem->status >= 500
				       ? problem
				       : HTTP_PROBLEM(502, "the server's answer is malformed");
		return -1;
	}
	ret->http10 = false; /* from here on it is about the client */
	return (int)l.head_n;
}
