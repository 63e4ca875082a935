/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to servers: see http_pool.h. */
#include "net/http/http_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/keeper/keeper.h"
#include "net/tls/tls.h"

static bool key_equal(const struct back_key *a, const struct back_key *b)
{
	return a->port == b->port && a->tls == b->tls && a->keeper == b->keeper &&
	       a->private_ok == b->private_ok && a->h1_only == b->h1_only &&
	       a->generation == b->generation && str_eq(a->host, b->host) &&
	       a->addr.v6 == b->addr.v6 && memcmp(a->addr.b, b->addr.b, sizeof(a->addr.b)) == 0;
}

static void key_of(struct back_key *ret, const struct exchange *x)
{
	const struct flow *f = x->front->flow;
	const struct net_rule *rule = x->verdict.rule;

	*ret = (struct back_key){
		.port = f->dest.port,
		.tls = f->tls,
		.keeper = x->keeper,
		.private_ok = rule && rule->private_ok,
		.h1_only = x->req.upgrade_ws,
		.generation = x->gen->number,
	};
	if (f->host[0])
		memcpy(ret->host, f->host, sizeof(ret->host));
	else
		ret->addr = f->dest.addr;
}

static uint8_t *hint(struct http_pool *p, const struct back_key *key)
{
	unsigned h = key->port;

	for (const char *c = key->host; *c; c++)
		h = h * 31 + (unsigned char)*c;
	return &p->speaks_h1[h % ARRAY_SIZE(p->speaks_h1)];
}

/* ---- birth and end ---- */

static void list_add(struct back **list, struct back *b)
{
	b->next = *list;
	b->prev = list;
	if (b->next)
		b->next->prev = &b->next;
	*list = b;
}

static void list_remove(struct back *b)
{
	*b->prev = b->next;
	if (b->next)
		b->next->prev = b->prev;
}

static void not_idle(struct back *b)
{
	b->pool->idle_n -= b->idle;
	b->idle = false;
}

static struct back *back_new(struct http_pool *p, const struct back_key *key)
{
	struct back *b;

	if (p->backs_n >= BACKS_MAX)
		return NULL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->pool = p;
	b->key = *key;
	b->fd = -1;
	list_add(&p->backs, b);
	p->backs_n++;
	http_pool_wake(p);
	return b;
}

static void back_free(void *arg)
{
	struct back *b = arg;

	nghttp2_session_del(b->h2);
	buf_done(&b->trailers);
	free(b);
}

/* Takes the connection down without telling anybody. */
static enum back_state back_down(struct back *b)
{
	enum back_state was = b->state;

	b->state = BACK_DEAD;
	if (b->dial)
		dial_cancel(take_ptr(b->dial));
	stream_close(&b->stream);
	close_fd(&b->fd);
	not_idle(b);
	list_remove(b);
	b->pool->backs_n--;
	loop_later(b->pool->gw->loop, back_free, b);
	return was;
}

static struct exchange *next_waiting(struct back *b)
{
	struct exchange *x = b->waiting;

	if (x) {
		b->waiting = x->next_waiting;
		x->back = NULL;
		x->next_waiting = NULL;
	}
	return x;
}

void back_end(struct back *b, const char *why)
{
	enum back_state was;
	struct exchange *x;

	if (b->state == BACK_DEAD)
		return;
	was = back_down(b);
	while ((x = next_waiting(b)))
		exchange_no_way(x, 502, why, false);
	if (was == BACK_H1)
		client1_close(b, why);
	else if (was == BACK_H2)
		client2_close(b, why);
}

/* Nobody waits for it or uses it, and it cannot be kept. */
static void no_way(struct back *b, unsigned status, const char *why, bool refused)
{
	struct exchange *x;

	back_down(b);
	while ((x = next_waiting(b)))
		exchange_no_way(x, status, why, refused);
}

/* Busy ones are not looked at when a way is searched. */
void back_busy(struct back *b)
{
	not_idle(b);
	list_remove(b);
	list_add(&b->pool->busy, b);
	b->deadline_ms = 0;
}

void back_idle(struct back *b)
{
	struct http_pool *p = b->pool;

	if (b->draining || b->key.generation != p->gw->gen->number || p->gw->ending) {
		back_end(b, "no longer needed");
		return;
	}
	if (b->state == BACK_H1) {
		if (p->idle_n >= BACKS_IDLE_MAX) {
			back_end(b, "enough others are idle");
			return;
		}
		p->idle_n++;
		b->idle = true;
		/* In front: it is the least likely to be closed by its server. */
		list_remove(b);
		list_add(&p->backs, b);
	}
	b->deadline_ms = loop_now_ms(p->gw->loop) + BACK_IDLE_MS;
	stream_pause(&b->stream, false);
}

/* ---- connecting ---- */

static void hand_out(struct back *b)
{
	struct exchange *x;

	if (b->state == BACK_H1) {
		x = next_waiting(b);
		if (x)
			client1_send(b, x);
		else
			back_idle(b);
		/* The others thought that one connection might do for all. */
		while ((x = next_waiting(b)))
			pool_route(x, true);
		return;
	}
	while (b->state == BACK_H2 && !b->draining && b->streams_n < BACK_STREAMS_MAX &&
		(x = next_waiting(b)))
		client2_send(b, x);
	while ((x = next_waiting(b)))
		pool_route(x, true);
	if (b->state == BACK_H2 && !b->streams_n)
		back_idle(b);
}

static void connected(struct back *b)
{
	b->deadline_ms = 0;
	if (stream_alpn_h2(&b->stream)) {
		b->state = BACK_H2;
		b->stream.ops = &client2_stream_ops;
		if (!client2_start(b)) {
			no_way(b, 502, "out of memory", false);
			return;
		}
	} else {
		b->state = BACK_H1;
		b->stream.ops = &client1_stream_ops;
	}
	*hint(b->pool, &b->key) = b->state == BACK_H1;
	hand_out(b);
}

static void on_shaken(void *arg)
{
	connected(arg);
}

static void on_early(void *arg)
{
}

static void on_shake_broken(void *arg, const char *why)
{
	struct back *b = arg;
	char text[NET_NAME_MAX + 224];

	snprintf(text, sizeof(text), "%s:%u: %s", b->key.host, b->key.port, why);
	no_way(b, 502, text, true);
}

static const struct stream_ops shake_ops = {
	.shaken = on_shaken,
	.readable = on_early,
	.writable = on_early,
	.broken = on_shake_broken,
};

/* The name that a certificate must prove: the host, or the address when there is none. */
static void peer_name(const struct back *b, char ret[NET_NAME_MAX + 1])
{
	struct buf text = BUF_INIT(64);

	if (b->key.host[0]) {
		memcpy(ret, b->key.host, sizeof(b->key.host));
		return;
	}
	net_addr_show(&text, &b->key.addr);
	snprintf(ret, NET_NAME_MAX + 1, "%s", buf_str(&text));
	buf_done(&text);
}

static void begin_stream(struct back *b)
{
	char name[NET_NAME_MAX + 1];
	SSL *ssl = NULL;

	if (b->key.tls && !b->key.keeper) {
		peer_name(b, name);
		ssl = tls_client(b->pool->gw->tls, name, b->fd, b->key.h1_only);
		if (!ssl) {
			no_way(b, 502, "TLS towards the server could not be prepared", false);
			return;
		}
	}
	b->state = BACK_SHAKES;
	b->deadline_ms = loop_now_ms(b->pool->gw->loop) + BACK_SHAKE_MS;
	if (stream_open(&b->stream, &b->pool->set, b->fd, ssl, &shake_ops, b) < 0) {
		SSL_free(ssl);
		no_way(b, 502, "the connection could not be watched", false);
		return;
	}
	if (!ssl)
		connected(b);
}

static void on_dialled(void *arg, int fd, const struct err *e)
{
	struct back *b = arg;

	b->dial = NULL;
	if (fd < 0) {
		no_way(b, e->kind == ERR_REFUSED ? 403 : 502, e->msg, e->kind == ERR_REFUSED);
		return;
	}
	b->fd = fd;
	begin_stream(b);
}

static void wait_for(struct back *b, struct exchange *x)
{
	struct exchange **p = &b->waiting;

	while (*p)
		p = &(*p)->next_waiting;
	x->state = EXCHANGE_WAY;
	x->next_waiting = NULL;
	*p = x;
}

/* Never calls back but for exchange_no_way(). */
static void connect_new(struct http_pool *p, const struct back_key *key, struct exchange *x)
{
	struct back *b = back_new(p, key);
	const struct net_dest d = {
		.host = key->host[0] ? key->host : NULL, .addr = key->addr, .port = key->port};
	int fd;

	if (!b) {
		exchange_no_way(x, 503, "too many connections to servers", false);
		return;
	}
	wait_for(b, x);
	if (key->keeper) {
		fd = key->host[0] ? keeper_connect(
					    p->gw, key->host, key->port, key->tls, key->private_ok)
				  : -EINVAL;
		if (fd < 0) {
			no_way(b, 502, "the keeper of secrets could not be reached", false);
			return;
		}
		b->fd = fd;
		begin_stream(b);
		return;
	}
	b->state = BACK_DIALS;
	b->dial = dial_start(p->gw, &d, x->verdict.rule, on_dialled, b);
	if (!b->dial)
		no_way(b, 503, "out of memory", false);
}

/* ---- routing ---- */

static unsigned waiting_n(const struct back *b)
{
	unsigned n = 0;

	for (const struct exchange *x = b->waiting; x; x = x->next_waiting)
		n++;
	return n;
}

/*
 * What the server allows; the library would queue the rest, where another connection may serve it
 * now.
 */
static unsigned streams_max(const struct back *b)
{
	uint32_t theirs =
		nghttp2_session_get_remote_settings(b->h2, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	return MAX_OF(1u, MIN_OF(theirs, BACK_STREAMS_MAX));
}

/* One that can take x now; or, where HTTP/2 may come of it, one that is on its way. */
static struct back *find(struct http_pool *p, const struct back_key *key, struct back **ret_coming)
{
	bool may_h2 = key->tls && !key->keeper && !key->h1_only && !*hint(p, key);

	*ret_coming = NULL;
	for (struct back *b = p->backs; b; b = b->next) {
		if (b->draining || !key_equal(&b->key, key))
			continue;
		if (b->state == BACK_H1 && !b->stream.eof)
			return b;
		if (b->state == BACK_H2 && b->streams_n < streams_max(b))
			return b;
		if (may_h2 && b->state <= BACK_SHAKES && waiting_n(b) < BACK_STREAMS_MAX)
			*ret_coming = b;
	}
	return NULL;
}

void pool_route(struct exchange *x, bool fresh)
{
	struct http_pool *p = x->front->pool;
	struct back *b, *coming = NULL;
	struct back_key key;

	key_of(&key, x);
	b = fresh ? NULL : find(p, &key, &coming);
	if (b && b->state == BACK_H1)
		client1_send(b, x);
	else if (b)
		client2_send(b, x);
	else if (coming)
		wait_for(coming, x);
	else
		connect_new(p, &key, x);
}

void pool_forget(struct exchange *x)
{
	struct exchange **p;

	for (struct back *b = x->front->pool->backs; b; b = b->next) {
		for (p = &b->waiting; *p && *p != x; p = &(*p)->next_waiting)
			;
		if (!*p)
			continue;
		*p = x->next_waiting;
		x->next_waiting = NULL;
		if (!b->waiting && b->state == BACK_DIALS)
			back_down(b);
		return;
	}
}

void pool_tick(struct http_pool *p, uint64_t now_ms)
{
	struct back *b, *next;

	for (b = p->backs; b; b = next) {
		next = b->next;
		if (!b->deadline_ms || now_ms < b->deadline_ms)
			continue;
		if (b->state == BACK_SHAKES)
			no_way(b, 504, "the TLS handshake with the server took too long", false);
		else
			back_end(b, "idle");
		/* Ending one may have ended others. */
		next = p->backs;
	}
}

void pool_close(struct http_pool *p)
{
	while (p->backs)
		back_end(p->backs, "the gateway ends");
	while (p->busy)
		back_end(p->busy, "the gateway ends");
}
