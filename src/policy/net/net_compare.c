/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules against rules: the same, wider, overlapping; and whether one network policy gives more than
 * another. Where a question cannot be answered exactly the answer is the one that grants less.
 */
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

/* ---- the same ---- */

static int num_cmp(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int text_cmp(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

static int texts_cmp(const char *const *a, size_t an, const char *const *b, size_t bn)
{
	int c = num_cmp(an, bn);

	for (size_t i = 0; c == 0 && i < an; i++)
		c = strcmp(a[i], b[i]);
	return c;
}

static int limits_cmp(const struct net_limits *a, const struct net_limits *b)
{
	int c = num_cmp(a->rate_milli, b->rate_milli);

	c = c ? c : num_cmp(a->up_b, b->up_b);
	c = c ? c : num_cmp(a->down_b, b->down_b);
	c = c ? c : num_cmp(a->body_b, b->body_b);
	c = c ? c : num_cmp(a->uses, b->uses);
	return c ? c : num_cmp((uint64_t)a->expires, (uint64_t)b->expires);
}

static int where_cmp(const struct net_rule *a, const struct net_rule *b)
{
	int c = text_cmp(a->host, b->host);

	if (c == 0 && !a->host) {
		c = (int)a->cidr.addr.v6 - (int)b->cidr.addr.v6;
		c = c ? c : memcmp(a->cidr.addr.b, b->cidr.addr.b, sizeof(a->cidr.addr.b));
		c = c ? c : (int)a->cidr.bits - (int)b->cidr.bits;
	}
	c = c ? c : num_cmp(a->ports_n, b->ports_n);
	for (size_t i = 0; c == 0 && i < a->ports_n; i++) {
		c = (int)a->ports[i].first - (int)b->ports[i].first;
		c = c ? c : (int)a->ports[i].last - (int)b->ports[i].last;
	}
	return c;
}

static int request_cmp(const struct net_rule *a, const struct net_rule *b)
{
	int c = texts_cmp(a->methods, a->methods_n, b->methods, b->methods_n);

	c = c ? c : texts_cmp(a->paths, a->paths_n, b->paths, b->paths_n);
	c = c ? c : texts_cmp(a->repos, a->repos_n, b->repos, b->repos_n);
	c = c ? c : texts_cmp(a->refs, a->refs_n, b->refs, b->refs_n);
	c = c ? c : num_cmp(a->query_n, b->query_n);
	for (size_t i = 0; c == 0 && i < a->query_n; i++) {
		c = strcmp(a->query[i].name, b->query[i].name);
		c = c ? c : strcmp(a->query[i].pattern, b->query[i].pattern);
	}
	return c ? c : (int)a->push - (int)b->push;
}

int net_rule_cmp(const struct net_rule *a, const struct net_rule *b)
{
	int c = (int)a->effect - (int)b->effect;

	c = c ? c : where_cmp(a, b);
	c = c ? c : (int)a->mode - (int)b->mode;
	c = c ? c : request_cmp(a, b);
	c = c ? c : limits_cmp(&a->limits, &b->limits);
	c = c ? c : (int)a->private_ok - (int)b->private_ok;
	c = c ? c : (int)a->plaintext - (int)b->plaintext;
	c = c ? c : (int)a->keep_slash - (int)b->keep_slash;
	c = c ? c : (int)a->ech_refused - (int)b->ech_refused;
	c = c ? c : (int)a->ech_allowed - (int)b->ech_allowed;
	return c ? c : text_cmp(a->reason, b->reason);
}

bool net_secret_same(const struct net_secret *a, const struct net_secret *b)
{
	return str_eq(a->name, b->name) && str_eq(a->env, b->env) && str_eq(a->host, b->host) &&
	       a->port == b->port && a->placement == b->placement && a->strip == b->strip &&
	       a->require == b->require && text_cmp(a->field, b->field) == 0 &&
	       texts_cmp(a->paths, a->paths_n, b->paths, b->paths_n) == 0 &&
	       texts_cmp(a->methods, a->methods_n, b->methods, b->methods_n) == 0;
}

/* ---- wider, overlapping ---- */

bool net_ports_has(const struct net_rule *r, uint16_t port)
{
	for (size_t i = 0; i < r->ports_n; i++)
		if (port >= r->ports[i].first && port <= r->ports[i].last)
			return true;
	return false;
}

bool net_ports_within(const struct net_rule *outer, const struct net_rule *inner)
{
	for (size_t i = 0; i < inner->ports_n; i++) {
		bool in = false;

		for (size_t k = 0; k < outer->ports_n; k++)
			in = in || (inner->ports[i].first >= outer->ports[k].first &&
					   inner->ports[i].last <= outer->ports[k].last);
		if (!in)
			return false;
	}
	return true;
}

bool net_rules_meet(const struct net_rule *a, const struct net_rule *b)
{
	bool ports = false;

	for (size_t i = 0; i < a->ports_n && !ports; i++)
		for (size_t k = 0; k < b->ports_n && !ports; k++)
			ports = a->ports[i].first <= b->ports[k].last &&
				b->ports[k].first <= a->ports[i].last;
	if (!ports || !a->host != !b->host)
		return false;
	return a->host ? net_host_overlap(a->host, b->host) : net_cidr_overlap(&a->cidr, &b->cidr);
}

bool net_rule_partial(const struct net_rule *r)
{
	return r->methods_n || r->paths_n || r->query_n || r->repos_n || r->refs_n || r->push ||
	       r->mode == NET_GIT || (r->effect != NET_DENY && r->mode == NET_REGISTRY);
}

/* Does a connection of one mode stay within what the other mode lets through? */
static bool mode_within(enum net_mode outer, enum net_mode inner)
{
	if (outer == NET_TCP)
		return true;
	if (outer == NET_TLS)
		return inner != NET_TCP;
	return net_mode_inspects(inner);
}

bool net_rule_bounds(const struct net_rule *outer, const struct net_rule *inner)
{
	if (!outer->host != !inner->host || !net_ports_within(outer, inner) ||
		!mode_within(outer->mode, inner->mode))
		return false;
	if (inner->private_ok && !outer->private_ok)
		return false;
	if (inner->plaintext && !outer->plaintext && outer->mode != NET_TCP)
		return false;
	return outer->host ? net_host_covers(outer->host, inner->host)
			   : net_cidr_within(&inner->cidr, &outer->cidr);
}

/* ---- more than before ---- */

/* Does the user's policy have this rule, or one without conditions that holds all of it? */
static bool rule_had(const struct net_policy *base, const struct net_rule *r)
{
	static const struct net_limits none = {0};

	for (size_t i = 0; i < base->rules_n; i++) {
		const struct net_rule *b = &base->rules[i];

		if (b->effect == NET_DENY)
			continue;
		if (net_rule_cmp(b, r) == 0)
			return true;
		if (b->effect >= r->effect && !net_rule_partial(b) &&
			limits_cmp(&b->limits, &none) == 0 && net_rule_bounds(b, r) &&
			(r->mode == b->mode || (net_mode_inspects(b->mode) && r->mode != NET_WS)))
			return true;
	}
	return false;
}

static unsigned project_line(const struct policy_origin *o)
{
	return o->layer == LAYER_PROJECT ? o->line : 0;
}

static void wider_rules(
	struct findings *f, const struct net_policy *base, const struct net_policy *wide)
{
	for (size_t i = 0; i < wide->rules_n; i++) {
		const struct net_rule *r = &wide->rules[i];
		cleanup_buf struct buf b = BUF_INIT(1024);

		if (r->effect == NET_DENY || rule_had(base, r) ||
			!widen_found(f, project_line(&r->origin)))
			continue;
		net_rule_where(&b, r);
		buf_addf(&f->first, "host %s", buf_str(&b));
		if (r->effect == NET_ASK)
			buf_adds(&f->first, " (ask)");
	}
	for (size_t i = 0; i < base->rules_n; i++) { /* a deny can only disappear with a profile */
		const struct net_rule *r = &base->rules[i];
		bool kept = r->effect != NET_DENY;

		for (size_t k = 0; k < wide->rules_n && !kept; k++)
			kept = net_rule_cmp(r, &wide->rules[k]) == 0;
		if (!kept && widen_found(f, 0))
			buf_addf(&f->first, "no %s", r->name);
	}
}

static void wider_secrets(
	struct findings *f, const struct net_policy *base, const struct net_policy *wide)
{
	for (size_t i = 0; i < wide->secrets_n; i++) {
		const struct net_secret *s = &wide->secrets[i];
		bool had = false;

		for (size_t k = 0; k < base->secrets_n; k++)
			had = had || net_secret_same(s, &base->secrets[k]);
		if (!had && widen_found(f, project_line(&s->origin)))
			buf_addf(&f->first, "the secret %s for %s", s->name, s->host);
	}
}

static unsigned list_line(const struct layer_list *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, text))
			return l->v[i].at.line;
	return 0;
}

static void wider_forwards(struct findings *f, const char *what, const struct layer_list *list,
	const struct net_forward *a, size_t an, const struct net_forward *b, size_t bn)
{
	for (size_t i = 0; i < bn; i++) {
		bool had = false;
		char text[16];

		for (size_t k = 0; k < an; k++)
			had = had || (a[k].host == b[i].host && a[k].inside == b[i].inside);
		if (b[i].inside)
			snprintf(text, sizeof(text), "%u:%u", b[i].host, b[i].inside);
		else
			snprintf(text, sizeof(text), "%u", b[i].host);
		if (!had && widen_found(f, list_line(list, text)))
			buf_addf(&f->first, "%s %s", what, text);
	}
}

static bool resolve_same(const struct net_resolve *a, const struct net_resolve *b)
{
	if (!str_eq(a->host, b->host) || a->addrs_n != b->addrs_n)
		return false;
	for (size_t i = 0; i < a->addrs_n; i++)
		if (a->addrs[i].v6 != b->addrs[i].v6 ||
			memcmp(a->addrs[i].b, b->addrs[i].b, sizeof(a->addrs[i].b)) != 0)
			return false;
	return true;
}

static void wider_lists(
	struct findings *f, const struct net_policy *base, const struct net_policy *wide)
{
	const struct layer_net *l = &f->l->net;

	for (size_t i = 0; i < wide->resolve_n; i++) {
		bool had = false;
		unsigned line = 0;

		for (size_t k = 0; k < base->resolve_n; k++)
			had = had || resolve_same(&base->resolve[k], &wide->resolve[i]);
		for (size_t k = 0; k < l->resolve_n; k++)
			if (str_eq(l->resolve[k].host, wide->resolve[i].host))
				line = l->resolve_at[k].line;
		if (!had && widen_found(f, line))
			buf_addf(&f->first, "a fixed address for %s", wide->resolve[i].host);
	}
	for (size_t i = 0; i < wide->trust_n; i++) {
		bool had = false;

		for (size_t k = 0; k < base->trust_n; k++)
			had = had || str_eq(base->trust[k], wide->trust[i]);
		if (!had && widen_found(f, list_line(&l->trust, wide->trust[i])))
			buf_addf(&f->first, "trusting the authorities in %s", wide->trust[i]);
	}
	if (texts_cmp(base->dns, base->dns_n, wide->dns, wide->dns_n) != 0 &&
		widen_found(f, l->dns.n ? l->dns.v[0].at.line : 0))
		buf_adds(&f->first, "other resolvers (network.dns)");
}

void net_not_wider(struct findings *f, const struct net_policy *base, const struct net_policy *wide)
{
	const struct layer_net *l = &f->l->net;

	wider_rules(f, base, wide);
	wider_secrets(f, base, wide);
	wider_forwards(f, "publishing port", &l->publish, base->publish, base->publish_n,
		wide->publish, wide->publish_n);
	wider_forwards(f, "this machine's port", &l->host_ports, base->host_ports,
		base->host_ports_n, wide->host_ports, wide->host_ports_n);
	wider_lists(f, base, wide);
	if (text_cmp(base->proxy, wide->proxy) != 0 && widen_found(f, l->proxy_at.line))
		buf_adds(&f->first, "another upstream proxy (network.proxy)");
	if (wide->ask_default && !base->ask_default && widen_found(f, l->ask_default.at.line))
		buf_adds(&f->first, "network.default ask where your own policy has deny");
	if (wide->record_query && !base->record_query && widen_found(f, l->record_query.at.line))
		buf_adds(&f->first, "recording query strings");
}
