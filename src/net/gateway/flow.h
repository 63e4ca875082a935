/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the sandbox, from accept to its line in the journal.
 *
 * Order: accepted -> destination and bound name known -> connect verdict (floor, ceiling, deny,
 *        allow, ask) -> first bytes looked at (MSG_PEEK) where the mode needs it -> handed to the
 *        mode: tcp, tls: dial and relay; http, git, registry, ws: http_start().
 * Failure: a refusal is told as one denial. On ports 80 and 443, where clients speak HTTP, it is a
 *          403 that says why, since clients give up on that; elsewhere a reset.
 */
#ifndef CROFT_NET_GATEWAY_FLOW_H
#define CROFT_NET_GATEWAY_FLOW_H

#include "net/gateway/gateway.h"

#define FLOWS_MAX 4096

struct dial;
struct ask;

/* How a flow that came through the explicit proxy hears of the verdict; NULL: it came by itself. */
struct flow_front {
	void (*granted)(struct flow *f); /* go on, bytes follow */
	/* Last words before flow_end(). */
	void (*refused)(struct flow *f, const struct net_verdict *v);
	void (*failed)(struct flow *f, const struct err *e); /* allowed, but not reached */
};

struct flow {
	struct gateway *gw;
	struct generation *gen;
	struct flow *next, **prev;
	int fd;                      /* the sandbox's side; owned */
	char host[NET_NAME_MAX + 1]; /* bound name; "" for a literal */
	struct net_dest dest;        /* dest.host points to host or is NULL */
	const struct net_rule *rule; /* of the connect verdict; memory of gen */
	enum net_mode mode;
	bool tls; /* the sandbox began with a ClientHello */
	bool ech; /* mode tls: with an encrypted one inside, or what looks like it */
	uint64_t id, since_ms;
	uint64_t up_b, down_b;
	struct watch watch;
	struct timer timer;
	void *state; /* the mode's */
	/* The mode's: give up at once (revoked, shutting down); must end in flow_end(). */
	void (*abort)(struct flow *f);
	/*
	 * The mode's: would what is going on be allowed under this policy? NULL: ask connect only.
	 */
	bool (*still)(struct flow *f, const struct net_policy *p);
	/* The mode's: the sandbox has ended; is everything it wrote on its way? NULL: not known. */
	bool (*drained)(struct flow *f);
	const struct flow_front *front;
	struct dial *dial; /* flow_end() cancels these two */
	struct ask *ask;
	const char *aborted;      /* why, while abort() runs */
	struct net_verdict *away; /* refused: every request is answered with this; owned */
	uint32_t born; /* generation it was accepted under; rules of it and later stay in memory */
	bool judged;   /* there was a connect verdict */
	bool asked;    /* and a person gave it */
	bool held;     /* names_hold() */
	bool publish;  /* GATEWAY_RELAY: no rule */
	bool refused;  /* told as a denial, so not as a connection */
	bool ended;
	/*
	 * http:// in absolute form through the explicit proxy: the client may ask for another host
	 * next, so the HTTP engine closes after one exchange.
	 */
	bool one_request;
};

/* A flow for an accepted descriptor, in the list; NULL when out of memory (fd is closed). */
struct flow *flow_new(struct gateway *g, int fd);
/* f->host and f->dest are known: verdict, ask, first bytes, mode. */
void flow_judge(struct flow *f);
/* Every flow again under g->gen: what it does not allow is reset. */
void flow_judge_again(struct gateway *g);
/* Give up at once, whatever it does, with a reset. */
void flow_abort(struct flow *f, const char *why);
/* Close with a reset rather than a FIN. */
void flow_reset_on_close(int fd);
/* ---- where they come from (net/gateway/listen.c) ---- */
/* fd is the gateway's from here on, unless this fails. 0 or -errno. */
int flow_listen(struct gateway *g, int fd, bool explicit_proxy, struct err *e);
void flow_listen_resume(struct gateway *g); /* some flows have ended */
void flow_listen_end(struct gateway *g);
void flow_listen_pause(struct gateway *g, bool on); /* what comes meanwhile waits in the backlog */
int fd_nonblocking(int fd); /* 0 or -errno */

/* Refuse with a reset and tell. `method` as in struct gateway_msg. */
void flow_refuse(struct flow *f, const char *method, const struct net_verdict *v);
/* flow_refuse() for a reason that is no rule's. */
void flow_refuse_why(struct flow *f, const char *method, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The connection is over: journal line, descriptor closed, memory freed (later). */
void flow_end(struct flow *f, const char *why);

/* ---- told to the journal and the supervisor (net/gateway/netlog.c) ---- */

struct exchange_record {
	const char *method, *path, *query; /* canonical; NULL for a connection */
	uint32_t status;
	uint64_t up_b, down_b, duration_us;
	const char *secret; /* name of one that was used, or NULL */
};
void netlog_request(struct flow *f, const struct net_verdict *v, const struct exchange_record *x);
void netlog_connection(struct flow *f, const char *why);
void netlog_denial(struct flow *f, const char *method, const char *path, uint32_t status,
	const struct net_verdict *v);

/* ---- limits (net/gateway/usage.c): false when used up; v then says which ---- */
bool usage_take(struct gateway *g, const struct net_rule *r, struct net_verdict *ret);
bool usage_bytes(struct gateway *g, const struct net_rule *r, uint64_t up_b, uint64_t down_b);

/* ---- ask (net/gateway/ask.c) ---- */
struct ask;
typedef void ask_done(void *arg, enum net_effect e);
/*
 * Tell the supervisor and wait; done() comes with its verdict, or NET_DENY after the timeout or a
 * flood.
 */
struct ask *ask_start(
	struct flow *f, const char *method, const char *path, ask_done *done, void *arg);
/* The same about a request: with its query, and whether it has a body. */
struct http_request;
struct ask *ask_request(struct flow *f, const struct http_request *r, ask_done *done, void *arg);
void ask_cancel(struct ask *a);

/* ---- modes ---- */
/* The flow's bytes are unread (only peeked at). Takes over f->fd's watch. */
void http_start(struct flow *f);
void splice_start(struct flow *f, int upstream); /* splice both ways until both are done */

#endif
