/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the keeper share: the process, its connections from the gateway, its
 * connections upstream.
 */
#ifndef CROFT_NET_KEEPER_KEEPER_IMPL_H
#define CROFT_NET_KEEPER_KEEPER_IMPL_H

#include <openssl/ssl.h>

#include "net/reach/dial.h"
#include "net/io/fifo.h"
#include "net/gateway/gateway.h"
#include "net/http/http1.h"
#include "net/keeper/keeper.h"
#include "net/keeper/keeper_place.h"
#include "net/keeper/keeper_vault.h"
#include "net/http/websocket.h"

#define KEEPER_CONNS_MAX 1024u
#define KEEPER_IDLE_MAX 64u           /* upstream connections kept for the next request */
#define KEEPER_IDLE_MS 60000u         /* … for so long */
#define KEEPER_SHAKE_MS 15000u        /* connecting is the dialler's; the TLS handshake */
#define KEEPER_HEAD_MS 30000u         /* a request's head, once begun */
#define KEEPER_WAIT_MS 120000u        /* for the next request */
#define KEEPER_STALL_MS 600000u       /* nothing moves: models think for minutes */
#define KEEPER_DRAIN_MS 2000u         /* for the gateway to read a refusal */
#define KEEPER_IN_MAX_B (80u << 10)   /* a head of HTTP_HEAD_MAX_B and some of what follows */
#define KEEPER_HIGH_B (64u << 10)     /* bodies stop here */
#define KEEPER_OUT_MAX_B (512u << 10) /* what one turn adds behind it, chunk heads included */
#define KEEPER_STAGE_B (3u * HTTP_HEAD_MAX_B) /* a head with its values */
/*
 * How long the end of what came without its length waits when nothing follows: longer than a server
 * that is sending takes for the way here and back. Else a sandbox could choose where an answer is
 * cut, by what it puts before a value.
 */
#define KEEPER_RELEASE_MS 1000u
#define KEEPER_TOLD_MAX 256u /* refusals told to the supervisor one by one */

struct conn;
struct up;
struct up_h2;

struct keeper {
	struct gateway gw; /* what the dialler, the resolver and TLS need; no names, no flows */
	struct vault vault;
	struct secret stage; /* a head with values in it, while it is being sent */
	int opens;           /* where the gateway asks for connections */
	struct watch control_watch, opens_watch;
	struct conn *conns;
	size_t conns_n;
	struct up *idle;
	size_t idle_n;
	unsigned told;
	/*
	 * As dial_start(); tests put something else here, since the dialler refuses this very
	 * machine.
	 */
	struct dial *(*dial)(struct gateway *g, const struct net_dest *d,
		const struct net_rule *rule, dial_done *done, void *arg);
	void (*dial_cancel)(struct dial *d);
};

/* ---- the process (keeper.c) ---- */

/*
 * Everything but reading CONFIG and confinement. Takes `opens`; `policy` and `store` stay the
 * caller's.
 */
int keeper_init(struct keeper *k, int control, int opens, int policy, int store,
	const uint8_t seed[VAULT_SEED_LEN], struct err *e);
void keeper_done(struct keeper *k);
/* A new policy and new values. On failure no value is left and everything bound is refused. */
int keeper_reload(struct keeper *k, int policy, int from, struct err *e);
/* A refusal, for the supervisor's record. */
void keeper_tell(struct keeper *k, const struct conn *c, unsigned status, const char *why);

/* ---- one connection of the gateway (keeper_conn.c) ---- */

enum conn_state {
	CONN_HEAD,     /* a request's head is awaited */
	CONN_EXCHANGE, /* one is being carried */
	CONN_TUNNEL,   /* it became a WebSocket */
	CONN_DRAIN,    /* the last answer is being read; nothing is carried any more */
};

struct messages { /* of a WebSocket, from the server */
	struct ws_check check;
	bool begun;       /* a message */
	uint8_t opcode;   /* of the next frame to send: the message's, then continuation */
	struct buf clean; /* what waits of a message */
	uint8_t control[WS_CONTROL_MAX_B];
	size_t control_n;
};

struct range {                /* of a body */
	bool asked;           /* by the request: a range that is understood */
	bool suffix;          /* the last `last` bytes */
	bool cut;             /* the answer is a part, to be cut */
	uint64_t first, last; /* as the command wants it; last UINT64_MAX: to the end */
	uint64_t from;        /* as the server was asked */
	uint64_t skip, left;  /* of what comes: to drop, then to give */
};

enum answer_body { ANSWER_NONE, ANSWER_LENGTH, ANSWER_CHUNKED, ANSWER_CLOSE };

struct conn {
	struct keeper *k;
	struct conn *next, **prev;
	int fd;
	struct watch watch;
	struct timer timer;
	uint64_t deadline_ms;
	char host[NET_NAME_MAX + 1];
	uint16_t port;
	bool tls, private_ok;
	struct fifo in, out;
	bool in_eof, shut, dead, again;
	enum conn_state state;

	/* the request */
	struct http_request req;
	bool has_req;
	struct placement place;
	struct buf head; /* with placeholders */
	size_t head_off; /* of the head with values: sent so far */
	bool head_sent, body_done;
	uint64_t body_left;
	struct chunks body_chunks;
	struct placeholder_scan scan;
	struct fifo up_out;
	unsigned tries;

	/* the answer */
	struct up *up;
	/* What the server sent, KEEPER_IN_MAX_B of room: it may echo values, so it is wiped as it goes. */
	char *rx;
	size_t rx_off, rx_len;
	bool up_eof;  /* nothing more comes */
	bool up_deaf; /* nothing more is taken */
	bool answered, answer_done, keep_up;
	enum answer_body answer;
	uint64_t answer_left;
	struct chunks answer_chunks;
	struct scrub *scrub;  /* kept from one exchange to the next */
	struct timer release; /* of what waits in it */
	uint64_t release_ms;
	bool release_stalled; /* the gateway did not take: time spent so does not count */
	struct messages messages;
	struct range range;
	struct buf trailers; /* lines */
};

/* Takes fd. */
int conn_open(struct keeper *k, int fd, const struct keeper_open *o);
void conn_end(struct conn *c);
void conn_run(struct conn *c); /* move whatever can move */
/* The vault and the policy changed: end what is not as it was. */
void conn_reload(struct conn *c);
/* Upstream: connected and verified; something moved; could not be had. */
void conn_up_ready(struct conn *c);
void conn_up_event(struct conn *c);
void conn_up_failed(struct conn *c, const char *why);
/* Say no: a JSON answer if none was begun, then the connection is closed. */
void conn_refuse(struct conn *c, unsigned status, const char *why, const char *next);

/* ---- what the gateway sends (keeper_inbound.c) ---- */

/* true: a request was begun, or refused. */
bool inbound_head(struct conn *c);
/* true: some of the body moved on, or was refused. */
bool inbound_body(struct conn *c);
/*
 * Is this host and request allowed at all? 0 and the rule for the dialler, copied; or a status, and
 * v says why.
 */
unsigned inbound_judge(
	struct conn *c, struct net_rule *ret_rule, bool *ret_has, struct net_verdict *v);

/* ---- the answer's way back (keeper_answer.c) ---- */

/* Room, and something that hides the vault's values as they are now; false when out of memory. */
bool answer_prepare(struct conn *c);
void answer_forget(struct conn *c); /* what was read */
/* What was read from upstream becomes what the gateway may see. true: something moved. */
bool answer_pump(struct conn *c);

/* ---- … of a WebSocket (keeper_messages.c) ---- */

void messages_init(struct messages *m);
void messages_done(struct messages *m);
/* Returns how much of p, which is not empty, was read; -1: not frames, or out of memory. */
long messages_pump(struct conn *c, const char *p, size_t n);

/* ---- parts of a body (keeper_range.c) ---- */

/* What the server is asked for; false when out of memory. */
bool range_ask(struct conn *c);
/* Its answer's head; a reason to refuse, or NULL. */
const char *range_settle(struct conn *c, struct http_response *r);
/* What was searched becomes what was wanted of it. */
void range_cut(struct conn *c, struct buf *clean);

/* ---- upstream (keeper_up.c) ---- */

struct up {
	struct keeper *k;
	struct conn *user; /* NULL: idle */
	struct up *next, **prev;
	char host[NET_NAME_MAX + 1];
	uint16_t port;
	struct net_rule rule; /* as judged, for the dialler */
	bool has_rule;
	struct dial *dial;
	int fd;
	bool tls;
	SSL *ssl;         /* NULL: without TLS, or not connected yet */
	struct up_h2 *h2; /* it speaks HTTP/2; NULL: HTTP/1.1 */
	bool want_h2;     /* for gRPC, and for nothing else */
	bool shaken, reused, dead;
	bool read_wants_write, write_wants_write;
	struct watch watch;
	struct timer timer;
};

/* An idle one (`fresh`: never), or a new one. rule may be NULL. NULL when out of memory. */
struct up *up_get(struct conn *c, const struct net_rule *rule, bool fresh);
#define UP_AGAIN 0
#define UP_EOF (-1)
#define UP_BROKEN (-2)
long up_read(struct up *u, char *p, size_t n);
long up_write(struct up *u, const char *p, size_t n);
/* The same beneath HTTP/2. */
long up_tls_read(struct up *u, char *p, size_t n);
long up_tls_write(struct up *u, const char *p, size_t n);
void up_want(struct up *u, bool read, bool write);
void up_release(struct up *u); /* to the idle ones */
void up_close(struct up *u);
void up_close_idle(struct keeper *k);

/* ---- HTTP/2 behind the same calls (keeper_h2.c) ---- */

bool up_h2_start(struct up *u); /* false: out of memory */
void up_h2_free(struct up *u);
/*
 * For the next request. false: the last stream is not over, though its answer is, or something follows
 * it; a request would be taken for what that stream has to say.
 */
bool up_h2_reset(struct up *u);
long up_h2_read(struct up *u, char *p, size_t n);
long up_h2_write(struct up *u, const char *p, size_t n);
bool up_h2_pending(const struct up *u); /* frames wait to be sent */

#endif
