/* SPDX-License-Identifier: Apache-2.0 */
/* net/request: targets, authorities, methods, and what is left of a message once it is whole. */
#include "test.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/request.h"

/* The canonical "path?query" of a target, or "!status". */
static const char *target(const char *method, const char *text, size_t n)
{
	static char out[4 * HTTP_PATH_MAX];
	const struct http_problem *p;
	struct http_request r;

	request_init(&r);
	p = request_method(&r, method, strlen(method));
	if (!p)
		p = request_target(&r, text, n);
	if (p)
		snprintf(out, sizeof(out), "!%u", p->status);
	else
		snprintf(out, sizeof(out), "%s%s%s", r.path, r.query[0] ? "?" : "", r.query);
	request_done(&r);
	return out;
}

static const char *get(const char *text)
{
	return target("GET", text, strlen(text));
}

TEST(target_has_one_spelling)
{
	CHECK_STR(get("/"), "/");
	CHECK_STR(get("/a/b/"), "/a/b/");
	CHECK_STR(get("/%61%7e%2D%5f%2Ex"), "/a~-_.x");
	CHECK_STR(get("/a%20b%c3%a9"), "/a%20b%C3%A9");
	CHECK_STR(get("/a[1]|{x}"), "/a%5B1%5D%7C%7Bx%7D");
	CHECK_STR(get("/x;v=1/...?q=%2e%2F&x=/../;"), "/x;v=1/...?q=%2e%2F&x=/../;");
	CHECK_STR(get("/a?"), "/a");
	CHECK_STR(get("/a?b?c"), "/a?b?c");
	CHECK_STR(get("/100%25"), "/100%25");
	CHECK_STR(get("/100%25abc"),
		"/100%25abc"); /* undone again it is no byte that changes a path */
	CHECK_STR(get("/.well-known/x"), "/.well-known/x");
}

TEST(target_of_a_scoped_package_is_judged_as_it_is_forwarded)
{
	CHECK_STR(get("/@types%2fnode"), "/@types/node");
	CHECK_STR(get("/%40types%2Fnode"), "/@types/node");
	CHECK_STR(get("/npm/@types%2fnode/-/x.tgz"), "/npm/@types/node/-/x.tgz");
	CHECK_STR(get("/@types%2f.."), "!400");
	CHECK_STR(get("/@%2fnode"), "!400");
	CHECK_STR(get("/@types%2f"), "!400");
	CHECK_STR(get("/@types%2f%2fa"), "!400");
	CHECK_STR(get("/@types%2fnode%2fx"), "!400");
	CHECK_STR(get("/types%2fnode"), "!400");
}

TEST(target_that_servers_read_differently_is_refused)
{
	static const char *const bad[] = {"", "a", "//", "//a", "/a//b", "/.", "/..", "/a/./b",
		"/a/../b", "/a/..", "/%2e", "/%2e%2e/b", "/.%2E/b", "/a/..;/b", "/a/..;x=1",
		"/a/.;/b", "/a/..%3bx/b", "/a%2fb", "/a%2Fb", "/a%5cb", "/a\\b", "/a%00b", "/a%0ab",
		"/a%0d%0ab", "/a%7f", "/a#b", "/a?b#c", "/a%", "/a%2", "/a%zz", "/a%u002e",
		"/a?b=%", "/a?b=%4", "/a?b c", "/a b", "/a\tb", "/caf\xc3\xa9", "/a?\xc3\xa9",
		"/%c0%ae%c0%ae/x", "/%ff", "/%e0%80%af", "/%ed%a0%80", "/%252e%252e/x", "/%252fx",
		"/%255cx", "/%2500", "/%25252e", "/a%253bx", "/%252%65", "/%25%32%66x", "*",
		"/a\x7f", "http:/a"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_STR(get(bad[i]), "!400");
	CHECK_STR(target("GET", "/a\0b", 4), "!400");
	/* The same shapes without what is wrong with them. */
	CHECK_STR(get("/a/b"), "/a/b");
	CHECK_STR(get("/..a/b..;/c"), "/..a/b..;/c");
}

TEST(target_star_is_for_options)
{
	CHECK_STR(target("OPTIONS", "*", 1), "*");
	CHECK_STR(target("OPTIONS", "/a", 2), "/a");
	CHECK_STR(target("OPTIONS", "*a", 2), "!400");
	CHECK_STR(target("GET", "*", 1), "!400");
}

TEST(target_has_a_maximum)
{
	cleanup_free char *long_path = malloc(HTTP_PATH_MAX + 2);

	CHECK(long_path);
	memset(long_path, 'a', HTTP_PATH_MAX + 1);
	long_path[0] = '/';
	long_path[HTTP_PATH_MAX + 1] = '\0';
	CHECK_STR(target("GET", long_path, HTTP_PATH_MAX + 1), "!414");
	CHECK(str_starts(target("GET", long_path, HTTP_PATH_MAX), "/aaa"));
	memset(long_path, '|', HTTP_PATH_MAX);
	long_path[0] = '/';
	CHECK_STR(target("GET", long_path, HTTP_PATH_MAX), "!414");
}

TEST(methods)
{
	static const struct {
		const char *method;
		unsigned status;
	} cases[] = {{"GET", 0}, {"PROPFIND", 0}, {"M-SEARCH", 0}, {"get", 400}, {"Get", 400},
		{"", 400}, {"G T", 400}, {"-GET", 400}, {"TRACE", 405}, {"TRACK", 405},
		{"CONNECT", 501}, {"PRI", 505}, {"GET\n", 400}, {"ABCDEFGHIJKLMNOPQRSTUVWX", 0},
		{"ABCDEFGHIJKLMNOPQRSTUVWXY", 400}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct http_problem *p;
		struct http_request r;

		request_init(&r);
		p = request_method(&r, cases[i].method, strlen(cases[i].method));
		CHECK_INT(p ? p->status : 0, cases[i].status);
		request_done(&r);
	}
}

/* "host port" or "!". */
static const char *authority(const char *text, size_t n)
{
	static char out[512];
	struct http_request r;

	request_init(&r);
	if (request_authority(&r, text, n))
		snprintf(out, sizeof(out), "!");
	else
		snprintf(out, sizeof(out), "%s %u", r.host, r.port);
	request_done(&r);
	return out;
}

TEST(authorities)
{
	static const char *const bad[] = {"", ":80", "a.b:", "a.b:0", "a.b:080", "a.b:65536",
		"a.b:65537", "a.b:1x", "a.b:-1", "a.b: 1", "u@a.b", "u:p@a.b",
		"allowed.com@evil.com", "a.b/", "a b", "a.b\n", "127.1", "2130706433", "0x7f.1",
		"0177.0.0.1", "[::1", "::1", "[::1]x", "[fe80::1%25eth0]", "[fe80::1%eth0]",
		"[1.2.3.4]", "a..b", "b\xc3\xbc.de", "a%2eb", "a.b,c.d"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_STR(authority(bad[i], strlen(bad[i])), "!");
	CHECK_STR(authority("a.b\0.c", 6), "!");
	CHECK_STR(authority("Api.Example.COM:8443", 20), "api.example.com 8443");
	CHECK_STR(authority("a.b", 3), "a.b 0");
	CHECK_STR(authority("10.1.2.3:80", 11), "10.1.2.3 80");
	CHECK_STR(authority("[2001:DB8::1]:443", 17), "2001:db8::1 443");
}

/* A request as HTTP/2 would make it. */
static void h2_request(struct http_request *r, const char *method, enum http_body body)
{
	request_init(r);
	CHECK(!request_method(r, method, strlen(method)));
	CHECK(!request_authority(r, "a.example", 9));
	CHECK(!request_target(r, "/x?y=1", 6));
	r->body = body;
}

static unsigned add(struct http_request *r, const char *name, const char *value)
{
	const struct http_problem *p =
		fields_add(&r->fields, &r->arena, name, strlen(name), value, strlen(value));

	return p ? p->status : 0;
}

static unsigned finish(struct http_request *r)
{
	const struct http_problem *p = request_finish(r);

	return p ? p->status : 0;
}

TEST(fields_are_lower_case_trimmed_and_without_controls)
{
	struct http_request r;

	h2_request(&r, "GET", HTTP_BODY_NONE);
	CHECK_INT(add(&r, "X-Name", " \ta\tb "), 0);
	CHECK_STR(fields_get(&r.fields, "x-name"), "a b");
	CHECK_INT(add(&r, "", "a"), 400);
	CHECK_INT(add(&r, "x name", "a"), 400);
	CHECK_INT(add(&r, "x:", "a"), 400);
	CHECK_INT(add(&r, "x\xc3", "a"), 400);
	CHECK_INT(add(&r, "x", "a\nb"), 400);
	CHECK_INT(add(&r, "x", "0123456789\r"), 400);
	CHECK_INT(add(&r, "x", "01234567\x7f"), 400);
	CHECK_INT(add(&r, "x",
			  "0123\x01"
			  "5678901234"),
		400);
	CHECK(fields_add(&r.fields, &r.arena, "x", 1, "a\0b", 3));
	CHECK_INT(add(&r, "x", "caf\xc3\xa9 0123456789 \xff"), 0);
	CHECK_INT(add(&r, "authorization", "Bearer x"), 0);
	CHECK(r.fields.v[2].sensitive && !r.fields.v[0].sensitive);
	CHECK_INT(add(&r, "x-name", "again"), 0);
	fields_remove(&r.fields, "x-name");
	CHECK(!fields_get(&r.fields, "x-name"));
	CHECK_INT(r.fields.n, 2);
	for (size_t i = r.fields.n; i < HTTP_HEADERS_MAX; i++)
		CHECK_INT(add(&r, "x", "v"), 0);
	CHECK_INT(add(&r, "x", "v"), 431);
	request_done(&r);
}

TEST(names_that_look_like_framing_are_refused)
{
	static const char *const bad[] = {"content_length", "Transfer.Encoding",
		"Proxy_Authorization", "ho_st" /* no */, "x_http_method_override", "content_type"};
	struct http_request r;

	h2_request(&r, "GET", HTTP_BODY_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(add(&r, bad[i], "1"), str_eq(bad[i], "ho_st") ? 0 : 400);
	CHECK_INT(add(&r, "x_custom.name", "1"), 0);
	request_done(&r);
}

TEST(finish_strips_hop_by_hop_and_overrides)
{
	static const char *const gone[] = {"connection", "keep-alive", "proxy-connection",
		"proxy-authorization", "proxy-anything", "te", "trailer", "upgrade",
		"http2-settings", "alt-svc", "x-http-method-override", "x-method-override",
		"x-http-method", "x-original-url", "x-rewrite-url", "x-mine"};
	static const char *const kept[] = {
		"forwarded", "x-forwarded-for", "via", "accept", "cookie"};
	struct http_request r;

	h2_request(&r, "GET", HTTP_BODY_NONE);
	CHECK_INT(add(&r, "Connection", "close, X-Mine ,, keep-alive"), 0);
	for (size_t i = 1; i < ARRAY_SIZE(gone); i++)
		CHECK_INT(add(&r, gone[i], str_eq(gone[i], "te") ? "gzip, trailers" : "x"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		CHECK_INT(add(&r, kept[i], "x"), 0);
	CHECK_INT(finish(&r), 0);
	CHECK(r.close && r.trailers_ok && !r.upgrade_ws);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		CHECK(!fields_get(&r.fields, gone[i]));
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		CHECK_STR(fields_get(&r.fields, kept[i]), "x");
	request_done(&r);
}

TEST(connection_must_not_name_what_belongs_to_the_request)
{
	static const char *const bad[] = {"host", "content-length", "Authorization", "cookie",
		"x-forwarded-for", "content-type", "transfer-encoding", "close, host", "accept",
		"a b", "x;y", "sec-websocket-key", "x-api-key"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct http_request r;

		h2_request(&r, "GET", HTTP_BODY_NONE);
		CHECK_INT(add(&r, "connection", bad[i]), 0);
		CHECK_INT(finish(&r), 400);
		request_done(&r);
		h2_request(&r, "GET", HTTP_BODY_NONE);
		CHECK_INT(add(&r, "connection", "x-other"), 0);
		CHECK_INT(finish(&r), 0);
		request_done(&r);
	}
}

TEST(finish_of_http2_checks_host_length_and_codings)
{
	static const struct {
		const char *name, *value;
		enum http_body body;
		unsigned status;
		enum http_body then;
	} cases[] = {{"host", "a.example", HTTP_BODY_NONE, 0, HTTP_BODY_NONE},
		{"host", "b.example", HTTP_BODY_NONE, 400, 0},
		{"host", "a.example:81", HTTP_BODY_NONE, 400, 0},
		{"content-length", "5", HTTP_BODY_STREAM, 0, HTTP_BODY_LENGTH},
		{"content-length", "0", HTTP_BODY_NONE, 0, HTTP_BODY_NONE},
		{"content-length", "5", HTTP_BODY_NONE, 400, 0},
		{"content-length", "+5", HTTP_BODY_STREAM, 400, 0},
		{"content-length", "5, 5", HTTP_BODY_STREAM, 400, 0},
		{"content-length", "18446744073709551615", HTTP_BODY_STREAM, 400, 0},
		{"content-length", "9223372036854775807", HTTP_BODY_STREAM, 400, 0},
		{"transfer-encoding", "chunked", HTTP_BODY_STREAM, 400, 0},
		{"expect", "100-Continue", HTTP_BODY_STREAM, 0, HTTP_BODY_STREAM},
		{"expect", "the-moon", HTTP_BODY_STREAM, 417, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_request r;

		h2_request(&r, "POST", cases[i].body);
		CHECK_INT(add(&r, cases[i].name, cases[i].value), 0);
		CHECK_INT(finish(&r), cases[i].status);
		if (!cases[i].status) {
			CHECK_INT(r.body, cases[i].then);
			CHECK(!fields_get(&r.fields, cases[i].name));
			CHECK_INT(r.expect_continue, str_eq(cases[i].name, "expect"));
		}
		request_done(&r);
	}
}

TEST(headers_that_say_one_thing_come_once)
{
	static const char *const names[] = {"authorization", "content-type", "host",
		"content-length", "expect", "sec-websocket-key"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct http_request r;
		const char *v = str_eq(names[i], "host")             ? "a.example"
				: str_eq(names[i], "content-length") ? "5"
								     : "100-continue";

		h2_request(&r, "POST", HTTP_BODY_STREAM);
		CHECK_INT(add(&r, names[i], v), 0);
		CHECK_INT(add(&r, names[i], v), 0);
		CHECK_INT(finish(&r), 400);
		request_done(&r);
	}
}

TEST(cookie_crumbs_become_one)
{
	struct http_request r;

	h2_request(&r, "GET", HTTP_BODY_NONE);
	add(&r, "cookie", "a=1");
	add(&r, "accept", "x");
	add(&r, "cookie", "b=2");
	add(&r, "cookie", "");
	add(&r, "cookie", "c=3");
	add(&r, "via", "y");
	CHECK_INT(finish(&r), 0);
	CHECK_INT(r.fields.n, 3);
	CHECK_STR(fields_get(&r.fields, "cookie"), "a=1; b=2; c=3");
	CHECK_STR(r.fields.v[2].name, "via");
	request_done(&r);
}

TEST(question_is_what_policy_needs)
{
	struct net_request q;
	struct http_request r;

	request_init(&r);
	CHECK(!request_method(&r, "POST", 4));
	CHECK(!request_authority(&r, "github.com", 10));
	CHECK(!request_target(&r, "/o/r.git/git-receive-pack", 25));
	r.body = HTTP_BODY_STREAM;
	CHECK_INT(finish(&r), 0);
	request_question(&r, 443, true, &q);
	CHECK_STR(q.host, "github.com");
	CHECK_STR(q.git_repo, "o/r");
	CHECK(q.git_push && q.has_body && q.tls && !q.git_refs && !q.upgrade_ws);
	CHECK_INT(q.port, 443);
	request_done(&r);
	h2_request(&r, "GET", HTTP_BODY_NONE);
	CHECK_INT(finish(&r), 0);
	request_question(&r, 80, false, &q);
	CHECK(!q.git_repo && !q.git_push && !q.has_body && !q.tls);
	CHECK_STR(q.path, "/x");
	CHECK_STR(q.query, "y=1");
	request_done(&r);
}

TEST(response_finish_of_http2)
{
	const struct http_problem *p;
	struct http_response r;

	response_init(&r);
	r.status = 200;
	r.body = HTTP_BODY_STREAM;
	fields_add(&r.fields, &r.arena, "content-length", 14, "7", 1);
	fields_add(&r.fields, &r.arena, "alt-svc", 7, "h3=\":443\"", 9);
	fields_add(&r.fields, &r.arena, "set-cookie", 10, "a=1", 3);
	fields_add(&r.fields, &r.arena, "set-cookie", 10, "b=1", 3);
	CHECK(!response_finish(&r, "GET"));
	CHECK_INT(r.body, HTTP_BODY_LENGTH);
	CHECK_INT(r.length, 7);
	CHECK_INT(r.fields.n, 2);
	response_done(&r);
	r.status = 101;
	p = response_finish(&r, "GET");
	CHECK(p && p->status == 502);
	response_done(&r);
	r.status = 304;
	fields_add(&r.fields, &r.arena, "content-length", 14, "7", 1);
	CHECK(!response_finish(&r, "GET"));
	CHECK(r.body == HTTP_BODY_NONE && r.has_length);
	response_done(&r);
}
