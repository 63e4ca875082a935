/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 heads from the internal form, in one spelling, whatever the bytes were that came. */
#include "net/http/http1.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define NUMBER_MAX 24u
#define LITERAL(out, text) buf_add((out), (text), sizeof(text) - 1)

/* Decimal without the cost of printf; returns where it begins in t. */
static const char *number_text(char t[NUMBER_MAX], uint64_t v)
{
	char *p = t + NUMBER_MAX - 1;

	*p = '\0';
	do {
		*--p = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return p;
}

/* "\r\ncontent-length: 12"; each line is begun, and the end of the head ends the last one. */
static void write_length(uint64_t v, struct buf *out)
{
	char t[NUMBER_MAX];

	LITERAL(out, "\r\ncontent-length: ");
	buf_adds(out, number_text(t, v));
}

/* Most lines are short: one add to the buffer instead of four. */
static void write_field(const struct http_field *f, struct buf *out)
{
	char line[512];
	size_t n = (size_t)f->name_len + f->value_len + 4;

	if (n > sizeof(line)) {
		LITERAL(out, "\r\n");
		buf_add(out, f->name, f->name_len);
		LITERAL(out, ": ");
		buf_add(out, f->value, f->value_len);
		return;
	}
	memcpy(line, "\r\n", 2);
	memcpy(line + 2, f->name, f->name_len);
	memcpy(line + 2 + f->name_len, ": ", 2);
	memcpy(line + 4 + f->name_len, f->value, f->value_len);
	buf_add(out, line, n);
}

static void write_fields(const struct http_fields *f, struct buf *out)
{
	for (size_t i = 0; i < f->n; i++)
		write_field(&f->v[i], out);
}

static void write_host(const struct http_request *r, struct buf *out)
{
	char t[NUMBER_MAX];
	bool v6 = strchr(r->host, ':');

	LITERAL(out, " HTTP/1.1\r\nhost: ");
	if (v6)
		buf_addc(out, '[');
	buf_adds(out, r->host);
	if (v6)
		buf_addc(out, ']');
	if (r->port) {
		buf_addc(out, ':');
		buf_adds(out, number_text(t, r->port));
	}
}

/* Methods whose requests usually have a body say so when they have none. */
static bool states_none(const char *method)
{
	return str_eq(method, "POST") || str_eq(method, "PUT") || str_eq(method, "PATCH");
}

bool http1_is_last(const struct http_request *r)
{
	return (r->body == HTTP_BODY_STREAM || (r->body == HTTP_BODY_LENGTH && r->length)) &&
	       !states_none(r->method);
}

void http1_write_request(const struct http_request *r, struct buf *out)
{
	buf_adds(out, r->method);
	buf_addc(out, ' ');
	buf_adds(out, r->path);
	if (r->query[0]) {
		buf_addc(out, '?');
		buf_adds(out, r->query);
	}
	write_host(r, out);
	write_fields(&r->fields, out);
	if (r->upgrade_ws)
		LITERAL(out, "\r\nconnection: upgrade\r\nupgrade: websocket");
	else if (http1_is_last(r))
		LITERAL(out, "\r\nconnection: close");
	if (r->body == HTTP_BODY_STREAM)
		LITERAL(out, "\r\ntransfer-encoding: chunked");
	else if (r->body == HTTP_BODY_LENGTH || states_none(r->method))
		write_length(r->body == HTTP_BODY_LENGTH ? r->length : 0, out);
	if (r->expect_continue)
		LITERAL(out, "\r\nexpect: 100-continue");
	LITERAL(out, "\r\n\r\n");
}

static const char *reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} reasons[] = {{200, "OK"}, {100, "Continue"}, {101, "Switching Protocols"},
		{103, "Early Hints"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"},
		{206, "Partial Content"}, {301, "Moved Permanently"}, {302, "Found"},
		{303, "See Other"}, {304, "Not Modified"}, {307, "Temporary Redirect"},
		{308, "Permanent Redirect"}, {400, "Bad Request"}, {401, "Unauthorized"},
		{403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
		{409, "Conflict"}, {413, "Content Too Large"}, {414, "URI Too Long"},
		{415, "Unsupported Media Type"}, {417, "Expectation Failed"},
		{421, "Misdirected Request"}, {429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"}, {500, "Internal Server Error"},
		{501, "Not Implemented"}, {502, "Bad Gateway"}, {503, "Service Unavailable"},
		{504, "Gateway Timeout"}, {505, "HTTP Version Not Supported"}};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "";
}

static void write_framing(const struct http_response *r, const char *method, struct buf *out)
{
	bool head = str_eq(method, "HEAD") || r->status == 304;

	if (r->status < 200 || r->status == 204)
		return;
	if (r->body == HTTP_BODY_LENGTH || (r->body == HTTP_BODY_NONE && head && r->has_length))
		write_length(r->length, out);
	else if (r->body == HTTP_BODY_NONE && !head)
		write_length(0, out);
	else if (r->body == HTTP_BODY_STREAM && !r->http10)
		LITERAL(out, "\r\ntransfer-encoding: chunked");
}

void http1_write_response(const struct http_response *r, const char *method, struct buf *out)
{
	bool close = r->close || (r->body == HTTP_BODY_STREAM && r->http10);
	char t[NUMBER_MAX];

	LITERAL(out, "HTTP/1.1 ");
	buf_adds(out, number_text(t, r->status));
	buf_addc(out, ' ');
	buf_adds(out, reason(r->status));
	write_fields(&r->fields, out);
	write_framing(r, method, out);
	if (r->upgrade_ws)
		LITERAL(out, "\r\nconnection: upgrade\r\nupgrade: websocket");
	else if (close && r->status >= 200)
		LITERAL(out, "\r\nconnection: close");
	else if (r->http10 && r->status >= 200)
		LITERAL(out, "\r\nconnection: keep-alive");
	LITERAL(out, "\r\n\r\n");
}
