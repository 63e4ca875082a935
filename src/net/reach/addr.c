/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: see addr.h.
 *
 * Trust:  tables, no special cases in code. The worst class of the address itself and of every IPv4
 *         address that hides in it counts. A form that embeds an address ambiguously is read in
 *         every way.
 * Limits: networks that map IPv4 under a prefix of their own (network-specific NAT64) and a cloud's
 *         1:1 NAT address of this machine cannot be seen from here.
 */
#include "net/reach/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/str.h"

struct range {
	uint8_t b[16];
	uint8_t bits;
	uint8_t class;
	const char *why;
};

#define METADATA "is a cloud's metadata service"
#define PRIVATE_NET "is a private address"
#define LINK_LOCAL "is link-local"
#define THIS_HOST "is this machine itself"

/* Documentation ranges count as public: nothing is there, and tests need addresses that look it. */
static const struct range v4[] = {
	{{169, 254, 169, 254}, 32, ADDR_FORBIDDEN, METADATA},
	{{169, 254, 170, 2}, 32, ADDR_FORBIDDEN, METADATA},
	{{169, 254, 170, 23}, 32, ADDR_FORBIDDEN, METADATA},
	{{169, 254, 0, 23}, 32, ADDR_FORBIDDEN, METADATA},
	{{169, 254, 42, 42}, 32, ADDR_FORBIDDEN, METADATA},
	{{168, 63, 129, 16}, 32, ADDR_FORBIDDEN, METADATA},
	{{100, 100, 100, 200}, 32, ADDR_FORBIDDEN, METADATA},
	{{192, 0, 0, 192}, 32, ADDR_FORBIDDEN, METADATA},
	{{0}, 8, ADDR_FORBIDDEN, "is in 0.0.0.0/8, which reaches this machine"},
	{{127}, 8, ADDR_FORBIDDEN, "is loopback"},
	{{169, 254}, 16, ADDR_FORBIDDEN, LINK_LOCAL},
	{{192, 0, 0}, 24, ADDR_FORBIDDEN, "is reserved for protocols of the local network"},
	{{192, 88, 99}, 24, ADDR_FORBIDDEN, "is a 6to4 relay"},
	{{255, 255, 255, 255}, 32, ADDR_FORBIDDEN, "is the broadcast address"},
	{{224}, 4, ADDR_FORBIDDEN, "is multicast"},
	{{240}, 4, ADDR_FORBIDDEN, "is reserved"},
	{{10}, 8, ADDR_PRIVATE, PRIVATE_NET},
	{{172, 16}, 12, ADDR_PRIVATE, PRIVATE_NET},
	{{192, 168}, 16, ADDR_PRIVATE, PRIVATE_NET},
	{{100, 64}, 10, ADDR_PRIVATE, "is a carrier's shared address"},
	{{198, 18}, 15, ADDR_PRIVATE, "is in the range for benchmarks"},
};

static const struct range v6[] = {
	{{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128, ADDR_FORBIDDEN, METADATA},
	{{0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe}, 128, ADDR_FORBIDDEN, METADATA},
	{{0xfd, 0x00, 0x00, 0x42, [15] = 0x42}, 128, ADDR_FORBIDDEN, METADATA},
	{{0xfd, 0x00, 0x0e, 0xc2}, 32, ADDR_FORBIDDEN, METADATA},
	{{[15] = 1}, 128, ADDR_FORBIDDEN, "is loopback"},
	{{0}, 128, ADDR_FORBIDDEN, "is unspecified, which reaches this machine"},
	{{0}, 96, ADDR_FORBIDDEN, "is an IPv4-compatible address, which nobody routes"},
	{{0xfe, 0x80}, 10, ADDR_FORBIDDEN, LINK_LOCAL},
	{{0xfe, 0xc0}, 10, ADDR_FORBIDDEN, "is site-local"},
	{{0xff}, 8, ADDR_FORBIDDEN, "is multicast"},
	{{0x01, 0x00}, 64, ADDR_FORBIDDEN, "is the discard prefix"},
	{{0x20, 0x01, 0x00, 0x01}, 32, ADDR_FORBIDDEN,
		"is reserved for protocols of the local network"},
	{{0x20, 0x01, 0x00, 0x10}, 28, ADDR_FORBIDDEN, "is an identifier, not an address"},
	{{0x20, 0x01, 0x00, 0x20}, 28, ADDR_FORBIDDEN, "is an identifier, not an address"},
	{{0x5f, 0x00}, 16, ADDR_FORBIDDEN, "is a segment identifier of a network"},
	/* Synthetic addresses mean something inside a sandbox only. */
	{{0xfd, 0x63, 0x72, 0x6f, 0x66, 0x74}, 48, ADDR_FORBIDDEN,
		"is a synthetic address of croft"},
	{{0xfc}, 7, ADDR_PRIVATE, PRIVATE_NET},
	{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, ADDR_PRIVATE,
		"is a local network's IPv4 gateway"},
	{{0x20, 0x01, 0x00, 0x02}, 48, ADDR_PRIVATE, "is in the range for benchmarks"},
};

static bool within(const uint8_t *a, const struct range *r)
{
	unsigned whole = r->bits / 8, rest = r->bits % 8;

	if (memcmp(a, r->b, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ r->b[whole]) >> (8 - rest)) == 0;
}

static bool same(const struct net_addr *a, const struct net_addr *b)
{
	return a->v6 == b->v6 && memcmp(a->b, b->b, a->v6 ? 16 : 4) == 0;
}

static enum addr_class judge_one(
	const struct net_addr *a, const struct addr_host *h, const char **why)
{
	const struct range *t = a->v6 ? v6 : v4;
	size_t n = a->v6 ? ARRAY_SIZE(v6) : ARRAY_SIZE(v4);

	for (size_t i = 0; h && i < h->n; i++)
		if (same(&h->v[i], a)) {
			*why = THIS_HOST;
			return ADDR_FORBIDDEN;
		}
	for (size_t i = 0; i < n; i++)
		if (within(a->b, &t[i])) {
			*why = t[i].why;
			return (enum addr_class)t[i].class;
		}
	*why = "is a public address";
	return ADDR_PUBLIC;
}

/* ---- what hides in an IPv6 address ---- */

/* An IPv4 address at byte positions `at`, in addresses that begin with a prefix. */
struct wrapping {
	struct range prefix;
	uint8_t at[4];
	bool inverted;  /* Teredo hides its client's address */
	bool ambiguous; /* one of several layouts: a leading zero means that it is not this one */
};

static const struct wrapping wrappings[] = {
	{{{[10] = 0xff, 0xff}, 96, 0, NULL}, {12, 13, 14, 15}, false, false},      /* mapped */
	{{{0}, 96, 0, NULL}, {12, 13, 14, 15}, false, false},                      /* compatible */
	{{{[8] = 0xff, 0xff}, 96, 0, NULL}, {12, 13, 14, 15}, false, false},       /* translated */
	{{{0x00, 0x64, 0xff, 0x9b}, 96, 0, NULL}, {12, 13, 14, 15}, false, false}, /* NAT64 */
	/*
	 * NAT64 of a local network: RFC 6052 has five layouts, and the prefix may be any of them.
	 */
	{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, 0, NULL}, {6, 7, 9, 10}, false, true},
	{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, 0, NULL}, {7, 9, 10, 11}, false, true},
	{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, 0, NULL}, {9, 10, 11, 12}, false, true},
	{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, 0, NULL}, {12, 13, 14, 15}, false, true},
	{{{0x20, 0x02}, 16, 0, NULL}, {2, 3, 4, 5}, false, false},             /* 6to4 */
	{{{0x20, 0x01, 0x00, 0x00}, 32, 0, NULL}, {4, 5, 6, 7}, false, false}, /* Teredo's server */
	{{{0x20, 0x01, 0x00, 0x00}, 32, 0, NULL}, {12, 13, 14, 15}, true,
		false}, /* and its client */
};

/* ISATAP: an interface identifier under any prefix, with or without the universal bit. */
static bool isatap(const struct net_addr *a)
{
	return (a->b[8] & 0xfd) == 0 && a->b[9] == 0 && a->b[10] == 0x5e && a->b[11] == 0xfe;
}

static struct net_addr embedded(const struct net_addr *a, const uint8_t at[4], bool inverted)
{
	struct net_addr r = {.v6 = false};

	for (int i = 0; i < 4; i++)
		r.b[i] = inverted ? (uint8_t)~a->b[at[i]] : a->b[at[i]];
	return r;
}

/* Judge what was inside; the worse of both counts. */
static void worse(enum addr_class *c, const char **why, const struct net_addr *inner,
	const struct addr_host *h)
{
	const char *inner_why;
	enum addr_class other = judge_one(inner, h, &inner_why);

	if (other <= *c)
		return;
	*c = other;
	*why = inner_why;
}

static enum addr_class judge(const struct net_addr *a, const struct addr_host *h, const char **why)
{
	static const uint8_t last[4] = {12, 13, 14, 15};
	enum addr_class class = judge_one(a, h, why);

	if (!a->v6)
		return class;
	for (size_t i = 0; i < ARRAY_SIZE(wrappings); i++) {
		const struct wrapping *w = &wrappings[i];
		struct net_addr inner;

		if (!within(a->b, &w->prefix))
			continue;
		inner = embedded(a, w->at, w->inverted);
		if (w->ambiguous && inner.b[0] == 0)
			continue;
		worse(&class, why, &inner, h);
	}
	if (isatap(a)) {
		struct net_addr inner = embedded(a, last, false);

		worse(&class, why, &inner, h);
	}
	return class;
}

enum addr_class addr_classify(const struct net_addr *a, const struct addr_host *h)
{
	const char *why;

	return judge(a, h, &why);
}

const char *addr_why(const struct net_addr *a, const struct addr_host *h)
{
	const char *why;

	judge(a, h, &why);
	return why;
}

/* ---- addresses of the system ---- */

int addr_host_load(struct addr_host *ret)
{
	struct addr_host h = {.loaded_ms = ret->loaded_ms};
	struct ifaddrs *list;
	int r = 0;

	if (getifaddrs(&list) < 0)
		return -errno;
	for (struct ifaddrs *i = list; i && r == 0; i = i->ifa_next) {
		struct sockaddr_storage ss = {0};
		struct net_addr a;

		if (!i->ifa_addr)
			continue;
		if (i->ifa_addr->sa_family == AF_INET)
			memcpy(&ss, i->ifa_addr, sizeof(struct sockaddr_in));
		else if (i->ifa_addr->sa_family == AF_INET6)
			memcpy(&ss, i->ifa_addr, sizeof(struct sockaddr_in6));
		if (!addr_from_sockaddr(&a, NULL, &ss) || addr_classify(&a, NULL) == ADDR_FORBIDDEN)
			continue;
		if (h.n == ADDR_HOST_MAX)
			r = -E2BIG; /* an incomplete list would let one's own addresses through */
		else
			h.v[h.n++] = a;
	}
	freeifaddrs(list);
	if (r == 0)
		*ret = h;
	return r;
}

socklen_t addr_to_sockaddr(const struct net_addr *a, uint16_t port, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (a->v6) {
		struct sockaddr_in6 s = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

		memcpy(&s.sin6_addr, a->b, 16);
		memcpy(ret, &s, sizeof(s));
		return sizeof(s);
	}
	struct sockaddr_in s = {.sin_family = AF_INET, .sin_port = htons(port)};

	memcpy(&s.sin_addr, a->b, 4);
	memcpy(ret, &s, sizeof(s));
	return sizeof(s);
}

bool addr_from_sockaddr(struct net_addr *ret, uint16_t *ret_port, const struct sockaddr_storage *ss)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
	struct net_addr a = {0};
	uint16_t port;

	if (ss->ss_family == AF_INET) {
		struct sockaddr_in s;

		memcpy(&s, ss, sizeof(s));
		memcpy(a.b, &s.sin_addr, 4);
		port = ntohs(s.sin_port);
	} else if (ss->ss_family == AF_INET6) {
		struct sockaddr_in6 s;

		memcpy(&s, ss, sizeof(s));
		port = ntohs(s.sin6_port);
		a.v6 = memcmp(&s.sin6_addr, mapped, 12) != 0;
		if (a.v6)
			memcpy(a.b, &s.sin6_addr, 16);
		else
			memcpy(a.b, (const uint8_t *)&s.sin6_addr + 12, 4);
	} else {
		return false;
	}
	*ret = a;
	if (ret_port)
		*ret_port = port;
	return true;
}

bool addr_peer_allowed(int fd, const char *host, uint16_t port, const struct net_policy *p)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);
	struct net_verdict v;
	struct net_addr a;

	if (p->proxy || (host && str_eq(host, NET_THIS_MACHINE)))
		return true;
	if (getpeername(fd, (struct sockaddr *)&ss, &len) < 0 || !addr_from_sockaddr(&a, NULL, &ss))
		return true;
	return !net_addr_denied(p, &a, port, &v);
}
