/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an HTTP/1 request, as a response and as a chunked body. Beyond not crashing: what is
 * accepted keeps the invariants of the internal form, what was written from it is accepted and is
 * written the same again, a head is never accepted earlier than whole, and chunks do not depend on
 * how they were cut.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "must.h"
#include "net/http/http1.h"

static void check_fields(const struct http_fields *f)
{
	static const char *const gone[] = {"connection", "keep-alive", "transfer-encoding",
		"content-length", "upgrade", "host", "te", "trailer", "http2-settings", "alt-svc",
		"proxy-authorization", "proxy-connection"};

	MUST(f->n <= HTTP_HEADERS_MAX);
	for (size_t i = 0; i < f->n; i++) {
		const struct http_field *x = &f->v[i];

		MUST(x->name_len && strlen(x->name) == x->name_len &&
			strlen(x->value) == x->value_len);
		for (const char *c = x->name; *c; c++)
			MUST(*c > 0x20 && *c < 0x7f && *c != ':' && (*c < 'A' || *c > 'Z'));
		for (const char *c = x->value; *c; c++)
			MUST((unsigned char)*c >= 0x20 && *c != 0x7f);
		MUST(!x->value_len || (x->value[0] != ' ' && x->value[x->value_len - 1] != ' '));
	}
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		MUST(!fields_get(f, gone[i]));
}

static void check_request(const char *p, size_t n)
{
	cleanup_buf struct buf first = BUF_INIT(1u << 20), again = BUF_INIT(1u << 20);
	const struct http_problem *problem = NULL;
	struct http_request r, s;
	int got = http1_request(&r, p, n, &problem);

	if (got <= 0) {
		MUST(got == 0 || (problem && problem->status >= 400 && problem->text[0]));
		MUST(!r.arena.head);
		return;
	}
	MUST((size_t)got <= n && got >= 4 && memcmp(p + got - 4, "\r\n\r\n", 4) == 0);
	MUST(r.host[0] && r.method[0] && (r.path[0] == '/' || str_eq(r.path, "*")));
	MUST(!strchr(r.path, '?') && !strstr(r.path, "/../") && !strstr(r.path, "//"));
	MUST(r.body == HTTP_BODY_LENGTH || r.length == 0);
	check_fields(&r.fields);
	http1_write_request(&r, &first);
	MUST(!first.failed);
	/* Canonical text may be longer, by its escapes and the names of short headers. */
	if (first.len <= HTTP_HEAD_MAX_B) {
		MUST(http1_request(&s, first.data, first.len, &problem) == (int)first.len);
		http1_write_request(&s, &again);
		MUST(again.len == first.len && memcmp(again.data, first.data, first.len) == 0);
		MUST(s.body == r.body && s.length == r.length && s.upgrade_ws == r.upgrade_ws);
		MUST(str_eq(s.path, r.path) && str_eq(s.query, r.query) && str_eq(s.host, r.host));
		request_done(&s);
	}
	request_done(&r);
	MUST(http1_request(&r, p, (size_t)got - 1, &problem) == 0);
}

static void check_response(const char *method, const char *p, size_t n)
{
	cleanup_buf struct buf first = BUF_INIT(1u << 20), again = BUF_INIT(1u << 20);
	const struct http_problem *problem = NULL;
	struct http_response r, s;
	int got = http1_response(&r, method, p, n, &problem);

	if (got <= 0) {
		MUST(got == 0 || (problem && problem->status >= 500));
		MUST(!r.arena.head);
		return;
	}
	check_fields(&r.fields);
	MUST(r.status >= 100 && r.status <= 599);
	MUST(!str_eq(method, "HEAD") || r.body == HTTP_BODY_NONE);
	http1_write_response(&r, method, &first);
	MUST(!first.failed);
	if (first.len <= HTTP_HEAD_MAX_B) {
		MUST(http1_response(&s, method, first.data, first.len, &problem) == (int)first.len);
		http1_write_response(&s, method, &again);
		MUST(again.len == first.len && memcmp(again.data, first.data, first.len) == 0);
		MUST(s.status == r.status && s.body == r.body && s.length == r.length);
		response_done(&s);
	}
	response_done(&r);
}

/* The payload; -1 when malformed. */
static long unchunk(const char *p, size_t n, size_t step, struct buf *out, size_t *ret_used)
{
	struct chunks c = {0};
	size_t at = 0;

	while (at < n && c.state != CHUNK_DONE) {
		const char *data;
		size_t data_n, piece = MIN_OF(step, n - at);
		long used = chunks_read(&c, p + at, piece, &data, &data_n);

		if (used < 0)
			return -1;
		MUST(used > 0 && (size_t)used <= piece && data >= p + at &&
			data + data_n <= p + at + used);
		buf_add(out, data, data_n);
		at += (size_t)used;
	}
	*ret_used = at;
	return c.state == CHUNK_DONE;
}

static void check_chunks(const char *p, size_t n)
{
	cleanup_buf struct buf a = BUF_INIT(8u << 20), b = BUF_INIT(8u << 20);
	size_t used_a = 0, used_b = 0;
	long one = unchunk(p, n, n ? n : 1, &a, &used_a), other = unchunk(p, n, 3, &b, &used_b);

	MUST(one == other);
	if (one >= 0)
		MUST(used_a == used_b && a.len == b.len &&
			memcmp(buf_str(&a), buf_str(&b), a.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;

	check_request(p, size);
	check_response("GET", p, size);
	check_response("HEAD", p, size);
	check_chunks(p, size);
	return 0;
}
