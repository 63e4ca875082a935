/* SPDX-License-Identifier: Apache-2.0 */
/* The upstream proxy: see proxy.h. */
#include "net/reach/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "net/gateway/explicit.h"

void proxy_free(struct proxy *p)
{
	if (!p)
		return;
	if (p->credentials)
		explicit_bzero(p->credentials, strlen(p->credentials));
	free(p->credentials);
	free(p);
}

/* %XX in user and password. */
static bool unescape(struct buf *out, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned v = 0;

		if (p[i] != '%') {
			buf_addc(out, p[i]);
			continue;
		}
		if (i + 2 >= n)
			return false;
		for (size_t k = 1; k <= 2; k++) {
			static const char hex[] = "0123456789abcdef";
			char c = (char)(p[i + k] | 0x20);
			const char *at = memchr(hex, c, 16);

			if (!at)
				return false;
			v = v << 4 | (unsigned)(at - hex);
		}
		if (v < 0x20 || v == 0x7f)
			return false;
		buf_addc(out, (char)v);
		i += 2;
	}
	return true;
}

static bool read_credentials(struct proxy *p, const char *user, size_t n)
{
	cleanup_buf struct buf plain = BUF_INIT(PROXY_USER_MAX);
	bool ok = unescape(&plain, user, n);

	if (ok && !memchr(buf_str(&plain), ':', plain.len))
		buf_addc(&plain, ':');
	ok = ok && !plain.failed;
	p->credentials = ok ? calloc(1, base64_len(plain.len) + 1) : NULL;
	if (p->credentials)
		base64_encode(p->credentials, buf_str(&plain), plain.len);
	if (plain.data)
		explicit_bzero(plain.data, plain.len);
	return p->credentials != NULL;
}

int proxy_parse(struct proxy **ret, const char *url, struct err *e)
{
	struct proxy *p = calloc(1, sizeof(*p));
	struct explicit_head h;
	const char *rest, *at;
	size_t n;

	if (!p)
		return err_set(e, ENOMEM, "read the policy's `proxy`");
	if (!str_starts(url, "http://"))
		goto invalid;
	rest = url + strlen("http://");
	at = strrchr(rest, '@');
	if (at && !read_credentials(p, rest, (size_t)(at - rest)))
		goto invalid;
	rest = at ? at + 1 : rest;
	n = strlen(rest);
	if (n > 0 && rest[n - 1] == '/')
		n--;
	if (!explicit_authority(&h, rest, n, 3128))
		goto invalid;
	memcpy(p->host, h.host, sizeof(p->host));
	p->addr = h.addr;
	p->port = h.port;
	*ret = p;
	return 0;
invalid:
	proxy_free(p);
	return err_invalid(e, "the policy's `proxy` is not http://[user:password@]host:port");
}

void proxy_request(const struct proxy *p, const char *host, const struct net_addr *a, uint16_t port,
	struct buf *out)
{
	cleanup_buf struct buf to = BUF_INIT(NET_NAME_MAX + 64);

	if (host) {
		buf_adds(&to, host);
	} else {
		buf_adds(&to, a->v6 ? "[" : "");
		net_addr_show(&to, a);
		buf_adds(&to, a->v6 ? "]" : "");
	}
	buf_addf(out, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n", buf_str(&to), port, buf_str(&to),
		port);
	if (p->credentials)
		buf_addf(out, "Proxy-Authorization: Basic %s\r\n", p->credentials);
	buf_adds(out, "\r\n");
}

int proxy_status(const char *head, size_t n)
{
	static const char version[] = "HTTP/1.";
	size_t at = sizeof(version) - 1;
	int status = 0;

	/* "HTTP/1.x NNN" and then a blank or the line's end. */
	if (n < at + 7 || memcmp(head, version, at) != 0)
		return -1;
	if ((head[at] != '0' && head[at] != '1') || head[at + 1] != ' ')
		return -1;
	for (size_t i = at + 2; i < at + 5; i++) {
		if (head[i] < '0' || head[i] > '9')
			return -1;
		status = status * 10 + (head[i] - '0');
	}
	return (head[at + 5] == ' ' || head[at + 5] == '\r') && status >= 100 ? status : -1;
}
