/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway without a network for fuzz_http2.c: one connection of a sandbox and servers that are
 * socket pairs, without TLS, since what is fuzzed begins after the handshake.
 *
 * Trust:   the functions of other parts that sessions call are defined here, and abort on what
 *          they must never be asked: a host, a port or a rule that the policy does not give.
 * Order:   world_begin() -> bytes in and world_turn(), again and again -> world_end(), after which
 *          nothing is allocated but the policy, which is parsed once.
 */
#ifndef CROFT_TESTS_FUZZ_NET_HTTP2_WORLD_H
#define CROFT_TESTS_FUZZ_NET_HTTP2_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "must.h"
#include "net/reach/dial.h"
#include "net/gateway/flow.h"
#include "net/http/http.h"
#include "net/keeper/keeper.h"
#include "net/http/http_pool.h"

#define WORLD_SERVERS_MAX 6
#define WORLD_PORT 443

static const char world_policy[] =
	"version: 1\n"
	"network:\n"
	"  allow:\n"
	"    - {host: test.example, methods: [GET, HEAD, POST, PUT], paths: [/a/**]}\n"
	"    - {host: test.example, paths: [/small], limits: {body: 10}}\n"
	"    - {host: git.example, mode: git, repos: [me/*], push: true,\n"
	"       refs: [refs/heads/agent/*]}\n"
	"  ask:\n"
	"    - {host: test.example, paths: [/ask/**]}\n";

static struct world {
	struct gateway g;
	struct generation gen;
	struct flow flow;
	int client;                     /* the sandbox's end */
	int servers[WORLD_SERVERS_MAX]; /* their ends, in the order of dialling */
	size_t servers_n;
	bool servers_h1, dial_fails;
	bool ended;
	unsigned granted; /* requests that passed every judgement up to the limits */
} world;

/* ---- the way out ---- */

struct dial {
	dial_done *done;
	void *arg;
	int fd;
};

static int world_server(void)
{
	int pair[2];

	if (world.dial_fails || world.servers_n == WORLD_SERVERS_MAX)
		return -1;
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	world.servers[world.servers_n++] = pair[0];
	return pair[1];
}

/* What the pool does when TLS and ALPN agreed: here nobody could have. */
static void world_connected(struct back *b, int fd)
{
	bool h1 = world.servers_h1;
	struct exchange *x;

	b->dial = NULL;
	b->fd = fd;
	b->state = h1 ? BACK_H1 : BACK_H2;
	MUST(stream_open(&b->stream, &b->pool->set, fd, NULL,
		     h1 ? &client1_stream_ops : &client2_stream_ops, b) == 0);
	MUST(h1 || client2_start(b));
	for (bool first = true; (x = b->waiting); first = false) {
		b->waiting = x->next_waiting;
		x->back = NULL;
		x->next_waiting = NULL;
		if (h1 && first)
			client1_send(b, x);
		else if (h1 || b->state != BACK_H2 || b->draining)
			pool_route(x, true);
		else
			client2_send(b, x);
	}
}

static void world_dialled(void *arg)
{
	struct dial *d = arg;
	struct err e = ERR_INIT;

	if (!d->done) {
		close_fd(&d->fd);
	} else if (d->fd < 0) {
		err_refuse(&e, "the address is forbidden");
		d->done(d->arg, -1, &e);
	} else {
		world_connected(d->arg, d->fd);
	}
	free(d);
}

struct dial *dial_start(struct gateway *g, const struct net_dest *to, const struct net_rule *rule,
	dial_done *done, void *arg)
{
	struct dial *d = calloc(1, sizeof(*d));

	MUST(d && rule && to->port == WORLD_PORT && to->host && str_eq(to->host, world.flow.host));
	MUST(world.granted);
	*d = (struct dial){.done = done, .arg = arg, .fd = world_server()};
	loop_later(g->loop, world_dialled, d);
	return d;
}

void dial_cancel(struct dial *d)
{
	d->done = NULL;
}

int keeper_connect(struct gateway *g, const char *host, uint16_t port, bool tls, bool private_ok)
{
	abort(); /* the policy has no secrets */
}

/* ---- the gateway around it ---- */

struct generation *generation_hold(struct generation *g)
{
	g->refs++;
	return g;
}

void generation_drop(struct generation *g)
{
	g->refs--;
}

void flow_end(struct flow *f, const char *why)
{
	MUST(!world.ended && why[0]);
	world.ended = true;
	close_fd(&f->fd);
}

void flow_reset_on_close(int fd)
{
}

static void check_text(const char *s)
{
	for (; *s; s++)
		MUST(*s >= 0x20 && *s < 0x7f);
}

void netlog_request(struct flow *f, const struct net_verdict *v, const struct exchange_record *x)
{
	check_text(x->method);
	check_text(x->path);
	/* No rule of these hosts judges it, so it is as it was sent; the journal shows it printable. */
	for (const char *c = x->query; c && *c; c++)
		MUST((unsigned char)*c > 0x20 && *c != 0x7f && *c != '#');
}

void netlog_denial(struct flow *f, const char *method, const char *path, uint32_t status,
	const struct net_verdict *v)
{
	MUST(status >= 400 && status < 600);
	check_text(method);
	check_text(path);
	check_text(v->why);
}

bool usage_take(struct gateway *g, const struct net_rule *r, struct net_verdict *ret)
{
	world.granted++;
	return true;
}

bool usage_bytes(struct gateway *g, const struct net_rule *r, uint64_t up_b, uint64_t down_b)
{
	return true;
}

struct ask {
	ask_done *done;
	void *arg;
	enum net_effect effect;
};

static void world_asked(void *arg)
{
	struct ask *a = arg;

	if (a->done)
		a->done(a->arg, a->effect);
	free(a);
}

/* A person who says yes to "/ask/y…"; the rule is about "/ask" itself as well. */
struct ask *ask_start(
	struct flow *f, const char *method, const char *path, ask_done *done, void *arg)
{
	struct ask *a = calloc(1, sizeof(*a));

	MUST(a && strncmp(path, "/ask", 4) == 0 && strchr("/?", path[4]));
	*a = (struct ask){.done = done,
		.arg = arg,
		.effect = strncmp(path, "/ask/y", 6) == 0 ? NET_ALLOW : NET_DENY};
	loop_later(f->gw->loop, world_asked, a);
	return a;
}

struct ask *ask_request(struct flow *f, const struct http_request *r, ask_done *done, void *arg)
{
	return ask_start(f, r->method, r->path, done, arg);
}

void ask_cancel(struct ask *a)
{
	a->done = NULL;
}

/* ---- the world ---- */

static void world_stop(void *arg)
{
	loop_stop(arg);
}

/* Two turns of the loop: from a byte that came to a dial or to what it makes leave. */
static void world_turn(void)
{
	struct timer t = {0};

	for (int i = 0; i < 2; i++) {
		MUST(loop_timer(world.g.loop, &t, 0, world_stop, world.g.loop) == 0);
		MUST(loop_run(world.g.loop) == 0);
	}
}

/* Bytes that open connections have moved so far: changes while the gateway has something to do. */
static uint64_t world_moved(void)
{
	const struct http_pool *p = world.g.pool;
	uint64_t n = p->fronts ? p->fronts->stream.in_b + p->fronts->stream.out_b : 0;

	for (const struct back *b = p->backs; b; b = b->next)
		n += b->stream.in_b + b->stream.out_b;
	for (const struct back *b = p->busy; b; b = b->next)
		n += b->stream.in_b + b->stream.out_b;
	return n;
}

static struct net_policy *world_rules(void)
{
	static struct net_policy *rules;
	struct err e = ERR_INIT;

	if (!rules && policy_network_parse(&rules, world_policy, sizeof(world_policy) - 1, &e) < 0)
		abort();
	return rules;
}

static void world_begin(const char *host, bool front_h1, bool servers_h1)
{
	struct err e = ERR_INIT;
	struct front *f;
	int pair[2];

	world = (struct world){.servers_h1 = servers_h1};
	world.g.loop = loop_new(&e);
	world.g.keeper = -1;
	world.gen.refs = 1;
	world.gen.policy = world_rules();
	world.g.gen = &world.gen;
	MUST(world.g.loop);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	world.client = pair[0];
	world.flow = (struct flow){.gw = &world.g, .gen = &world.gen, .fd = pair[1]};
	snprintf(world.flow.host, sizeof(world.flow.host), "%s", host);
	world.flow.dest = (struct net_dest){.host = world.flow.host, .port = WORLD_PORT};
	http_start(&world.flow);
	MUST(!world.ended);
	if (!front_h1) { /* as if ALPN had agreed on it */
		f = world.flow.state;
		f->free_session(f);
		MUST(server2_start(f));
	}
	world.flow.tls = true; /* which is over: everybody else should think that there was one */
}

static void world_end(void)
{
	if (world.flow.abort)
		world.flow.abort(&world.flow);
	MUST(world.ended && world.gen.refs == 1);
	MUST(!world.g.pool->exchanges_n && !world.g.pool->fronts && !world.g.pool->wide_n);
	http_pool_free(world.g.pool);
	loop_free(world.g.loop);
	for (size_t i = 0; i < world.servers_n; i++)
		close_fd(&world.servers[i]);
	close_fd(&world.client);
}

#endif
