/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway process from CONFIG to DONE: see gateway.h.
 *
 * Order:   everything that reads a file happens in setup(), before confine(); READY is said when
 *          nothing can be opened any more. END: listeners close, what the sandbox wrote goes out
 *          (DRAIN_MS at most), sums are told, and the loop ends when the supervisor has taken them
 *          (LAST_WORDS_MS at most).
 * Trust:   the supervisor is trusted, and gone means over: EOF on the control socket ends
 *          everything.
 */
#include "net/gateway/gateway.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/gateway/ask.h"
#include "net/gateway/confine.h"
#include "net/dns/dns.h"
#include "net/gateway/flow.h"
#include "net/gateway/generation.h"
#include "net/http/http.h"
#include "net/gateway/netlog.h"
#include "net/gateway/rest.h"
#include "net/io/outbox.h"
#include "secret/placeholder.h"
#include "net/io/splice.h"
#include "net/reach/resolver.h"
#include "net/tls/tls.h"
#include "net/gateway/usage.h"

#define DRAIN_MS 500
#define DRAIN_TICK_MS 5
#define LAST_WORDS_MS 2000
#define PLACEHOLDERS_TEXT_MAX_B (PLACEHOLDERS_MAX * (PLACEHOLDER_MAX + 256))

struct process { /* what only this file knows of a gateway */
	struct gateway g;
	struct timer drain;
	uint64_t drain_until_ms;
	bool continues; /* the work of one that came to rest */
};

static void close_all(int fds[GATEWAY_FD_NUM])
{
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		close_fd(&fds[i]);
}

/* ---- the end ---- */

static void last_words_timed(void *arg)
{
	struct process *p = arg;

	loop_stop(p->g.loop);
}

static void last_words(struct process *p)
{
	struct gateway *g = &p->g;

	while (g->flows)
		flow_abort(g->flows, "the sandbox ended");
	netlog_end(g->netlog);
	if (outbox_empty(g->outbox))
		loop_stop(g->loop);
	else
		loop_timer(g->loop, &p->drain, LAST_WORDS_MS, last_words_timed, p);
}

/* Has this one nothing left to send? */
static bool drained(struct flow *f)
{
	if (f->drained)
		return f->drained(f);
	return !f->judged || f->state == NULL; /* not begun: there is nothing of its yet */
}

static void drain_tick(void *arg)
{
	struct process *p = arg;
	struct gateway *g = &p->g;
	struct flow *f = g->flows;

	while (f) {
		size_t n = g->flows_n;

		if (drained(f))
			flow_abort(f, "the sandbox ended");
		f = g->flows_n == n ? f->next : g->flows;
	}
	if (!g->flows || loop_now_ms(g->loop) >= p->drain_until_ms)
		last_words(p);
	else
		loop_timer(g->loop, &p->drain, DRAIN_TICK_MS, drain_tick, p);
}

static void end(struct process *p)
{
	struct gateway *g = &p->g;

	if (g->ending)
		return;
	g->ending = true;
	flow_listen_end(g);
	p->drain_until_ms = loop_now_ms(g->loop) + DRAIN_MS;
	drain_tick(p);
}

/* ---- what the supervisor says ---- */

static void reload(struct gateway *g, int fd)
{
	struct generation *gen;
	struct err e = ERR_INIT;

	if (fd < 0 || generation_load(&gen, fd, g->gen->number + 1, &e) < 0) {
		gateway_note(g, "a new network policy was not taken over: %s",
			fd < 0 ? "none came" : e.msg);
		return;
	}
	generation_begin(g, gen);
}

static void publish(struct gateway *g, uint32_t port, int *outer, int *inner)
{
	struct flow *f;

	if (*outer < 0 || *inner < 0 || g->flows_n >= FLOWS_MAX || fd_nonblocking(*outer) < 0 ||
		fd_nonblocking(*inner) < 0)
		return;
	f = flow_new(g, take_fd(inner));
	if (!f)
		return;
	f->judged = f->publish = true;
	f->mode = NET_TCP;
	f->dest.port = (uint16_t)port;
	splice_start(f, take_fd(outer));
}

static void heard(struct process *p, const struct gateway_msg *m, int fds[GATEWAY_FD_NUM])
{
	struct gateway *g = &p->g;

	rest_heard(g->rest);
	switch (m->type) {
	case GATEWAY_POLICY:
		reload(g, fds[GATEWAY_FD_POLICY]);
		break;
	case GATEWAY_VERDICT:
		asks_verdict(
			g->asks, m->id, m->effect == NET_ALLOW ? NET_ALLOW : NET_DENY, m->for_ms);
		break;
	case GATEWAY_RELAY:
		if (!g->ending)
			publish(g, m->port, &fds[GATEWAY_FD_OUTER], &fds[GATEWAY_FD_INNER]);
		break;
	case GATEWAY_END:
		end(p);
		break;
	default: /* CONFIG comes once, and the rest is ours to say */
		break;
	}
}

static void control_ready(void *arg, uint32_t events)
{
	struct process *p = arg;
	struct gateway *g = &p->g;

	if (events & EPOLLOUT) {
		outbox_flush(g->outbox, g->control);
		loop_change(
			&g->control_watch, outbox_empty(g->outbox) ? EPOLLIN : EPOLLIN | EPOLLOUT);
		if (g->ending && outbox_empty(g->outbox) && !g->flows)
			loop_stop(g->loop);
	}
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)))
		return;
	for (int i = 0; i < 16; i++) {
		int fds[GATEWAY_FD_NUM];
		struct gateway_msg m;
		int r = gateway_receive_now(g->control, &m, fds);

		if (r == -EAGAIN)
			return;
		if (r == 1)
			heard(p, &m, fds);
		close_all(fds);
		if (r <= 0 && r != -EBADMSG) {
			loop_stop(g->loop); /* nobody is there any more */
			return;
		}
	}
}

bool gateway_tell(struct gateway *g, struct gateway_msg *m)
{
	bool ok = outbox_put(g->outbox, g->control, m);

	if (!outbox_empty(g->outbox))
		loop_change(&g->control_watch, EPOLLIN | EPOLLOUT);
	return ok;
}

void gateway_note(struct gateway *g, const char *fmt, ...)
{
	struct gateway_msg m = {.type = GATEWAY_NOTE};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	gateway_tell(g, &m);
}

/* ---- setup ---- */

static int receive_config(struct process *p, int fds[GATEWAY_FD_NUM], struct err *e)
{
	struct gateway *g = &p->g;
	struct gateway_msg m;
	int r = gateway_receive(g->control, &m, fds);

	if (r <= 0)
		return err_set(e, r < 0 ? -r : EPIPE, "receive the gateway's configuration");
	if (m.type != GATEWAY_CONFIG || fds[GATEWAY_FD_POLICY] < 0)
		return err_invalid(e, "the gateway's first message is not its configuration");
	memcpy(g->token, m.token, sizeof(g->token));
	g->journal_fd = take_fd(&fds[GATEWAY_FD_JOURNAL]);
	g->keeper = take_fd(&fds[GATEWAY_FD_KEEPER]);
	p->continues = m.count > 0;
	r = fd_nonblocking(g->control);
	if (r < 0)
		return err_set(e, -r, "use the control socket");
	return rest_new(&g->rest, g, take_fd(&fds[GATEWAY_FD_STATE]), m.for_ms, e);
}

static int load_authority(struct gateway *g, int fd, struct err *e)
{
	struct gateway_ca ca = {0};
	ssize_t n;
	int r;

	if (fd < 0 && net_inspects(g->gen->policy))
		return err_invalid(
			e, "the policy inspects, but the sandbox's authority did not come");
	if (fd < 0)
		return 0;
	n = pread(fd, &ca, sizeof(ca), 0);
	if (n != sizeof(ca) || ca.der_len == 0 || ca.der_len > sizeof(ca.der))
		return err_invalid(e, "the sandbox's authority is incomplete");
	r = tls_new(&g->tls, &ca, g->gen->policy, e);
	explicit_bzero(&ca, sizeof(ca));
	return r;
}

/* "NAME PLACEHOLDER" per line, in the order of the policy's secrets. */
static int load_placeholders(struct gateway *g, int fd, struct err *e)
{
	cleanup_buf struct buf b = BUF_INIT(PLACEHOLDERS_TEXT_MAX_B);
	const char *v[PLACEHOLDERS_MAX];
	size_t lens[PLACEHOLDERS_MAX], n = 0, at = 0;
	char chunk[4096];
	ssize_t got;

	if (fd < 0)
		return 0;
	while ((got = pread(fd, chunk, sizeof(chunk), (off_t)b.len)) > 0 && !b.failed)
		buf_add(&b, chunk, (size_t)got);
	if (got < 0 || b.failed)
		return err_invalid(e, "the placeholders cannot be read");
	while (at < b.len) {
		const char *line = b.data + at, *end = memchr(line, '\n', b.len - at);
		const char *blank = end ? memchr(line, ' ', (size_t)(end - line)) : NULL;

		if (!blank || n == PLACEHOLDERS_MAX ||
			(size_t)(end - blank - 1) < PLACEHOLDER_MIN ||
			(size_t)(end - blank - 1) > PLACEHOLDER_MAX)
			return err_invalid(e, "line %zu of the placeholders is malformed", n + 1);
		v[n] = blank + 1;
		lens[n++] = (size_t)(end - blank - 1);
		at += (size_t)(end - line) + 1;
	}
	g->placeholders = n ? placeholder_set_new(v, lens, n) : NULL;
	return n && !g->placeholders ? err_set(e, ENOMEM, "prepare the placeholders") : 0;
}

static int make_parts(struct gateway *g, struct err *e)
{
	int r;

	g->names = names_new();
	g->netlog = netlog_new(g);
	g->usage = usage_new();
	g->asks = asks_new(g);
	g->pipes = splice_pool_new();
	g->outbox = outbox_new();
	if (!g->names || !g->netlog || !g->usage || !g->asks || !g->pipes || !g->outbox)
		return err_set(e, ENOMEM, "set up the gateway");
	r = addr_host_load(&g->host);
	return r < 0 ? err_set(e, -r, "look up this machine's own addresses") : 0;
}

static int listen_all(struct gateway *g, int fds[GATEWAY_FD_NUM], struct err *e)
{
	static const enum gateway_fd listeners[] = {
		GATEWAY_FD_TCP4, GATEWAY_FD_TCP6, GATEWAY_FD_PROXY};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(listeners); i++) {
		int *fd = &fds[listeners[i]];

		if (*fd < 0)
			continue;
		r = flow_listen(g, *fd, listeners[i] == GATEWAY_FD_PROXY, e);
		if (r < 0)
			return r;
		*fd = -1;
		g->explicit_proxy |= listeners[i] == GATEWAY_FD_PROXY;
	}
	if (g->explicit_proxy && strlen(g->token) != GATEWAY_TOKEN_LEN)
		return err_invalid(e, "an explicit proxy without a token would serve anybody");
	if (fds[GATEWAY_FD_UDP4] < 0 && fds[GATEWAY_FD_UDP6] < 0)
		return 0;
	g->dns = dns_new(g, fds[GATEWAY_FD_UDP4], fds[GATEWAY_FD_UDP6], e);
	if (!g->dns)
		return e->errnum ? -e->errnum : -EIO;
	fds[GATEWAY_FD_UDP4] = fds[GATEWAY_FD_UDP6] = -1;
	return 0;
}

/* The generation in force comes before the first connection, and what it must not undo before that. */
static int continue_work(struct gateway *g, int later, struct err *e)
{
	struct generation *gen;
	int r = rest_load(g->rest, e);

	if (r < 0 || later < 0)
		return r;
	r = generation_load(&gen, later, g->gen->number + 1, e);
	if (r == 0)
		generation_begin(g, gen);
	return r;
}

static int setup(struct process *p, int fds[GATEWAY_FD_NUM], struct err *e)
{
	struct gateway *g = &p->g;
	int r;

	g->loop = loop_new(e);
	if (!g->loop)
		return -ENOMEM;
	r = receive_config(p, fds, e);
	if (r == 0)
		r = generation_load(&g->gen, fds[GATEWAY_FD_POLICY], 1, e);
	if (r == 0)
		receivers_add(&g->receivers, g->gen->policy);
	if (r == 0)
		r = make_parts(g, e);
	if (r == 0)
		r = load_authority(g, fds[GATEWAY_FD_CA], e);
	if (r == 0)
		r = load_placeholders(g, fds[GATEWAY_FD_PLACEHOLDERS], e);
	if (r < 0)
		return r;
	g->resolver = resolver_new(g->loop, g->gen->policy, e);
	if (!g->resolver)
		return -EIO;
	if (p->continues)
		r = continue_work(g, fds[GATEWAY_FD_LATER], e);
	if (r == 0)
		r = listen_all(g, fds, e);
	if (r == 0) {
		r = loop_watch(g->loop, &g->control_watch, g->control, EPOLLIN, control_ready, p);
		if (r < 0)
			err_set(e, -r, "watch the control socket");
	}
	return r < 0 ? r : rest_begin(g->rest, e);
}

static void teardown(struct process *p)
{
	struct gateway *g = &p->g;

	if (!g->loop)
		return;
	flow_listen_end(g);
	while (g->flows)
		flow_abort(g->flows, "the gateway ended");
	loop_unwatch(&g->control_watch);
	loop_cancel(&p->drain);
	http_pool_free(g->pool);
	rest_free(g->rest);
	dns_free(g->dns);
	resolver_free(g->resolver);
	tls_free(g->tls);
	placeholder_set_free(g->placeholders);
	asks_free(g->asks);
	netlog_free(g->netlog);
	usage_free(g->usage);
	names_free(g->names);
	generation_end(g);
	receivers_done(&g->receivers);
	loop_free(
		g->loop); /* frees what waited to be freed, pipes and outbox are used until here */
	splice_pool_free(g->pipes);
	outbox_free(g->outbox);
	close_fd(&g->journal_fd);
	close_fd(&g->keeper);
}

int gateway_run(int control, struct err *e)
{
	struct process *p = calloc(1, sizeof(*p));
	struct gateway_msg ready = {.type = GATEWAY_READY};
	const char *degraded = NULL;
	int fds[GATEWAY_FD_NUM], r;

	if (!p)
		return err_set(e, ENOMEM, "start the gateway");
	for (int i = 0; i < GATEWAY_FD_NUM; i++)
		fds[i] = -1;
	p->g.control = control;
	p->g.keeper = p->g.journal_fd = -1;
	r = setup(p, fds, e);
	close_all(fds);
	if (r == 0)
		r = confine(&degraded, e);
	if (r == 0) {
		if (degraded)
			gateway_note(&p->g, "%s", degraded);
		gateway_tell(&p->g, &ready);
		r = loop_run(p->g.loop);
		if (!p->g.ending) /* the supervisor is gone: at least the file is complete */
			netlog_end(p->g.netlog);
	}
	teardown(p);
	free(p);
	return r;
}
