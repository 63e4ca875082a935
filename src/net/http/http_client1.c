/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 towards servers, and towards the keeper.
 *
 * Trust: an answer is read strictly; bytes beyond its end, or before any request, make the
 *        connection useless, since they could be taken for the answer to a later one.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/http.h"
#include "net/http/http1.h"
#include "net/http/http_pool.h"

/* Let go of the exchange; the connection is free, or over. */
static struct exchange *release(struct back *b)
{
	struct exchange *x = b->x;

	b->x = NULL;
	x->back = NULL;
	return x;
}

/* ---- the request ---- */

static void on_more(struct exchange *x)
{
	struct back *b = x->back;
	struct stream *out = &b->stream;
	bool chunked = x->req.body == HTTP_BODY_STREAM && !b->h1.raw;
	const char *p;
	char head[20];
	size_t n;

	if (b->h1.request_done)
		return;
	while ((n = MIN_OF(exchange_up(x, &p), stream_room(out)))) {
		if (chunked)
			stream_add(out, head, chunk_head(head, n));
		stream_add(out, p, n);
		if (chunked)
			stream_add(out, "\r\n", 2);
		exchange_up_taken(x, n);
	}
	if (!exchange_up_done(x)) {
		if (exchange_up(x, &p))
			out->was_high = true; /* writable() goes on */
		return;
	}
	b->h1.request_done = true;
	if (chunked)
		stream_add(out, "0\r\n\r\n", 5);
	if (b->h1.raw)
		stream_shut(out);
}

static void on_consumed(struct exchange *x, size_t n)
{
	struct back *b = x->back;

	if (b->stream.in.len || b->stream.paused || b->stream.eof)
		stream_again(&b->stream);
}

static void on_cancel(struct exchange *x)
{
	struct back *b = x->back;

	release(b);
	back_end(b, "cancelled");
}

static const struct back_ops client1_ops = {
	.more = on_more,
	.consumed = on_consumed,
	.cancel = on_cancel,
};

void client1_send(struct back *b, struct exchange *x)
{
	struct buf *out = &b->pool->scratch;

	b->x = x;
	b->h1 = (struct http1_answer){0};
	buf_done(&b->trailers);
	b->trailers = BUF_INIT(HTTP_HEAD_MAX_B + 1);
	back_busy(b);
	x->back = b;
	x->back_ops = &client1_ops;
	x->state = EXCHANGE_SENT;
	x->sent = true;
	x->reused = b->used_n++ > 0;
	b->draining |= http1_is_last(&x->req);
	buf_reset(out);
	http1_write_request(&x->req, out);
	if (out->failed || !stream_add(&b->stream, out->data, out->len)) {
		release(b);
		back_end(b, "out of memory");
		exchange_failed(x, "the request's head is too large", false);
		return;
	}
	if (x->req.body == HTTP_BODY_NONE)
		b->h1.request_done = !x->req.upgrade_ws;
	else
		on_more(x);
}

/* ---- the answer; each returns true when there may be more to do ---- */

static void broken_answer(struct back *b, const char *why)
{
	struct exchange *x = release(b);

	back_end(b, why);
	exchange_failed(x, why, false);
}

static void answer_done(struct back *b)
{
	bool reusable = b->h1.request_done && !b->h1.raw && !b->draining && !b->stream.in.len &&
			!b->stream.eof;
	struct exchange *x = release(b);

	if (reusable)
		back_idle(b);
	else
		back_end(b, "used up");
	exchange_down_end(x);
}

static bool read_head(struct back *b)
{
	const struct http_problem *problem = NULL;
	struct stream *in = &b->stream;
	struct exchange *x = b->x;
	struct http_response r;
	bool none;
	int n;

	if (!in->in.len) {
		if (in->eof)
			broken_answer(b, "the server closed the connection without an answer");
		return false;
	}
	x->heard = true;
	n = http1_response(&r, x->req.method, fifo_head(&in->in), in->in.len, &problem);
	if (n < 0 || (n == 0 && in->eof)) {
		broken_answer(b, n < 0 ? problem->text
				       : "the server closed the connection within an answer");
		return false;
	}
	if (n == 0)
		return false;
	fifo_drop(&in->in, (size_t)n);
	if (r.status >= 200 || r.status == 101) {
		b->h1.head_done = true;
		b->h1.raw = r.status == 101;
		b->h1.to_eof = r.until_close || b->h1.raw;
		b->h1.chunked = r.body == HTTP_BODY_STREAM && !b->h1.to_eof;
		b->h1.left = r.body == HTTP_BODY_LENGTH ? r.length : 0;
		b->draining |= r.close;
	}
	none = r.status >= 200 && r.body == HTTP_BODY_NONE;
	exchange_response(x, &r);
	if (b->x != x)
		return false;
	if (none) {
		answer_done(b);
		return false;
	}
	return true;
}

/* Of the keeper only: gRPC's status is there. Each line was checked for control characters. */
static void take_trailers(struct back *b, struct exchange *x)
{
	const struct buf *t = &b->trailers;

	for (size_t at = 0; b->key.keeper && at < t->len;) {
		const char *line = t->data + at, *end = memchr(line, '\r', t->len - at);
		size_t n = end ? (size_t)(end - line) : t->len - at;
		const char *colon = memchr(line, ':', n);

		if (colon && colon > line)
			exchange_trailer(x, line, (size_t)(colon - line), colon + 1,
				n - (size_t)(colon - line) - 1);
		at += n + 2;
	}
}

static bool read_chunks(struct back *b)
{
	struct stream *in = &b->stream;
	struct exchange *x = b->x;
	size_t n = 0, room = fifo_room(&x->down);
	const char *data = NULL;
	long used;

	if (!room)
		return false;
	b->h1.chunks.trailers = b->key.keeper ? &b->trailers : NULL;
	used = chunks_read(&b->h1.chunks, fifo_head(&in->in), MIN_OF(in->in.len, room), &data, &n);
	if (used < 0) {
		broken_answer(b, "the server's chunked body is malformed");
		return false;
	}
	if (n)
		exchange_down(x, data, n);
	if (!in->open)
		return false;
	fifo_drop(&in->in, (size_t)used);
	if (b->x != x)
		return false;
	if (b->h1.chunks.state == CHUNK_DONE) {
		take_trailers(b, x);
		answer_done(b);
		return false;
	}
	return used > 0;
}

static bool read_plain(struct back *b)
{
	struct stream *in = &b->stream;
	struct exchange *x = b->x;
	size_t n = MIN_OF(in->in.len, fifo_room(&x->down));

	if (!b->h1.to_eof)
		n = (size_t)MIN_OF((uint64_t)n, b->h1.left);
	if (!n)
		return false;
	if (!b->h1.to_eof)
		b->h1.left -= n;
	exchange_down(x, fifo_head(&in->in), n);
	if (!in->open)
		return false;
	fifo_drop(&in->in, n);
	if (b->x != x)
		return false;
	if (!b->h1.to_eof && !b->h1.left) {
		answer_done(b);
		return false;
	}
	return true;
}

static bool read_body(struct back *b)
{
	if (b->stream.in.len)
		return b->h1.chunked ? read_chunks(b) : read_plain(b);
	if (!b->stream.eof)
		return false;
	/* TLS tells an end from a cut; without it nobody can. */
	if (b->h1.to_eof && !b->stream.truncated)
		answer_done(b);
	else
		broken_answer(b, "the server closed the connection within an answer");
	return false;
}

static void on_readable(void *arg)
{
	struct back *b = arg;
	bool more = true;

	if (!b->x) {
		back_end(b, "closed by the server");
		return;
	}
	while (more && b->x && b->stream.open)
		more = b->h1.head_done ? read_body(b) : read_head(b);
	if (b->x && b->stream.open)
		stream_pause(&b->stream, b->stream.in.len >= FIFO_BLOCK_B && b->h1.head_done);
}

static void on_writable(void *arg)
{
	struct back *b = arg;

	if (b->x)
		on_more(b->x);
}

static void on_broken(void *arg, const char *why)
{
	back_end(arg, why);
}

const struct stream_ops client1_stream_ops = {
	.readable = on_readable,
	.writable = on_writable,
	.broken = on_broken,
};

void client1_close(struct back *b, const char *why)
{
	if (b->x)
		exchange_failed(release(b), why, false);
}
