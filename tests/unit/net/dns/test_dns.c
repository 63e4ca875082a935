/* SPDX-License-Identifier: Apache-2.0 */
/* DNS: who is answered what, over datagrams and connections, and which names are told. */
#include "dns_world.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define GUARD_MS 5000 /* an event that does not come by then never will */

/* ---- names ---- */

TEST(a_known_name_has_a_pair_of_addresses)
{
	cleanup_world struct world w;
	struct answer a, b;

	world_init(&w);
	a = ask(&w, "api.example.com", 1);
	CHECK_INT(a.rcode, 0);
	CHECK_INT(a.id, 0xbeef);
	CHECK_INT(a.flags & 0x8790, 0x8190); /* QR, RD, RA, CD; neither AA nor TC */
	CHECK_INT(a.an, 1);
	CHECK_INT(a.ttl_s, 60);
	CHECK_STR(address(&a), "198.18.1.0");
	CHECK_INT(a.end, a.n);
	a = ask(&w, "api.example.com", 28);
	CHECK_STR(address(&a), "fd63:726f:6674::100");
	b = ask(&w, "a.b.wild.example", 1);
	CHECK_STR(address(&b), "198.18.1.1");
	CHECK_INT(told_n, 0);
}

TEST(case_is_ignored_in_judging_and_kept_in_the_answer)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);
	struct answer a;

	world_init(&w);
	put_query(&q, "aPI.ExAMPle.cOM", 1);
	a = reply(&w, &q, true);
	CHECK_STR(address(&a), "198.18.1.0");
	CHECK(memcmp(&a.p[12], &q.data[12], q.len - 12) == 0);
	a = ask(&w, "api.example.com", 1);
	CHECK_STR(address(&a), "198.18.1.0");
}

TEST(n8_names_that_cannot_be_public_do_not_exist_and_are_told)
{
	static const char *const other[] = {"evil.invalid", "printer.local", "wpad",
		"host.croft.internal", "metadata.google.internal", "_http._tcp.evil.example", "com"};
	cleanup_world struct world w;
	struct answer a;

	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		a = ask(&w, other[i], 1);
		CHECK_INT(a.rcode, 3);
		CHECK_INT(a.an, 0);
		CHECK_INT(a.ns, 1);
		CHECK_INT(
			a.type, 6); /* a start of authority, so that nobody remembers it for long */
		CHECK(a.ttl_s <= 10);
		CHECK_INT(a.data_b, 22);
		CHECK_INT(a.end, a.n);
		CHECK_STR(told, other[i]);
		CHECK_INT(told_n, i + 1);
	}
	a = ask(&w, "api.example.com", 1);
	CHECK_INT(a.rcode, 0); /* control */
	CHECK_INT(told_n, ARRAY_SIZE(other));
}

TEST(n32_other_names_have_an_address_that_leads_nowhere_and_are_told)
{
	static const char *const other[] = {
		"evil.example", "notapi.example.com", "example.com", "wild.example", "x.croft"};
	cleanup_world struct world w;
	struct answer a;

	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		a = ask(&w, other[i], 1);
		CHECK_INT(a.rcode, 0);
		CHECK(str_starts(address(&a), "198.18."));
		CHECK_STR(told, other[i]);
		CHECK_INT(told_n, i + 1);
		CHECK(!dns_name_known(&w.policy, other[i])); /* no connection to it is allowed */
	}
	CHECK(dns_name_known(&w.policy, "api.example.com")); /* control */
}

TEST(n32_refused_names_have_a_maximum_of_their_own)
{
	cleanup_world struct world w;
	struct answer a;
	char name[64];

	world_init(&w);
	a = ask(&w, "api.example.com", 1);
	CHECK_STR(address(&a), "198.18.1.0");
	for (unsigned i = 0; i < NAMES_REFUSED_MAX; i++) {
		snprintf(name, sizeof(name), "n%u.evil.example", i);
		a = ask(&w, name, 1);
		CHECK_INT(a.rcode, 0);
	}
	a = ask(&w, "more.evil.example", 1);
	CHECK_INT(a.rcode, 3);
	a = ask(&w, "n7.evil.example", 1); /* a known one */
	CHECK_INT(a.rcode, 0);
	a = ask(&w, "b.wild.example", 1); /* control: an allowed one still finds room */
	CHECK_INT(a.rcode, 0);
	a = ask(&w, "api.example.com", 1);
	CHECK_STR(address(&a), "198.18.1.0");
}

TEST(n11_bytes_that_no_host_name_has)
{
	static const struct {
		const char *p;
		size_t n;
		const char *text;
	} bad[] = {
		{"\014evil.example\3api\7example\3com", 29, "evil\\046example.api.example.com"},
		{"\5evil\0\3api\7example\3com", 22, "evil\\000.api.example.com"},
		{"\3api\10example\n\3com", 17, "api.example\\010.com"},
		{"\3\xff\x1b[\3com", 8, "\\255\\027\\091.com"},
		{"\4api \7example\3com", 17, "api\\032.example.com"},
		{"\3api\7example\4com.", 17, "api.example.com\\046"},
		{"\003127\0010\0010\0011", 10, "127.0.0.1"},
	};
	cleanup_world struct world w;
	struct answer a;

	world_init(&w);
	w.policy.ask_default = true; /* not even then */
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		cleanup_buf struct buf q = BUF_INIT(4096);

		put_head(&q, 0x0100, 1, 0, 0, 0);
		buf_add(&q, bad[i].p, bad[i].n);
		buf_addc(&q, 0);
		put_u16(&q, 1);
		put_u16(&q, 1);
		a = reply(&w, &q, true);
		CHECK_INT(a.rcode, 3);
		CHECK_STR(told, bad[i].text);
	}
	a = ask(&w, "api.example.com", 1);
	CHECK_INT(a.an, 1); /* control */
}

TEST(policy_decides_and_may_change)
{
	cleanup_world struct world w;
	struct answer a;

	world_init(&w);
	a = ask(&w, "ask.example", 1);
	CHECK_INT(a.an, 1);
	a = ask(&w, "db.corp", 1);
	CHECK_INT(a.an, 1);
	CHECK(str_starts(
		address(&a), "198.18.")); /* what it resolves to is the dialler's business */
	a = ask(&w, "host.croft.internal", 1);
	CHECK_INT(a.rcode, 3);
	w.policy.host_ports_n = 1;
	a = ask(&w, "host.croft.internal", 1);
	CHECK_INT(a.an, 1);
	CHECK(!dns_name_known(&w.policy, "anything.test"));
	w.policy.ask_default = true;
	a = ask(&w, "anything.test", 1);
	CHECK_INT(a.an, 1);
	w.rules[0].effect = NET_DENY; /* denied altogether: not asked about, so not known */
	w.rules[0].ports[0] = (struct net_ports){1, 65535};
	CHECK(!dns_name_known(&w.policy, "api.example.com"));
	w.policy.ask_default = false;
	w.rules[0].effect = NET_ALLOW;
	a = ask(&w, "api.example.com", 1);
	CHECK_INT(a.an, 1); /* control */
	w.policy.rules_n = 0;
	CHECK(!dns_name_known(&w.policy, "api.example.com"));
	a = ask(&w, "api.example.com", 1);
	CHECK_STR(told, "api.example.com");
}

TEST(the_sandbox_itself)
{
	cleanup_world struct world w;
	struct answer a;

	world_init(&w);
	a = ask(&w, "localhost", 1);
	CHECK_STR(address(&a), "127.0.0.1");
	a = ask(&w, "a.LOCALHOST", 28);
	CHECK_STR(address(&a), "::1");
	a = ask(&w, "croft", 1);
	CHECK_STR(address(&a), "127.0.0.1");
	a = ask(&w, "croft", 28);
	CHECK_INT(a.rcode, 0);
	CHECK_INT(a.an, 0);
	a = ask(&w, "notlocalhost", 1);
	CHECK_INT(a.rcode, 3);
	a = ask(&w, "localhost.evil.example", 1);
	CHECK_STR(told, "localhost.evil.example");
}

TEST(other_types_of_a_known_name_are_empty)
{
	static const unsigned types[] = {2, 5, 6, 12, 15, 16, 33, 43, 64, 65, 255, 257, 9999};
	cleanup_world struct world w;
	struct answer a;

	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		a = ask(&w, "api.example.com", types[i]);
		CHECK_INT(a.rcode, 0);
		CHECK_INT(a.an + a.ns + a.ar, 0);
		CHECK_INT(a.end, a.n);
		a = ask(&w, "evil.example", types[i]); /* refused: the same */
		CHECK_INT(a.rcode, 0);
		CHECK_INT(a.an + a.ns + a.ar, 0);
		a = ask(&w, "evil.invalid", types[i]);
		CHECK_INT(a.rcode, 3);
	}
	a = ask(&w, "", 2); /* the root */
	CHECK_INT(a.rcode, 0);
	CHECK_INT(a.an, 0);
}

TEST(reverse_names)
{
	static const char *const none[] = {"1.1.18.198.in-addr.arpa", "1.0.18.198.in-addr.arpa",
		"8.8.8.8.in-addr.arpa", "0.1.18.198.x.in-addr.arpa", "00.1.18.198.in-addr.arpa",
		"0.1.18.454.in-addr.arpa", "1.18.198.in-addr.arpa", "in-addr.arpa",
		"0.0.1.18.198.in-addr.arpa", "1.ip6.arpa", "ip6.arpa"};
	static const char v6[] =
		"0.0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.4.7.6.6.f.6.2.7.3.6.d.f.ip6.arpa";
	static const char wire[] = "\3api\7example\3com";
	cleanup_world struct world w;
	struct answer a;

	world_init(&w);
	a = ask(&w, "0.1.18.198.in-addr.arpa", 12);
	CHECK_INT(a.rcode, 3); /* control: not bound yet */
	ask(&w, "api.example.com", 1);
	a = ask(&w, "0.1.18.198.in-addr.arpa", 12);
	CHECK_INT(a.an, 1);
	CHECK_INT(a.type, 12);
	CHECK_INT(a.data_b, sizeof(wire));
	CHECK(memcmp(&a.p[a.record], wire, sizeof(wire)) == 0);
	a = ask(&w, v6, 12);
	CHECK_INT(a.data_b, sizeof(wire));
	CHECK(memcmp(&a.p[a.record], wire, sizeof(wire)) == 0);
	a = ask(&w, "0.1.18.198.in-addr.arpa", 1);
	CHECK_INT(a.rcode, 0);
	CHECK_INT(a.an, 0);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		a = ask(&w, none[i], 12);
		CHECK_INT(a.rcode, 3);
	}
	CHECK_INT(told_n, 0);
}

TEST(no_free_address_is_a_failure_not_a_denial)
{
	cleanup_world struct world w;
	struct net_addr v4, v6;
	struct answer a;
	char host[32];

	world_init(&w);
	for (unsigned i = 0; i < NAMES_MAX; i++) {
		snprintf(host, sizeof(host), "n%u", i);
		CHECK_INT(names_bind(w.gw.names, host, &v4, &v6), 0);
		names_hold(w.gw.names, host, 1);
	}
	a = ask(&w, "api.example.com", 1);
	CHECK_INT(a.rcode, 2);
	CHECK_INT(told_n, 0);
	names_hold(w.gw.names, "n1", -1);
	a = ask(&w, "api.example.com", 1);
	CHECK_INT(a.an, 1);
}

/* ---- datagrams ---- */

static void stop_ready(void *arg, uint32_t events)
{
	loop_stop(arg);
}

static void stop_late(void *arg)
{
	loop_stop(arg);
}

/* Turn the loop until fd can be read, or its time is up. */
static void serve_until(struct world *w, int fd)
{
	struct watch watch = {0};
	struct timer guard = {0};

	if (loop_watch(w->gw.loop, &watch, fd, EPOLLIN, stop_ready, w->gw.loop) < 0 ||
		loop_timer(w->gw.loop, &guard, GUARD_MS, stop_late, w->gw.loop) < 0)
		abort();
	loop_run(w->gw.loop);
	loop_cancel(&guard);
	loop_unwatch(&watch);
}

static int server(int family, in_port_t *ret_port)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
	struct sockaddr_in a4 = {.sin_family = AF_INET};
	struct sockaddr *a = family == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;
	socklen_t n = family == AF_INET ? sizeof(a4) : sizeof(a6);
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	if ((family == AF_INET6 &&
		    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0) ||
		bind(fd, a, n) < 0 || getsockname(fd, a, &n) < 0) {
		close(fd);
		return -1;
	}
	*ret_port = family == AF_INET ? a4.sin_port : a6.sin6_port;
	return fd;
}

/* A client that hears only the address it asks: what a resolver does. */
static int client(const char *text, in_port_t port)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = port};
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = port};
	bool v4 = inet_pton(AF_INET, text, &a4.sin_addr) == 1;
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (!v4 && inet_pton(AF_INET6, text, &a6.sin6_addr) != 1)
		abort();
	if (fd >= 0 && connect(fd, v4 ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6,
			       v4 ? sizeof(a4) : sizeof(a6)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static struct answer answer_receive(int fd)
{
	struct answer a = {0};
	ssize_t n = recv(fd, a.p, sizeof(a.p), MSG_DONTWAIT);

	a.n = n > 0 ? (size_t)n : 0;
	if (a.n)
		answer_read(&a);
	return a;
}

TEST(the_address_asked_is_the_one_that_answers)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);
	struct err e = ERR_INIT;
	in_port_t port = 0;
	int srv = server(AF_INET, &port);
	cleanup_fd int a_fd = client("127.0.0.1", port), b_fd = client("127.9.8.7", port);
	struct answer a;

	CHECK(srv >= 0 && a_fd >= 0 && b_fd >= 0);
	world_init(&w);
	w.gw.dns = dns_new(&w.gw, srv, -1, &e);
	CHECK(w.gw.dns != NULL);
	CHECK(fcntl(srv, F_GETFL) & O_NONBLOCK);
	put_query(&q, "api.example.com", 1);
	CHECK_INT(send(b_fd, q.data, q.len, 0), q.len);
	serve_until(&w, b_fd);
	a = answer_receive(b_fd);
	CHECK_STR(address(&a), "198.18.1.0");
	CHECK_INT(send(a_fd, q.data, q.len, 0), q.len);
	serve_until(&w, a_fd);
	a = answer_receive(a_fd);
	CHECK_STR(address(&a), "198.18.1.0");
	CHECK_INT(dns_dropped(w.gw.dns), 0);
}

TEST(ipv6_datagrams)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);
	struct err e = ERR_INIT;
	in_port_t port = 0;
	int srv = server(AF_INET6, &port);
	cleanup_fd int fd = srv >= 0 ? client("::1", port) : -1;
	struct answer a;

	world_init(&w);
	if (fd < 0) {
		close_fd(&srv);
		SKIP("no IPv6 loopback");
	}
	w.gw.dns = dns_new(&w.gw, -1, srv, &e);
	CHECK(w.gw.dns != NULL);
	put_query(&q, "api.example.com", 28);
	CHECK_INT(send(fd, q.data, q.len, 0), q.len);
	serve_until(&w, fd);
	a = answer_receive(fd);
	CHECK_STR(address(&a), "fd63:726f:6674::100");
}

TEST(junk_and_answers_get_no_answer_and_do_no_harm)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);
	static const char large[2000];
	struct err e = ERR_INIT;
	in_port_t port = 0;
	int srv = server(AF_INET, &port);
	cleanup_fd int fd = client("127.0.0.1", port);
	struct answer a;

	world_init(&w);
	w.gw.dns = dns_new(&w.gw, srv, -1, &e);
	CHECK(w.gw.dns != NULL);
	CHECK_INT(send(fd, "", 0, 0), 0);
	CHECK_INT(send(fd, "xyz", 3, 0), 3);
	CHECK_INT(send(fd, large, sizeof(large), 0), sizeof(large));
	put_head(&q, 0x8180, 1, 0, 0, 0);
	put_question(&q, "api.example.com", 1, 1);
	CHECK_INT(send(fd, q.data, q.len, 0), q.len);
	q.data[2] = 1;
	CHECK_INT(send(fd, q.data, q.len, 0), q.len);
	serve_until(&w, fd);
	a = answer_receive(fd);
	CHECK_STR(address(&a), "198.18.1.0"); /* the only one that came */
	a = answer_receive(fd);
	CHECK_INT(a.n, 0);
}

TEST(n27_a_flood_is_dropped_and_counted)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096);
	struct err e = ERR_INIT;
	in_port_t port = 0;
	int srv = server(AF_INET, &port);
	cleanup_fd int fd = client("127.0.0.1", port);
	unsigned answers = 0, sent = 0;

	world_init(&w);
	w.gw.dns = dns_new(&w.gw, srv, -1, &e);
	CHECK(w.gw.dns != NULL);
	put_query(&q, "api.example.com", 1);
	/*
	 * In portions that no buffer loses, until some were dropped; a second's worth is more than
	 * enough.
	 */
	while (!dns_dropped(w.gw.dns) && sent < 100 * DNS_RATE_PER_S) {
		for (unsigned i = 0; i < 32; i++, sent++)
			CHECK_INT(send(fd, q.data, q.len, 0), q.len);
		serve_until(&w, fd);
		while (answer_receive(fd).n)
			answers++;
	}
	CHECK(dns_dropped(w.gw.dns) > 0);
	CHECK(answers >= DNS_RATE_PER_S / 2); /* control: up to there all were answered */
}

TEST(sockets_that_are_none_are_refused)
{
	cleanup_world struct world w;
	struct err e = ERR_INIT;
	int p[2];

	world_init(&w);
	CHECK_INT(pipe2(p, O_CLOEXEC), 0);
	CHECK(dns_new(&w.gw, p[0], -1, &e) == NULL);
	CHECK(e.msg[0]);
	CHECK(fcntl(p[0], F_GETFD) >= 0); /* still ours */
	close(p[0]);
	close(p[1]);
	w.gw.dns = dns_new(&w.gw, -1, -1, &e);
	CHECK(w.gw.dns != NULL);
}

/* ---- connections ---- */

static void flow_begin(struct world *w, struct flow *f, int *ret_fd)
{
	struct err e = ERR_INIT;
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) < 0)
		abort();
	w->gw.dns = dns_new(&w->gw, -1, -1, &e);
	*f = (struct flow){.gw = &w->gw, .gen = &w->gen, .fd = s[0], .dest = {.port = 53}};
	*ret_fd = s[1];
	if (!w->gw.dns || !dns_tcp(f))
		abort();
}

static void put_framed(struct buf *b, const struct buf *query)
{
	put_u16(b, (unsigned)query->len);
	buf_add(b, query->data, query->len);
}

/* Turn the loop until the flow ended, or its time is up. */
static void serve_until_end(struct world *w)
{
	struct timer guard = {0};

	if (loop_timer(w->gw.loop, &guard, GUARD_MS, stop_late, w->gw.loop) < 0)
		abort();
	if (!flow_why[0])
		loop_run(w->gw.loop);
	loop_cancel(&guard);
}

/* How many framed answers with this code are in what came; -1 when something does not fit. */
static int framed_answers(int fd, unsigned rcode)
{
	cleanup_buf struct buf got = BUF_INIT(1u << 20);
	size_t at = 0;
	char part[4096];
	int count = 0;
	ssize_t n;

	while ((n = recv(fd, part, sizeof(part), MSG_DONTWAIT)) > 0)
		buf_add(&got, part, (size_t)n);
	while (at < got.len) {
		size_t len = got.len - at < 2 ? SIZE_MAX
					      : (size_t)(uint8_t)got.data[at] << 8 |
							(uint8_t)got.data[at + 1];

		if (len < 12 || len > got.len - at - 2)
			return -1;
		count += ((unsigned)got.data[at + 5] & 15) == rcode;
		at += 2 + len;
	}
	return count;
}

TEST(tcp_pipelined_in_odd_pieces)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096), b = BUF_INIT(1u << 16);
	struct flow f;
	cleanup_fd int fd = -1, mine = -1;
	size_t half;

	world_init(&w);
	flow_begin(&w, &f, &fd);
	mine = f.fd;
	put_query(&q, "api.example.com", 1);
	put_framed(&b, &q);
	put_framed(&b, &q);
	half = q.len + 2 + 1; /* one and half a length */
	CHECK_INT(send(fd, b.data, half, 0), half);
	serve_until(&w, fd);
	CHECK_INT(framed_answers(fd, 0), 1);
	CHECK_STR(flow_why, "");
	CHECK_INT(send(fd, &b.data[half], b.len - half, 0), b.len - half);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	serve_until_end(&w);
	CHECK_INT(framed_answers(fd, 0), 1);
	CHECK_STR(flow_why, "closed");
	CHECK_INT(f.up_b, b.len);
	CHECK(f.down_b > 0);
	CHECK(!f.state && !f.abort);
}

TEST(tcp_has_a_maximum_of_queries)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096), b = BUF_INIT(1u << 16);
	struct flow f;
	cleanup_fd int fd = -1, mine = -1;

	world_init(&w);
	flow_begin(&w, &f, &fd);
	mine = f.fd;
	put_query(&q, "evil.invalid", 1);
	for (unsigned i = 0; i < DNS_TCP_QUERIES_MAX + 10; i++)
		put_framed(&b, &q);
	CHECK_INT(send(fd, b.data, b.len, 0), b.len);
	serve_until_end(&w);
	CHECK_INT(framed_answers(fd, 3), DNS_TCP_QUERIES_MAX);
	CHECK_STR(flow_why, "as many queries as one connection may have");
}

static const char *tcp_end_of(const void *p, size_t n)
{
	cleanup_world struct world w;
	struct flow f;
	cleanup_fd int fd = -1, mine = -1;

	world_init(&w);
	flow_begin(&w, &f, &fd);
	mine = f.fd;
	if (send(fd, p, n, 0) != (ssize_t)n)
		abort();
	serve_until_end(&w);
	if (!flow_why[0] && f.abort)
		f.abort(&f);
	return flow_why;
}

TEST(tcp_ends_on_what_is_no_query)
{
	CHECK_STR(tcp_end_of("\xff\xff", 2), "query too long");
	CHECK_STR(tcp_end_of("\x10\x01", 2), "query too long");
	CHECK_STR(tcp_end_of("\0\0", 2), "not a query, or too many");
	CHECK_STR(
		tcp_end_of("\0\014\xbe\xef\x81\0\0\0\0\0\0\0\0\0", 14), "not a query, or too many");
}

TEST(tcp_abort_and_policy_change)
{
	cleanup_world struct world w;
	struct flow f;
	cleanup_fd int fd = -1, mine = -1;

	world_init(&w);
	flow_begin(&w, &f, &fd);
	mine = f.fd;
	CHECK(f.still && f.still(&f, &w.policy));
	CHECK(f.timer.slot != 0); /* idle ones are ended */
	CHECK(f.timer.at_ms - loop_now_ms(w.gw.loop) == DNS_TCP_IDLE_MS);
	f.abort(&f);
	CHECK_STR(flow_why, "ended by the gateway");
	CHECK(f.timer.slot == 0 && !f.watch.loop);
}

TEST(tcp_does_not_read_while_answers_wait)
{
	cleanup_world struct world w;
	cleanup_buf struct buf q = BUF_INIT(4096), b = BUF_INIT(1u << 16);
	struct flow f;
	cleanup_fd int fd = -1, mine = -1;
	int small = 1;

	world_init(&w);
	flow_begin(&w, &f, &fd);
	mine = f.fd;
	CHECK_INT(setsockopt(mine, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	put_query(&q, "evil.invalid", 1);
	for (unsigned i = 0; i < DNS_TCP_QUERIES_MAX; i++)
		put_framed(&b, &q);
	CHECK_INT(send(fd, b.data, b.len, 0), b.len);
	serve_until(&w, fd);
	CHECK_STR(flow_why, "");
	CHECK_INT(f.watch.events, EPOLLOUT);
	for (int total = 0; total < (int)DNS_TCP_QUERIES_MAX && !flow_why[0];) {
		char part[4096];

		while (recv(fd, part, sizeof(part), MSG_DONTWAIT) > 0)
			total++;
		serve_until(&w, fd);
	}
	CHECK_STR(flow_why, "as many queries as one connection may have");
}
