/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of HTTP connections from the sandbox: see http.h. */
#include "net/http/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/http/http_pool.h"
#include "net/tls/tls.h"

#define SCRATCH_MAX_B (160u << 10) /* one head written anew, which cannot more than double */

/* ---- what all share ---- */

struct http_pool *http_pool_get(struct gateway *g)
{
	struct http_pool *p = g->pool;

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->gw = g;
	p->scratch = BUF_INIT(SCRATCH_MAX_B);
	stream_set_init(&p->set, g->loop);
	g->pool = p;
	return p;
}

void http_pool_free(struct http_pool *p)
{
	struct exchange *x;

	if (!p)
		return;
	while (p->fronts)
		front_end(p->fronts, "the gateway ends");
	pool_close(p);
	loop_cancel(&p->tick);
	while ((x = p->spare)) {
		p->spare = x->next;
		free(x);
	}
	buf_done(&p->scratch);
	fifo_trim();
	p->gw->pool = NULL;
	loop_later(p->gw->loop, free, p); /* after whatever was to be sent in this turn */
}

static void on_tick(void *arg)
{
	struct http_pool *p = arg;
	uint64_t now = loop_now_ms(p->gw->loop);
	struct front *f, *next;
	struct exchange *x, *next_x;

	for (f = p->fronts; f; f = next) {
		next = f->next;
		for (x = f->exchanges; x; x = next_x) {
			next_x = x->next;
			exchange_tick(x, now);
		}
		if (f->flow && f->deadline_ms && now >= f->deadline_ms) {
			f->deadline_ms = 0;
			f->late(f);
		}
	}
	pool_tick(p, now);
	if (p->fronts || p->backs_n)
		http_pool_wake(p);
}

void http_pool_wake(struct http_pool *p)
{
	if (!p->tick.slot)
		(void)loop_timer(p->gw->loop, &p->tick, HTTP_TICK_MS, on_tick, p);
}

/* ---- fronts ---- */

void front_deadline(struct front *f, uint64_t in_ms)
{
	f->deadline_ms = in_ms ? loop_now_ms(f->pool->gw->loop) + in_ms : 0;
}

static void front_free(void *arg)
{
	struct front *f = arg;

	if (f->free_session)
		f->free_session(f);
	free(f);
}

void front_end(struct front *f, const char *why)
{
	struct flow *flow = f->flow;

	if (!flow)
		return;
	while (f->exchanges)
		exchange_drop(f->exchanges);
	f->flow = NULL;
	flow->up_b = f->stream.in_b;
	flow->down_b = f->stream.out_b;
	stream_close(&f->stream);
	*f->prev = f->next;
	if (f->next)
		f->next->prev = f->prev;
	flow->state = NULL;
	flow->abort = NULL;
	flow->still = NULL;
	loop_later(f->pool->gw->loop, front_free, f);
	flow_end(flow, why);
}

static void on_abort(struct flow *flow)
{
	struct front *f = flow->state;

	flow_reset_on_close(flow->fd);
	front_end(f, "revoked");
}

/* Under a new policy: the connection, and every exchange that is going on. */
static bool on_still(struct flow *flow, const struct net_policy *p)
{
	const struct front *f = flow->state;
	const struct exchange *x;
	struct net_verdict v;

	net_decide_connect(p, &flow->dest, &v);
	if (v.effect == NET_DENY)
		return false;
	for (x = f->exchanges; x; x = x->next)
		if (!exchange_still(x, p))
			return false;
	return true;
}

/* ---- the handshake ---- */

static void session_start(struct front *f)
{
	bool ok = stream_alpn_h2(&f->stream) ? server2_start(f) : server1_start(f);

	if (!ok)
		front_end(f, "out of memory");
}

static void on_shaken(void *arg)
{
	session_start(arg);
}

static void on_readable(void *arg)
{
}

static void on_writable(void *arg)
{
}

static void on_broken(void *arg, const char *why)
{
	front_end(arg, why);
}

static const struct stream_ops shake_ops = {
	.shaken = on_shaken,
	.readable = on_readable,
	.writable = on_writable,
	.broken = on_broken,
};

static void shake_late(struct front *f)
{
	front_end(f, "the handshake took too long");
}

static struct front *front_new(struct http_pool *p, struct flow *flow)
{
	struct front *f = calloc(1, sizeof(*f));
	struct buf text = BUF_INIT(64);

	if (!f)
		return NULL;
	f->pool = p;
	f->flow = flow;
	f->late = shake_late;
	if (flow->host[0]) {
		memcpy(f->host, flow->host, sizeof(f->host));
	} else {
		net_addr_show(&text, &flow->dest.addr);
		if (text.len < sizeof(f->host))
			memcpy(f->host, buf_str(&text), text.len + 1);
		buf_done(&text);
	}
	f->next = p->fronts;
	f->prev = &p->fronts;
	if (f->next)
		f->next->prev = &f->next;
	p->fronts = f;
	flow->state = f;
	flow->abort = on_abort;
	flow->still = on_still;
	return f;
}

void http_start(struct flow *flow)
{
	struct http_pool *p = http_pool_get(flow->gw);
	struct front *f = p ? front_new(p, flow) : NULL;
	SSL *ssl = NULL;

	loop_unwatch(&flow->watch);
	loop_cancel(&flow->timer);
	if (!f) {
		flow_end(flow, "out of memory");
		return;
	}
	if (flow->tls) {
		ssl = tls_server(flow->gw->tls, f->host, flow->fd, flow->one_request);
		if (!ssl) {
			front_end(f, "no certificate could be made for this name");
			return;
		}
	}
	if (stream_open(&f->stream, &p->set, flow->fd, ssl, &shake_ops, f) < 0) {
		SSL_free(ssl);
		front_end(f, "it could not be watched");
		return;
	}
	http_pool_wake(p);
	if (flow->tls)
		front_deadline(f, HTTP_HEAD_MS);
	else
		session_start(f);
}
