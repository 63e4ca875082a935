/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answering the sandbox's DNS, over UDP and over captured TCP connections.
 *
 * Purpose: names are policy. Judging one means looking at the current generation, for every query
 *          anew; the answer is made here, from nothing but that.
 * Trust:   queries are hostile. They are read by net/dns/dns_message.h; a name that is not canonical
 *          matches nothing. The address that was asked is the source of the answer, because clients
 *          check it.
 * Order:   not understood -> format error; not a host name -> no such name; reverse; the sandbox
 *          itself; covered by policy; refused, and told.
 * Refused: a name that no rule covers gets an address, too. Clients retry a name that does not exist,
 *          for more than a minute in the case of npm, and give up on a 403, which is what ports 80
 *          and 443 of that address answer (net/gateway/flow.c). Names that no rule could ever allow, and
 *          those that cannot be on the public network, do not exist.
 * Limits:  UDP: DNS_BATCH datagrams per turn of the loop, so that a flood leaves turns to others.
 *          TCP: DNS_TCP_QUERIES_MAX queries, DNS_TCP_IDLE_MS for each, and no reading while answers
 *          wait.
 * Failure: an answer that cannot be sent is lost, as in any network; clients ask again.
 */
#include "net/dns/dns.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/gateway/flow.h"

#define DNS_BATCH 32u
#define DATAGRAM_MAX_B 1232u /* a query; what is longer is no question but a load */
/*
 * As much at once, and as much again in the second after: never more than the rate in any second.
 */
#define BURST (DNS_RATE_PER_S / 2)
#define REFILL_PER_S (DNS_RATE_PER_S / 2)
#define CONTROL_MAX_B CMSG_SPACE(sizeof(struct in6_pktinfo)) /* the larger of the two families' */
#define TCP_ANSWERS 4u /* that may wait to be written before no more are made */

static_assert(REFILL_PER_S % 1000 == 0, "whole tokens per millisecond");
static_assert(sizeof(struct in6_pktinfo) >= sizeof(struct in_pktinfo), "room for either");

struct dns_slot {
	struct sockaddr_storage from;
	alignas(struct cmsghdr) char control[CONTROL_MAX_B];
	struct iovec iov;
	uint8_t data[DATAGRAM_MAX_B];
};

struct dns_side {
	struct dns *dns;
	int fd;
	struct watch watch;
};

struct dns {
	struct gateway *gw;
	struct dns_side side[2];
	uint64_t tokens, refilled_ms;
	uint64_t dropped;
	struct mmsghdr msgs[DNS_BATCH];
	struct dns_slot slots[DNS_BATCH];
};

/* ---- judging ---- */

void dns_denied(struct gateway *g, const char *name, const char *qtype)
{
	/* Programs ask for the names of addresses unbidden (logs, ssh): no attempt at anything. */
	if (!str_eq(qtype, "PTR"))
		netlog_name_denied(g, name);
}

bool dns_name_known(const struct net_policy *p, const char *name)
{
	if (net_name_known(p, name)) /* what would be asked about counts as known there */
		return true;
	if (p->host_ports_n && str_eq(name, DNS_HOST_NAME))
		return true;
	for (size_t i = 0; i < p->resolve_n; i++)
		if (str_eq(p->resolve[i].host, name))
			return true;
	return false;
}

static void answer_addr(const struct dns_query *q, const struct net_addr *v4,
	const struct net_addr *v6, struct dns_answer *ret)
{
	const struct net_addr *a = q->type == DNS_A ? v4 : q->type == DNS_AAAA ? v6 : NULL;

	if (a)
		*ret = (struct dns_answer){
			.type = (enum dns_type)q->type, .addr = *a, .ttl_s = DNS_TTL_S};
}

/* The sandbox's own names never leave it, whatever policy says. */
static bool answer_own(const struct dns_query *q, struct dns_answer *ret)
{
	static const struct net_addr v4 = {.b = {127, 0, 0, 1}};
	static const struct net_addr v6 = {.v6 = true, .b = {[15] = 1}};

	if (str_eq(q->name, "localhost") || str_ends(q->name, ".localhost")) {
		answer_addr(q, &v4, &v6, ret);
		return true;
	}
	if (str_eq(q->name, DNS_SELF_NAME)) {
		answer_addr(q, &v4, NULL, ret);
		return true;
	}
	return false;
}

static void answer_reverse(struct gateway *g, const struct dns_query *q, struct dns_answer *ret)
{
	struct net_addr a;
	const char *name = dns_reverse(&a, q->name) ? names_lookup(g->names, &a) : NULL;

	if (!name)
		ret->rcode = DNS_NXDOMAIN;
	else if (q->type == DNS_PTR)
		*ret = (struct dns_answer){.type = DNS_PTR, .name = name, .ttl_s = DNS_TTL_S};
}

/* Could this name be a host of the public network? Programs look for the others only to learn that. */
static bool answerable(const char *name)
{
	static const char *const never[] = {
		".local", ".internal", ".invalid", ".onion", ".home.arpa", ".lan", ".home"};

	if (!strchr(name, '.') || name[0] == '_' || strstr(name, "._") || net_name_forbidden(name))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		if (str_ends(name, never[i]))
			return false;
	return true;
}

/* Told, and given an address that answers with the refusal, if it can be. */
static void refuse(struct gateway *g, const struct dns_query *q, struct dns_answer *ret)
{
	struct net_addr v4, v6;

	dns_denied(g, q->name[0] ? q->name : q->text, dns_type_name(q->type));
	if (!q->name[0] || !answerable(q->name) ||
		names_bind_refused(g->names, q->name, &v4, &v6) < 0)
		ret->rcode = DNS_NXDOMAIN;
	else
		answer_addr(q, &v4, &v6, ret);
}

/* *ret is NOERROR without data: the answer to other types of a name that exists. */
static void judge(struct gateway *g, const struct dns_query *q, struct dns_answer *ret)
{
	struct net_addr v4, v6;

	if (q->wire_len == 1)
		return; /* the root exists, or a cache would believe that nothing below it does */
	if (dns_is_reverse(q->name)) {
		answer_reverse(g, q, ret);
		return;
	}
	if (answer_own(q, ret))
		return;
	if (!q->name[0] || !dns_name_known(g->gen->policy, q->name)) {
		refuse(g, q, ret);
		return;
	}
	if (q->type != DNS_A && q->type != DNS_AAAA)
		return;
	if (names_bind(g->names, q->name, &v4, &v6) < 0)
		ret->rcode = DNS_SERVFAIL;
	else
		answer_addr(q, &v4, &v6, ret);
}

size_t dns_reply(
	struct gateway *g, const uint8_t *p, size_t n, bool udp, uint8_t out[DNS_ANSWER_MAX_B])
{
	struct dns_answer a = {0};
	struct dns_query q;
	int rc = dns_query_parse(&q, p, n);

	if (rc < 0)
		return 0;
	if (rc > 0)
		a.rcode = (enum dns_rcode)rc;
	else
		judge(g, &q, &a);
	return dns_answer_write(out, &q, &a, udp ? dns_udp_limit(&q) : DNS_ANSWER_MAX_B);
}

static bool take_token(struct dns *d)
{
	uint64_t now_ms = loop_now_ms(d->gw->loop);
	uint64_t gone_ms = now_ms - d->refilled_ms;

	d->refilled_ms = now_ms;
	if (gone_ms >= 1000)
		d->tokens = BURST;
	else
		d->tokens = MIN_OF(d->tokens + gone_ms * (REFILL_PER_S / 1000), (uint64_t)BURST);
	if (!d->tokens) {
		d->dropped++;
		return false;
	}
	d->tokens--;
	return true;
}

uint64_t dns_dropped(const struct dns *d)
{
	return d->dropped;
}

/* ---- UDP ---- */

/*
 * Turn what was received beside a datagram into what to send beside its answer. false: not there.
 */
static bool answer_from(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);

	if (!c || m->msg_flags & MSG_CTRUNC)
		return false;
	if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO &&
		c->cmsg_len >= CMSG_LEN(sizeof(struct in_pktinfo))) {
		struct in_pktinfo i;

		memcpy(&i, CMSG_DATA(c), sizeof(i));
		i.ipi_spec_dst = i.ipi_addr;
		i.ipi_ifindex = 0;
		memcpy(CMSG_DATA(c), &i, sizeof(i));
		m->msg_controllen = CMSG_SPACE(sizeof(i));
		return true;
	}
	if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO &&
		c->cmsg_len >= CMSG_LEN(sizeof(struct in6_pktinfo))) {
		struct in6_pktinfo i;

		memcpy(&i, CMSG_DATA(c), sizeof(i));
		if (!IN6_IS_ADDR_LINKLOCAL(&i.ipi6_addr))
			i.ipi6_ifindex = 0;
		memcpy(CMSG_DATA(c), &i, sizeof(i));
		m->msg_controllen = CMSG_SPACE(sizeof(i));
		return true;
	}
	return false;
}

static void datagram_answer(struct dns_side *s, struct mmsghdr *in)
{
	struct msghdr *m = &in->msg_hdr;
	uint8_t out[DNS_ANSWER_MAX_B];
	size_t n;

	if (!take_token(s->dns) || m->msg_flags & MSG_TRUNC || !answer_from(m))
		return;
	n = dns_reply(s->dns->gw, m->msg_iov->iov_base, in->msg_len, true, out);
	if (!n)
		return;
	m->msg_iov->iov_base = out;
	m->msg_iov->iov_len = n;
	m->msg_flags = 0;
	(void)!sendmsg(s->fd, m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void datagrams_ready(void *arg, uint32_t events)
{
	struct dns_side *s = arg;
	struct dns *d = s->dns;
	int got;

	for (size_t i = 0; i < DNS_BATCH; i++) {
		struct dns_slot *slot = &d->slots[i];

		slot->iov = (struct iovec){.iov_base = slot->data, .iov_len = sizeof(slot->data)};
		d->msgs[i].msg_hdr = (struct msghdr){.msg_name = &slot->from,
			.msg_namelen = sizeof(slot->from),
			.msg_iov = &slot->iov,
			.msg_iovlen = 1,
			.msg_control = slot->control,
			.msg_controllen = sizeof(slot->control)};
	}
	got = recvmmsg(s->fd, d->msgs, DNS_BATCH, MSG_DONTWAIT, NULL);
	if (got > 0)
		d->gw->used_ms = loop_now_ms(d->gw->loop);
	for (int i = 0; i < got; i++)
		datagram_answer(s, &d->msgs[i]);
}

static int side_open(struct dns *d, struct dns_side *s, int fd, bool v6, struct err *e)
{
	const char *family = v6 ? "IPv6" : "IPv4";
	int flags = fcntl(fd, F_GETFL), one = 1, r;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_set(e, errno, "prepare the %s socket for DNS", family);
	r = v6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one))
	       : setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one));
	if (r < 0)
		return err_set(e, errno, "see which address DNS is asked at over %s", family);
	r = loop_watch(d->gw->loop, &s->watch, fd, EPOLLIN, datagrams_ready, s);
	if (r < 0)
		return err_set(e, -r, "watch the %s socket for DNS", family);
	s->fd = fd;
	return 0;
}

/* The sockets stay open. */
static void sides_unwatch(struct dns *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(d->side); i++)
		if (d->side[i].fd >= 0)
			loop_unwatch(&d->side[i].watch);
}

struct dns *dns_new(struct gateway *g, int udp4, int udp6, struct err *e)
{
	struct dns *d = calloc(1, sizeof(*d));

	if (!d) {
		err_set(e, ENOMEM, "answer DNS");
		return NULL;
	}
	d->gw = g;
	d->tokens = BURST;
	d->refilled_ms = loop_now_ms(g->loop);
	for (size_t i = 0; i < ARRAY_SIZE(d->side); i++)
		d->side[i] = (struct dns_side){.dns = d, .fd = -1};
	if ((udp4 >= 0 && side_open(d, &d->side[0], udp4, false, e) < 0) ||
		(udp6 >= 0 && side_open(d, &d->side[1], udp6, true, e) < 0)) {
		sides_unwatch(d);
		free(d);
		return NULL;
	}
	return d;
}

void dns_pause(struct dns *d, bool on)
{
	for (size_t i = 0; d && i < ARRAY_SIZE(d->side); i++)
		if (d->side[i].fd >= 0)
			loop_change(&d->side[i].watch, on ? 0 : EPOLLIN);
}

void dns_free(struct dns *d)
{
	if (!d)
		return;
	sides_unwatch(d);
	for (size_t i = 0; i < ARRAY_SIZE(d->side); i++)
		close_fd(&d->side[i].fd);
	free(d);
}

/* ---- TCP ---- */

struct dns_stream {
	uint8_t in[2 + DNS_QUERY_MAX_B];
	size_t in_b;
	uint8_t out[TCP_ANSWERS * (2 + DNS_ANSWER_MAX_B)];
	size_t out_b, sent_b;
	unsigned queries;
	const char *over; /* why no more is read; NULL: it goes on */
};

static void tcp_end(struct flow *f, const char *why)
{
	loop_unwatch(&f->watch);
	loop_cancel(&f->timer);
	free(f->state);
	f->state = NULL;
	f->abort = NULL;
	flow_end(f, why);
}

static void tcp_abort(struct flow *f)
{
	tcp_end(f, "ended by the gateway");
}

/* Which names are answered is judged per query, by the generation that is current then. */
static bool tcp_still(struct flow *f, const struct net_policy *p)
{
	return true;
}

static void tcp_idle(void *arg)
{
	tcp_end(arg, "idle");
}

static void tcp_read(struct flow *f, struct dns_stream *s)
{
	ssize_t n;

	if (s->over || s->in_b == sizeof(s->in))
		return;
	n = recv(f->fd, &s->in[s->in_b], sizeof(s->in) - s->in_b, MSG_DONTWAIT);
	if (n > 0) {
		s->in_b += (size_t)n;
		f->up_b += (uint64_t)n;
	} else if (n == 0) {
		s->over = "closed";
	} else if (errno != EAGAIN && errno != EINTR) {
		s->over = "connection lost";
	}
}

/* One query, if a whole one is there and its answer has room. */
static bool tcp_answer(struct flow *f, struct dns_stream *s)
{
	size_t query_b = s->in_b >= 2 ? (size_t)s->in[0] << 8 | s->in[1] : 0;
	size_t n;

	if (s->in_b < 2 || s->queries >= DNS_TCP_QUERIES_MAX)
		return false;
	if (query_b > DNS_QUERY_MAX_B) {
		s->over = "query too long";
		s->in_b = 0;
		return false;
	}
	if (s->in_b < 2 + query_b || sizeof(s->out) - s->out_b < 2 + DNS_ANSWER_MAX_B)
		return false;
	n = take_token(f->gw->dns)
		    ? dns_reply(f->gw, &s->in[2], query_b, false, &s->out[s->out_b + 2])
		    : 0;
	s->in_b -= 2 + query_b;
	memmove(s->in, &s->in[2 + query_b], s->in_b);
	if (!n) {
		s->over = "not a query, or too many";
		s->in_b = 0;
		return false;
	}
	s->out[s->out_b] = (uint8_t)(n >> 8);
	s->out[s->out_b + 1] = (uint8_t)n;
	s->out_b += 2 + n;
	if (++s->queries == DNS_TCP_QUERIES_MAX)
		s->over = "as many queries as one connection may have";
	loop_cancel(&f->timer);
	if (loop_timer(f->gw->loop, &f->timer, DNS_TCP_IDLE_MS, tcp_idle, f) < 0)
		s->over = "out of memory";
	return true;
}

/* false: the other side is gone. Afterwards out_b is 0 unless it must wait. */
static bool tcp_write(struct flow *f, struct dns_stream *s)
{
	while (s->sent_b < s->out_b) {
		ssize_t n = send(f->fd, &s->out[s->sent_b], s->out_b - s->sent_b,
			MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		s->sent_b += (size_t)n;
		f->down_b += (uint64_t)n;
	}
	s->out_b = s->sent_b = 0;
	return true;
}

static void tcp_ready(void *arg, uint32_t events)
{
	struct flow *f = arg;
	struct dns_stream *s = f->state;
	bool more = true;

	if (!s->out_b)
		tcp_read(f, s);
	while (more) {
		while (tcp_answer(f, s))
			;
		more = s->out_b != 0; /* what is written makes room for further answers */
		if (!tcp_write(f, s)) {
			tcp_end(f, "connection lost");
			return;
		}
		if (s->out_b)
			break;
	}
	if (s->over && !s->out_b)
		tcp_end(f, s->over);
	else
		loop_change(&f->watch, s->out_b ? EPOLLOUT : EPOLLIN);
}

bool dns_tcp(struct flow *f)
{
	struct dns_stream *s = f->gw->dns ? calloc(1, sizeof(*s)) : NULL;

	loop_unwatch(&f->watch);
	loop_cancel(&f->timer);
	if (!s)
		return false;
	if (loop_timer(f->gw->loop, &f->timer, DNS_TCP_IDLE_MS, tcp_idle, f) < 0 ||
		loop_watch(f->gw->loop, &f->watch, f->fd, EPOLLIN, tcp_ready, f) < 0) {
		loop_cancel(&f->timer);
		free(s);
		return false;
	}
	f->state = s;
	f->abort = tcp_abort;
	f->still = tcp_still;
	return true;
}
