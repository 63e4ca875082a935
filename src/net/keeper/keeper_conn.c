/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the gateway: requests come in plain, get their values and go out over TLS, one
 * after the other.
 *
 * Order:  head (keeper_inbound.c) -> upstream -> head with values, body -> answer (keeper_answer.c)
 *         -> next head. One function, conn_run(), moves whatever can move, whoever woke it, and
 *         then says what it waits for.
 * Memory: a head with values exists in one locked buffer, only within one call that sends it; if it
 *         cannot be sent whole, it is made again for the rest.
 * Failure: a refusal is a JSON answer and the end of the connection; after an answer was begun,
 *          only the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "net/keeper/keeper_impl.h"

#define ROUNDS_MAX 32 /* of one turn; then others have theirs */
#define ERROR_BODY_MAX_B 8192u

/* ---- life ---- */

static void exchange_done(struct conn *c)
{
	if (c->has_req)
		request_done(&c->req);
	c->has_req = false;
	placeholder_scan_done(&c->scan);
	c->scan = (struct placeholder_scan){0};
	buf_reset(&c->head);
	c->place = (struct placement){0};
	c->head_off = 0;
	c->head_sent = c->body_done = c->up_eof = c->up_deaf = c->answered = c->answer_done =
		c->keep_up = false;
	c->body_left = c->answer_left = 0;
	c->body_chunks = (struct chunks){0};
	if (c->trailers.data)
		explicit_bzero(c->trailers.data, c->trailers.cap);
	buf_reset(&c->trailers);
	c->answer_chunks = (struct chunks){.trailers = &c->trailers};
	c->answer = ANSWER_NONE;
	c->tries = 0;
	fifo_done(&c->up_out);
	messages_done(&c->messages);
	answer_forget(c);
}

static void conn_free(void *arg)
{
	free(arg);
}

void conn_end(struct conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	*c->prev = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->k->conns_n--;
	loop_cancel(&c->timer);
	loop_cancel(&c->release);
	loop_unwatch(&c->watch);
	close_fd(&c->fd);
	up_close(c->up);
	c->up = NULL;
	exchange_done(c);
	scrub_free(c->scrub);
	c->scrub = NULL;
	buf_done(&c->head);
	buf_done(&c->trailers);
	fifo_done(&c->in);
	fifo_done(&c->out);
	loop_later(c->k->gw.loop, conn_free, c);
}

static void on_timer(void *arg);

/* Deadlines move with every byte; the timer is set anew only when it would fire too late. */
static void give_time(struct conn *c, uint64_t ms)
{
	c->deadline_ms = loop_now_ms(c->k->gw.loop) + ms;
	if (!c->timer.slot || c->timer.at_ms > c->deadline_ms)
		loop_timer(c->k->gw.loop, &c->timer, ms, on_timer, c);
}

static void on_timer(void *arg)
{
	struct conn *c = arg;
	uint64_t now = loop_now_ms(c->k->gw.loop);

	if (now < c->deadline_ms) {
		loop_timer(c->k->gw.loop, &c->timer, c->deadline_ms - now, on_timer, c);
	} else if (c->state == CONN_EXCHANGE && !c->answered) {
		conn_refuse(c, 504, "the server did not answer in time", "");
		if (!c->dead)
			conn_run(c);
	} else {
		conn_end(c);
	}
}

static void on_event(void *arg, uint32_t events)
{
	struct conn *c = arg;

	if (events & (EPOLLHUP | EPOLLERR))
		conn_end(c); /* the gateway is gone in both directions */
	else
		conn_run(c);
}

int conn_open(struct keeper *k, int fd, const struct keeper_open *o)
{
	struct conn *c = calloc(1, sizeof(*c));
	int r = -ENOMEM;

	if (c) {
		c->k = k;
		c->fd = fd;
		c->port = o->port;
		c->private_ok = o->private_ok;
		c->tls = o->tls;
		memcpy(c->host, o->host, sizeof(c->host));
		c->in = FIFO_INIT(KEEPER_IN_MAX_B);
		c->out = c->up_out = FIFO_INIT(KEEPER_OUT_MAX_B);
		c->head = BUF_INIT(2 * HTTP_HEAD_MAX_B);
		c->trailers = BUF_INIT(HTTP_HEAD_MAX_B + 1);
		c->answer_chunks = (struct chunks){.trailers = &c->trailers};
		messages_init(&c->messages);
		r = loop_watch(k->gw.loop, &c->watch, fd, EPOLLIN | EPOLLRDHUP, on_event, c);
	}
	if (r < 0) {
		if (c)
			loop_unwatch(&c->watch);
		free(c);
		close(fd);
		return r;
	}
	give_time(c, KEEPER_WAIT_MS);
	c->next = k->conns;
	if (c->next)
		c->next->prev = &c->next;
	c->prev = &k->conns;
	k->conns = c;
	k->conns_n++;
	return 0;
}

/* ---- saying no ---- */

static void error_body(
	const struct conn *c, unsigned status, const char *why, const char *next, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j, NULL);
	json_str(&j, "error",
		status >= 500   ? "croft could not carry this request"
		: status == 403 ? "denied by croft policy"
				: "croft refuses this request");
	json_str(&j, "host", c->host);
	json_str(&j, "method", c->has_req ? c->req.method : "");
	json_str(&j, "path", c->has_req ? c->req.path : "");
	json_str(&j, "rule", "network.secrets");
	json_str(&j, "reason", why);
	json_str(&j, "next", next);
	json_end(&j);
	buf_addc(out, '\n');
}

static bool write_error(struct conn *c, unsigned status, const char *why, const char *next)
{
	cleanup_buf struct buf body = BUF_INIT(ERROR_BODY_MAX_B + HTTP_PATH_MAX * 6);
	cleanup_buf struct buf head = BUF_INIT(ERROR_BODY_MAX_B);
	const char *method = c->has_req ? c->req.method : "GET";
	struct http_response r;
	bool ok;

	error_body(c, status, why, next, &body);
	response_init(&r);
	r.status = status;
	r.body = HTTP_BODY_LENGTH;
	r.length = body.len;
	r.has_length = true;
	r.close = true;
	ok = !fields_add(&r.fields, &r.arena, "content-type", 12, "application/json", 16);
	http1_write_response(&r, method, &head);
	response_done(&r);
	return ok && !body.failed && !head.failed && fifo_add(&c->out, head.data, head.len) &&
	       (str_eq(method, "HEAD") || fifo_add(&c->out, body.data, body.len));
}

void conn_refuse(struct conn *c, unsigned status, const char *why, const char *next)
{
	if (c->dead || c->state == CONN_DRAIN)
		return;
	if (status == 403 || status == 421)
		keeper_tell(c->k, c, status, why);
	if (c->answered || c->state == CONN_TUNNEL || !write_error(c, status, why, next)) {
		conn_end(c);
		return;
	}
	up_close(c->up);
	c->up = NULL;
	exchange_done(c);
	c->state = CONN_DRAIN;
	give_time(c, KEEPER_DRAIN_MS);
}

/* ---- upstream ---- */

/* The rest of the head, with its values; they are gone from memory when this returns. */
static bool head_flush(struct conn *c)
{
	struct secret *s = &c->k->stage;
	bool moved = false;
	long n = UP_AGAIN;

	if (c->head_sent)
		return false;
	secret_reset(s);
	if (!place_write(&c->place, &c->k->vault, buf_str(&c->head), c->head.len, s)) {
		secret_reset(s);
		conn_refuse(c, 431, "the request's head is too long with its secrets", "");
		return true;
	}
	while (c->head_off < s->len &&
		(n = up_write(c->up, s->data + c->head_off, s->len - c->head_off)) > 0) {
		c->head_off += (size_t)n;
		moved = true;
	}
	c->head_sent = c->head_off == s->len;
	secret_reset(s);
	if (n < 0)
		conn_up_failed(c, "the server closed the connection");
	return moved || n < 0;
}

static bool body_flush(struct conn *c)
{
	bool moved = false;
	long n = UP_AGAIN;

	if (c->up_deaf)
		fifo_done(&c->up_out);
	while (c->up_out.len && (n = up_write(c->up, fifo_head(&c->up_out), c->up_out.len)) > 0) {
		fifo_drop(&c->up_out, (size_t)n);
		moved = true;
	}
	/* A server that closes while it is sent to may have answered first: reading tells. */
	if (n < 0) {
		c->up_deaf = true;
		fifo_done(&c->up_out);
	}
	return moved;
}

static bool up_fill(struct conn *c)
{
	size_t end = c->rx_off + c->rx_len;
	long n;

	if (c->up_eof || c->answer_done || c->out.len >= KEEPER_HIGH_B || end == KEEPER_IN_MAX_B) {
		c->release_stalled = true;
		return false;
	}
	n = up_read(c->up, c->rx + end, KEEPER_IN_MAX_B - end);
	if (n > 0)
		c->rx_len += (size_t)n;
	if (n >= 0)
		return n > 0;
	/* Only an answer that ends with its connection needs the end to be a proper one. */
	c->up_eof = true;
	if (n == UP_BROKEN && c->answer == ANSWER_CLOSE && c->answered)
		conn_end(c);
	else if (!c->answered && !c->rx_len)
		conn_up_failed(c, "the server closed the connection without an answer");
	return true;
}

static bool can_retry(const struct conn *c)
{
	return c->up && c->up->reused && c->tries == 0 && !c->answered && !c->rx_len &&
	       c->req.body == HTTP_BODY_NONE &&
	       (str_eq(c->req.method, "GET") || str_eq(c->req.method, "HEAD") ||
		       str_eq(c->req.method, "OPTIONS"));
}

void conn_up_failed(struct conn *c, const char *why)
{
	char text[ERR_MSG_MAX + NET_NAME_MAX + 8];

	if (c->dead || c->state == CONN_DRAIN)
		return;
	if (can_retry(c)) { /* it died while it was idle, before it saw this request */
		struct net_verdict v = {0};
		struct net_rule rule;
		bool has_rule = false;

		up_close(c->up);
		c->tries++;
		c->head_off = 0;
		c->head_sent = c->up_eof = false;
		c->up = inbound_judge(c, &rule, &has_rule, &v)
				? NULL
				: up_get(c, has_rule ? &rule : NULL, true);
		if (c->up)
			return;
	}
	snprintf(text, sizeof(text), "%s: %s", c->host, why);
	conn_refuse(c, 502, text, "");
	if (!c->dead)
		conn_run(c);
}

void conn_up_ready(struct conn *c)
{
	conn_run(c);
}

void conn_up_event(struct conn *c)
{
	conn_run(c);
}

/* Both directions are over: the next request, or the end. */
static bool exchange_finish(struct conn *c)
{
	bool clean = c->body_done && c->head_sent && !c->up_out.len && !c->up_deaf;

	if (!c->answer_done || c->out.len)
		return false;
	if (clean && c->keep_up && !c->up_eof && !c->rx_len)
		up_release(c->up);
	else
		up_close(c->up);
	c->up = NULL;
	exchange_done(c);
	/*
	 * An answer that came before the whole request: what is left of it cannot be told from the
	 * next.
	 */
	c->state = clean ? CONN_HEAD : CONN_DRAIN;
	give_time(c, clean ? KEEPER_WAIT_MS : KEEPER_DRAIN_MS);
	return true;
}

/* ---- the gateway's side ---- */

static bool in_wanted(const struct conn *c)
{
	if (c->in_eof || !fifo_room(&c->in))
		return false;
	return c->state != CONN_EXCHANGE || (!c->body_done && c->up_out.len < KEEPER_HIGH_B);
}

static bool in_fill(struct conn *c)
{
	size_t room = 0;
	char *p;
	ssize_t n;

	if (!in_wanted(c) || (c->state == CONN_TUNNEL && c->up_out.len >= KEEPER_HIGH_B))
		return false;
	p = fifo_space(&c->in, &room);
	if (!p)
		return false;
	do
		n = recv(c->fd, p, room, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	fifo_filled(&c->in, n > 0 ? (size_t)n : 0);
	if (n == 0)
		c->in_eof = true;
	else if (n < 0 && errno != EAGAIN)
		conn_end(c);
	return n >= 0;
}

static bool out_flush(struct conn *c)
{
	bool moved = false;
	ssize_t n;

	while (c->out.len) {
		n = send(c->fd, fifo_head(&c->out), c->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			conn_end(c);
			return true;
		}
		if (n <= 0)
			break;
		fifo_drop(&c->out, (size_t)n);
		moved = true;
	}
	return moved;
}

/* After a WebSocket was agreed: bytes up as they are, bytes down without values. */
static bool tunnel_pump(struct conn *c)
{
	size_t n = c->in.len;

	if (!n || c->up_out.len >= KEEPER_HIGH_B)
		return false;
	if (!fifo_add(&c->up_out, fifo_head(&c->in), n)) {
		conn_end(c);
		return true;
	}
	fifo_drop(&c->in, n);
	return true;
}

static bool drain(struct conn *c)
{
	bool had = c->in.len > 0;

	fifo_drop(&c->in, c->in.len);
	if (!c->out.len && !c->shut) {
		c->shut = true;
		shutdown(c->fd, SHUT_WR);
	}
	return had;
}

/* ---- one turn ---- */

static bool carry(struct conn *c)
{
	bool moved = false;

	if (c->state == CONN_TUNNEL)
		moved |= tunnel_pump(c);
	else
		moved |= inbound_body(c);
	if (c->dead || c->state == CONN_DRAIN || !c->up || !c->up->shaken)
		return moved;
	moved |= head_flush(c);
	if (c->dead || c->state == CONN_DRAIN || !c->up || !c->up->shaken)
		return moved;
	if (c->head_sent)
		moved |= body_flush(c);
	moved |= up_fill(c);
	if (c->dead || c->state == CONN_DRAIN || !c->up)
		return moved;
	moved |= answer_pump(c);
	if (!c->dead && c->state == CONN_EXCHANGE)
		moved |= exchange_finish(c);
	else if (!c->dead && c->state == CONN_TUNNEL && (c->answer_done || c->in_eof) &&
		 !c->out.len && !c->up_out.len)
		conn_end(c);
	return moved;
}

static bool one_round(struct conn *c)
{
	bool moved = out_flush(c);

	if (!c->dead)
		moved |= in_fill(c);
	if (c->dead)
		return false;
	switch (c->state) {
	case CONN_HEAD:
		moved |= inbound_head(c);
		break;
	case CONN_EXCHANGE:
	case CONN_TUNNEL:
		moved |= carry(c);
		break;
	case CONN_DRAIN:
	default:
		moved |= drain(c);
	}
	return moved;
}

static void run_again(void *arg)
{
	struct conn *c = arg;

	c->again = false;
	if (!c->dead)
		conn_run(c);
}

/* What both sides wait for now. */
static void want(struct conn *c)
{
	uint32_t events = c->in_eof ? 0 : EPOLLRDHUP;

	/*
	 * While nothing is read from it, an end of the gateway's direction would be told for ever.
	 */
	if (!in_wanted(c))
		events = 0;
	else
		events |= EPOLLIN;
	if (c->out.len)
		events |= EPOLLOUT;
	loop_change(&c->watch, events);
	if (c->up && c->up->shaken && (c->state == CONN_EXCHANGE || c->state == CONN_TUNNEL))
		up_want(c->up, !c->up_eof && !c->answer_done && c->out.len < KEEPER_HIGH_B,
			!c->head_sent || c->up_out.len);
}

/* The gateway sends no more and nothing moves: is anything still to come that matters? */
static bool nothing_more(const struct conn *c)
{
	switch (c->state) {
	case CONN_EXCHANGE:
		return !c->body_done && c->up_out.len < KEEPER_HIGH_B;
	case CONN_TUNNEL:
		return !c->up_out.len;
	case CONN_HEAD:
	case CONN_DRAIN:
	default:
		return true;
	}
}

void conn_run(struct conn *c)
{
	bool moved = true, any = false;

	for (int i = 0; moved && i < ROUNDS_MAX && !c->dead; i++) {
		moved = one_round(c);
		any = any || moved;
	}
	if (!c->dead && !moved && c->in_eof && nothing_more(c))
		conn_end(c);
	if (c->dead)
		return;
	if (any && (c->state == CONN_EXCHANGE || c->state == CONN_TUNNEL))
		give_time(c, KEEPER_STALL_MS);
	else if (any && c->state == CONN_HEAD)
		give_time(c, c->in.len ? KEEPER_HEAD_MS : KEEPER_WAIT_MS);
	want(c);
	if (moved && !c->again) {
		c->again = true;
		loop_later(c->k->gw.loop, run_again, c);
	}
}

/* ---- a new policy ---- */

void conn_reload(struct conn *c)
{
	struct net_verdict v = {0};
	struct net_rule rule;
	bool has_rule;

	if (c->dead || (c->state != CONN_EXCHANGE && c->state != CONN_TUNNEL))
		return;
	for (size_t i = 0; i < c->place.n; i++)
		if (c->k->vault.v[c->place.use[i].entry].changed) {
			conn_end(c); /* a value that is not valid any more is on its way */
			return;
		}
	if (!request_reads_as(&c->req, net_target_form(c->k->gw.gen->policy, c->host, c->port)) ||
		inbound_judge(c, &rule, &has_rule, &v) || (!c->head_sent && c->place.n)) {
		conn_end(c);
		return;
	}
	/* Not connected yet: it was being dialled for a rule that is gone. */
	if (!c->head_sent)
		conn_end(c);
}
