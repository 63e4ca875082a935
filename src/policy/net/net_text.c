/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network section as text: for the gateway, for the digest, for people.
 *
 * One writer for all three, so that what people are shown, what is digested and what is enforced
 * are the same rules in the same order. Keys are sorted, every value has one spelling, bundles are
 * expanded.
 */
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

#define IN1 "  "
#define IN2 "    "
#define IN3 "      "

struct writer {
	struct buf *out;
	const struct net_policy *n;
	enum net_text_form form;
};

/* ---- pieces ---- */

static void texts(
	struct buf *out, const char *indent, const char *key, const char *const *v, size_t n)
{
	if (n == 0)
		return;
	buf_addf(out, "%s%s: [", indent, key);
	for (size_t i = 0; i < n; i++) {
		buf_adds(out, i ? ", " : "");
		yaml_scalar(out, v[i]);
	}
	buf_adds(out, "]\n");
}

static void text(struct buf *out, const char *indent, const char *key, const char *value)
{
	if (!value)
		return;
	buf_addf(out, "%s%s: ", indent, key);
	yaml_scalar(out, value);
	buf_addc(out, '\n');
}

static void ports(struct buf *out, const struct net_rule *r, const char *sep)
{
	for (size_t i = 0; i < r->ports_n; i++) {
		buf_addf(out, "%s%u", i ? sep : "", r->ports[i].first);
		if (r->ports[i].last != r->ports[i].first)
			buf_addf(out, "-%u", r->ports[i].last);
	}
}

void net_rule_where(struct buf *out, const struct net_rule *r)
{
	if (r->host) {
		buf_adds(out, r->host);
	} else {
		buf_adds(out, r->cidr.addr.v6 ? "[" : "");
		net_cidr_show(out, &r->cidr);
		buf_adds(out, r->cidr.addr.v6 ? "]" : "");
	}
	if (r->ports_n == 1 && r->ports[0].first == 1 && r->ports[0].last == 65535)
		return;
	buf_addc(out, ':');
	ports(out, r, ",");
}

void net_proxy_show(struct buf *out, const char *proxy)
{
	const char *at = strrchr(proxy, '@');

	buf_adds(out, "http://");
	buf_adds(out, at ? at + 1 : proxy + strlen("http://"));
}

/* ---- rules ---- */

static bool limited(const struct net_limits *m)
{
	return m->rate_milli || m->up_b || m->down_b || m->body_b || m->uses || m->expires;
}

static void size(struct buf *out, const char **sep, const char *key, uint64_t v)
{
	if (!v)
		return;
	buf_addf(out, "%s%s: ", *sep, key);
	limit_show(out, LIMIT_DISK, v);
	*sep = ", ";
}

static void limits(struct buf *out, const struct net_limits *m)
{
	const char *sep = "";

	buf_addc(out, '{');
	size(out, &sep, "body", m->body_b);
	size(out, &sep, "down", m->down_b);
	if (m->expires) {
		buf_addf(out, "%sexpires: \"", sep);
		net_time_show(out, m->expires);
		buf_addc(out, '"');
		sep = ", ";
	}
	if (m->rate_milli) {
		buf_addf(out, "%srate: ", sep);
		net_rate_show(out, m->rate_milli);
		sep = ", ";
	}
	size(out, &sep, "up", m->up_b);
	if (m->uses)
		buf_addf(out, "%suses: %llu", sep, (unsigned long long)m->uses);
	buf_addc(out, '}');
}

static void query(struct buf *out, const struct net_rule *r)
{
	buf_addc(out, '{');
	for (size_t i = 0; i < r->query_n; i++) {
		buf_adds(out, i ? ", " : "");
		yaml_scalar(out, r->query[i].name);
		buf_adds(out, ": ");
		yaml_scalar(out, r->query[i].pattern);
	}
	buf_addc(out, '}');
}

/* The first line of an entry: where it leads. */
static void entry_head(struct writer *w, const struct net_rule *r)
{
	buf_addf(w->out, IN2 "- %s: ", r->host ? "host" : "cidr");
	if (r->host) {
		yaml_scalar(w->out, r->host);
	} else {
		buf_addc(w->out, '"');
		net_cidr_show(w->out, &r->cidr);
		buf_addc(w->out, '"');
	}
	if (w->form == NET_TEXT_SHOW) {
		buf_adds(w->out, "  # ");
		if (!str_starts(r->name, "network.") && strchr(r->name, '/'))
			buf_addf(w->out, "%s, ", r->name);
		origin_show(w->out, &r->origin);
	}
	buf_addc(w->out, '\n');
}

static void entry(struct writer *w, const struct net_rule *r)
{
	entry_head(w, r);
	if (limited(&r->limits)) {
		buf_adds(w->out, IN3 "limits: ");
		limits(w->out, &r->limits);
		buf_addc(w->out, '\n');
	}
	if (r->ech_allowed || r->ech_refused)
		buf_addf(w->out, IN3 "ech: %s\n", r->ech_allowed ? "allow" : "refuse");
	if (r->keep_slash)
		buf_adds(w->out, IN3 "encoded-slash: keep\n");
	texts(w->out, IN3, "methods", r->methods, r->methods_n);
	buf_addf(w->out, IN3 "mode: %s\n", net_mode_names[r->mode]);
	if (w->form == NET_TEXT_GATEWAY)
		text(w->out, IN3, "name", r->name);
	texts(w->out, IN3, "paths", r->paths, r->paths_n);
	if (r->plaintext)
		buf_adds(w->out, IN3 "plaintext: true\n");
	buf_adds(w->out, IN3 "ports: [");
	ports(w->out, r, ", ");
	buf_adds(w->out, "]\n");
	if (r->private_ok)
		buf_adds(w->out, IN3 "private: true\n");
	if (r->push)
		buf_adds(w->out, IN3 "push: true\n");
	if (r->query_n) {
		buf_adds(w->out, IN3 "query: ");
		query(w->out, r);
		buf_addc(w->out, '\n');
	}
	text(w->out, IN3, "reason", r->reason);
	texts(w->out, IN3, "refs", r->refs, r->refs_n);
	texts(w->out, IN3, "repos", r->repos, r->repos_n);
}

static void entries(struct writer *w, const char *key, enum net_effect effect,
	const struct net_rule *v, size_t n)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		if (v[i].effect != effect)
			continue;
		if (!any)
			buf_addf(w->out, IN1 "%s:\n", key);
		any = true;
		entry(w, &v[i]);
	}
}

static void ceilings(struct writer *w)
{
	const struct net_policy *n = w->n;

	if (!n->ceiling)
		return;
	if (w->form == NET_TEXT_SHOW) {
		buf_adds(w->out,
			IN1 "# the system's policy bounds these; nothing else can be added\n");
		return;
	}
	entries(w, "ceiling", NET_ALLOW, n->ceilings, n->ceilings_n);
	entries(w, "ceiling-ask", NET_ASK, n->ceilings, n->ceilings_n);
	for (size_t i = 0; i < n->ceilings_n; i++)
		if (n->ceilings[i].effect == NET_ALLOW)
			return;
	buf_adds(w->out, IN1 "ceiling: []\n");
}

/* ---- the rest ---- */

static void forwards(struct writer *w, const char *key, const struct net_forward *v, size_t n)
{
	if (n == 0)
		return;
	buf_addf(w->out, IN1 "%s: [", key);
	for (size_t i = 0; i < n; i++) {
		if (v[i].inside)
			buf_addf(w->out, "%s\"%u:%u\"", i ? ", " : "", v[i].host, v[i].inside);
		else
			buf_addf(w->out, "%s%u", i ? ", " : "", v[i].host);
	}
	buf_adds(w->out, "]\n");
}

static void resolve(struct writer *w)
{
	if (w->n->resolve_n)
		buf_adds(w->out, IN1 "resolve:\n");
	for (size_t i = 0; i < w->n->resolve_n; i++) {
		const struct net_resolve *x = &w->n->resolve[i];

		buf_adds(w->out, IN2);
		yaml_scalar(w->out, x->host);
		buf_adds(w->out, ": [");
		for (size_t k = 0; k < x->addrs_n; k++) {
			buf_adds(w->out, k ? ", \"" : "\"");
			net_addr_show(w->out, &x->addrs[k]);
			buf_addc(w->out, '"');
		}
		buf_adds(w->out, "]\n");
	}
}

static void secret(struct writer *w, const struct net_secret *s)
{
	buf_adds(w->out, IN2 "- name: ");
	yaml_scalar(w->out, s->name);
	if (w->form == NET_TEXT_SHOW) {
		buf_adds(w->out, "  # ");
		origin_show(w->out, &s->origin);
	}
	buf_addc(w->out, '\n');
	text(w->out, IN3, "env", s->env);
	text(w->out, IN3, "field", s->field);
	text(w->out, IN3, "host", s->host);
	texts(w->out, IN3, "methods", s->methods, s->methods_n);
	texts(w->out, IN3, "paths", s->paths, s->paths_n);
	buf_addf(w->out, IN3 "place: %s\n", net_placement_names[s->placement]);
	buf_addf(w->out, IN3 "port: %u\n", s->port);
	buf_addf(w->out, IN3 "require: %s\n", s->require ? "true" : "false");
	buf_addf(w->out, IN3 "strip: %s\n", s->strip ? "true" : "false");
}

static void proxy(struct writer *w)
{
	struct digest d;

	if (!w->n->proxy)
		return;
	if (w->form != NET_TEXT_CANONICAL) {
		text(w->out, IN1, "proxy", w->n->proxy);
		return;
	}
	digest_sha256(&d, w->n->proxy, strlen(w->n->proxy));
	buf_addf(w->out, IN1 "proxy: sha256:%s\n", d.hex);
}

/* Says nothing beyond what every policy says. */
static bool empty(const struct net_policy *n)
{
	return !n->rules_n && !n->ceiling && !n->secrets_n && !n->resolve_n && !n->publish_n &&
	       !n->host_ports_n && !n->dns_n && !n->proxy && !n->trust_n && !n->ask_default &&
	       !n->record_query && n->ask_timeout_ms == NET_ASK_TIMEOUT_MS;
}

void net_text(const struct net_policy *n, enum net_text_form form, struct buf *out)
{
	struct writer w = {.out = out, .n = n, .form = form};
	bool brief = form == NET_TEXT_SHOW;

	if (empty(n))
		return;
	entries(&w, "allow", NET_ALLOW, n->rules, n->rules_n);
	entries(&w, "ask", NET_ASK, n->rules, n->rules_n);
	if (!brief || n->ask_timeout_ms != NET_ASK_TIMEOUT_MS) {
		buf_adds(out, IN1 "ask-timeout: ");
		limit_show(out, LIMIT_TIMEOUT, n->ask_timeout_ms);
		buf_addc(out, '\n');
	}
	ceilings(&w);
	if (!brief || n->ask_default)
		buf_addf(out, IN1 "default: %s\n", n->ask_default ? "ask" : "deny");
	entries(&w, "deny", NET_DENY, n->rules, n->rules_n);
	texts(out, IN1, "dns", n->dns, n->dns_n);
	forwards(&w, "host-ports", n->host_ports, n->host_ports_n);
	proxy(&w);
	forwards(&w, "publish", n->publish, n->publish_n);
	if (!brief || n->record_query)
		buf_addf(out, IN1 "record-query: %s\n", n->record_query ? "true" : "false");
	resolve(&w);
	if (n->secrets_n)
		buf_adds(out, IN1 "secrets:\n");
	for (size_t i = 0; i < n->secrets_n; i++)
		secret(&w, &n->secrets[i]);
	texts(out, IN1, "trust", n->trust, n->trust_n);
}

void policy_network_text(const struct net_policy *n, struct buf *out)
{
	buf_adds(out, empty(n) ? "version: 1\nnetwork: {}\n" : "version: 1\nnetwork:\n");
	net_text(n, NET_TEXT_GATEWAY, out);
}
