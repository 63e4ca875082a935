/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox without a network: its lookups are refused and recorded here, and no gateway is started.
 *
 * Purpose: the namespace has only `lo`. Its resolver is one UDP socket on 127.0.0.1:53, made during
 *          set-up and held by us. Every name is answered with "no such name" at once, and is a denial
 *          of the receipt. An address has no route: connect() fails at once, and the namespace counts
 *          it, so that the receipt can say how often that was. The process tier has no namespace:
 *          there the broker refuses connections and datagram sockets, and tells us.
 * Why:     with nobody to answer, programs see a temporary failure and try again. Some try again
 *          whatever the error is (npm for 71 s), and only an HTTP answer would stop them, for which
 *          the gateway and its TLS would be needed. These are told by their own settings not to.
 * Trust:   queries are hostile; net/dns/dns_message.h reads them. Nothing is asked anywhere.
 *          So is what the broker says: an address counts only if it can be parsed.
 * Limits:  BATCH queries in one turn of the loop; NETWORK_DENIALS_MAX names and addresses are kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/net/network_impl.h"
#include "net/dns/dns_message.h"
#include "os/tproxy.h"

#define BATCH 32
#define TTL_S 60
#define SNMP_MAX_B 16384
#define ANY_HOST "--allow-host HOST, with the name or address that is wanted"

/* ---- the command's environment ---- */

/*
 * How often a program tries again what cannot succeed: its own variable for that. A variable that
 * policy or caller set stays. Sources: the programs' own documentation of configuration.
 */
static const struct {
	const char *name, *value;
} patience[] = {
	{"npm_config_fetch_retries", "0"}, /* npm, pnpm: retry every error but an HTTP answer */
	{"PIP_RETRIES", "0"},
	{"CARGO_NET_RETRY", "0"},
	{"UV_HTTP_RETRIES", "0"},
	{"YARN_HTTP_RETRY", "0"},
	{"POETRY_REQUESTS_MAX_RETRIES", "0"},
};

/*
 * apt has no variable of its own for it, but for the name of a file. One that is there already is left as
 * it is: another command of the same sandbox made it, or changed it for itself.
 */
bool network_tell_apt(const char *dir, unsigned retries, struct strlist *env)
{
	char path[PATH_MAX], text[64];
	cleanup_fd int fd = -1;
	int n = snprintf(text, sizeof(text), "Acquire::Retries \"%u\";\n", retries);

	if (!network_has_apt() || !dir[0])
		return true;
	if (snprintf(path, sizeof(path), "%s/apt.conf", dir) >= (int)sizeof(path))
		return false;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 ? errno != EEXIST : write(fd, text, (size_t)n) != n)
		return false;
	return network_env_default(env, "APT_CONFIG", path);
}

bool network_closed_environ(const struct network *n, const char *dir, struct strlist *env)
{
	for (size_t i = 0; i < ARRAY_SIZE(patience); i++)
		if (!network_env_default(env, patience[i].name, patience[i].value))
			return false;
	if (!network_own(n))
		return network_tell_apt(dir, 0, env);
	return !network_has_apt() || network_env_default(env, "APT_CONFIG", CLOSED_APT_CONF);
}

/* ---- lookups ---- */

static void record(struct network *n, const char *host, uint32_t port, const char *method,
	const char *why, const char *fix, uint64_t count)
{
	struct gateway_msg m = {.type = GATEWAY_DENIAL, .port = port, .count = count};

	snprintf(m.host, sizeof(m.host), "%.*s", (int)sizeof(m.host) - 1, host);
	snprintf(m.method, sizeof(m.method), "%s", method);
	snprintf(m.text, sizeof(m.text), "%s", why);
	snprintf(m.fix, sizeof(m.fix), "%s", fix);
	network_denied(n, &m);
}

static bool own_name(const struct dns_query *q, struct dns_answer *ret)
{
	if (!str_eq(q->name, "localhost") && !str_ends(q->name, ".localhost"))
		return false;
	if (q->type == DNS_A)
		*ret = (struct dns_answer){
			.type = DNS_A, .addr = {.b = {127, 0, 0, 1}}, .ttl_s = TTL_S};
	else if (q->type == DNS_AAAA)
		*ret = (struct dns_answer){
			.type = DNS_AAAA, .addr = {.v6 = true, .b = {[15] = 1}}, .ttl_s = TTL_S};
	return true;
}

static void judge(struct network *n, const struct dns_query *q, struct dns_answer *ret)
{
	const char *name = q->name[0] ? q->name : q->text;
	char fix[NET_FIX_MAX];

	if (q->wire_len == 1 || own_name(q, ret))
		return;
	ret->rcode = DNS_NXDOMAIN;
	if (dns_is_reverse(q->name))
		return; /* programs ask for the names of addresses unbidden */
	net_fix_host(fix, name, 0);
	record(n, name, 53, "DNS", "this sandbox has no network", fix, 1);
}

void network_closed_serve(struct network *n)
{
	for (int i = 0; i < BATCH; i++) {
		uint8_t in[DNS_ANSWER_MAX_B], out[DNS_ANSWER_MAX_B];
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		struct dns_answer a = {0};
		struct dns_query q;
		ssize_t got = recvfrom(n->refuser, in, sizeof(in), MSG_DONTWAIT | MSG_TRUNC,
			(struct sockaddr *)&from, &len);
		int r;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return;
		if ((size_t)got > sizeof(in) || (r = dns_query_parse(&q, in, (size_t)got)) < 0)
			continue;
		if (r > 0)
			a.rcode = (enum dns_rcode)r;
		else
			judge(n, &q, &a);
		got = (ssize_t)dns_answer_write(out, &q, &a, dns_udp_limit(&q));
		if (got > 0)
			(void)!sendto(n->refuser, out, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL,
				(struct sockaddr *)&from, len);
	}
}

/* ---- addresses ---- */

static uint64_t no_routes(struct network *n)
{
	static const char *const names[] = {"Ip:", "Ip6OutNoRoutes"};
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		char text[SNMP_MAX_B];
		ssize_t len =
			n->counters[i] < 0 ? -1 : pread(n->counters[i], text, sizeof(text) - 1, 0);
		const char *at;

		if (len <= 0)
			continue;
		text[len] = '\0';
		if (i == 0)
			sum += network_counter(text, names[i], "OutNoRoutes");
		else if ((at = strstr(text, names[i])))
			sum += strtoull(at + strlen(names[i]), NULL, 10);
	}
	return sum;
}

static void record_address(struct network *n, const struct net_addr *a, uint16_t port)
{
	static const struct net_policy nothing;
	cleanup_buf struct buf host = BUF_INIT(64);
	struct net_dest d = {.addr = *a, .port = port};
	struct net_verdict v;
	char why[512];

	net_addr_show(&host, a);
	net_decide_connect(&nothing, &d, &v);
	snprintf(why, sizeof(why), "this sandbox has no network; %s", v.why);
	record(n, buf_str(&host), port, "CONNECT", why, v.fix, 1);
}

void network_notice(struct network *n, const struct notice *from)
{
	static const struct {
		const char *what, *host, *method, *why;
	} unknown[] = {
		{NOTICE_NO_DATAGRAMS, "(datagrams)", "UDP",
			"this sandbox has no network, and a socket for datagrams was refused: a "
			"lookup, for instance. What it was for is not known, since nothing was "
			"sent"},
		{NOTICE_NO_STREAMS, "(connections)", "TCP",
			"this sandbox has no network, and a socket for connections was refused. "
			"What it was for is not known, since nothing was sent"},
		{NOTICE_NO_SIGHT, "(addresses)", "CONNECT",
			"this sandbox has no network, and a program tried to connect that does not "
			"let its memory be read, where the address is"},
	};
	struct net_addr a;

	if (n->policy || network_own(n))
		return; /* nobody asked for such notices */
	n->denials_lost += from->lost;
	if (from->port <= UINT16_MAX && net_addr_parse(&a, from->path, from->path_len))
		record_address(n, &a, (uint16_t)from->port);
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		if (str_eq(from->path, unknown[i].what))
			record(n, unknown[i].host, 0, unknown[i].method, unknown[i].why, ANY_HOST,
				1);
}

void network_closed_finish(struct network *n)
{
	uint64_t count;

	if (n->refuser >= 0)
		network_closed_serve(n); /* what was asked last */
	close_fd(&n->refuser);
	count = no_routes(n);
	if (count)
		record(n, "(addresses)", 0, "CONNECT",
			"connections and datagrams to addresses outside: this sandbox has no "
			"network, and does not see which they were",
			ANY_HOST, count);
}
