/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gateway sends: a request's head and body, looked at before anything of it goes on.
 *
 * Trust:  the gateway is not believed: host, policy, binding and placeholders are all looked at
 *         here anew.
 * Order:  head -> authority is the name asked for -> policy -> placements (keeper_place.c) -> an
 *         upstream connection. Of the body each piece is searched for placeholders before it is
 *         passed on.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/keeper/keeper_impl.h"

/* ---- head ---- */

unsigned inbound_judge(
	struct conn *c, struct net_rule *ret_rule, bool *ret_has, struct net_verdict *v)
{
	const struct net_policy *p = c->k->gw.gen->policy;
	const struct net_dest d = {.host = c->host, .port = c->port};
	struct net_request q;

	if (!str_eq(c->req.host, c->host) || (c->req.port && c->req.port != c->port)) {
		snprintf(v->why, sizeof(v->why),
			"the request is for %.100s, the connection for %.100s", c->req.host,
			c->host);
		return 421;
	}
	net_decide_connect(p, &d, v);
	if (v->effect == NET_DENY)
		return 403;
	*ret_has = v->rule;
	if (v->rule)
		*ret_rule = *v->rule;
	request_question(&c->req, c->port, c->tls, &q);
	/*
	 * What a push changes is in its body, and the gateway's to judge; here it counts as its
	 * announcement.
	 */
	if (q.git_push && str_eq(q.method, "POST")) {
		q.method = "GET";
		q.has_body = false;
	}
	net_decide_request(p, &q, v);
	return v->effect == NET_DENY ? 403 : 0;
}

/*
 * What the server must not do: hide its answer from us, or give it in pieces that hide what they
 * add up to.
 */
static bool settle_fields(struct conn *c)
{
	/* Of messages none is "identity"; a-im asks for differences, in codings of their own. */
	static const char *const hiding[] = {"accept-encoding", "grpc-accept-encoding",
		"connect-accept-encoding", "accept-charset", "a-im"};
	struct http_request *r = &c->req;

	for (size_t i = 0; i < ARRAY_SIZE(hiding); i++)
		fields_remove(&r->fields, hiding[i]);
	if (r->upgrade_ws)
		fields_remove(&r->fields, "sec-websocket-extensions");
	r->trailers_ok = false;
	return range_ask(c) &&
	       !fields_add(&r->fields, &r->arena, "accept-encoding", 15, "identity", 8);
}

static void exchange_start(struct conn *c)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct net_verdict v = {0};
	struct net_rule rule;
	bool has_rule = false, expects = c->req.expect_continue;
	unsigned status = inbound_judge(c, &rule, &has_rule, &v);

	if (status) {
		conn_refuse(c, status, v.why, v.fix);
		return;
	}
	status = place_judge(
		&c->place, &c->req, c->port, c->tls, c->k->gw.gen->policy, &c->k->vault);
	if (status) {
		char why[sizeof(c->place.why)], next[sizeof(c->place.next)];

		memcpy(why, c->place.why, sizeof(why));
		memcpy(next, c->place.next, sizeof(next));
		conn_refuse(c, status, why, next);
		return;
	}
	c->req.expect_continue = false; /* answered here, since the verdict is */
	if (!answer_prepare(c) || !settle_fields(c) ||
		(expects && !fifo_add(&c->out, go_on, sizeof(go_on) - 1))) {
		conn_refuse(c, 503, "the keeper of secrets is out of memory", "");
		return;
	}
	http1_write_request(&c->req, &c->head);
	c->state = CONN_EXCHANGE;
	c->body_left = c->req.body == HTTP_BODY_LENGTH ? c->req.length : 0;
	c->body_done =
		c->req.body == HTTP_BODY_NONE || (c->req.body == HTTP_BODY_LENGTH && !c->body_left);
	c->up = c->head.failed ? NULL : up_get(c, has_rule ? &rule : NULL, false);
	if (!c->up)
		conn_refuse(c, 503, "the keeper of secrets is out of memory", "");
}

bool inbound_head(struct conn *c)
{
	const struct http_problem *problem = NULL;
	int n;

	if (!c->in.len)
		return false;
	n = http1_request_as(&c->req, net_target_form(c->k->gw.gen->policy, c->host, c->port),
		fifo_head(&c->in), c->in.len, &problem);
	if (n == 0 && fifo_room(&c->in))
		return false;
	if (n <= 0) {
		conn_refuse(c, problem ? problem->status : 431,
			problem ? problem->text : "the request's head is too long", "");
		return true;
	}
	c->has_req = true;
	fifo_drop(&c->in, (size_t)n);
	exchange_start(c);
	return true;
}

/* ---- body ---- */

/* Searched, then passed on. false: it must not go. */
static bool pass_on(struct conn *c, const char *p, size_t n)
{
	char head[20];
	int hit = placeholder_find(c->k->vault.set, &c->scan, p, n);

	if (hit >= 0) {
		char why[160];

		snprintf(why, sizeof(why), "the placeholder of %s is in the body of a request",
			c->k->vault.v[hit].name);
		conn_refuse(c, 403, why, "send it only where network.secrets binds it");
		return false;
	}
	if (c->req.body == HTTP_BODY_STREAM && n)
		return fifo_add(&c->up_out, head, chunk_head(head, n)) &&
		       fifo_add(&c->up_out, p, n) && fifo_add(&c->up_out, "\r\n", 2);
	return fifo_add(&c->up_out, p, n);
}

static bool body_chunk(struct conn *c)
{
	const char *data;
	size_t n;
	long used = chunks_read(&c->body_chunks, fifo_head(&c->in), c->in.len, &data, &n);

	if (used < 0) {
		conn_refuse(c, 400, "the body's chunks are malformed", "");
		return true;
	}
	if (n && !pass_on(c, data, n)) {
		if (!c->dead && c->state != CONN_DRAIN)
			conn_end(c);
		return true;
	}
	fifo_drop(&c->in, (size_t)used);
	if (c->body_chunks.state == CHUNK_DONE) {
		c->body_done = true;
		fifo_add(&c->up_out, "0\r\n\r\n", 5);
	}
	return used > 0;
}

bool inbound_body(struct conn *c)
{
	size_t n = c->in.len;

	if (c->body_done || !n || c->up_out.len >= KEEPER_HIGH_B)
		return false;
	if (c->req.body == HTTP_BODY_STREAM)
		return body_chunk(c);
	if (n > c->body_left)
		n = (size_t)c->body_left;
	if (!pass_on(c, fifo_head(&c->in), n)) {
		if (!c->dead && c->state != CONN_DRAIN)
			conn_end(c);
		return true;
	}
	fifo_drop(&c->in, n);
	c->body_left -= n;
	c->body_done = c->body_left == 0;
	return true;
}
