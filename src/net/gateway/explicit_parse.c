/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of the explicit proxy asks for: see explicit.h. Pure; every position is checked
 * against n.
 */
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "net/gateway/explicit.h"
#include "net/reach/proxy.h"

#define CREDENTIALS_MAX_B 128

/* A view of text that belongs to somebody else. */
struct view {
	const char *p;
	size_t n;
};

static struct view view_from(struct view v, size_t at)
{
	return at < v.n ? (struct view){v.p + at, v.n - at} : (struct view){v.p + v.n, 0};
}

/* Up to the separator, which is removed from the rest; false when there is none. */
static bool view_split(struct view *rest, const char *sep, size_t sep_n, struct view *ret)
{
	const char *at = memmem(rest->p, rest->n, sep, sep_n);
	size_t n;

	if (!at)
		return false;
	n = (size_t)(at - rest->p);
	*ret = (struct view){rest->p, n};
	*rest = view_from(*rest, n + sep_n);
	return true;
}

static bool view_starts(struct view v, const char *text)
{
	size_t n = strlen(text);

	return v.n >= n && strncasecmp(v.p, text, n) == 0;
}

bool explicit_token_matches(const char *token, const char *p, size_t n)
{
	unsigned char different = 0;

	/* How long a token is, is no secret. */
	if (n != GATEWAY_TOKEN_LEN || strlen(token) != GATEWAY_TOKEN_LEN)
		return false;
	for (size_t i = 0; i < GATEWAY_TOKEN_LEN; i++)
		different |= (unsigned char)(token[i] ^ p[i]);
	return different == 0;
}

static bool read_port(uint16_t *ret, struct view v)
{
	unsigned port = 0;

	if (v.n == 0 || v.n > 5)
		return false;
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return false;
		port = port * 10 + (unsigned)(v.p[i] - '0');
	}
	if (port == 0 || port > 65535)
		return false;
	*ret = (uint16_t)port;
	return true;
}

/* An address that wraps an IPv4 one is the IPv4 one, as the kernel would have it. */
static void unmap(struct net_addr *a)
{
	struct sockaddr_storage ss;

	addr_to_sockaddr(a, 0, &ss);
	addr_from_sockaddr(a, NULL, &ss);
}

bool explicit_host(struct explicit_head *ret, const char *p, size_t n, bool bracketed)
{
	ret->host[0] = '\0';
	if (net_addr_parse(&ret->addr, p, n)) {
		if (ret->addr.v6 != bracketed)
			return false;
		unmap(&ret->addr);
		return true;
	}
	return !bracketed && net_name(ret->host, p, n);
}

bool explicit_authority(struct explicit_head *ret, const char *p, size_t n, uint16_t default_port)
{
	struct explicit_head h = {.port = default_port};
	struct view rest = {p, n}, host;
	bool bracketed = n > 0 && p[0] == '[';

	if (memchr(p, '@', n))
		return false;
	if (bracketed) {
		rest = view_from(rest, 1);
		if (!view_split(&rest, "]", 1, &host))
			return false;
		if (rest.n > 0 && rest.p[0] != ':')
			return false;
		rest = view_from(rest, 1);
		if (rest.n == 0 && p[n - 1] == ':')
			return false;
	} else if (!view_split(&rest, ":", 1, &host)) {
		host = rest;
		rest.n = 0;
	} else if (rest.n == 0) {
		return false; /* "name:" */
	}
	if (!explicit_host(&h, host.p, host.n, bracketed))
		return false;
	if (rest.n > 0 ? !read_port(&h.port, rest) : h.port == 0)
		return false;
	*ret = h;
	return true;
}

/* "Basic " and base64 of "croft:TOKEN". */
static bool credentials_match(struct view v, const char *token)
{
	unsigned char plain[CREDENTIALS_MAX_B];
	static const char user[] = "croft:";
	long n;

	if (!view_starts(v, "basic "))
		return false;
	v = view_from(v, 6);
	while (v.n > 0 && v.p[0] == ' ')
		v = view_from(v, 1);
	while (v.n > 0 && v.p[v.n - 1] == ' ')
		v.n--;
	n = base64_decode(plain, sizeof(plain), v.p, v.n);
	if (n < (long)sizeof(user) - 1 || memcmp(plain, user, sizeof(user) - 1) != 0)
		return false;
	return explicit_token_matches(
		token, (const char *)plain + sizeof(user) - 1, (size_t)n - (sizeof(user) - 1));
}

/* The header lines: exactly one that proves the token. */
static enum explicit_result check_token(struct view rest, const char *token)
{
	static const char name[] = "proxy-authorization:";
	struct view line;
	unsigned seen = 0;
	bool ok = false;

	while (view_split(&rest, "\r\n", 2, &line) && line.n > 0) {
		struct view value;

		if (!memchr(line.p, ':', line.n) || line.p[0] == ' ' || line.p[0] == '\t')
			return EXPLICIT_BAD;
		if (!view_starts(line, name))
			continue;
		value = view_from(line, sizeof(name) - 1);
		while (value.n > 0 && (value.p[0] == ' ' || value.p[0] == '\t'))
			value = view_from(value, 1);
		ok = credentials_match(value, token);
		seen++;
	}
	if (seen > 1)
		return EXPLICIT_BAD;
	return ok ? EXPLICIT_OK : EXPLICIT_NO_TOKEN;
}

enum explicit_result explicit_parse(
	struct explicit_head *ret, const char *p, size_t n, const char *token)
{
	struct view rest = {p, n}, line, method, target, authority;
	struct explicit_head h;
	enum explicit_result r;
	bool connect;

	if (!view_split(&rest, "\r\n", 2, &line) || !view_split(&line, " ", 1, &method) ||
		!view_split(&line, " ", 1, &target))
		return EXPLICIT_BAD;
	if (line.n != 8 ||
		(memcmp(line.p, "HTTP/1.1", 8) != 0 && memcmp(line.p, "HTTP/1.0", 8) != 0))
		return EXPLICIT_BAD;
	connect = method.n == 7 && memcmp(method.p, "CONNECT", 7) == 0;
	authority = target;
	if (!connect) {
		if (!view_starts(target, "http://"))
			return EXPLICIT_BAD;
		target = authority = view_from(target, 7);
		for (size_t i = 0; i < target.n; i++)
			if (target.p[i] == '/' || target.p[i] == '?' || target.p[i] == '#') {
				authority.n = i;
				break;
			}
	}
	/* The token first: whoever lacks it learns nothing about what would be valid. */
	r = check_token(rest, token);
	if (r != EXPLICIT_OK)
		return r;
	if (!explicit_authority(&h, authority.p, authority.n, connect ? 0 : 80))
		return EXPLICIT_BAD;
	h.connect = connect;
	*ret = h;
	return EXPLICIT_OK;
}
