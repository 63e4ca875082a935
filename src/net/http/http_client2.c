/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 towards servers, by nghttp2: one connection carries many exchanges.
 *
 * Trust: header blocks become the internal form by the same rules as HTTP/1.1's; pushes are
 *        refused.
 * Order: as in http_server2.c: callbacks submit, frames leave by fill().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/http.h"
#include "net/http/http2.h"
#include "net/http/http_pool.h"

#define AUTHORITY_MAX (NET_NAME_MAX + 10)

/*
 * EXCHANGE_BODY_B in flight is slow over a long distance. A few downloads whose client keeps up get
 * more; WIDE_MAX * WIDE_B bounds what that can cost.
 */
#define WIDE_B (1u << 20)
#define WIDE_MAX 32u
#define WIDE_AFTER_B (128u << 10)

static const struct http_problem too_large = {502, "the server's head is too large"};
static const struct http_problem no_status = {502, "the server's status is not a number"};

static struct exchange *exchange_of(struct back *b, int32_t id)
{
	return nghttp2_session_get_stream_user_data(b->h2, id);
}

/* Let go of the exchange; its stream may live a little longer. */
static void release(struct back *b, struct exchange *x)
{
	nghttp2_session_set_stream_user_data(b->h2, x->back_stream, NULL);
	*x->prev_on_back = x->next_on_back;
	if (x->next_on_back)
		x->next_on_back->prev_on_back = x->prev_on_back;
	b->pool->wide_n -= x->wide;
	x->wide = false;
	x->back = NULL;
}

/* ---- the request ---- */

static ssize_t read_request(nghttp2_session *h2, int32_t id, uint8_t *out, size_t max,
	uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct exchange *x = exchange_of(arg, id);
	size_t done = 0, n;
	const char *p;

	if (!x)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	while (done < max && (n = MIN_OF(exchange_up(x, &p), max - done))) {
		memcpy(out + done, p, n);
		exchange_up_taken(x, n);
		done += n;
	}
	if (exchange_up_done(x)) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	} else if (!done) {
		x->back_waits = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)done;
}

static void on_more(struct exchange *x)
{
	struct back *b = x->back;

	if (!x->back_waits)
		return;
	x->back_waits = false;
	nghttp2_session_resume_data(b->h2, x->back_stream);
	stream_kick(&b->stream);
}

static void on_consumed(struct exchange *x, size_t n)
{
	struct back *b = x->back;

	if (!x->wide && x->down_b > WIDE_AFTER_B && x->down.len <= n &&
		b->pool->wide_n < WIDE_MAX) {
		x->wide = true;
		b->pool->wide_n++;
		x->down.max = WIDE_B;
		nghttp2_session_set_local_window_size(
			b->h2, NGHTTP2_FLAG_NONE, x->back_stream, WIDE_B);
	}
	nghttp2_session_consume(b->h2, x->back_stream, n);
	if (nghttp2_session_want_write(b->h2))
		stream_kick(&b->stream);
}

static void on_cancel(struct exchange *x)
{
	struct back *b = x->back;
	size_t held = x->down.len; /* will never be taken by the client */

	nghttp2_session_consume_connection(b->h2, held);
	nghttp2_submit_rst_stream(b->h2, NGHTTP2_FLAG_NONE, x->back_stream, NGHTTP2_CANCEL);
	release(b, x);
	stream_kick(&b->stream);
}

static const struct back_ops client2_ops = {
	.more = on_more,
	.consumed = on_consumed,
	.cancel = on_cancel,
};

static int32_t submit(struct back *b, struct exchange *x)
{
	const struct http_request *r = &x->req;
	nghttp2_data_provider provider = {.read_callback = read_request};
	struct buf *path = &b->pool->scratch;
	struct h2_list l = {.n = 0};
	char authority[AUTHORITY_MAX];
	bool v6 = strchr(r->host, ':');
	int n;

	n = snprintf(authority, sizeof(authority), "%s%s%s", v6 ? "[" : "", r->host, v6 ? "]" : "");
	if (r->port)
		n += snprintf(authority + n, sizeof(authority) - (size_t)n, ":%u", r->port);
	buf_reset(path);
	buf_adds(path, r->path);
	if (r->query[0]) {
		buf_addc(path, '?');
		buf_adds(path, r->query);
	}
	h2_list_add(&l, ":method", r->method, strlen(r->method), false);
	h2_list_add(&l, ":scheme", "https", 5, false);
	h2_list_add(&l, ":authority", authority, (size_t)n, false);
	h2_list_add(&l, ":path", buf_str(path), path->len, false);
	h2_list_fields(&l, &r->fields);
	if (r->body == HTTP_BODY_LENGTH)
		h2_list_length(&l, r->length);
	if (r->trailers_ok)
		h2_list_add(&l, "te", "trailers", 8, false);
	return nghttp2_submit_request(
		b->h2, NULL, l.v, l.n, r->body == HTTP_BODY_NONE ? NULL : &provider, x);
}

void client2_send(struct back *b, struct exchange *x)
{
	int32_t id = submit(b, x);

	if (id < 0) {
		/* The connection has used up its numbers, or there is no memory. */
		b->draining = true;
		if (!b->streams_n)
			back_end(b, "used up");
		exchange_failed(x, "the request could not be sent",
			id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE);
		return;
	}
	b->deadline_ms = 0;
	b->streams_n++;
	x->back = b;
	x->back_ops = &client2_ops;
	x->back_stream = id;
	x->back_waits = false;
	x->state = EXCHANGE_SENT;
	x->sent = true;
	x->reused = b->used_n++ > 0;
	x->next_on_back = b->running;
	x->prev_on_back = &b->running;
	if (x->next_on_back)
		x->next_on_back->prev_on_back = &x->next_on_back;
	b->running = x;
	stream_kick(&b->stream);
}

/* ---- the answer ---- */

static void fail_stream(struct back *b, struct exchange *x, const char *why)
{
	nghttp2_session_consume_connection(b->h2, x->down.len);
	nghttp2_submit_rst_stream(b->h2, NGHTTP2_FLAG_NONE, x->back_stream, NGHTTP2_PROTOCOL_ERROR);
	release(b, x);
	exchange_failed(x, why, false);
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	struct back *b = arg;

	response_done(&b->head);
	response_init(&b->head);
	b->head_problem = NULL;
	b->head_b = 0;
	return 0;
}

static const struct http_problem *read_status(struct http_response *r, const char *value, size_t n)
{
	if (n != 3)
		return &no_status;
	for (size_t i = 0; i < n; i++) {
		if (value[i] < '0' || value[i] > '9')
			return &no_status;
		r->status = r->status * 10 + (unsigned)(value[i] - '0');
	}
	return NULL;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct back *b = arg;
	struct exchange *x = exchange_of(b, frame->hd.stream_id);

	if (!x || frame->hd.type != NGHTTP2_HEADERS || b->head_problem || !name_len)
		return 0;
	b->head_b += name_len + value_len + 32;
	if (b->head_b > HTTP_HEAD_MAX_B)
		b->head_problem = &too_large;
	else if (x->head_sent)
		exchange_trailer(x, (const char *)name, name_len, (const char *)value, value_len);
	else if (name[0] == ':')
		b->head_problem = read_status(&b->head, (const char *)value, value_len);
	else
		b->head_problem = fields_add(&b->head.fields, &b->head.arena, (const char *)name,
			name_len, (const char *)value, value_len);
	return 0;
}

/* The server has said everything; what we still had to say is of no interest to it. */
static void answer_done(struct back *b, struct exchange *x)
{
	if (!exchange_up_done(x))
		nghttp2_submit_rst_stream(
			b->h2, NGHTTP2_FLAG_NONE, x->back_stream, NGHTTP2_NO_ERROR);
	/* From here on the client's pace concerns only what is queued already. */
	nghttp2_session_consume_connection(b->h2, x->down.len);
	release(b, x);
	exchange_down_end(x);
}

static void head_complete(struct back *b, struct exchange *x, bool end)
{
	const struct http_problem *problem = b->head_problem;
	struct http_response r;

	x->heard = true;
	if (x->head_sent) { /* trailers */
		if (problem)
			fail_stream(b, x, problem->text);
		else if (end)
			answer_done(b, x);
		return;
	}
	b->head.body = end ? HTTP_BODY_NONE : HTTP_BODY_STREAM;
	if (!problem)
		problem = response_finish(&b->head, x->req.method);
	if (problem) {
		fail_stream(b, x, problem->text);
		return;
	}
	r = b->head;
	response_init(&b->head);
	exchange_response(x, &r);
	if (end && x->back == b)
		answer_done(b, x);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	struct back *b = arg;
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	struct exchange *x = frame->hd.stream_id ? exchange_of(b, frame->hd.stream_id) : NULL;

	if (frame->hd.type == NGHTTP2_GOAWAY)
		b->draining = true;
	else if (x && frame->hd.type == NGHTTP2_HEADERS)
		head_complete(b, x, end);
	else if (x && frame->hd.type == NGHTTP2_DATA && end)
		answer_done(b, x);
	return 0;
}

static int on_data(
	nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *arg)
{
	struct back *b = arg;
	struct exchange *x = exchange_of(b, id);

	if (!x)
		nghttp2_session_consume(h2, id, n);
	else if (!x->head_sent || fifo_room(&x->down) < n) {
		nghttp2_session_consume_connection(h2, n);
		fail_stream(b, x, "the server sends more than it may");
	} else
		exchange_down(x, (const char *)p, n);
	return 0;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
	struct back *b = arg;
	struct exchange *x = exchange_of(b, id);
	char why[96];

	if (id % 2 == 0)
		return 0; /* a push, made before the server knew that it must not: not one of ours */
	b->streams_n--;
	if (x) {
		nghttp2_session_consume_connection(h2, x->down.len);
		release(b, x);
		snprintf(why, sizeof(why), "the server ended the stream: %s",
			nghttp2_http2_strerror(code));
		exchange_failed(x, why, code == NGHTTP2_REFUSED_STREAM);
	}
	if (!b->streams_n)
		stream_again(&b->stream); /* idle, or over: decided outside of the library */
	return 0;
}

/* ---- the stream ---- */

static void settle(struct back *b)
{
	if (b->state != BACK_H2 || b->streams_n)
		return;
	if (b->draining)
		back_end(b, "used up");
	else if (!b->deadline_ms)
		back_idle(b);
}

static void on_readable(void *arg)
{
	struct back *b = arg;
	ssize_t n;

	if (b->stream.in.len) {
		n = nghttp2_session_mem_recv(
			b->h2, (const uint8_t *)fifo_head(&b->stream.in), b->stream.in.len);
		if (n < 0) {
			back_end(b, "the server does not speak HTTP/2 as it should");
			return;
		}
		if (!b->stream.open)
			return;
		fifo_drop(&b->stream.in, (size_t)n);
	}
	if (b->stream.eof) {
		back_end(b, "the server closed the connection");
		return;
	}
	if (nghttp2_session_want_write(b->h2))
		stream_kick(&b->stream);
	else if (!nghttp2_session_want_read(b->h2))
		back_end(b, "the server ended the connection");
	settle(b);
}

static bool on_fill(void *arg)
{
	struct back *b = arg;
	int r = h2_fill(b->h2, &b->stream);

	if (r < 0)
		back_end(b, "out of memory");
	else if (r == 0 && !nghttp2_session_want_read(b->h2) && !nghttp2_session_want_write(b->h2))
		back_end(b, "the server does not speak HTTP/2 as it should");
	else
		settle(b);
	return r > 0;
}

static void on_writable(void *arg)
{
	stream_kick(&((struct back *)arg)->stream);
}

static void on_broken(void *arg, const char *why)
{
	back_end(arg, why);
}

const struct stream_ops client2_stream_ops = {
	.readable = on_readable,
	.writable = on_writable,
	.fill = on_fill,
	.broken = on_broken,
};

bool client2_start(struct back *b)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, EXCHANGE_BODY_B},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX_B},
	};
	nghttp2_session_callbacks *c = NULL;
	nghttp2_option *o = h2_options();
	int r = -1;

	response_init(&b->head);
	if (o && nghttp2_session_callbacks_new(&c) == 0) {
		nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(c, on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(c, on_close);
		r = nghttp2_session_client_new2(&b->h2, c, b, o);
	}
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
	if (r == 0)
		r = nghttp2_submit_settings(
			b->h2, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
	if (r == 0)
		r = nghttp2_session_set_local_window_size(
			b->h2, NGHTTP2_FLAG_NONE, 0, H2_ANSWERS_B);
	stream_kick(&b->stream);
	return r == 0;
}

void client2_close(struct back *b, const char *why)
{
	struct exchange *x;

	while ((x = b->running)) {
		release(b, x);
		exchange_failed(x, why, false);
	}
	response_done(&b->head);
}
