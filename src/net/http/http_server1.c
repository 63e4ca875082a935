/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 towards the sandbox.
 *
 * Order:  one exchange at a time; what a client sends ahead stays unread in the stream until the
 *         answer before it is out, and is then parsed like everything else: nothing is forwarded
 *         that was not judged.
 * End:    a client that has closed its direction after a whole request gets its answer; then the
 *         connection ends. Whether it is there to read is known only when something was sent.
 * Limits: HTTP_HEAD_MS for a head from its first byte, HTTP_IDLE_MS between requests.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/http.h"
#include "net/http/http1.h"

#define LINGER_MAX_B (1u << 20) /* read and thrown away after our last words */

enum server1_state {
	S1_HEAD,
	S1_BODY,   /* of the request */
	S1_ANSWER, /* the request is read, its answer is not out */
	S1_RAW,    /* a WebSocket */
	S1_LINGER, /* we said the last word; the client may still be talking */
};

struct server1 {
	struct front *f;
	struct exchange *x;
	enum server1_state state;
	struct chunks chunks;
	uint64_t left; /* of a body with a length */
	size_t lingered_b;
	bool chunked_out, to_eof_out, close;
	bool head_begun; /* a byte of the next head is here */
};

/* The client has closed its direction, and nothing it sent waits here. */
static bool said_all(const struct server1 *s)
{
	return s->f->stream.eof && !s->f->stream.in.len;
}

/* ---- answers ---- */

static void on_head(struct exchange *x, const struct http_response *r)
{
	struct server1 *s = x->front->session;
	struct buf *out = &s->f->pool->scratch;
	struct http_response w = *r;

	buf_reset(out);
	if (w.status >= 200) {
		/* A body that nobody will read makes the connection useless. */
		s->close = x->req.close || x->close_after || s->f->flow->one_request ||
			   said_all(s) || (x->up_closed && !x->up_end);
		w.http10 = x->req.http10;
		s->chunked_out = w.body == HTTP_BODY_STREAM && !w.http10;
		s->to_eof_out = w.body == HTTP_BODY_STREAM && w.http10;
		w.close = s->close |= s->to_eof_out;
	}
	http1_write_response(&w, x->req.method, out);
	if (w.status == 101)
		s->state = S1_RAW;
	if (out->failed || !stream_add(&s->f->stream, out->data, out->len))
		s->close = true;
	if (s->state == S1_RAW)
		stream_again(&s->f->stream);
}

static void linger(struct server1 *s)
{
	s->state = S1_LINGER;
	stream_shut(&s->f->stream);
	stream_pause(&s->f->stream, false);
	front_deadline(s->f, HTTP_LINGER_MS);
}

/* Bodies move from the exchange to the stream as far as it has room. */
static void on_more(struct exchange *x)
{
	struct server1 *s = x->front->session;
	struct stream *out = &s->f->stream;
	char head[20];
	size_t n;

	while (x->down.len && (n = MIN_OF(x->down.len, stream_room(out)))) {
		if (s->chunked_out)
			stream_add(out, head, chunk_head(head, n));
		stream_add(out, fifo_head(&x->down), n);
		if (s->chunked_out)
			stream_add(out, "\r\n", 2);
		exchange_down_taken(x, n);
	}
	if (x->down.len) {
		out->was_high = true; /* writable() goes on */
		return;
	}
	if (!x->down_end)
		return;
	if (s->chunked_out)
		stream_add(out, "0\r\n\r\n", 5);
	exchange_delivered(x);
}

static void on_consumed(struct exchange *x, size_t n)
{
	struct server1 *s = x->front->session;

	if (s->f->stream.in.len || s->f->stream.paused)
		stream_again(&s->f->stream);
}

static void end_later(void *arg)
{
	front_end(arg, "the answer was cut off");
}

static void on_over(struct exchange *x, bool whole)
{
	struct server1 *s = x->front->session;
	struct front *f = s->f;

	s->x = NULL;
	if (!whole && (s->to_eof_out || s->state == S1_RAW)) {
		/* Closing would read as the end of the answer. */
		s->state = S1_LINGER;
		flow_reset_on_close(f->flow->fd);
		loop_later(f->pool->gw->loop, end_later, f);
		return;
	}
	if (!whole || s->close || !x->up_end || s->state != S1_ANSWER || said_all(s)) {
		linger(s);
		return;
	}
	s->state = S1_HEAD;
	front_deadline(f, HTTP_IDLE_MS);
	stream_pause(&f->stream, false);
	if (f->stream.in.len || f->stream.eof)
		stream_again(&f->stream);
}

static const struct front_ops server1_ops = {
	.head = on_head,
	.more = on_more,
	.consumed = on_consumed,
	.over = on_over,
};

/* ---- requests; each returns true when there may be more to do ---- */

static bool read_head(struct server1 *s)
{
	static const struct http_problem crowded = {
		503, "too many bytes wait for slow connections"};
	struct stream *in = &s->f->stream;
	const struct http_problem *problem = NULL;
	struct exchange *x;
	int n;

	if (!in->in.len) {
		if (in->eof)
			front_end(s->f, "closed by the client");
		return false;
	}
	x = exchange_new(s->f, &server1_ops);
	if (!x) {
		front_end(s->f, "too many requests at once");
		return false;
	}
	n = http1_request_as(&x->req, exchange_form(x), fifo_head(&in->in), in->in.len, &problem);
	/* Heads that never end are what thousands of connections could fill memory with. */
	if (n == 0 && in->in.len >= FIFO_BLOCK_B && fifo_tight()) {
		problem = &crowded;
		n = -1;
	}
	if (n == 0) {
		exchange_drop(x);
		if (in->eof)
			front_end(s->f, "closed within a request");
		else if (!s->head_begun)
			front_deadline(s->f, HTTP_HEAD_MS);
		s->head_begun = true;
		return false;
	}
	s->x = x;
	s->close = s->chunked_out = s->to_eof_out = s->head_begun = false;
	if (n < 0) {
		s->state = S1_ANSWER;
		request_init(&x->req);
		exchange_bad(x, problem);
		return s->state == S1_LINGER; /* which lets go of what was read */
	}
	fifo_drop(&in->in, (size_t)n);
	front_deadline(s->f, 0);
	s->chunks = (struct chunks){0};
	s->left = x->req.length;
	s->state = x->req.body == HTTP_BODY_NONE ? S1_ANSWER : S1_BODY;
	exchange_begin(x);
	if (s->x == x && s->state == S1_BODY && x->req.body == HTTP_BODY_LENGTH && !s->left) {
		s->state = S1_ANSWER;
		exchange_body_end(x);
	}
	return true;
}

static void body_complete(struct server1 *s)
{
	s->state = S1_ANSWER;
	exchange_body_end(s->x);
}

static bool read_chunks(struct server1 *s)
{
	static const struct http_problem bad = {400, "the chunked body is malformed"};
	struct stream *in = &s->f->stream;
	struct exchange *x = s->x;
	const char *data = NULL;
	size_t n = 0, room = fifo_room(&x->up);
	long used;

	if (!room)
		return false;
	/* Framing is no longer than the whole, so what is decoded fits. */
	used = chunks_read(&s->chunks, fifo_head(&in->in), MIN_OF(in->in.len, room), &data, &n);
	if (used < 0) {
		exchange_bad(x, &bad);
		return s->x != NULL;
	}
	if (n)
		exchange_body(x, data, n);
	fifo_drop(&in->in, (size_t)used);
	if (s->x == x && s->chunks.state == CHUNK_DONE)
		body_complete(s);
	return used > 0;
}

static bool read_length(struct server1 *s)
{
	struct stream *in = &s->f->stream;
	struct exchange *x = s->x;
	size_t n = MIN_OF(in->in.len, fifo_room(&x->up));

	n = (size_t)MIN_OF((uint64_t)n, s->left);
	if (!n)
		return false;
	s->left -= n;
	exchange_body(x, fifo_head(&in->in), n);
	fifo_drop(&in->in, n);
	if (s->x == x && !s->left)
		body_complete(s);
	return true;
}

static bool read_body(struct server1 *s)
{
	if (s->f->stream.in.len)
		return s->x->req.body == HTTP_BODY_LENGTH ? read_length(s) : read_chunks(s);
	if (s->f->stream.eof) {
		front_end(s->f, "closed within a request");
		return false;
	}
	return false;
}

static bool read_raw(struct server1 *s)
{
	struct stream *in = &s->f->stream;
	struct exchange *x = s->x;
	size_t n = MIN_OF(in->in.len, fifo_room(&x->up));

	if (n) {
		exchange_body(x, fifo_head(&in->in), n);
		fifo_drop(&in->in, n);
		return true;
	}
	if (in->eof && !in->in.len && !x->up_end)
		exchange_body_end(x);
	return false;
}

static bool read_linger(struct server1 *s)
{
	struct stream *in = &s->f->stream;

	s->lingered_b += in->in.len;
	fifo_drop(&in->in, in->in.len);
	if ((in->eof && (in->hung_up || !in->shut_after)) || s->lingered_b > LINGER_MAX_B)
		front_end(s->f, "answered and closed");
	return false;
}

static bool step(struct server1 *s)
{
	switch (s->state) {
	case S1_HEAD:
		return read_head(s);
	case S1_BODY:
		return read_body(s);
	case S1_RAW:
		return read_raw(s);
	case S1_LINGER:
		return read_linger(s);
	case S1_ANSWER:
		break;
	}
	return false;
}

/* ---- the stream ---- */

static void on_readable(void *arg)
{
	struct front *f = arg;
	struct server1 *s = f->session;

	while (f->flow && step(s))
		;
	if (!f->flow)
		return;
	/* Ahead of what can be taken: the rest stays in the kernel, and the client waits. */
	if (s->state == S1_BODY || s->state == S1_RAW || s->state == S1_ANSWER)
		stream_pause(&f->stream, f->stream.in.len >= FIFO_BLOCK_B);
	if (s->state == S1_ANSWER && said_all(s) && (f->stream.hung_up || f->stream.truncated))
		front_end(f, "closed by the client");
}

static void on_writable(void *arg)
{
	struct server1 *s = ((struct front *)arg)->session;

	if (s->x)
		on_more(s->x);
}

static void on_broken(void *arg, const char *why)
{
	front_end(arg, why);
}

static const struct stream_ops server1_stream_ops = {
	.readable = on_readable,
	.writable = on_writable,
	.broken = on_broken,
};

static void on_late(struct front *f)
{
	struct server1 *s = f->session;
	static const struct http_problem slow = {408, "the head of the request took too long"};

	if (s->state != S1_HEAD || !s->head_begun) {
		front_end(f, s->state == S1_LINGER ? "answered and closed" : "idle");
		return;
	}
	s->x = exchange_new(f, &server1_ops);
	s->state = S1_ANSWER;
	if (s->x)
		exchange_bad(s->x, &slow);
	else
		front_end(f, "the head of the request took too long");
}

static void session_free(struct front *f)
{
	free(f->session);
}

bool server1_start(struct front *f)
{
	struct server1 *s = calloc(1, sizeof(*s));

	if (!s)
		return false;
	s->f = f;
	f->session = s;
	f->late = on_late;
	f->free_session = session_free;
	f->stream.ops = &server1_stream_ops;
	front_deadline(f, HTTP_HEAD_MS);
	return true;
}
