/* SPDX-License-Identifier: Apache-2.0 */
/* An authority for tests, and handshakes between two ends in one process. */
#ifndef CROFT_TESTS_UNIT_TLS_WORLD_H
#define CROFT_TESTS_UNIT_TLS_WORLD_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "net/tls/tls.h"

static inline void world_extension(X509 *x, int nid, const char *value)
{
	X509V3_CTX c;
	X509_EXTENSION *e;

	X509V3_set_ctx(&c, x, x, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &c, nid, value);
	X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
}

/* A fresh authority; its certificate also as a file, whose name is written to ret_path. */
static inline bool world_authority(struct gateway_ca *ret, char ret_path[32])
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	BIGNUM *d = NULL;
	unsigned char *p = ret->der;
	FILE *f;
	int fd;

	X509_set_version(x, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
		(const unsigned char *)"croft test authority", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, key);
	world_extension(x, NID_basic_constraints, "critical,CA:TRUE");
	world_extension(x, NID_key_usage, "critical,keyCertSign");
	world_extension(x, NID_subject_key_identifier, "hash");
	X509_sign(x, key, EVP_sha256());
	EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_PRIV_KEY, &d);
	BN_bn2binpad(d, ret->key, sizeof(ret->key));
	ret->der_len = (uint32_t)i2d_X509(x, &p);
	snprintf(ret_path, 32, "/tmp/croft-tls-XXXXXX");
	fd = mkstemp(ret_path);
	f = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (f) {
		PEM_write_X509(f, x);
		fclose(f);
	}
	BN_free(d);
	X509_free(x);
	EVP_PKEY_free(key);
	return f;
}

static inline void world_pair(int ret[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret) < 0)
		abort();
}

#endif
