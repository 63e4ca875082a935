/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering what was done with the network: see learn_net.h. */
#include "learn/learn_net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define GUESS_PORT 443
#define NOTES_MAX 64

int learn_net_init(struct learn_net *n, const struct net_policy *p, const struct policy_context *c)
{
	static const struct net_policy none;

	*n = (struct learn_net){
		.policy = p ? p : &none, .ctx = *c, .notes = STRLIST_INIT(NOTES_MAX)};
	while (n->trial_n < n->policy->rules_n && n->policy->rules[n->trial_n].effect == NET_DENY)
		n->trial_n++;
	n->trial = calloc(n->trial_n + 1, sizeof(*n->trial));
	n->used = calloc(n->policy->rules_n + 1, sizeof(*n->used));
	n->entries = calloc(LEARN_ENTRIES_MAX, sizeof(*n->entries));
	n->refusals = calloc(LEARN_REFUSALS_MAX, sizeof(*n->refusals));
	n->proposals = calloc(LEARN_PROPOSALS_MAX, sizeof(*n->proposals));
	if (!n->trial || !n->used || !n->entries || !n->refusals || !n->proposals)
		return -ENOMEM;
	if (n->trial_n)
		memcpy(n->trial, n->policy->rules, n->trial_n * sizeof(*n->trial));
	return 0;
}

static void refusal_free(struct learn_refusal *r)
{
	free(r->host), free(r->method), free(r->path), free(r->why);
}

void learn_net_done(struct learn_net *n)
{
	for (size_t i = 0; i < n->entries_n; i++)
		learn_paths_done(&n->entries[i].paths);
	for (size_t i = 0; i < n->refusals_n; i++)
		refusal_free(&n->refusals[i]);
	for (size_t i = 0; i < n->proposals_n; i++) {
		strlist_done(&n->proposals[i].methods);
		strlist_done(&n->proposals[i].paths);
		free(n->proposals[i].text);
	}
	free(n->trial);
	free(n->used);
	free(n->entries);
	free(n->refusals);
	free(n->proposals);
	strlist_done(&n->notes);
	*n = (struct learn_net){0};
}

/* ---- rules ---- */

static const struct net_rule *rule_of(struct learn_net *n, const char *name)
{
	const struct net_policy *p = n->policy;

	if (n->rule_last < p->rules_n && str_eq(p->rules[n->rule_last].name, name))
		return &p->rules[n->rule_last];
	for (size_t i = 0; i < p->rules_n; i++)
		if (str_eq(p->rules[i].name, name)) {
			n->rule_last = i;
			return &p->rules[i];
		}
	return NULL;
}

const char *learn_bundle(const struct net_rule *r)
{
	for (size_t i = 0; i < net_bundle_names_n; i++) {
		size_t len = strlen(net_bundle_names[i]);

		if (strncmp(r->name, net_bundle_names[i], len) == 0 && r->name[len] == '/')
			return net_bundle_names[i];
	}
	return NULL;
}

bool learn_broad(const struct net_rule *r)
{
	return net_mode_inspects(r->mode) && r->mode != NET_GIT && !r->methods_n && !r->paths_n &&
	       !r->query_n;
}

/* Nobody looks inside, but it stands for more than one host or port. */
static bool wide_opaque(const struct net_rule *r)
{
	return !net_mode_inspects(r->mode) &&
	       (r->host[0] == '*' || r->ports_n != 1 || r->ports[0].first != r->ports[0].last);
}

/* Of a bundle no rule can be replaced alone, and an address is no name. */
static bool narrowable(const struct net_rule *r)
{
	return r->effect == NET_ALLOW && r->host && !learn_bundle(r) &&
	       (learn_broad(r) || wide_opaque(r));
}

/* ---- entries ---- */

static struct learn_entry *entry_of(struct learn_net *n, const struct learn_entry *key)
{
	struct learn_entry *x;

	for (size_t i = 0; i < n->entries_n; i++) {
		x = &n->entries[i];
		if (x->port == key->port && x->instead == key->instead && x->mode == key->mode &&
			x->plaintext == key->plaintext && x->private_ok == key->private_ok &&
			x->guess == key->guess && str_eq(x->host, key->host))
			return x;
	}
	if (n->entries_n == LEARN_ENTRIES_MAX) {
		n->lost++;
		return NULL;
	}
	x = &n->entries[n->entries_n++];
	*x = *key;
	return x;
}

static bool set_host(struct learn_entry *x, const char *host)
{
	return net_name(x->host, host, strlen(host)) && str_eq(x->host, host);
}

static bool same_refusal(const struct learn_refusal *a, const struct learn_refusal *b)
{
	return a->port == b->port && str_eq(a->host, b->host) && str_eq(a->method, b->method) &&
	       str_eq(a->path, b->path);
}

void learn_net_refuse(struct learn_net *n, const struct learn_refusal *r)
{
	const char *cut = strstr(r->why, "; would allow it: "); /* here it is not advice */
	struct learn_refusal *x;

	for (size_t i = 0; i < n->refusals_n; i++)
		if (same_refusal(&n->refusals[i], r)) {
			n->refusals[i].count += r->count;
			return;
		}
	if (n->refusals_n == LEARN_REFUSALS_MAX) {
		n->lost++;
		return;
	}
	x = &n->refusals[n->refusals_n];
	*x = (struct learn_refusal){.host = strdup(r->host),
		.method = strdup(r->method),
		.path = strdup(r->path),
		.why = strndup(r->why, cut ? (size_t)(cut - r->why) : strlen(r->why)),
		.port = r->port,
		.count = r->count};
	if (x->host && x->method && x->path && x->why) {
		n->refusals_n++;
		return;
	}
	refusal_free(x);
	n->lost++;
}

/* ---- could a rule help? ---- */

/*
 * A policy of the denies, the ceiling and one rule for exactly this host and port: what it does not
 * allow, the floor, the ceiling or a deny forbids, and no proposal would change that.
 */
static struct net_policy trial_of(struct learn_net *n, const struct learn_entry *x)
{
	struct net_policy p = *n->policy;

	n->trial[n->trial_n] = (struct net_rule){.effect = NET_ALLOW,
		.mode = x->mode,
		.name = "a rule for it",
		.host = x->host,
		.ports = {{x->port, x->port}},
		.ports_n = 1,
		.plaintext = x->plaintext,
		.private_ok = x->private_ok};
	p.rules = n->trial;
	p.rules_n = n->trial_n + 1;
	p.ask_default = false;
	p.tags = NULL;
	return p;
}

static bool helps(struct net_verdict *v)
{
	if (v->effect == NET_ASK)
		snprintf(v->why, sizeof(v->why),
			"the system's policy lets nobody have it without being asked");
	return v->effect == NET_ALLOW;
}

static bool connect_helps(struct learn_net *n, const struct learn_entry *x, struct net_verdict *ret)
{
	struct net_policy p = trial_of(n, x);
	struct net_dest d = {.host = x->host, .port = x->port};

	net_decide_connect(&p, &d, ret);
	return helps(ret);
}

static bool request_helps(struct learn_net *n, const struct learn_entry *x,
	const struct net_request *q, struct net_verdict *ret)
{
	struct net_policy p = trial_of(n, x);

	net_decide_request(&p, q, ret);
	return helps(ret);
}

/* ---- refusals ---- */

struct refused { /* one claim, from either source */
	const char *host, *method, *path, *rule, *why;
	uint16_t port;
	uint64_t count;
};

static void name_only(struct learn_net *n, const struct refused *c, const char *why)
{
	struct learn_refusal r = {.host = (char *)c->host,
		.method = (char *)c->method,
		.path = (char *)c->path,
		.why = (char *)why,
		.port = str_eq(c->method, "DNS") ? 0 : c->port,
		.count = c->count};

	learn_net_refuse(n, &r);
}

/* Why an address is no good, even where a rule by cidr could have it. */
static void refused_address(struct learn_net *n, const struct refused *c, const struct net_addr *a)
{
	cleanup_buf struct buf text = BUF_INIT(256), addr = BUF_INIT(64);
	cleanup_policy_layer struct policy_layer *l = NULL;
	struct net_dest d = {.addr = *a, .port = c->port};
	struct net_verdict v;
	struct err e = ERR_INIT;

	net_decide_connect(&(struct net_policy){0}, &d, &v);
	net_addr_show(&addr, a);
	buf_addf(&text, "version: 1\nnetwork: {allow: [{cidr: \"%s\", ports: [443]}]}\n",
		buf_str(&addr));
	if (strstr(v.why, "cannot be granted"))
		name_only(n, c, v.why);
	else if (policy_layer_parse(
			 &l, LAYER_USER, "address", buf_str(&text), text.len, &n->ctx, &e) < 0)
		name_only(n, c,
			"a private address; only a rule with its cidr and `private: true` could "
			"have it");
	else
		name_only(n, c, "dialled as an address; use the name");
}

static void refused_name(struct learn_net *n, const struct refused *c, struct learn_entry *x)
{
	struct net_verdict v;

	x->port = GUESS_PORT;
	x->guess = true;
	if (c->host[0] == '_') {
		name_only(n, c, "the name of a service's record, not of a host");
		return;
	}
	if (!connect_helps(n, x, &v)) {
		name_only(n, c, v.why);
		return;
	}
	x = entry_of(n, x);
	if (x)
		x->count += c->count;
}

static void refused_connection(struct learn_net *n, const struct refused *c, struct learn_entry *x)
{
	struct net_dest d = {.host = x->host, .port = x->port};
	struct net_verdict v;

	net_decide_connect(n->policy, &d, &v);
	if (v.effect == NET_ALLOW) { /* a rule did cover it; the way there was the reason */
		name_only(n, c, c->why);
		return;
	}
	x->mode = x->port == 80 || x->port == 443 ? NET_HTTP : NET_TCP;
	if (!connect_helps(n, x, &v)) {
		name_only(n, c, v.why);
		return;
	}
	x = entry_of(n, x);
	if (x)
		x->count += c->count;
}

static bool reads_only(const char *method)
{
	return str_eq(method, "GET") || str_eq(method, "HEAD");
}

static void refused_request(struct learn_net *n, const struct refused *c, struct learn_entry *x)
{
	struct net_request q = {.host = x->host,
		.port = x->port,
		.tls = x->port != 80,
		.method = c->method,
		.path = c->path,
		.query = ""};
	const struct net_rule *rule = rule_of(n, c->rule);
	struct net_verdict v;
	int r;

	if (rule && rule->effect == NET_DENY) {
		name_only(n, c, c->why);
		return;
	}
	if (rule && (rule->mode == NET_GIT || rule->query_n)) {
		snprintf(v.why, sizeof(v.why),
			"%.150s judges more than method and path; widen it if this is wanted",
			rule->name);
		name_only(n, c, v.why);
		return;
	}
	net_decide_request(n->policy, &q, &v);
	if (v.effect == NET_ALLOW) { /* limits, bodies, upgrades …: no rule would help */
		name_only(n, c, c->why);
		return;
	}
	x->plaintext = rule && rule->plaintext;
	x->private_ok = rule && rule->private_ok;
	x->mode = rule && net_mode_inspects(rule->mode) ? rule->mode : NET_HTTP;
	if (x->mode == NET_REGISTRY && !reads_only(c->method))
		x->mode = NET_HTTP;
	if (!request_helps(n, x, &q, &v)) {
		name_only(n, c, v.why);
		return;
	}
	x = entry_of(n, x);
	if (!x)
		return;
	r = learn_paths_add(&x->paths, c->method, c->path);
	if (r == 0)
		x->count += c->count;
	else if (r == -EINVAL)
		name_only(n, c, "its method or path cannot be written in a rule");
	else
		n->lost++;
}

static void take_refused(struct learn_net *n, const struct refused *c)
{
	struct learn_entry x = {.port = c->port, .mode = NET_HTTP};
	bool name = str_eq(c->method, "DNS");
	struct net_addr a;

	if (net_addr_parse(&a, c->host, strlen(c->host)))
		refused_address(n, c, &a);
	else if (!set_host(&x, c->host) || (!name && c->port == 0))
		n->odd++;
	else if (name)
		refused_name(n, c, &x);
	else if (c->path[0])
		refused_request(n, c, &x);
	else if (str_eq(c->method, "CONNECT"))
		refused_connection(n, c, &x);
	else
		name_only(n, c, c->why);
}

/* ---- uses ---- */

static void take_host(struct learn_net *n, const struct network_host *h)
{
	const struct net_rule *rule = rule_of(n, h->rule);
	struct learn_entry key = {.port = h->port, .instead = rule}, *x;

	if (!rule)
		return; /* a published port, or what was asked by default */
	n->used[rule - n->policy->rules] = true;
	key.mode = rule->mode;
	if (!narrowable(rule))
		return;
	if (!set_host(&key, h->host)) {
		n->odd++;
		return;
	}
	x = entry_of(n, &key);
	if (x)
		x->count += learn_broad(rule) ? h->requests : h->connections;
}

static void take_request(struct learn_net *n, const struct learn_line *l)
{
	const struct net_rule *rule = rule_of(n, l->rule);
	struct learn_entry key = {.port = (uint16_t)l->port, .instead = rule}, *x;

	if (!rule || !str_eq(l->effect, "allow"))
		return;
	n->used[rule - n->policy->rules] = true;
	if (!narrowable(rule) || !learn_broad(rule))
		return;
	key.mode = rule->mode;
	if (!set_host(&key, l->host) || !net_host_matches(rule->host, l->host)) {
		n->odd++;
		return;
	}
	x = entry_of(n, &key);
	if (!x)
		return;
	x->kept++;
	if (learn_paths_add(&x->paths, l->method, l->path) < 0)
		x->broken = true;
}

/* ---- sources ---- */

void learn_net_receipt(struct learn_net *n, const struct network *w)
{
	n->network = w;
	n->counted = w->state <= NETWORK_IDLE || w->state == NETWORK_RESTS ||
		     (w->state == NETWORK_SERVED && w->done);
	for (size_t i = 0; i < w->denials_n; i++) {
		const struct network_denial *d = &w->denials[i];

		take_refused(n, &(struct refused){.host = d->host,
					.method = d->method,
					.path = d->path,
					.rule = d->rule,
					.why = d->why,
					.port = d->port,
					.count = d->count});
	}
	for (size_t i = 0; i < w->hosts_n; i++) {
		if (w->hosts[i].host[0] == '(') /* what there was no more room for */
			n->counted = n->counted && !str_eq(w->hosts[i].host, "(others)");
		else
			take_host(n, &w->hosts[i]);
	}
	if (w->hosts_n == NETWORK_HOSTS_MAX)
		n->counted = false;
	if (w->state == NETWORK_LOST)
		strlist_add(&n->notes, "the gateway ended early, so not everything was seen");
	else if (!n->counted)
		strlist_add(&n->notes, "the account of the network is not complete, so no rule is "
				       "said to be unused");
}

static bool in_receipt(const struct learn_net *n, const struct learn_line *l)
{
	bool name = str_eq(l->method, "DNS");

	for (size_t i = 0; n->network && i < n->network->denials_n; i++) {
		const struct network_denial *d = &n->network->denials[i];

		if ((name || d->port == l->port) && str_eq(d->host, l->host) &&
			str_eq(d->method, l->method) && str_eq(d->path, l->path) &&
			str_eq(d->rule, l->rule))
			return true;
	}
	return false;
}

static void take_line(void *arg, const struct learn_line *l)
{
	struct learn_net *n = arg;

	if (str_eq(l->type, "request"))
		take_request(n, l);
	else if (str_eq(l->type, "denial") && !in_receipt(n, l))
		take_refused(n, &(struct refused){.host = l->host,
					.method = l->method,
					.path = l->path,
					.rule = l->rule,
					.why = l->reason,
					.port = (uint16_t)l->port,
					.count = 1});
}

void learn_net_journal(struct learn_net *n, int fd)
{
	cleanup_buf struct buf b = BUF_INIT(256);
	int r = fd < 0 ? 0 : learn_journal_read(fd, &n->journal, take_line, n);

	if (r < 0) {
		buf_addf(&b, "the journal could not be read: %s", strerror(-r));
		strlist_add(&n->notes, buf_str(&b));
		n->journal.whole = false;
	}
	n->network = NULL;
}
