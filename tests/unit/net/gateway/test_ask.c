/* SPDX-License-Identifier: Apache-2.0 */
/* net/ask: who waits for whom, what is remembered, and that silence means no. */
#include "test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/gateway/ask.h"
#include "net/io/outbox.h"

struct world {
	struct gateway g;
	struct generation gen;
	struct net_policy policy;
	int control[2];
	int answers, allowed;
};

static void begin(struct world *w, uint64_t timeout_ms)
{
	struct err e = ERR_INIT;

	*w = (struct world){.policy = {.ask_timeout_ms = timeout_ms}};
	w->gen = (struct generation){.policy = &w->policy, .number = 1, .refs = 1};
	w->g = (struct gateway){.loop = loop_new(&e), .gen = &w->gen};
	w->g.outbox = outbox_new();
	w->g.asks = asks_new(&w->g);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, w->control) == 0)
		w->g.control = w->control[0];
}

static void end(struct world *w)
{
	asks_free(w->g.asks);
	outbox_free(w->g.outbox);
	loop_free(w->g.loop);
	close(w->control[0]);
	close(w->control[1]);
}

static struct flow flow_to(struct world *w, const char *host)
{
	struct flow f = {.gw = &w->g, .dest = {.port = 443}};

	snprintf(f.host, sizeof(f.host), "%s", host);
	f.dest.host = "";
	return f;
}

static void answered(void *arg, enum net_effect e)
{
	struct world *w = arg;

	w->answers++;
	w->allowed += e == NET_ALLOW;
}

static void stop(void *arg)
{
	loop_stop(arg);
}

static void run(struct world *w, uint64_t ms)
{
	struct timer t = {0};

	loop_timer(w->g.loop, &t, ms, stop, w->g.loop);
	loop_run(w->g.loop);
}

/* How many questions the supervisor got; the id of the last. */
static int questions(struct world *w, uint64_t *ret_id)
{
	int fds[GATEWAY_FD_NUM], n = 0;
	struct gateway_msg m;

	while (gateway_receive(w->control[1], &m, fds) == 1)
		if (m.type == GATEWAY_ASK) {
			n++;
			*ret_id = m.id;
		}
	return n;
}

TEST(equal_questions_share_one_answer)
{
	struct world w;
	uint64_t id = 0;

	begin(&w, 1000);
	struct flow f = flow_to(&w, "a.com"), other = flow_to(&w, "b.com");

	CHECK(ask_start(&f, "CONNECT", "", answered, &w) &&
		ask_start(&f, "CONNECT", "", answered, &w));
	CHECK_INT(questions(&w, &id), 1);
	CHECK(ask_start(&other, "CONNECT", "", answered, &w) != NULL);
	CHECK_INT(w.answers, 0);
	asks_verdict(w.g.asks, id, NET_ALLOW, 0);
	CHECK_INT(w.answers, 2);
	CHECK_INT(w.allowed, 2);
	end(&w);
}

TEST(this_once_is_once_and_a_time_is_a_time)
{
	struct world w;
	uint64_t id = 0;

	begin(&w, 1000);
	struct flow f = flow_to(&w, "a.com"), other = flow_to(&w, "b.com");

	ask_start(&f, "CONNECT", "", answered, &w);
	questions(&w, &id);
	asks_verdict(w.g.asks, id, NET_ALLOW, 0);
	ask_start(&f, "CONNECT", "", answered, &w);
	CHECK_INT(questions(&w, &id), 1); /* asked again */
	asks_verdict(w.g.asks, id, NET_ALLOW, 60000);
	CHECK_INT(w.allowed, 2);
	ask_start(&f, "GET", "/", answered, &w);
	CHECK_INT(w.allowed, 2); /* never from within */
	run(&w, 2);
	CHECK_INT(questions(&w, &id), 0);
	CHECK_INT(w.allowed, 3);
	ask_start(&other, "GET", "/", answered, &w); /* it was for the other host */
	CHECK_INT(questions(&w, &id), 1);
	end(&w);
}

TEST(silence_and_nonsense_mean_no)
{
	struct world w;
	uint64_t id = 0;

	begin(&w, 5);
	struct flow f = flow_to(&w, "a.com");

	ask_start(&f, "CONNECT", "", answered, &w);
	run(&w, 15);
	CHECK_INT(w.answers, 1);
	CHECK_INT(w.allowed, 0);
	CHECK_INT(questions(&w, &id), 1);
	asks_verdict(w.g.asks, id, NET_ALLOW, 0); /* too late */
	CHECK_INT(w.answers, 1);
	ask_start(&f, "CONNECT", "", answered, &w);
	questions(&w, &id);
	asks_verdict(w.g.asks, id + 7, NET_ALLOW, 0);
	CHECK_INT(w.answers, 1);
	asks_verdict(w.g.asks, id, NET_ASK, 0);
	CHECK_INT(w.answers, 2);
	CHECK_INT(w.allowed, 0);
	end(&w);
}

TEST(a_flood_is_denied_without_asking)
{
	struct world w;
	uint64_t id = 0;
	char host[32];

	begin(&w, 60000);
	for (int i = 0; i < ASKS_MAX + 10; i++) {
		snprintf(host, sizeof(host), "h%d.com", i);
		struct flow f = flow_to(&w, host);

		CHECK(ask_start(&f, "CONNECT", "", answered, &w) != NULL);
	}
	run(&w, 2);
	CHECK_INT(w.answers, 10);
	CHECK_INT(w.allowed, 0);
	for (int n; (n = questions(&w, &id)) > 0;) /* what did not fit waits in the outbox */
		outbox_flush(w.g.outbox, w.g.control);
	CHECK_INT(id, ASKS_MAX);
	for (uint64_t i = 1; i <= ASKS_MAX; i++)
		asks_verdict(w.g.asks, i, NET_DENY, 0);
	CHECK_INT(w.answers, ASKS_MAX + 10);
	end(&w);
}

TEST(who_cancels_hears_nothing)
{
	struct world w;
	struct ask *a;
	uint64_t id = 0;

	begin(&w, 1000);
	struct flow f = flow_to(&w, "a.com");

	a = ask_start(&f, "CONNECT", "", answered, &w);
	ask_cancel(a);
	questions(&w, &id);
	asks_verdict(w.g.asks, id, NET_ALLOW, 0);
	run(&w, 2);
	CHECK_INT(w.answers, 0);
	end(&w);
}

TEST(an_answer_that_lasts_is_known_after_it_was_put_away)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct world w, next;
	struct unpack u;
	uint64_t id = 0;

	begin(&w, 1000);
	struct flow f = flow_to(&w, "a.com");

	CHECK(ask_start(&f, "CONNECT", "", answered, &w) != NULL);
	CHECK(asks_waiting(w.g.asks));
	CHECK_INT(questions(&w, &id), 1);
	asks_verdict(w.g.asks, id, NET_ALLOW, 60000);
	CHECK(!asks_waiting(w.g.asks));
	asks_pack(w.g.asks, &b);
	end(&w);

	begin(&next, 1000);
	u = unpack_of(b.data, b.len);
	CHECK(asks_unpack(next.g.asks, &u) && unpack_good(&u));
	struct flow known = flow_to(&next, "a.com"), other = flow_to(&next, "b.com");

	CHECK(ask_start(&known, "CONNECT", "", answered, &next) != NULL);
	CHECK(ask_start(&other, "CONNECT", "", answered, &next) != NULL);
	run(&next, 2);
	CHECK_INT(next.allowed, 1);
	CHECK_INT(questions(&next, &id), 1);
	CHECK_INT(id, 2); /* no number is given twice */
	end(&next);
}
