/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS on both sides, by OpenSSL.
 *
 * Towards the sandbox: a leaf certificate per bound name, made on demand, signed by the sandbox's
 * own authority (whose key came with CONFIG and is in no file), one P-256 leaf key per gateway,
 * cache of TLS_LEAVES_MAX, TLS 1.2+, ALPN h2 and http/1.1. The SNI must equal the flow's bound
 * name or the handshake fails (unrecognized_name).
 * Upstream: verified strictly (system roots plus `trust:`), host name checked, TLS 1.2+, no
 * renegotiation, session resumption per host; ALPN h2 and http/1.1.
 */
#ifndef CROFT_NET_TLS_TLS_H
#define CROFT_NET_TLS_TLS_H

#include <openssl/ssl.h>

#include "base/err.h"
#include "ipc/gateway_message.h"
#include "policy/net/net.h"

#define TLS_LEAVES_MAX 256

struct tls;
/* Before confinement: reads the system's roots and trust files. */
int tls_new(
	struct tls **ret, const struct gateway_ca *ca, const struct net_policy *p, struct err *e);
void tls_free(struct tls *t);
/*
 * A server side for `host`; NULL when out of memory or the name cannot have a certificate.
 * h1_only: no h2 in ALPN.
 */
SSL *tls_server(struct tls *t, const char *host, int fd, bool h1_only);
SSL *tls_client(struct tls *t, const char *host, int fd, bool h1_only);
/* Why the last handshake on this side failed, for the 502 and the journal. */
void tls_problem(SSL *s, char *out, size_t n);

#endif
