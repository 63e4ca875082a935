/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 towards a server, behind the same calls as HTTP/1.1: for gRPC, which has nothing else.
 *
 * Purpose: whoever uses an upstream connection writes a request as HTTP/1.1 text and reads an answer
 *          in the same form. Here the text becomes one stream and the stream's answer becomes text:
 *          chunked, with its trailers behind the last chunk. So placing, searching and hiding values
 *          is what it is for HTTP/1.1, trailers included.
 * Trust:   the text is the keeper's own. The server's frames are hostile; the library checks them,
 *          names and values among it, and what is made of them is parsed again like any answer.
 * Order:   one stream at a time; the next request of an idle connection opens the next.
 * Limits:  H2_BODY_MAX_B of a body wait for the server's window. Reading stops when the user of the
 *          connection does not read, so at most one read of TLS waits as text.
 * Memory:  the head with values is parsed here, and wiped; the library's and TLS's copies of it are
 *          freed as they are sent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/http2.h"
#include "net/keeper/keeper_impl.h"

#define H2_BODY_MAX_B (128u << 10)
#define H2_TEXT_MAX_B (1u << 20)
#define H2_WINDOW_B (256u << 10)
#define READ_B (16u << 10)

struct up_h2 {
	nghttp2_session *session;
	int32_t id; /* of the stream; 0: none */
	struct fifo body;
	struct chunks chunks;
	uint64_t left;
	enum http_body kind;
	bool body_end, waits; /* waits: the library was told that nothing is there */
	struct fifo text;     /* of the answer */
	struct buf head;      /* header lines, or trailer lines */
	unsigned status;
	bool head_done, ended, broken;
	const uint8_t *out; /* frames that TLS has not taken yet */
	size_t out_n;
};

/* ---- the answer ---- */

static bool is_ours(const struct up_h2 *h, const nghttp2_frame *f)
{
	return h->id && f->hd.stream_id == h->id;
}

static void add_text(struct up_h2 *h, const void *p, size_t n)
{
	if (!fifo_add(&h->text, p, n))
		h->broken = true;
}

static int on_begin(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct up_h2 *h = arg;

	buf_reset(&h->head);
	return 0;
}

static int on_field(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_n,
	const uint8_t *value, size_t value_n, uint8_t flags, void *arg)
{
	struct up_h2 *h = arg;

	if (!is_ours(h, f) || !name_n)
		return 0;
	if (name_n == 7 && memcmp(name, ":status", 7) == 0 && value_n == 3)
		h->status = (unsigned)((value[0] - '0') * 100 + (value[1] - '0') * 10 +
				       (value[2] - '0'));
	/* The text is framed by chunks, whatever was said. */
	if (name[0] == ':' || (name_n == 14 && memcmp(name, "content-length", 14) == 0))
		return 0;
	buf_add(&h->head, name, name_n);
	buf_adds(&h->head, ": ");
	buf_add(&h->head, value, value_n);
	buf_adds(&h->head, "\r\n");
	return 0;
}

static void head_complete(struct up_h2 *h, bool end)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "HTTP/1.1 %03u X\r\n", h->status);

	if (h->head.failed || h->status < 100 || h->status > 599 || h->status == 101) {
		h->broken = true;
		return;
	}
	add_text(h, line, (size_t)n);
	add_text(h, h->head.data, h->head.len);
	if (h->status < 200) {
		add_text(h, "\r\n", 2);
		return;
	}
	h->head_done = true;
	if (end)
		add_text(h, "content-length: 0\r\n\r\n", 21);
	else
		add_text(h, "transfer-encoding: chunked\r\n\r\n", 30);
	h->ended = end;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct up_h2 *h = arg;
	bool end = f->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (!is_ours(h, f))
		return 0;
	if (f->hd.type == NGHTTP2_HEADERS && !h->head_done) {
		head_complete(h, end);
	} else if (f->hd.type == NGHTTP2_HEADERS || (f->hd.type == NGHTTP2_DATA && end)) {
		add_text(h, "0\r\n", 3);
		if (f->hd.type == NGHTTP2_HEADERS && h->head.failed)
			h->broken = true;
		else if (f->hd.type == NGHTTP2_HEADERS)
			add_text(h, h->head.data, h->head.len);
		add_text(h, "\r\n", 2);
		h->ended = true;
	}
	return 0;
}

static int on_data(
	nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *arg)
{
	struct up_h2 *h = arg;
	char head[20];

	if (id == h->id && n) {
		add_text(h, head, chunk_head(head, n));
		add_text(h, p, n);
		add_text(h, "\r\n", 2);
	}
	nghttp2_session_consume(s, id, n);
	return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t code, void *arg)
{
	struct up_h2 *h = arg;

	if (id != h->id)
		return 0;
	if (!h->ended)
		h->broken = true; /* cut off: whoever reads must not take it for whole */
	h->id = 0;
	return 0;
}

/* ---- the request ---- */

static ssize_t read_body(nghttp2_session *s, int32_t id, uint8_t *out, size_t n, uint32_t *flags,
	nghttp2_data_source *source, void *arg)
{
	struct up_h2 *h = arg;
	size_t take = MIN_OF(h->body.len, n);

	if (take) {
		memcpy(out, fifo_head(&h->body), take);
		fifo_drop(&h->body, take);
	} else if (!h->body_end) {
		h->waits = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (h->body_end && !h->body.len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)take;
}

/* The whole head at once; its length, or UP_BROKEN. */
static long submit(struct up_h2 *h, const char *p, size_t n)
{
	const struct net_target_form form = {.path = NET_PATH_AS_SENT, .query_as_sent = true};
	nghttp2_data_provider provider = {.read_callback = read_body};
	cleanup_buf struct buf path = BUF_INIT(4 * HTTP_PATH_MAX);
	const struct http_problem *problem;
	struct h2_list l = {.n = 0};
	struct http_request r;
	char authority[NET_NAME_MAX + 8];
	int used = http1_request_as(&r, form, p, n, &problem);

	if (used <= 0)
		return UP_BROKEN;
	r.wipe = true;
	snprintf(authority, sizeof(authority), r.port ? "%s:%u" : "%s", r.host, r.port);
	buf_addf(&path, "%s%s%s", r.path, r.query[0] ? "?" : "", r.query);
	h2_list_add(&l, ":method", r.method, strlen(r.method), false);
	h2_list_add(&l, ":scheme", "https", 5, false);
	h2_list_add(&l, ":authority", authority, strlen(authority), false);
	h2_list_add(&l, ":path", buf_str(&path), path.len, true);
	for (size_t i = 0; i < r.fields.n;
		i++) /* any of them may hold a value: none is remembered */
		h2_list_add(
			&l, r.fields.v[i].name, r.fields.v[i].value, r.fields.v[i].value_len, true);
	h2_list_add(&l, "te", "trailers", 8, false);
	h->kind = r.body;
	h->left = r.body == HTTP_BODY_LENGTH ? r.length : 0;
	h->body_end = r.body == HTTP_BODY_NONE || (r.body == HTTP_BODY_LENGTH && !h->left);
	h->chunks = (struct chunks){0};
	h->waits = h->head_done = h->ended = false;
	h->status = 0;
	h->id = nghttp2_submit_request(
		h->session, NULL, l.v, l.n, h->body_end ? NULL : &provider, NULL);
	explicit_bzero(path.data, path.cap);
	request_done(&r);
	return h->id > 0 ? used : UP_BROKEN;
}

/* Some of the body; how much was taken, UP_AGAIN or UP_BROKEN. */
static long body_take(struct up_h2 *h, const char *p, size_t n)
{
	size_t room = fifo_room(&h->body), data_n = MIN_OF(n, room);
	const char *data = p;
	long used = (long)data_n;

	if (!room)
		return UP_AGAIN;
	if (h->kind == HTTP_BODY_STREAM) {
		used = chunks_read(&h->chunks, p, MIN_OF(n, room), &data, &data_n);
		h->body_end = h->chunks.state == CHUNK_DONE;
	} else {
		h->left -= MIN_OF(h->left, (uint64_t)data_n);
		h->body_end = !h->left;
	}
	if (used < 0 || (data_n && !fifo_add(&h->body, data, data_n)))
		return UP_BROKEN;
	if (h->waits && h->id && (h->body.len || h->body_end)) {
		h->waits = false;
		nghttp2_session_resume_data(h->session, h->id);
	}
	return used;
}

/* ---- bytes ---- */

/* Frames to TLS, as far as it takes them. false: broken. */
static bool flush(struct up *u)
{
	struct up_h2 *h = u->h2;

	for (;;) {
		long n;

		if (!h->out_n) {
			ssize_t made = nghttp2_session_mem_send(h->session, &h->out);

			if (made < 0)
				return false;
			if (made == 0)
				return true;
			h->out_n = (size_t)made;
		}
		n = up_tls_write(u, (const char *)h->out, h->out_n);
		if (n == UP_AGAIN)
			return true;
		if (n < 0)
			return false;
		h->out += n;
		h->out_n -= (size_t)n;
	}
}

long up_h2_write(struct up *u, const char *p, size_t n)
{
	struct up_h2 *h = u->h2;
	long r;

	if (h->broken)
		return UP_BROKEN;
	r = h->id || h->head_done ? body_take(h, p, n) : submit(h, p, n);
	return flush(u) ? r : UP_BROKEN;
}

long up_h2_read(struct up *u, char *p, size_t n)
{
	struct up_h2 *h = u->h2;
	char raw[READ_B];

	while (!h->text.len) {
		long got;

		if (h->broken)
			return UP_BROKEN;
		got = up_tls_read(u, raw, sizeof(raw));
		if (got <= 0)
			return flush(u) || got < 0 ? got : UP_BROKEN;
		if (nghttp2_session_mem_recv(h->session, (const uint8_t *)raw, (size_t)got) !=
				got ||
			!flush(u))
			h->broken = true;
		explicit_bzero(raw, (size_t)got);
	}
	n = MIN_OF(n, h->text.len);
	memcpy(p, fifo_head(&h->text), n);
	fifo_drop(&h->text, n);
	return (long)n;
}

bool up_h2_pending(const struct up *u)
{
	return u->h2->out_n;
}

bool up_h2_reset(struct up *u)
{
	struct up_h2 *h = u->h2;

	h->head_done = h->ended = false;
	fifo_done(&h->body);
	return !h->id && !h->text.len && !h->broken;
}

bool up_h2_start(struct up *u)
{
	nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_WINDOW_B}};
	nghttp2_session_callbacks *c = NULL;
	nghttp2_option *o = h2_options();
	struct up_h2 *h = calloc(1, sizeof(*h));
	bool ok = h && o && nghttp2_session_callbacks_new(&c) == 0;

	if (ok) {
		h->body = FIFO_INIT(H2_BODY_MAX_B);
		h->text = FIFO_INIT(H2_TEXT_MAX_B);
		h->head = BUF_INIT(HTTP_HEAD_MAX_B);
		nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin);
		nghttp2_session_callbacks_set_on_header_callback(c, on_field);
		nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(c, on_close);
		ok = nghttp2_session_client_new2(&h->session, c, h, o) == 0 &&
		     nghttp2_submit_settings(
			     h->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) == 0;
	}
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
	u->h2 = h;
	return ok;
}

void up_h2_free(struct up *u)
{
	struct up_h2 *h = u->h2;

	if (!h)
		return;
	nghttp2_session_del(h->session);
	fifo_done(&h->body);
	fifo_done(&h->text);
	if (h->head.data)
		explicit_bzero(h->head.data, h->head.cap);
	buf_done(&h->head);
	free(h);
	u->h2 = NULL;
}
