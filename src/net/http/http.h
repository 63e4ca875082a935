/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP sessions of one gateway: what fronts, backs and exchanges share.
 *
 * Order:   http_start() -> handshake, if TLS -> http_server1 or http_server2 by ALPN -> exchanges
 *          -> flow_end().
 * Limits:  one clock for all deadlines: a tick per second while anything is open, which looks at
 *          a number in each connection; moving a deadline costs an assignment.
 */
#ifndef CROFT_NET_HTTP_HTTP_H
#define CROFT_NET_HTTP_HTTP_H

#include "net/http/exchange.h"
#include "net/gateway/flow.h"
#include "net/io/stream.h"

#define HTTP_HEAD_MS 30000u  /* from the first byte of a head, or of a handshake, to its end */
#define HTTP_IDLE_MS 120000u /* between requests */
#define HTTP_LINGER_MS 2000u /* for the client to read our last words */
#define HTTP_TICK_MS 1000u

struct back;

struct http_pool {
	struct gateway *gw;
	struct stream_set set;
	struct timer tick;
	struct buf scratch; /* heads are written here, then queued */
	struct front *fronts;
	struct back *backs;    /* that can take an exchange, now or soon */
	struct back *busy;     /* HTTP/1.1 with one on it */
	uint8_t speaks_h1[64]; /* hosts, by a hash, whose last connection agreed on HTTP/1.1 */
	size_t exchanges_n, backs_n, idle_n;
	size_t wide_n;          /* exchanges with a larger window: http_client2.c */
	struct exchange *spare; /* freed ones, for the next */
	size_t spare_n;
};

/* The gateway's, made when first needed; NULL when out of memory. */
struct http_pool *http_pool_get(struct gateway *g);
/* At the gateway's end, after every flow and before the loop. */
void http_pool_free(struct http_pool *p);
void http_pool_wake(struct http_pool *p); /* something has a deadline now */

/* One connection of the sandbox. */
struct front {
	struct http_pool *pool;
	struct flow *flow; /* NULL once it ended */
	struct front *next, **prev;
	struct stream stream;
	struct exchange *exchanges;
	uint64_t deadline_ms;          /* 0: none */
	void (*late)(struct front *f); /* the deadline passed */
	void (*free_session)(struct front *f);
	void *session;               /* server1's or server2's */
	char host[NET_NAME_MAX + 1]; /* what authorities must equal: name or address */
};

/* The connection is over: every exchange dropped, flow ended, memory freed later. */
void front_end(struct front *f, const char *why);
void front_deadline(struct front *f, uint64_t in_ms); /* 0: none */

/* Take the connection over. false: out of memory. */
bool server1_start(struct front *f);
bool server2_start(struct front *f);

#endif
