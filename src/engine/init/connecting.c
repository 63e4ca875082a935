/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to ports inside that are on their way: see connecting.h. */
#include "engine/init/connecting.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/cleanup.h"

/* 0 connected, EINPROGRESS, or another errno; ret_fd is the socket for the first two. */
static int begin(uint16_t port, bool v6, int *ret_fd)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	cleanup_fd int fd =
		socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int why = 0;

	if (fd < 0)
		return errno;
	if (connect(fd, v6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4,
		    v6 ? sizeof(a6) : sizeof(a4)) < 0)
		why = errno;
	if (!why || why == EINPROGRESS)
		*ret_fd = take_fd(&fd);
	return why;
}

/* Begin with this address, or the next one. True: it is on its way; else `done` has been told. */
static bool advance(struct connectings *c, struct connecting *x, uint64_t now_ms)
{
	int why = begin(x->port, x->v6, &x->fd);

	if (why && why != EINPROGRESS && !x->v6) {
		x->v6 = true;
		why = begin(x->port, true, &x->fd);
	}
	x->until_ms = now_ms + CONNECTING_MS;
	if (why == EINPROGRESS)
		return true;
	c->done(c->arg, x->id, why ? ECONNREFUSED : 0, &x->fd);
	close_fd(&x->fd);
	return false;
}

void connecting_start(struct connectings *c, uint32_t id, int port, uint64_t now_ms)
{
	struct connecting x = {.fd = -1, .id = id, .port = (uint16_t)port};
	int none = -1;

	if (port <= 0 || port > UINT16_MAX)
		c->done(c->arg, id, EINVAL, &none);
	else if (c->n == CONNECTING_MAX)
		c->done(c->arg, id, EAGAIN, &none);
	else if (advance(c, &x, now_ms))
		c->v[c->n++] = x;
}

size_t connecting_poll(const struct connectings *c, struct pollfd *p)
{
	for (size_t i = 0; i < c->n; i++)
		p[i] = (struct pollfd){.fd = c->v[i].fd, .events = POLLOUT};
	return c->n;
}

/* One that has an answer, or has had its time. True: it is on its way to the other address. */
static bool settle(struct connectings *c, struct connecting *x, bool answered, uint64_t now_ms)
{
	socklen_t n = sizeof(int);
	int why = ETIMEDOUT;

	if (answered && getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &why, &n) < 0)
		why = errno;
	if (!why)
		c->done(c->arg, x->id, 0, &x->fd);
	close_fd(&x->fd);
	if (!why)
		return false;
	if (x->v6) {
		c->done(c->arg, x->id, ECONNREFUSED, &x->fd);
		return false;
	}
	x->v6 = true;
	return advance(c, x, now_ms);
}

void connecting_handle(struct connectings *c, const struct pollfd *p, size_t n, uint64_t now_ms)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct connecting x = c->v[i];
		bool answered = i < n && p[i].revents;

		if ((!answered && now_ms < x.until_ms) || settle(c, &x, answered, now_ms))
			c->v[kept++] = x;
	}
	c->n = kept;
}

int connecting_wait_ms(const struct connectings *c, uint64_t now_ms)
{
	uint64_t at = UINT64_MAX;

	for (size_t i = 0; i < c->n; i++)
		at = MIN_OF(at, c->v[i].until_ms);
	return at == UINT64_MAX ? -1 : at <= now_ms ? 0 : (int)(at - now_ms);
}
