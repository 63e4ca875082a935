/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS contexts for both sides: see tls.h.
 *
 * Trust: no configuration file of the library is read, so that what is negotiated is what is
 *        written here. A resumed upstream session was verified for the same name when it was made;
 *        sessions are kept per name and never cross names.
 */
#include "net/tls/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "net/tls/tls_leaf.h"
#include "net/tls/tls_roots.h"

#define SESSIONS_MAX 64u

static const unsigned char alpn_both[] = "\x02h2\x08http/1.1";
static const unsigned char alpn_serve[] = "\x02h2\x08http/1.1\x08http/1.0"; /* old clients say so */
static const unsigned char alpn_serve_h1[] = "\x08http/1.1\x08http/1.0";
static const unsigned char alpn_h1[] = "\x08http/1.1";

struct session {
	char host[NET_NAME_MAX + 1];
	SSL_SESSION *s;
	uint64_t used;
};

struct tls {
	SSL_CTX *server, *client;
	struct leaves *leaves; /* NULL: no server side */
	struct roots *roots;
	struct session sessions[SESSIONS_MAX];
	size_t sessions_n;
	uint64_t clock;
};

/* What callbacks need to know of one connection. Freed with its SSL. */
struct side {
	struct tls *tls;
	bool h1_only;
	char host[NET_NAME_MAX + 1];
};

static int side_index = -1;

static void side_free(void *parent, void *ptr, CRYPTO_EX_DATA *ad, int idx, long argl, void *argp)
{
	free(ptr);
}

static struct side *side_of(const SSL *s)
{
	return SSL_get_ex_data(s, side_index);
}

static bool side_set(SSL *s, struct tls *t, const char *host, bool h1_only)
{
	struct side *side = calloc(1, sizeof(*side));

	if (!side || strlen(host) > NET_NAME_MAX || !SSL_set_ex_data(s, side_index, side)) {
		free(side);
		return false;
	}
	side->tls = t;
	side->h1_only = h1_only;
	memcpy(side->host, host, strlen(host) + 1);
	return true;
}

/* ---- towards the sandbox ---- */

static int on_server_name(SSL *s, int *alert, void *arg)
{
	const char *name = SSL_get_servername(s, TLSEXT_NAMETYPE_host_name);
	const struct side *side = side_of(s);
	char canonical[NET_NAME_MAX + 1];
	struct net_addr a;

	/* A client that dialled an address has no name to send. */
	if (!name && side && net_addr_parse(&a, side->host, strlen(side->host)))
		return SSL_TLSEXT_ERR_OK;
	if (name && side && net_name(canonical, name, strlen(name)) &&
		str_eq(canonical, side->host))
		return SSL_TLSEXT_ERR_OK;
	*alert = SSL_AD_UNRECOGNIZED_NAME;
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int on_alpn(SSL *s, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len, void *arg)
{
	const struct side *side = side_of(s);
	bool h2 = side && !side->h1_only;
	const unsigned char *ours = h2 ? alpn_serve : alpn_serve_h1;
	unsigned ours_len = (unsigned)(h2 ? sizeof(alpn_serve) : sizeof(alpn_serve_h1)) - 1;
	unsigned char *chosen = NULL;

	if (SSL_select_next_proto(&chosen, out_len, ours, ours_len, in, in_len) !=
		OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static bool ctx_common(SSL_CTX *c)
{
	SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(c, 1);
	return SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) == 1;
}

static int server_context(struct tls *t, const struct gateway_ca *ca, struct err *e)
{
	int r = leaves_new(&t->leaves, ca, e);

	if (r < 0)
		return r;
	t->server = SSL_CTX_new(TLS_server_method());
	if (!t->server || !ctx_common(t->server))
		return err_set(e, ENOMEM, "prepare TLS towards the sandbox");
	/* The other end is on this machine: the cheapest good cipher. */
	SSL_CTX_set_ciphersuites(t->server,
		"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
	SSL_CTX_set_options(t->server, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_session_cache_mode(t->server, SSL_SESS_CACHE_OFF); /* tickets are enough */
	SSL_CTX_set_session_id_context(t->server, (const unsigned char *)"croft", 5);
	SSL_CTX_set_num_tickets(t->server, 1);
	SSL_CTX_set_tlsext_servername_callback(t->server, on_server_name);
	SSL_CTX_set_alpn_select_cb(t->server, on_alpn, NULL);
	return 0;
}

SSL *tls_server(struct tls *t, const char *host, int fd, bool h1_only)
{
	X509 *leaf;
	SSL *s;

	if (!t || !t->server)
		return NULL;
	leaf = leaves_get(t->leaves, host);
	s = leaf ? SSL_new(t->server) : NULL;
	if (!s)
		return NULL;
	if (!side_set(s, t, host, h1_only) || SSL_use_certificate(s, leaf) != 1 ||
		SSL_use_PrivateKey(s, leaves_key(t->leaves)) != 1 || SSL_set_fd(s, fd) != 1) {
		SSL_free(s);
		return NULL;
	}
	SSL_set_accept_state(s);
	return s;
}

/* ---- upstream ---- */

static struct session *session_find(struct tls *t, const char *host)
{
	for (size_t i = 0; i < t->sessions_n; i++)
		if (str_eq(t->sessions[i].host, host))
			return &t->sessions[i];
	return NULL;
}

/* A copy is kept: a connection that ends without ceremony spoils its own. */
static int on_session(SSL *s, SSL_SESSION *session)
{
	const struct side *side = side_of(s);
	SSL_SESSION *copy;
	struct session *slot;
	struct tls *t;

	if (!side || SSL_get_verify_result(s) != X509_V_OK)
		return 0;
	copy = SSL_SESSION_dup(session);
	if (!copy)
		return 0;
	t = side->tls;
	slot = session_find(t, side->host);
	if (!slot && t->sessions_n < SESSIONS_MAX)
		slot = &t->sessions[t->sessions_n++];
	if (!slot) {
		slot = &t->sessions[0];
		for (size_t i = 1; i < t->sessions_n; i++)
			if (t->sessions[i].used < slot->used)
				slot = &t->sessions[i];
	}
	SSL_SESSION_free(slot->s);
	*slot = (struct session){.s = copy, .used = ++t->clock};
	memcpy(slot->host, side->host, strlen(side->host) + 1);
	return 0; /* the original was not taken */
}

static int client_context(struct tls *t, const struct net_policy *p, struct err *e)
{
	int r = roots_new(&t->roots, p ? p->trust : NULL, p ? p->trust_n : 0, e);

	if (r < 0)
		return r;
	t->client = SSL_CTX_new(TLS_client_method());
	if (!t->client || !ctx_common(t->client) ||
		roots_attach(t->roots, SSL_CTX_get_cert_store(t->client)) < 0)
		return err_set(e, ENOMEM, "prepare TLS towards servers");
	SSL_CTX_set_verify(t->client, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(
		t->client, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(t->client, on_session);
	return 0;
}

/* The peer must prove exactly this name, or this address. */
static bool client_expect(SSL *s, const char *host)
{
	struct net_addr a;

	SSL_set_hostflags(s, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (net_addr_parse(&a, host, strlen(host)))
		return X509_VERIFY_PARAM_set1_ip(SSL_get0_param(s), a.b, a.v6 ? 16 : 4) == 1;
	return SSL_set1_host(s, host) == 1 && SSL_set_tlsext_host_name(s, host) == 1;
}

SSL *tls_client(struct tls *t, const char *host, int fd, bool h1_only)
{
	const unsigned char *alpn = h1_only ? alpn_h1 : alpn_both;
	unsigned alpn_len = (unsigned)(h1_only ? sizeof(alpn_h1) : sizeof(alpn_both)) - 1;
	struct session *known;
	SSL *s;

	if (!t || !t->client || !*host)
		return NULL;
	s = SSL_new(t->client);
	if (!s)
		return NULL;
	if (!side_set(s, t, host, h1_only) || !client_expect(s, host) ||
		SSL_set_alpn_protos(s, alpn, alpn_len) != 0 || SSL_set_fd(s, fd) != 1) {
		SSL_free(s);
		return NULL;
	}
	known = session_find(t, host);
	if (known) {
		known->used = ++t->clock;
		SSL_set_session(s, known->s);
	}
	SSL_set_connect_state(s);
	return s;
}

/* ---- the whole ---- */

int tls_new(
	struct tls **ret, const struct gateway_ca *ca, const struct net_policy *p, struct err *e)
{
	struct tls *t;
	int r = 0;

	if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL))
		return err_set(e, ENOMEM, "start the TLS library");
	if (side_index < 0)
		side_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, side_free);
	t = calloc(1, sizeof(*t));
	if (!t || side_index < 0) {
		free(t);
		return err_set(e, ENOMEM, "prepare TLS");
	}
	if (ca)
		r = server_context(t, ca, e);
	if (r == 0)
		r = client_context(t, p, e);
	if (r < 0) {
		tls_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->sessions_n; i++)
		SSL_SESSION_free(t->sessions[i].s);
	SSL_CTX_free(t->server);
	SSL_CTX_free(t->client);
	leaves_free(t->leaves);
	roots_free(t->roots);
	free(t);
}

void tls_problem(SSL *s, char *out, size_t n)
{
	long verify = SSL_get_verify_result(s);
	unsigned long code = ERR_peek_last_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	if (!SSL_is_server(s) && verify != X509_V_OK)
		snprintf(out, n, "its certificate was refused: %s",
			X509_verify_cert_error_string(verify));
	else if (reason)
		snprintf(out, n, "the TLS handshake failed: %s", reason);
	else
		snprintf(out, n, "the TLS handshake failed: the connection was closed");
}
