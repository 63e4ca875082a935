/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of network rules: from a layer, which goes, to a policy, which stays; and the index over
 * them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

/* ---- memory ---- */

void layer_net_done(struct layer_net *n)
{
	free(n->rules);
	free(n->ceilings);
	free(n->secrets);
	free(n->resolve);
	free(n->resolve_at);
	free(n->publish.v);
	free(n->host_ports.v);
	free(n->dns.v);
	free(n->trust.v);
	free(n->use.v);
}

bool net_copy_text(struct arena *a, const char **ret, const char *s)
{
	*ret = s ? arena_dup(a, s) : NULL;
	return *ret || !s;
}

static bool net_copy_texts(struct arena *a, const char *const **ret, const char *const *v, size_t n)
{
	const char **copy = n ? arena_alloc(a, n * sizeof(*copy)) : NULL;

	*ret = copy;
	for (size_t i = 0; copy && i < n; i++)
		if (!net_copy_text(a, &copy[i], v[i]))
			return false;
	return copy || !n;
}

bool net_copy_rule(struct arena *a, struct net_rule *to, const struct net_rule *from)
{
	struct net_query *q = NULL;

	*to = *from;
	if (from->query_n && !(q = arena_alloc(a, from->query_n * sizeof(*q))))
		return false;
	for (size_t i = 0; i < from->query_n; i++)
		if (!net_copy_text(a, &q[i].name, from->query[i].name) ||
			!net_copy_text(a, &q[i].pattern, from->query[i].pattern))
			return false;
	to->query = q;
	return net_copy_text(a, &to->name, from->name) && net_copy_text(a, &to->host, from->host) &&
	       net_copy_text(a, &to->reason, from->reason) &&
	       net_copy_texts(a, &to->methods, from->methods, from->methods_n) &&
	       net_copy_texts(a, &to->paths, from->paths, from->paths_n) &&
	       net_copy_texts(a, &to->repos, from->repos, from->repos_n) &&
	       net_copy_texts(a, &to->refs, from->refs, from->refs_n);
}

bool net_copy_secret(struct arena *a, struct net_secret *to, const struct net_secret *from)
{
	*to = *from;
	return net_copy_text(a, &to->name, from->name) && net_copy_text(a, &to->env, from->env) &&
	       net_copy_text(a, &to->host, from->host) &&
	       net_copy_text(a, &to->field, from->field) &&
	       net_copy_texts(a, &to->paths, from->paths, from->paths_n) &&
	       net_copy_texts(a, &to->methods, from->methods, from->methods_n);
}

/* ---- looking up ---- */

/* Of the last two labels, which are never a wildcard where it is a grant. */
uint32_t net_tag(const char *host)
{
	const char *from = host, *dot = NULL, *before = NULL;
	uint32_t h = 2166136261u;

	for (const char *p = host; *p; p++) {
		if (*p != '.')
			continue;
		before = dot;
		dot = p;
	}
	if (!dot)
		return NET_TAG_ANY;
	from = before ? before + 1 : host;
	if (*from == '*')
		return NET_TAG_ANY;
	for (; *from; from++)
		h = (h ^ (uint8_t)*from) * 16777619u;
	return h <= NET_TAG_CIDR ? h + 2 : h;
}

int net_tags(struct net_policy *n, struct arena *a)
{
	uint32_t *v;

	if (n->rules_n == 0)
		return 0;
	v = arena_alloc(a, n->rules_n * sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n->rules_n; i++)
		v[i] = n->rules[i].host ? net_tag(n->rules[i].host) : NET_TAG_CIDR;
	n->tags = v;
	return 0;
}
