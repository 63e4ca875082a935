/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway with a small policy and nothing behind it, queries to ask it and a reader for what it
 * answers. The journal and the flow are stand-ins that remember what they were told.
 */
#ifndef CROFT_TESTS_UNIT_DNS_WORLD_H
#define CROFT_TESTS_UNIT_DNS_WORLD_H

#include "test.h"

#include <arpa/inet.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "net/dns/dns.h"
#include "net/gateway/flow.h"

/* ---- stand-ins for journal and flow ---- */

static char told[DNS_TEXT_MAX];
static unsigned told_n;
static char flow_why[128];

void netlog_name_denied(struct gateway *g, const char *name)
{
	snprintf(told, sizeof(told), "%s", name);
	told_n++;
}

void flow_end(struct flow *f, const char *why)
{
	snprintf(flow_why, sizeof(flow_why), "%s", why);
	loop_stop(f->gw->loop);
}

/* ---- a gateway with a small policy ---- */

struct world {
	struct net_rule rules[3];
	struct net_resolve resolve;
	struct net_forward host_port;
	struct net_policy policy;
	struct generation gen;
	struct gateway gw;
};

static inline void world_init(struct world *w)
{
	static const char *const hosts[] = {"api.example.com", "**.wild.example", "ask.example"};
	struct err e = ERR_INIT;

	*w = (struct world){0};
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
		w->rules[i] = (struct net_rule){.effect = i == 2 ? NET_ASK : NET_ALLOW,
			.mode = NET_HTTP,
			.name = hosts[i],
			.host = hosts[i],
			.ports = {{443, 443}},
			.ports_n = 1};
	w->resolve = (struct net_resolve){.host = "db.corp"};
	w->policy = (struct net_policy){.rules = w->rules,
		.rules_n = ARRAY_SIZE(hosts),
		.resolve = &w->resolve,
		.resolve_n = 1,
		.host_ports = &w->host_port};
	w->gen = (struct generation){.policy = &w->policy, .refs = 1};
	w->gw = (struct gateway){.gen = &w->gen, .names = names_new(), .loop = loop_new(&e)};
	if (!w->gw.names || !w->gw.loop)
		abort();
	told[0] = flow_why[0] = '\0';
	told_n = 0;
}

static inline void world_done(struct world *w)
{
	dns_free(w->gw.dns);
	names_free(w->gw.names);
	loop_free(w->gw.loop);
}

#define cleanup_world __attribute__((cleanup(world_done)))

/* ---- writing queries, reading answers ---- */

static inline void put_u16(struct buf *b, unsigned v)
{
	buf_addc(b, (char)(v >> 8));
	buf_addc(b, (char)v);
}

static inline void put_head(
	struct buf *b, unsigned flags, unsigned qd, unsigned an, unsigned ns, unsigned ar)
{
	put_u16(b, 0xbeef);
	put_u16(b, flags);
	put_u16(b, qd);
	put_u16(b, an);
	put_u16(b, ns);
	put_u16(b, ar);
}

static inline void put_question(struct buf *b, const char *name, unsigned type, unsigned class)
{
	while (*name) {
		size_t n = strcspn(name, ".");

		buf_addc(b, (char)n);
		buf_add(b, name, n);
		name += n + (name[n] == '.');
	}
	buf_addc(b, 0);
	put_u16(b, type);
	put_u16(b, class);
}

static inline void put_opt(struct buf *b, unsigned payload_b, unsigned version)
{
	buf_addc(b, 0);
	put_u16(b, 41);
	put_u16(b, payload_b);
	put_u16(b, version);
	put_u16(b, 0x8000);
	put_u16(b, 0);
}

static inline void put_query(struct buf *b, const char *name, unsigned type)
{
	put_head(b, 0x0110, 1, 0, 0, 0);
	put_question(b, name, type, 1);
}

struct answer {
	size_t n; /* 0: none came */
	unsigned id, flags, rcode, qd, an, ns, ar;
	uint8_t p[DNS_ANSWER_MAX_B];
	size_t record; /* where the first record's data begins */
	unsigned type, ttl_s, data_b;
	size_t end; /* behind that record */
};

static inline unsigned at_u16(const struct answer *a, size_t at)
{
	return at + 2 <= a->n ? (unsigned)a->p[at] << 8 | a->p[at + 1] : 0;
}

/* As far as tests ask: the first record behind one question, its owner a pointer or the root. */
static inline void answer_read(struct answer *a)
{
	size_t at = 12;

	a->id = at_u16(a, 0);
	a->flags = at_u16(a, 2);
	a->rcode = a->flags & 15;
	a->qd = at_u16(a, 4);
	a->an = at_u16(a, 6);
	a->ns = at_u16(a, 8);
	a->ar = at_u16(a, 10);
	if (a->qd) {
		while (at < a->n && a->p[at])
			at += 1u + a->p[at];
		at += 5;
	}
	a->end = at;
	if (!a->an && !a->ns)
		return;
	at += at < a->n && a->p[at] == 0 ? 1 : 2;
	a->type = at_u16(a, at);
	a->ttl_s = at_u16(a, at + 4) << 16 | at_u16(a, at + 6);
	a->data_b = at_u16(a, at + 8);
	a->record = at + 10;
	a->end = a->record + a->data_b;
}

static inline struct answer reply(struct world *w, const struct buf *query, bool udp)
{
	struct answer a = {0};
	cleanup_free uint8_t *copy = malloc(query->len ? query->len : 1);

	if (!copy)
		abort();
	if (query->len)
		memcpy(copy, query->data, query->len);
	a.n = dns_reply(&w->gw, copy, query->len, udp, a.p);
	if (a.n)
		answer_read(&a);
	return a;
}

static inline struct answer ask(struct world *w, const char *name, unsigned type)
{
	cleanup_buf struct buf q = BUF_INIT(4096);

	put_query(&q, name, type);
	return reply(w, &q, true);
}

static inline const char *address(const struct answer *a)
{
	static char text[INET6_ADDRSTRLEN];

	if (!a->n || !a->an || a->record + a->data_b > a->n ||
		!inet_ntop(
			a->type == 28 ? AF_INET6 : AF_INET, &a->p[a->record], text, sizeof(text)))
		return "(none)";
	return text;
}

#endif
