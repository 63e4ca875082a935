/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 towards the sandbox, by nghttp2.
 *
 * Purpose: each stream is one exchange; header blocks become the internal form, nothing else is
 *          forwarded.
 * Trust:   every stream's authority is judged by itself. Extended CONNECT is not offered, pushes
 *          are never made.
 * Limits:  H2_STREAMS_MAX streams, HTTP_HEAD_MAX_B per head, a table of H2_TABLE_B; control
 *          frames and resets beyond a budget that refills slowly end the connection.
 * Order:   the library's callbacks may submit, never send or receive; frames leave by fill(),
 *          once a turn.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/http.h"
#include "net/http/http2.h"

#define BUDGET_MAX 1000u /* resets, or other control frames, at once */
#define BUDGET_PER_S 50u

struct budget {
	uint64_t left, since_ms;
};

struct server2 {
	struct front *f;
	nghttp2_session *h2;
	struct budget resets, control;
	/* The head that is being read; header blocks do not interleave. */
	const struct http_problem *problem;
	size_t head_b;
	struct buf target;
	bool https;
	bool ending; /* no new streams */
};

static const struct http_problem too_large = {431, "the head is too large"};
static const struct http_problem no_scheme = {400, "the scheme is not that of this connection"};
static const struct http_problem no_pseudo = {400, "an unknown pseudo-header"};

static struct exchange *exchange_of(struct server2 *s, int32_t id)
{
	return nghttp2_session_get_stream_user_data(s->h2, id);
}

/* ---- answers ---- */

static ssize_t read_answer(nghttp2_session *h2, int32_t id, uint8_t *out, size_t max,
	uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct exchange *x = exchange_of(arg, id);
	size_t n = x ? MIN_OF(x->down.len, max) : 0;
	struct h2_list l = {.n = 0};

	if (!x)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (n) {
		memcpy(out, fifo_head(&x->down), n);
		exchange_down_taken(x, n);
	}
	if (!x->down.len && x->down_end) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (x->trailers.n) {
			h2_list_fields(&l, &x->trailers);
			if (nghttp2_submit_trailer(h2, id, l.v, l.n) == 0)
				*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		}
	} else if (!n) {
		x->front_waits = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

static void on_head(struct exchange *x, const struct http_response *r)
{
	struct server2 *s = x->front->session;
	nghttp2_data_provider provider = {.read_callback = read_answer};
	struct h2_list l = {.n = 0};
	char status[4] = {(char)('0' + r->status / 100 % 10), (char)('0' + r->status / 10 % 10),
		(char)('0' + r->status % 10), '\0'};

	h2_list_add(&l, ":status", status, 3, false);
	h2_list_fields(&l, &r->fields);
	if (r->has_length || r->body == HTTP_BODY_LENGTH)
		h2_list_length(&l, r->length);
	if (r->status < 200)
		nghttp2_submit_headers(
			s->h2, NGHTTP2_FLAG_NONE, x->front_stream, NULL, l.v, l.n, NULL);
	else if (nghttp2_submit_response(s->h2, x->front_stream, l.v, l.n,
			 r->body == HTTP_BODY_NONE ? NULL : &provider) != 0)
		nghttp2_submit_rst_stream(
			s->h2, NGHTTP2_FLAG_NONE, x->front_stream, NGHTTP2_INTERNAL_ERROR);
	if (x->close_after && r->status >= 200 && !s->ending) {
		/* Others may finish; nothing new is taken from this client on this connection. */
		s->ending = true;
		nghttp2_submit_goaway(s->h2, NGHTTP2_FLAG_NONE,
			nghttp2_session_get_last_proc_stream_id(s->h2), NGHTTP2_NO_ERROR, NULL, 0);
	}
	stream_kick(&s->f->stream);
}

static void on_more(struct exchange *x)
{
	struct server2 *s = x->front->session;

	if (!x->front_waits)
		return;
	x->front_waits = false;
	nghttp2_session_resume_data(s->h2, x->front_stream);
	stream_kick(&s->f->stream);
}

static void on_consumed(struct exchange *x, size_t n)
{
	struct server2 *s = x->front->session;

	nghttp2_session_consume(s->h2, x->front_stream, n);
	if (nghttp2_session_want_write(s->h2))
		stream_kick(&s->f->stream);
}

static void on_over(struct exchange *x, bool whole)
{
	struct server2 *s = x->front->session;

	if (whole)
		return; /* the stream is closed */
	nghttp2_session_consume_connection(s->h2, x->up.len);
	nghttp2_session_set_stream_user_data(s->h2, x->front_stream, NULL);
	nghttp2_submit_rst_stream(s->h2, NGHTTP2_FLAG_NONE, x->front_stream,
		x->delivered ? NGHTTP2_NO_ERROR : NGHTTP2_INTERNAL_ERROR);
	stream_kick(&s->f->stream);
}

static const struct front_ops server2_ops = {
	.head = on_head,
	.more = on_more,
	.consumed = on_consumed,
	.over = on_over,
};

/* ---- requests ---- */

static bool budget_take(struct server2 *s, struct budget *b)
{
	uint64_t now = loop_now_ms(s->f->pool->gw->loop), refill;

	refill = (now - b->since_ms) * BUDGET_PER_S / 1000;
	if (refill) {
		b->left = MIN_OF(b->left + refill, (uint64_t)BUDGET_MAX);
		b->since_ms = now;
	}
	if (b->left) {
		b->left--;
		return true;
	}
	s->ending = true;
	nghttp2_session_terminate_session(s->h2, NGHTTP2_ENHANCE_YOUR_CALM);
	return false;
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	struct server2 *s = arg;
	struct exchange *x;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	x = s->ending ? NULL : exchange_new(s->f, &server2_ops);
	if (!x)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	x->front_stream = frame->hd.stream_id;
	nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, x);
	s->problem = NULL;
	s->head_b = 0;
	s->https = false;
	buf_reset(&s->target);
	front_deadline(s->f, HTTP_HEAD_MS);
	return 0;
}

static const struct http_problem *read_pseudo(struct server2 *s, struct exchange *x,
	const char *name, size_t name_len, const char *value, size_t n)
{
	if (name_len == 7 && memcmp(name, ":method", 7) == 0)
		return request_method(&x->req, value, n);
	if (name_len == 10 && memcmp(name, ":authority", 10) == 0)
		return request_authority(&x->req, value, n);
	if (name_len == 5 && memcmp(name, ":path", 5) == 0) {
		buf_add(&s->target, value, n);
		return s->target.failed ? &too_large : NULL;
	}
	if (name_len != 7 || memcmp(name, ":scheme", 7) != 0)
		return &no_pseudo;
	s->https = n == 5 && memcmp(value, "https", 5) == 0;
	return s->https ? NULL : &no_scheme;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct server2 *s = arg;
	struct exchange *x = exchange_of(s, frame->hd.stream_id);

	/* Trailers of requests are not carried. */
	if (!x || frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	s->head_b += name_len + value_len + 32;
	if (s->problem)
		return 0;
	if (s->head_b > HTTP_HEAD_MAX_B)
		s->problem = &too_large;
	else if (name_len && name[0] == ':')
		s->problem = read_pseudo(
			s, x, (const char *)name, name_len, (const char *)value, value_len);
	else
		s->problem = fields_add(&x->req.fields, &x->req.arena, (const char *)name, name_len,
			(const char *)value, value_len);
	if (!s->problem && (flags & NGHTTP2_NV_FLAG_NO_INDEX) && name[0] != ':' && x->req.fields.n)
		x->req.fields.v[x->req.fields.n - 1].sensitive = true;
	return 0;
}

static void head_complete(struct server2 *s, struct exchange *x, bool end)
{
	front_deadline(s->f, 0);
	x->req.body = end ? HTTP_BODY_NONE : HTTP_BODY_STREAM;
	if (!s->problem && !s->https)
		s->problem = &no_scheme;
	x->req.form = exchange_form(x);
	if (!s->problem)
		s->problem = request_target(&x->req, buf_str(&s->target), s->target.len);
	if (!s->problem)
		s->problem = request_finish(&x->req);
	if (s->problem) {
		exchange_bad(x, s->problem);
		return;
	}
	x->up_end = end;
	exchange_begin(x);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	struct server2 *s = arg;
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	struct exchange *x;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		x = exchange_of(s, frame->hd.stream_id);
		if (x && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
			head_complete(s, x, end);
		else if (x && end)
			exchange_body_end(x);
		return 0;
	case NGHTTP2_DATA:
		x = exchange_of(s, frame->hd.stream_id);
		if (x && end)
			exchange_body_end(x);
		else if (!frame->hd.length)
			budget_take(s, &s->control);
		return 0;
	case NGHTTP2_RST_STREAM:
		budget_take(s, &s->resets);
		return 0;
	case NGHTTP2_WINDOW_UPDATE:
		return 0;
	default:
		budget_take(s, &s->control);
		return 0;
	}
}

static int on_data(
	nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *arg)
{
	struct exchange *x = exchange_of(arg, id);

	if (x)
		exchange_body(x, (const char *)p, n);
	else
		nghttp2_session_consume(h2, id, n);
	return 0;
}

/*
 * The answer may be out while the client still sends. Some clients lose an answer that is followed
 * by a reset, so what comes is thrown away for a while before one is sent.
 */
static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	struct exchange *x;

	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
		!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	x = exchange_of(arg, frame->hd.stream_id);
	if (!x)
		return 0;
	x->delivered = true;
	x->delivered_ms = loop_now_ms(x->front->pool->gw->loop);
	return 0;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
	struct server2 *s = arg;
	struct exchange *x = exchange_of(s, id);

	if (x) {
		nghttp2_session_consume_connection(h2, x->up.len); /* nobody else will */
		nghttp2_session_set_stream_user_data(h2, id, NULL);
		if (x->delivered)
			exchange_delivered(x);
		else
			exchange_drop(x);
	}
	if (!s->f->exchanges)
		front_deadline(s->f, HTTP_IDLE_MS);
	return 0;
}

/* ---- the stream ---- */

static void on_readable(void *arg)
{
	struct front *f = arg;
	struct server2 *s = f->session;
	ssize_t n;

	if (f->stream.in.len) {
		n = nghttp2_session_mem_recv(
			s->h2, (const uint8_t *)fifo_head(&f->stream.in), f->stream.in.len);
		if (n < 0) {
			front_end(f, "not HTTP/2 as it should be");
			return;
		}
		fifo_drop(&f->stream.in, (size_t)n);
	}
	if (f->stream.eof) {
		front_end(f, "closed by the client");
		return;
	}
	if (nghttp2_session_want_write(s->h2) || !nghttp2_session_want_read(s->h2))
		stream_kick(&f->stream);
}

static bool on_fill(void *arg)
{
	struct front *f = arg;
	struct server2 *s = f->session;
	int r = h2_fill(s->h2, &f->stream);

	if (r < 0) {
		front_end(f, "out of memory");
		return false;
	}
	if (r == 0 &&
		((s->ending && !f->exchanges) || (!nghttp2_session_want_read(s->h2) &&
							 !nghttp2_session_want_write(s->h2)))) {
		stream_shut(&f->stream);
		front_deadline(f, HTTP_LINGER_MS);
	}
	return r > 0;
}

static void on_writable(void *arg)
{
	stream_kick(&((struct front *)arg)->stream);
}

static void on_broken(void *arg, const char *why)
{
	front_end(arg, why);
}

static const struct stream_ops server2_stream_ops = {
	.readable = on_readable,
	.writable = on_writable,
	.fill = on_fill,
	.broken = on_broken,
};

static void on_late(struct front *f)
{
	front_end(f, f->exchanges ? "the head of a request took too long" : "idle");
}

static void session_free(struct front *f)
{
	struct server2 *s = f->session;

	nghttp2_session_del(s->h2);
	buf_done(&s->target);
	free(s);
}

static int session_new(struct server2 *s)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, EXCHANGE_BODY_B},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX_B},
		{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, H2_TABLE_B},
	};
	nghttp2_session_callbacks *c = NULL;
	nghttp2_option *o = h2_options();
	int r = -1;

	if (o && nghttp2_session_callbacks_new(&c) == 0) {
		nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(c, on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
		nghttp2_session_callbacks_set_on_frame_send_callback(c, on_sent);
		nghttp2_session_callbacks_set_on_stream_close_callback(c, on_close);
		r = nghttp2_session_server_new2(&s->h2, c, s, o);
	}
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
	if (r == 0)
		r = nghttp2_submit_settings(
			s->h2, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
	if (r == 0)
		r = nghttp2_session_set_local_window_size(
			s->h2, NGHTTP2_FLAG_NONE, 0, H2_UPLOADS_B);
	return r;
}

bool server2_start(struct front *f)
{
	struct server2 *s = calloc(1, sizeof(*s));
	uint64_t now = loop_now_ms(f->pool->gw->loop);

	if (!s)
		return false;
	s->f = f;
	s->target = BUF_INIT(HTTP_HEAD_MAX_B);
	s->resets = s->control = (struct budget){.left = BUDGET_MAX, .since_ms = now};
	f->session = s;
	f->free_session = session_free;
	if (session_new(s) != 0)
		return false;
	f->late = on_late;
	f->stream.ops = &server2_stream_ops;
	front_deadline(f, HTTP_IDLE_MS);
	stream_kick(&f->stream);
	return true;
}
