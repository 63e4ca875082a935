/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates for names that the sandbox visits, made on demand and signed by its own authority.
 */
#ifndef CROFT_NET_TLS_TLS_LEAF_H
#define CROFT_NET_TLS_TLS_LEAF_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/err.h"
#include "ipc/gateway_message.h"

struct leaves;
int leaves_new(struct leaves **ret, const struct gateway_ca *ca, struct err *e);
void leaves_free(struct leaves *l);
/* The certificate for a canonical name or an address; NULL when it cannot have one. Borrowed. */
X509 *leaves_get(struct leaves *l, const char *host);
EVP_PKEY *leaves_key(const struct leaves *l); /* of all of them; borrowed */

#endif
