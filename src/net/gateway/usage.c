/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of rules: see usage.h. A table by name that only grows; a full one refuses. */
#include "net/gateway/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"

#define TOKEN 1000000u /* rate_milli per 1000 s is rate_milli millionths of a token per ms */
#define BURST_MS 60000u
#define BURST_MIN 10u

struct counter {
	char *name;
	uint64_t tokens, filled_ms; /* filled_ms 0: not begun */
	uint64_t uses, up_b, down_b;
};

struct usage {
	struct counter *v; /* open addressing, cap is a power of two */
	size_t n, cap;
};

struct usage *usage_new(void)
{
	return calloc(1, sizeof(struct usage));
}

void usage_free(struct usage *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->cap; i++)
		free(u->v[i].name);
	free(u->v);
	free(u);
}

static size_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return (size_t)(h ^ (h >> 32));
}

static struct counter *slot(struct counter *v, size_t cap, const char *name)
{
	size_t i = hash(name) & (cap - 1);

	while (v[i].name && !str_eq(v[i].name, name))
		i = (i + 1) & (cap - 1);
	return &v[i];
}

static bool grow(struct usage *u)
{
	size_t cap = u->cap ? u->cap * 2 : 32;
	struct counter *v = calloc(cap, sizeof(*v));

	if (!v)
		return false;
	for (size_t i = 0; i < u->cap; i++)
		if (u->v[i].name)
			*slot(v, cap, u->v[i].name) = u->v[i];
	free(u->v);
	u->v = v;
	u->cap = cap;
	return true;
}

static struct counter *find(struct usage *u, const char *name)
{
	struct counter *c;

	if (u->n * 2 >= u->cap && (u->n >= USAGE_RULES_MAX || !grow(u)))
		return u->cap && (c = slot(u->v, u->cap, name))->name ? c : NULL;
	c = slot(u->v, u->cap, name);
	if (!c->name) {
		c->name = strdup(name);
		if (!c->name)
			return NULL;
		u->n++;
	}
	return c;
}

static bool refuse(
	struct net_verdict *ret, const struct net_rule *r, const char *why, const char *fix)
{
	ret->effect = NET_DENY;
	ret->rule = r;
	snprintf(ret->why, sizeof(ret->why), "%s", why);
	snprintf(ret->fix, sizeof(ret->fix), "%s", fix);
	return false;
}

static uint64_t burst(uint32_t rate_milli)
{
	uint64_t minute = (uint64_t)rate_milli * BURST_MS / TOKEN;

	return MAX_OF(MIN_OF(MAX_OF(minute, BURST_MIN), rate_milli), 1u) * TOKEN;
}

static bool take_token(struct counter *c, uint32_t rate_milli, uint64_t now_ms)
{
	uint64_t full = burst(rate_milli), passed;

	if (c->filled_ms == 0) {
		c->tokens = full;
	} else if (now_ms > c->filled_ms) {
		passed = MIN_OF(now_ms - c->filled_ms, full / rate_milli + 1);
		c->tokens = MIN_OF(c->tokens + passed * rate_milli, full);
	}
	c->filled_ms = MAX_OF(now_ms, 1u);
	if (c->tokens < TOKEN)
		return false;
	c->tokens -= TOKEN;
	return true;
}

bool usage_take_at(struct usage *u, const struct net_rule *r, uint64_t now_ms, int64_t unix_s,
	struct net_verdict *ret)
{
	const struct net_limits *l = &r->limits;
	struct counter *c;

	if (l->expires && unix_s >= l->expires)
		return refuse(ret, r, "the rule has expired", "a later `expires` on the rule");
	if (!l->uses && !l->rate_milli && !l->up_b && !l->down_b)
		return true;
	c = find(u, r->name);
	if (!c)
		return refuse(ret, r, "too many rules have limits", "");
	if (l->uses && c->uses >= l->uses)
		return refuse(ret, r, "the rule was used as often as it may be",
			"a larger `uses` on the rule");
	if ((l->up_b && c->up_b >= l->up_b) || (l->down_b && c->down_b >= l->down_b))
		return refuse(ret, r, "the rule's limit of bytes is used up",
			"a larger limit of bytes on the rule");
	if (l->rate_milli && !take_token(c, l->rate_milli, now_ms))
		return refuse(ret, r, "this comes more often than the rule allows",
			"waiting, or a higher `rate` on the rule");
	c->uses++;
	return true;
}

bool usage_bytes_at(struct usage *u, const struct net_rule *r, uint64_t up_b, uint64_t down_b)
{
	const struct net_limits *l = &r->limits;
	struct counter *c;

	if (!l->up_b && !l->down_b)
		return true;
	c = find(u, r->name);
	if (!c)
		return false;
	c->up_b += up_b;
	c->down_b += down_b;
	return (!l->up_b || c->up_b <= l->up_b) && (!l->down_b || c->down_b <= l->down_b);
}

bool usage_take(struct gateway *g, const struct net_rule *r, struct net_verdict *ret)
{
	return !r || usage_take_at(g->usage, r, loop_now_ms(g->loop), (int64_t)time(NULL), ret);
}

bool usage_bytes(struct gateway *g, const struct net_rule *r, uint64_t up_b, uint64_t down_b)
{
	return !r || usage_bytes_at(g->usage, r, up_b, down_b);
}

void usage_pack(const struct usage *u, struct buf *out)
{
	pack_u32(out, (uint32_t)u->n);
	for (size_t i = 0; i < u->cap; i++) {
		const struct counter *c = &u->v[i];

		if (!c->name)
			continue;
		pack_str(out, c->name);
		pack_u64(out, c->tokens);
		pack_u64(out, c->filled_ms);
		pack_u64(out, c->uses);
		pack_u64(out, c->up_b);
		pack_u64(out, c->down_b);
	}
}

bool usage_unpack(struct usage *u, struct unpack *from)
{
	uint32_t n = unpack_u32(from);

	if (n > USAGE_RULES_MAX)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const char *name = unpack_str(from, USAGE_NAME_MAX);
		size_t before = u->n;
		struct counter *c = *name ? find(u, name) : NULL;

		if (!c || u->n == before)
			return false;
		c->tokens = unpack_u64(from);
		c->filled_ms = unpack_u64(from);
		c->uses = unpack_u64(from);
		c->up_b = unpack_u64(from);
		c->down_b = unpack_u64(from);
	}
	return !from->bad;
}
