/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first flight of a TLS client, as far as policy asks: its server name. Pure, bounded
 * reassembly.
 */
#ifndef CROFT_NET_TLS_HELLO_H
#define CROFT_NET_TLS_HELLO_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/net/net.h"

#define HELLO_MAX_B (17u << 10) /* records that hold one ClientHello */

enum hello_result { HELLO_MORE, HELLO_OK, HELLO_NOT_TLS, HELLO_BAD };
struct hello {
	char sni[NET_NAME_MAX + 1]; /* canonical; "" when there is none */
	bool sni_bad; /* one was there and is not a canonical name, or more than one */
	bool ech; /* encrypted_client_hello (0xfe0d); camouflage (GREASE) cannot be told from it */
	bool ech_old; /* its drafts and ESNI, which nobody sends as camouflage any more */
	bool alpn_h2, alpn_h1;
};
/*
 * p[0..n) is what came so far, from the first byte. Once the result is not HELLO_MORE, further
 * bytes do not change it. *ret holds something only with HELLO_OK, and is zero otherwise.
 */
enum hello_result hello_parse(struct hello *ret, const unsigned char *p, size_t n);

#endif
