/* SPDX-License-Identifier: Apache-2.0 */
/* What the network section holds besides rules and secrets: addresses, ports, resolvers, trust. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/net/net_impl.h"

#define PROXY_MAX 1024u
#define ASK_TIMEOUT_MAX_MS 86400000u

static int keep(struct policy_layer *l, const char **ret, const char *text, struct err *e)
{
	*ret = arena_dup(&l->arena, text);
	return *ret ? 0 : err_set(e, ENOMEM, "keep a network setting");
}

/* ---- fixed addresses ---- */

static int resolve_room(struct layer_net *n, struct err *e)
{
	size_t cap = n->resolve_cap ? n->resolve_cap * 2 : 8;
	struct net_resolve *v;
	struct layer_pos *at;

	if (n->resolve_n >= NET_RESOLVE_MAX)
		return err_invalid(e, "more than %u names with fixed addresses", NET_RESOLVE_MAX);
	if (n->resolve_n < n->resolve_cap)
		return 0;
	v = realloc(n->resolve, cap * sizeof(*v));
	if (v)
		n->resolve = v;
	at = realloc(n->resolve_at, cap * sizeof(*at));
	if (at)
		n->resolve_at = at;
	if (!v || !at)
		return err_set(e, ENOMEM, "add a name");
	n->resolve_cap = cap;
	return 0;
}

/* The entry of a name, made when it is not there. */
static int resolve_entry(struct policy_layer *l, struct net_resolve **ret, const char *name,
	bool more, struct layer_pos at, struct err *e)
{
	struct layer_net *n = &l->net;
	const char *host = NULL;
	int r = net_value_host(&l->arena, &host, name, false, e);

	if (r == 0 && host[0] == '*')
		return value_bad(e, name, "is a pattern; a fixed address needs one name");
	if (r < 0)
		return r;
	for (size_t i = 0; i < n->resolve_n; i++) {
		if (!str_eq(n->resolve[i].host, host))
			continue;
		if (!more && at.line)
			return err_invalid(e, "%s is listed twice (first on line %u)", host,
				n->resolve_at[i].line);
		*ret = &n->resolve[i];
		return 0;
	}
	r = resolve_room(n, e);
	if (r < 0)
		return r;
	n->resolve_at[n->resolve_n] = at;
	*ret = &n->resolve[n->resolve_n++];
	**ret = (struct net_resolve){.host = host};
	return 0;
}

static int resolve_add(struct policy_layer *l, const char *name, const char *addr, bool more,
	struct layer_pos at, struct err *e)
{
	struct net_resolve *entry = NULL;
	struct net_cidr one = {0};
	struct net_addr *v;
	const char *why;

	if (!net_addr_parse(&one.addr, addr, strlen(addr)))
		return value_bad(e, addr, "is not an address");
	one.bits = one.addr.v6 ? 128 : 32;
	why = net_cidr_forbidden(&one);
	if (why)
		return err_invalid(e, "%s cannot be granted: it %s", addr, why);
	if (resolve_entry(l, &entry, name, more, at, e) < 0)
		return -e->errnum;
	if (entry->addrs_n >= NET_ADDRS_MAX)
		return err_invalid(e, "more than %u addresses for one name", NET_ADDRS_MAX);
	v = arena_alloc(&l->arena, (entry->addrs_n + 1) * sizeof(*v));
	if (!v)
		return err_set(e, ENOMEM, "add a name");
	if (entry->addrs_n)
		memcpy(v, entry->addrs, entry->addrs_n * sizeof(*v));
	v[entry->addrs_n++] = one.addr;
	entry->addrs = v;
	return 0;
}

int net_resolve_add(struct policy_layer *l, const char *name, const char *addr, bool more,
	struct layer_pos at, struct err *e)
{
	return resolve_add(l, name, addr, more, at, e) < 0 ? layer_err(l, at, e) : 0;
}

static int set_resolve(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	const char *eq = strchr(text, '=');
	char name[NET_NAME_MAX + 4];

	if (!eq || eq == text || (size_t)(eq - text) >= sizeof(name))
		return value_bad(e, text, "is not NAME=ADDRESS");
	memcpy(name, text, (size_t)(eq - text));
	name[eq - text] = '\0';
	return resolve_add(l, name, eq + 1, true, at, e);
}

/* ---- ports ---- */

static int set_forward(struct policy_layer *l, struct layer_list *list, bool pair, const char *text,
	struct layer_pos at, struct err *e)
{
	const char *colon = strchr(text, ':');
	char first[8], canonical[16];
	uint16_t host = 0, inside = 0;
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	int r;

	if ((colon && !pair) || n >= sizeof(first))
		return value_bad(
			e, text, pair ? "is not HOSTPORT:PORT, such as 8080:80" : "is not a port");
	memcpy(first, text, n);
	first[n] = '\0';
	r = net_value_port(&host, first, e);
	inside = host;
	if (r == 0 && colon)
		r = net_value_port(&inside, colon + 1, e);
	if (r < 0)
		return r;
	if (list->n >= NET_FORWARDS_MAX)
		return err_invalid(e, "more than %u ports", NET_FORWARDS_MAX);
	for (size_t i = 0; pair && i < list->n; i++) {
		struct net_forward f = net_forward_of(list->v[i].name);

		if (f.host == host && f.inside != inside)
			return err_invalid(e, "port %u is published twice", host);
	}
	if (pair)
		snprintf(canonical, sizeof(canonical), "%u:%u", host, inside);
	else
		snprintf(canonical, sizeof(canonical), "%u", host);
	return layer_list_add(l, list, canonical, at, e);
}

struct net_forward net_forward_of(const char *text)
{
	unsigned long host = strtoul(text, NULL, 10);
	const char *colon = strchr(text, ':');
	unsigned long inside = colon ? strtoul(colon + 1, NULL, 10) : 0;

	return (struct net_forward){(uint16_t)host, (uint16_t)inside};
}

/* ---- the way out ---- */

static int set_dns(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	static const char want[] =
		"is not a resolver; write 203.0.113.53, 203.0.113.53:5353 or [2001:db8::53]:53";
	cleanup_buf struct buf b = BUF_INIT(80);
	const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
	const char *port = end ? (end[1] == ':' ? end + 2 : NULL) : NULL;
	struct net_addr a;
	uint16_t number = 53;

	if (text[0] == '[') {
		if (!end || (end[1] && end[1] != ':') ||
			!net_addr_parse(&a, text + 1, (size_t)(end - text) - 1) || !a.v6)
			return value_bad(e, text, want);
	} else if (!net_addr_parse(&a, text, strlen(text))) {
		end = strchr(text, ':');
		if (!end || !net_addr_parse(&a, text, (size_t)(end - text)))
			return value_bad(e, text, want);
		port = end + 1;
	}
	if (port && net_value_port(&number, port, e) < 0)
		return -e->errnum;
	if (a.v6 && number != 53)
		buf_addc(&b, '[');
	net_addr_show(&b, &a);
	if (number != 53)
		buf_addf(&b, "%s:%u", a.v6 ? "]" : "", number);
	return layer_list_add(l, &l->net.dns, buf_str(&b), at, e);
}

static int set_proxy(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	static const char want[] =
		"is not a proxy; write http://host:port or http://user:password@host:port";
	char host[NET_NAME_MAX + 1], name[NET_NAME_MAX + 1];
	struct net_addr a;
	const char *rest, *port, *sep;
	uint16_t number;
	size_t n;

	/* The text may hold a password, so it is not repeated in an error. */
	if (!str_starts(text, "http://") || strlen(text) > PROXY_MAX)
		return err_invalid(e, "network.proxy %s", want);
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
			return err_invalid(e, "network.proxy %s", want);
	rest = text + strlen("http://");
	sep = strrchr(rest, '@');
	rest = sep ? sep + 1 : rest;
	port = strrchr(rest, ':');
	n = port ? (size_t)(port - rest) : 0;
	if (n == 0 || n >= sizeof(host) || net_value_port(&number, port + 1, e) < 0)
		return err_invalid(e, "network.proxy %s", want);
	memcpy(host, rest, n);
	host[n] = '\0';
	if (!net_name(name, host, n) &&
		!(host[0] == '[' ? net_addr_text(&a, host) : net_addr_parse(&a, host, n) && !a.v6))
		return err_invalid(e, "network.proxy %s", want);
	l->net.proxy_at = at;
	return keep(l, &l->net.proxy, text, e);
}

static int set_trust(struct policy_layer *l, const char *text, const struct policy_context *ctx,
	struct layer_pos at, struct err *e)
{
	cleanup_free char *path = NULL;
	int r;

	if (text[0] != '/' && !(ctx && str_starts(text, "~/")))
		return value_bad(e, text, "is not a file of authorities; write its absolute path");
	if (policy_has_glob(text))
		return value_bad(e, text, "holds a wildcard; name each file");
	r = ctx ? policy_path_expand(&path, text, ctx, e) : policy_path_normalise(&path, text, e);
	return r < 0 ? r : layer_list_add(l, &l->net.trust, path, at, e);
}

/* ---- words ---- */

static int set_default(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	static const char *const words[] = {"deny", "ask"};

	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		if (str_eq(text, words[i])) {
			l->net.ask_default = (struct layer_word){.set = true, .v = i, .at = at};
			return 0;
		}
	}
	if (str_eq(text, "allow"))
		return err_invalid(e, "network.default is deny or ask; hosts are allowed by name");
	return layer_unknown_word(e, "default", text, words, ARRAY_SIZE(words));
}

static int set_ask_timeout(
	struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	uint64_t v;

	if (!str_duration(text, &v) || v < 1000 || v > ASK_TIMEOUT_MAX_MS)
		return value_bad(e, text, "is not a time between 1s and 1d; write 30s or 5m");
	l->net.ask_timeout = (struct layer_limit){.set = true, .v = v, .at = at};
	return 0;
}

static int set_record(struct policy_layer *l, const char *text, struct layer_pos at, struct err *e)
{
	bool v;
	int r = net_value_bool(&v, text, e);

	if (r == 0)
		l->net.record_query = (struct layer_word){.set = true, .v = v, .at = at};
	return r;
}

int net_set(struct policy_layer *l, const char *key, const char *value,
	const struct policy_context *ctx, struct layer_pos at, struct err *e)
{
	static const char *const keys[] = {"allow", "deny", "ask", "use", "default", "ask-timeout",
		"record-query", "publish", "host-ports", "resolve", "dns", "proxy", "trust",
		"secret"};

	if (str_eq(key, "default"))
		return set_default(l, value, at, e);
	if (str_eq(key, "ask-timeout"))
		return set_ask_timeout(l, value, at, e);
	if (str_eq(key, "record-query"))
		return set_record(l, value, at, e);
	if (str_eq(key, "publish"))
		return set_forward(l, &l->net.publish, true, value, at, e);
	if (str_eq(key, "host-ports"))
		return set_forward(l, &l->net.host_ports, false, value, at, e);
	if (str_eq(key, "resolve"))
		return set_resolve(l, value, at, e);
	if (str_eq(key, "dns"))
		return set_dns(l, value, at, e);
	if (str_eq(key, "proxy"))
		return set_proxy(l, value, at, e);
	if (str_eq(key, "trust"))
		return set_trust(l, value, ctx, at, e);
	if (str_eq(key, "secret"))
		return secret_text(l, value, at, e);
	return layer_unknown_word(e, "key of network", key, keys, ARRAY_SIZE(keys));
}
