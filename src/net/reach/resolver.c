/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking for addresses: see resolver.h.
 *
 * Order:   c-ares seeds its query ids when the channel is made, from a file: that is before
 *          confinement, so one channel serves for life. It takes other servers only while it is
 *          idle; when a generation brings some, new questions wait until the old ones are answered,
 *          RESOLVE_TIMEOUT_MS at most.
 * Memory:  a question lives until its asker has an answer (or has cancelled) and c-ares has called
 *          back for both families, whichever is last.
 */
#include "net/reach/resolver.h"

#include <ares.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/reach/addr.h"
#include "net/reach/hosts.h"

#define SECOND_MS 100 /* how long the other family's answer is waited for */
#define TRY_MS 1500   /* of one server */
#define TRIES 3
#define SERVERS_MAX_B 4096
#define CACHE_MAX 64
#define CACHE_MS 30000 /* at most, whatever the TTL */

struct sock { /* one of c-ares's */
	struct resolver *r;
	struct watch watch;
	int fd;
	struct sock *next;
};

struct cached {
	char host[NET_NAME_MAX + 1];
	struct resolve_answer answer;
	uint64_t until_ms;
};

struct resolver {
	struct loop *loop;
	ares_channel channel;
	struct sock *socks;
	struct timer timer;
	struct hosts *hosts;
	char *host_servers;    /* as the host's file had them */
	char *servers;         /* in use */
	char *wanted;          /* to be used as soon as the channel is idle */
	struct resolve *queue; /* questions that wait for that */
	size_t active;         /* of c-ares */
	struct cached *cache;  /* CACHE_MAX, made when first needed */
	size_t cache_at;
};

struct resolve {
	struct resolver *r;
	char host[NET_NAME_MAX + 1];
	resolve_done *done; /* NULL: nobody waits any more */
	void *arg;
	struct resolve_answer answer;
	struct timer timer;
	unsigned asked; /* families that c-ares still works on */
	int ttl_s;
	int status;           /* of the last family that failed */
	struct resolve *next; /* in the queue */
	bool queued;
};

/* ---- c-ares on the loop ---- */

static void rearm(struct resolver *r);

static void timed(void *arg)
{
	struct resolver *r = arg;

	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	rearm(r);
}

static void rearm(struct resolver *r)
{
	struct timeval tv;

	if (!ares_timeout(r->channel, NULL, &tv)) {
		loop_cancel(&r->timer);
		return;
	}
	loop_timer(r->loop, &r->timer, (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1,
		timed, r);
}

static void sock_ready(void *arg, uint32_t events)
{
	struct sock *s = arg;
	struct resolver *r = s->r;
	bool in = events & (EPOLLIN | EPOLLHUP | EPOLLERR), out = events & EPOLLOUT;
	int fd = s->fd;

	ares_process_fd(r->channel, in ? fd : ARES_SOCKET_BAD, out ? fd : ARES_SOCKET_BAD);
	rearm(r);
}

static void sock_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = arg;
	uint32_t events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);
	struct sock **at = &r->socks, *s;

	while (*at && (*at)->fd != fd)
		at = &(*at)->next;
	s = *at;
	if (!events) {
		if (!s)
			return;
		*at = s->next;
		loop_unwatch(&s->watch);
		loop_later(r->loop, free, s);
		return;
	}
	if (s) {
		loop_change(&s->watch, events);
		return;
	}
	s = calloc(1, sizeof(*s)); /* without it the question runs into its timeout */
	if (!s)
		return;
	*s = (struct sock){.r = r, .fd = fd, .next = r->socks};
	if (loop_watch(r->loop, &s->watch, fd, events, sock_ready, s) < 0)
		free(s);
	else
		r->socks = s;
}

/* ---- servers ---- */

static char *servers_of(const struct resolver *r, const struct net_policy *p)
{
	cleanup_buf struct buf b = BUF_INIT(SERVERS_MAX_B);

	for (size_t i = 0; i < p->dns_n; i++)
		buf_addf(&b, "%s%s", i ? "," : "", p->dns[i]);
	if (p->dns_n == 0)
		buf_adds(&b, r->host_servers);
	return buf_take(&b);
}

/* What c-ares read from the host's file, in its own notation. */
static char *servers_now(ares_channel ch)
{
	cleanup_buf struct buf b = BUF_INIT(SERVERS_MAX_B);
	struct ares_addr_port_node *list = NULL;

	if (ares_get_servers_ports(ch, &list) != ARES_SUCCESS)
		return NULL;
	for (struct ares_addr_port_node *s = list; s; s = s->next) {
		struct net_addr a = {.v6 = s->family == AF_INET6};

		memcpy(a.b, &s->addr, a.v6 ? 16 : 4);
		if (b.len)
			buf_addc(&b, ',');
		buf_adds(&b, a.v6 ? "[" : "");
		net_addr_show(&b, &a);
		buf_adds(&b, a.v6 ? "]" : "");
		if (s->udp_port)
			buf_addf(&b, ":%d", s->udp_port);
	}
	ares_free_data(list);
	return buf_take(&b);
}

static void use_wanted(void *arg);

static bool use_servers(struct resolver *r, char *servers)
{
	if (ares_set_servers_ports_csv(r->channel, servers) != ARES_SUCCESS) {
		free(servers);
		return false;
	}
	free(r->servers);
	r->servers = servers;
	return true;
}

void resolver_policy(struct resolver *r, const struct net_policy *p)
{
	char *servers = servers_of(r, p);

	free(r->wanted);
	r->wanted = NULL;
	if (!servers || (r->servers && str_eq(servers, r->servers))) {
		free(servers);
		return;
	}
	r->wanted = servers;
	if (r->active == 0)
		use_wanted(r);
}

struct resolver *resolver_new(struct loop *l, const struct net_policy *p, struct err *e)
{
	struct ares_options o = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TRY_MS,
		.tries = TRIES,
		.lookups = (char[]){"b"},
		.sock_state_cb = sock_state};
	struct resolver *r = calloc(1, sizeof(*r));
	char *servers;
	int s;

	if (!r) {
		err_set(e, ENOMEM, "make a resolver");
		return NULL;
	}
	r->loop = l;
	o.sock_state_cb_data = r;
	s = ares_init_options(&r->channel, &o,
		ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
			ARES_OPT_DOMAINS | ARES_OPT_SOCK_STATE_CB);
	if (s != ARES_SUCCESS) {
		err_invalid(e, "make a resolver: %s", ares_strerror(s));
		free(r);
		return NULL;
	}
	r->host_servers = servers_now(r->channel);
	r->hosts = hosts_load("/etc/hosts");
	servers = r->host_servers ? servers_of(r, p) : NULL;
	if (!servers || !r->hosts) {
		err_set(e, ENOMEM, "make a resolver");
		free(servers);
		resolver_free(r);
		return NULL;
	}
	if (p->dns_n && !use_servers(r, take_ptr(servers))) {
		err_invalid(e, "the policy's `dns` resolvers are not addresses");
		resolver_free(r);
		return NULL;
	}
	if (servers)
		r->servers = servers;
	return r;
}

static void resolve_drop(struct resolve *q);

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	while (r->queue)
		resolve_cancel(r->queue);
	ares_destroy(r->channel); /* calls back for everything outstanding */
	loop_cancel(&r->timer);
	while (r->socks) {
		struct sock *s = r->socks;

		r->socks = s->next;
		loop_unwatch(&s->watch);
		free(s);
	}
	hosts_free(r->hosts);
	free(r->host_servers);
	free(r->servers);
	free(r->wanted);
	free(r->cache);
	free(r);
}

/* ---- the cache: what DNS said, for as long as it said and CACHE_MS at most ---- */

static const struct resolve_answer *cache_find(const struct resolver *r, const char *host)
{
	for (size_t i = 0; r->cache && i < CACHE_MAX; i++)
		if (r->cache[i].until_ms > loop_now_ms(r->loop) && str_eq(r->cache[i].host, host))
			return &r->cache[i].answer;
	return NULL;
}

static void cache_add(struct resolver *r, const struct resolve *q)
{
	uint64_t ms = MIN_OF((uint64_t)q->ttl_s * 1000, (uint64_t)CACHE_MS);
	struct cached *c;

	if (!r->cache && !(r->cache = calloc(CACHE_MAX, sizeof(*r->cache))))
		return;
	c = &r->cache[r->cache_at++ % CACHE_MAX];
	*c = (struct cached){.answer = q->answer, .until_ms = loop_now_ms(r->loop) + ms};
	memcpy(c->host, q->host, sizeof(c->host));
}

/* ---- questions ---- */

static void resolve_drop(struct resolve *q)
{
	if (q->done || q->asked || q->queued)
		return;
	loop_cancel(&q->timer);
	loop_later(q->r->loop, free, q);
}

static void tell(struct resolve *q)
{
	resolve_done *done = q->done;
	struct err e = ERR_INIT;

	if (!done)
		return;
	q->done = NULL;
	loop_cancel(&q->timer);
	if (q->answer.n == 0 && q->asked)
		err_set(&e, ETIMEDOUT, "resolve %s", q->host);
	else if (q->answer.n == 0)
		err_not_found(&e, "resolve %s: %s", q->host, ares_strerror(q->status));
	done(q->arg, &q->answer, &e);
	resolve_drop(q);
}

static void resolve_timed(void *arg)
{
	struct resolve *q = arg;

	if (q->queued) { /* never asked: leave the queue */
		struct resolve **at = &q->r->queue;

		while (*at != q)
			at = &(*at)->next;
		*at = q->next;
		q->queued = false;
		q->status = ARES_ETIMEOUT;
	}
	tell(q);
}

static void add_nodes(struct resolve *q, const struct ares_addrinfo *info)
{
	for (const struct ares_addrinfo_node *n = info->nodes; n; n = n->ai_next) {
		struct sockaddr_storage ss = {0};

		if (q->answer.n == RESOLVE_ADDRS_MAX)
			return;
		memcpy(&ss, n->ai_addr, MIN_OF((size_t)n->ai_addrlen, sizeof(ss)));
		if (!addr_from_sockaddr(&q->answer.v[q->answer.n], NULL, &ss))
			continue;
		if (q->answer.n == 0 || n->ai_ttl < q->ttl_s)
			q->ttl_s = MAX_OF(n->ai_ttl, 0);
		q->answer.n++;
	}
}

static void answered(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct resolve *q = arg;
	struct resolver *r = q->r;

	q->asked--;
	r->active--;
	if (status == ARES_SUCCESS && info && q->done)
		add_nodes(q, info);
	else
		q->status = status;
	if (info)
		ares_freeaddrinfo(info);
	if (r->active == 0 && r->wanted && status != ARES_EDESTRUCTION)
		loop_later(r->loop, use_wanted, r);
	if (status == ARES_EDESTRUCTION) {
		q->done = NULL;
		resolve_drop(q);
		return;
	}
	if (!q->asked && q->answer.n && q->done)
		cache_add(r, q);
	/* Never from within resolve_start(): c-ares may know at once that it cannot. */
	if (q->done)
		loop_timer(r->loop, &q->timer,
			q->asked == 0 ? 0
			: q->answer.n ? SECOND_MS
				      : RESOLVE_TIMEOUT_MS,
			resolve_timed, q);
	resolve_drop(q);
}

static void ask(struct resolve *q)
{
	static const int families[] = {AF_INET6, AF_INET};

	q->asked = ARRAY_SIZE(families);
	q->r->active += ARRAY_SIZE(families);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		struct ares_addrinfo_hints h = {.ai_family = families[i],
			.ai_socktype = SOCK_STREAM,
			.ai_flags = ARES_AI_NOSORT};

		ares_getaddrinfo(q->r->channel, q->host, NULL, &h, answered, q);
	}
	rearm(q->r);
}

static void use_wanted(void *arg)
{
	struct resolver *r = arg;

	if (r->active || !r->wanted)
		return;
	use_servers(
		r, take_ptr(r->wanted)); /* refused: the old ones stay, as the policy was checked */
	if (r->cache)
		memset(r->cache, 0, CACHE_MAX * sizeof(*r->cache));
	while (r->queue) {
		struct resolve *q = r->queue;

		r->queue = q->next;
		q->queued = false;
		ask(q);
	}
}

/* Is the answer known without asking? */
static bool known(struct resolve *q, const struct net_policy *p)
{
	const struct resolve_answer *c;

	for (size_t i = 0; i < p->resolve_n; i++) {
		const struct net_resolve *f = &p->resolve[i];

		if (!str_eq(f->host, q->host))
			continue;
		q->answer.fixed = true;
		q->answer.n = MIN_OF(f->addrs_n, (size_t)RESOLVE_ADDRS_MAX);
		memcpy(q->answer.v, f->addrs, q->answer.n * sizeof(*f->addrs));
		return true;
	}
	q->answer.n = hosts_find(q->r->hosts, q->host, q->answer.v, RESOLVE_ADDRS_MAX);
	if (q->answer.n)
		return true;
	c = cache_find(q->r, q->host);
	if (c)
		q->answer = *c;
	return c != NULL;
}

struct resolve *resolve_start(struct resolver *r, const struct net_policy *p, const char *host,
	resolve_done *done, void *arg)
{
	struct resolve *q = calloc(1, sizeof(*q));
	bool have;

	if (!q)
		return NULL;
	*q = (struct resolve){.r = r, .done = done, .arg = arg, .status = ARES_ENOTFOUND};
	memcpy(q->host, host, MIN_OF(strlen(host), sizeof(q->host) - 1));
	have = known(q, p);
	if (loop_timer(r->loop, &q->timer, have ? 0 : RESOLVE_TIMEOUT_MS, resolve_timed, q) < 0) {
		free(q);
		return NULL;
	}
	if (have)
		return q;
	if (r->wanted) {
		q->queued = true;
		q->next = r->queue;
		r->queue = q;
	} else {
		ask(q);
	}
	return q;
}

void resolve_cancel(struct resolve *q)
{
	struct resolve **at = &q->r->queue;

	q->done = NULL;
	loop_cancel(&q->timer);
	if (q->queued) {
		while (*at != q)
			at = &(*at)->next;
		*at = q->next;
		q->queued = false;
	}
	resolve_drop(q);
}
