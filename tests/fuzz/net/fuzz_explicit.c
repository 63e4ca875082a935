/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of the explicit proxy, or an upstream proxy, may send: heads, authorities, base64.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "net/gateway/explicit.h"
#include "net/io/peek.h"
#include "net/reach/proxy.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A result is canonical, or it is none: reading it again gives the same. */
static void check(const struct explicit_head *h)
{
	char again[NET_NAME_MAX + 1];

	if (h->port == 0 || (h->host[0] && (!net_name(again, h->host, strlen(h->host)) ||
						   strcmp(again, h->host) != 0)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	struct explicit_head h;
	unsigned char plain[256];
	ssize_t len = peek_head_len(p, size);

	if (len > (ssize_t)size)
		abort();
	if (len > 0)
		proxy_status(p, (size_t)len);
	/* Also what is no whole head: the parser must not rely on it. */
	if (explicit_parse(&h, p, size, TOKEN) == EXPLICIT_OK) {
		check(&h);
		if (!memmem(p, size, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY", 43))
			abort(); /* nobody gets in without the token */
	}
	if (explicit_authority(&h, p, size, 0))
		check(&h);
	if (base64_decode(plain, sizeof(plain), p, size) > (long)sizeof(plain))
		abort();
	return 0;
}
