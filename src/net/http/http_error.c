/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of our own: what was refused or failed, which rule, why, and what would change it. */
#include "base/json.h"
#include "base/str.h"
#include "net/http/exchange.h"
#include "net/http/http.h"

static bool add(struct http_response *r, const char *name, const char *value)
{
	return !fields_add(&r->fields, &r->arena, name, strlen(name), value, strlen(value));
}

bool http_error(struct http_response *ret, struct buf *body, const struct exchange *x,
	unsigned status, const char *error, const struct net_verdict *v)
{
	struct json j;

	json_init(&j, body, false);
	json_object(&j, NULL);
	json_str(&j, "error", error);
	json_str(&j, "host", x->front->host);
	json_str(&j, "method", x->req.method);
	json_str(&j, "path", x->req.path ? x->req.path : "");
	json_str(&j, "rule", v->rule ? v->rule->name : NULL);
	json_str(&j, "reason", v->rule && v->rule->reason ? v->rule->reason : v->why);
	if (v->rule && v->rule->reason)
		json_str(&j, "detail", v->why);
	json_str(&j, "next", v->fix[0] ? v->fix : NULL);
	json_end(&j);
	buf_addc(body, '\n');
	response_init(ret);
	ret->status = status;
	ret->length = body->len;
	ret->has_length = true;
	ret->body = str_eq(x->req.method, "HEAD") ? HTTP_BODY_NONE : HTTP_BODY_LENGTH;
	return !body->failed && add(ret, "content-type", "application/json") &&
	       add(ret, "cache-control", "no-store") && add(ret, "x-croft", "gateway");
}
