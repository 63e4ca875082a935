/* SPDX-License-Identifier: Apache-2.0 */
/* net/receivers: who was given a secret is remembered, whatever policy comes after. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "net/reach/receivers.h"

static bool add(struct receivers *r, const char *host)
{
	cleanup_buf struct buf text = BUF_INIT(4096);
	struct net_policy *p = NULL;
	struct err e = ERR_INIT;

	buf_addf(&text, "version: 1\nnetwork:\n  allow: [\"%s\"]\n", host ? host : "x.example");
	if (host)
		buf_addf(&text,
			"  secrets:\n    - {name: TOKEN, host: \"%s\", paths: [/a], place: "
			"bearer}\n",
			host);
	if (policy_network_parse(&p, buf_str(&text), text.len, &e) < 0)
		return false;
	receivers_add(r, p);
	policy_network_free(p);
	return true;
}

TEST(hosts_stay_after_a_policy_without_them)
{
	struct receivers r = {0};

	CHECK(!receivers_has(&r, "a.example"));
	CHECK(add(&r, "a.example") && add(&r, "*.b.example") && add(&r, NULL));
	CHECK(add(&r, "a.example"));
	CHECK_INT(r.n, 2);
	CHECK(receivers_has(&r, "a.example") && receivers_has(&r, "x.b.example"));
	CHECK(!receivers_has(&r, "b.example") && !receivers_has(&r, "x.example"));
	receivers_done(&r);
}

TEST(without_room_every_host_counts)
{
	struct receivers r = {0};
	char host[32];

	for (unsigned i = 0; i < RECEIVERS_MAX; i++) {
		snprintf(host, sizeof(host), "h%u.example", i);
		CHECK(add(&r, host));
	}
	CHECK(!receivers_has(&r, "other.example"));
	CHECK(add(&r, "more.example"));
	CHECK(receivers_has(&r, "other.example"));
	receivers_done(&r);
}
