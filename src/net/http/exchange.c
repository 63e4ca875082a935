/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one exchange: see exchange.h. */
#include "net/http/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/reach/addr.h"
#include "net/http/exchange_judge.h"
#include "net/http/http.h"
#include "net/http/http_pool.h"

#define SPARE_MAX 64u
#define TRAILERS_MAX 32u
#define EARLY_MAX 16u /* 1xx of one answer; kept while the client does not read */
#define ERROR_BODY_MAX_B (16u << 10)

static uint64_t clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static struct gateway *gateway_of(const struct exchange *x)
{
	return x->front->pool->gw;
}

static void touch(struct exchange *x)
{
	x->last_ms = loop_now_ms(gateway_of(x)->loop);
}

/* ---- birth and end ---- */

struct exchange *exchange_new(struct front *f, const struct front_ops *ops)
{
	struct http_pool *p = f->pool;
	struct exchange *x = p->spare;

	if (p->exchanges_n >= EXCHANGES_MAX)
		return NULL;
	if (x) {
		p->spare = x->next;
		p->spare_n--;
		*x = (struct exchange){0};
	} else {
		x = calloc(1, sizeof(*x));
		if (!x)
			return NULL;
	}
	x->front = f;
	x->front_ops = ops;
	x->gen = generation_hold(p->gw->gen);
	x->up.max = x->down.max = EXCHANGE_BODY_B;
	request_init(&x->req);
	x->told = f->flow->away; /* with the connection */
	x->next = f->exchanges;
	x->prev = &f->exchanges;
	if (x->next)
		x->next->prev = &x->next;
	f->exchanges = x;
	p->exchanges_n++;
	touch(x);
	x->up_last_ms = x->last_ms;
	return x;
}

/* Whoever works for it stops. */
static void detach(struct exchange *x)
{
	if (x->ask)
		ask_cancel(take_ptr(x->ask));
	if (x->state == EXCHANGE_WAY)
		pool_forget(x);
	if (x->back)
		x->back_ops->cancel(x);
	x->back = NULL;
}

static void record(struct exchange *x)
{
	struct exchange_record r = {
		.method = x->req.method,
		.path = x->req.path,
		.query = x->req.query,
		.status = x->status,
		.up_b = x->up_b,
		.down_b = x->down_b,
		.duration_us = clock_us() - x->since_us,
		.secret = x->keeper ? x->secret : NULL,
	};

	/* What was refused before anything left is told as a denial, once. */
	if (x->since_us && x->front->flow && !(x->told && !x->sent))
		netlog_request(x->front->flow, &x->verdict, &r);
}

static void exchange_free(struct exchange *x)
{
	struct http_pool *p = x->front->pool;

	detach(x);
	record(x);
	*x->prev = x->next;
	if (x->next)
		x->next->prev = x->prev;
	if (x->push) {
		git_commands_done(x->push);
		free(x->push);
	}
	free(x->ws[0]);
	free(x->ws[1]);
	placeholder_scan_done(&x->scan);
	fifo_done(&x->up);
	fifo_done(&x->down);
	request_done(&x->req);
	generation_drop(x->gen);
	p->exchanges_n--;
	if (p->spare_n >= SPARE_MAX) {
		free(x);
		return;
	}
	x->next = p->spare;
	p->spare = x;
	p->spare_n++;
}

void exchange_drop(struct exchange *x)
{
	exchange_free(x);
}

static void over(struct exchange *x, bool whole)
{
	x->front_ops->over(x, whole);
	exchange_free(x);
}

void exchange_delivered(struct exchange *x)
{
	over(x, true);
}

struct net_target_form exchange_form(const struct exchange *x)
{
	return net_target_form(x->gen->policy, x->front->host, x->front->flow->dest.port);
}

/* ---- our own answers ---- */

/* What is still queued of the request is let go of, and what comes is thrown away. */
static void close_up(struct exchange *x)
{
	size_t queued = x->up.len;

	x->up_closed = true;
	fifo_done(&x->up);
	if (queued)
		x->front_ops->consumed(x, queued);
}

/* The exchange may be over when this returns. */
static void answer(struct exchange *x, unsigned status, const char *error)
{
	cleanup_buf struct buf body = BUF_INIT(ERROR_BODY_MAX_B);
	struct http_response r;
	bool ok;

	detach(x);
	x->state = EXCHANGE_ANSWERED;
	x->status = status;
	if (x->head_sent) {
		over(x, false);
		return;
	}
	ok = http_error(&r, &body, x, status, error, &x->verdict);
	r.close = x->close_after;
	close_up(x);
	x->head_sent = x->down_end = true;
	if (ok && r.body != HTTP_BODY_NONE)
		ok = fifo_add(&x->down, body.data, body.len);
	if (ok)
		x->front_ops->head(x, &r);
	response_done(&r);
	if (!ok)
		over(x, false);
	else
		x->front_ops->more(x);
}

/* By policy: told as a denial. */
static void refuse(struct exchange *x, unsigned status)
{
	static const char *const by_policy = "denied by croft policy";

	if (!x->told)
		netlog_denial(x->front->flow, x->req.method, x->req.path, status, &x->verdict);
	x->told = true;
	answer(x, status, by_policy);
}

/* For reasons that are nobody's rule. */
static void fail(struct exchange *x, unsigned status, const char *error, const char *why)
{
	snprintf(x->verdict.why, sizeof(x->verdict.why), "%s", why);
	x->verdict.fix[0] = '\0';
	answer(x, status, error);
}

void exchange_bad(struct exchange *x, const struct http_problem *p)
{
	x->since_us = clock_us();
	x->close_after = true;
	x->verdict.effect = NET_DENY;
	snprintf(x->verdict.why, sizeof(x->verdict.why), "%s", p->text);
	if (!x->told)
		netlog_denial(x->front->flow, x->req.method[0] ? x->req.method : "HTTP",
			x->req.path ? x->req.path : "", p->status, &x->verdict);
	x->told = true;
	answer(x, p->status, "refused by croft: not a request that can be judged");
}

/* ---- the verdict ---- */

static void way(struct exchange *x)
{
	x->state = EXCHANGE_WAY;
	pool_route(x, false);
}

static bool idempotent(const struct exchange *x)
{
	static const char *const safe[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};

	for (size_t i = 0; i < ARRAY_SIZE(safe); i++)
		if (str_eq(x->req.method, safe[i]))
			return true;
	return false;
}

/*
 * The client waits for leave to send its body; it has it. Upstream is not told that anybody waits.
 */
static void say_continue(struct exchange *x)
{
	struct http_response r;

	if (!x->req.expect_continue)
		return;
	x->req.expect_continue = false;
	if (x->up_b || x->up_end)
		return;
	response_init(&r);
	r.status = 100;
	x->front_ops->head(x, &r);
	response_done(&r);
}

static void read_refs(struct exchange *x);

/* The verdict is "allow". */
static void granted(struct exchange *x)
{
	unsigned status = judge_grant(x);

	if (status) {
		refuse(x, status);
		return;
	}
	say_continue(x);
	if (!judge_is_push(x)) {
		way(x);
		return;
	}
	x->push = calloc(1, sizeof(*x->push));
	if (!x->push) {
		fail(x, 503, "croft is out of memory", "out of memory");
		return;
	}
	git_commands_init(x->push);
	x->state = EXCHANGE_REFS;
	if (x->up_end && x->req.body == HTTP_BODY_NONE) {
		snprintf(x->verdict.why, sizeof(x->verdict.why), "a push without a body");
		refuse(x, 400);
	} else if (x->up.len || x->up_end) {
		read_refs(x); /* it came while somebody was asked */
	}
}

static void on_asked(void *arg, enum net_effect e)
{
	struct exchange *x = arg;

	x->ask = NULL;
	x->state = EXCHANGE_HEAD;
	if (e == NET_ALLOW) {
		x->asked = true;
		x->verdict.effect = NET_ALLOW;
		granted(x);
		return;
	}
	x->verdict.effect = NET_DENY;
	snprintf(x->verdict.why, sizeof(x->verdict.why), "it was asked, and not allowed");
	refuse(x, 403);
}

void exchange_begin(struct exchange *x)
{
	struct flow *f = x->front->flow;
	unsigned status;

	x->since_us = clock_us();
	touch(x);
	x->up_last_ms = x->last_ms;
	if (x->req.body == HTTP_BODY_NONE)
		x->up_end = true;
	if (f->away) {
		x->verdict = *f->away;
		x->close_after = true;
		refuse(x, 403);
		return;
	}
	status = judge_authority(x);
	if (!status && fifo_tight()) {
		fail(x, 503, "croft is busy", "too many bytes wait for slow connections");
		return;
	}
	if (!status)
		status = judge_request(x);
	if (status) {
		refuse(x, status);
		return;
	}
	if (x->verdict.effect == NET_ALLOW) {
		granted(x);
		return;
	}
	/* Who allowed the connection by this very rule has answered this question. */
	if (f->asked && x->verdict.rule == f->rule) {
		on_asked(x, NET_ALLOW);
		return;
	}
	x->state = EXCHANGE_ASK;
	x->ask = ask_request(f, &x->req, on_asked, x);
	if (!x->ask)
		on_asked(x, NET_DENY);
}

/* ---- the request's body ---- */

/*
 * The policy may have changed since the head was judged: what is judged now is judged by the new
 * one.
 */
static void judge_anew(struct exchange *x)
{
	struct generation *old = x->gen;

	x->gen = generation_hold(gateway_of(x)->gen);
	generation_drop(old);
}

/* A push waits here until every ref it would change is known and judged. */
static void read_refs(struct exchange *x)
{
	size_t used = 0, n = x->up.len;
	unsigned status;
	int r = 0;

	if (n) {
		r = git_commands_read(x->push, fifo_head(&x->up), n, &used);
		if (used) {
			fifo_drop(&x->up, used);
			x->front_ops->consumed(x, used);
		}
	}
	if (r < 0 || (r == 0 && x->up_end)) {
		x->verdict.effect = NET_DENY;
		snprintf(x->verdict.why, sizeof(x->verdict.why),
			"the push's list of refs could not be read");
		refuse(x, 403);
		return;
	}
	if (r == 0)
		return;
	judge_anew(x);
	if (!request_reads_as(&x->req, exchange_form(x))) {
		x->verdict.effect = NET_DENY;
		snprintf(x->verdict.why, sizeof(x->verdict.why),
			"the policy changed, and reads its path in another way");
		refuse(x, 403);
		return;
	}
	status = judge_request(x);
	if (!status && x->verdict.effect == NET_ASK && x->asked)
		x->verdict.effect = NET_ALLOW;
	if (status || x->verdict.effect != NET_ALLOW) {
		refuse(x, status ? status : 403);
		return;
	}
	way(x);
}

void exchange_body(struct exchange *x, const char *p, size_t n)
{
	unsigned status;

	touch(x);
	x->up_last_ms = x->last_ms;
	if (x->up_closed) {
		x->front_ops->consumed(x, n);
		return;
	}
	x->up_b += n;
	status = judge_body(x, p, n);
	if (status) {
		x->close_after = true;
		refuse(x, status);
		return;
	}
	if (!fifo_add(&x->up, p, n)) {
		fail(x, 503, "croft is out of memory", "out of memory");
		return;
	}
	if (x->state == EXCHANGE_REFS)
		read_refs(x);
	else if (x->back)
		x->back_ops->more(x);
}

void exchange_body_end(struct exchange *x)
{
	if (x->up_end)
		return;
	x->up_end = true;
	if (x->up_closed)
		return;
	if (x->state == EXCHANGE_REFS)
		read_refs(x);
	else if (x->back)
		x->back_ops->more(x);
}

size_t exchange_up(const struct exchange *x, const char **ret)
{
	if (x->push && x->push_sent < x->push->head.len) {
		*ret = x->push->head.data + x->push_sent;
		return x->push->head.len - x->push_sent;
	}
	*ret = fifo_head(&x->up);
	return x->up.len;
}

void exchange_up_taken(struct exchange *x, size_t n)
{
	if (x->push && x->push_sent < x->push->head.len) {
		x->push_sent += n; /* the front was told when it was read */
		return;
	}
	fifo_drop(&x->up, n);
	x->up_last_ms = loop_now_ms(gateway_of(x)->loop);
	x->front_ops->consumed(x, n);
}

bool exchange_up_done(const struct exchange *x)
{
	const char *p;

	return x->up_end && exchange_up(x, &p) == 0;
}

/* ---- the answer ---- */

/* 101: from here on both directions are frames. NULL, or what is wrong. */
static const char *become_ws(struct exchange *x, const struct http_response *r)
{
	const char *proof = fields_get(&r->fields, "sec-websocket-accept");

	if (!x->req.upgrade_ws || !r->upgrade_ws)
		return "the server switched to a protocol that nobody asked for";
	if (!proof || !str_eq(proof, x->ws_accept))
		return "the server did not prove that it read the WebSocket handshake";
	if (fields_get(&r->fields, "sec-websocket-extensions"))
		return "the server agreed to a WebSocket extension that nobody offered";
	for (size_t i = 0; i < 2; i++) {
		x->ws[i] = calloc(1, sizeof(*x->ws[i]));
		if (!x->ws[i])
			return "out of memory";
		x->ws[i]->masked = i == 0;
	}
	x->up_end = false;
	return NULL;
}

void exchange_response(struct exchange *x, struct http_response *r)
{
	const char *wrong = NULL;

	touch(x);
	if (r->status == 101)
		wrong = become_ws(x, r);
	else if (r->status < 200 && ++x->early_n > EARLY_MAX)
		wrong = "the server sends one interim answer after the other";
	/* We said 100 ourselves; others may be news to the client, if it knows the concept. */
	else if (r->status < 200 && (r->status == 100 || x->req.http10)) {
		response_done(r);
		return;
	}
	if (wrong) {
		response_done(r);
		fail(x, 502, "upstream failed", wrong);
		return;
	}
	if (r->status >= 200 || r->status == 101) {
		x->status = r->status;
		x->head_sent = true;
	}
	x->front_ops->head(x, r);
	response_done(r);
}

void exchange_down(struct exchange *x, const char *p, size_t n)
{
	const struct net_rule *rule = x->verdict.rule;
	const char *wrong = x->ws[1] ? ws_check(x->ws[1], p, n) : NULL;

	touch(x);
	x->down_b += n;
	if (wrong) {
		snprintf(x->verdict.why, sizeof(x->verdict.why), "not a WebSocket: %s", wrong);
		refuse(x, 502);
		return;
	}
	if (rule && rule->limits.down_b && !usage_bytes(gateway_of(x), rule, 0, n)) {
		snprintf(x->verdict.why, sizeof(x->verdict.why),
			"the rule's limit of bytes to receive is used up");
		refuse(x, 403);
		return;
	}
	if (!fifo_add(&x->down, p, n)) {
		answer(x, 503, "croft is out of memory");
		return;
	}
	x->front_ops->more(x);
}

void exchange_down_taken(struct exchange *x, size_t n)
{
	fifo_drop(&x->down, n);
	touch(x);
	if (x->back)
		x->back_ops->consumed(x, n);
}

void exchange_trailer(
	struct exchange *x, const char *name, size_t name_len, const char *value, size_t value_len)
{
	if (x->trailers.n < TRAILERS_MAX)
		(void)fields_add(&x->trailers, &x->req.arena, name, name_len, value, value_len);
}

void exchange_down_end(struct exchange *x)
{
	x->back = NULL;
	x->state = EXCHANGE_ANSWERED;
	x->down_end = true;
	if (!exchange_up_done(x))
		close_up(x); /* the server has said all it will */
	x->front_ops->more(x);
}

void exchange_failed(struct exchange *x, const char *why, bool unprocessed)
{
	x->back = NULL;
	if (!x->head_sent && !x->retried && x->req.body == HTTP_BODY_NONE && !x->heard &&
		((x->reused && idempotent(x)) || unprocessed)) {
		x->retried = true;
		x->state = EXCHANGE_WAY;
		pool_route(x, true);
		return;
	}
	fail(x, 502, "upstream failed", why);
}

void exchange_no_way(struct exchange *x, unsigned status, const char *why, bool refused)
{
	x->state = EXCHANGE_ANSWERED;
	if (!refused) {
		fail(x, status, "upstream could not be reached", why);
		return;
	}
	snprintf(x->verdict.why, sizeof(x->verdict.why), "%s", why);
	x->verdict.fix[0] = '\0';
	if (!x->told)
		netlog_denial(x->front->flow, x->req.method, x->req.path, status, &x->verdict);
	x->told = true;
	answer(x, status,
		status == 403 ? "denied by croft policy" : "upstream could not be trusted");
}

/* ---- policy swaps and time ---- */

bool exchange_still(const struct exchange *x, const struct net_policy *p)
{
	const struct flow *f = x->front->flow;
	struct net_verdict v;
	struct net_request q;

	if (!x->since_us || x->state == EXCHANGE_ANSWERED)
		return true; /* not judged yet, or nothing leaves any more */
	if (x->back && !x->keeper && !addr_peer_allowed(x->back->fd, f->dest.host, f->dest.port, p))
		return false;
	if (!request_reads_as(&x->req, net_target_form(p, x->front->host, f->dest.port)))
		return false;
	judge_question(x, &q);
	net_decide_request(p, &q, &v);
	return v.effect == NET_ALLOW || (v.effect == NET_ASK && (x->asked || x->ask));
}

void exchange_tick(struct exchange *x, uint64_t now_ms)
{
	bool waits =
		x->since_us && !x->up_end && !x->up_closed && fifo_room(&x->up) > 0 && !x->ws[0];

	if (x->delivered && now_ms - x->delivered_ms > HTTP_LINGER_MS) {
		over(x, false);
		return;
	}
	/*
	 * Both directions open at once is how streams of calls look: only a silent upload is slow.
	 */
	if (waits && !x->head_sent && now_ms - x->up_last_ms > EXCHANGE_UPLOAD_IDLE_MS) {
		x->close_after = true;
		fail(x, 408, "the request took too long", "no byte of the body came for a minute");
	} else if (now_ms - x->last_ms > EXCHANGE_IDLE_MS) {
		answer(x, 504, "upstream took too long");
	}
}
