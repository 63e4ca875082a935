/* SPDX-License-Identifier: Apache-2.0 */
/* Leaf certificates: see tls_leaf.h. */
#include "net/tls/tls_leaf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/tls/tls.h"
#include "policy/net/net.h"

#define LEAF_BACK_S (24L * 3600) /* clocks inside may be behind */
#define LEAF_FOR_S (30L * 24 * 3600)
#define LEAF_RENEW_S (20L * 24 * 3600) /* of age */
#define LEAF_SERIAL_B 16
#define LEAF_CN_MAX 64u /* X.520's upper bound of a common name */

struct leaf {
	char host[NET_NAME_MAX + 1];
	X509 *x;
	time_t made;
	uint64_t used;
};

struct leaves {
	X509 *ca;
	EVP_PKEY *ca_key, *key;
	struct leaf v[TLS_LEAVES_MAX];
	size_t n;
	uint64_t clock;
};

/* A private key of P-256 from its scalar; the public half is computed, not believed. */
static EVP_PKEY *key_import(const uint8_t scalar[32])
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	BIGNUM *d = BN_secure_new();
	EC_POINT *q = group ? EC_POINT_new(group) : NULL;
	OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;
	unsigned char pub[65];

	if (!d || !q || !b || !c || !BN_bin2bn(scalar, 32, d))
		goto out;
	BN_set_flags(d, BN_FLG_CONSTTIME);
	if (BN_is_zero(d) || BN_cmp(d, EC_GROUP_get0_order(group)) >= 0)
		goto out;
	if (!EC_POINT_mul(group, q, d, NULL, NULL, NULL) ||
		EC_POINT_point2oct(group, q, POINT_CONVERSION_UNCOMPRESSED, pub, sizeof(pub),
			NULL) != sizeof(pub))
		goto out;
	if (!OSSL_PARAM_BLD_push_utf8_string(b, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) ||
		!OSSL_PARAM_BLD_push_octet_string(b, OSSL_PKEY_PARAM_PUB_KEY, pub, sizeof(pub)) ||
		!OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_PRIV_KEY, d))
		goto out;
	params = OSSL_PARAM_BLD_to_param(b);
	if (!params || EVP_PKEY_fromdata_init(c) <= 0 ||
		EVP_PKEY_fromdata(c, &key, EVP_PKEY_KEYPAIR, params) <= 0)
		key = NULL;
out:
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(b);
	EVP_PKEY_CTX_free(c);
	EC_POINT_free(q);
	EC_GROUP_free(group);
	BN_clear_free(d);
	return key;
}

int leaves_new(struct leaves **ret, const struct gateway_ca *ca, struct err *e)
{
	struct leaves *l = calloc(1, sizeof(*l));
	const unsigned char *p = ca->der;

	if (!l)
		return err_set(e, ENOMEM, "load the sandbox's authority");
	if (ca->der_len <= GATEWAY_CA_DER_MAX)
		l->ca = d2i_X509(NULL, &p, (long)ca->der_len);
	l->ca_key = key_import(ca->key);
	l->key = EVP_EC_gen("P-256");
	if (!l->ca || !l->ca_key || !l->key || X509_check_private_key(l->ca, l->ca_key) != 1) {
		leaves_free(l);
		return err_set(e, EBADMSG,
			"the sandbox's authority is not a P-256 key with its certificate");
	}
	*ret = l;
	return 0;
}

void leaves_free(struct leaves *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		X509_free(l->v[i].x);
	X509_free(l->ca);
	EVP_PKEY_free(l->ca_key);
	EVP_PKEY_free(l->key);
	free(l);
}

EVP_PKEY *leaves_key(const struct leaves *l)
{
	return l->key;
}

static bool leaf_serial(X509 *x)
{
	unsigned char b[LEAF_SERIAL_B];
	BIGNUM *n;
	bool ok;

	if (RAND_bytes(b, sizeof(b)) != 1)
		return false;
	b[0] = (unsigned char)((b[0] & 0x7f) | 0x40); /* positive, always of the same length */
	n = BN_bin2bn(b, sizeof(b), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

/* Built as a structure: a name is never text for the library's extension parser. */
static bool leaf_san(X509 *x, const char *host)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_STRING *text = NULL;
	struct net_addr a;
	bool ok = false;

	if (!names || !name)
		goto out;
	if (net_addr_parse(&a, host, strlen(host))) {
		text = ASN1_OCTET_STRING_new();
		if (!text || !ASN1_STRING_set(text, a.b, a.v6 ? 16 : 4))
			goto out;
		GENERAL_NAME_set0_value(name, GEN_IPADD, text);
	} else {
		text = ASN1_IA5STRING_new();
		if (!text || !ASN1_STRING_set(text, host, -1))
			goto out;
		GENERAL_NAME_set0_value(name, GEN_DNS, text);
	}
	text = NULL;
	if (!sk_GENERAL_NAME_push(names, name))
		goto out;
	name = NULL;
	ok = X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
out:
	ASN1_STRING_free(text);
	GENERAL_NAME_free(name);
	GENERAL_NAMES_free(names);
	return ok;
}

static bool leaf_extension(X509 *x, X509 *ca, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX c;
	bool ok;

	X509V3_set_ctx(&c, ca, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &c, nid, value);
	ok = ext && X509_add_ext(x, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

static X509 *leaf_make(const struct leaves *l, const char *host)
{
	X509 *x = X509_new();
	X509_NAME *subject = X509_NAME_new();
	bool ok;

	ok = x && subject && X509_set_version(x, X509_VERSION_3) && leaf_serial(x) &&
	     X509_set_issuer_name(x, X509_get_subject_name(l->ca)) &&
	     X509_gmtime_adj(X509_getm_notBefore(x), -LEAF_BACK_S) &&
	     X509_gmtime_adj(X509_getm_notAfter(x), LEAF_FOR_S) && X509_set_pubkey(x, l->key);
	if (ok && strlen(host) <= LEAF_CN_MAX)
		ok = X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
			     (const unsigned char *)host, -1, -1, 0) == 1;
	ok = ok && X509_set_subject_name(x, subject) && leaf_san(x, host) &&
	     leaf_extension(x, l->ca, NID_basic_constraints, "critical,CA:FALSE") &&
	     leaf_extension(x, l->ca, NID_key_usage, "critical,digitalSignature") &&
	     leaf_extension(x, l->ca, NID_ext_key_usage, "serverAuth") &&
	     leaf_extension(x, l->ca, NID_subject_key_identifier, "hash");
	/* Strict verifiers want it; it can only be made from the authority's own identifier. */
	if (ok && X509_get0_subject_key_id(l->ca))
		ok = leaf_extension(x, l->ca, NID_authority_key_identifier, "keyid:always");
	ok = ok && X509_sign(x, l->ca_key, EVP_sha256()) > 0;
	X509_NAME_free(subject);
	if (!ok) {
		X509_free(x);
		return NULL;
	}
	return x;
}

X509 *leaves_get(struct leaves *l, const char *host)
{
	struct leaf *slot = NULL;
	time_t now = time(NULL);
	size_t n = strlen(host);
	X509 *x;

	if (!n || n > NET_NAME_MAX)
		return NULL;
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i].host, host)) {
			slot = &l->v[i];
			break;
		}
	}
	if (slot && now - slot->made < LEAF_RENEW_S && now >= slot->made) {
		slot->used = ++l->clock;
		return slot->x;
	}
	x = leaf_make(l, host);
	if (!x)
		return NULL;
	if (!slot && l->n < TLS_LEAVES_MAX)
		slot = &l->v[l->n++];
	if (!slot) {
		slot = &l->v[0];
		for (size_t i = 1; i < l->n; i++)
			if (l->v[i].used < slot->used)
				slot = &l->v[i];
	}
	X509_free(slot->x);
	*slot = (struct leaf){.x = x, .made = now, .used = ++l->clock};
	memcpy(slot->host, host, n + 1);
	return x;
}
