/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows: see flow.h for the order of a connection.
 *
 * Trust:   what is not understood is refused. Nothing is dialled before the verdict, and bytes are
 *          only looked at (peeked) here: whoever carries them on reads them all.
 * Limits:  FLOWS_MAX at once; SNIFF_TIMEOUT_MS for the first bytes, where they are needed. In `tcp`
 *          mode none are: the server may speak first.
 */
#include "net/gateway/flow.h"

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "net/reach/dial.h"
#include "net/dns/dns.h"
#include "net/tls/hello.h"
#include "net/io/peek.h"

#define SNIFF_TIMEOUT_MS 10000
#define CROWD 256
#define PLAIN_B 8 /* enough to tell a method from something else */

static bool inspects(enum net_mode m)
{
	return m != NET_TCP && m != NET_TLS;
}

/* ---- beginning and end ---- */

struct flow *flow_new(struct gateway *g, int fd)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f) {
		flow_reset_on_close(fd);
		close(fd);
		return NULL;
	}
	f->gw = g;
	f->gen = generation_hold(g->gen);
	f->born = g->gen->number;
	f->fd = fd;
	f->id = ++g->flow_id;
	f->since_ms = loop_now_ms(g->loop);
	f->next = g->flows;
	f->prev = &g->flows;
	if (f->next)
		f->next->prev = &f->next;
	g->flows = f;
	g->flows_n++;
	g->used_ms = f->since_ms;
	g->flows_peak = MAX_OF(g->flows_peak, g->flows_n);
	return f;
}

void flow_reset_on_close(int fd)
{
	struct linger l = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

/* After a crowd the heap is full of holes; a quiet gateway is small again. */
static void give_back_memory(struct gateway *g)
{
	if (g->flows_n > 0 || g->flows_peak < CROWD)
		return;
	g->flows_peak = 0;
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

static void flow_free(void *arg)
{
	struct gateway *g = ((struct flow *)arg)->gw;

	free(arg);
	give_back_memory(g);
}

void flow_end(struct flow *f, const char *why)
{
	struct gateway *g = f->gw;

	if (f->ended)
		return;
	f->ended = true;
	if (f->dial)
		dial_cancel(f->dial);
	if (f->ask)
		ask_cancel(f->ask);
	f->dial = NULL;
	f->ask = NULL;
	f->abort = NULL;
	loop_unwatch(&f->watch);
	loop_cancel(&f->timer);
	if (f->judged && !f->refused)
		netlog_connection(f, why);
	close_fd(&f->fd);
	if (f->held)
		names_hold(g->names, f->host, -1);
	free(f->away);
	f->away = NULL;
	*f->prev = f->next;
	if (f->next)
		f->next->prev = f->prev;
	g->flows_n--;
	g->used_ms = loop_now_ms(g->loop);
	generation_drop(f->gen);
	generation_sweep(g);
	flow_listen_resume(g);
	loop_later(g->loop, flow_free, f);
}

void flow_refuse(struct flow *f, const char *method, const struct net_verdict *v)
{
	if (!f->refused)
		netlog_denial(f, method, "", 0, v);
	f->refused = true;
	if (f->front)
		f->front->refused(f, v);
	else
		flow_reset_on_close(f->fd);
	flow_end(f, v->why);
}

void flow_refuse_why(struct flow *f, const char *method, const char *fmt, ...)
{
	struct net_verdict v = {.effect = NET_DENY, .rule = f->rule};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v.why, sizeof(v.why), fmt, ap);
	va_end(ap);
	flow_refuse(f, method, &v);
}

/* ---- the way out of opaque modes ---- */

static void flow_dialled(void *arg, int fd, const struct err *e)
{
	struct flow *f = arg;

	f->dial = NULL;
	if (fd >= 0) {
		if (f->front)
			f->front->granted(f);
		splice_start(f, fd);
		return;
	}
	if (e->kind == ERR_REFUSED) {
		flow_refuse_why(f, "CONNECT", "%s", e->msg);
		return;
	}
	if (f->front)
		f->front->failed(f, e);
	else
		flow_reset_on_close(f->fd);
	flow_end(f, e->msg);
}

/*
 * While it dials only a client that is gone altogether matters; a FIN may well be all it has to
 * say.
 */
static void gone_ready(void *arg, uint32_t events)
{
	struct flow *f = arg;

	if (events & (EPOLLHUP | EPOLLERR))
		flow_end(f, "the client went away");
}

static bool watch_gone(struct flow *f)
{
	loop_unwatch(&f->watch);
	return loop_watch(f->gw->loop, &f->watch, f->fd, 0, gone_ready, f) == 0;
}

static void flow_dial(struct flow *f)
{
	struct net_verdict v = {0};

	loop_cancel(&f->timer);
	if (!usage_take(f->gw, f->rule, &v)) {
		flow_refuse(f, "CONNECT", &v);
		return;
	}
	if (watch_gone(f))
		f->dial = dial_start(f->gw, &f->dest, f->rule, flow_dialled, f);
	if (!f->dial) {
		flow_reset_on_close(f->fd);
		flow_end(f, "out of memory");
	}
}

/* ---- first bytes ---- */

/* What the bytes seen so far mean for this flow. */
enum sniffed { SNIFF_MORE, SNIFF_GO, SNIFF_REFUSED };

static enum sniffed sniff_tls(struct flow *f, const unsigned char *p, size_t n)
{
	struct hello h;

	switch (hello_parse(&h, p, n)) {
	case HELLO_MORE:
		if (n < HELLO_MAX_B)
			return SNIFF_MORE;
		flow_refuse_why(f, "TLS", "its ClientHello is longer than %u bytes", HELLO_MAX_B);
		return SNIFF_REFUSED;
	case HELLO_NOT_TLS:
		flow_refuse_why(f, "TLS", "the rule is for TLS, and this is something else");
		return SNIFF_REFUSED;
	case HELLO_BAD:
	default:
		flow_refuse_why(f, "TLS", "its ClientHello is malformed");
		return SNIFF_REFUSED;
	case HELLO_OK:
		break;
	}
	f->ech = h.ech;
	if (h.ech_old || (h.ech && (!f->rule || f->rule->ech_refused)))
		flow_refuse_why(f, "ECH",
			"it holds an encrypted server name (ECH), which cannot be checked%s",
			h.ech_old ? "" : "; ech: allow in the rule would let it through");
	else if (f->dest.host && (h.sni_bad || strcmp(h.sni, f->host) != 0))
		flow_refuse_why(f, "SNI", "its server name is %s%s%s, not %s", h.sni[0] ? "\"" : "",
			h.sni[0]    ? h.sni
			: h.sni_bad ? "invalid"
				    : "missing",
			h.sni[0] ? "\"" : "", f->host);
	else if (!f->dest.host && (h.sni_bad || h.sni[0]))
		/* Behind an address any name could hide; its rule was for the address. */
		flow_refuse_why(f, "SNI", "it names a server, but was opened to an address");
	else
		return SNIFF_GO;
	return SNIFF_REFUSED;
}

/* A method: upper-case letters, and not the greeting of SSH. */
static bool looks_like_http(const unsigned char *p, size_t n)
{
	if (n >= 4 && memcmp(p, "SSH-", 4) == 0)
		return false;
	for (size_t i = 0; i < n && p[i] != ' '; i++)
		if ((p[i] < 'A' || p[i] > 'Z') && (i == 0 || p[i] != '-'))
			return false;
	return n > 0 && p[0] != ' ';
}

static enum sniffed sniff_http(struct flow *f, const unsigned char *p, size_t n)
{
	if (p[0] == 0x16) { /* a TLS handshake record */
		f->tls = true;
		return SNIFF_GO;
	}
	if (!looks_like_http(p, n)) {
		flow_refuse_why(f, "HTTP", "the rule is for HTTP, and this is something else");
		return SNIFF_REFUSED;
	}
	if (n < 4)
		return SNIFF_MORE;
	if (f->dest.port != 80 && !f->away && !(f->rule && f->rule->plaintext) &&
		!net_is_host_port(f->gen->policy, f->dest.host, f->dest.port)) {
		flow_refuse_why(
			f, "HTTP", "it is not encrypted, and the rule does not say `plaintext`");
		return SNIFF_REFUSED;
	}
	return SNIFF_GO;
}

static void sniff_done(struct flow *f)
{
	loop_cancel(&f->timer);
	loop_unwatch(&f->watch);
	peek_wait(f->fd, 0);
	if (f->mode == NET_TLS)
		flow_dial(f);
	else
		http_start(f);
}

static void sniff(void *arg, uint32_t events)
{
	unsigned char p[HELLO_MAX_B];
	struct flow *f = arg;
	ssize_t n = peek(f->fd, p, f->mode == NET_TLS ? sizeof(p) : PLAIN_B);
	bool last = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
	enum sniffed s = SNIFF_MORE;

	if (n == -EAGAIN && !last)
		return;
	if (n > 0)
		s = f->mode == NET_TLS ? sniff_tls(f, p, (size_t)n) : sniff_http(f, p, (size_t)n);
	if (s == SNIFF_GO)
		sniff_done(f);
	else if (s == SNIFF_MORE && (n <= 0 || last))
		flow_end(f, "closed before it said anything");
	else if (s == SNIFF_MORE)
		peek_wait(f->fd, (size_t)n);
}

static void sniff_timed(void *arg)
{
	struct flow *f = arg;

	flow_refuse_why(f, f->mode == NET_TLS ? "TLS" : "HTTP",
		"it sent too little in %d seconds to be recognised", SNIFF_TIMEOUT_MS / 1000);
}

static void flow_sniff(struct flow *f)
{
	loop_unwatch(&f->watch);
	if (loop_timer(f->gw->loop, &f->timer, SNIFF_TIMEOUT_MS, sniff_timed, f) < 0 ||
		loop_watch(f->gw->loop, &f->watch, f->fd, EPOLLIN | EPOLLRDHUP, sniff, f) < 0) {
		flow_reset_on_close(f->fd);
		flow_end(f, "out of memory");
	}
}

/* ---- verdict ---- */

static void flow_allowed(struct flow *f)
{
	if (f->one_request && net_is_host_port(f->gen->policy, f->dest.host, f->dest.port))
		f->mode = NET_HTTP; /* a proxy does not pass such a request on as it is */
	if (f->mode == NET_TCP && f->one_request) {
		flow_refuse_why(f, "HTTP", "the rule is for opaque connections: use CONNECT");
		return;
	}
	if (f->mode == NET_TCP) {
		flow_dial(f);
		return;
	}
	if (f->front)
		f->front->granted(f);
	if (!f->ended)
		flow_sniff(f);
}

/* Where clients speak HTTP, and can be answered: TLS needs the sandbox's authority. */
static bool can_turn_away(const struct flow *f)
{
	return !f->front && (f->dest.port == 80 || (f->dest.port == 443 && f->gw->tls));
}

/* Refuse the connection, by an answer to what is asked on it if that is possible. */
static void flow_turn_away(struct flow *f, const struct net_verdict *v)
{
	struct net_verdict *copy = can_turn_away(f) ? malloc(sizeof(*copy)) : NULL;

	if (!copy) {
		flow_refuse(f, "CONNECT", v);
		return;
	}
	*copy = *v;
	f->away = copy;
	f->mode = NET_HTTP;
	f->refused = true;
	if (f->dest.host && !v->rule && !dns_name_known(f->gen->policy, f->host))
		netlog_name_denied(f->gw, f->host); /* the same denial as of its lookup */
	else
		netlog_denial(f, "CONNECT", "", 403, v);
	flow_sniff(f);
}

static void flow_answered(void *arg, enum net_effect effect)
{
	struct flow *f = arg;
	struct net_verdict v = {.effect = NET_DENY, .rule = f->rule};

	f->ask = NULL;
	if (effect == NET_ALLOW) {
		f->asked = true;
		flow_allowed(f);
		return;
	}
	snprintf(v.why, sizeof(v.why), "it was asked for, and not allowed");
	flow_turn_away(f, &v);
}

static void flow_ask(struct flow *f)
{
	if (watch_gone(f))
		f->ask = ask_start(f, "CONNECT", "", flow_answered, f);
	if (!f->ask)
		flow_refuse_why(f, "CONNECT", "nobody could be asked");
}

/* Loopback by address: of ports of this machine that were opened. */
static void name_localhost(struct flow *f)
{
	static const struct net_addr here[] = {{.b = {127, 0, 0, 1}}, {.v6 = true, .b = {[15] = 1}}};

	if (f->dest.host || !net_is_host_port(f->gen->policy, NET_LOCALHOST, f->dest.port))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(here); i++)
		if (f->dest.addr.v6 == here[i].v6 &&
			memcmp(f->dest.addr.b, here[i].b, here[i].v6 ? 16 : 4) == 0) {
			snprintf(f->host, sizeof(f->host), "%s", NET_LOCALHOST);
			f->dest.host = f->host;
		}
}

void flow_judge(struct flow *f)
{
	cleanup_buf struct buf b = BUF_INIT(128);
	struct net_verdict v = {0};

	f->judged = true;
	name_localhost(f);
	if (!f->dest.host && addr_classify(&f->dest.addr, &f->gw->host) == ADDR_FORBIDDEN) {
		net_addr_show(&b, &f->dest.addr);
		flow_refuse_why(f, "CONNECT", "%s %s; no rule can allow that", buf_str(&b),
			addr_why(&f->dest.addr, &f->gw->host));
		return;
	}
	net_decide_connect(f->gen->policy, &f->dest, &v);
	f->rule = v.rule;
	/*
	 * Without a rule there can only be a person's word for it: TLS where it is usual, so that
	 * the name holds.
	 */
	f->mode = v.rule ? v.rule->mode : f->dest.port == 443 && f->dest.host ? NET_TLS : NET_TCP;
	if (v.effect == NET_ALLOW && v.rule)
		flow_allowed(f);
	else if (v.effect == NET_ASK && v.rule && inspects(f->mode))
		flow_allowed(f); /* each request is judged, and asked about, by itself */
	else if (v.effect == NET_ASK)
		flow_ask(f);
	else
		flow_turn_away(f, &v);
}

/* ---- a new generation ---- */

static bool still_allowed(struct flow *f, const struct net_policy *p, struct net_verdict *v)
{
	enum net_mode mode;

	net_decide_connect(p, &f->dest, v);
	mode = v->rule ? v->rule->mode : f->mode;
	if (mode != f->mode || v->effect == NET_DENY || (v->effect == NET_ALLOW && !v->rule))
		return false;
	/*
	 * What a person allowed stays while the policy leaves it to a person; so does who waits for
	 * one.
	 */
	if (v->effect == NET_ASK && !f->asked && !f->ask && !inspects(mode))
		return false;
	return !f->still || f->still(f, p);
}

void flow_abort(struct flow *f, const char *why)
{
	void (*abort_mode)(struct flow * f) = f->abort;

	f->aborted = why;
	flow_reset_on_close(f->fd);
	if (abort_mode)
		abort_mode(f);
	if (!f->ended)
		flow_end(f, why);
}

void flow_judge_again(struct gateway *g)
{
	struct flow *f = g->flows;

	while (f) {
		struct net_verdict v = {0};
		size_t n = g->flows_n;

		if (f->gen == g->gen) {
			f = f->next;
			continue;
		}
		generation_drop(f->gen);
		f->gen = generation_hold(g->gen);
		if (!f->judged || f->publish || f->away) {
			f = f->next;
			continue;
		}
		if (still_allowed(f, g->gen->policy, &v)) {
			f->rule = v.rule;
		} else {
			struct net_verdict told = {.effect = NET_DENY, .rule = v.rule};

			snprintf(
				told.why, sizeof(told.why), "the policy changed while it was open");
			netlog_denial(f, "REVOKED", "", 0, &told);
			flow_abort(f, "revoked");
		}
		/*
		 * Whatever ended with it may have been the next one: those done are passed over
		 * quickly.
		 */
		f = g->flows_n == n ? f->next : g->flows;
	}
}
