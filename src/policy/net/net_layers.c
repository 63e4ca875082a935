/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network sections of all layers become one.
 *
 * Trust:   denies of any layer hold. A sealed profile (network.allow: []) takes everything else
 *          away. A system layer that names what may be reached is a ceiling: what it does not bound
 *          by host, port and mode is dropped here (refused, when the command line asked for it),
 *          and the rest must also satisfy the ceiling's own methods and paths when it is decided.
 * Order:   rules, secrets, lists, single values; then the whole is checked once (net_lint.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"
#include "policy/reader.h"

/* ---- rules ---- */

struct merge {
	struct net_policy *n;
	struct arena *arena;
	const struct stack *s;
	const struct policy_layer *sealed; /* the profile that has no network, or NULL */
	const struct policy_layer *system; /* the ceiling, or NULL */
	const struct policy_layer *cut;    /* something of this layer was dropped */
	struct err *e;
};

static int refuse_cli(struct merge *m, const char *what, const char *name)
{
	const struct policy_layer *bar = m->sealed ? m->sealed : m->system;

	return err_refuse(m->e, "%s %s is not possible: %s%s does not allow it", what, name,
		bar->kind == LAYER_PROFILE ? "profile " : "", bar->name);
}

/*
 * The loosest of what the ceiling's rules that bound this one say, and never looser than its own.
 */
static void bound_u64(uint64_t *v, uint64_t most)
{
	if (most && (!*v || *v > most))
		*v = most;
}

struct loosest {
	struct net_limits most;
	bool any;
};

static uint64_t looser(uint64_t a, uint64_t b)
{
	return a && b ? MAX_OF(a, b) : 0;
}

static void loosen(struct loosest *x, const struct net_limits *c)
{
	if (!x->any) {
		x->most = *c;
		x->any = true;
		return;
	}
	x->most.rate_milli = (uint32_t)looser(x->most.rate_milli, c->rate_milli);
	x->most.up_b = looser(x->most.up_b, c->up_b);
	x->most.down_b = looser(x->most.down_b, c->down_b);
	x->most.body_b = looser(x->most.body_b, c->body_b);
	x->most.uses = looser(x->most.uses, c->uses);
	x->most.expires = (int64_t)looser((uint64_t)x->most.expires, (uint64_t)c->expires);
}

/* Does some rule of the ceiling bound it? Its limits then hold as well. */
static bool within_ceiling(const struct policy_layer *system, struct net_rule *r)
{
	struct loosest x = {0};
	uint64_t v;

	for (size_t i = 0; i < system->net.rules_n; i++) {
		const struct net_rule *c = &system->net.rules[i];

		if (c->effect != NET_DENY && net_rule_bounds(c, r))
			loosen(&x, &c->limits);
	}
	if (!x.any)
		return false;
	v = r->limits.rate_milli;
	bound_u64(&v, x.most.rate_milli);
	r->limits.rate_milli = (uint32_t)v;
	bound_u64(&r->limits.up_b, x.most.up_b);
	bound_u64(&r->limits.down_b, x.most.down_b);
	bound_u64(&r->limits.body_b, x.most.body_b);
	bound_u64(&r->limits.uses, x.most.uses);
	v = (uint64_t)r->limits.expires;
	bound_u64(&v, (uint64_t)x.most.expires);
	r->limits.expires = (int64_t)v;
	return true;
}

static int rule_add(struct merge *m, size_t layer, const struct net_rule *from)
{
	const struct policy_layer *l = m->s->v[layer];
	struct net_rule r = *from;
	cleanup_buf struct buf where = BUF_INIT(512);

	if (r.effect != NET_DENY && (m->sealed || (m->system && l->kind > LAYER_SYSTEM &&
							  !within_ceiling(m->system, &r)))) {
		if (l->kind != LAYER_CLI) {
			m->cut = l;
			return 0;
		}
		if (r.host)
			return refuse_cli(m, "host", r.host);
		net_rule_where(&where, &r);
		return refuse_cli(m, "host", buf_str(&where));
	}
	if (m->n->rules_n >= NET_RULES_MAX)
		return err_invalid(
			m->e, "the layers have more than %u network rules together", NET_RULES_MAX);
	r.origin.file = m->s->name[layer];
	if (!net_copy_rule(m->arena, &m->n->rules[m->n->rules_n], &r))
		return policy_no_memory(m->e);
	m->n->rules_n++;
	return 0;
}

static int rule_ptr_cmp(const void *a, const void *b)
{
	const struct net_rule *x = *(const struct net_rule *const *)a;
	const struct net_rule *y = *(const struct net_rule *const *)b;
	int c = net_rule_cmp(x, y);

	return c ? c : x < y ? -1 : x > y;
}

/* The same rule from two layers counts once, as the first. */
static int drop_repeated(struct merge *m)
{
	struct net_policy *n = m->n;
	cleanup_free const struct net_rule **v = NULL;
	cleanup_free bool *drop = NULL;
	size_t kept = 0;

	if (n->rules_n < 2)
		return 0;
	v = malloc(n->rules_n * sizeof(*v));
	drop = calloc(n->rules_n, sizeof(*drop));
	if (!v || !drop)
		return policy_no_memory(m->e);
	for (size_t i = 0; i < n->rules_n; i++)
		v[i] = &n->rules[i];
	qsort(v, n->rules_n, sizeof(*v), rule_ptr_cmp);
	for (size_t i = 1; i < n->rules_n; i++)
		if (net_rule_cmp(v[i - 1], v[i]) == 0)
			drop[v[i] - n->rules] = true;
	for (size_t i = 0; i < n->rules_n; i++)
		if (!drop[i])
			n->rules[kept++] = n->rules[i];
	n->rules_n = kept;
	return 0;
}

static int merge_rules(struct merge *m)
{
	static const enum net_effect order[] = {NET_DENY, NET_ALLOW, NET_ASK};
	size_t total = 0;
	int r = 0;

	for (size_t i = 0; i < m->s->n; i++)
		total += m->s->v[i]->net.rules_n;
	if (total == 0)
		return 0;
	m->n->rules =
		arena_alloc(m->arena, MIN_OF(total, (size_t)NET_RULES_MAX) * sizeof(*m->n->rules));
	if (!m->n->rules)
		return policy_no_memory(m->e);
	for (size_t o = 0; o < ARRAY_SIZE(order); o++)
		for (size_t i = 0; i < m->s->n; i++)
			for (size_t k = 0; r == 0 && k < m->s->v[i]->net.rules_n; k++)
				if (m->s->v[i]->net.rules[k].effect == order[o])
					r = rule_add(m, i, &m->s->v[i]->net.rules[k]);
	return r < 0 ? r : drop_repeated(m);
}

static int merge_ceiling(struct merge *m)
{
	const struct layer_net *sys = m->system ? &m->system->net : NULL;
	struct net_policy *n = m->n;

	if (!sys || m->sealed)
		return 0;
	n->ceiling = true;
	n->ceilings = arena_alloc(m->arena, (sys->rules_n + 1) * sizeof(*n->ceilings));
	if (!n->ceilings)
		return policy_no_memory(m->e);
	for (size_t i = 0; i < sys->rules_n; i++) {
		if (sys->rules[i].effect == NET_DENY)
			continue;
		if (!net_copy_rule(m->arena, &n->ceilings[n->ceilings_n], &sys->rules[i]))
			return policy_no_memory(m->e);
		n->ceilings[n->ceilings_n++].origin.file = policy_layer_names[LAYER_SYSTEM];
	}
	return 0;
}

/* ---- secrets ---- */

/* Some rule that inspects leads where the secret goes. */
static bool secret_reached(const struct net_policy *n, const struct net_secret *s)
{
	for (size_t i = 0; i < n->rules_n; i++)
		if (n->rules[i].effect != NET_DENY && n->rules[i].host &&
			net_mode_inspects(n->rules[i].mode) &&
			net_host_overlap(n->rules[i].host, s->host) &&
			net_ports_has(&n->rules[i], s->port))
			return true;
	return false;
}

static int secret_add(struct merge *m, size_t layer, const struct net_secret *s)
{
	const struct policy_layer *l = m->s->v[layer];
	struct net_policy *n = m->n;

	if (m->sealed && l->kind == LAYER_CLI)
		return refuse_cli(m, "secret", s->name);
	if (m->sealed || (m->cut && l->kind != LAYER_CLI && !secret_reached(n, s)))
		return 0; /* its rule is gone, so it is */
	for (size_t i = 0; i < n->secrets_n; i++)
		if (net_secret_same(&n->secrets[i], s))
			return 0;
	if (n->secrets_n >= NET_SECRETS_MAX)
		return err_invalid(
			m->e, "the layers have more than %u secrets together", NET_SECRETS_MAX);
	if (!net_copy_secret(m->arena, &n->secrets[n->secrets_n], s))
		return policy_no_memory(m->e);
	n->secrets[n->secrets_n++].origin.file = m->s->name[layer];
	return 0;
}

static int merge_secrets(struct merge *m)
{
	size_t total = 0;
	int r = 0;

	for (size_t i = 0; i < m->s->n; i++)
		total += m->s->v[i]->net.secrets_n;
	if (total == 0)
		return 0;
	m->n->secrets = arena_alloc(
		m->arena, MIN_OF(total, (size_t)NET_SECRETS_MAX) * sizeof(*m->n->secrets));
	if (!m->n->secrets)
		return policy_no_memory(m->e);
	for (size_t i = 0; i < m->s->n; i++)
		for (size_t k = 0; r == 0 && k < m->s->v[i]->net.secrets_n; k++)
			r = secret_add(m, i, &m->s->v[i]->net.secrets[k]);
	return r;
}

/* ---- lists ---- */

static int resolve_cmp(const void *a, const void *b)
{
	return strcmp(((const struct net_resolve *)a)->host, ((const struct net_resolve *)b)->host);
}

/* A later layer's addresses replace an earlier one's. */
static int resolve_put(struct merge *m, const struct net_resolve *from)
{
	struct net_policy *n = m->n;
	struct net_addr *addrs = arena_alloc(m->arena, from->addrs_n * sizeof(*addrs));
	size_t at = 0;

	while (at < n->resolve_n && !str_eq(n->resolve[at].host, from->host))
		at++;
	if (at == n->resolve_n && at >= NET_RESOLVE_MAX)
		return err_invalid(
			m->e, "the layers have more than %u fixed names together", NET_RESOLVE_MAX);
	if (!addrs || !net_copy_text(m->arena, &n->resolve[at].host, from->host))
		return policy_no_memory(m->e);
	memcpy(addrs, from->addrs, from->addrs_n * sizeof(*addrs));
	n->resolve[at].addrs = addrs;
	n->resolve[at].addrs_n = from->addrs_n;
	n->resolve_n += at == n->resolve_n;
	return 0;
}

static int merge_resolve(struct merge *m)
{
	size_t total = 0;
	int r = 0;

	for (size_t i = 0; i < m->s->n; i++)
		total += m->s->v[i]->net.resolve_n;
	if (total == 0 || m->sealed)
		return 0;
	m->n->resolve = arena_alloc(m->arena, total * sizeof(*m->n->resolve));
	if (!m->n->resolve)
		return policy_no_memory(m->e);
	for (size_t i = 0; i < m->s->n; i++)
		for (size_t k = 0; r == 0 && k < m->s->v[i]->net.resolve_n; k++)
			r = resolve_put(m, &m->s->v[i]->net.resolve[k]);
	qsort(m->n->resolve, m->n->resolve_n, sizeof(*m->n->resolve), resolve_cmp);
	return r;
}

static int forward_cmp(const void *a, const void *b)
{
	const struct net_forward *x = a, *y = b;

	return x->host != y->host ? (int)x->host - (int)y->host : (int)x->inside - (int)y->inside;
}

static int merge_forwards(
	struct merge *m, size_t offset, const char *what, struct net_forward **ret, size_t *ret_n)
{
	struct net_forward *v;
	size_t total = 0, n = 0;

	for (size_t i = 0; i < m->s->n; i++)
		total += ((const struct layer_list *)((const char *)&m->s->v[i]->net + offset))->n;
	if (total == 0)
		return 0;
	v = arena_alloc(m->arena, total * sizeof(*v));
	if (!v)
		return policy_no_memory(m->e);
	for (size_t i = 0; i < m->s->n; i++) {
		const struct layer_list *l =
			(const struct layer_list *)((const char *)&m->s->v[i]->net + offset);

		if (m->sealed && l->n && m->s->v[i]->kind == LAYER_CLI)
			return refuse_cli(m, what, l->v[0].name);
		for (size_t k = 0; !m->sealed && k < l->n; k++)
			v[n++] = net_forward_of(l->v[k].name);
	}
	qsort(v, n, sizeof(*v), forward_cmp);
	for (size_t i = 0; i < n; i++) {
		if (*ret_n && forward_cmp(&v[*ret_n - 1], &v[i]) == 0)
			continue;
		if (*ret_n && v[*ret_n - 1].host == v[i].host)
			return err_invalid(
				m->e, "two layers publish port %u differently", v[i].host);
		v[(*ret_n)++] = v[i];
	}
	if (*ret_n > NET_FORWARDS_MAX)
		return err_invalid(m->e, "the layers have more than %u ports in one list together",
			NET_FORWARDS_MAX);
	*ret = v;
	return 0;
}

static int keep_list(struct merge *m, const struct layer_list *l, const char **v, size_t *n)
{
	for (size_t k = 0; k < l->n; k++) {
		bool had = false;

		for (size_t i = 0; i < *n; i++)
			had = had || str_eq(v[i], l->v[k].name);
		if (had)
			continue;
		if (!net_copy_text(m->arena, &v[*n], l->v[k].name))
			return policy_no_memory(m->e);
		(*n)++;
	}
	return 0;
}

/*
 * Authorities add up; of resolvers and proxies the last layer's count, unless the system has its
 * own.
 */
static int merge_way(struct merge *m)
{
	const struct policy_layer *dns = NULL, *proxy = NULL;
	const char **trust, **resolvers;
	size_t total = 0;
	int r = 0;

	for (size_t i = 0; i < m->s->n; i++) {
		const struct policy_layer *l = m->s->v[i];

		total += l->net.trust.n;
		if (l->net.dns.n && !(dns && dns->kind == LAYER_SYSTEM))
			dns = l;
		if (l->net.proxy && !(proxy && proxy->kind == LAYER_SYSTEM))
			proxy = l;
	}
	if (total) {
		trust = arena_alloc(m->arena, total * sizeof(*trust));
		if (!trust)
			return policy_no_memory(m->e);
		for (size_t i = 0; r == 0 && i < m->s->n; i++)
			r = keep_list(m, &m->s->v[i]->net.trust, trust, &m->n->trust_n);
		sort_text((char **)trust, m->n->trust_n);
		m->n->trust = trust;
	}
	if (r == 0 && dns) {
		resolvers = arena_alloc(m->arena, dns->net.dns.n * sizeof(*resolvers));
		if (!resolvers)
			return policy_no_memory(m->e);
		r = keep_list(m, &dns->net.dns, resolvers, &m->n->dns_n);
		m->n->dns = resolvers;
	}
	if (r == 0 && proxy && !net_copy_text(m->arena, &m->n->proxy, proxy->net.proxy))
		return policy_no_memory(m->e);
	return r;
}

static void merge_words(struct merge *m)
{
	struct net_policy *n = m->n;
	bool fixed = false;

	n->ask_timeout_ms = NET_ASK_TIMEOUT_MS;
	for (size_t i = 0; i < m->s->n; i++) {
		const struct layer_net *l = &m->s->v[i]->net;

		if (l->ask_default.set && !fixed)
			n->ask_default = l->ask_default.v;
		/* A system layer that says deny means it. */
		fixed = fixed || (l->ask_default.set && !l->ask_default.v &&
					 m->s->v[i]->kind == LAYER_SYSTEM);
		if (l->record_query.set)
			n->record_query = l->record_query.v;
		if (l->ask_timeout.set)
			n->ask_timeout_ms = l->ask_timeout.v;
	}
	if (m->sealed)
		n->ask_default = false;
}

/* ---- the whole ---- */

static int merge_all(struct merge *m)
{
	struct net_policy *n = m->n;
	int r;

	for (size_t i = 0; i < m->s->n; i++) {
		const struct policy_layer *l = m->s->v[i];

		if (l->kind == LAYER_PROFILE && l->net.reach && l->net.rules_n == 0)
			m->sealed = l;
		if (l->kind == LAYER_SYSTEM && l->net.reach)
			m->system = l;
	}
	merge_words(m);
	r = merge_rules(m);
	if (r == 0)
		r = merge_ceiling(m);
	if (r == 0)
		r = merge_secrets(m);
	if (r == 0)
		r = merge_resolve(m);
	if (r == 0)
		r = merge_forwards(m, offsetof(struct layer_net, publish), "publishing port",
			&n->publish, &n->publish_n);
	if (r == 0)
		r = merge_forwards(m, offsetof(struct layer_net, host_ports), "port",
			&n->host_ports, &n->host_ports_n);
	if (r == 0)
		r = merge_way(m);
	if (r == 0 && net_tags(n, m->arena) < 0)
		r = policy_no_memory(m->e);
	return r;
}

/*
 * An encrypted ClientHello may be for another site behind the same server. Honest clients send one
 * as well, as camouflage, so it is refused where the command is not to be trusted at all.
 */
static void settle_ech(struct net_policy *n)
{
	for (size_t i = 0; i < n->rules_n; i++) {
		struct net_rule *r = &n->rules[i];

		if (r->effect != NET_DENY && r->mode == NET_TLS && !r->ech_allowed)
			r->ech_refused = true;
	}
}

int combine_network(struct policy *p, const struct stack *s, bool lint, struct err *e)
{
	struct arena a = {.head = p->memory};
	struct net_policy *n = arena_alloc(&a, sizeof(*n));
	struct merge m = {.n = n, .arena = &a, .s = s, .e = e};
	int r;

	p->memory = a.head;
	if (!n)
		return policy_no_memory(e);
	*n = (struct net_policy){0};
	r = merge_all(&m);
	p->memory = a.head;
	p->net = n;
	if (r == 0 && p->threat == THREAT_HOSTILE)
		settle_ech(n);
	return r == 0 && lint ? net_lint(n, e) : r;
}

/* ---- what the gateway reads ---- */

struct parsed {
	struct net_policy net; /* first: what the caller holds */
	struct arena arena;
};

static int take_layer(struct parsed *p, const struct policy_layer *l, struct err *e)
{
	struct stack s = {.v = {l}, .name = {"network policy"}, .n = 1};
	struct merge m = {.n = &p->net, .arena = &p->arena, .s = &s, .e = e};
	const struct layer_net *ln = &l->net;
	struct net_policy *n = &p->net;
	int r = merge_all(&m);

	if (r < 0)
		return r;
	n->ceiling = ln->ceiling;
	n->ceilings = arena_alloc(&p->arena, (ln->ceilings_n + 1) * sizeof(*n->ceilings));
	if (!n->ceilings)
		return policy_no_memory(e);
	for (size_t i = 0; i < ln->ceilings_n; i++) {
		if (!net_copy_rule(&p->arena, &n->ceilings[i], &ln->ceilings[i]))
			return policy_no_memory(e);
		n->ceilings[n->ceilings_n++].origin.file = policy_layer_names[LAYER_SYSTEM];
	}
	return 0;
}

int policy_network_parse(struct net_policy **ret, const char *text, size_t len, struct err *e)
{
	cleanup_policy_layer struct policy_layer *l = NULL;
	struct parsed *p;
	int r = reader_expanded(&l, text, len, e);

	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(e, ENOMEM, "read the network policy");
	r = take_layer(p, l, e);
	if (r < 0) {
		policy_network_free(&p->net);
		return r;
	}
	*ret = &p->net;
	return 0;
}

void policy_network_free(struct net_policy *n)
{
	struct parsed *p = (struct parsed *)(void *)n;

	if (!p)
		return;
	arena_done(&p->arena);
	free(p);
}
