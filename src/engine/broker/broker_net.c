/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections and sockets in a sandbox without a network and without a namespace.
 *
 * Purpose: nothing can be reached there anyway: Landlock refuses TCP, the filter the rest. The broker
 *          refuses first, so that the attempt is known, with an error that clients give up on.
 * Trust:   the address is read once, as evidence. What is refused here is refused whatever it says.
 *          What is no internet address goes on to the kernel, which reads it again: if that has become
 *          one meanwhile, Landlock refuses it, and nothing is told.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "engine/broker/broker_impl.h"
#include "os/uapi.h"

/*
 * As in a namespace without routes. Landlock's EACCES makes wget try 20 times in more than two
 * minutes, and npm explain the permissions of files.
 */
#define NO_NETWORK ENETUNREACH
#define SOCKET_TYPE_MASK 0xf
/* The shortest that the kernel takes: without the scope id. */
#define SOCKADDR_IN6_MIN offsetof(struct sockaddr_in6, sin6_scope_id)

union address {
	sa_family_t family;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

bool broker_is_network(const struct work *w)
{
	return w->n.req->data.nr == SYS_connect || w->n.req->data.nr == SYS_socket;
}

/* False: no address of the internet. */
static bool show_address(
	const union address *a, size_t len, char text[INET6_ADDRSTRLEN], uint16_t *ret_port)
{
	if (len >= sizeof(a->v4) && a->family == AF_INET) {
		*ret_port = ntohs(a->v4.sin_port);
		return inet_ntop(AF_INET, &a->v4.sin_addr, text, INET6_ADDRSTRLEN);
	}
	if (len < SOCKADDR_IN6_MIN || a->family != AF_INET6)
		return false;
	*ret_port = ntohs(a->v6.sin6_port);
	if (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
		return inet_ntop(AF_INET, &a->v6.sin6_addr.s6_addr[12], text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, &a->v6.sin6_addr, text, INET6_ADDRSTRLEN);
}

static int64_t refuse_connect(struct work *w)
{
	const struct seccomp_data *d = &w->n.req->data;
	char text[INET6_ADDRSTRLEN];
	union address a = {0};
	int len = (int)d->args[2];
	uint16_t port = 0;
	int r = 0;

	if (len > 0)
		r = notify_read(w->tid, d->args[1], &a, MIN_OF((size_t)len, sizeof(a)));
	if (!target_alive(w))
		return -ESRCH; /* nobody hears it; perhaps that was another's memory */
	if (r == -EPERM) {
		tell_network(w, NOTICE_NO_SIGHT, 0);
		return -NO_NETWORK;
	}
	if (r < 0 || len <= 0 || !show_address(&a, (size_t)len, text, &port)) {
		w->pass = true;
		return 0;
	}
	tell_network(w, text, port);
	return -NO_NETWORK;
}

int64_t broker_network(struct work *w)
{
	const struct seccomp_data *d = &w->n.req->data;

	if (d->nr == SYS_connect)
		return refuse_connect(w);
	tell_network(w,
		((int)d->args[1] & SOCKET_TYPE_MASK) == SOCK_STREAM ? NOTICE_NO_STREAMS
								    : NOTICE_NO_DATAGRAMS,
		0);
	return -EPERM;
}
