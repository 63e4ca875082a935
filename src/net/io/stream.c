/* SPDX-License-Identifier: Apache-2.0 */
/* Byte streams: see stream.h. */
#include "net/io/stream.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include "base/cleanup.h"
#include "net/tls/tls.h"

void stream_set_init(struct stream_set *set, struct loop *l)
{
	*set = (struct stream_set){.loop = l};
}

static bool can_read(const struct stream *s)
{
	return !s->paused && !s->eof && !s->shaking && fifo_room(&s->in) > 0;
}

/* More is there without asking the kernel. */
static bool read_pending(const struct stream *s)
{
	return s->ssl && SSL_has_pending(s->ssl);
}

/*
 * Tell the loop what is waited for, only when that changed: each change is a system call. A hang-up
 * cannot be unheard, so after one the descriptor is no longer watched and reading goes on by
 * itself.
 */
static void stream_watch(struct stream *s)
{
	uint32_t want = 0;

	if (!s->open || s->is_broken)
		return;
	if (can_read(s) && (s->hung_up || read_pending(s))) {
		s->refill = true;
		stream_kick(s);
	}
	if (s->hung_up) {
		if (s->watching)
			loop_unwatch(&s->watch);
		s->watching = false;
		return;
	}
	if (s->shaking || can_read(s))
		want |= EPOLLIN;
	if (s->write_blocked || s->read_wants_write)
		want |= EPOLLOUT;
	if (want != s->watch.events)
		loop_change(&s->watch, want);
}

/* The owner closes the stream in here, or soon. */
static void stream_break(struct stream *s, const char *why)
{
	if (!s->open || s->is_broken)
		return;
	s->is_broken = true;
	if (s->watching)
		loop_unwatch(&s->watch);
	s->watching = false;
	s->ops->broken(s->arg, why);
}

/* What an SSL call that returned <= 0 means: 1 wait, 0 the peer is done, -1 broken. */
static int ssl_outcome(struct stream *s, int r, bool reading)
{
	switch (SSL_get_error(s->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return 1;
	case SSL_ERROR_WANT_WRITE:
		if (reading)
			s->read_wants_write = true;
		else
			s->write_blocked = true;
		return 1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SSL:
		if (reading && !s->shaking &&
			ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
			s->truncated = true;
			ERR_clear_error();
			return 0;
		}
		__attribute__((fallthrough));
	default:
		tls_problem(s->ssl, s->why, sizeof(s->why));
		ERR_clear_error();
		return -1;
	}
}

/* Bytes read, 0 at the end, -EAGAIN, or -EIO. */
static long read_some(struct stream *s, char *p, size_t n)
{
	ssize_t got;
	int r;

	if (s->ssl) {
		ERR_clear_error();
		r = SSL_read(s->ssl, p, (int)MIN_OF(n, (size_t)1 << 20));
		if (r > 0)
			return r;
		r = ssl_outcome(s, r, true);
		return r > 0 ? -EAGAIN : r == 0 ? 0 : -EIO;
	}
	got = recv(s->fd, p, n, MSG_DONTWAIT);
	if (got >= 0)
		return got;
	return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EIO;
}

/*
 * One read per wake is enough: the loop is level-triggered and calls again. Only what TLS has taken
 * from the kernel already must be taken now, since nobody would tell of it.
 */
static int stream_fill(struct stream *s)
{
	size_t room = 0;
	long n;
	char *p;

	s->read_wants_write = false;
	do {
		p = fifo_space(&s->in, &room);
		if (!p)
			return fifo_room(&s->in) ? -ENOMEM : 0;
		n = read_some(s, p, room);
		fifo_filled(&s->in, n > 0 ? (size_t)n : 0);
		if (n == -EAGAIN)
			return s->hung_up ? -EPIPE : 0;
		if (n < 0)
			return (int)n;
		if (n == 0) {
			s->eof = true;
			return 0;
		}
		s->in_b += (uint64_t)n;
	} while (read_pending(s));
	return 0;
}

/* 0 or negative when broken. */
static int stream_flush(struct stream *s)
{
	ssize_t n;
	int r;

	s->write_blocked = false;
	if (s->hung_up)
		fifo_done(&s->out); /* nobody is there to read it */
	while (s->out.len > 0 && !s->write_blocked) {
		if (s->ssl) {
			ERR_clear_error();
			n = SSL_write(s->ssl, fifo_head(&s->out), (int)s->out.len);
			if (n <= 0) {
				r = ssl_outcome(s, (int)n, false);
				if (r <= 0)
					return -EPIPE;
				s->write_blocked = true;
				break;
			}
		} else {
			n = send(
				s->fd, fifo_head(&s->out), s->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && errno == EAGAIN) {
				s->write_blocked = true;
				break;
			}
			if (n < 0)
				return -errno;
		}
		s->out_b += (uint64_t)n;
		fifo_drop(&s->out, (size_t)n);
	}
	if (!s->out.len && s->shut_after) {
		s->shut_after = false;
		if (s->ssl)
			SSL_shutdown(s->ssl);
		shutdown(s->fd, SHUT_WR);
	}
	return 0;
}

/* Read, and tell the owner. */
static void stream_take(struct stream *s)
{
	uint64_t had = s->in_b;
	bool again = s->refill;

	s->refill = false;
	if (can_read(s) && stream_fill(s) < 0)
		stream_break(s, "the connection broke");
	else if (s->in_b != had || s->eof || (again && s->in.len))
		s->ops->readable(s->arg);
}

/* Send all there is, or as much as the kernel takes. */
static int stream_send(struct stream *s)
{
	bool more;
	int r;

	do {
		more = s->ops->fill && s->out.len < STREAM_OUT_HIGH_B && s->ops->fill(s->arg);
		if (!s->open || s->is_broken)
			return 0;
		r = stream_flush(s);
	} while (r == 0 && more && !s->write_blocked);
	if (r < 0)
		stream_break(s, "the connection broke");
	else if (s->was_high && s->out.len < STREAM_OUT_HIGH_B / 2) {
		s->was_high = false;
		s->ops->writable(s->arg);
	}
	return r;
}

/*
 * Whoever is added meanwhile has the next turn, so that two fast ends cannot keep everybody else
 * waiting.
 */
static void set_flush(void *arg)
{
	struct stream_set *set = arg;
	struct stream *s;

	set->scheduled = false;
	set->now = set->dirty;
	set->dirty = NULL;
	while ((s = set->now)) {
		set->now = s->next_dirty;
		s->is_dirty = false;
		if (!s->open || s->is_broken || s->shaking)
			continue;
		stream_send(s);
		if (s->refill && s->open && !s->is_broken)
			stream_take(s);
		stream_watch(s);
	}
}

void stream_kick(struct stream *s)
{
	if (s->out.len >= STREAM_OUT_HIGH_B)
		s->was_high = true;
	if (s->is_dirty || !s->open || s->is_broken)
		return;
	s->is_dirty = true;
	s->next_dirty = s->set->dirty;
	s->set->dirty = s;
	if (!s->set->scheduled) {
		s->set->scheduled = true;
		loop_later(s->set->loop, set_flush, s->set);
	}
}

bool stream_add(struct stream *s, const void *p, size_t n)
{
	if (!s->open || !fifo_add(&s->out, p, n))
		return false;
	stream_kick(s);
	return true;
}

/* Goes on with the handshake; true when it is over. */
static bool stream_shake(struct stream *s)
{
	int r;

	ERR_clear_error();
	s->read_wants_write = false;
	r = SSL_do_handshake(s->ssl);
	if (r == 1) {
		s->shaking = false;
		return true;
	}
	if (ssl_outcome(s, r, true) <= 0)
		stream_break(s, s->why[0] ? s->why : "the TLS handshake was given up");
	return false;
}

static void stream_ready(void *arg, uint32_t events)
{
	struct stream *s = arg;

	if (s->shaking) {
		if (!stream_shake(s)) {
			stream_watch(s);
			return;
		}
		s->ops->shaken(s->arg);
		if (s->open && !s->is_broken) {
			stream_kick(s);
			stream_watch(s); /* what came with the last flight is in TLS's own buffer */
		}
		return;
	}
	if (events & (EPOLLERR | EPOLLHUP))
		s->hung_up = true;
	if (events & EPOLLOUT) {
		s->write_blocked = false;
		stream_kick(s);
	}
	if (events & ~(uint32_t)EPOLLOUT || s->read_wants_write)
		stream_take(s);
	stream_watch(s);
}

int stream_open(struct stream *s, struct stream_set *set, int fd, SSL *ssl,
	const struct stream_ops *ops, void *arg)
{
	int r;

	*s = (struct stream){
		.set = set,
		.ops = ops,
		.arg = arg,
		.fd = fd,
		.in = FIFO_INIT(STREAM_IN_MAX_B),
		.out = FIFO_INIT(STREAM_OUT_MAX_B),
	};
	/* A client begins the handshake: it must hear that the socket can be written. */
	s->shaking = ssl != NULL;
	s->read_wants_write = ssl && !SSL_is_server(ssl);
	r = loop_watch(set->loop, &s->watch, fd, s->read_wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN,
		stream_ready, s);
	if (r < 0)
		return r;
	s->ssl = ssl;
	s->open = s->watching = true;
	return 0;
}

void stream_close(struct stream *s)
{
	struct stream **p;

	if (!s->open)
		return;
	s->open = false;
	if (s->is_dirty) {
		for (p = &s->set->dirty; *p && *p != s; p = &(*p)->next_dirty)
			;
		if (!*p)
			for (p = &s->set->now; *p && *p != s; p = &(*p)->next_dirty)
				;
		if (*p)
			*p = s->next_dirty;
		s->is_dirty = false;
	}
	if (s->watching)
		loop_unwatch(&s->watch);
	s->watching = false;
	if (s->ssl)
		SSL_free(s->ssl);
	s->ssl = NULL;
	fifo_done(&s->in);
	fifo_done(&s->out);
}

void stream_pause(struct stream *s, bool on)
{
	if (s->paused == on || !s->open || s->is_broken)
		return;
	s->paused = on;
	stream_watch(s);
}

void stream_shut(struct stream *s)
{
	s->shut_after = true;
	stream_kick(s);
}

void stream_again(struct stream *s)
{
	if (!s->open || s->is_broken)
		return;
	s->refill = true;
	stream_kick(s);
}

bool stream_alpn_h2(const struct stream *s)
{
	const unsigned char *name = NULL;
	unsigned n = 0;

	if (!s->ssl)
		return false;
	SSL_get0_alpn_selected(s->ssl, &name, &n);
	return n == 2 && name[0] == 'h' && name[1] == '2';
}
