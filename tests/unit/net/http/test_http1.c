/* SPDX-License-Identifier: Apache-2.0 */
/* net/http1: heads as text in both directions, chunked bodies. Smuggling is the theme. */
#include "test.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/http1.h"

static struct http_request req;
static const struct http_problem *problem;

/* What http1_request() makes of it: the status of the problem, or 0, or 1 when more is needed. */
static unsigned parse_n(const char *p, size_t n)
{
	cleanup_free char *exact =
		malloc(n ? n : 1); /* so that a sanitizer sees a read past the end */
	int got;

	request_done(&req);
	if (!exact)
		return 1000;
	memcpy(exact, p, n);
	problem = NULL;
	got = http1_request(&req, exact, n, &problem);
	if (got > 0)
		return (size_t)got <= n && !problem ? 0 : 1001;
	return got ? problem->status : 1;
}

static unsigned parse(const char *p)
{
	return parse_n(p, strlen(p));
}

/* A request with these header lines besides Host. */
static unsigned with(const char *method, const char *lines)
{
	char text[4096];

	snprintf(text, sizeof(text), "%s /x HTTP/1.1\r\nHost: a.example\r\n%s\r\n", method, lines);
	return parse(text);
}

static const char *written(void)
{
	static char text[8192];
	cleanup_buf struct buf out = BUF_INIT(sizeof(text));

	http1_write_request(&req, &out);
	snprintf(text, sizeof(text), "%s", buf_str(&out));
	return text;
}

TEST(request_is_written_anew)
{
	CHECK_INT(parse("GET /%61?q=1 HTTP/1.1\r\nUser-Agent:  curl/8 \r\nHOST: A.Example:8080\r\n"
			"Connection: keep-alive\r\nAccept: */*\r\n\r\n"),
		0);
	CHECK_STR(written(), "GET /a?q=1 HTTP/1.1\r\nhost: a.example:8080\r\nuser-agent: curl/8\r\n"
			     "accept: */*\r\n\r\n");
	CHECK_INT(with("POST", "Content-Length: 5\r\nExpect: 100-continue\r\n"), 0);
	CHECK_STR(written(), "POST /x HTTP/1.1\r\nhost: a.example\r\ncontent-length: 5\r\n"
			     "expect: 100-continue\r\n\r\n");
	CHECK_INT(with("POST", "Transfer-Encoding: Chunked\r\n"), 0);
	CHECK_STR(written(),
		"POST /x HTTP/1.1\r\nhost: a.example\r\ntransfer-encoding: chunked\r\n\r\n");
	CHECK_INT(with("PUT", ""), 0);
	CHECK_STR(written(), "PUT /x HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n");
	CHECK_INT(parse("OPTIONS * HTTP/1.1\r\nHost: [2001:DB8::1]:81\r\n\r\n"), 0);
	CHECK_STR(written(), "OPTIONS * HTTP/1.1\r\nhost: [2001:db8::1]:81\r\n\r\n");
	request_done(&req);
}

TEST(what_was_written_is_read_back_the_same)
{
	static const char *const heads[] = {"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n",
		"POST /x?y HTTP/1.1\r\nHost: a.b\r\nContent-Length: 12\r\nX: caf\xe9 \r\nCookie: "
		"a\r\nCookie: b\r\n\r\n",
		"GET /ws HTTP/1.1\r\nHost: a.b\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n"
		"Sec-WebSocket-Key: x\r\n\r\n"};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		char first[16384];

		CHECK_INT(parse(heads[i]), 0);
		snprintf(first, sizeof(first), "%s", written());
		CHECK_INT(parse(first), 0);
		CHECK_STR(written(), first);
	}
	request_done(&req);
}

TEST(incomplete_heads_wait_at_every_byte)
{
	static const char head[] = "POST /a HTTP/1.1\r\nHost: a.b\r\nContent-Length: 3\r\n\r\nabc";

	for (size_t n = 0; n < sizeof(head) - 1 - 3; n++)
		CHECK_INT(parse_n(head, n), 1);
	CHECK_INT(parse_n(head, sizeof(head) - 1 - 3), 0);
	CHECK_INT(parse_n(head, sizeof(head) - 1), 0);
	CHECK_INT(req.length, 3);
	request_done(&req);
}

TEST(framing_that_two_readers_could_see_differently_is_refused)
{
	static const char *const bad[] = {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
		"Content-Length: 5\r\nContent-Length: 5\r\n",
		"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 5\r\n",
		"Content-Length: +5\r\n", "Content-Length: -5\r\n", "Content-Length: 0x5\r\n",
		"Content-Length: 5 5\r\n", "Content-Length:\r\n",
		"Content-Length: 99999999999999999999\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"Content-Length : 5\r\n", "Content-Length\t: 5\r\n", " Content-Length: 5\r\n",
		"X: a\r\n b\r\n", "X: a\r\n\tb\r\n", "X\r\n", ": a\r\n", "X: a\nY: b\r\n",
		"X: a\rY: b\r\n", "X: a\r\r\n", "X: \x01\r\n", "X(y): a\r\n", "X\"y: a\r\n",
		"Host: b.example\r\n", "Host: a.example\r\n", "Connection: host\r\n",
		"Connection: content-length\r\nContent-Length: 1\r\n", "Content_Length: 5\r\n",
		"Transfer_Encoding: chunked\r\n"};
	static const char *const unknown[] = {"Transfer-Encoding: gzip\r\n",
		"Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, identity\r\n",
		"Transfer-Encoding: \r\n", "Transfer-Encoding: xchunked\r\n",
		"Transfer-Encoding: chunked;q=1\r\n", "Transfer-Encoding: \"chunked\"\r\n"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(with("POST", bad[i]), 400);
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		CHECK_INT(with("POST", unknown[i]), 501);
	/* Each is fine without what is wrong. */
	CHECK_INT(with("POST", "Content-Length: 5\r\n"), 0);
	CHECK_INT(with("POST", "X: a\r\nY: b\r\n"), 0);
	CHECK_INT(with("POST", "Transfer-Encoding: chunked\r\n"), 0);
	CHECK_INT(parse("POST / HTTP/1.0\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
	CHECK_INT(parse_n("GET / HTTP/1.1\r\nHost: a.b\r\nX: a\0b\r\n\r\n", 38), 400);
}

TEST(request_lines)
{
	static const struct {
		const char *head;
		unsigned status;
	} cases[] = {{"GET / HTTP/1.1\nHost: a.b\n\n", 400},
		{"\r\nGET / HTTP/1.1\r\nHost: a.b\r\n\r\n", 400}, {"GET / HTTP/1.1\r\n\r\n", 400},
		{"GET / HTTP/1.0\r\n\r\n", 400}, {"PRI * HTTP/2.0\r\n\r\n", 505},
		{"GET / HTTP/2\r\nHost: a.b\r\n\r\n", 505},
		{"GET / HTTP/1.2\r\nHost: a.b\r\n\r\n", 505},
		{"GET / http/1.1\r\nHost: a.b\r\n\r\n", 505}, {"GET /\r\nHost: a.b\r\n\r\n", 400},
		{"GET  / HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET / HTTP/1.1 \r\nHost: a.b\r\n\r\n", 505},
		{" GET / HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET\t/ HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"get / HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"TRACE / HTTP/1.1\r\nHost: a.b\r\n\r\n", 405},
		{"CONNECT a.b:443 HTTP/1.1\r\nHost: a.b\r\n\r\n", 501},
		{"GET /a b HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET http://a.b/x HTTP/1.1\r\nHost: a.b\r\n\r\n", 0},
		{"GET http://a.b/x HTTP/1.1\r\nHost: c.d\r\n\r\n", 400},
		{"GET http://a.b:81/x HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET http://a.b/x HTTP/1.1\r\n\r\n", 400},
		{"GET http://u@a.b/x HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET ftp://a.b/x HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET http:///x HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET http://a.b?x HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET https://A.B HTTP/1.1\r\nHost: a.b\r\n\r\n", 0},
		{"GET a.b/x HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"GET /../x HTTP/1.1\r\nHost: a.b\r\n\r\n", 400},
		{"SSH-2.0-OpenSSH_9\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a.b, c.d\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: \r\n\r\n", 400}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_INT(parse(cases[i].head), cases[i].status);
	CHECK_INT(parse("OPTIONS http://a.b HTTP/1.1\r\nHost: a.b\r\n\r\n"), 0);
	CHECK_STR(req.path, "*");
	request_done(&req);
}

TEST(websockets_are_asked_for_in_full_or_not_at_all)
{
	CHECK_INT(with("GET", "Connection: keep-alive, Upgrade\r\nUpgrade: "
			      "websocket\r\nSec-WebSocket-Key: x\r\n"),
		0);
	CHECK(req.upgrade_ws);
	CHECK(strstr(written(), "\r\nconnection: upgrade\r\nupgrade: websocket\r\n"));
	CHECK_INT(with("GET", "Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n"), 0);
	CHECK(!req.upgrade_ws);
	CHECK_INT(with("GET", "Connection: Upgrade\r\nUpgrade: websocket\r\n"), 0);
	CHECK(!req.upgrade_ws && !strstr(written(), "upgrade"));
	CHECK_INT(with("POST",
			  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"),
		0);
	CHECK(!req.upgrade_ws);
	CHECK_INT(with("GET", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: "
			      "h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
		0);
	CHECK(!req.upgrade_ws && !strstr(written(), "h2c") && !strstr(written(), "settings"));
	CHECK_INT(with("GET", "Connection: Upgrade\r\nUpgrade: websocket, "
			      "h2c\r\nSec-WebSocket-Key: x\r\n"),
		0);
	CHECK(!req.upgrade_ws);
	request_done(&req);
}

TEST(closing_is_read_and_not_passed_on)
{
	CHECK_INT(with("GET", "Connection: close\r\n"), 0);
	CHECK(req.close && !strstr(written(), "close"));
	CHECK_INT(with("GET", ""), 0);
	CHECK(!req.close);
	CHECK_INT(parse("GET / HTTP/1.0\r\nHost: a.b\r\n\r\n"), 0);
	CHECK(req.close && req.http10);
	CHECK_INT(parse("GET / HTTP/1.0\r\nHost: a.b\r\nConnection: Keep-Alive\r\n\r\n"), 0);
	CHECK(!req.close && req.http10);
	request_done(&req);
}

TEST(heads_have_a_maximum)
{
	cleanup_buf struct buf b = BUF_INIT(4u << 20);

	buf_adds(&b, "GET / HTTP/1.1\r\nHost: a.b\r\n");
	for (unsigned i = 0; i < HTTP_HEADERS_MAX - 1; i++)
		buf_adds(&b, "X: y\r\n");
	CHECK_INT(parse_n(b.data, b.len), 1);
	buf_adds(&b, "\r\n");
	CHECK_INT(parse_n(b.data, b.len), 0);
	b.len -= 2;
	buf_adds(&b, "X: y\r\n");
	CHECK_INT(parse_n(b.data, b.len), 431);
	buf_reset(&b);
	buf_adds(&b, "GET / HTTP/1.1\r\nHost: a.b\r\nX: ");
	while (b.len < HTTP_HEAD_MAX_B - 1)
		buf_addc(&b, 'y');
	CHECK_INT(parse_n(b.data, b.len), 1);
	buf_addc(&b, 'y');
	CHECK_INT(parse_n(b.data, b.len), 431);
	request_done(&req);
}

static struct http_response res;

static unsigned answer(const char *method, const char *p)
{
	int got;

	response_done(&res);
	problem = NULL;
	got = http1_response(&res, method, p, strlen(p), &problem);
	return got > 0 ? 0 : got ? problem->status : 1;
}

static const char *answered(const char *method)
{
	static char text[4096];
	cleanup_buf struct buf out = BUF_INIT(sizeof(text));

	http1_write_response(&res, method, &out);
	snprintf(text, sizeof(text), "%s", buf_str(&out));
	return text;
}

TEST(responses_are_framed_by_one_thing)
{
	CHECK_INT(
		answer("GET",
			"HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nAlt-Svc: h3\r\nSet-Cookie: a\r\n"
			"Set-Cookie: b\r\nConnection: close\r\nKeep-Alive: 5\r\n\r\n"),
		0);
	CHECK(res.body == HTTP_BODY_LENGTH && res.length == 3 && res.close && !res.until_close);
	res.close = false;
	CHECK_STR(answered("GET"),
		"HTTP/1.1 200 OK\r\nset-cookie: a\r\nset-cookie: b\r\ncontent-length: 3\r\n\r\n");
	CHECK_INT(answer("GET", "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n"), 0);
	CHECK(res.body == HTTP_BODY_STREAM && !res.close && !res.until_close);
	CHECK_STR(answered("GET"), "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
	res.http10 = true;
	CHECK_STR(answered("GET"), "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
	CHECK_INT(answer("GET", "HTTP/1.1 200 OK\r\n\r\n"), 0);
	CHECK(res.body == HTTP_BODY_STREAM && res.close && res.until_close);
	CHECK_INT(answer("GET", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), 0);
	CHECK(res.body == HTTP_BODY_NONE && res.close);
	CHECK_STR(answered("GET"),
		"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
	response_done(&res);
}

TEST(responses_without_bodies)
{
	CHECK_INT(answer("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), 0);
	CHECK_INT(res.body, HTTP_BODY_NONE);
	CHECK_STR(answered("HEAD"), "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n");
	CHECK_INT(answer("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), 0);
	CHECK_INT(res.body, HTTP_BODY_NONE);
	CHECK_INT(answer("GET", "HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n"), 0);
	CHECK_STR(answered("GET"), "HTTP/1.1 204 No Content\r\n\r\n");
	CHECK_INT(answer("GET", "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n"), 0);
	CHECK_STR(answered("GET"), "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n");
	CHECK_INT(answer("GET", "HTTP/1.1 100 Continue\r\n\r\n"), 0);
	CHECK(res.status == 100 && res.body == HTTP_BODY_NONE);
	CHECK_INT(answer("GET", "HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: "
				"WebSocket\r\nSec-WebSocket-Accept: x\r\n\r\n"),
		0);
	CHECK(res.upgrade_ws);
	CHECK_STR(answered("GET"), "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: x\r\n"
				   "connection: upgrade\r\nupgrade: websocket\r\n\r\n");
	response_done(&res);
}

TEST(responses_that_are_ambiguous_are_refused)
{
	static const char *const bad[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3,3\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n",
		"HTTP/1.1 200 OK\nX: y\n\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 600 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n",
		"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"HTTP/1.1 200 O\x01K\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: a b\r\n\r\n",
		"ICY 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent_Length: 3\r\n\r\n"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(answer("GET", bad[i]), 502);
	CHECK_INT(answer("GET", "HTTP/1.1 200 OK\r\nConnection: Transfer-Encoding, date, x\r\nX: "
				"1\r\nDate: 2\r\n"
				"Transfer-Encoding: chunked\r\n\r\n"),
		0);
	CHECK(res.body == HTTP_BODY_STREAM && fields_get(&res.fields, "date") &&
		!fields_get(&res.fields, "x"));
	CHECK_INT(answer("GET", "HTTP/1.1 200 OK\r\nX: y\r\n"), 1);
	CHECK_INT(answer("GET", "HTTP/1.1 200 OK\r\nX: y\r\n\r\n"), 0);
	response_done(&res);
}

/*
 * Decodes `text` in pieces of `step`; the payload, or NULL when malformed; "?" in front when
 * unfinished.
 */
static const char *unchunk(const char *text, size_t step, size_t *ret_used)
{
	static char out[4096];
	struct chunks c = {0};
	size_t n = strlen(text), at = 0, len = 1;

	while (at < n && c.state != CHUNK_DONE) {
		size_t piece = MIN_OF(step, n - at), data_n;
		const char *data;
		long used = chunks_read(&c, text + at, piece, &data, &data_n);

		if (used < 0)
			return NULL;
		memcpy(out + len, data, data_n);
		len += data_n;
		at += (size_t)used;
	}
	out[len] = '\0';
	out[0] = '?';
	*ret_used = at;
	return c.state == CHUNK_DONE ? out + 1 : out;
}

TEST(chunked_bodies_in_pieces_of_any_size)
{
	static const char body[] =
		"5\r\nhello\r\n00A\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\nGET / next";
	size_t used = 0;

	for (size_t step = 1; step < sizeof(body); step++) {
		CHECK_STR(unchunk(body, step, &used), "hello0123456789");
		CHECK_INT(used, strlen(body) - 10);
	}
	CHECK_STR(unchunk("0\r\n\r\n", 1, &used), "");
	CHECK_STR(unchunk("5\r\nhel", 2, &used), "?hel");
}

TEST(malformed_chunks_are_refused)
{
	static const char *const bad[] = {"5;ext=1\r\nhello\r\n0\r\n\r\n",
		"5 \r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n",
		"0x5\r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n",
		"5\r\nhello\n0\r\n\r\n", "\r\nhello\r\n0\r\n\r\n", "1000000000000000\r\nx",
		"fffffffffffffffff\r\nx", "-1\r\nx", "0\r\nX: y\n\r\n", "0\r\nX\x01: y\r\n\r\n",
		"5\rhello\r\n0\r\n\r\n", "0\r\nX\rY\r\n\r\n", "0\r\n\n",
		"5\r\nhello\r\r\n0\r\n\r\n"};
	size_t used;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		for (size_t step = 1; step < 32; step++)
			CHECK(!unchunk(bad[i], step, &used));
	CHECK_STR(unchunk("5\r\nhello\r\n0\r\n\r\n", 3, &used), "hello");
}

TEST(chunk_heads)
{
	char out[20];

	CHECK_INT(chunk_head(out, 0), 3);
	CHECK(memcmp(out, "0\r\n", 3) == 0);
	CHECK_INT(chunk_head(out, 0x1f), 4);
	CHECK(memcmp(out, "1f\r\n", 4) == 0);
	CHECK_INT(chunk_head(out, SIZE_MAX), 18);
	CHECK(memcmp(out, "ffffffffffffffff\r\n", 18) == 0);
}
