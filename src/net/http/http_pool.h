/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to servers: made when needed, kept while they may be of use.
 *
 * Trust:   a connection is used again only for the same host, port, kind, private grant and
 *          policy generation, so that nothing is reached by way of what an older or wider rule
 *          opened.
 * Limits:  BACKS_MAX, of which BACKS_IDLE_MAX may be idle, for BACK_IDLE_MS. HTTP/2 connections
 *          carry BACK_STREAMS_MAX exchanges at once. While a host may speak HTTP/2, exchanges
 *          wait for its first connection instead of making more.
 */
#ifndef CROFT_NET_HTTP_HTTP_POOL_H
#define CROFT_NET_HTTP_HTTP_POOL_H

#include <nghttp2/nghttp2.h>

#include "net/reach/dial.h"
#include "net/http/exchange.h"
#include "net/http/http.h"
#include "net/http/http1.h"
#include "net/io/stream.h"

#define BACKS_MAX 4096u
#define BACK_IDLE_MS 60000u
#define BACK_STREAMS_MAX 100u
#define BACK_SHAKE_MS 30000u
#define BACKS_IDLE_MAX 256u

struct back_key {
	char host[NET_NAME_MAX + 1];
	struct net_addr addr; /* when host is "" */
	uint16_t port;
	bool tls; /* with keeper: its, not ours */
	bool keeper, private_ok, h1_only;
	uint32_t generation;
};

enum back_state { BACK_DIALS, BACK_SHAKES, BACK_H1, BACK_H2, BACK_DEAD };

struct back {
	struct http_pool *pool;
	struct back *next, **prev;
	struct back_key key;
	enum back_state state;
	struct dial *dial;
	int fd;
	struct stream stream;
	struct exchange *waiting; /* for it to be connected */
	uint64_t deadline_ms;
	unsigned used_n; /* exchanges so far */
	bool draining;   /* takes no new ones */
	bool idle;       /* HTTP/1.1, counted in idle_n */
	/* HTTP/1.1 (http_client1.c) */
	struct exchange *x;
	struct http1_answer {
		bool head_done, chunked, to_eof, raw, request_done;
		uint64_t left;
		struct chunks chunks;
	} h1;
	struct buf trailers; /* lines, of the keeper's answers */
	/* HTTP/2 (http_client2.c) */
	nghttp2_session *h2;
	struct exchange *running;
	unsigned streams_n;
	struct http_response head; /* the one that is being read; header blocks do not interleave */
	const struct http_problem *head_problem;
	size_t head_b;
};

/* Find or make a way for x: client_send() at once or when one is there, or exchange_no_way(). */
void pool_route(struct exchange *x, bool fresh);
/* x no longer waits. */
void pool_forget(struct exchange *x);
/* The connection is of no more use. `why` goes to those who wait for it. */
void back_end(struct back *b, const char *why);
void back_busy(struct back *b); /* HTTP/1.1: an exchange is on it */
void back_idle(struct back *b); /* nothing runs on it: keep or close */
void pool_tick(struct http_pool *p, uint64_t now_ms);
void pool_close(struct http_pool *p);

/* http_client1.c, http_client2.c */
extern const struct stream_ops client1_stream_ops, client2_stream_ops;
bool client2_start(struct back *b);
void client1_send(struct back *b, struct exchange *x);
void client2_send(struct back *b, struct exchange *x);
void client1_close(struct back *b, const char *why); /* fails what runs on it */
void client2_close(struct back *b, const char *why);

#endif
