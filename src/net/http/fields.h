/* SPDX-License-Identifier: Apache-2.0 */
/* What headers mean to a gateway: most nothing, a few everything. For request.c and http1.c. */
#ifndef CROFT_NET_HTTP_FIELDS_H
#define CROFT_NET_HTTP_FIELDS_H

#include "net/http/request.h"

#define FIELD_NAME_MAX 256u

enum field_kind {
	FIELD_PLAIN,
	FIELD_DROP, /* hop-by-hop, or it would make a server see another request than policy saw */
	FIELD_HOST,
	FIELD_LENGTH, /* content-length */
	FIELD_CODING, /* transfer-encoding */
	FIELD_CONNECTION,
	FIELD_UPGRADE,
	FIELD_EXPECT,
	FIELD_TE,
	FIELD_COOKIE,
	FIELD_AUTHORIZATION,
	FIELD_TYPE, /* content-type */
	FIELD_WS_KEY,
	FIELD_KIND_NUM,
};

/* name is lower case. */
enum field_kind field_kind(const char *name, size_t n);
/* Must Connection not name it, because dropping it changes what the message says? */
bool field_protected(const char *name, size_t n);

/*
 * The elements of a comma-separated list: 1 and the next one, 0 at the end, -1 when it is not a
 * token.
 */
int token_next(const char **p, const char *end, const char **ret, size_t *ret_n);
bool token_is(const char *t, size_t n, const char *name); /* ignoring case; name is lower case */

/*
 * What the Connection headers say. What they name becomes FIELD_DROP. false: a request's name what
 * they must not. In an answer that is passed over: some servers name Transfer-Encoding there, and
 * no rule depends on answers.
 */
struct connection {
	bool close, keep_alive, upgrade;
};
bool fields_connection(struct http_fields *f, bool answer, struct connection *ret);

/* request_finish() where transfer-encoding has a meaning. */
const struct http_problem *request_finish_h1(struct http_request *r);
const struct http_problem *response_finish_h1(struct http_response *r, const char *method);

#endif
