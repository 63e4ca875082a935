/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 as text, strictly. Pure: bytes in, the internal form or a problem out; and back.
 *
 * Refused: bare LF or CR, obs-fold, blanks before ':' or around names, anything but "HTTP/1.1" and
 *          "HTTP/1.0", Content-Length with Transfer-Encoding, more than one of either (even if
 *          equal), codings other than a final single "chunked", signs or blanks in numbers, chunk
 *          extensions, several or no Host, absolute-form whose authority is not Host, Connection
 *          naming a header that must not be dropped (host, content-length, authorization …), "PRI *
 *          HTTP/2.0". Trailers are dropped.
 */
#ifndef CROFT_NET_HTTP_HTTP1_H
#define CROFT_NET_HTTP_HTTP1_H

#include "net/http/request.h"

/*
 * >0: bytes of the head; 0: more is needed; <0: *ret_problem says why. *ret need not be
 * initialised; it holds a message that is the caller's (request_done()) after >0 and nothing
 * otherwise.
 */
int http1_request(
	struct http_request *ret, const char *p, size_t n, const struct http_problem **ret_problem);
/* The same, with the target read as the rules of its host need it. */
int http1_request_as(struct http_request *ret, struct net_target_form form, const char *p, size_t n,
	const struct http_problem **ret_problem);
/* `method` of the request answered: HEAD has no body. 1xx are returned too. */
int http1_response(struct http_response *ret, const char *method, const char *p, size_t n,
	const struct http_problem **ret_problem);

/*
 * Host first, framing from `body`: content-length, or transfer-encoding: chunked for a STREAM. A
 * request's `close` and `trailers_ok` are about the hop it came from and are not written;
 * `expect_continue` is.
 */
void http1_write_request(const struct http_request *r, struct buf *out);
/*
 * Nothing may follow it on its connection, and its head says so: a method that usually has no body has
 * one. Some servers do not read that and take it for the next request, which nobody judged.
 */
bool http1_is_last(const struct http_request *r);
/* `close` is written; a STREAM is chunked unless http10 is set, then it ends by closing. */
void http1_write_response(const struct http_response *r, const char *method, struct buf *out);

/* Decoding a chunked body as it comes; the length kind needs none. Zero-initialised. */
enum chunk_state { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER, CHUNK_DONE };
struct chunks {
	enum chunk_state state;
	uint64_t left; /* of the current chunk */
	unsigned digits;
	size_t trailer_b;
	size_t line_b;        /* of the current trailer line */
	bool cr;              /* the last byte was a CR that ends a line */
	struct buf *trailers; /* where their lines go; NULL: dropped */
};
/*
 * Consume from p[0..n): *ret_data points at payload within it (length *ret_data_n, may be 0).
 * Returns bytes consumed (0: needs more), or -1 when malformed. Call again with the rest. Done when
 * state is CHUNK_DONE. Trailers are dropped, and counted against HTTP_HEAD_MAX_B.
 */
long chunks_read(
	struct chunks *c, const char *p, size_t n, const char **ret_data, size_t *ret_data_n);
/* "1f\r\n" in front of a chunk of n bytes; returns its length. out has room for 20. */
size_t chunk_head(char out[20], size_t n);

#endif
