/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that knows nothing of proxies, resolvers or trust: system calls only, as a static binary
 * of any language would make them. One act per first argument; prints what happened and exits 0
 * unless misused.
 *
 * net_dial tcp ADDRESS PORT TEXT     connect, send TEXT and a newline, print what comes back
 * net_dial dns SERVER NAME           ask for A over UDP, print the response code and the first
 * address net_dial options                   socket options that would lead around a capturing rule
 * net_dial netlink                   try to remove routes and rules of the namespace net_dial hold
 * ADDRESS PORT COUNT   open that many connections, say "ready N", wait for the end of stdin
 * net_dial bulk ADDRESS PORT BYTES   send that many bytes, print nanoseconds from connect to the
 * peer's end
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S 10
#define BULK_B (256u << 10)
#define NAME_MAX_B 253u

static const char *error_name(int e)
{
	static const struct {
		int e;
		const char *name;
	} known[] = {{ECONNREFUSED, "ECONNREFUSED"}, {ECONNRESET, "ECONNRESET"}, {EACCES, "EACCES"},
		{EPERM, "EPERM"}, {ENETUNREACH, "ENETUNREACH"}, {EHOSTUNREACH, "EHOSTUNREACH"},
		{EAGAIN, "EAGAIN"}, {ETIMEDOUT, "ETIMEDOUT"}, {EPIPE, "EPIPE"}, {EMFILE, "EMFILE"},
		{ESRCH, "ESRCH"}, {EAFNOSUPPORT, "EAFNOSUPPORT"}, {EINPROGRESS, "EINPROGRESS"},
		{EADDRNOTAVAIL, "EADDRNOTAVAIL"}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].e == e)
			return known[i].name;
	return "other";
}

static socklen_t parse(const char *text, const char *port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)atoi(port));
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)atoi(port));
		return sizeof(*v6);
	}
	fprintf(stderr, "net_dial: %s is not an address\n", text);
	exit(2);
}

static int dial(const char *address, const char *port, int type)
{
	struct sockaddr_storage ss;
	socklen_t n = parse(address, port, &ss);
	struct timeval wait = {.tv_sec = WAIT_S};
	int fd = socket(ss.ss_family, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, (struct sockaddr *)&ss, n) < 0) {
		int e = errno;

		close(fd);
		return -e;
	}
	return fd;
}

static int act_tcp(char **argv)
{
	char reply[4096];
	int fd = dial(argv[2], argv[3], SOCK_STREAM);

	if (fd < 0) {
		printf("connect %s\n", error_name(-fd));
		return 0;
	}
	if (send(fd, argv[4], strlen(argv[4]), MSG_NOSIGNAL) < 0 ||
		send(fd, "\n", 1, MSG_NOSIGNAL) < 0)
		printf("send %s\n", error_name(errno));
	ssize_t n = recv(fd, reply, sizeof(reply), 0);
	if (n < 0)
		printf("receive %s\n", error_name(errno));
	else
		printf("received %zd %.*s\n", n, (int)n, reply);
	close(fd);
	return 0;
}

static int act_dns(char **argv)
{
	unsigned char m[512] = {0x12, 0x34, 1, 0, 0, 1};
	size_t at = 12, name_n = strlen(argv[3]);
	const char *label = argv[3];
	int fd = dial(argv[2], "53", SOCK_DGRAM);

	if (fd < 0 || name_n > NAME_MAX_B) {
		printf("connect %s\n", error_name(-fd));
		return 0;
	}
	while (*label) {
		size_t n = strcspn(label, ".");

		if (n > 63)
			return 2;
		m[at++] = (unsigned char)n;
		memcpy(m + at, label, n);
		at += n;
		label += n + (label[n] == '.');
	}
	at++;
	m[at + 1] = m[at + 3] = 1;
	at += 4;
	send(fd, m, at, MSG_NOSIGNAL);
	ssize_t n = recv(fd, m, sizeof(m), 0);
	if (n < 12)
		printf("receive %s\n", n < 0 ? error_name(errno) : "short");
	else if ((m[3] & 15) || !m[7] || (size_t)n < at + 16)
		printf("rcode %d\n", m[3] & 15);
	else
		printf("rcode 0 %u.%u.%u.%u\n", m[at + 12], m[at + 13], m[at + 14], m[at + 15]);
	close(fd);
	return 0;
}

static void tell(const char *what, int r)
{
	printf("%s %s\n", what, r < 0 ? error_name(errno) : "ok");
}

static int act_options(char **argv)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)argv;
	tell("socket", fd);
	tell("mark", setsockopt(fd, SOL_SOCKET, SO_MARK, &one, sizeof(one)));
	tell("device", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
	tell("transparent", setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof(one)));
	tell("freebind", setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one)));
	tell("route-off", setsockopt(fd, SOL_SOCKET, SO_DONTROUTE, &one, sizeof(one)));
	return 0;
}

/* One request on a netlink socket; 0, or the kernel's refusal as -1 with errno. */
static int netlink(int family, void *request, size_t n)
{
	char reply[4096];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
	ssize_t got;

	if (fd < 0)
		return -1;
	got = send(fd, request, n, 0);
	if (got >= 0)
		got = recv(fd, reply, sizeof(reply), 0);
	close(fd);
	if (got < (ssize_t)(sizeof(struct nlmsghdr) + sizeof(int)))
		return -1;
	const struct nlmsgerr *e = (const struct nlmsgerr *)(reply + sizeof(struct nlmsghdr));
	if (((const struct nlmsghdr *)reply)->nlmsg_type == NLMSG_ERROR && e->error) {
		errno = -e->error;
		return -1;
	}
	return 0;
}

static int act_netlink(char **argv)
{
	struct {
		struct nlmsghdr h;
		struct rtmsg r;
	} route = {.h = {.nlmsg_len = sizeof(route),
			   .nlmsg_type = RTM_DELROUTE,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.r = {.rtm_family = AF_INET,
			.rtm_table = RT_TABLE_LOCAL,
			.rtm_type = RTN_LOCAL,
			.rtm_scope = RT_SCOPE_NOWHERE}};
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} link = {.h = {.nlmsg_len = sizeof(link),
			  .nlmsg_type = RTM_NEWLINK,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
		.i = {.ifi_index = 1, .ifi_change = 1}};
	struct {
		struct nlmsghdr begin;
		struct nfgenmsg begin_g;
		struct nlmsghdr h;
		struct nfgenmsg g;
		struct nlmsghdr end;
		struct nfgenmsg end_g;
	} flush = {.begin = {.nlmsg_len = 20,
			   .nlmsg_type = NFNL_MSG_BATCH_BEGIN,
			   .nlmsg_flags = NLM_F_REQUEST},
		.begin_g = {.res_id = htons(NFNL_SUBSYS_NFTABLES)},
		.h = {.nlmsg_len = 20,
			.nlmsg_type = (NFNL_SUBSYS_NFTABLES << 8) | 2 /* delete table */,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.end = {.nlmsg_len = 20,
			.nlmsg_type = NFNL_MSG_BATCH_END,
			.nlmsg_flags = NLM_F_REQUEST},
		.end_g = {.res_id = htons(NFNL_SUBSYS_NFTABLES)}};

	(void)argv;
	tell("route", netlink(NETLINK_ROUTE, &route, sizeof(route)));
	tell("link", netlink(NETLINK_ROUTE, &link, sizeof(link)));
	tell("flush", netlink(NETLINK_NETFILTER, &flush, sizeof(flush)));
	return 0;
}

static int act_hold(char **argv)
{
	long count = atol(argv[4]), made = 0;
	struct rlimit all;
	char c;

	if (getrlimit(RLIMIT_NOFILE, &all) == 0) {
		all.rlim_cur = all.rlim_max;
		setrlimit(RLIMIT_NOFILE, &all);
	}
	for (long i = 0; i < count; i++) {
		int fd = dial(argv[2], argv[3], SOCK_STREAM);

		/* One byte there and back: the connection is carried, not only queued. */
		if (fd < 0 || send(fd, "x", 1, MSG_NOSIGNAL) != 1 || recv(fd, &c, 1, 0) != 1) {
			fprintf(stderr, "connection %ld: %s\n", i,
				error_name(fd < 0 ? -fd : errno));
			break;
		}
		made++;
	}
	printf("ready %ld\n", made);
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}

static int act_bulk(char **argv)
{
	static char block[BULK_B];
	unsigned long long left = strtoull(argv[4], NULL, 10);
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	int fd = dial(argv[2], argv[3], SOCK_STREAM);
	if (fd < 0) {
		printf("connect %s\n", error_name(-fd));
		return 1;
	}
	while (left) {
		ssize_t n = send(fd, block, left < sizeof(block) ? (size_t)left : sizeof(block),
			MSG_NOSIGNAL);

		if (n < 0) {
			printf("send %s\n", error_name(errno));
			return 1;
		}
		left -= (unsigned long long)n;
	}
	shutdown(fd, SHUT_WR);
	while (recv(fd, block, sizeof(block), 0) > 0)
		;
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%lld\n", (long long)(b.tv_sec - a.tv_sec) * 1000000000LL + (b.tv_nsec - a.tv_nsec));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int argc;
		int (*act)(char **argv);
	} acts[] = {{"tcp", 5, act_tcp}, {"dns", 4, act_dns}, {"options", 2, act_options},
		{"netlink", 2, act_netlink}, {"hold", 5, act_hold}, {"bulk", 5, act_bulk}};

	for (size_t i = 0; argc > 1 && i < sizeof(acts) / sizeof(acts[0]); i++)
		if (strcmp(argv[1], acts[i].name) == 0 && argc == acts[i].argc)
			return acts[i].act(argv);
	fprintf(stderr, "usage: net_dial tcp|dns|options|netlink|hold|bulk ...\n");
	return 2;
}
