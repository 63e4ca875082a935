/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one internal form of a request and of a response, whatever version of HTTP brought it.
 *
 * Purpose: policy sees only this, and what is forwarded is written anew from this, never the bytes
 *          that came. What is ambiguous is refused while it is made (http1.c from text, http2.c
 *          from header blocks).
 * Invariants: header names are lower case tokens; values hold no control characters, no leading or
 *             trailing blanks; hop-by-hop and framing headers are gone (connection, keep-alive,
 *             proxy-*, te other than "trailers", transfer-encoding, upgrade, content-length, host,
 *             expect, http2-settings, alt-svc…): framing is in `body` and `length`, the rest in
 *             members.
 * Order:   request_init, method, authority and target, fields_add for each header, request_finish.
 *          HTTP/2 sets body before request_finish(): NONE when the headers ended the stream, else
 *          STREAM.
 * Memory:  one arena per message, usually of one block; *_done() gives all of it back.
 */
#ifndef CROFT_NET_HTTP_REQUEST_H
#define CROFT_NET_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "policy/arena.h"
#include "policy/net/net.h"

#define HTTP_HEAD_MAX_B (64u << 10)
#define HTTP_HEADERS_MAX 256u
#define HTTP_PATH_MAX 8192u /* characters of the path, and of the query, each */
#define HTTP_METHOD_MAX 24u
#define HTTP_LENGTH_MAX (UINT64_MAX >> 2) /* a body longer than this is not believed */

/* Why something is refused; the text is for people, the status for the client. */
struct http_problem {
	unsigned status; /* 400, 403, 413, 421, 431, 501, 505 … */
	const char *text;
};

/* A problem that lives as long as the program. */
#define HTTP_PROBLEM(status_, text_)                                                               \
	__extension__({                                                                            \
		static const struct http_problem problem_ = {(status_), (text_)};                  \
		&problem_;                                                                         \
	})

struct http_field {
	const char *name, *value; /* NUL-terminated, in the message's own memory */
	uint32_t name_len, value_len;
	uint8_t kind;   /* enum field_kind of net/http/fields.h */
	bool sensitive; /* never indexed by HPACK */
};

enum http_body {
	HTTP_BODY_NONE,
	HTTP_BODY_LENGTH,
	HTTP_BODY_STREAM, /* chunked, h2 or until the connection closes: length unknown */
};

struct http_fields {
	struct http_field *v; /* in the arena */
	size_t n, cap;
};

struct http_request {
	char method[HTTP_METHOD_MAX + 1]; /* upper case */
	/*
	 * Canonical name, or an address as net_addr_show() writes it (IPv6 without brackets). Must
	 * equal what the flow is bound to, checked by the session.
	 */
	char host[NET_NAME_MAX + 1];
	uint16_t port;               /* of the authority; 0: none was given */
	struct net_target_form form; /* how path and query were read; set before they are */
	char *path;  /* canonical, begins with '/'; "*" for OPTIONS *. As sent, if form says so */
	char *query; /* as it came, checked for characters; "" when none */
	struct http_fields fields;
	enum http_body body;
	uint64_t length;
	bool expect_continue, upgrade_ws, trailers_ok /* te: trailers */;
	bool close;       /* the client wants its connection closed afterwards */
	bool http10;      /* an HTTP/1.0 client: its answer cannot be chunked */
	bool wipe;        /* set by whoever puts a secret into it: request_done() wipes */
	bool git_push;    /* receive-pack, advertised or sent */
	char *git_repo;   /* "owner/repo" when it is the Git smart protocol, else NULL */
	bool git_unclear; /* as in struct net_request; git_push stays false */
	struct arena arena;
};

struct http_response {
	unsigned status;
	struct http_fields fields;
	enum http_body body;
	uint64_t length;
	bool has_length;  /* `length` was stated, also where there is no body (HEAD, 304) */
	bool until_close; /* read from HTTP/1: a STREAM, not chunked, that ends by closing */
	bool close;       /* read: the peer closes afterwards. Written: we do */
	bool http10;     /* written for an HTTP/1.0 client: a STREAM ends by closing, not chunked */
	bool upgrade_ws; /* 101 to a WebSocket */
	struct arena arena;
};

void request_init(struct http_request *r);
void request_done(struct http_request *r);
void response_init(struct http_response *r);
void response_done(struct http_response *r);
/* Copies, lower-cases the name, trims the value. NULL or a problem (too many, bad characters). */
const struct http_problem *fields_add(struct http_fields *f, struct arena *a, const char *name,
	size_t name_len, const char *value, size_t value_len);
/*
 * As fields_add(), without copying: both texts are in the message's own memory, followed by one
 * byte each that may be overwritten.
 */
const struct http_problem *fields_own(struct http_fields *f, struct arena *a, char *name,
	size_t name_len, char *value, size_t value_len);
const char *fields_get(const struct http_fields *f, const char *name); /* first, or NULL */
void fields_remove(struct http_fields *f, const char *name);           /* every one */

/*
 * Split and canonicalise a request target's path and query into r. Percent-encoding of unreserved
 * characters and '@' is undone, characters that do not belong in a path are encoded, the rest is
 * upper-cased; "//", "/./", "/../" in any spelling (also before ';'), "%2F", "%5C", encoded
 * controls, these encoded twice, backslash, control and non-ASCII bytes, ill-formed UTF-8, a
 * fragment, bad escapes: refused. The "%2F" in "@scope%2Fname", as package managers write it,
 * becomes '/', so that judged and forwarded are one. `*` only for OPTIONS. What is judged and sent is
 * decoded once: "/%2561dmin" is the name "%61dmin", not "admin".
 *
 * r->form: with NET_PATH_KEEP_SLASH "%2F" stays, and the path must also be proper with a '/' there.
 * NET_PATH_AS_SENT: nothing of the path is judged; only blanks, controls and a fragment are refused.
 */
const struct http_problem *request_target(struct http_request *r, const char *target, size_t n);
/*
 * Would its target be the same, had it been read in this form? A policy that comes later may judge what
 * was carried as it was sent.
 */
bool request_reads_as(const struct http_request *r, struct net_target_form form);
/* "name[:port]" as in Host and :authority. Userinfo, odd addresses, bad ports: refused. */
const struct http_problem *request_authority(struct http_request *r, const char *text, size_t n);
/* A token of upper-case letters and '-'; CONNECT, TRACE, TRACK and lower case are refused. */
const struct http_problem *request_method(struct http_request *r, const char *text, size_t n);
/*
 * What h1 and h2 have in common after all fields are known: override headers, hop-by-hop, body
 * rules, ws. For h2 it also reads `host` (must agree with :authority) and `content-length` from the
 * fields.
 */
const struct http_problem *request_finish(struct http_request *r);
/* The same for a response to `method`; problems have status 502. For h2, body as for requests. */
const struct http_problem *response_finish(struct http_response *r, const char *method);

/* The question for policy; pointers into r, which request_finish() has seen. */
void request_question(
	const struct http_request *r, uint16_t port, bool tls, struct net_request *ret);

/* A number of digits only, at most HTTP_LENGTH_MAX. */
bool http_length(uint64_t *ret, const char *text, size_t n);

#endif
