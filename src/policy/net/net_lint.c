/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistakes that only show in the whole: rules that another rule makes worthless, secrets that
 * nothing carries. Each is an error before anything runs, because a policy that reads stricter than
 * it is would be believed.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

static void place(struct buf *out, const struct policy_layer *l, const struct policy_origin *o)
{
	if (o->file)
		origin_show(out, o);
	else
		buf_addf(out, "%s:%u", l->name, o->line);
}

/* "FILE:LINE:COL: …" in front, as every error of a file has it. */
static int fail_at(const struct policy_layer *l, const struct policy_origin *o, struct err *e)
{
	const char *file = o->file ? o->file : l->name;

	if (o->line)
		return err_wrap(e, "%s:%u:%u", file, o->line, o->column);
	return err_wrap(e, "%s", file);
}

/* ---- the same rule twice in one list ---- */

static int ptr_cmp(const void *a, const void *b)
{
	const struct net_rule *x = *(const struct net_rule *const *)a;
	const struct net_rule *y = *(const struct net_rule *const *)b;
	int c = net_rule_cmp(x, y);

	return c ? c : x < y ? -1 : x > y;
}

static int lint_repeated(const struct policy_layer *l, struct err *e)
{
	const struct layer_net *n = &l->net;
	cleanup_free const struct net_rule **v = NULL;
	const struct net_rule *worst = NULL, *first = NULL;
	cleanup_buf struct buf where = BUF_INIT(1024);

	if (n->rules_n < 2)
		return 0;
	v = malloc(n->rules_n * sizeof(*v));
	if (!v)
		return err_set(e, ENOMEM, "check the rules of %s", l->name);
	for (size_t i = 0; i < n->rules_n; i++)
		v[i] = &n->rules[i];
	qsort(v, n->rules_n, sizeof(*v), ptr_cmp);
	for (size_t i = 1; i < n->rules_n; i++) {
		if (net_rule_cmp(v[i - 1], v[i]) != 0 || !v[i]->origin.line)
			continue;
		if (!worst || v[i] < worst) { /* the first that repeats one */
			worst = v[i];
			first = v[i - 1];
		}
	}
	if (!worst)
		return 0;
	net_rule_where(&where, worst);
	err_invalid(e, "%s is listed twice under %s (first on line %u)", buf_str(&where),
		net_effect_names[worst->effect], first->origin.line);
	return fail_at(l, &worst->origin, e);
}

/* ---- a rule that looks, beside one that does not ---- */

/* Does it judge requests, so that an uninspected connection would get past it? */
static bool judges(const struct net_rule *r)
{
	return r->effect == NET_DENY ? net_rule_partial(r) : net_mode_inspects(r->mode);
}

static bool opaque(const struct net_rule *r)
{
	return r->effect != NET_DENY && !net_mode_inspects(r->mode);
}

static int shadow_error(const struct policy_layer *l, const struct net_rule *o,
	const struct net_rule *j, struct err *e)
{
	cleanup_buf struct buf ow = BUF_INIT(256), jw = BUF_INIT(256), at = BUF_INIT(256);
	const struct net_rule *later = o > j ? o : j, *other = o > j ? j : o;

	net_rule_where(&ow, o);
	net_rule_where(&jw, j);
	place(&at, l, &other->origin);
	err_invalid(e,
		"%s %s is not inspected (mode %s), so %s %s would not hold; the other one is at "
		"%s: keep one, or give both a mode that inspects",
		net_effect_names[o->effect], buf_str(&ow), net_mode_names[o->mode],
		net_effect_names[j->effect], buf_str(&jw), buf_str(&at));
	return fail_at(l, &later->origin, e);
}

static int lint_shadow(
	const struct policy_layer *l, const struct net_rule *v, size_t n, struct err *e)
{
	cleanup_free uint32_t *tags = NULL; /* most pairs differ in these already */
	size_t first = 0;

	while (first < n && !opaque(&v[first]))
		first++;
	if (first == n)
		return 0;
	tags = malloc(n * sizeof(*tags));
	if (!tags)
		return err_set(e, ENOMEM, "check the network rules");
	for (size_t k = 0; k < n; k++)
		tags[k] = v[k].host ? net_tag(v[k].host) : NET_TAG_CIDR;
	for (size_t i = first; i < n; i++) {
		if (!opaque(&v[i]))
			continue;
		for (size_t k = 0; k < n; k++) {
			if (tags[i] != tags[k] && tags[i] != NET_TAG_ANY && tags[k] != NET_TAG_ANY)
				continue;
			if (judges(&v[k]) && net_rules_meet(&v[i], &v[k]))
				return shadow_error(l, &v[i], &v[k], e);
		}
	}
	return 0;
}

int net_lint_layer(const struct policy_layer *l, struct err *e)
{
	int r = lint_repeated(l, e);

	return r < 0 ? r : lint_shadow(l, l->net.rules, l->net.rules_n, e);
}

/* ---- secrets ---- */

static int lint_secret(const struct net_policy *n, const struct net_secret *s, struct err *e)
{
	bool carried = false;

	for (size_t i = 0; i < n->rules_n; i++) {
		const struct net_rule *r = &n->rules[i];
		cleanup_buf struct buf at = BUF_INIT(256);

		if (r->effect == NET_DENY || !r->host || !net_host_overlap(r->host, s->host) ||
			!net_ports_has(r, s->port))
			continue;
		carried = carried || net_mode_inspects(r->mode);
		if (net_mode_inspects(r->mode))
			continue;
		place(&at, NULL, &r->origin);
		err_invalid(e,
			"the secret %s cannot be put in at %s:%u: %s (%s) is not inspected; use "
			"mode http",
			s->name, s->host, s->port, r->name, buf_str(&at));
		return fail_at(NULL, &s->origin, e);
	}
	if (carried)
		return 0;
	err_invalid(e,
		"the secret %s is bound to %s:%u, which no inspected rule allows; add it to "
		"network.allow",
		s->name, s->host, s->port);
	return fail_at(NULL, &s->origin, e);
}

/* One variable cannot hold two placeholders. */
static int lint_variables(const struct net_policy *n, struct err *e)
{
	for (size_t i = 0; i < n->secrets_n; i++)
		for (size_t k = 0; k < i; k++)
			if (str_eq(n->secrets[i].env, n->secrets[k].env) &&
				!str_eq(n->secrets[i].name, n->secrets[k].name)) {
				err_invalid(e, "the secrets %s and %s are both in the variable %s",
					n->secrets[k].name, n->secrets[i].name, n->secrets[i].env);
				return fail_at(NULL, &n->secrets[i].origin, e);
			}
	return 0;
}

int net_lint(const struct net_policy *n, struct err *e)
{
	int64_t now = 0;
	int r = lint_shadow(NULL, n->rules, n->rules_n, e);

	for (size_t i = 0; r == 0 && i < n->rules_n; i++) {
		const struct net_rule *rule = &n->rules[i];
		cleanup_buf struct buf when = BUF_INIT(64);

		if (!rule->limits.expires)
			continue;
		now = now ? now : (int64_t)time(NULL);
		if (rule->limits.expires > now)
			continue;
		net_time_show(&when, rule->limits.expires);
		err_invalid(e, "%s expired at %s; take it out or give it a later time", rule->name,
			buf_str(&when));
		r = fail_at(NULL, &rule->origin, e);
	}
	for (size_t i = 0; r == 0 && i < n->secrets_n; i++)
		r = lint_secret(n, &n->secrets[i], e);
	return r < 0 ? r : lint_variables(n, e);
}
