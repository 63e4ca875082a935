/* SPDX-License-Identifier: Apache-2.0 */
/* The judgements about one exchange: see exchange_judge.h. */
#include "net/http/exchange_judge.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/http/http.h"

/* A refusal that is no rule's. */
static unsigned refused(struct exchange *x, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static unsigned refused(struct exchange *x, unsigned status, const char *fmt, ...)
{
	va_list ap;

	x->verdict.effect = NET_DENY;
	x->verdict.fix[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(x->verdict.why, sizeof(x->verdict.why), fmt, ap);
	va_end(ap);
	return status;
}

unsigned judge_authority(struct exchange *x)
{
	const struct flow *f = x->front->flow;

	/* One connection, one name: whatever a certificate or an earlier request said. */
	if (str_eq(x->req.host, x->front->host) && (!x->req.port || x->req.port == f->dest.port))
		return 0;
	return refused(x, 421, "the request is for %.120s, but this connection is bound to %.100s",
		x->req.host, x->front->host);
}

bool judge_is_push(const struct exchange *x)
{
	return x->req.git_push && str_eq(x->req.method, "POST");
}

void judge_question(const struct exchange *x, struct net_request *ret)
{
	const struct flow *f = x->front->flow;

	static const char *const none[1];

	request_question(&x->req, f->dest.port, f->tls, ret);
	/*
	 * A push is judged twice: could any be allowed, so that its head is worth reading; and this
	 * one, when its refs are known. Nothing of it leaves before the second.
	 */
	if (judge_is_push(x))
		ret->git_refs = none;
	if (x->push && x->push->done && x->push->refs.n) {
		ret->git_refs = (const char *const *)x->push->refs.v;
		ret->git_refs_n = x->push->refs.n;
	}
}

unsigned judge_request(struct exchange *x)
{
	struct net_request q;

	judge_question(x, &q);
	net_decide_request(x->gen->policy, &q, &x->verdict);
	return x->verdict.effect == NET_DENY ? 403 : 0;
}

/* ---- placeholders ---- */

/* Is the secret of this placeholder bound to this request? */
static bool placeholder_bound(const struct exchange *x, const struct net_request *q, size_t index)
{
	const struct net_policy *p = x->gen->policy;
	const struct net_secret *s;

	if (index >= p->secrets_n)
		return false;
	for (size_t from = 0; (s = net_secret_for(p, q, from)); from = (size_t)(s - p->secrets) + 1)
		if (str_eq(s->name, p->secrets[index].name))
			return true;
	return false;
}

static unsigned placeholder_refused(struct exchange *x, size_t index)
{
	const struct net_policy *p = x->gen->policy;
	const char *name = index < p->secrets_n ? p->secrets[index].name : "a secret";

	x->close_after = true;
	return refused(x, 403, "placeholder of %.80s sent to %.120s%s", name, x->front->host,
		x->front->flow->tls ? ", where it is not bound"
				    : " without TLS, where it is not bound");
}

/* Every one that was found must be bound here: one that may go must not hide another. */
static unsigned placeholders_judge(struct exchange *x, const struct net_request *q, uint64_t found)
{
	for (; found; found &= found - 1) {
		size_t index = (size_t)__builtin_ctzll(found);

		if (!placeholder_bound(x, q, index))
			return placeholder_refused(x, index);
	}
	return 0;
}

struct head_scan {
	struct exchange *x;
	const struct net_request *q;
	uint64_t found; /* one bit for each placeholder */
};

/* Each piece by itself: what is in two headers does not become one. */
static unsigned scan_piece(struct head_scan *h, const char *p, size_t n)
{
	const struct placeholder_set *set = h->x->front->flow->gw->placeholders;
	struct placeholder_scan scan = {0};
	uint64_t found = placeholder_find_all(set, &scan, p, n);

	placeholder_scan_done(&scan);
	h->found |= found;
	return placeholders_judge(h->x, h->q, found);
}

static unsigned scan_head(struct head_scan *h)
{
	const struct http_request *r = &h->x->req;
	unsigned status;

	if (!h->x->front->flow->gw->placeholders)
		return 0;
	status = scan_piece(h, r->path, strlen(r->path));
	if (!status && r->query[0])
		status = scan_piece(h, r->query, strlen(r->query));
	for (size_t i = 0; i < r->fields.n && !status; i++)
		if (r->fields.v[i].value_len >= PLACEHOLDER_MIN)
			status = scan_piece(h, r->fields.v[i].value, r->fields.v[i].value_len);
	return status;
}

static bool found_name(const struct head_scan *h, const struct net_policy *p, const char *name)
{
	for (size_t i = 0; i < p->secrets_n && i < PLACEHOLDERS_MAX; i++)
		if (h->found >> i & 1 && str_eq(p->secrets[i].name, name))
			return true;
	return false;
}

static unsigned judge_secrets(struct exchange *x)
{
	const struct net_policy *p = x->gen->policy;
	struct head_scan h = {.x = x};
	const struct net_secret *s;
	struct net_request q;
	unsigned status;

	x->keeper = receivers_has(&x->front->flow->gw->receivers, x->front->host);
	if (!p->secrets_n && !x->front->flow->gw->placeholders)
		return 0;
	judge_question(x, &q);
	h.q = &q;
	status = scan_head(&h);
	if (status)
		return status;
	for (size_t from = 0; (s = net_secret_for(p, &q, from));
		from = (size_t)(s - p->secrets) + 1) {
		bool found = found_name(&h, p, s->name);

		if (found || !x->secret)
			x->secret = s->name;
		if (s->require && !found)
			return refused(x, 403,
				"requests to %.120s must carry the secret %.80s (its placeholder "
				"is in $%.60s)",
				x->front->host, s->name, s->env ? s->env : s->name);
	}
	return 0;
}

/* ---- after the verdict ---- */

static unsigned judge_upgrade(struct exchange *x)
{
	const struct net_rule *rule = x->verdict.rule;
	const char *key;

	if (!x->req.upgrade_ws)
		return 0;
	if (!rule || rule->mode != NET_WS)
		return refused(x, 403,
			"the rule for %.120s does not allow WebSockets (mode: ws would)",
			x->front->host);
	/* No extension is agreed on, so that frames stay readable. */
	fields_remove(&x->req.fields, "sec-websocket-extensions");
	key = fields_get(&x->req.fields, "sec-websocket-key");
	if (!key || !ws_accept(x->ws_accept, key))
		return refused(x, 400, "the WebSocket handshake has no proper key");
	return 0;
}

/* What the head weighs: a limit of bytes that forgot it would let anything out in headers. */
static uint64_t head_size_b(const struct http_request *r)
{
	uint64_t n = strlen(r->method) + strlen(r->path) + strlen(r->query);

	for (size_t i = 0; i < r->fields.n; i++)
		n += r->fields.v[i].name_len + r->fields.v[i].value_len;
	return n;
}

unsigned judge_grant(struct exchange *x)
{
	const struct net_rule *rule = x->verdict.rule;
	struct gateway *g = x->front->flow->gw;
	unsigned status;

	if (rule && !usage_take(g, rule, &x->verdict))
		return 403;
	if (rule && rule->limits.up_b && !usage_bytes(g, rule, head_size_b(&x->req), 0))
		return refused(x, 403, "the rule's limit of bytes to send is used up");
	if (rule && rule->limits.body_b && x->req.body == HTTP_BODY_LENGTH &&
		x->req.length > rule->limits.body_b)
		return refused(x, 413, "the body is longer than the rule's limit of %llu bytes",
			(unsigned long long)rule->limits.body_b);
	if (judge_is_push(x) && fields_get(&x->req.fields, "content-encoding"))
		return refused(x, 415, "a push must not be compressed: its refs could not be read");
	status = judge_upgrade(x);
	return status ? status : judge_secrets(x);
}

unsigned judge_body(struct exchange *x, const char *p, size_t n)
{
	const struct net_rule *rule = x->verdict.rule;
	struct gateway *g = x->front->flow->gw;
	struct net_request q;
	const char *wrong;
	uint64_t found;

	if (rule && rule->limits.body_b && x->up_b > rule->limits.body_b && !x->ws[0])
		return refused(x, 413, "the body is longer than the rule's limit of %llu bytes",
			(unsigned long long)rule->limits.body_b);
	if (rule && rule->limits.up_b && !usage_bytes(g, rule, n, 0))
		return refused(x, 403, "the rule's limit of bytes to send is used up");
	if (x->ws[0] && (wrong = ws_check(x->ws[0], p, n)))
		return refused(x, 403, "not a WebSocket: %s", wrong);
	if (!g->placeholders)
		return 0;
	found = placeholder_find_all(g->placeholders, &x->scan, p, n);
	if (!found)
		return 0;
	judge_question(x, &q);
	return placeholders_judge(x, &q, found);
}
