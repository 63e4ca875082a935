/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway without a network: one connection of a sandbox, servers that are socket pairs, and
 * notes of what was dialled, told and asked. The functions of other parts that sessions call are
 * defined here.
 */
#ifndef CROFT_TESTS_UNIT_HTTP_WORLD_H
#define CROFT_TESTS_UNIT_HTTP_WORLD_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "net/reach/dial.h"
#include "net/http/exchange.h"
#include "net/gateway/flow.h"
#include "net/http/http.h"
#include "net/keeper/keeper.h"
#include "secret/placeholder.h"
#include "net/tls/tls.h"

#define WORLD_SERVERS_MAX 8
#define WORLD_TEXT_MAX (32u << 20)

static struct world {
	struct gateway g;
	struct generation gen;
	struct flow flow;
	int client;
	struct server {
		int fd;
		bool keeper;
		struct buf got;
	} servers[WORLD_SERVERS_MAX];
	size_t servers_n;
	bool dial_fails, ended, limits_used_up;
	unsigned denials, requests, uses;
	uint32_t status; /* of the last request that was recorded */
	char why[256];   /* of the last denial */
	char secret[32]; /* of the last request */
	char end[128];   /* why the flow ended */
	ask_done *ask;
	void *ask_arg;
	struct buf got; /* by the client */
} world;

/* ---- what sessions call ---- */

struct dial {
	dial_done *done;
	void *arg;
	int fd;
};

static int world_server(bool keeper)
{
	struct server *s = &world.servers[world.servers_n];
	int pair[2];

	if (world.servers_n == WORLD_SERVERS_MAX ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return -EMFILE;
	*s = (struct server){.fd = pair[0], .keeper = keeper, .got = BUF_INIT(WORLD_TEXT_MAX)};
	world.servers_n++;
	return pair[1];
}

static void world_dialled(void *arg)
{
	struct dial *d = arg;
	struct err e = ERR_INIT;

	if (d->done && d->fd < 0)
		err_refuse(&e, "the address is forbidden");
	if (d->done)
		d->done(d->arg, d->fd, &e);
	else if (d->fd >= 0)
		close(d->fd);
	free(d);
}

struct dial *dial_start(struct gateway *g, const struct net_dest *to, const struct net_rule *rule,
	dial_done *done, void *arg)
{
	struct dial *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	*d = (struct dial){
		.done = done, .arg = arg, .fd = world.dial_fails ? -1 : world_server(false)};
	loop_later(g->loop, world_dialled, d);
	return d;
}

void dial_cancel(struct dial *d)
{
	d->done = NULL;
}

int keeper_connect(struct gateway *g, const char *host, uint16_t port, bool tls, bool private_ok)
{
	return world_server(true);
}

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
	world.ended = true;
	snprintf(world.end, sizeof(world.end), "%s", why);
	close_fd(&f->fd);
}

void flow_reset_on_close(int fd)
{
}

void netlog_request(struct flow *f, const struct net_verdict *v, const struct exchange_record *x)
{
	world.requests++;
	world.status = x->status;
	snprintf(world.secret, sizeof(world.secret), "%s", x->secret ? x->secret : "");
}

void netlog_denial(struct flow *f, const char *method, const char *path, uint32_t status,
	const struct net_verdict *v)
{
	world.denials++;
	snprintf(world.why, sizeof(world.why), "%s", v->why);
}

bool usage_take(struct gateway *g, const struct net_rule *r, struct net_verdict *ret)
{
	world.uses++;
	if (world.limits_used_up)
		snprintf(ret->why, sizeof(ret->why), "used up");
	return !world.limits_used_up;
}

bool usage_bytes(struct gateway *g, const struct net_rule *r, uint64_t up_b, uint64_t down_b)
{
	return !world.limits_used_up;
}

struct ask *ask_start(
	struct flow *f, const char *method, const char *path, ask_done *done, void *arg)
{
	world.ask = done;
	world.ask_arg = arg;
	return (struct ask *)&world.ask;
}

struct ask *ask_request(struct flow *f, const struct http_request *r, ask_done *done, void *arg)
{
	return ask_start(f, r->method, r->path, done, arg);
}

void ask_cancel(struct ask *a)
{
	world.ask = NULL;
}

/* ---- the world ---- */

static void world_stop(void *arg)
{
	loop_stop(arg);
}

/* Let everything happen that can happen now. */
static inline void world_spin(void)
{
	struct timer t = {0};

	for (int i = 0; i < 12; i++) {
		loop_timer(world.g.loop, &t, 0, world_stop, world.g.loop);
		loop_run(world.g.loop);
	}
}

static inline bool world_begin(const char *policy, const char *host, uint16_t port, bool tls)
{
	struct err e = ERR_INIT;
	int pair[2];

	world = (struct world){.client = -1, .got = BUF_INIT(WORLD_TEXT_MAX)};
	world.g.loop = loop_new(&e);
	world.g.keeper = -1;
	world.gen.refs = 1;
	world.g.gen = &world.gen;
	if (!world.g.loop ||
		policy_network_parse(&world.gen.policy, policy, strlen(policy), &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		return false;
	}
	receivers_add(&world.g.receivers, world.gen.policy);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	world.client = pair[0];
	world.flow = (struct flow){.gw = &world.g, .gen = &world.gen, .fd = pair[1], .tls = tls};
	snprintf(world.flow.host, sizeof(world.flow.host), "%s", host);
	world.flow.dest = (struct net_dest){.host = world.flow.host, .port = port};
	return true;
}

static inline void world_end(void)
{
	if (world.flow.abort)
		world.flow.abort(&world.flow);
	http_pool_free(world.g.pool);
	loop_free(world.g.loop);
	tls_free(world.g.tls);
	placeholder_set_free(world.g.placeholders);
	receivers_done(&world.g.receivers);
	policy_network_free(world.gen.policy);
	for (size_t i = 0; i < world.servers_n; i++) {
		close_fd(&world.servers[i].fd);
		buf_done(&world.servers[i].got);
	}
	buf_done(&world.got);
	close_fd(&world.client);
}

static inline void world_read(int fd, struct buf *b)
{
	char chunk[16384];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(b, chunk, (size_t)n);
}

/* What the client, or a server, has received since it was last asked. */
static inline const char *client_got(void)
{
	buf_reset(&world.got);
	world_spin();
	world_read(world.client, &world.got);
	return buf_str(&world.got);
}

static inline const char *server_got(size_t i)
{
	if (i >= world.servers_n)
		return "(no such server)";
	buf_reset(&world.servers[i].got);
	world_spin();
	world_read(world.servers[i].fd, &world.servers[i].got);
	return buf_str(&world.servers[i].got);
}

static inline void say(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) < 0)
		fprintf(stderr, "write: %s\n", strerror(errno));
	world_spin();
}

static inline bool at_end(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

#endif
