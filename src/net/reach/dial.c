/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialler: see dial.h.
 *
 * Order:   addresses (fixed, resolved or literal) -> vetted, all of them, now -> tried in turn,
 *          IPv6 and IPv4 alternating, the next one STAGGER_MS after the last or as soon as that
 *          fails -> the first that connects wins. With an upstream proxy the proxy is what is
 *          dialled, and CONNECT follows.
 * Trust:   the one exception to the floor is "host.croft.internal" with a port of the policy's
 *          host-ports: 127.0.0.1. The proxy's own address is the policy's and is not vetted, but
 *          destinations that are known by address are, whoever dials them. Names are the proxy's to
 *          resolve, so those that are known to mean a machine's inside are refused.
 * Failure: ERR_REFUSED when the floor forbids, otherwise what the network said.
 */
#include "net/reach/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/reach/addr.h"
#include "net/gateway/gateway.h"
#include "net/io/peek.h"
#include "net/reach/proxy.h"
#include "net/reach/resolver.h"

#define STAGGER_MS 250
#define CONNECT_TIMEOUT_MS 10000
#define HOST_AGE_MS 1000
#define KEEPALIVE_S 60
#define HOST_NAME "host.croft.internal"

struct attempt {
	struct dial *d;
	int fd;
	struct watch watch;
};

struct dial {
	struct gateway *g;
	dial_done *done; /* NULL: cancelled, or over */
	void *arg;
	char host[NET_NAME_MAX + 1]; /* "" for a literal */
	char what[NET_NAME_MAX + 1]; /* for messages: what is connected to */
	struct net_addr literal;
	uint16_t port, connect_port;
	bool private_ok;
	bool vetted; /* the addresses are the policy's own: host-ports, proxy */
	struct resolve *resolve;
	struct timer timer, stagger;
	struct resolve_answer addrs;
	size_t next;
	struct attempt attempts[RESOLVE_ADDRS_MAX];
	size_t open;
	struct err last;
	struct proxy *proxy; /* NULL: direct */
	struct buf ask;      /* CONNECT, as far as it is not sent */
	size_t asked;
};

/* ---- the end ---- */

static void dial_free(void *arg)
{
	struct dial *d = arg;

	proxy_free(d->proxy);
	buf_done(&d->ask);
	free(d);
}

static void attempt_close(struct attempt *a)
{
	if (a->fd < 0)
		return;
	loop_unwatch(&a->watch);
	close_fd(&a->fd);
	a->d->open--;
}

static void dial_over(struct dial *d)
{
	d->done = NULL;
	if (d->resolve)
		resolve_cancel(d->resolve);
	d->resolve = NULL;
	loop_cancel(&d->timer);
	loop_cancel(&d->stagger);
	for (size_t i = 0; i < d->next; i++)
		attempt_close(&d->attempts[i]);
	loop_later(d->g->loop, dial_free, d);
}

void dial_cancel(struct dial *d)
{
	if (d->done)
		dial_over(d);
}

static void dial_tell(struct dial *d, int fd, const struct err *e)
{
	dial_done *done = d->done;
	struct err copy = *e;

	dial_over(d);
	done(d->arg, fd, &copy);
}

static void fail(struct dial *d)
{
	dial_tell(d, -1, &d->last);
}

static void fail_timed(void *arg)
{
	struct dial *d = arg;

	err_set(&d->last, ETIMEDOUT, "connect to %s", d->what);
	fail(d);
}

/* ---- through the proxy ---- */

static void connected(struct attempt *a)
{
	int fd = a->fd;

	loop_unwatch(&a->watch);
	a->fd = -1;
	a->d->open--;
	if (a->d->proxy)
		peek_wait(fd, 0);
	dial_tell(a->d, fd, &ERR_INIT);
}

static void proxy_answer(struct attempt *a)
{
	char head[PEEK_HEAD_MAX_B];
	struct dial *d = a->d;
	ssize_t n = peek(a->fd, head, sizeof(head)), len;
	int status;

	if (n == -EAGAIN)
		return;
	len = n > 0 ? peek_head_len(head, (size_t)n) : -1;
	if (len == 0 && n < (ssize_t)sizeof(head) && n >= 0) {
		peek_wait(a->fd, (size_t)n);
		return;
	}
	status = len > 0 ? proxy_status(head, (size_t)len) : -1;
	if (status >= 200 && status < 300 && peek_take(a->fd, (size_t)len) == 0) {
		connected(a);
		return;
	}
	if (status > 0)
		err_refuse(&d->last, "the upstream proxy answered %d", status);
	else
		err_invalid(&d->last, "the upstream proxy's answer is not one of HTTP");
	fail(d);
}

static void proxy_ready(void *arg, uint32_t events)
{
	struct attempt *a = arg;
	struct dial *d = a->d;

	while (d->asked < d->ask.len) {
		ssize_t n =
			send(a->fd, d->ask.data + d->asked, d->ask.len - d->asked, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			err_set(&d->last, errno, "ask the upstream proxy");
			fail(d);
			return;
		}
		d->asked += (size_t)n;
	}
	loop_change(&a->watch, EPOLLIN | EPOLLRDHUP);
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		char c;

		/* It has finished: either the head is whole now, or it never will be. */
		if (peek(a->fd, &c, 1) <= 0) {
			err_invalid(&d->last, "the upstream proxy closed the connection");
			fail(d);
			return;
		}
	}
	if (events & (EPOLLIN | EPOLLRDHUP))
		proxy_answer(a);
}

static void proxy_ask(struct attempt *a)
{
	struct dial *d = a->d;

	for (size_t i = 0; i < d->next; i++)
		if (&d->attempts[i] != a)
			attempt_close(&d->attempts[i]);
	loop_cancel(&d->stagger);
	d->ask = BUF_INIT(PEEK_HEAD_MAX_B);
	proxy_request(d->proxy, d->host[0] ? d->host : NULL, &d->literal, d->port, &d->ask);
	if (d->ask.failed) {
		err_set(&d->last, ENOMEM, "ask the upstream proxy");
		fail(d);
		return;
	}
	a->watch.ready = proxy_ready;
	loop_change(&a->watch, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
	proxy_ready(a, EPOLLOUT);
}

/* ---- connecting ---- */

static void try_next(void *arg);

static void attempt_ready(void *arg, uint32_t events)
{
	struct attempt *a = arg;
	struct dial *d = a->d;
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == 0 && !(events & EPOLLOUT))
		return;
	if (error == 0 && d->proxy) {
		proxy_ask(a);
		return;
	}
	if (error == 0) {
		connected(a);
		return;
	}
	err_set(&d->last, error, "connect to %s", d->what);
	attempt_close(a);
	try_next(d);
}

/* false: this address cannot be tried. */
static bool attempt_start(struct attempt *a, const struct net_addr *to, uint16_t port)
{
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(to, port, &ss);
	int one = 1, idle = KEEPALIVE_S;

	a->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->fd < 0)
		return false;
	a->d->open++;
	setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* A peer that vanished must not hold a connection, and its flow, for ever. */
	setsockopt(a->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(a->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	if (connect(a->fd, (struct sockaddr *)&ss, len) < 0 && errno != EINPROGRESS)
		return false;
	return loop_watch(a->d->g->loop, &a->watch, a->fd, EPOLLOUT, attempt_ready, a) == 0;
}

static void try_next(void *arg)
{
	struct dial *d = arg;

	loop_cancel(&d->stagger);
	while (d->next < d->addrs.n) {
		struct attempt *a = &d->attempts[d->next];

		*a = (struct attempt){.d = d, .fd = -1};
		d->next++;
		if (attempt_start(a, &d->addrs.v[d->next - 1], d->connect_port)) {
			if (d->next < d->addrs.n)
				loop_timer(d->g->loop, &d->stagger, STAGGER_MS, try_next, d);
			return;
		}
		err_set(&d->last, errno, "connect to %s", d->what);
		attempt_close(a);
	}
	if (d->open == 0)
		fail(d);
}

/* ---- which addresses ---- */

/* The floor: 0, or why this address is not dialled. */
static int vet(struct dial *d, const struct net_addr *a, bool private_ok)
{
	cleanup_buf struct buf b = BUF_INIT(128);
	struct addr_host *h = &d->g->host;
	struct net_verdict v;
	enum addr_class class;
	int r;

	if (!h->loaded_ms || loop_now_ms(d->g->loop) - h->loaded_ms > HOST_AGE_MS) {
		r = addr_host_load(h);
		if (r < 0)
			return err_set(&d->last, -r, "look up this machine's own addresses");
		h->loaded_ms = loop_now_ms(d->g->loop);
	}
	class = addr_classify(a, h);
	net_addr_show(&b, a);
	if (net_addr_denied(d->g->gen->policy, a, d->port, &v))
		return err_refuse(&d->last, "%s%s%s: %s", d->host,
			d->host[0] ? " resolves to " : "", buf_str(&b), v.why);
	if (class == ADDR_PUBLIC || (class == ADDR_PRIVATE && private_ok))
		return 0;
	return err_refuse(&d->last, "%s%s%s%s %s%s", d->host, d->host[0] ? " resolves to " : "",
		buf_str(&b), d->host[0] ? ", which" : "", addr_why(a, h),
		class == ADDR_PRIVATE ? ", and its rule does not say `private`"
				      : "; no rule can allow that");
}

/* IPv6 first, then by turns; those that may not be dialled fall out. */
static void order(struct dial *d, const struct resolve_answer *a)
{
	bool private_ok = d->private_ok || a->fixed;
	size_t at[2] = {0, 0};
	bool v6 = true;

	d->addrs.n = 0;
	while (at[0] < a->n || at[1] < a->n) {
		size_t *i = &at[v6];

		while (*i < a->n && a->v[*i].v6 != v6)
			++*i;
		if (*i < a->n && (d->vetted || vet(d, &a->v[*i], private_ok) == 0))
			d->addrs.v[d->addrs.n++] = a->v[*i];
		if (*i < a->n)
			++*i;
		v6 = !v6;
	}
}

static void begin(struct dial *d, const struct resolve_answer *a)
{
	d->last = (struct err)ERR_INIT;
	order(d, a);
	if (d->addrs.n == 0) {
		fail(d);
		return;
	}
	if (loop_timer(d->g->loop, &d->timer, CONNECT_TIMEOUT_MS, fail_timed, d) < 0) {
		err_set(&d->last, ENOMEM, "connect to %s", d->what);
		fail(d);
		return;
	}
	try_next(d);
}

static void resolved(void *arg, const struct resolve_answer *a, const struct err *e)
{
	struct dial *d = arg;

	d->resolve = NULL;
	if (a->n > 0) {
		begin(d, a);
		return;
	}
	d->last = *e;
	fail(d);
}

static void begin_literal(void *arg)
{
	struct dial *d = arg;
	struct resolve_answer a = {.v = {d->proxy ? d->proxy->addr : d->literal}, .n = 1};

	begin(d, &a);
}

static void fail_later(void *arg)
{
	fail(arg);
}

/* Names that would mean the proxy's own machine or its cloud. */
static bool means_inside(const char *host)
{
	static const char *const names[] = {"localhost", "metadata", "metadata.google.internal",
		"instance-data", "instance-data.ec2.internal", HOST_NAME};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(host, names[i]))
			return true;
	return str_ends(host, ".localhost") || str_ends(host, ".localdomain");
}

/*
 * Through the proxy: what is dialled is the proxy; what is known of the destination is vetted all
 * the same.
 */
static int start_proxied(struct dial *d, const struct net_policy *p)
{
	int r = 0;

	if (d->host[0] && means_inside(d->host))
		return err_refuse(&d->last, "%s is not asked of an upstream proxy", d->host);
	if (!d->host[0])
		r = vet(d, &d->literal, d->private_ok);
	for (size_t i = 0; r == 0 && i < p->resolve_n; i++)
		for (size_t k = 0;
			str_eq(p->resolve[i].host, d->host) && r == 0 && k < p->resolve[i].addrs_n;
			k++)
			r = vet(d, &p->resolve[i].addrs[k], true);
	if (r < 0)
		return r;
	r = proxy_parse(&d->proxy, p->proxy, &d->last);
	if (r < 0)
		return r;
	d->vetted = true;
	d->connect_port = d->proxy->port;
	snprintf(d->what, sizeof(d->what), "the upstream proxy");
	if (!d->proxy->host[0])
		return loop_timer(d->g->loop, &d->timer, 0, begin_literal, d);
	d->resolve = resolve_start(d->g->resolver, p, d->proxy->host, resolved, d);
	return d->resolve ? 0 : -ENOMEM;
}

static int start(struct dial *d, const struct net_policy *p)
{
	if (net_is_host_port(p, d->host, d->port)) {
		d->literal = (struct net_addr){.b = {127, 0, 0, 1}};
		d->vetted = true;
		return loop_timer(d->g->loop, &d->timer, 0, begin_literal, d);
	}
	if (p->proxy)
		return start_proxied(d, p);
	if (!d->host[0])
		return loop_timer(d->g->loop, &d->timer, 0, begin_literal, d);
	if (str_eq(d->host, HOST_NAME))
		return err_refuse(&d->last,
			"port %u of the host is not one of the policy's `host-ports`", d->port);
	d->resolve = resolve_start(d->g->resolver, p, d->host, resolved, d);
	return d->resolve ? 0 : -ENOMEM;
}

struct dial *dial_start(struct gateway *g, const struct net_dest *to, const struct net_rule *rule,
	dial_done *done, void *arg)
{
	cleanup_buf struct buf text = BUF_INIT(128);
	struct dial *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return NULL;
	*d = (struct dial){.g = g,
		.done = done,
		.arg = arg,
		.literal = to->addr,
		.port = to->port,
		.connect_port = to->port,
		.private_ok = rule && rule->private_ok};
	if (to->host)
		snprintf(d->host, sizeof(d->host), "%s", to->host);
	else
		net_addr_show(&text, &to->addr);
	snprintf(d->what, sizeof(d->what), "%s", to->host ? to->host : buf_str(&text));
	r = start(d, g->gen->policy);
	if (r < 0 && d->last.kind == ERR_NONE)
		err_set(&d->last, -r, "connect to %s", d->what);
	if (r < 0 && loop_timer(g->loop, &d->timer, 0, fail_later, d) < 0) {
		dial_free(d);
		return NULL;
	}
	return d;
}
