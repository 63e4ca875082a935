/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts about names, connections and requests.
 *
 * Order:   floor -> denies -> allows -> asks -> default, every grant within the ceiling. Expired
 *          rules are not there.
 * Trust:   a deny that depends on the request (methods, paths …) holds on inspected connections; on
 *          an uninspected one nobody could tell, so there it denies the connection.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

/* ---- does a rule cover it ---- */

struct target {           /* who is asked about */
	const char *host; /* NULL: addr counts */
	struct net_addr addr;
	uint16_t port;
	uint32_t tag;
};

static struct target target_of(const char *host, const struct net_addr *addr, uint16_t port)
{
	struct target t = {.host = host, .port = port};

	if (host && net_addr_text(&t.addr, host))
		t.host = NULL;
	else if (!host && addr)
		t.addr = net_addr_unmapped(addr);
	t.tag = t.host ? net_tag(t.host) : NET_TAG_CIDR;
	return t;
}

static bool covers_host(const struct net_rule *r, const struct target *t)
{
	if (t->host)
		return r->host && net_host_matches(r->host, t->host);
	return !r->host && net_addr_within(&t->addr, &r->cidr);
}

static bool covers(const struct net_rule *r, const struct target *t)
{
	return net_ports_has(r, t->port) && covers_host(r, t);
}

/* Cheaper than looking at the rule: can it cover this target at all? */
static bool tagged(const struct net_policy *n, size_t i, const struct target *t)
{
	uint32_t tag = n->tags ? n->tags[i] : NET_TAG_ANY;

	return tag == t->tag || tag == NET_TAG_ANY || t->tag == NET_TAG_ANY;
}

static bool expired(const struct net_rule *r)
{
	return r->limits.expires && r->limits.expires <= (int64_t)time(NULL);
}

/* ---- the ceiling ---- */

/* The most that the ceiling lets a connection of this rule be. */
static enum net_effect ceiling_connect(
	const struct net_policy *n, const struct net_rule *r, const struct target *t)
{
	enum net_effect most = NET_DENY;

	if (!n->ceiling)
		return NET_ALLOW;
	for (size_t i = 0; i < n->ceilings_n; i++) {
		const struct net_rule *c = &n->ceilings[i];

		if (!covers(c, t) || expired(c))
			continue;
		if (!net_mode_inspects(r->mode) && c->mode != NET_TCP && c->mode != r->mode)
			continue; /* the ceiling would look, the rule would not */
		if (r->private_ok && !c->private_ok)
			continue;
		most = MAX_OF(most, c->effect);
	}
	return most;
}

static enum net_effect ceiling_request(const struct net_policy *n, const struct net_rule *r,
	const struct target *t, const struct net_request *q)
{
	enum net_effect most = NET_DENY;

	if (!n->ceiling)
		return NET_ALLOW;
	for (size_t i = 0; i < n->ceilings_n; i++) {
		const struct net_rule *c = &n->ceilings[i];

		if (!covers(c, t) || expired(c) || (r->private_ok && !c->private_ok))
			continue;
		if (net_mode_inspects(c->mode) ? !net_rule_outside(c, q)
					       : c->mode == NET_TCP || q->tls)
			most = MAX_OF(most, c->effect);
	}
	return most;
}

/* ---- how a target is read ---- */

static void form_by_rule(struct net_target_form *f, const struct net_rule *r)
{
	if (r->query_n)
		f->query_as_sent = false;
	if (r->repos_n || r->refs_n || r->mode == NET_GIT ||
		(r->paths_n && r->effect != NET_DENY && !r->keep_slash))
		f->path = NET_PATH_STRICT;
	else if (r->paths_n) /* a deny holds for either reading: path_denied() */
		f->path = MIN_OF(f->path, NET_PATH_KEEP_SLASH);
}

/*
 * One reading for all rules of a host: "%2F" is kept only where each grant with paths says so. Who
 * has only denies with paths has said nothing, so that is strict.
 */
struct net_target_form net_target_form(const struct net_policy *n, const char *host, uint16_t port)
{
	struct net_target_form f = {.path = NET_PATH_AS_SENT, .query_as_sent = true};
	struct target t = target_of(host, NULL, port);
	bool kept = false;

	for (size_t i = 0; i < n->rules_n; i++)
		if (tagged(n, i, &t) && covers(&n->rules[i], &t)) {
			form_by_rule(&f, &n->rules[i]);
			kept = kept || n->rules[i].keep_slash;
		}
	for (size_t i = 0; i < n->ceilings_n; i++)
		if (covers(&n->ceilings[i], &t))
			form_by_rule(&f, &n->ceilings[i]);
	for (size_t i = 0; i < n->secrets_n; i++)
		if (n->secrets[i].paths_n && t.host && net_host_matches(n->secrets[i].host, t.host))
			f.path = MIN_OF(f.path, NET_PATH_KEEP_SLASH);
	if (f.path == NET_PATH_KEEP_SLASH && !kept)
		f.path = NET_PATH_STRICT;
	return f;
}

/* ---- words ---- */

struct shown {
	char text[NET_NAME_MAX + 16];
};

/* "host:port", or the address in the place of the host. */
static struct shown show_target(const struct target *t)
{
	cleanup_buf struct buf b = BUF_INIT(NET_NAME_MAX + 16);
	struct shown s;

	if (t->host)
		str_show(&b, t->host, strlen(t->host));
	else if (t->addr.v6)
		buf_addc(&b, '[');
	if (!t->host)
		net_addr_show(&b, &t->addr);
	if (!t->host && t->addr.v6)
		buf_addc(&b, ']');
	buf_addf(&b, ":%u", t->port);
	snprintf(s.text, sizeof(s.text), "%s", buf_str(&b));
	return s;
}

static void say(struct net_verdict *v, enum net_effect effect, const struct net_rule *rule)
{
	*v = (struct net_verdict){.effect = effect, .rule = rule};
}

#define WHY(v, ...) snprintf((v)->why, sizeof((v)->why), __VA_ARGS__)
#define FIX(v, ...) snprintf((v)->fix, sizeof((v)->fix), __VA_ARGS__)

static void say_allowed(struct net_verdict *v, enum net_effect effect, const struct net_rule *rule)
{
	say(v, effect, rule);
	WHY(v, "%s %s it", rule->name, effect == NET_ASK ? "asks about" : "allows");
}

static void say_denied(struct net_verdict *v, const struct net_rule *rule, const struct target *t)
{
	struct shown s = show_target(t);

	say(v, NET_DENY, rule);
	if (rule->reason)
		WHY(v, "%s denies %.120s: %s", rule->name, s.text, rule->reason);
	else
		WHY(v, "%s denies %.120s", rule->name, s.text);
	FIX(v, "take %s out of the policy", rule->name);
}

static void say_ceiling(struct net_verdict *v, const struct net_rule *rule, const struct target *t)
{
	struct shown s = show_target(t);

	say(v, NET_DENY, rule);
	WHY(v, "%s allows it, but the system's policy does not let anyone have %.120s",
		rule ? rule->name : "network.default", s.text);
}

void net_fix_host(char ret[NET_FIX_MAX], const char *host, uint16_t port)
{
	char name[NET_NAME_MAX + 1];
	const char *bundle;

	ret[0] = '\0';
	/* What is no name (a pattern is none) must not become a rule that matches something else. */
	if (!net_name(name, host, strlen(host)))
		return;
	bundle = net_bundle_of(name, port);
	if (bundle) /* all that this kind of work needs, and nothing can be published */
		snprintf(ret, NET_FIX_MAX, "--use %s", bundle);
	else if (port)
		snprintf(ret, NET_FIX_MAX, "--allow-host %s:%u", name, port);
	else
		snprintf(ret, NET_FIX_MAX, "--allow-host %s", name);
}

static void say_uncovered(struct net_verdict *v, const struct target *t)
{
	const struct net_cidr one = {.addr = t->addr, .bits = t->addr.v6 ? 128 : 32};
	struct shown s = show_target(t);

	say(v, NET_DENY, NULL);
	if (t->host) {
		WHY(v, "no rule allows %.200s", s.text);
		net_fix_host(v->fix, t->host, t->port);
		return;
	}
	WHY(v, "%.60s was dialled as an address, which only a rule with cidr can allow", s.text);
	if (net_cidr_private(&one))
		FIX(v, "network.allow: [{cidr: \"ADDRESS\", ports: [%u], private: true}]", t->port);
	else
		FIX(v, "--allow-host '%.60s', or use the name", s.text);
}

static bool say_floor(struct net_verdict *v, const struct target *t)
{
	const struct net_cidr one = {.addr = t->addr, .bits = t->addr.v6 ? 128 : 32};
	const char *why = t->host ? net_name_forbidden(t->host) : net_cidr_forbidden(&one);
	struct shown s;

	if (!why)
		return false;
	s = show_target(t);
	say(v, NET_DENY, NULL);
	WHY(v, "%.150s %s and cannot be granted", s.text, why);
	return true;
}

/* What `default: ask` stands for: the web is inspected, the rest is not. */
static const struct net_rule ask_web = {.effect = NET_ASK,
	.mode = NET_HTTP,
	.name = "network.default",
	.host = "**",
	.ports = {{80, 80}, {443, 443}},
	.ports_n = 2,
	.origin = {.layer = LAYER_FLOOR, .file = "floor"}};
static const struct net_rule ask_other = {.effect = NET_ASK,
	.mode = NET_TCP,
	.name = "network.default",
	.host = "**",
	.ports = {{1, 65535}},
	.ports_n = 1,
	.origin = {.layer = LAYER_FLOOR, .file = "floor"}};

/* ---- names ---- */

bool net_wanted(const struct net_policy *n)
{
	for (size_t i = 0; i < n->rules_n; i++)
		if (n->rules[i].effect != NET_DENY)
			return true;
	return n->ask_default || n->publish_n || n->host_ports_n;
}

bool net_inspects(const struct net_policy *n)
{
	for (size_t i = 0; i < n->rules_n; i++)
		if (n->rules[i].effect != NET_DENY && net_mode_inspects(n->rules[i].mode))
			return true;
	return n->ask_default;
}

/* Are all of the rule's ports denied for this name, whatever is asked there? */
static bool all_denied(const struct net_policy *n, const struct net_rule *r, const struct target *t)
{
	for (size_t i = 0; i < n->rules_n && n->rules[i].effect == NET_DENY; i++) {
		const struct net_rule *d = &n->rules[i];

		if (tagged(n, i, t) && !net_rule_partial(d) && covers_host(d, t) &&
			net_ports_within(d, r))
			return true;
	}
	return false;
}

static bool ceiling_knows(const struct net_policy *n, const struct target *t)
{
	for (size_t i = 0; i < n->ceilings_n; i++)
		if (covers_host(&n->ceilings[i], t))
			return true;
	return !n->ceiling;
}

bool net_name_known(const struct net_policy *n, const char *host)
{
	struct target t = {.host = host, .tag = net_tag(host)};

	if (net_name_forbidden(host) || !ceiling_knows(n, &t))
		return false;
	for (size_t i = 0; i < n->rules_n; i++)
		if (n->rules[i].effect != NET_DENY && tagged(n, i, &t) &&
			covers_host(&n->rules[i], &t) && !expired(&n->rules[i]) &&
			!all_denied(n, &n->rules[i], &t))
			return true;
	return n->ask_default && !all_denied(n, &ask_other, &t);
}

/* ---- connections ---- */

/* A deny that holds for every request there; else whether one holds for some. */
static const struct net_rule *deny_all(
	const struct net_policy *n, const struct target *t, const struct net_rule **ret_some)
{
	for (size_t i = 0; i < n->rules_n && n->rules[i].effect == NET_DENY; i++) {
		const struct net_rule *r = &n->rules[i];

		if (!tagged(n, i, t) || !covers(r, t))
			continue;
		if (!net_rule_partial(r))
			return r;
		*ret_some = r;
	}
	return NULL;
}

/* The verdict by a rule that grants; false when it is not this rule that decides. */
static bool grant(const struct net_policy *n, const struct net_rule *r, const struct target *t,
	const struct net_rule *some_deny, struct net_verdict *ret)
{
	enum net_effect effect = MIN_OF(r->effect, ceiling_connect(n, r, t));

	if (effect == NET_DENY) {
		say_ceiling(ret, r, t);
		return false;
	}
	if (!net_mode_inspects(r->mode) && some_deny) {
		say_denied(ret, some_deny, t);
		return true;
	}
	say_allowed(ret, net_mode_inspects(r->mode) ? NET_ALLOW : effect, r);
	return true;
}

bool net_is_host_port(const struct net_policy *n, const char *host, uint16_t port)
{
	if (!host || (!str_eq(host, NET_THIS_MACHINE) && !str_eq(host, NET_LOCALHOST)))
		return false;
	for (size_t i = 0; i < n->host_ports_n; i++)
		if (n->host_ports[i].host == port)
			return true;
	return false;
}

/*
 * This machine, by the one name it has inside: only the ports that were named, and never looked
 * into.
 */
static bool say_this_machine(
	const struct net_policy *n, const struct target *t, struct net_verdict *v)
{
	static const struct net_rule rule = {.effect = NET_ALLOW,
		.mode = NET_TCP,
		.name = "network.host-ports",
		.host = NET_THIS_MACHINE,
		.ports = {{1, UINT16_MAX}},
		.ports_n = 1};

	if (net_is_host_port(n, t->host, t->port)) {
		say(v, NET_ALLOW, &rule);
		WHY(v, "port %u of this machine was opened", t->port);
		return true;
	}
	if (!t->host || !str_eq(t->host, NET_THIS_MACHINE))
		return false;
	say(v, NET_DENY, NULL);
	WHY(v, "port %u of this machine was not opened", t->port);
	FIX(v, "--host-port %u", t->port);
	return true;
}

void net_decide_connect(
	const struct net_policy *n, const struct net_dest *d, struct net_verdict *ret)
{
	struct target t = target_of(d->host, &d->addr, d->port);
	const struct net_rule *some = NULL, *all;

	if (!net_is_host_port(n, t.host, t.port) && say_floor(ret, &t))
		return;
	all = deny_all(n, &t, &some);
	if (all) {
		say_denied(ret, all, &t);
		return;
	}
	if (say_this_machine(n, &t, ret))
		return;
	say_uncovered(ret, &t);
	for (size_t i = 0; i < n->rules_n; i++) { /* allows come before asks */
		const struct net_rule *r = &n->rules[i];

		if (r->effect != NET_DENY && tagged(n, i, &t) && covers(r, &t) && !expired(r) &&
			grant(n, r, &t, some, ret))
			return;
	}
	if (n->ask_default && t.host)
		grant(n, t.port == 80 || t.port == 443 ? &ask_web : &ask_other, &t, some, ret);
}

bool net_addr_denied(const struct net_policy *n, const struct net_addr *a, uint16_t port,
	struct net_verdict *ret)
{
	struct target t = target_of(NULL, a, port);
	const struct net_rule *some = NULL, *all = deny_all(n, &t, &some);

	if (!all && !some)
		return false;
	say_denied(ret, all ? all : some, &t);
	return true;
}

/* ---- requests ---- */

/* A rule for this request and no other; false: it cannot be written, or not in the room there is. */
static bool fix_request(struct net_verdict *v, const struct net_request *q)
{
	cleanup_buf struct buf path = BUF_INIT(NET_FIX_MAX);
	struct err ignored = ERR_INIT;
	char name[NET_NAME_MAX + 1];
	int n;

	for (const char *s = q->path; *s; s++)
		buf_adds(&path, *s == '*' ? "%2A" : (char[]){*s, '\0'});
	if (path.failed || net_value_path(buf_str(&path), &ignored) < 0 ||
		!net_name(name, q->host, strlen(q->host)) || !q->method[0] ||
		q->method[strspn(q->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")])
		return false;
	n = FIX(v, "network.allow: [{host: %s, methods: [%s], paths: [\"%s\"]}]", name, q->method,
		buf_str(&path));
	return n > 0 && (size_t)n < sizeof(v->fix);
}

static void say_outside(struct net_verdict *v, const struct net_rule *r, const char *what,
	const struct net_request *q)
{
	say(v, NET_DENY, r);
	WHY(v, "%s %.60s %s (%s)", q->method, q->path, what, r->name);
	if (r->mode == NET_GIT || q->upgrade_ws || !fix_request(v, q))
		FIX(v, "widen %s in the policy", r->name);
}

/* A request to an open port of this machine, which came to the proxy as one: all of them, or none. */
static void decide_here(const struct net_policy *n, const struct target *t, struct net_verdict *ret)
{
	const struct net_rule *some = NULL, *all = deny_all(n, t, &some);

	if (all || some)
		say_denied(ret, all ? all : some, t);
	else
		say_this_machine(n, t, ret);
}

void net_decide_request(
	const struct net_policy *n, const struct net_request *q, struct net_verdict *ret)
{
	struct target t = target_of(q->host, NULL, q->port);
	bool near = false;

	if (net_is_host_port(n, t.host, t.port)) {
		decide_here(n, &t, ret);
		return;
	}
	if (say_floor(ret, &t))
		return;
	say_uncovered(ret, &t);
	for (size_t i = 0; i < n->rules_n; i++) {
		const struct net_rule *r = &n->rules[i];
		enum net_effect most;
		const char *what;

		if (!tagged(n, i, &t) || !covers(r, &t) || expired(r))
			continue;
		if (r->effect == NET_DENY) {
			if (!net_rule_denies(r, q))
				continue;
			say_denied(ret, r, &t);
			return;
		}
		what = net_rule_outside(r, q);
		if (what) {
			if (!near)
				say_outside(ret, r, what, q);
			near = true;
			continue;
		}
		most = ceiling_request(n, r, &t, q);
		if (most != NET_DENY) {
			say_allowed(ret, MIN_OF(r->effect, most), r);
			return;
		}
		say_ceiling(ret, r, &t);
		near = true;
	}
	if (!n->ask_default || !t.host || (q->port != 80 && q->port != 443) ||
		net_rule_outside(&ask_web, q))
		return;
	if (ceiling_request(n, &ask_web, &t, q) == NET_DENY)
		say_ceiling(ret, NULL, &t);
	else
		say_allowed(ret, NET_ASK, &ask_web);
}

const struct net_secret *net_secret_for(
	const struct net_policy *n, const struct net_request *q, size_t from)
{
	for (size_t i = from; i < n->secrets_n; i++) {
		const struct net_secret *s = &n->secrets[i];

		if (!q->tls || s->port != q->port || !net_host_matches(s->host, q->host) ||
			!net_listed(s->methods, s->methods_n, q->method))
			continue;
		if (net_path_listed(s->paths, s->paths_n, q->path))
			return s;
	}
	return NULL;
}
