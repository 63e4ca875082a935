/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where connections come from: transparent listeners of the sandbox's network namespace, and the
 * explicit proxy's.
 *
 * Trust:   a transparent connection's own address is where the sandbox wanted to go. A synthetic
 *          address that no name was given is refused, and so is the listener's own port: it is no
 *          destination.
 * Limits:  ACCEPT_BATCH per turn. Without descriptors or memory accepting rests PAUSE_MS; with
 *          FLOWS_MAX open it rests until some have ended. What waits in the backlog is lost to
 *          nobody and allowed by nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "net/dns/dns.h"
#include "net/gateway/explicit.h"
#include "net/gateway/flow.h"

#define ACCEPT_BATCH 64
#define PAUSE_MS 50
/*
 * Descriptors that are not flows', and what a flow needs: one each way. Pipes can be done without.
 */
#define OTHER_FDS 32
#define FLOW_FDS 2
#define FLOWS_MIN 4

struct listener {
	struct gateway *g;
	struct watch watch;
	struct timer timer;
	int fd;
	bool explicit_proxy;
	bool full; /* rests until flows have ended */
	bool paused;
	uint16_t port;
	struct listener *next;
};

static size_t flows_max(const struct gateway *g)
{
	return g->flows_max ? g->flows_max : FLOWS_MAX;
}

/* A flow that is accepted must also find a descriptor for its way out. */
static void settle_max(struct gateway *g)
{
	struct rlimit l;
	size_t n;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	n = l.rlim_cur > OTHER_FDS ? (size_t)(l.rlim_cur - OTHER_FDS) / FLOW_FDS : 0;
	g->flows_max = MAX_OF(MIN_OF(n, (size_t)FLOWS_MAX), (size_t)FLOWS_MIN);
}

/* The name or address it was opened to. false: refused and ended. */
static bool bind_name(struct flow *f)
{
	cleanup_buf struct buf b = BUF_INIT(128);
	const char *name;

	if (!names_synthetic(&f->dest.addr))
		return true;
	name = names_lookup(f->gw->names, &f->dest.addr);
	if (!name || strlen(name) >= sizeof(f->host)) {
		net_addr_show(&b, &f->dest.addr);
		flow_refuse_why(
			f, "CONNECT", "%s stands for no name that was asked for", buf_str(&b));
		return false;
	}
	memcpy(f->host, name, strlen(name) + 1);
	f->dest.host = f->host;
	names_hold(f->gw->names, f->host, 1);
	f->held = true;
	return true;
}

static void arrived(struct listener *l, int fd)
{
	struct flow *f = flow_new(l->g, fd);
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);

	if (!f)
		return;
	if (l->explicit_proxy) {
		explicit_start(f);
		return;
	}
	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
		!addr_from_sockaddr(&f->dest.addr, &f->dest.port, &ss)) {
		flow_reset_on_close(fd);
		flow_end(f, "its destination is unknown");
		return;
	}
	if (f->dest.port == 53) {
		if (!dns_tcp(f)) {
			flow_reset_on_close(fd);
			flow_end(f, "out of memory");
		}
		return;
	}
	if (f->dest.port == l->port)
		flow_refuse_why(f, "CONNECT", "port %u is the gateway's own", l->port);
	else if (bind_name(f))
		flow_judge(f);
}

static void rested(void *arg)
{
	struct listener *l = arg;

	if (!l->full && !l->paused)
		loop_change(&l->watch, EPOLLIN);
}

static void rest(struct listener *l)
{
	loop_change(&l->watch, 0);
	loop_timer(l->g->loop, &l->timer, PAUSE_MS, rested, l);
}

static void listener_ready(void *arg, uint32_t events)
{
	struct listener *l = arg;

	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd;

		if (l->g->flows_n >= flows_max(l->g)) {
			l->full = true;
			loop_change(&l->watch, 0);
			return;
		}
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			arrived(l, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
			continue;
		if (errno != EAGAIN)
			rest(l);
		return;
	}
}

void flow_listen_resume(struct gateway *g)
{
	size_t max = flows_max(g);

	if (g->flows_n >= max - max / 16)
		return;
	for (struct listener *l = g->listeners; l; l = l->next)
		if (l->full && !l->paused) {
			l->full = false;
			loop_change(&l->watch, EPOLLIN);
		}
}

int fd_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

int flow_listen(struct gateway *g, int fd, bool explicit_proxy, struct err *e)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);
	struct net_addr ignored;
	struct listener *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_set(e, ENOMEM, "watch a listener");
	*l = (struct listener){.g = g, .fd = fd, .explicit_proxy = explicit_proxy};
	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
		!addr_from_sockaddr(&ignored, &l->port, &ss)) {
		free(l);
		return err_invalid(e, "a listener is not a TCP socket");
	}
	/*
	 * What it accepts inherits this. An answer in two writes would otherwise wait for the client's
	 * delayed acknowledgement of the first.
	 */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	/* accept4() until EAGAIN would wait for the next connection otherwise. */
	r = fd_nonblocking(fd);
	if (r == 0)
		r = loop_watch(g->loop, &l->watch, fd, EPOLLIN, listener_ready, l);
	if (r < 0) {
		free(l);
		return err_set(e, -r, "watch a listener");
	}
	settle_max(g);
	l->next = g->listeners;
	g->listeners = l;
	return 0;
}

void flow_listen_pause(struct gateway *g, bool on)
{
	for (struct listener *l = g->listeners; l; l = l->next) {
		l->paused = on;
		loop_change(&l->watch, on ? 0 : EPOLLIN);
	}
}

void flow_listen_end(struct gateway *g)
{
	while (g->listeners) {
		struct listener *l = g->listeners;

		g->listeners = l->next;
		loop_unwatch(&l->watch);
		loop_cancel(&l->timer);
		close_fd(&l->fd);
		loop_later(g->loop, free, l);
	}
}
