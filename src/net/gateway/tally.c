/* SPDX-License-Identifier: Apache-2.0 */
/* Sums: see tally.h. */
#include "net/gateway/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/gateway/netlog.h"

#define SLOTS (2 * NETLOG_DENIALS_MAX)
#define HOSTS_FIRST 8
#define OTHERS "(others)"
_Static_assert((SLOTS & (SLOTS - 1)) == 0, "slots are chosen by mask");

struct denied { /* text as it goes into the message: printable, cut to its size */
	char *host, *method, *path, *rule, *text, *fix;
	uint32_t port, status, mode;
	uint64_t id, count, told_ms;
};

struct used {
	char *host, *rule;
	uint32_t port, mode;
	uint64_t requests, connections, up_b, down_b;
};

/* Printable, and cut to n with its end. */
static void put(char *out, size_t n, const char *text)
{
	cleanup_buf struct buf b = BUF_INIT(8192);

	str_show(&b, text, MIN_OF(strlen(text), 2048u));
	snprintf(out, n, "%s", buf_str(&b));
}

static void fill(struct gateway_msg *m, const struct tally_denial *key, const struct net_verdict *v,
	uint32_t status)
{
	*m = (struct gateway_msg){.type = GATEWAY_DENIAL,
		.port = key->port,
		.mode = key->mode,
		.status = status,
		.count = 1};
	put(m->host, sizeof(m->host), key->host);
	put(m->method, sizeof(m->method), key->method);
	put(m->path, sizeof(m->path), key->path);
	put(m->rule, sizeof(m->rule), key->rule);
	put(m->text, sizeof(m->text), v->why);
	put(m->fix, sizeof(m->fix), v->fix);
}

static uint64_t mix(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return (h ^ 0xff) * 0x100000001b3u;
}

static struct denied **slot(struct tally *t, const struct gateway_msg *m)
{
	uint64_t h = mix(
		mix(mix(mix(0xcbf29ce484222325u ^ m->port, m->host), m->method), m->path), m->rule);
	size_t i = (size_t)(h ^ h >> 32) & (SLOTS - 1);

	for (; t->denials[i]; i = (i + 1) & (SLOTS - 1)) {
		const struct denied *d = t->denials[i];

		if (d->port == m->port && str_eq(d->host, m->host) &&
			str_eq(d->method, m->method) && str_eq(d->path, m->path) &&
			str_eq(d->rule, m->rule))
			break;
	}
	return &t->denials[i];
}

static void denied_free(struct denied *d)
{
	free(d->host);
	free(d->method);
	free(d->path);
	free(d->rule);
	free(d->text);
	free(d->fix);
	free(d);
}

static struct denied *denied_new(const struct gateway_msg *m, uint64_t id)
{
	struct denied *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	*d = (struct denied){.host = strdup(m->host),
		.method = strdup(m->method),
		.path = strdup(m->path),
		.rule = strdup(m->rule),
		.text = strdup(m->text),
		.fix = strdup(m->fix),
		.port = m->port,
		.status = m->status,
		.mode = m->mode,
		.id = id,
		.count = 1};
	if (d->host && d->method && d->path && d->rule && d->text && d->fix)
		return d;
	denied_free(d);
	return NULL;
}

static bool may_tell_again(struct tally *t, struct denied *d, uint64_t now_ms)
{
	if (now_ms - d->told_ms < TALLY_AGAIN_MS)
		return false;
	if (now_ms - t->second_ms >= 1000) {
		t->second_ms = now_ms;
		t->again_n = 0;
	}
	if (t->again_n >= TALLY_AGAIN_MAX)
		return false;
	t->again_n++;
	d->told_ms = now_ms;
	return true;
}

enum tally_news tally_denied(struct tally *t, const struct tally_denial *key,
	const struct net_verdict *v, uint32_t status, uint64_t now_ms, struct gateway_msg *ret)
{
	struct denied **at = NULL;

	fill(ret, key, v, status);
	if (!t->denials)
		t->denials = calloc(SLOTS, sizeof(*t->denials));
	if (t->denials)
		at = slot(t, ret);
	if (at && *at) {
		ret->count = ++(*at)->count;
		ret->id = (*at)->id;
		return may_tell_again(t, *at, now_ms) ? TALLY_AGAIN : TALLY_KNOWN;
	}
	if (at && t->denials_n < NETLOG_DENIALS_MAX)
		*at = denied_new(ret, t->denials_n + 1);
	if (!at || !*at) {
		t->untold++;
		return TALLY_KNOWN;
	}
	(*at)->told_ms = now_ms;
	ret->id = ++t->denials_n;
	return TALLY_FIRST;
}

static bool is_use(const struct used *u, const struct tally_use *k)
{
	return u->port == k->port && u->mode == k->mode && str_eq(u->host, k->host) &&
	       str_eq(u->rule, k->rule);
}

static struct used *host_new(struct tally *t, const struct tally_use *k)
{
	if (t->hosts_n == t->hosts_cap) {
		size_t cap = t->hosts_cap ? 2 * t->hosts_cap : HOSTS_FIRST;
		struct used *v = realloc(t->hosts, cap * sizeof(*v));

		if (!v)
			return NULL;
		t->hosts = v;
		t->hosts_cap = cap;
	}
	t->hosts[t->hosts_n] = (struct used){
		.host = strdup(k->host), .rule = strdup(k->rule), .port = k->port, .mode = k->mode};
	if (t->hosts[t->hosts_n].host && t->hosts[t->hosts_n].rule)
		return &t->hosts[t->hosts_n++];
	free(t->hosts[t->hosts_n].host);
	free(t->hosts[t->hosts_n].rule);
	return NULL;
}

static struct used *host_find(struct tally *t, const struct tally_use *k)
{
	const struct tally_use others = {.host = OTHERS, .rule = ""};

	if (t->hosts_last < t->hosts_n && is_use(&t->hosts[t->hosts_last], k))
		return &t->hosts[t->hosts_last];
	for (size_t i = 0; i < t->hosts_n; i++)
		if (is_use(&t->hosts[i], k)) {
			t->hosts_last = i;
			return &t->hosts[i];
		}
	if (t->hosts_n + 1 < NETLOG_HOSTS_MAX)
		return host_new(t, k);
	if (str_eq(k->host, OTHERS)) /* the last place is theirs */
		return host_new(t, k);
	return host_find(t, &others);
}

void tally_host(struct tally *t, const struct tally_use *u)
{
	struct used *h = host_find(t, u);

	t->connections += u->connections;
	t->up_b += u->up_b;
	t->down_b += u->down_b;
	if (!h)
		return;
	h->requests += u->requests;
	h->connections += u->connections;
	h->up_b += u->up_b;
	h->down_b += u->down_b;
}

static bool tell_denied(
	const struct denied *d, bool (*tell)(void *arg, struct gateway_msg *m), void *arg)
{
	struct gateway_msg m = {.type = GATEWAY_DENIAL,
		.id = d->id,
		.port = d->port,
		.mode = d->mode,
		.status = d->status,
		.count = d->count};

	snprintf(m.host, sizeof(m.host), "%s", d->host);
	snprintf(m.method, sizeof(m.method), "%s", d->method);
	snprintf(m.path, sizeof(m.path), "%s", d->path);
	snprintf(m.rule, sizeof(m.rule), "%s", d->rule);
	snprintf(m.text, sizeof(m.text), "%s", d->text);
	snprintf(m.fix, sizeof(m.fix), "%s", d->fix);
	return tell(arg, &m);
}

static void forget_sums(struct tally *t)
{
	for (size_t i = 0; i < t->hosts_n; i++) {
		free(t->hosts[i].host);
		free(t->hosts[i].rule);
	}
	t->hosts_n = t->hosts_last = 0;
	t->untold = t->connections = t->up_b = t->down_b = 0;
}

void tally_tell(struct tally *t, struct gateway_msg *last,
	bool (*tell)(void *arg, struct gateway_msg *m), void *arg)
{
	struct gateway_msg m;

	for (size_t i = 0; t->denials && i < SLOTS; i++)
		if (t->denials[i] && t->denials[i]->count > 1 &&
			!tell_denied(t->denials[i], tell, arg))
			t->untold += t->denials[i]->count - 1;
	for (size_t i = 0; i < t->hosts_n; i++) {
		const struct used *u = &t->hosts[i];

		m = (struct gateway_msg){.type = GATEWAY_HOST,
			.mode = u->mode,
			.port = u->port,
			.count = u->requests,
			.connections = u->connections,
			.up_b = u->up_b,
			.down_b = u->down_b};
		put(m.host, sizeof(m.host), u->host);
		put(m.rule, sizeof(m.rule), u->rule);
		tell(arg, &m);
	}
	last->count = t->untold;
	last->connections = t->connections;
	last->up_b = t->up_b;
	last->down_b = t->down_b;
	tell(arg, last);
	forget_sums(t);
}

void tally_done(struct tally *t)
{
	for (size_t i = 0; t->denials && i < SLOTS; i++)
		if (t->denials[i])
			denied_free(t->denials[i]);
	free(t->denials);
	for (size_t i = 0; i < t->hosts_n; i++) {
		free(t->hosts[i].host);
		free(t->hosts[i].rule);
	}
	free(t->hosts);
	*t = (struct tally){0};
}
