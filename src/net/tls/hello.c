/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ClientHello, read strictly.
 *
 * Purpose: say which server a client asks for, so that a spliced connection can be held to the name
 *          its address is bound to.
 * Trust:   the bytes are the sandbox's, and what is accepted here is read again by the server.
 *          Where two readers could differ (duplicates, bytes left over, a second message in the
 *          same record, records of another kind in between) the hello is bad, so that both see the
 *          same name or none.
 * Order:   records -> one handshake message of type 1 -> its fields -> its extensions.
 * Limits:  HELLO_MAX_B bytes of records. Lengths are judged when they are announced, not when the
 *          bytes are there: a result other than HELLO_MORE is final.
 */
#include "net/tls/hello.h"

#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

#define RECORD_HEADER_B 5u
#define RECORD_MAX_B 16384u
#define RECORD_HANDSHAKE 22
#define HANDSHAKE_HEADER_B 4u
#define HANDSHAKE_CLIENT_HELLO 1
#define VERSION_MAJOR 3 /* SSL 3 to TLS 1.3 */
#define VERSION_MINOR_MAX 4
#define RANDOM_B 32u
#define SESSION_ID_MAX_B 32u

enum {
	EXT_SERVER_NAME = 0,
	EXT_ALPN = 16,
	EXT_ECH_DRAFT_FIRST =
		0xfe08, /* drafts 8 to 12 of encrypted_client_hello had a number each */
	EXT_ECH = 0xfe0d,
	EXT_ESNI = 0xffce, /* encrypted_server_name, what it grew from */
};
#define SERVER_NAME_HOST 0

/* ---- a view that shrinks as it is read; `bad` is sticky, and what is returned then is 0 ---- */

struct view {
	const uint8_t *p;
	size_t n;
	bool bad;
};

static struct view get_view(struct view *v, size_t n)
{
	struct view part = {.p = v->p, .n = n};

	if (v->bad || n > v->n) {
		v->bad = true;
		return (struct view){.bad = true};
	}
	v->n -= n;
	v->p = v->n ? &v->p[n] : NULL;
	return part;
}

static unsigned get_number(struct view *v, size_t bytes)
{
	struct view part = get_view(v, bytes);
	unsigned number = 0;

	for (size_t i = 0; !part.bad && i < bytes; i++)
		number = number << 8 | part.p[i];
	return number;
}

/* A vector: its length in so many bytes, then as many bytes, within [min_b, max_b]. */
static struct view get_vector(struct view *v, size_t length_b, size_t min_b, size_t max_b)
{
	size_t n = get_number(v, length_b);

	if (n < min_b || n > max_b)
		v->bad = true;
	return get_view(v, n);
}

static bool view_is(const struct view *v, const char *text)
{
	return !v->bad && v->n == strlen(text) && memcmp(v->p, text, v->n) == 0;
}

/* ---- extensions: each returns false when the hello as a whole is bad ---- */

struct extensions_seen {
	bool server_name, alpn;
};

/* One host_name and nothing else. What is wrong here refuses the name, and the caller says so. */
static void read_server_name(struct hello *h, struct view body)
{
	struct view list = get_vector(&body, 2, 1, UINT16_MAX);
	unsigned kind = get_number(&list, 1);
	struct view name = get_vector(&list, 2, 1, NET_NAME_MAX);

	h->sni[0] = '\0';
	h->sni_bad = true;
	if (body.bad || body.n || list.bad || list.n || kind != SERVER_NAME_HOST)
		return;
	/* Without the final dot that net_name() would take off: servers differ about it. */
	if (name.p[name.n - 1] == '.')
		return;
	if (net_name(h->sni, (const char *)name.p, name.n))
		h->sni_bad = false;
	else
		h->sni[0] = '\0';
}

static bool read_alpn(struct hello *h, struct view body)
{
	struct view list = get_vector(&body, 2, 2, UINT16_MAX);

	if (body.bad || body.n)
		return false;
	while (list.n) {
		struct view name = get_vector(&list, 1, 1, UINT8_MAX);

		if (list.bad)
			return false;
		h->alpn_h2 |= view_is(&name, "h2");
		h->alpn_h1 |= view_is(&name, "http/1.1");
	}
	return true;
}

static bool read_extension(
	struct hello *h, struct extensions_seen *seen, unsigned type, struct view body)
{
	if (type == EXT_SERVER_NAME) {
		read_server_name(h, body);
		if (seen->server_name) {
			h->sni[0] = '\0';
			h->sni_bad = true;
		}
		seen->server_name = true;
		return true;
	}
	if (type == EXT_ALPN) {
		if (seen->alpn)
			return false;
		seen->alpn = true;
		return read_alpn(h, body);
	}
	/*
	 * What is sent as camouflage cannot be told from the real thing; that is its purpose. So
	 * its presence counts, whatever it holds.
	 */
	if (type == EXT_ECH)
		h->ech = true;
	if ((type >= EXT_ECH_DRAFT_FIRST && type < EXT_ECH) || type == EXT_ESNI)
		h->ech_old = true;
	return true;
}

static bool read_hello(struct hello *h, struct view v)
{
	struct extensions_seen seen = {0};
	unsigned major = get_number(&v, 1);
	struct view suites, extensions;

	get_number(&v, 1);
	get_view(&v, RANDOM_B);
	get_vector(&v, 1, 0, SESSION_ID_MAX_B);
	suites = get_vector(&v, 2, 2, UINT16_MAX - 1);
	get_vector(&v, 1, 1, UINT8_MAX);
	if (v.bad || major != VERSION_MAJOR || suites.n % 2)
		return false;
	if (!v.n)
		return true; /* TLS 1.2 and before may have no extensions */
	extensions = get_vector(&v, 2, 0, UINT16_MAX);
	if (v.bad || v.n)
		return false;
	while (extensions.n) {
		unsigned type = get_number(&extensions, 2);
		struct view body = get_vector(&extensions, 2, 0, UINT16_MAX);

		if (extensions.bad || !read_extension(h, &seen, type, body))
			return false;
	}
	return true;
}

/* ---- records ---- */

struct assembly {
	uint8_t body[HELLO_MAX_B];
	size_t have_b;
	size_t want_b; /* of header and message; 0: not known yet */
};

/* The message's header, as soon as it is there. false: not a ClientHello, or too long to be one. */
static bool assembly_header(struct assembly *a)
{
	struct view v = {.p = a->body, .n = a->have_b};
	unsigned type, length;

	if (a->have_b && a->body[0] != HANDSHAKE_CLIENT_HELLO)
		return false;
	if (a->want_b || a->have_b < HANDSHAKE_HEADER_B)
		return true;
	type = get_number(&v, 1);
	length = get_number(&v, 3);
	a->want_b = HANDSHAKE_HEADER_B + (size_t)length;
	return type == HANDSHAKE_CLIENT_HELLO && a->want_b + RECORD_HEADER_B <= HELLO_MAX_B;
}

/*
 * One record's payload of `announced_b`, of which `part` came so far. A record that holds more than
 * the rest of the message is bad as soon as that can be seen.
 */
static bool assembly_add(struct assembly *a, struct view part, size_t announced_b)
{
	size_t before_b = a->have_b;

	if (part.n > sizeof(a->body) - a->have_b)
		return false;
	if (part.n)
		memcpy(&a->body[a->have_b], part.p, part.n);
	a->have_b += part.n;
	if (!assembly_header(a))
		return false;
	return !a->want_b || before_b + announced_b <= a->want_b;
}

static enum hello_result first_bytes(const unsigned char *p, size_t n)
{
	if (n >= 1 && p[0] != RECORD_HANDSHAKE)
		return HELLO_NOT_TLS; /* the older SSL 2 form of a hello as well */
	if (n >= 2 && p[1] != VERSION_MAJOR)
		return HELLO_NOT_TLS;
	return HELLO_OK;
}

/* HELLO_OK: the message is complete in *a. */
static enum hello_result assemble(struct assembly *a, struct view v, bool at_limit)
{
	enum hello_result more = at_limit ? HELLO_BAD : HELLO_MORE;

	while (!a->want_b || a->have_b < a->want_b) {
		unsigned type, major, minor;
		size_t announced_b;

		if (v.n < RECORD_HEADER_B)
			return more;
		type = get_number(&v, 1);
		major = get_number(&v, 1);
		minor = get_number(&v, 1);
		announced_b = get_number(&v, 2);
		if (type != RECORD_HANDSHAKE || major != VERSION_MAJOR ||
			minor > VERSION_MINOR_MAX || !announced_b || announced_b > RECORD_MAX_B)
			return HELLO_BAD;
		if (!assembly_add(a, get_view(&v, MIN_OF(announced_b, v.n)), announced_b))
			return HELLO_BAD;
		if (!v.n && (!a->want_b || a->have_b < a->want_b))
			return more;
	}
	return HELLO_OK;
}

enum hello_result hello_parse(struct hello *ret, const unsigned char *p, size_t n)
{
	struct view v = {.p = p, .n = MIN_OF(n, (size_t)HELLO_MAX_B)};
	enum hello_result r = first_bytes(p, n);
	struct assembly a;

	*ret = (struct hello){0};
	if (r != HELLO_OK)
		return r;
	a.have_b = a.want_b = 0;
	r = assemble(&a, v, n >= HELLO_MAX_B);
	if (r != HELLO_OK)
		return r;
	v = (struct view){.p = &a.body[HANDSHAKE_HEADER_B], .n = a.want_b - HANDSHAKE_HEADER_B};
	if (read_hello(ret, v))
		return HELLO_OK;
	*ret = (struct hello){0};
	return HELLO_BAD;
}
