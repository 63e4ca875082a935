/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's connections upstream: HTTP/1.1 over TLS, verified for the name that was judged. One
 * without TLS never carries a value; it is here because its answers may.
 *
 * Trust: a connection is reused only for the same name and port. A new policy closes the idle ones,
 *        so that each connection was vetted under the policy it is used under.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/keeper/keeper_impl.h"
#include "net/tls/tls.h"

static void up_free(void *arg)
{
	free(arg);
}

static void idle_remove(struct up *u)
{
	if (!u->prev)
		return;
	*u->prev = u->next;
	if (u->next)
		u->next->prev = u->prev;
	u->prev = NULL;
	u->next = NULL;
	u->k->idle_n--;
}

void up_close(struct up *u)
{
	if (!u || u->dead)
		return;
	u->dead = true;
	idle_remove(u);
	loop_cancel(&u->timer);
	loop_unwatch(&u->watch);
	if (u->dial)
		u->k->dial_cancel(u->dial);
	up_h2_free(u);
	if (u->ssl) {
		if (u->shaken)
			SSL_shutdown(u->ssl); /* says goodbye, waits for nothing */
		SSL_free(u->ssl);
		ERR_clear_error();
	}
	u->ssl = NULL;
	close_fd(&u->fd);
	loop_later(u->k->gw.loop, up_free, u);
}

void up_close_idle(struct keeper *k)
{
	while (k->idle)
		up_close(k->idle);
}

static void failed(struct up *u, const char *why)
{
	struct conn *c = u->user;

	if (c)
		conn_up_failed(c, why);
	else
		up_close(u);
}

static bool chose_h2(const struct up *u)
{
	const unsigned char *name = NULL;
	unsigned n = 0;

	SSL_get0_alpn_selected(u->ssl, &name, &n);
	return n == 2 && memcmp(name, "h2", 2) == 0;
}

static void shake(struct up *u)
{
	char why[160];
	int r;

	ERR_clear_error();
	r = SSL_do_handshake(u->ssl);
	if (r == 1) {
		u->shaken = true;
		loop_cancel(&u->timer);
		if (chose_h2(u) && !up_h2_start(u)) {
			failed(u, "out of memory");
			return;
		}
		conn_up_ready(u->user);
		return;
	}
	switch (SSL_get_error(u->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		loop_change(&u->watch, EPOLLIN);
		return;
	case SSL_ERROR_WANT_WRITE:
		loop_change(&u->watch, EPOLLOUT);
		return;
	default:
		tls_problem(u->ssl, why, sizeof(why));
		failed(u, why);
	}
}

/* An idle server may send tickets; anything else ends it. */
static void idle_event(struct up *u)
{
	char c;

	if (up_read(u, &c, 1) != UP_AGAIN)
		up_close(u);
}

static void on_event(void *arg, uint32_t events)
{
	struct up *u = arg;

	if (!u->shaken) {
		shake(u);
		return;
	}
	/* A hang-up is told again and again; while nobody reads, it must not be heard. */
	if (!u->watch.events)
		loop_unwatch(&u->watch);
	if (!u->user)
		idle_event(u);
	else
		conn_up_event(u->user);
}

static void on_timeout(void *arg)
{
	failed(arg, "the TLS handshake took too long");
}

static void on_dialled(void *arg, int fd, const struct err *e)
{
	struct up *u = arg;

	u->dial = NULL;
	if (fd < 0) {
		failed(u, e->msg);
		return;
	}
	u->fd = fd;
	if (!u->tls) {
		u->shaken = true;
		if (loop_watch(u->k->gw.loop, &u->watch, fd, 0, on_event, u) < 0)
			failed(u, "out of memory");
		else
			conn_up_ready(u->user);
		return;
	}
	u->ssl = tls_client(u->k->gw.tls, u->host, fd, !u->want_h2);
	if (u->ssl) /* an answer may echo values: the library keeps no copy of it */
		SSL_set_options(u->ssl, SSL_OP_CLEANSE_PLAINTEXT);
	if (!u->ssl || loop_watch(u->k->gw.loop, &u->watch, fd, 0, on_event, u) < 0 ||
		loop_timer(u->k->gw.loop, &u->timer, KEEPER_SHAKE_MS, on_timeout, u) < 0) {
		failed(u, "out of memory");
		return;
	}
	shake(u);
}

/* gRPC has nothing but HTTP/2; whatever else goes to a host with secrets is HTTP/1.1. */
static bool is_grpc(const struct conn *c)
{
	const char *type = fields_get(&c->req.fields, "content-type");

	return c->tls && type && str_starts(type, "application/grpc");
}

static struct up *idle_take(
	struct keeper *k, const char *host, uint16_t port, bool tls, bool want_h2)
{
	for (struct up *u = k->idle; u; u = u->next)
		if (u->port == port && u->tls == tls && u->want_h2 == want_h2 &&
			str_eq(u->host, host)) {
			idle_remove(u);
			loop_cancel(&u->timer);
			u->reused = true;
			return u;
		}
	return NULL;
}

struct up *up_get(struct conn *c, const struct net_rule *rule, bool fresh)
{
	struct keeper *k = c->k;
	struct up *u = fresh ? NULL : idle_take(k, c->host, c->port, c->tls, is_grpc(c));
	struct net_dest d;

	if (u) {
		u->user = c;
		return u;
	}
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->k = k;
	u->user = c;
	u->fd = -1;
	u->port = c->port;
	u->tls = c->tls;
	u->want_h2 = is_grpc(c);
	memcpy(u->host, c->host, sizeof(u->host));
	if (rule) {
		u->rule = *rule;
		u->rule.private_ok = rule->private_ok && c->private_ok;
		u->has_rule = true;
	}
	d = (struct net_dest){.host = u->host, .port = u->port};
	u->dial = k->dial(&k->gw, &d, u->has_rule ? &u->rule : NULL, on_dialled, u);
	if (!u->dial) {
		free(u);
		return NULL;
	}
	return u;
}

static void idle_over(void *arg)
{
	up_close(arg);
}

void up_release(struct up *u)
{
	struct keeper *k = u->k;

	u->user = NULL;
	u->read_wants_write = u->write_wants_write = false;
	if ((u->h2 && !up_h2_reset(u)) || k->idle_n >= KEEPER_IDLE_MAX ||
		loop_timer(k->gw.loop, &u->timer, KEEPER_IDLE_MS, idle_over, u) < 0) {
		up_close(u);
		return;
	}
	u->next = k->idle;
	if (u->next)
		u->next->prev = &u->next;
	u->prev = &k->idle;
	k->idle = u;
	k->idle_n++;
	up_want(u, true, false);
}

/* ---- bytes ---- */

static long outcome(struct up *u, int r, bool *wants_write)
{
	switch (SSL_get_error(u->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return UP_AGAIN;
	case SSL_ERROR_WANT_WRITE:
		*wants_write = true;
		return UP_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return UP_EOF; /* a proper end; one that is cut off is broken */
	default:
		return UP_BROKEN;
	}
}

/* What recv() or send() said. */
static long plain_outcome(ssize_t r, bool *wants_write)
{
	if (r > 0)
		return r;
	if (r == 0)
		return UP_EOF;
	*wants_write = errno == EAGAIN;
	return errno == EAGAIN ? UP_AGAIN : UP_BROKEN;
}

static long plain_read(struct up *u, char *p, size_t n)
{
	bool again;
	ssize_t r;

	do
		r = recv(u->fd, p, n, MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	return plain_outcome(r, &again);
}

static long plain_write(struct up *u, const char *p, size_t n)
{
	ssize_t r;

	do
		r = send(u->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return plain_outcome(r, &u->write_wants_write);
}

long up_tls_read(struct up *u, char *p, size_t n)
{
	int r;

	u->read_wants_write = false;
	if (!u->tls)
		return plain_read(u, p, n);
	ERR_clear_error();
	r = SSL_read(u->ssl, p, (int)MIN_OF(n, (size_t)1 << 20));
	return r > 0 ? r : outcome(u, r, &u->read_wants_write);
}

long up_tls_write(struct up *u, const char *p, size_t n)
{
	int r;

	u->write_wants_write = false;
	if (!u->tls)
		return plain_write(u, p, n);
	ERR_clear_error();
	r = SSL_write(u->ssl, p, (int)MIN_OF(n, (size_t)1 << 20));
	return r > 0 ? r : outcome(u, r, &u->write_wants_write);
}

long up_read(struct up *u, char *p, size_t n)
{
	return u->h2 ? up_h2_read(u, p, n) : up_tls_read(u, p, n);
}

long up_write(struct up *u, const char *p, size_t n)
{
	return u->h2 ? up_h2_write(u, p, n) : up_tls_write(u, p, n);
}

void up_want(struct up *u, bool read, bool write)
{
	uint32_t events = 0;

	if (!u->shaken)
		return;
	if (read)
		events |= u->read_wants_write ? EPOLLOUT : EPOLLIN;
	if ((write || (u->h2 && up_h2_pending(u))) && u->write_wants_write)
		events |= EPOLLOUT;
	if (!u->watch.loop && events)
		loop_watch(u->k->gw.loop, &u->watch, u->fd, events, on_event, u);
	else
		loop_change(&u->watch, events);
}
