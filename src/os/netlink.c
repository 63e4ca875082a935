/* SPDX-License-Identifier: Apache-2.0 */
/* Netlink messages: see netlink.h. */
#include "os/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

int netlink_open(struct netlink *n, int protocol, struct err *e)
{
	*n = (struct netlink){.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)};
	if (n->fd < 0)
		return err_set(e, errno, "open a netlink socket");
	return 0;
}

void netlink_done(struct netlink *n)
{
	close_fd(&n->fd);
}

/* Room for len bytes, aligned and zeroed; NULL when there is none. */
static void *room(struct netlink *n, size_t len)
{
	size_t whole = NLMSG_ALIGN(len);
	void *p = n->out.b + n->len;

	if (n->failed || whole > sizeof(n->out.b) - n->len) {
		n->failed = true;
		return NULL;
	}
	memset(p, 0, whole);
	n->len += whole;
	return p;
}

static void set_length(struct netlink *n)
{
	struct nlmsghdr *h = (struct nlmsghdr *)(n->out.b + n->message);

	if (!n->failed)
		h->nlmsg_len = (uint32_t)(n->len - n->message);
}

void netlink_begin(
	struct netlink *n, uint16_t type, uint16_t flags, bool ack, const void *head, size_t head_n)
{
	struct nlmsghdr *h;
	void *p;

	n->message = n->len;
	h = room(n, sizeof(*h));
	p = room(n, head_n);
	if (!h || !p)
		return;
	*h = (struct nlmsghdr){.nlmsg_type = type,
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags | (ack ? NLM_F_ACK : 0)),
		.nlmsg_seq = ++n->seq};
	memcpy(p, head, head_n);
	n->acks += ack;
	set_length(n);
}

void netlink_put(struct netlink *n, uint16_t attr, const void *v, size_t len)
{
	struct nlattr *a = room(n, NLA_HDRLEN + len);

	if (!a)
		return;
	*a = (struct nlattr){.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = attr};
	memcpy(a + 1, v, len);
	set_length(n);
}

void netlink_put_str(struct netlink *n, uint16_t attr, const char *s)
{
	netlink_put(n, attr, s, strlen(s) + 1);
}

void netlink_put_be32(struct netlink *n, uint16_t attr, uint32_t v)
{
	v = htonl(v);
	netlink_put(n, attr, &v, sizeof(v));
}

void netlink_put_u32(struct netlink *n, uint16_t attr, uint32_t v)
{
	netlink_put(n, attr, &v, sizeof(v));
}

size_t netlink_nest(struct netlink *n, uint16_t attr)
{
	size_t at = n->len;

	netlink_put(n, attr | NLA_F_NESTED, "", 0);
	return at;
}

void netlink_nest_end(struct netlink *n, size_t nest)
{
	struct nlattr *a = (struct nlattr *)(n->out.b + nest);

	if (!n->failed)
		a->nla_len = (uint16_t)(n->len - nest);
	set_length(n);
}

/* One datagram of answers: counts acknowledgements, returns the first error in it. */
static int read_answers(struct netlink *n, unsigned *acks)
{
	union {
		char b[NETLINK_MAX_B];
		struct nlmsghdr align;
	} in;
	ssize_t got = recv(n->fd, in.b, sizeof(in.b), 0);
	int first = 0;

	if (got < 0)
		return errno == EINTR ? 0 : -errno;
	for (size_t at = 0; at + sizeof(struct nlmsghdr) <= (size_t)got;) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)(in.b + at);
		int32_t error;

		if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > (size_t)got - at)
			return -EBADMSG;
		if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= sizeof(*h) + sizeof(error)) {
			memcpy(&error, h + 1, sizeof(error));
			if (error && !first)
				first = error;
			++*acks;
		}
		at += NLMSG_ALIGN(h->nlmsg_len);
	}
	return first;
}

int netlink_send(struct netlink *n, const char *what, struct err *e)
{
	struct sockaddr_nl to = {.nl_family = AF_NETLINK};
	unsigned acks = 0;
	int r = 0;

	if (n->failed)
		return err_set(e, EMSGSIZE, "%s", what);
	if (sendto(n->fd, n->out.b, n->len, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		return err_set(e, errno, "%s", what);
	while (acks < n->acks && r == 0)
		r = read_answers(n, &acks);
	n->len = 0;
	n->acks = 0;
	return r < 0 ? err_set(e, -r, "%s", what) : 0;
}
