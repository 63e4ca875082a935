/* SPDX-License-Identifier: Apache-2.0 */
/* net/tally: what the supervisor hears, how often, and where it ends. */
#include "test.h"

#include "net/gateway/netlog.h"
#include "net/gateway/tally.h"

struct heard {
	int denials, hosts, done, room;
	uint64_t repeated;
	struct gateway_msg last_host, last_done;
};

static bool hear(void *arg, struct gateway_msg *m)
{
	struct heard *h = arg;

	if (h->room-- <= 0)
		return false;
	if (m->type == GATEWAY_DENIAL) {
		h->denials++;
		h->repeated += m->count;
	} else if (m->type == GATEWAY_HOST) {
		h->hosts++;
		h->last_host = *m;
	} else if (m->type == GATEWAY_DONE) {
		h->done++;
		h->last_done = *m;
	}
	return true;
}

static uint64_t now_ms;

static enum tally_news deny(
	struct tally *t, const char *host, const char *path, struct gateway_msg *m)
{
	struct net_verdict v = {.why = "no rule", .fix = "a rule"};
	struct tally_denial key = {
		.host = host, .port = 443, .method = "GET", .path = path, .rule = ""};

	return tally_denied(t, &key, &v, 403, now_ms, m);
}

TEST(a_refusal_is_told_once_and_counted)
{
	struct heard h = {.room = 100};
	struct gateway_msg m;
	struct tally t = {0};

	CHECK(deny(&t, "a.com", "/x", &m));
	CHECK_INT(m.id, 1);
	CHECK_STR(m.host, "a.com");
	CHECK_STR(m.text, "no rule");
	CHECK_STR(m.fix, "a rule");
	CHECK(!deny(&t, "a.com", "/x", &m));
	CHECK(!deny(&t, "a.com", "/x", &m));
	CHECK(deny(&t, "a.com", "/y", &m)); /* another path is another refusal */
	CHECK_INT(m.id, 2);
	tally_tell(&t, &(struct gateway_msg){.type = GATEWAY_DONE}, hear, &h);
	CHECK_INT(h.denials, 1); /* the one whose count is news */
	CHECK_INT(h.repeated, 3);
	CHECK_INT(h.done, 1);
	tally_done(&t);
}

TEST(a_refusal_that_happens_again_is_told_again_in_bounds)
{
	struct gateway_msg m;
	struct tally t = {0};
	char path[32];
	int again = 0;

	now_ms = 1000;
	CHECK_INT(deny(&t, "a.com", "/x", &m), TALLY_FIRST);
	CHECK_INT(deny(&t, "a.com", "/x", &m), TALLY_KNOWN);
	now_ms += TALLY_AGAIN_MS;
	CHECK_INT(deny(&t, "a.com", "/x", &m), TALLY_AGAIN);
	CHECK_INT(m.count, 3);
	CHECK_INT(m.id, 1);
	CHECK_INT(deny(&t, "a.com", "/x", &m), TALLY_KNOWN);
	for (int round = 0; round < 2; round++) {
		now_ms += 1000;
		for (int i = 0; i < 1000; i++) {
			snprintf(path, sizeof(path), "/%d", i);
			again += deny(&t, "a.com", path, &m) == TALLY_AGAIN;
		}
	}
	CHECK_INT(again, TALLY_AGAIN_MAX);
	tally_done(&t);
	now_ms = 0;
}

TEST(a_flood_of_refusals_is_bounded_and_the_rest_counted)
{
	struct heard h = {.room = 10000};
	struct gateway_msg m;
	struct tally t = {0};
	char path[32];
	int told = 0;

	for (int i = 0; i < 5000; i++) {
		snprintf(path, sizeof(path), "/%d", i);
		told += deny(&t, "a.com", path, &m) == TALLY_FIRST;
	}
	CHECK_INT(told, NETLOG_DENIALS_MAX);
	tally_tell(&t, &(struct gateway_msg){.type = GATEWAY_DONE}, hear, &h);
	CHECK_INT(h.last_done.count, 5000 - NETLOG_DENIALS_MAX);
	tally_done(&t);
}

TEST(text_from_inside_is_made_printable_and_fits)
{
	struct gateway_msg m;
	struct tally t = {0};
	char longest[4000];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CHECK(deny(&t, "a\033[2J\n", longest, &m));
	CHECK_STR(m.host, "a\\x1b[2J\\x0a");
	CHECK_INT(strlen(m.path), sizeof(m.path) - 1);
	tally_done(&t);
}

TEST(hosts_are_summed_by_rule_and_the_last_place_is_for_the_others)
{
	struct heard h = {.room = 10000};
	struct tally t = {0};
	char host[32];

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < 1000; i++) {
			snprintf(host, sizeof(host), "h%d.com", i);
			tally_host(&t, &(struct tally_use){.host = host,
					       .port = 443,
					       .rule = "r",
					       .mode = NET_HTTP,
					       .requests = 1,
					       .up_b = 10});
		}
	tally_tell(&t, &(struct gateway_msg){.type = GATEWAY_DONE}, hear, &h);
	CHECK_INT(h.hosts, NETLOG_HOSTS_MAX);
	CHECK_STR(h.last_host.host, "(others)");
	CHECK_INT(h.last_host.count, 2 * (1000 - (NETLOG_HOSTS_MAX - 1)));
	CHECK_INT(h.last_done.up_b, 20000);
	tally_done(&t);
}
