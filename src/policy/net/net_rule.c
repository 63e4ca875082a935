/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rule: from single values, each checked where it is written, to a whole that makes sense.
 *
 * A rule that would silently do nothing is an error: a path in a mode that sees no paths, a limit
 * on a deny. Lists are sorted and ports merged, so that the same rule has one form.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

const char *const net_effect_names[NET_EFFECT_NUM] = {"deny", "ask", "allow"};
const char *const net_mode_names[NET_MODE_NUM] = {"tcp", "tls", "http", "git", "registry", "ws"};
const char *const net_key_names[NK_NUM] = {"host", "cidr", "ports", "mode", "methods", "paths",
	"query", "repos", "push", "refs", "limits", "private", "plaintext", "encoded-slash", "ech",
	"reason", "name"};
const char *const net_limit_keys[] = {"rate", "up", "down", "body", "uses", "expires"};
_Static_assert(ARRAY_SIZE(net_limit_keys) == NET_LIMIT_KEYS_N, "as the header says");

bool net_texts_add(struct arena *a, struct net_texts *t, const char *s)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 4;
		const char **v = arena_alloc(a, cap * sizeof(*v));

		if (!v)
			return false;
		if (t->n)
			memcpy(v, t->v, t->n * sizeof(*v));
		t->v = v;
		t->cap = cap;
	}
	t->v[t->n++] = s;
	return true;
}

/* ---- single values ---- */

static int add_text(struct policy_layer *l, struct net_draft *d, enum net_key k, const char *text,
	size_t max, struct err *e)
{
	struct net_texts *t = &d->list[k];
	const char *copy;

	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->v[i], text))
			return value_bad(e, text, "is listed twice");
	if (t->n >= max)
		return err_invalid(e, "more than %zu %s in one rule", max, net_key_names[k]);
	copy = arena_dup(&l->arena, text);
	if (!copy || !net_texts_add(&l->arena, t, copy))
		return err_set(e, ENOMEM, "keep a rule");
	return 0;
}

static int add_ports(struct net_draft *d, const char *text, struct err *e)
{
	struct net_ports p;
	int r = net_value_ports(&p, text, e);

	if (r < 0)
		return r;
	if (d->rule.ports_n >= NET_PORTS_MAX)
		return err_invalid(e, "more than %u ports or ranges in one rule", NET_PORTS_MAX);
	d->rule.ports[d->rule.ports_n++] = p;
	return 0;
}

static int set_mode(struct net_draft *d, const char *text, struct err *e)
{
	for (int i = 0; i < NET_MODE_NUM; i++) {
		if (str_eq(text, net_mode_names[i])) {
			d->rule.mode = (enum net_mode)i;
			return 0;
		}
	}
	return layer_unknown_word(e, "mode", text, net_mode_names, NET_MODE_NUM);
}

static int keep_text(struct policy_layer *l, const char **ret, const char *what, const char *text,
	size_t max, struct err *e)
{
	int r = net_value_text(what, text, max, e);

	if (r < 0)
		return r;
	*ret = arena_dup(&l->arena, text);
	return *ret ? 0 : err_set(e, ENOMEM, "keep a rule");
}

static int draft_value(struct policy_layer *l, struct net_draft *d, enum net_key k,
	const char *text, struct err *e)
{
	const char *method = NULL;
	int r;

	switch (k) {
	case NK_HOST:
		return net_value_host(
			&l->arena, &d->rule.host, text, d->rule.effect == NET_DENY, e);
	case NK_CIDR:
		return net_value_cidr(&d->rule.cidr, text, e);
	case NK_PORTS:
		return add_ports(d, text, e);
	case NK_MODE:
		return set_mode(d, text, e);
	case NK_METHODS:
		r = net_value_method(&l->arena, &method, text, e);
		return r < 0 ? r : add_text(l, d, k, text, NET_METHODS_MAX, e);
	case NK_PATHS:
		r = net_value_path(text, e);
		return r < 0 ? r : add_text(l, d, k, text, NET_PATHS_MAX, e);
	case NK_REPOS:
		r = net_value_repo(text, e);
		return r < 0 ? r : add_text(l, d, k, text, NET_PATHS_MAX, e);
	case NK_REFS:
		r = net_value_ref(text, e);
		return r < 0 ? r : add_text(l, d, k, text, NET_PATHS_MAX, e);
	case NK_PUSH:
		return net_value_bool(&d->rule.push, text, e);
	case NK_PRIVATE:
		return net_value_bool(&d->rule.private_ok, text, e);
	case NK_PLAINTEXT:
		return net_value_bool(&d->rule.plaintext, text, e);
	case NK_ENCODED_SLASH:
		if (!str_eq(text, "keep") && !str_eq(text, "refuse"))
			return value_bad(e, text, "is not \"keep\" or \"refuse\"");
		d->rule.keep_slash = str_eq(text, "keep");
		return 0;
	case NK_ECH:
		if (!str_eq(text, "allow") && !str_eq(text, "refuse"))
			return value_bad(e, text, "is not \"allow\" or \"refuse\"");
		d->rule.ech_allowed = str_eq(text, "allow");
		d->rule.ech_refused = !d->rule.ech_allowed;
		return 0;
	case NK_REASON:
		return keep_text(l, &d->rule.reason, "the reason", text, NET_REASON_MAX, e);
	case NK_NAME:
		return keep_text(l, &d->rule.name, "the name", text, 150, e);
	case NK_QUERY:
	case NK_LIMITS:
	case NK_NUM:
		break;
	}
	return err_invalid(e, "\"%s\" is not a single value", net_key_names[k]);
}

int net_draft_value(struct policy_layer *l, struct net_draft *d, enum net_key k, const char *text,
	struct layer_pos at, struct err *e)
{
	if (!d->given[k])
		d->key[k] = at;
	d->given[k] = true;
	return draft_value(l, d, k, text, e) < 0 ? layer_err(l, at, e) : 0;
}

static int query_add(struct policy_layer *l, struct net_draft *d, const char *name,
	const char *pattern, struct err *e)
{
	struct net_query *q = &d->query[d->rule.query_n];
	int r = 0;

	if (d->rule.query_n >= NET_QUERY_MAX)
		return err_invalid(e, "more than %u query parameters in one rule", NET_QUERY_MAX);
	for (size_t i = 0; i < d->rule.query_n; i++)
		if (str_eq(d->query[i].name, name))
			return value_bad(e, name, "is listed twice");
	r = keep_text(l, &q->name, "the name of a parameter", name, NET_PATTERN_MAX, e);
	if (r == 0 && !*pattern)
		q->pattern = "";
	else if (r == 0)
		r = keep_text(l, &q->pattern, "the pattern", pattern, NET_PATTERN_MAX, e);
	if (r == 0)
		d->rule.query_n++;
	return r;
}

int net_draft_query(struct policy_layer *l, struct net_draft *d, const char *name,
	const char *pattern, struct layer_pos at, struct err *e)
{
	if (!d->given[NK_QUERY])
		d->key[NK_QUERY] = at;
	d->given[NK_QUERY] = true;
	return query_add(l, d, name, pattern, e) < 0 ? layer_err(l, at, e) : 0;
}

static int limit_set(struct net_limits *m, const char *name, const char *text, struct err *e)
{
	uint64_t *size = str_eq(name, "up")     ? &m->up_b
			 : str_eq(name, "down") ? &m->down_b
			 : str_eq(name, "body") ? &m->body_b
						: NULL;
	uint64_t v;

	if (size) {
		if (!str_size(text, &v) || v == 0)
			return value_bad(e, text, "is not a size; write 64K, 10M or 1G");
		*size = v;
		return 0;
	}
	if (str_eq(name, "uses")) {
		if (!str_u64(text, UINT64_MAX / 4, &v) || v == 0)
			return value_bad(e, text, "is not a number of uses of at least 1");
		m->uses = v;
		return 0;
	}
	return str_eq(name, "rate") ? net_value_rate(&m->rate_milli, text, e)
				    : net_value_time(&m->expires, text, e);
}

int net_draft_limit(struct policy_layer *l, struct net_draft *d, const char *name, const char *text,
	struct layer_pos at, struct err *e)
{
	if (!d->given[NK_LIMITS])
		d->key[NK_LIMITS] = at;
	d->given[NK_LIMITS] = true;
	if (limit_set(&d->rule.limits, name, text, e) < 0) {
		err_wrap(e, "limits.%s", name);
		return layer_err(l, at, e);
	}
	return 0;
}

/* ---- text entries ---- */

static int text_ports(struct net_draft *d, const char *text, const char *ports, struct err *e)
{
	while (ports) {
		const char *comma = strchr(ports, ',');
		size_t n = comma ? (size_t)(comma - ports) : strlen(ports);
		char one[16];

		if (n == 0 || n >= sizeof(one))
			return value_bad(e, text, "has a port that is not between 1 and 65535");
		memcpy(one, ports, n);
		one[n] = '\0';
		d->given[NK_PORTS] = true;
		if (add_ports(d, one, e) < 0)
			return -e->errnum;
		ports = comma ? comma + 1 : NULL;
	}
	return 0;
}

static bool effect_grants(const struct net_draft *d)
{
	return d->rule.effect != NET_DENY;
}

int net_draft_text(struct policy_layer *l, struct net_draft *d, const char *text, struct err *e)
{
	char where[NET_NAME_MAX + 64];
	const char *end, *ports;
	struct net_addr a;
	size_t n;
	int r;

	if (text[0] == '[') {
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return value_bad(e, text,
				"is not an address; write [2001:db8::1] or [2001:db8::1]:443");
		text++;
		n = (size_t)(end - text);
		ports = end[1] ? end + 2 : NULL;
		if (!memchr(text, ':', n))
			return value_bad(e, text - 1, "is not an IPv6 address");
	} else {
		end = strchr(text, ':');
		if (end && strstr(text, "://"))
			return value_bad(e, text,
				"is a URL; write the host alone, and paths under \"paths\"");
		if (end && strchr(end + 1, ':'))
			return value_bad(
				e, text, "is not a host; an IPv6 address goes in brackets");
		n = end ? (size_t)(end - text) : strlen(text);
		ports = end ? end + 1 : NULL;
	}
	if (n == 0 || n >= sizeof(where))
		return value_bad(e, text, "is not a host name");
	memcpy(where, text, n);
	where[n] = '\0';
	r = text_ports(d, text, ports, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < net_bundle_names_n; i++)
		if (str_eq(where, net_bundle_names[i]))
			return value_bad(e, text,
				"is a bundle and no host; write it as --use, or under \"use\"");
	if (effect_grants(d) && str_eq(where, NET_THIS_MACHINE))
		return value_bad(e, text,
			"is this machine, of which ports are granted by number; write it as --host-port "
			"PORT, or under \"host-ports\"");
	if (where[strspn(where, "0123456789")] == '\0')
		return value_bad(e, text,
			"is a number and no host; write HOST:PORT, or --host-port PORT for a port of this "
			"machine");
	if (strchr(where, '/') || strchr(where, ':') || net_addr_parse(&a, where, n)) {
		d->given[NK_CIDR] = true;
		return net_value_cidr(&d->rule.cidr, where, e);
	}
	d->given[NK_HOST] = true;
	return net_value_host(&l->arena, &d->rule.host, where, d->rule.effect == NET_DENY, e);
}

int net_rule_text(struct policy_layer *l, enum net_effect effect, const char *text,
	struct layer_pos at, struct err *e)
{
	struct net_draft d = {.rule.effect = effect, .at = at};

	for (int k = 0; k < NK_NUM; k++)
		d.key[k] = at;
	if (net_draft_text(l, &d, text, e) < 0)
		return layer_err(l, at, e);
	/* A name alone means the web: both of its ports, the plain one too. */
	if (!d.given[NK_PORTS] && effect != NET_DENY) {
		d.rule.ports[0] = (struct net_ports){80, 80};
		d.rule.ports[1] = (struct net_ports){443, 443};
		d.rule.ports_n = 2;
	}
	return net_draft_finish(l, &d, e);
}

/* ---- the whole ---- */

static int ports_cmp(const void *a, const void *b)
{
	const struct net_ports *x = a, *y = b;

	return x->first != y->first ? (int)x->first - (int)y->first : (int)x->last - (int)y->last;
}

static void settle_ports(struct net_rule *r)
{
	size_t n = 0;

	if (r->ports_n == 0)
		r->ports[r->ports_n++] = r->effect == NET_DENY ? (struct net_ports){1, 65535}
							       : (struct net_ports){443, 443};
	qsort(r->ports, r->ports_n, sizeof(r->ports[0]), ports_cmp);
	for (size_t i = 1; i < r->ports_n; i++) {
		if ((unsigned)r->ports[i].first <= (unsigned)r->ports[n].last + 1)
			r->ports[n].last = MAX_OF(r->ports[n].last, r->ports[i].last);
		else
			r->ports[++n] = r->ports[i];
	}
	r->ports_n = n + 1;
}

static int fail(
	const struct policy_layer *l, const struct net_draft *d, enum net_key k, struct err *e)
{
	return layer_err(l, d->given[k] && d->key[k].line ? d->key[k] : d->at, e);
}

/* The mode that ports imply; a mixture says nothing. */
static int settle_mode(const struct policy_layer *l, struct net_draft *d, struct err *e)
{
	bool web = false, other = false;

	if (d->given[NK_MODE])
		return 0;
	d->rule.mode = NET_HTTP;
	if (d->rule.effect == NET_DENY)
		return 0;
	for (size_t i = 0; i < d->rule.ports_n; i++) {
		const struct net_ports *p = &d->rule.ports[i];
		bool is_web = p->first == p->last && (p->first == 80 || p->first == 443);

		web = web || is_web;
		other = other || !is_web;
	}
	if (web && other) {
		err_invalid(e, "ports 80 and 443 are inspected and others are not; write two "
			       "entries, or say which mode is meant");
		return fail(l, d, NK_PORTS, e);
	}
	if (other)
		d->rule.mode = NET_TCP;
	return 0;
}

static int check_where(const struct policy_layer *l, const struct net_draft *d, struct err *e)
{
	const char *why;

	if (d->given[NK_HOST] == d->given[NK_CIDR]) {
		err_invalid(e, "an entry has either \"host\" or \"cidr\"");
		return layer_err(l, d->at, e);
	}
	if (!d->given[NK_CIDR] || d->rule.effect == NET_DENY)
		return 0;
	why = net_cidr_forbidden(&d->rule.cidr);
	if (why || (net_cidr_private(&d->rule.cidr) && !d->rule.private_ok)) {
		cleanup_buf struct buf b = BUF_INIT(64);

		net_cidr_show(&b, &d->rule.cidr);
		if (why)
			err_invalid(e, "%s cannot be granted: it %s%s", buf_str(&b), why,
				strstr(why, "loopback") ? NET_HOST_PORTS_HINT : "");
		else
			err_invalid(e,
				"%s is a private range; write the entry as \"cidr: %s\" with "
				"\"private: true\"%s",
				buf_str(&b), buf_str(&b), d->at.line ? "" : " in a policy file");
		return fail(l, d, NK_CIDR, e);
	}
	return 0;
}

/* Keys that do nothing in this mode or with this effect. */
static const char *key_useless(const struct net_draft *d, enum net_key k)
{
	bool deny = d->rule.effect == NET_DENY;
	enum net_mode m = d->rule.mode;

	switch (k) {
	case NK_METHODS:
	case NK_PATHS:
	case NK_QUERY:
		if (!net_mode_inspects(m))
			return "needs a mode that inspects requests (mode: http)";
		if (k == NK_METHODS && m == NET_GIT)
			return "does not go with mode git, which knows fetch and push only";
		return NULL;
	case NK_REPOS:
	case NK_PUSH:
	case NK_REFS:
		return m == NET_GIT ? NULL : "is only for mode git";
	case NK_LIMITS:
	case NK_PRIVATE:
	case NK_PLAINTEXT:
	case NK_ENCODED_SLASH:
		if (deny)
			return "means nothing in a deny";
		if (k == NK_ENCODED_SLASH && !d->given[NK_PATHS])
			return "needs paths; without them every path is carried as it was sent";
		if (k == NK_ENCODED_SLASH && m == NET_GIT)
			return "does not go with mode git";
		if (k == NK_PLAINTEXT && !net_mode_inspects(m))
			return "is only for modes that inspect requests";
		return NULL;
	case NK_ECH:
		return deny || m != NET_TLS ? "is only for grants of mode tls" : NULL;
	case NK_MODE:
		if (deny && m != NET_HTTP && m != NET_GIT)
			return "of a deny is http or git: a deny holds whatever is spoken";
		return NULL;
	default:
		return NULL;
	}
}

static int check_keys(const struct policy_layer *l, const struct net_draft *d, struct err *e)
{
	for (int k = 0; k < NK_NUM; k++) {
		const char *why = d->given[k] ? key_useless(d, (enum net_key)k) : NULL;

		if (!why)
			continue;
		err_invalid(e, "\"%s\" %s", net_key_names[k], why);
		return fail(l, d, (enum net_key)k, e);
	}
	if (d->given[NK_REFS] && !d->rule.push) {
		err_invalid(e, "\"refs\" needs \"push: true\"; a fetch changes no refs");
		return fail(l, d, NK_REFS, e);
	}
	if (d->rule.mode == NET_REGISTRY)
		for (size_t i = 0; i < d->list[NK_METHODS].n; i++)
			if (!str_eq(d->list[NK_METHODS].v[i], "GET") &&
				!str_eq(d->list[NK_METHODS].v[i], "HEAD")) {
				err_invalid(e, "mode registry knows GET and HEAD only");
				return fail(l, d, NK_METHODS, e);
			}
	return 0;
}

static int query_cmp(const void *a, const void *b)
{
	return strcmp(((const struct net_query *)a)->name, ((const struct net_query *)b)->name);
}

static int settle_lists(struct policy_layer *l, struct net_draft *d, struct err *e)
{
	struct net_query *q;

	for (int k = 0; k < NK_NUM; k++)
		if (d->list[k].n)
			sort_text((char **)d->list[k].v, d->list[k].n);
	d->rule.methods = d->list[NK_METHODS].v;
	d->rule.methods_n = d->list[NK_METHODS].n;
	d->rule.paths = d->list[NK_PATHS].v;
	d->rule.paths_n = d->list[NK_PATHS].n;
	d->rule.repos = d->list[NK_REPOS].v;
	d->rule.repos_n = d->list[NK_REPOS].n;
	d->rule.refs = d->list[NK_REFS].v;
	d->rule.refs_n = d->list[NK_REFS].n;
	if (d->rule.query_n == 0)
		return 0;
	q = arena_alloc(&l->arena, d->rule.query_n * sizeof(*q));
	if (!q)
		return err_set(e, ENOMEM, "keep a rule");
	qsort(d->query, d->rule.query_n, sizeof(*q), query_cmp);
	memcpy(q, d->query, d->rule.query_n * sizeof(*q));
	d->rule.query = q;
	return 0;
}

/* What receipts call it. The user's own file is the usual place and needs no prefix. */
static const char *rule_name(struct policy_layer *l, const struct net_draft *d)
{
	char name[96];

	snprintf(name, sizeof(name), "%s%snetwork.%s[%u]",
		l->kind == LAYER_USER ? "" : policy_layer_names[l->kind],
		l->kind == LAYER_USER ? "" : " ", net_effect_names[d->rule.effect],
		l->net.listed[d->rule.effect]);
	return arena_dup(&l->arena, name);
}

int net_rule_push(
	struct net_rule **v, size_t *n, size_t *cap, const struct net_rule *r, struct err *e)
{
	if (*n >= NET_RULES_MAX)
		return err_invalid(e, "more than %u network rules", NET_RULES_MAX);
	if (*n == *cap) {
		size_t more = *cap ? *cap * 2 : 8;
		struct net_rule *grown = realloc(*v, more * sizeof(*grown));

		if (!grown)
			return err_set(e, ENOMEM, "add a network rule");
		*v = grown;
		*cap = more;
	}
	(*v)[(*n)++] = *r;
	return 0;
}

int net_draft_finish(struct policy_layer *l, struct net_draft *d, struct err *e)
{
	struct layer_net *n = &l->net;
	int r = check_where(l, d, e);

	if (r < 0)
		return r;
	settle_ports(&d->rule);
	r = settle_mode(l, d, e);
	if (r == 0)
		r = check_keys(l, d, e);
	if (r == 0)
		r = settle_lists(l, d, e);
	if (r < 0)
		return r;
	if (!d->rule.name) {
		d->rule.name = rule_name(l, d);
		n->listed[d->rule.effect]++;
	}
	if (!d->rule.name)
		return err_set(e, ENOMEM, "keep a rule");
	d->rule.origin = (struct policy_origin){
		.layer = l->kind, .line = d->at.line, .column = d->at.column};
	r = d->ceiling ? net_rule_push(&n->ceilings, &n->ceilings_n, &n->ceilings_cap, &d->rule, e)
		       : net_rule_push(&n->rules, &n->rules_n, &n->rules_cap, &d->rule, e);
	return r < 0 ? layer_err(l, d->at, e) : 0;
}
