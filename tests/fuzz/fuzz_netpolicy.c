/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the network policy that a gateway reads, or as names, addresses and patterns. Beyond
 * not crashing: what is accepted says the same when it is written and read again, what DNS does not
 * know cannot be reached, a request is never allowed where the connection is not, and the floor
 * holds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "must.h"
#include "policy/net/net_impl.h"

static const uint16_t ports[] = {22, 80, 443, 5432, 65535};
static const char *const names[] = {"a.test", "b.a.test", "github.com", "api.github.com", "db",
	"registry.npmjs.org", "metadata.google.internal", "localhost", "x.localhost", "203.0.113.7",
	"10.1.2.3"};
static const char *const floor_addrs[] = {"127.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254",
	"100.100.100.200", "224.0.0.1", "::ffff:127.0.0.1", "fe80::1"};

static bool has_opaque(const struct net_policy *n)
{
	for (size_t i = 0; i < n->rules_n; i++)
		if (n->rules[i].effect != NET_DENY && !net_mode_inspects(n->rules[i].mode))
			return true;
	return false;
}

static void check_request(
	const struct net_policy *n, const struct net_dest *d, const char *host, bool connects)
{
	static const char *const refs[] = {"refs/heads/agent/x"};
	struct net_request q = {
		.host = host, .port = d->port, .tls = true, .path = "/v1/x", .query = "q=a&b"};
	struct net_verdict v;

	for (int i = 0; i < 16; i++) {
		q.method = i & 1 ? "POST" : "GET";
		q.has_body = i & 1;
		q.upgrade_ws = i & 2;
		q.git_repo = i & 4 ? "owner/name" : NULL;
		q.git_push = (i & 12) == 12;
		q.git_refs = i & 1 ? refs : NULL;
		q.git_refs_n = i & 1;
		net_decide_request(n, &q, &v);
		MUST(v.effect == NET_DENY || v.rule);
		MUST(v.why[0] && strlen(v.why) < sizeof(v.why));
		MUST(v.effect == NET_DENY || connects || has_opaque(n));
		net_secret_for(n, &q, 0);
	}
}

static void check_decisions(const struct net_policy *n)
{
	struct net_verdict v;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		for (size_t k = 0; k < ARRAY_SIZE(ports); k++) {
			struct net_dest d = {.host = names[i], .port = ports[k]};
			bool literal = net_addr_text(&d.addr, names[i]);
			/* localhost, too, is a name of this machine for the ports that were opened */
			bool here = net_is_host_port(n, names[i], ports[k]);

			if (literal)
				d.host = NULL;
			net_decide_connect(n, &d, &v);
			MUST(v.effect == NET_DENY || v.rule);
			MUST(literal || here || v.effect == NET_DENY || net_name_known(n, names[i]));
			MUST(literal || here || v.effect == NET_DENY || !net_name_forbidden(names[i]));
			MUST(v.effect == NET_DENY || net_wanted(n));
			check_request(n, &d, names[i], v.effect != NET_DENY);
		}
	for (size_t i = 0; i < ARRAY_SIZE(floor_addrs); i++) {
		struct net_dest d = {.port = 80};

		MUST(net_addr_parse(&d.addr, floor_addrs[i], strlen(floor_addrs[i])));
		net_decide_connect(n, &d, &v);
		MUST(v.effect == NET_DENY);
	}
}

static void check_policy(const char *text, size_t len)
{
	cleanup_buf struct buf one = BUF_INIT(64u << 20), two = BUF_INIT(64u << 20);
	struct net_policy *n = NULL, *again = NULL;
	struct err e = ERR_INIT;

	if (policy_network_parse(&n, text, len, &e) < 0) {
		MUST(e.kind != ERR_NONE && e.msg[0]);
		return;
	}
	check_decisions(n);
	policy_network_text(n, &one);
	MUST(!one.failed);
	MUST(policy_network_parse(&again, one.data, one.len, &e) == 0);
	policy_network_text(again, &two);
	MUST(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
	policy_network_free(n);
	policy_network_free(again);
}

static void check_name(const char *s, size_t n)
{
	char once[NET_NAME_MAX + 1], twice[NET_NAME_MAX + 1];
	struct net_addr a, b;

	if (net_name(once, s, n)) {
		MUST(net_name(twice, once, strlen(once)) && str_eq(once, twice));
		MUST(!net_addr_parse(&a, once, strlen(once)));
		MUST(strspn(once, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(once));
		MUST(net_host_matches(once, once) && net_host_overlap(once, once));
	}
	if (net_addr_parse(&a, s, n)) {
		cleanup_buf struct buf text = BUF_INIT(64);

		net_addr_show(&text, &a);
		MUST(net_addr_parse(&b, buf_str(&text), text.len));
		MUST(a.v6 == b.v6 && memcmp(a.b, b.b, sizeof(a.b)) == 0);
		MUST(!net_name(once, s, n));
	}
}

/* Lines: each a name or an address, and each a pattern for the next. */
static void check_lines(const char *s, size_t n)
{
	cleanup_strlist struct strlist lines = STRLIST_INIT(64);
	struct err e;

	while (n) {
		const char *end = memchr(s, '\n', n);
		size_t len = end ? (size_t)(end - s) : n;

		check_name(s, len);
		if (!memchr(s, '\0', len))
			strlist_addn(&lines, s, MIN_OF(len, (size_t)512));
		s += len + (end != NULL);
		n -= len + (end != NULL);
	}
	for (size_t i = 0; i + 1 < lines.n; i++) {
		const char *p = lines.v[i], *t = lines.v[i + 1];
		bool is = net_path_matches(p, t);

		MUST(!is || (p[0] == '/' && t[0] == '/'));
		MUST(!strchr(p, '*') ? is == (p[0] == '/' && str_eq(p, t)) : true);
		if (net_value_path(p, &e) == 0 && str_ends(p, "/**") && is)
			MUST(strlen(p) < 3 || strncmp(p, t, strcspn(p, "*") - 1) == 0);
		net_segments_match(p, t, true);
		if (net_host_matches(p, t) && p[0] == '*')
			MUST(str_ends(t, strchr(p, '.')));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= 8 && memcmp(data, "version:", 8) == 0)
		check_policy((const char *)data, size);
	else
		check_lines((const char *)data, size);
	return 0;
}
