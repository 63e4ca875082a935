/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a query. Beyond not crashing: an answer repeats id and question byte for byte, is
 * well formed to its last byte, is no longer than the asker takes, holds no address but a synthetic
 * or a loopback one, and only for a name that is canonical and known; the same bytes cut short
 * never get an address. An answer fed back gets none.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "must.h"
#include "net/dns/dns.h"
#include "net/gateway/flow.h"

#define HEADER_B 12u

static struct net_rule rules[] = {
	{.effect = NET_ALLOW, .name = "a", .host = "a.b", .ports = {{443, 443}}, .ports_n = 1},
	{.effect = NET_ALLOW, .name = "w", .host = "**.w", .ports = {{443, 443}}, .ports_n = 1}};
static struct net_policy policy = {.rules = rules, .rules_n = ARRAY_SIZE(rules)};
static struct generation gen = {.policy = &policy, .refs = 1};
static struct gateway gw = {.gen = &gen};

void netlog_name_denied(struct gateway *g, const char *name)
{
	MUST(name[0] && strlen(name) < DNS_TEXT_MAX);
	for (const char *c = name; *c; c++)
		MUST(*c > ' ' && *c < 0x7f);
}

/* Never reached: nothing here makes a flow. */
void flow_end(struct flow *f, const char *why)
{
	abort();
}

/* ---- a second, simpler reader, for answers ---- */

static unsigned u16(const uint8_t *p, size_t n, size_t at)
{
	MUST(at + 2 <= n);
	return (unsigned)p[at] << 8 | p[at + 1];
}

static size_t skip_name(const uint8_t *p, size_t n, size_t at)
{
	for (;;) {
		MUST(at < n);
		if (p[at] == 0xc0) {
			MUST(at + 2 <= n && p[at + 1] == HEADER_B);
			return at + 2;
		}
		MUST(p[at] < 64);
		if (!p[at])
			return at + 1;
		at += 1u + p[at];
	}
}

static void check_address(const struct dns_query *q, const uint8_t *p, unsigned n)
{
	static const uint8_t one[16] = {[15] = 1};
	struct net_addr a = {.v6 = n == 16};
	bool own = str_eq(q->name, "localhost") || str_ends(q->name, ".localhost") ||
		   str_eq(q->name, "croft");

	MUST(n == 4 || n == 16);
	memcpy(a.b, p, n);
	if (own) {
		MUST(n == 4 ? a.b[0] == 127 : memcmp(a.b, one, 16) == 0);
		return;
	}
	MUST(names_synthetic(&a) && names_lookup(gw.names, &a));
	MUST(str_eq(names_lookup(gw.names, &a), q->name));
	/* A refused name has an address of its own, too, unless it can be no host of the network. */
	MUST(strchr(q->name, '.') && !str_ends(q->name, ".local"));
}

static size_t check_record(const struct dns_query *q, const uint8_t *p, size_t n, size_t at)
{
	unsigned type, len;

	at = skip_name(p, n, at);
	type = u16(p, n, at);
	len = u16(p, n, at + 8);
	at += 10;
	MUST(at + len <= n);
	if (type == DNS_A || type == DNS_AAAA) {
		MUST(type == q->type && len == (type == DNS_A ? 4u : 16u));
		check_address(q, &p[at], len);
	} else if (type == DNS_PTR) {
		MUST(q->type == DNS_PTR && skip_name(p, n, at) == at + len);
	} else {
		MUST((type == 6 && len == 22) || (type == 41 && len == 0));
	}
	return at + len;
}

static void check_answer(const struct dns_query *q, const uint8_t *query, size_t query_b,
	const uint8_t *p, size_t n, bool udp)
{
	unsigned records, rcode;
	size_t at = HEADER_B;

	MUST(n >= HEADER_B && n <= (udp ? dns_udp_limit(q) : DNS_ANSWER_MAX_B));
	MUST(memcmp(p, query, 2) == 0 && p[2] & 0x80 && !(p[2] & 0x04));
	MUST((p[2] & 0x79) == (query[2] & 0x79));
	rcode = p[3] & 15;
	MUST(rcode <= DNS_NOTIMP);
	records = u16(p, n, 6) + u16(p, n, 8) + u16(p, n, 10);
	MUST(records <= 2);
	if (u16(p, n, 4)) {
		MUST(u16(p, n, 4) == 1);
		at = skip_name(p, n, at) + 4;
		MUST(at <= n && at <= query_b &&
			memcmp(&p[HEADER_B], &query[HEADER_B], at - HEADER_B) == 0);
	}
	MUST(!u16(p, n, 6) || (rcode == 0 && q->name[0]));
	while (records--)
		at = check_record(q, p, n, at);
	MUST(at == n);
}

static void check_query(const struct dns_query *q)
{
	char again[NET_NAME_MAX + 1];

	MUST(q->wire_len <= DNS_WIRE_NAME_MAX && q->payload_b >= DNS_PLAIN_MAX_B);
	if (q->name[0])
		MUST(net_name(again, q->name, strlen(q->name)) && str_eq(again, q->name));
	if (q->wire_len)
		MUST(!q->wire[q->wire_len - 1] && q->text[0]);
}

/* What is cut is no question any more. */
static void check_cut(const uint8_t *data, size_t size)
{
	cleanup_free uint8_t *copy = malloc(size);
	uint8_t out[DNS_ANSWER_MAX_B];
	size_t n;

	MUST(copy);
	memcpy(copy, data, size - 1);
	n = dns_reply(&gw, copy, size - 1, true, out);
	if (n)
		MUST(!u16(out, n, 6));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[DNS_ANSWER_MAX_B], none[DNS_ANSWER_MAX_B];
	struct dns_query q;
	int rc;

	if (!gw.names)
		gw.names = names_new();
	MUST(gw.names);
	rc = dns_query_parse(&q, data, size);
	if (rc >= 0)
		check_query(&q);
	for (int udp = 0; udp <= 1; udp++) {
		size_t n = dns_reply(&gw, data, size, udp, out);

		MUST((n == 0) == (rc < 0));
		if (!n)
			continue;
		check_answer(&q, data, size, out, n, udp);
		MUST(dns_reply(&gw, out, n, udp, none) == 0);
	}
	if (rc == 0)
		check_cut(data, size);
	return 0;
}
