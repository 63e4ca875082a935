/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of HTTP/2 share: header lists for the library, and how sessions are set up. */
#ifndef CROFT_NET_HTTP_HTTP2_H
#define CROFT_NET_HTTP_HTTP2_H

#include <nghttp2/nghttp2.h>

#include "net/http/request.h"
#include "net/io/stream.h"

#define H2_STREAMS_MAX 256u
#define H2_TABLE_B 4096u
#define H2_UPLOADS_B (256u << 10) /* window of a connection from the sandbox */
#define H2_ANSWERS_B                                                                               \
	(100u * (64u << 10)) /* of one to a server: its streams do not wait for each other */

struct h2_list {
	nghttp2_nv v[HTTP_HEADERS_MAX + 8];
	size_t n;
	char number[24];
};

/* Borrowed until the list is submitted, which copies. */
void h2_list_add(
	struct h2_list *l, const char *name, const char *value, size_t value_len, bool secret);
void h2_list_fields(struct h2_list *l, const struct http_fields *f);
void h2_list_length(struct h2_list *l, uint64_t n);
/* Windows are opened by hand, closed streams are not remembered. NULL: out of memory. */
nghttp2_option *h2_options(void);
/* Move frames into out; 1: more wait, 0: none, -1: the session is broken. */
int h2_fill(nghttp2_session *h2, struct stream *s);

#endif
