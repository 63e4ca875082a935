/* SPDX-License-Identifier: Apache-2.0 */
/* net/splice: every byte, both ends, and no more than is taken. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/gateway/ask.h"
#include "net/gateway/netlog.h"
#include "net/io/outbox.h"
#include "net/io/splice.h"
#include "net/gateway/usage.h"

#define BULK_B (6u << 20)

/* As much of a gateway as a relay meets, and the two peers: [0] the sandbox's, [1] the server's. */
struct world {
	struct gateway g;
	struct generation gen;
	struct net_policy policy;
	struct net_rule rule;
	int control[2], peer[2];
	struct flow *f;
};

static bool tcp_pair(int fd[2])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (l < 0 || fd[0] < 0 || bind(l, (struct sockaddr *)&a, len) < 0 || listen(l, 1) < 0 ||
		getsockname(l, (struct sockaddr *)&a, &len) < 0 ||
		connect(fd[0], (struct sockaddr *)&a, len) < 0)
		return false;
	fd[1] = accept(l, NULL, NULL);
	close(l);
	for (int i = 0; i < 2; i++)
		fcntl(fd[i], F_SETFL, O_NONBLOCK);
	return fd[1] >= 0;
}

static bool unix_pair(int fd[2])
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0;
}

static bool world_begin(struct world *w, bool (*pair)(int fd[2]), struct net_limits limits)
{
	struct err e = ERR_INIT;
	int inner[2], outer[2];

	signal(SIGPIPE, SIG_IGN);
	*w = (struct world){.rule = {.name = "r", .limits = limits}};
	w->gen = (struct generation){.policy = &w->policy, .number = 1, .refs = 1000};
	w->g = (struct gateway){
		.loop = loop_new(&e), .keeper = -1, .journal_fd = -1, .gen = &w->gen};
	w->g.netlog = netlog_new(&w->g);
	w->g.usage = usage_new();
	w->g.asks = asks_new(&w->g);
	w->g.pipes = splice_pool_new();
	w->g.outbox = outbox_new();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, w->control) < 0 ||
		!pair(inner) || !pair(outer))
		return false;
	w->g.control = w->control[0];
	w->f = flow_new(&w->g, inner[1]);
	if (!w->f)
		return false;
	w->f->rule = &w->rule;
	w->f->judged = true;
	w->peer[0] = inner[0];
	w->peer[1] = outer[0];
	splice_start(w->f, outer[1]);
	return true;
}

static void world_end(struct world *w)
{
	while (w->g.flows)
		flow_abort(w->g.flows, "test");
	loop_free(w->g.loop);
	netlog_free(w->g.netlog);
	usage_free(w->g.usage);
	asks_free(w->g.asks);
	splice_pool_free(w->g.pipes);
	outbox_free(w->g.outbox);
	for (int i = 0; i < 2; i++) {
		close_fd(&w->peer[i]);
		close(w->control[i]);
	}
}

static void stop(void *arg)
{
	loop_stop(arg);
}

/* Let the loop do what it can for a moment. */
static void settle(struct world *w)
{
	struct timer t = {0};

	loop_timer(w->g.loop, &t, 3, stop, w->g.loop);
	loop_run(w->g.loop);
	loop_cancel(&t);
}

static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

/* Send n bytes from one peer to the other, running the loop between; how many arrived in order. */
static size_t carry(struct world *w, int from, size_t n)
{
	unsigned char *out = malloc(n), in[65536];
	size_t sent = 0, got = 0;
	int idle = 0;

	for (size_t i = 0; i < n; i++)
		out[i] = pattern(i);
	while (got < n && idle < 200) {
		ssize_t s = sent < n ? send(w->peer[from], out + sent, n - sent, MSG_NOSIGNAL) : 0,
			r;

		sent += s > 0 ? (size_t)s : 0;
		settle(w);
		idle++;
		while ((r = recv(w->peer[!from], in, sizeof(in), 0)) > 0) {
			for (ssize_t i = 0; i < r; i++, got++)
				if (in[i] != pattern(got)) {
					free(out);
					return got;
				}
			idle = 0;
		}
	}
	free(out);
	return got;
}

TEST(small_pieces_go_both_ways)
{
	struct world w;
	char b[16];

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	CHECK_INT(write(w.peer[0], "ping", 4), 4);
	settle(&w);
	CHECK_INT(read(w.peer[1], b, sizeof(b)), 4);
	CHECK_INT(write(w.peer[1], "pong!", 5), 5);
	settle(&w);
	CHECK_INT(read(w.peer[0], b, sizeof(b)), 5);
	CHECK_INT(w.f->up_b, 4);
	CHECK_INT(w.f->down_b, 5);
	world_end(&w);
}

TEST(bulk_arrives_whole_and_in_order)
{
	struct world w;

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	CHECK_INT(carry(&w, 0, BULK_B), BULK_B);
	CHECK_INT(carry(&w, 1, BULK_B), BULK_B);
	CHECK_INT(w.f->up_b, BULK_B);
	world_end(&w);
	CHECK(world_begin(&w, unix_pair, (struct net_limits){0}));
	CHECK_INT(carry(&w, 1, BULK_B), BULK_B);
	world_end(&w);
}

/* Without descriptors for pipes bytes are copied. */
TEST(bulk_arrives_when_there_are_no_pipes)
{
	struct rlimit old, none;
	struct world w;
	int last;

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	getrlimit(RLIMIT_NOFILE, &old);
	last = dup(0);
	close(last);
	none = (struct rlimit){.rlim_cur = (rlim_t)last, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	CHECK_INT(dup(0), -1); /* the control: none can be had */
	CHECK_INT(carry(&w, 0, BULK_B), BULK_B);
	setrlimit(RLIMIT_NOFILE, &old);
	world_end(&w);
}

/*
 * Reading stops at urgent data; what follows must come all the same. The urgent byte itself does
 * not.
 */
TEST(urgent_data_do_not_stall)
{
	struct world w;
	char b[16];

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	settle(&w);
	CHECK(send(w.peer[0], "abc", 3, 0) == 3 && send(w.peer[0], "!", 1, MSG_OOB) == 1);
	CHECK_INT(send(w.peer[0], "def", 3, 0), 3);
	settle(&w);
	CHECK_INT(recv(w.peer[1], b, sizeof(b), 0), 6);
	CHECK(memcmp(b, "abcdef", 6) == 0);
	world_end(&w);
}

TEST(what_came_before_an_end_is_not_forgotten)
{
	struct world w;
	char b[16];

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	settle(&w);
	CHECK_INT(write(w.peer[1], "bye", 3), 3);
	close_fd(&w.peer[1]); /* data and end in one event */
	settle(&w);
	CHECK_INT(read(w.peer[0], b, sizeof(b)), 3);
	CHECK_INT(read(w.peer[0], b, sizeof(b)), 0);
	close_fd(&w.peer[0]);
	settle(&w);
	CHECK_INT(w.g.flows_n, 0);
	world_end(&w);
}

TEST(half_a_close_is_half_a_close)
{
	struct world w;
	char b[16];

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	CHECK_INT(write(w.peer[0], "last", 4), 4);
	shutdown(w.peer[0], SHUT_WR);
	settle(&w);
	CHECK_INT(read(w.peer[1], b, sizeof(b)), 4);
	CHECK_INT(read(w.peer[1], b, sizeof(b)), 0);
	CHECK(w.f->drained(w.f));
	CHECK_INT(write(w.peer[1], "answer", 6), 6); /* the other way is open */
	settle(&w);
	CHECK_INT(read(w.peer[0], b, sizeof(b)), 6);
	CHECK_INT(w.g.flows_n, 1);
	shutdown(w.peer[1], SHUT_WR);
	settle(&w);
	CHECK_INT(read(w.peer[0], b, sizeof(b)), 0);
	CHECK_INT(w.g.flows_n, 0);
	world_end(&w);
}

/* A receiver that does not read stops the sender; the gateway holds no more than a pipe. */
TEST(a_slow_receiver_holds_the_sender_back)
{
	struct world w;
	static char block[65536];
	size_t sent = 0;
	ssize_t n;

	CHECK(world_begin(&w, unix_pair, (struct net_limits){0}));
	for (int i = 0; i < 400; i++) {
		while ((n = send(w.peer[0], block, sizeof(block), MSG_NOSIGNAL)) > 0)
			sent += (size_t)n;
		settle(&w);
	}
	CHECK(sent > 0);
	CHECK(sent < (8u << 20));
	CHECK_INT(w.g.flows_n, 1);
	/* and goes on when it reads */
	while ((n = recv(w.peer[1], block, sizeof(block), 0)) > 0)
		;
	settle(&w);
	CHECK(recv(w.peer[1], block, sizeof(block), 0) > 0);
	world_end(&w);
}

TEST(a_reset_is_passed_on)
{
	struct world w;
	char b;

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	settle(&w);
	flow_reset_on_close(w.peer[1]);
	close_fd(&w.peer[1]);
	settle(&w);
	CHECK_INT(w.g.flows_n, 0);
	CHECK_INT(read(w.peer[0], &b, 1), -1);
	CHECK_INT(errno, ECONNRESET);
	world_end(&w);
}

TEST(the_rules_bytes_end_it)
{
	struct world w;

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){.up_b = 100000}));
	CHECK(carry(&w, 0, 90000) == 90000);
	CHECK_INT(w.g.flows_n, 1);
	CHECK(carry(&w, 0, 20000) < 20000);
	CHECK_INT(w.g.flows_n, 0);
	world_end(&w);
	/* the control: without the limit the same passes */
	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	CHECK(carry(&w, 0, 90000) == 90000 && carry(&w, 0, 20000) == 20000);
	world_end(&w);
}

TEST(an_aborted_relay_closes_both_sides)
{
	struct world w;
	char b;

	CHECK(world_begin(&w, tcp_pair, (struct net_limits){0}));
	settle(&w);
	flow_abort(w.f, "revoked");
	settle(&w);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(read(w.peer[i], &b, 1), -1);
		CHECK_INT(errno, ECONNRESET);
	}
	CHECK_INT(w.g.flows_n, 0);
	world_end(&w);
}
