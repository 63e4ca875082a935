/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of the explicit proxy: see explicit.h.
 *
 * Order:   first byte: 5 is SOCKS5, anything else HTTP. Messages are peeked until whole, then taken
 *          exactly, so that what follows (a ClientHello sent early) stays for whoever is next. The
 *          head of a request in absolute form is not taken at all: the HTTP engine reads it,
 *          strictly, and judges it.
 * Limits:  HEAD_MAX_B, START_TIMEOUT_MS until a destination is known.
 */
#include "net/gateway/explicit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "net/io/peek.h"

#define HEAD_MAX_B (64u << 10)
#define START_TIMEOUT_MS 10000
#define SOCKS_MAX_B 520 /* the longest of its messages: version, two strings with lengths */
#define REPLY_MAX_B 4096

/* RFC 1928, RFC 1929 */
enum socks {
	SOCKS_VERSION = 5,
	SOCKS_AUTH_VERSION = 1,
	SOCKS_PASSWORD = 2,
	SOCKS_NO_METHOD = 0xff,
	SOCKS_CONNECT = 1,
	SOCKS_V4 = 1,
	SOCKS_NAME = 3,
	SOCKS_V6 = 4,
	SOCKS_OK = 0,
	SOCKS_FAILED = 1,
	SOCKS_REFUSED = 2,
	SOCKS_UNREACHABLE = 4,
	SOCKS_NO_COMMAND = 7,
	SOCKS_NO_ADDRESS = 8,
};

/*
 * Replies are a few bytes to a socket that has sent us something: if they do not fit, it is not a
 * client.
 */
static bool reply(struct flow *f, const void *p, size_t n)
{
	return send(f->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

static void give_up(struct flow *f, const char *why)
{
	f->front = NULL;
	flow_end(f, why);
}

/* Bytes that nobody read turn a close into a reset, and the answer with it. */
static void drain(struct flow *f)
{
	char waste[4096];

	for (int i = 0; i < 32; i++)
		if (recv(f->fd, waste, sizeof(waste), MSG_DONTWAIT) <= 0)
			return;
}

static void reply_http(
	struct flow *f, const char *status, const char *extra, const struct buf *body)
{
	cleanup_buf struct buf b = BUF_INIT(REPLY_MAX_B);

	buf_addf(&b,
		"HTTP/1.1 %s\r\n%sContent-Type: application/json\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n%s",
		status, extra, body->len, buf_str(body));
	if (!b.failed)
		reply(f, b.data, b.len);
	shutdown(f->fd, SHUT_WR);
	drain(f);
}

/* {"error": what, "host": …, "reason": why, "next": …}, as the HTTP engine says it. */
static void reply_json(struct flow *f, const char *status, const char *extra, const char *what,
	const char *why, const struct net_verdict *v)
{
	cleanup_buf struct buf body = BUF_INIT(REPLY_MAX_B / 2);
	struct json j;

	json_init(&j, &body, false);
	json_object(&j, NULL);
	json_str(&j, "error", what);
	if (f->dest.host)
		json_str(&j, "host", f->host);
	if (f->dest.port)
		json_uint(&j, "port", f->dest.port);
	if (v && v->rule)
		json_str(&j, "rule", v->rule->name);
	json_str(&j, "reason", why);
	if (v && v->fix[0])
		json_str(&j, "next", v->fix);
	json_end(&j);
	reply_http(f, status, extra, &body);
}

/* ---- what a client hears of the verdict ---- */

static void http_granted(struct flow *f)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	f->front = NULL;
	if (!reply(f, ok, sizeof(ok) - 1))
		flow_end(f, "the client does not read");
}

static void http_refused(struct flow *f, const struct net_verdict *v)
{
	reply_json(f, "403 Forbidden", "", "denied by croft policy", v->why, v);
}

static void http_failed(struct flow *f, const struct err *e)
{
	reply_json(f, "502 Bad Gateway", "", "the destination was not reached", e->msg, NULL);
}

static void absolute_granted(struct flow *f)
{
	f->front = NULL; /* from here on the HTTP engine answers */
}

static bool reply_socks(struct flow *f, enum socks code)
{
	const unsigned char m[10] = {SOCKS_VERSION, (unsigned char)code, 0, SOCKS_V4};

	return reply(f, m, sizeof(m));
}

static void socks_granted(struct flow *f)
{
	f->front = NULL;
	if (!reply_socks(f, SOCKS_OK))
		flow_end(f, "the client does not read");
}

static void socks_refused(struct flow *f, const struct net_verdict *v)
{
	reply_socks(f, SOCKS_REFUSED);
}

static void socks_failed(struct flow *f, const struct err *e)
{
	reply_socks(f, SOCKS_UNREACHABLE);
}

static const struct flow_front connect_front = {http_granted, http_refused, http_failed};
static const struct flow_front absolute_front = {absolute_granted, http_refused, http_failed};
static const struct flow_front socks_front = {socks_granted, socks_refused, socks_failed};

static void judge(struct flow *f, const struct explicit_head *h, const struct flow_front *front)
{
	loop_unwatch(&f->watch);
	loop_cancel(&f->timer);
	peek_wait(f->fd, 0);
	memcpy(f->host, h->host, sizeof(f->host));
	f->dest = (struct net_dest){
		.host = f->host[0] ? f->host : NULL, .addr = h->addr, .port = h->port};
	f->front = front;
	flow_judge(f);
}

/* ---- HTTP ---- */

static void refuse_head(struct flow *f, enum explicit_result r)
{
	if (r == EXPLICIT_NO_TOKEN)
		reply_json(f, "407 Proxy Authentication Required",
			"Proxy-Authenticate: Basic realm=\"croft\"\r\n",
			"not a client of this sandbox", "the proxy's password is missing or wrong",
			NULL);
	else
		reply_json(f, "400 Bad Request", "", "not a request to a proxy",
			"CONNECT host:port, or http:// with a host", NULL);
	give_up(f, "not a client");
}

static void http_head(struct flow *f, const char *p, size_t n)
{
	struct explicit_head h;
	enum explicit_result r = explicit_parse(&h, p, n, f->gw->token);

	if (r != EXPLICIT_OK) {
		refuse_head(f, r);
	} else if (h.connect && peek_take(f->fd, n) < 0) {
		give_up(f, "receiving failed");
	} else {
		f->one_request = !h.connect;
		judge(f, &h, h.connect ? &connect_front : &absolute_front);
	}
}

static void http_ready(void *arg, uint32_t events)
{
	cleanup_free char *p = malloc(HEAD_MAX_B);
	struct flow *f = arg;
	ssize_t n = p ? peek(f->fd, p, HEAD_MAX_B) : -ENOMEM, len;

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		give_up(f, "closed");
		return;
	}
	len = peek_head_len(p, (size_t)n);
	if (len > 0)
		http_head(f, p, (size_t)len);
	else if (len < 0 || n == HEAD_MAX_B)
		refuse_head(f, EXPLICIT_BAD);
	else if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		give_up(f, "closed");
	else
		peek_wait(f->fd, (size_t)n);
}

/* ---- SOCKS5 ---- */

/* A message is whole (>0: its length), needs more (0), or is none (-1). */
typedef int socks_step(struct flow *f, const unsigned char *p, size_t n);

static socks_step socks_greeting, socks_auth, socks_request;
static void socks_ready(void *arg, uint32_t events);

/* The step that waits is in f->state, as an index: functions do not fit a data pointer. */
static socks_step *const socks_steps[] = {socks_greeting, socks_auth, socks_request};
enum { SOCKS_GREETING, SOCKS_AUTH, SOCKS_REQUEST };

static int socks_greeting(struct flow *f, const unsigned char *p, size_t n)
{
	static const unsigned char yes[] = {SOCKS_VERSION, SOCKS_PASSWORD},
				   no[] = {SOCKS_VERSION, SOCKS_NO_METHOD};
	size_t len = n >= 2 ? 2u + p[1] : 2u;

	if (p[0] != SOCKS_VERSION)
		return -1;
	if (n < len)
		return 0;
	if (!memchr(p + 2, SOCKS_PASSWORD, p[1])) {
		reply(f, no, sizeof(no));
		return -1;
	}
	f->state = (void *)(uintptr_t)SOCKS_AUTH;
	return reply(f, yes, sizeof(yes)) ? (int)len : -1;
}

static int socks_auth(struct flow *f, const unsigned char *p, size_t n)
{
	unsigned char answer[] = {SOCKS_AUTH_VERSION, 1};
	size_t user, password;

	if (p[0] != SOCKS_AUTH_VERSION)
		return -1;
	if (n < 2 || n < 3u + p[1])
		return 0;
	user = p[1];
	password = p[2 + user];
	if (n < 3 + user + password)
		return 0;
	if (explicit_token_matches(f->gw->token, (const char *)p + 3 + user, password))
		answer[1] = 0;
	f->state = (void *)(uintptr_t)SOCKS_REQUEST;
	if (!reply(f, answer, sizeof(answer)) || answer[1] != 0)
		return -1;
	return (int)(3 + user + password);
}

static bool socks_destination(struct explicit_head *ret, const unsigned char *p, size_t len)
{
	struct explicit_head h = {.port = (uint16_t)(p[len - 2] << 8 | p[len - 1])};
	struct sockaddr_storage ss;

	if (p[3] == SOCKS_NAME) {
		if (!explicit_host(&h, (const char *)p + 5, p[4], false))
			return false;
	} else {
		h.addr.v6 = p[3] == SOCKS_V6;
		memcpy(h.addr.b, p + 4, h.addr.v6 ? 16 : 4);
		addr_to_sockaddr(&h.addr, 0, &ss);
		addr_from_sockaddr(&h.addr, NULL, &ss);
	}
	*ret = h;
	return h.port != 0;
}

static int socks_request(struct flow *f, const unsigned char *p, size_t n)
{
	struct explicit_head h;
	size_t len;

	if (p[0] != SOCKS_VERSION)
		return -1;
	if (n < 5)
		return 0;
	switch (p[3]) {
	case SOCKS_V4:
		len = 4 + 4 + 2;
		break;
	case SOCKS_NAME:
		len = 4 + 1u + p[4] + 2;
		break;
	case SOCKS_V6:
		len = 4 + 16 + 2;
		break;
	default:
		reply_socks(f, SOCKS_NO_ADDRESS);
		return -1;
	}
	if (n < len)
		return 0;
	if (p[1] != SOCKS_CONNECT || p[2] != 0) {
		reply_socks(f, SOCKS_NO_COMMAND);
		return -1;
	}
	if (!socks_destination(&h, p, len)) {
		reply_socks(f, SOCKS_NO_ADDRESS);
		return -1;
	}
	if (peek_take(f->fd, len) < 0)
		return -1;
	f->state = NULL;
	judge(f, &h, &socks_front);
	return 1;
}

static void socks_ready(void *arg, uint32_t events)
{
	unsigned char p[SOCKS_MAX_B];
	struct flow *f = arg;

	for (;;) {
		uintptr_t step = (uintptr_t)f->state;
		ssize_t n = peek(f->fd, p, sizeof(p));
		int r;

		if (n == -EAGAIN) {
			peek_wait(f->fd, 0);
			return;
		}
		r = n > 0 ? socks_steps[step](f, p, (size_t)n) : -1;
		if (r > 0 && step == SOCKS_REQUEST)
			return; /* judged */
		if (r == 0 && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
			peek_wait(f->fd, (size_t)n);
			return;
		}
		if (r <= 0 || peek_take(f->fd, (size_t)r) < 0) {
			f->state = NULL;
			give_up(f, "not a client");
			return;
		}
	}
}

/* ---- both ---- */

static void first_ready(void *arg, uint32_t events)
{
	struct flow *f = arg;
	unsigned char first;
	ssize_t n = peek(f->fd, &first, 1);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		give_up(f, "closed");
		return;
	}
	f->watch.ready = first == SOCKS_VERSION ? socks_ready : http_ready;
	f->watch.ready(f, events);
}

static void start_timed(void *arg)
{
	give_up(arg, "nothing was asked for in time");
}

void explicit_start(struct flow *f)
{
	if (loop_timer(f->gw->loop, &f->timer, START_TIMEOUT_MS, start_timed, f) < 0 ||
		loop_watch(f->gw->loop, &f->watch, f->fd, EPOLLIN | EPOLLRDHUP, first_ready, f) < 0)
		give_up(f, "out of memory");
}
