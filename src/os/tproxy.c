/* SPDX-License-Identifier: Apache-2.0 */
/* Capturing all traffic of a network namespace: see tproxy.h. */
#include "os/tproxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "os/forced.h"
#include "os/netlink.h"

#define LO_INDEX 1   /* the first device of every network namespace */
#define BACKLOG 4096 /* connections wait here until somebody accepts */
/*
 * Lookups wait here, also while the gateway starts: some 768 bytes each, as the kernel counts. It
 * gives no more than its own limit (net.core.rmem_max).
 */
#define LOOKUPS_B (4 << 20)
#define PRIORITY (-150)
#define TABLE "croft"
#define CHAIN "capture"

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif

/* The namespace's own address: what a client's connections come from. */
static const uint8_t own4[4] = {198, 18, 0, 2};
static const uint8_t own6[16] = {0xfd, 0x63, 0x72, 0x6f, 0x66, 0x74, [15] = 2};

/* ---- routes ---- */

static void put_address(struct netlink *n, int family, const uint8_t *addr, size_t len)
{
	struct ifaddrmsg m = {.ifa_family = (uint8_t)family,
		.ifa_prefixlen = (uint8_t)(len * 8),
		.ifa_flags = IFA_F_PERMANENT | (family == AF_INET6 ? IFA_F_NODAD : 0),
		.ifa_index = LO_INDEX};

	netlink_begin(n, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, true, &m, sizeof(m));
	netlink_put(n, IFA_LOCAL, addr, len);
	netlink_put(n, IFA_ADDRESS, addr, len);
}

static void put_route(struct netlink *n, int family, const uint8_t *from, size_t len)
{
	struct rtmsg m = {.rtm_family = (uint8_t)family,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
		.rtm_type = RTN_LOCAL};

	netlink_begin(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, true, &m, sizeof(m));
	netlink_put_u32(n, RTA_OIF, LO_INDEX);
	netlink_put(n, RTA_PREFSRC, from, len);
}

static int set_routes(struct err *e)
{
	struct netlink n;
	int r = netlink_open(&n, NETLINK_ROUTE, e);

	if (r < 0)
		return r;
	put_address(&n, AF_INET, own4, sizeof(own4));
	put_route(&n, AF_INET, own4, sizeof(own4));
	r = netlink_send(&n, "make every address local", e);
	if (r == 0) {
		put_address(&n, AF_INET6, own6, sizeof(own6));
		put_route(&n, AF_INET6, own6, sizeof(own6));
		r = netlink_send(&n, "make every IPv6 address local", e);
	}
	netlink_done(&n);
	return r;
}

/* ---- rules ---- */

struct expr {
	size_t elem, data;
};

static struct expr expr_begin(struct netlink *n, const char *name)
{
	struct expr x = {.elem = netlink_nest(n, NFTA_LIST_ELEM)};

	netlink_put_str(n, NFTA_EXPR_NAME, name);
	x.data = netlink_nest(n, NFTA_EXPR_DATA);
	return x;
}

static void expr_end(struct netlink *n, struct expr x)
{
	netlink_nest_end(n, x.data);
	netlink_nest_end(n, x.elem);
}

static void put_data(struct netlink *n, uint16_t attr, const void *v, size_t len)
{
	size_t nest = netlink_nest(n, attr);

	netlink_put(n, NFTA_DATA_VALUE, v, len);
	netlink_nest_end(n, nest);
}

static void put_meta(struct netlink *n, uint32_t key)
{
	struct expr x = expr_begin(n, "meta");

	netlink_put_be32(n, NFTA_META_DREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_META_KEY, key);
	expr_end(n, x);
}

static void put_cmp(struct netlink *n, uint32_t op, const void *v, size_t len)
{
	struct expr x = expr_begin(n, "cmp");

	netlink_put_be32(n, NFTA_CMP_SREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_CMP_OP, op);
	put_data(n, NFTA_CMP_DATA, v, len);
	expr_end(n, x);
}

/* The destination address into the register. */
static void put_daddr(struct netlink *n, uint32_t offset, uint32_t len)
{
	struct expr x = expr_begin(n, "payload");

	netlink_put_be32(n, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	netlink_put_be32(n, NFTA_PAYLOAD_OFFSET, offset);
	netlink_put_be32(n, NFTA_PAYLOAD_LEN, len);
	expr_end(n, x);
}

static void put_dport(struct netlink *n, uint16_t port)
{
	struct expr x = expr_begin(n, "payload");

	port = htons(port);
	netlink_put_be32(n, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
	netlink_put_be32(n, NFTA_PAYLOAD_OFFSET, 2);
	netlink_put_be32(n, NFTA_PAYLOAD_LEN, sizeof(port));
	expr_end(n, x);
	put_cmp(n, NFT_CMP_EQ, &port, sizeof(port));
}

/*
 * "meta nfproto FAMILY meta l4proto tcp daddr != LOOPBACK daddr != OWN tproxy to :PORT"; with a local port
 * "daddr LOOPBACK dport LOCAL" in the place of the two.
 */
static void put_rule(struct netlink *n, uint8_t family, uint16_t local)
{
	static const uint8_t here4[4] = {127, 0, 0, 1};
	static const uint8_t loop6[16] = {[15] = 1};
	static const uint8_t loop4 = 127;
	struct nfgenmsg m = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
	const uint8_t tcp = IPPROTO_TCP;
	bool v4 = family == NFPROTO_IPV4;
	uint16_t port = htons(CAPTURE_PORT);
	size_t list;
	struct expr x;

	netlink_begin(n, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND,
		true, &m, sizeof(m));
	netlink_put_str(n, NFTA_RULE_TABLE, TABLE);
	netlink_put_str(n, NFTA_RULE_CHAIN, CHAIN);
	list = netlink_nest(n, NFTA_RULE_EXPRESSIONS);
	put_meta(n, NFT_META_NFPROTO);
	put_cmp(n, NFT_CMP_EQ, &family, 1);
	put_meta(n, NFT_META_L4PROTO);
	put_cmp(n, NFT_CMP_EQ, &tcp, 1);
	if (local) {
		put_daddr(n, v4 ? 16 : 24, v4 ? 4 : 16);
		put_cmp(n, NFT_CMP_EQ, v4 ? here4 : loop6, v4 ? 4 : 16);
		put_dport(n, local);
	} else if (v4) {
		put_daddr(n, 16, 1); /* its first byte: 127.0.0.0/8 */
		put_cmp(n, NFT_CMP_NEQ, &loop4, 1);
	} else {
		put_daddr(n, 24, 16);
		put_cmp(n, NFT_CMP_NEQ, loop6, 16);
	}
	if (!local) {
		put_daddr(n, v4 ? 16 : 24, v4 ? 4 : 16);
		put_cmp(n, NFT_CMP_NEQ, v4 ? own4 : own6, v4 ? 4 : 16);
	}
	x = expr_begin(n, "immediate");
	netlink_put_be32(n, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	put_data(n, NFTA_IMMEDIATE_DATA, &port, sizeof(port));
	expr_end(n, x);
	x = expr_begin(n, "tproxy");
	netlink_put_be32(n, NFTA_TPROXY_FAMILY, family);
	netlink_put_be32(n, NFTA_TPROXY_REG_PORT, NFT_REG_1);
	expr_end(n, x);
	netlink_nest_end(n, list);
}

static void put_chain(struct netlink *n)
{
	struct nfgenmsg m = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
	size_t hook;

	netlink_begin(
		n, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE, NLM_F_CREATE, true, &m, sizeof(m));
	netlink_put_str(n, NFTA_TABLE_NAME, TABLE);
	netlink_begin(
		n, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN, NLM_F_CREATE, true, &m, sizeof(m));
	netlink_put_str(n, NFTA_CHAIN_TABLE, TABLE);
	netlink_put_str(n, NFTA_CHAIN_NAME, CHAIN);
	hook = netlink_nest(n, NFTA_CHAIN_HOOK);
	netlink_put_be32(n, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	netlink_put_be32(n, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY);
	netlink_nest_end(n, hook);
	netlink_put_str(n, NFTA_CHAIN_TYPE, "filter");
}

/* One transaction: all of it or nothing. */
static int set_rules(const uint16_t *local, size_t local_n, struct err *e)
{
	struct nfgenmsg batch = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
	struct netlink n;
	int r = netlink_open(&n, NETLINK_NETFILTER, e);

	if (r < 0)
		return r;
	netlink_begin(&n, NFNL_MSG_BATCH_BEGIN, 0, false, &batch, sizeof(batch));
	put_chain(&n);
	put_rule(&n, NFPROTO_IPV4, 0);
	put_rule(&n, NFPROTO_IPV6, 0);
	for (size_t i = 0; i < MIN_OF(local_n, (size_t)CAPTURE_LOCAL_MAX); i++) {
		put_rule(&n, NFPROTO_IPV4, local[i]);
		put_rule(&n, NFPROTO_IPV6, local[i]);
	}
	netlink_begin(&n, NFNL_MSG_BATCH_END, 0, false, &batch, sizeof(batch));
	r = netlink_send(&n, "set the capturing rule (nftables with TPROXY)", e);
	netlink_done(&n);
	return r;
}

/* ---- sockets ---- */

static int set_option(int fd, int level, int name, struct err *e)
{
	int one = 1;

	if (setsockopt(fd, level, name, &one, sizeof(one)) < 0)
		return err_set(e, errno, "make a capturing socket");
	return 0;
}

static int open_socket(int *ret, int family, int type, uint16_t port, struct err *e)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool v4 = family == AF_INET, tcp = type == SOCK_STREAM;
	cleanup_fd int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return err_set(e, errno, "make a capturing socket");
	r = v4 ? set_option(fd, IPPROTO_IP, IP_TRANSPARENT, e)
	       : set_option(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, e);
	if (r == 0 && !v4)
		r = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, e);
	if (r == 0 && !tcp)
		r = v4 ? set_option(fd, IPPROTO_IP, IP_PKTINFO, e)
		       : set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, e);
	if (r < 0)
		return r;
	if (!tcp) /* a lookup that is lost costs its caller seconds */
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){LOOKUPS_B}, sizeof(int));
	if (bind(fd, v4 ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6,
		    v4 ? sizeof(a4) : sizeof(a6)) < 0 ||
		(tcp && listen(fd, BACKLOG) < 0))
		return err_set(e, errno, "bind a capturing socket");
	*ret = take_fd(&fd);
	return 0;
}

int capture_lookups(int *ret, struct err *e)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(53), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){LOOKUPS_B}, sizeof(int));
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_set(e, errno, "make the socket that refuses lookups");
	*ret = take_fd(&fd);
	return 0;
}

int capture_set_up(
	int ret[CAPTURE_FD_NUM], const uint16_t *local, size_t local_n, struct err *e)
{
	char why[256];
	int r;

	for (int i = 0; i < CAPTURE_FD_NUM; i++)
		ret[i] = -1;
	if (forced_fail("nftables"))
		return err_no_boundary(e, "the network of a sandbox cannot be captured here: "
					  "nftables with TPROXY is needed");
	if ((r = set_routes(e)) == 0 && (r = set_rules(local, local_n, e)) == 0 &&
		(r = open_socket(&ret[CAPTURE_TCP4], AF_INET, SOCK_STREAM, CAPTURE_PORT, e)) == 0 &&
		(r = open_socket(&ret[CAPTURE_TCP6], AF_INET6, SOCK_STREAM, CAPTURE_PORT, e)) ==
			0 &&
		(r = open_socket(&ret[CAPTURE_UDP4], AF_INET, SOCK_DGRAM, 53, e)) == 0 &&
		(r = open_socket(&ret[CAPTURE_UDP6], AF_INET6, SOCK_DGRAM, 53, e)) == 0)
		return 0;
	for (int i = 0; i < CAPTURE_FD_NUM; i++)
		close_fd(&ret[i]);
	snprintf(why, sizeof(why), "%.255s", e->msg);
	return err_no_boundary(e,
		"the network of a sandbox cannot be captured here: %s; nftables with TPROXY is "
		"needed (kernel modules nf_tables and nft_tproxy), or use --tier process",
		why);
}
