/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers for people and programs about the network part: lines to compare, JSON, why a host is
 * refused.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

#define LINE_MAX_B (64u << 10)

/* ---- one line per fact ---- */

static void words(struct buf *out, const char *key, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addf(out, "%s%s", i ? "," : key, v[i]);
}

static void rule_line(struct buf *out, const struct net_rule *r)
{
	const struct net_limits *m = &r->limits;

	buf_addf(out, "%s ", net_effect_names[r->effect]);
	net_rule_where(out, r);
	if (r->effect != NET_DENY || r->mode != NET_HTTP)
		buf_addf(out, " %s", net_mode_names[r->mode]);
	words(out, " methods=", r->methods, r->methods_n);
	words(out, " paths=", r->paths, r->paths_n);
	for (size_t i = 0; i < r->query_n; i++) {
		buf_adds(out, i ? "&" : " query=");
		str_show(out, r->query[i].name, strlen(r->query[i].name));
		buf_addc(out, '=');
		str_show(out, r->query[i].pattern, strlen(r->query[i].pattern));
	}
	words(out, " repos=", r->repos, r->repos_n);
	words(out, " refs=", r->refs, r->refs_n);
	buf_adds(out, r->push ? " push" : "");
	buf_adds(out, r->private_ok ? " private" : "");
	buf_adds(out, r->plaintext ? " plaintext" : "");
	buf_adds(out, r->ech_allowed ? " ech=allow" : r->ech_refused ? " ech=refuse" : "");
	buf_adds(out, r->keep_slash ? " encoded-slash=keep" : "");
	if (m->rate_milli) {
		buf_adds(out, " rate=");
		net_rate_show(out, m->rate_milli);
	}
	if (m->up_b || m->down_b || m->body_b)
		buf_addf(out, " up=%llu down=%llu body=%llu", (unsigned long long)m->up_b,
			(unsigned long long)m->down_b, (unsigned long long)m->body_b);
	if (m->uses)
		buf_addf(out, " uses=%llu", (unsigned long long)m->uses);
	if (m->expires) {
		buf_adds(out, " expires=");
		net_time_show(out, m->expires);
	}
}

static void secret_line(struct buf *out, const struct net_secret *s)
{
	buf_addf(out, "secret %s in %s for %s:%u by %s", s->name, s->env, s->host, s->port,
		net_placement_names[s->placement]);
	if (s->field) {
		buf_addc(out, ' ');
		str_show(out, s->field, strlen(s->field));
	}
	words(out, " methods=", s->methods, s->methods_n);
	words(out, " paths=", s->paths, s->paths_n);
	buf_adds(out, s->require ? " require" : "");
	buf_adds(out, s->strip ? "" : " no-strip");
}

static bool line_done(struct strlist *out, struct buf *b)
{
	bool ok = !b->failed && strlist_addn(out, buf_str(b), b->len);

	buf_reset(b);
	return ok;
}

static bool list_lines(const struct net_policy *n, struct strlist *out, struct buf *b)
{
	bool ok = true;

	for (size_t i = 0; ok && i < n->resolve_n; i++) {
		buf_addf(b, "resolve %s", n->resolve[i].host);
		for (size_t k = 0; k < n->resolve[i].addrs_n; k++) {
			buf_addc(b, k ? ',' : '=');
			net_addr_show(b, &n->resolve[i].addrs[k]);
		}
		ok = line_done(out, b);
	}
	for (size_t i = 0; ok && i < n->publish_n; i++) {
		buf_addf(b, "publish %u:%u", n->publish[i].host, n->publish[i].inside);
		ok = line_done(out, b);
	}
	for (size_t i = 0; ok && i < n->host_ports_n; i++) {
		buf_addf(b, "host-ports %u", n->host_ports[i].host);
		ok = line_done(out, b);
	}
	for (size_t i = 0; ok && i < n->dns_n; i++) {
		buf_addf(b, "dns %s", n->dns[i]);
		ok = line_done(out, b);
	}
	for (size_t i = 0; ok && i < n->trust_n; i++) {
		buf_adds(b, "trust ");
		str_show(b, n->trust[i], strlen(n->trust[i]));
		ok = line_done(out, b);
	}
	return ok;
}

static bool word_lines(const struct net_policy *n, struct strlist *out, struct buf *b)
{
	bool ok = true;

	if (n->proxy) {
		struct digest d;

		digest_sha256(&d, n->proxy, strlen(n->proxy));
		buf_adds(b, "proxy ");
		net_proxy_show(b, n->proxy);
		buf_addf(b, " (sha256:%.16s)", d.hex); /* another password is another proxy */
		ok = line_done(out, b);
	}
	if (ok && n->ask_default)
		ok = strlist_add(out, "default ask");
	if (ok && n->record_query)
		ok = strlist_add(out, "record-query");
	if (ok && n->ask_timeout_ms != NET_ASK_TIMEOUT_MS) {
		buf_adds(b, "ask-timeout ");
		limit_show(b, LIMIT_TIMEOUT, n->ask_timeout_ms);
		ok = line_done(out, b);
	}
	return ok;
}

bool net_lines(const struct net_policy *n, struct strlist *out)
{
	cleanup_buf struct buf b = BUF_INIT(LINE_MAX_B * 8);
	bool ok = true;

	for (size_t i = 0; ok && i < n->rules_n; i++) {
		rule_line(&b, &n->rules[i]);
		ok = line_done(out, &b);
	}
	for (size_t i = 0; ok && i < n->ceilings_n; i++) {
		buf_adds(&b, "ceiling: ");
		rule_line(&b, &n->ceilings[i]);
		ok = line_done(out, &b);
	}
	for (size_t i = 0; ok && i < n->secrets_n; i++) {
		secret_line(&b, &n->secrets[i]);
		ok = line_done(out, &b);
	}
	return ok && list_lines(n, out, &b) && word_lines(n, out, &b);
}

/* ---- JSON ---- */

static void json_texts(struct json *j, const char *key, const char *const *v, size_t n)
{
	if (n == 0)
		return;
	json_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_str(j, NULL, v[i]);
	json_end(j);
}

static void json_origin(struct json *j, const struct policy_origin *o)
{
	json_str(j, "layer", policy_layer_names[o->layer]);
	json_str(j, "file", o->file);
	if (o->line)
		json_uint(j, "line", o->line);
}

static void json_limits(struct json *j, const struct net_limits *m)
{
	if (m->rate_milli)
		json_fixed(j, "rate_per_s", m->rate_milli, 3);
	if (m->up_b)
		json_uint(j, "up_b", m->up_b);
	if (m->down_b)
		json_uint(j, "down_b", m->down_b);
	if (m->body_b)
		json_uint(j, "body_b", m->body_b);
	if (m->uses)
		json_uint(j, "uses", m->uses);
	if (m->expires)
		json_int(j, "expires", m->expires);
}

static void json_net_rule(struct json *j, const struct net_rule *r)
{
	cleanup_buf struct buf b = BUF_INIT(64);

	json_object(j, NULL);
	json_str(j, "effect", net_effect_names[r->effect]);
	json_str(j, "name", r->name);
	if (!r->host)
		net_cidr_show(&b, &r->cidr);
	json_str(j, r->host ? "host" : "cidr", r->host ? r->host : buf_str(&b));
	json_array(j, "ports");
	for (size_t i = 0; i < r->ports_n; i++)
		json_strf(j, NULL, r->ports[i].first == r->ports[i].last ? "%u" : "%u-%u",
			r->ports[i].first, r->ports[i].last);
	json_end(j);
	json_str(j, "mode", net_mode_names[r->mode]);
	json_texts(j, "methods", r->methods, r->methods_n);
	json_texts(j, "paths", r->paths, r->paths_n);
	if (r->query_n) {
		json_object(j, "query");
		for (size_t i = 0; i < r->query_n; i++)
			json_str(j, r->query[i].name, r->query[i].pattern);
		json_end(j);
	}
	json_texts(j, "repos", r->repos, r->repos_n);
	json_texts(j, "refs", r->refs, r->refs_n);
	if (r->push)
		json_bool(j, "push", true);
	if (r->private_ok)
		json_bool(j, "private", true);
	if (r->plaintext)
		json_bool(j, "plaintext", true);
	if (r->ech_allowed || r->ech_refused)
		json_str(j, "ech", r->ech_allowed ? "allow" : "refuse");
	if (r->keep_slash)
		json_str(j, "encoded-slash", "keep");
	json_limits(j, &r->limits);
	if (r->reason)
		json_str(j, "reason", r->reason);
	json_origin(j, &r->origin);
	json_end(j);
}

static void json_secret(struct json *j, const struct net_secret *s)
{
	json_object(j, NULL);
	json_str(j, "name", s->name);
	json_str(j, "env", s->env);
	json_str(j, "host", s->host);
	json_uint(j, "port", s->port);
	json_texts(j, "paths", s->paths, s->paths_n);
	json_texts(j, "methods", s->methods, s->methods_n);
	json_str(j, "place", net_placement_names[s->placement]);
	if (s->field)
		json_str(j, "field", s->field);
	json_bool(j, "strip", s->strip);
	json_bool(j, "require", s->require);
	json_origin(j, &s->origin);
	json_end(j);
}

static void json_forwards(struct json *j, const struct net_policy *n)
{
	json_array(j, "publish");
	for (size_t i = 0; i < n->publish_n; i++)
		json_strf(j, NULL, "%u:%u", n->publish[i].host, n->publish[i].inside);
	json_end(j);
	json_array(j, "host_ports");
	for (size_t i = 0; i < n->host_ports_n; i++)
		json_uint(j, NULL, n->host_ports[i].host);
	json_end(j);
}

static void json_resolve(struct json *j, const struct net_policy *n)
{
	json_object(j, "resolve");
	for (size_t i = 0; i < n->resolve_n; i++) {
		json_array(j, n->resolve[i].host);
		for (size_t k = 0; k < n->resolve[i].addrs_n; k++) {
			cleanup_buf struct buf b = BUF_INIT(64);

			net_addr_show(&b, &n->resolve[i].addrs[k]);
			json_str(j, NULL, buf_str(&b));
		}
		json_end(j);
	}
	json_end(j);
}

void net_json(struct json *j, const struct net_policy *n)
{
	json_object(j, "network");
	json_str(j, "default", n->ask_default ? "ask" : "deny");
	json_uint(j, "ask_timeout_ms", n->ask_timeout_ms);
	json_bool(j, "record_query", n->record_query);
	json_array(j, "rules");
	for (size_t i = 0; i < n->rules_n; i++)
		json_net_rule(j, &n->rules[i]);
	json_end(j);
	if (n->ceiling) {
		json_array(j, "ceiling");
		for (size_t i = 0; i < n->ceilings_n; i++)
			json_net_rule(j, &n->ceilings[i]);
		json_end(j);
	}
	json_array(j, "secrets");
	for (size_t i = 0; i < n->secrets_n; i++)
		json_secret(j, &n->secrets[i]);
	json_end(j);
	json_resolve(j, n);
	json_forwards(j, n);
	json_texts(j, "dns", n->dns, n->dns_n);
	json_texts(j, "trust", n->trust, n->trust_n);
	if (n->proxy) {
		cleanup_buf struct buf b = BUF_INIT(2048);

		net_proxy_show(&b, n->proxy);
		json_str(j, "proxy", buf_str(&b));
	}
	json_end(j);
}

/* ---- why ---- */

/* "host", "host:port", "1.2.3.4:80", "[::1]:443"; port 443 when none is given. */
static bool read_target(const char *text, char name[NET_NAME_MAX + 1], struct net_dest *ret)
{
	const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
	const char *colon = end ? (end[1] == ':' ? end + 1 : NULL) : strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	struct err e;

	*ret = (struct net_dest){.port = 443};
	if (text[0] == '[' && (!end || (end[1] && !colon)))
		return false;
	if (colon && net_value_port(&ret->port, colon + 1, &e) < 0)
		return false;
	if (text[0] == '[')
		return net_addr_parse(&ret->addr, text + 1, (size_t)(end - text) - 1) &&
		       ret->addr.v6;
	if (net_addr_parse(&ret->addr, text, n))
		return !ret->addr.v6;
	ret->host = name;
	return net_name(name, text, n);
}

static bool covers(const struct net_rule *r, const struct net_dest *d)
{
	if (!net_ports_has(r, d->port))
		return false;
	return d->host ? r->host && net_host_matches(r->host, d->host)
		       : !r->host && net_addr_within(&d->addr, &r->cidr);
}

void policy_explain_host(const struct policy *p, const char *host_port, struct buf *out)
{
	char name[NET_NAME_MAX + 1];
	struct net_dest d;
	struct net_verdict v;

	str_show(out, host_port, strlen(host_port));
	if (!read_target(host_port, name, &d)) {
		buf_adds(out, ": not a host or address in its usual spelling, so never allowed\n");
		return;
	}
	net_decide_connect(p->net, &d, &v);
	if (v.effect == NET_ALLOW && v.rule->effect == NET_ASK)
		buf_adds(out, ": ask, for each request\n");
	else
		buf_addf(out, ": %s%s\n", net_effect_names[v.effect],
			v.effect == NET_ALLOW && net_rule_partial(v.rule) ? ", for some requests"
									  : "");
	buf_addf(out, "  because       %s\n", v.why);
	for (size_t i = 0; i < p->net->rules_n; i++) {
		const struct net_rule *r = &p->net->rules[i];

		if (!covers(r, &d))
			continue;
		buf_adds(out, r == v.rule ? "  decided by    " : "  also covers   ");
		rule_line(out, r);
		buf_adds(out, "  (");
		if (strchr(r->name, '/'))
			buf_addf(out, "%s, ", r->name);
		origin_show(out, &r->origin);
		buf_adds(out, ")\n");
	}
	for (size_t i = 0; d.host && i < p->net->secrets_n; i++)
		if (p->net->secrets[i].port == d.port &&
			net_host_matches(p->net->secrets[i].host, d.host)) {
			buf_adds(out, "  holds         ");
			secret_line(out, &p->net->secrets[i]);
			buf_addc(out, '\n');
		}
	if (v.fix[0])
		buf_addf(out, "  to allow it   %s\n", v.fix);
}
