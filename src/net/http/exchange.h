/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its answer, whatever versions of HTTP carry them on either side.
 *
 * Purpose: a front (http_server1.c, http_server2.c) brings a request, a back (http_client1.c,
 *          http_client2.c) carries it; between them everything that policy says about it happens
 *          here.
 * Trust:   both sides are hostile; what arrives here was parsed strictly into the internal form.
 * Order:   head -> authority -> verdict -> ask -> limits -> placeholders -> (push: refs, verdict
 *          again) -> way out (net/http/http_pool.h) -> head forwarded -> bodies, both at once -> record.
 *          Nothing is resolved or dialled, and no byte of the request leaves, before the verdict.
 * Limits:  EXCHANGE_BODY_B queued per direction (more for a few fast downloads, http_client2.c);
 *          a side that is ahead is not read from. EXCHANGES_MAX at once.
 * Failure: before the answer's head a JSON body that says why; after it the answer is cut off
 *          visibly.
 *
 * Bodies are pushed into `up` and `down` by who reads them and pulled out by who writes them; the
 * exchange tells the reader how much went on (consumed), so that windows open as bytes leave.
 */
#ifndef CROFT_NET_HTTP_EXCHANGE_H
#define CROFT_NET_HTTP_EXCHANGE_H

#include "net/io/fifo.h"
#include "net/gateway/flow.h"
#include "net/http/git.h"
#include "secret/placeholder.h"
#include "net/http/request.h"
#include "net/http/websocket.h"

#define EXCHANGE_BODY_B (64u << 10)
#define EXCHANGES_MAX 4096u
#define EXCHANGE_UPLOAD_IDLE_MS 60000u
#define EXCHANGE_IDLE_MS                                                                           \
	(60u * 60 * 1000) /* long polls and quiet WebSockets live, forgotten ones end */

struct back;
struct exchange;
struct front;

/*
 * The sandbox's side. consumed() never calls back at once; head() and more() may, and the exchange
 * may be over when more() returns. over() is the last.
 */
struct front_ops {
	void (*head)(
		struct exchange *x, const struct http_response *r); /* any 1xx, then one final */
	void (*more)(struct exchange *x);                           /* down grew, or ended */
	void (*consumed)(struct exchange *x, size_t n);             /* request body went on */
	void (*over)(struct exchange *x, bool whole); /* forget it; not whole: cut the answer off */
};

/*
 * The way out. consumed() never calls back at once. After failed, ended or cancel x is forgotten.
 */
struct back_ops {
	void (*more)(struct exchange *x);               /* up grew, or ended */
	void (*consumed)(struct exchange *x, size_t n); /* response body went on */
	void (*cancel)(struct exchange *x);
};

enum exchange_state {
	EXCHANGE_HEAD,     /* being read */
	EXCHANGE_ASK,      /* a person decides */
	EXCHANGE_REFS,     /* a push, until its commands are known */
	EXCHANGE_WAY,      /* waits for a connection */
	EXCHANGE_SENT,     /* a back has it */
	EXCHANGE_ANSWERED, /* by ourselves, or the back is through with it */
};

struct exchange {
	struct front *front;
	const struct front_ops *front_ops;
	struct exchange *next, **prev; /* of the front */
	struct back *back;
	const struct back_ops *back_ops;
	struct exchange *next_waiting;                 /* of a back that connects */
	struct exchange *next_on_back, **prev_on_back; /* of one that carries many */
	enum exchange_state state;
	struct generation *gen;
	struct http_request req;
	struct net_verdict verdict;
	struct ask *ask;
	struct fifo up, down;
	struct git_commands *push; /* head of a push; goes out before up */
	size_t push_sent;
	struct placeholder_scan scan; /* of the body */
	const char *secret;           /* name of the one that is bound here */
	struct http_fields trailers;  /* of the response, in the request's memory */
	struct ws_check *ws[2];       /* from the sandbox, from upstream, once it is a WebSocket */
	char ws_accept[WS_ACCEPT_LEN + 1]; /* what the server must prove */
	unsigned status;                   /* of the final head */
	unsigned early_n;                  /* 1xx heads so far */
	uint64_t up_b, down_b, since_us, last_ms, up_last_ms, delivered_ms;
	bool asked, keeper, told; /* told: a denial was */
	bool sent;                /* a back has had it */
	bool up_end;              /* the front has brought all of it */
	bool down_end;            /* the back has */
	bool up_closed;           /* nothing more is wanted of the front */
	bool head_sent, retried;
	bool delivered;   /* its end was sent to the client, which may still be sending (h2) */
	bool reused;      /* the connection had carried others before */
	bool heard;       /* a byte of an answer came */
	bool close_after; /* the client's connection is not to be trusted with more */
	/* Fronts and backs keep one small thing each here. */
	int32_t front_stream, back_stream;
	bool front_waits, back_waits; /* h2: the data source ran dry */
	bool wide;                    /* h2: the server may be further ahead */
};

/* ---- for fronts ---- */
/* NULL when there are too many or no memory. The front fills x->req, then begins. */
struct exchange *exchange_new(struct front *f, const struct front_ops *ops);
/* May answer at once; the exchange may be over when this returns. */
void exchange_begin(struct exchange *x);
/* How the target of its request is to be read. */
struct net_target_form exchange_form(const struct exchange *x);
/* A head that could not be read: answered and told. x->req holds what was understood. */
void exchange_bad(struct exchange *x, const struct http_problem *p);
/* Up to fifo_room(&x->up). May end the exchange. */
void exchange_body(struct exchange *x, const char *p, size_t n);
void exchange_body_end(struct exchange *x);
/* The front took bytes from x->down. */
void exchange_down_taken(struct exchange *x, size_t n);
/* The front has sent the answer's end: x is over when this returns. */
void exchange_delivered(struct exchange *x);
/* The client is gone or the connection ends: over() is not called. */
void exchange_drop(struct exchange *x);
/* Would it be allowed under this policy? */
bool exchange_still(const struct exchange *x, const struct net_policy *p);
/* Called every second or so. */
void exchange_tick(struct exchange *x, uint64_t now_ms);

/* ---- for backs and the pool ---- */
/* The next bytes of the request body; 0 when none are there yet. */
size_t exchange_up(const struct exchange *x, const char **ret);
void exchange_up_taken(struct exchange *x, size_t n);
bool exchange_up_done(const struct exchange *x); /* everything was taken */
/* A head. 1xx or final; taken over and freed. May end the exchange. */
void exchange_response(struct exchange *x, struct http_response *r);
/* Up to fifo_room(&x->down). */
void exchange_down(struct exchange *x, const char *p, size_t n);
/* The response is complete and the back has let go of x. */
void exchange_down_end(struct exchange *x);
/* One trailer for the end of the response; too many are dropped. */
void exchange_trailer(
	struct exchange *x, const char *name, size_t name_len, const char *value, size_t value_len);
/* The back has let go of x. unprocessed: the server said that it did nothing. */
void exchange_failed(struct exchange *x, const char *why, bool unprocessed);
/* No connection could be made. refused: told as a denial (policy's floor, or a bad certificate). */
void exchange_no_way(struct exchange *x, unsigned status, const char *why, bool refused);

/* ---- http_error.c ---- */
/* The JSON that explains; a complete response with its body. false: out of memory. */
bool http_error(struct http_response *ret, struct buf *body, const struct exchange *x,
	unsigned status, const char *error, const struct net_verdict *v);

#endif
