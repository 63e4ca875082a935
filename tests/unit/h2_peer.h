/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a TLS connection that speaks HTTP/2 (or plain text, for HTTP/1.1) in a test. What it
 * hears is noted as text: "H1 name=value;" "D1 bytes;" "E1;" (end) "R1 code;" (reset) "G code;"
 * (goaway).
 */
#ifndef CROFT_TESTS_UNIT_H2_PEER_H
#define CROFT_TESTS_UNIT_H2_PEER_H

#include <nghttp2/nghttp2.h>

#include "http_world.h"
#include "tls_world.h"

struct peer {
	SSL *ssl;
	nghttp2_session *h2;
	bool server, shaken, gone;
	struct buf log;
	/* The one body it sends. */
	struct buf body;
	size_t sent;
	bool body_end, deferred;
	const char *trailer; /* value of grpc-status, or NULL */
	int32_t body_stream;
};

static int peer_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct peer *p = arg;

	buf_addf(&p->log, "H%d %.*s=%.*s;", f->hd.stream_id, (int)name_len, (const char *)name,
		(int)value_len, (const char *)value);
	return 0;
}

static int peer_data(
	nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *d, size_t n, void *arg)
{
	struct peer *p = arg;

	buf_addf(&p->log, "D%d %.*s;", id, (int)n, (const char *)d);
	return 0;
}

static int peer_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct peer *p = arg;

	if (f->hd.type == NGHTTP2_GOAWAY)
		buf_addf(&p->log, "G %u;", f->goaway.error_code);
	else if (f->hd.type == NGHTTP2_RST_STREAM)
		buf_addf(&p->log, "R%d %u;", f->hd.stream_id, f->rst_stream.error_code);
	else if ((f->hd.type == NGHTTP2_DATA || f->hd.type == NGHTTP2_HEADERS) &&
		 (f->hd.flags & NGHTTP2_FLAG_END_STREAM))
		buf_addf(&p->log, "E%d;", f->hd.stream_id);
	return 0;
}

static ssize_t peer_body(nghttp2_session *s, int32_t id, uint8_t *out, size_t max, uint32_t *flags,
	nghttp2_data_source *source, void *arg)
{
	struct peer *p = arg;
	size_t n = MIN_OF(p->body.len - p->sent, max);
	nghttp2_nv nv;

	memcpy(out, buf_str(&p->body) + p->sent, n);
	p->sent += n;
	if (p->sent == p->body.len && p->body_end) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (p->trailer) {
			nv = (nghttp2_nv){(uint8_t *)(uintptr_t) "grpc-status",
				(uint8_t *)(uintptr_t)p->trailer, 11, strlen(p->trailer), 0};
			nghttp2_submit_trailer(s, id, &nv, 1);
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		}
	} else if (!n) {
		p->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

static inline bool peer_begin(struct peer *p, SSL *ssl)
{
	nghttp2_session_callbacks *c = NULL;
	int r;

	*p = (struct peer){.ssl = ssl,
		.server = ssl && SSL_is_server(ssl),
		.log = BUF_INIT(WORLD_TEXT_MAX),
		.body = BUF_INIT(WORLD_TEXT_MAX)};
	if (!ssl || nghttp2_session_callbacks_new(&c) != 0)
		return false;
	nghttp2_session_callbacks_set_on_header_callback(c, peer_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, peer_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, peer_frame);
	r = p->server ? nghttp2_session_server_new(&p->h2, c, p)
		      : nghttp2_session_client_new(&p->h2, c, p);
	nghttp2_session_callbacks_del(c);
	return r == 0 && nghttp2_submit_settings(p->h2, 0, NULL, 0) == 0;
}

static inline void peer_end(struct peer *p)
{
	nghttp2_session_del(p->h2);
	SSL_free(p->ssl);
	buf_done(&p->log);
	buf_done(&p->body);
	*p = (struct peer){0};
}

static inline bool peer_h2(const struct peer *p)
{
	const unsigned char *name;
	unsigned n;

	SSL_get0_alpn_selected(p->ssl, &name, &n);
	return n == 2 && memcmp(name, "h2", 2) == 0;
}

static inline void peer_pump(struct peer *p)
{
	const uint8_t *d;
	char chunk[16384];
	ssize_t n;
	int r;

	if (!p->ssl || p->gone)
		return;
	ERR_clear_error();
	if (!p->shaken && SSL_do_handshake(p->ssl) != 1)
		return;
	p->shaken = true;
	while ((r = SSL_read(p->ssl, chunk, sizeof(chunk))) > 0) {
		if (!peer_h2(p))
			buf_add(&p->log, chunk, (size_t)r);
		else if (nghttp2_session_mem_recv(p->h2, (const uint8_t *)chunk, (size_t)r) < 0)
			p->gone = true;
	}
	if (r == 0 || SSL_get_error(p->ssl, r) == SSL_ERROR_ZERO_RETURN)
		p->gone = true;
	while (peer_h2(p) && (n = nghttp2_session_mem_send(p->h2, &d)) > 0)
		for (r = 1; n > 0 && r > 0; n -= r, d += r) /* a record at a time */
			r = SSL_write(p->ssl, d, (int)n);
	ERR_clear_error();
}

/* Everybody gets as far as they can. */
static inline void peers_spin(struct peer *a, struct peer *b)
{
	for (int i = 0; i < 12; i++) {
		peer_pump(a);
		world_spin();
		if (b)
			peer_pump(b);
	}
}

static inline int32_t peer_request(struct peer *p, const char *method, const char *authority,
	const char *path, const char *name, const char *value, bool body)
{
	nghttp2_data_provider provider = {.read_callback = peer_body};
	const char *const text[][2] = {{":method", method}, {":scheme", "https"},
		{":authority", authority}, {":path", path},
		{name ? name : "x-none", value ? value : "1"}};
	nghttp2_nv nv[5];

	for (size_t i = 0; i < 5; i++)
		nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)text[i][0],
			(uint8_t *)(uintptr_t)text[i][1], strlen(text[i][0]), strlen(text[i][1]),
			0};
	return nghttp2_submit_request(p->h2, NULL, nv, 5, body ? &provider : NULL, NULL);
}

static inline void peer_answer(struct peer *p, int32_t id, const char *status, bool body)
{
	nghttp2_data_provider provider = {.read_callback = peer_body};
	nghttp2_nv nv = {(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t)status, 7,
		strlen(status), 0};

	p->body_stream = id;
	nghttp2_submit_response(p->h2, id, &nv, 1, body ? &provider : NULL);
}

static inline void peer_say(struct peer *p, int32_t id, const char *text, bool end)
{
	buf_adds(&p->body, text);
	p->body_end = end;
	p->deferred = false;
	nghttp2_session_resume_data(p->h2, id);
}

static inline bool heard(const struct peer *p, const char *text)
{
	return strstr(buf_str(&p->log), text);
}

#endif
