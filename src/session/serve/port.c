/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of the sandbox on the host's loopback: each connection is made inside by the first process
 * (WIRE_CONNECT) and copied here, both ways, in buffers of fixed size.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/serve/session_impl.h"

#define PORTS_MAX 64
#define CONNECTIONS_MAX 1024 /* of one port */
#define BUDGET_SHARE 4 /* two descriptors each, and half of all for callers and commands */
#define AGAIN_MS 100   /* until a descriptor may be free */
#define PIPE_B (32u << 10)

struct connection;

struct port {
	struct session *session;
	struct port *next;
	int fd;
	uint16_t host, inside;
	struct watch watch;
	struct connection *connections;
	size_t n;
};

/* What came from one side and goes to the other. */
struct way {
	size_t n, off;
	bool ended, told; /* its source has no more; its target was told so */
	char data[PIPE_B];
};

struct connection {
	struct port *port;
	struct connection *next;
	uint32_t id; /* of the WIRE_CONNECT that is on its way; 0: connected */
	int fd[2];   /* the host's side, the sandbox's */
	struct watch watch[2];
	struct way way[2]; /* from fd[i] to fd[!i] */
};

static void free_connection(void *arg)
{
	free(arg);
}

/* How many connections all ports may have together. */
static size_t budget(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return 1;
	return MAX_OF(MIN_OF((size_t)l.rlim_cur / BUDGET_SHARE, (size_t)PORTS_MAX * CONNECTIONS_MAX),
		(size_t)1);
}

static bool has_room(const struct port *p)
{
	const struct session *s = p->session;

	return p->n < CONNECTIONS_MAX && s->connecting_n < WIRE_CONNECTS_MAX &&
	       s->connections_n < budget();
}

/* A port that may not have one more connection does not listen: who comes waits in its queue. */
static void listen_or_rest(struct session *s)
{
	for (struct port *p = s->ports; p; p = p->next)
		loop_change(&p->watch, s->ports_again.slot || !has_room(p) ? 0 : (uint32_t)EPOLLIN);
}

static void on_again(void *arg)
{
	listen_or_rest(arg);
}

static void drop(struct connection *c)
{
	struct session *s = c->port->session;
	struct connection **at = &c->port->connections;

	while (*at && *at != c)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = c->next;
	c->port->n--;
	s->connections_n--;
	s->connecting_n -= c->id != 0;
	for (int i = 0; i < 2; i++) {
		loop_unwatch(&c->watch[i]);
		close_fd(&c->fd[i]);
	}
	loop_later(s->loop, free_connection, c);
	listen_or_rest(s);
}

/* False when the connection broke. */
static bool move(struct connection *c, int from)
{
	struct way *w = &c->way[from];
	ssize_t n;

	if (w->n == 0 && !w->ended) {
		n = recv(c->fd[from], w->data, sizeof(w->data), MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		w->ended = n == 0;
		w->n = n > 0 ? (size_t)n : 0;
		w->off = 0;
	}
	if (w->n > w->off) {
		n = send(c->fd[!from], w->data + w->off, w->n - w->off, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		w->off += n > 0 ? (size_t)n : 0;
		if (w->off == w->n)
			w->n = w->off = 0;
	}
	if (w->ended && !w->n && !w->told) {
		shutdown(c->fd[!from], SHUT_WR);
		w->told = true;
	}
	return true;
}

/* What this side is waited for; 0: nothing, until the other side has taken what came from here. */
static uint32_t wanted(const struct connection *c, int side)
{
	return (c->way[side].n || c->way[side].ended ? 0 : (uint32_t)EPOLLIN) |
	       (c->way[!side].n ? (uint32_t)EPOLLOUT : 0);
}

static void on_bytes(struct connection *c, int side, uint32_t events);

static void on_host(void *arg, uint32_t events)
{
	on_bytes(arg, 0, events);
}

static void on_inside(void *arg, uint32_t events)
{
	on_bytes(arg, 1, events);
}

static bool listen_to(struct connection *c, int side)
{
	if (c->watch[side].loop) {
		loop_change(&c->watch[side], wanted(c, side));
		return true;
	}
	return wanted(c, side) == 0 ||
	       loop_watch(c->port->session->loop, &c->watch[side], c->fd[side], wanted(c, side),
		       side ? on_inside : on_host, c) == 0;
}

/*
 * Errors and hang-ups come whatever is waited for, and again and again. An error is the end. A side that
 * has hung up and has more to be read is not listened to until the other one has taken what was read.
 */
static void on_bytes(struct connection *c, int side, uint32_t events)
{
	if ((events & EPOLLERR) || ((events & EPOLLHUP) && c->way[side].ended)) {
		drop(c);
		return;
	}
	session_used(c->port->session);
	if (!move(c, 0) || !move(c, 1) || (c->way[0].told && c->way[1].told)) {
		drop(c);
		return;
	}
	if ((events & EPOLLHUP) && wanted(c, side) == 0)
		loop_unwatch(&c->watch[side]);
	if (!listen_to(c, 0) || !listen_to(c, 1))
		drop(c);
}

static void on_accept(void *arg, uint32_t events)
{
	struct port *p = arg;
	struct session *s = p->session;
	struct wire_msg m = {.type = WIRE_CONNECT, .value = p->inside, .fd = {-1, -1, -1}};
	int fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct connection *c;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			loop_timer(s->loop, &s->ports_again, AGAIN_MS, on_again, s);
		listen_or_rest(s);
		return;
	}
	session_used(s);
	c = has_room(p) ? calloc(1, sizeof(*c)) : NULL;
	m.id = ++s->next_connection;
	if (!c || wire_send(s->boundary.sandbox.control, &m) < 0) {
		free(c);
		close(fd);
		return;
	}
	c->port = p;
	c->id = m.id;
	c->fd[0] = fd;
	c->fd[1] = -1;
	c->next = p->connections;
	p->connections = c;
	p->n++;
	s->connections_n++;
	s->connecting_n++;
	listen_or_rest(s);
}

void port_connected(struct session *s, uint32_t id, int error, int *fd)
{
	for (struct port *p = s->ports; p; p = p->next)
		for (struct connection *c = p->connections; c; c = c->next) {
			if (c->id != id)
				continue;
			c->id = 0;
			s->connecting_n--;
			listen_or_rest(s);
			if (error || *fd < 0) {
				drop(c);
				return;
			}
			c->fd[1] = take_fd(fd);
			if (!listen_to(c, 0) || !listen_to(c, 1))
				drop(c);
			return;
		}
}

static int add(struct session *s, int fd, uint16_t host, uint16_t inside)
{
	struct port *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct port){
		.session = s, .next = s->ports, .fd = fd, .host = host, .inside = inside};
	if (loop_watch(s->loop, &p->watch, fd, EPOLLIN, on_accept, p) < 0) {
		free(p);
		return -ENOMEM;
	}
	s->ports = p;
	listen_or_rest(s);
	return 0;
}

int port_publish(struct session *s, uint16_t host, uint16_t inside, uint16_t *ret_host, struct err *e)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(host),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);
	cleanup_fd int fd = -1;
	size_t n = 0;
	int one = 1;

	if (!(s->boundary.engine->can & ENGINE_OWN_NETWORK))
		return err_refuse(e, "the %s tier has no network of its own: what listens in it "
				     "listens on this machine, if anything may", s->receipt->tier);
	for (const struct port *p = s->ports; p; p = p->next) {
		n++;
		if (p->inside == inside && (host == 0 || host == p->host)) {
			*ret_host = p->host; /* it is published already */
			return 0;
		}
	}
	if (n >= PORTS_MAX)
		return err_refuse(e, "at most %d ports can be published", PORTS_MAX);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (host)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0 ||
		getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
		if (errno == EADDRINUSE && host)
			return err_invalid(e,
				"port %u of this machine is in use; take any that is free with croft "
				"port %s 0:%u",
				host, s->o->name, inside);
		return err_set(e, errno, "listen on 127.0.0.1:%u", host);
	}
	*ret_host = ntohs(a.sin_port);
	if (add(s, fd, *ret_host, inside) < 0)
		return err_set(e, ENOMEM, "publish port %u", inside);
	take_fd(&fd);
	return 0;
}

static void free_port(void *arg)
{
	free(arg);
}

/* Its connections end with it. */
static void withdraw(struct session *s, struct port *p)
{
	struct port **at = &s->ports;

	while (*at != p)
		at = &(*at)->next;
	while (p->connections)
		drop(p->connections);
	*at = p->next;
	loop_unwatch(&p->watch);
	close_fd(&p->fd);
	loop_later(s->loop, free_port, p);
	listen_or_rest(s);
}

int port_withdraw(struct session *s, uint16_t host, uint16_t inside, uint16_t *ret_host, struct err *e)
{
	for (struct port *p = s->ports; p; p = p->next)
		if (p->inside == inside && (host == 0 || host == p->host)) {
			*ret_host = p->host;
			withdraw(s, p);
			return 0;
		}
	return err_invalid(e, "port %u of %s is not shown on this machine; see: croft ps %s", inside,
		s->o->name, s->o->name);
}

/* The gateway's part in a run of one command is ours here: the sandbox answers in another form. */
void port_take_published(struct session *s)
{
	struct network *n = &s->receipt->network;

	for (size_t i = 0; n->policy && i < n->policy->publish_n; i++)
		if (n->publish[i] >= 0 && add(s, n->publish[i], n->policy->publish[i].host,
						  n->policy->publish[i].inside) == 0)
			n->publish[i] = -1;
}

void port_list(const struct session *s, struct json *j)
{
	json_array(j, "ports");
	for (const struct port *p = s->ports; p; p = p->next) {
		json_object(j, NULL);
		json_uint(j, "host", p->host);
		json_uint(j, "inside", p->inside);
		json_uint(j, "connections", p->n);
		json_end(j);
	}
	json_end(j);
}

void port_done(struct session *s)
{
	loop_cancel(&s->ports_again);
	while (s->ports) {
		struct port *p = s->ports;

		while (p->connections)
			drop(p->connections);
		s->ports = p->next;
		loop_unwatch(&p->watch);
		close_fd(&p->fd);
		free(p);
	}
}
