/* SPDX-License-Identifier: Apache-2.0 */
/* net/tls: leaves for names, verification of servers, and what is refused. */
#include "test.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "net/tls/tls_roots.h"
#include "tls_world.h"

/* Both ends of one connection, each with its own idea of the other's name. */
struct ends {
	struct gateway_ca ca;
	char pem[32];
	struct tls *server, *client;
	int fd[2];
	SSL *s, *c;
};

static void ends_done(struct ends *e)
{
	SSL_free(e->s);
	SSL_free(e->c);
	tls_free(e->server);
	tls_free(e->client);
	close_fd(&e->fd[0]);
	close_fd(&e->fd[1]);
	unlink(e->pem);
}

#define ENDS __attribute__((cleanup(ends_done))) struct ends

static bool ends_init(struct ends *e, bool trusted)
{
	const char *files[1];
	struct net_policy p = {.trust = files, .trust_n = trusted ? 1 : 0};
	struct err err = ERR_INIT;

	*e = (struct ends){.fd = {-1, -1}};
	if (!world_authority(&e->ca, e->pem))
		return false;
	files[0] = e->pem;
	return tls_new(&e->server, &e->ca, NULL, &err) == 0 &&
	       tls_new(&e->client, NULL, &p, &err) == 0;
}

static void ends_open(
	struct ends *e, const char *server, const char *client, bool server_h1, bool client_h1)
{
	SSL_free(e->s);
	SSL_free(e->c);
	close_fd(&e->fd[0]);
	close_fd(&e->fd[1]);
	world_pair(e->fd);
	e->s = tls_server(e->server, server, e->fd[0], server_h1);
	e->c = tls_client(e->client, client, e->fd[1], client_h1);
}

/* True when both are through; otherwise why the client, or the server, is not. */
static bool shake(struct ends *e, char *why, size_t why_n, bool of_client)
{
	int c = 0, s = 0;

	why[0] = '\0';
	for (int i = 0; i < 20 && (c != 1 || s != 1); i++) {
		ERR_clear_error();
		c = SSL_do_handshake(e->c);
		if (c != 1 && SSL_get_error(e->c, c) != SSL_ERROR_WANT_READ && of_client && !why[0])
			tls_problem(e->c, why, why_n);
		ERR_clear_error();
		s = SSL_do_handshake(e->s);
		if (s != 1 && SSL_get_error(e->s, s) != SSL_ERROR_WANT_READ && !of_client &&
			!why[0])
			tls_problem(e->s, why, why_n);
	}
	return c == 1 && s == 1;
}

static bool spoke(const SSL *s, const char *protocol)
{
	const unsigned char *name;
	unsigned n;

	SSL_get0_alpn_selected(s, &name, &n);
	return n == strlen(protocol) && memcmp(name, protocol, n) == 0;
}

TEST(a_leaf_proves_its_name_and_h2_is_agreed_on)
{
	ENDS e;
	char why[160];
	X509 *leaf;

	CHECK(ends_init(&e, true));
	ends_open(&e, "api.test.example", "api.test.example", false, false);
	CHECK(e.s && e.c);
	CHECK(shake(&e, why, sizeof(why), true));
	CHECK(spoke(e.c, "h2"));
	CHECK(SSL_version(e.c) == TLS1_3_VERSION);
	leaf = SSL_get0_peer_certificate(e.c);
	CHECK(leaf);
	CHECK_INT(X509_check_host(leaf, "api.test.example", 0, 0, NULL), 1);
	CHECK_INT(X509_check_host(leaf, "test.example", 0, 0, NULL), 0);
	CHECK_INT(X509_check_ca(leaf), 0);
	CHECK(X509_get0_authority_key_id(leaf));
}

TEST(h1_only_is_h1)
{
	ENDS e;
	char why[160];

	CHECK(ends_init(&e, true));
	ends_open(&e, "test.example", "test.example", false, true);
	CHECK(shake(&e, why, sizeof(why), true));
	CHECK(spoke(e.c, "http/1.1"));
	ends_open(&e, "test.example", "test.example", true, false);
	CHECK(shake(&e, why, sizeof(why), true));
	CHECK(spoke(e.c, "http/1.1"));
}

TEST(a_server_name_other_than_the_bound_one_is_refused)
{
	ENDS e;
	char why[160];

	CHECK(ends_init(&e, true));
	ends_open(&e, "test.example", "evil.example", false, false);
	CHECK(!shake(&e, why, sizeof(why), true));
	CHECK(strstr(why, "unrecognized name"));
	/* No name at all is not the bound name either. */
	ends_open(&e, "test.example", "test.example", false, false);
	CHECK(SSL_set_tlsext_host_name(e.c, NULL) == 1);
	CHECK(!shake(&e, why, sizeof(why), true));
	/* The control: upper case is the same name. */
	ends_open(&e, "test.example", "test.example", false, false);
	CHECK(SSL_set_tlsext_host_name(e.c, "TEST.example") == 1);
	CHECK(shake(&e, why, sizeof(why), true));
}

TEST(a_certificate_for_another_name_is_refused)
{
	ENDS e;
	char why[160];

	CHECK(ends_init(&e, true));
	ends_open(&e, "evil.example", "test.example", false, false);
	CHECK(SSL_set_tlsext_host_name(e.c, "evil.example") == 1); /* so that the server goes on */
	CHECK(!shake(&e, why, sizeof(why), true));
	CHECK(strstr(why, "hostname mismatch"));
}

TEST(an_unknown_authority_is_refused)
{
	ENDS e;
	char why[160];

	CHECK(ends_init(&e, false));
	ends_open(&e, "test.example", "test.example", false, false);
	CHECK(!shake(&e, why, sizeof(why), true));
	CHECK(strstr(why, "certificate was refused"));
}

TEST(old_versions_are_refused)
{
	ENDS e;
	char why[160];

	CHECK(ends_init(&e, true));
	ends_open(&e, "test.example", "test.example", false, false);
	SSL_set_security_level(e.c, 0);
	CHECK(SSL_set_min_proto_version(e.c, TLS1_VERSION) == 1);
	CHECK(SSL_set_max_proto_version(e.c, TLS1_1_VERSION) == 1);
	CHECK(!shake(&e, why, sizeof(why), true));
	ends_open(&e, "test.example", "test.example", false, false);
	CHECK(SSL_set_max_proto_version(e.c, TLS1_2_VERSION) == 1);
	CHECK(shake(&e, why, sizeof(why), true));
}

TEST(sessions_are_resumed_per_name)
{
	ENDS e;
	char why[160], byte;

	CHECK(ends_init(&e, true));
	ends_open(&e, "test.example", "test.example", false, false);
	CHECK(shake(&e, why, sizeof(why), true));
	CHECK(!SSL_session_reused(e.c));
	CHECK(SSL_read(e.c, &byte, 1) < 0); /* takes the ticket in */
	ends_open(&e, "test.example", "test.example", false, false);
	CHECK(shake(&e, why, sizeof(why), true));
	CHECK(SSL_session_reused(e.c));
	ends_open(&e, "b.test.example", "b.test.example", false, false);
	CHECK(shake(&e, why, sizeof(why), true));
	CHECK(!SSL_session_reused(e.c));
}

TEST(an_address_can_have_a_certificate)
{
	ENDS e;
	char why[160];

	CHECK(ends_init(&e, true));
	ends_open(&e, "192.0.2.7", "192.0.2.7", false, false);
	CHECK(shake(&e, why, sizeof(why), true));
	ends_open(&e, "192.0.2.8", "192.0.2.7", false, false);
	CHECK(!shake(&e, why, sizeof(why), true));
	CHECK(strstr(why, "IP address mismatch"));
}

TEST(leaves_are_kept_and_their_number_is_bounded)
{
	ENDS e;
	char name[32];
	X509 *first;

	CHECK(ends_init(&e, true));
	ends_open(&e, "test.example", "test.example", false, false);
	first = SSL_get_certificate(e.s);
	X509_up_ref(first);
	ends_open(&e, "test.example", "test.example", false, false);
	CHECK(SSL_get_certificate(e.s) == first);
	for (int i = 0; i < TLS_LEAVES_MAX + 20; i++) {
		snprintf(name, sizeof(name), "n%d.test.example", i);
		ends_open(&e, name, "test.example", false, false);
		CHECK(e.s);
	}
	ends_open(&e, "test.example", "test.example", false, false);
	CHECK(SSL_get_certificate(e.s) != first);
	X509_free(first);
	CHECK(!tls_server(e.server, "", e.fd[0], false));
	CHECK(!tls_client(e.client, "", e.fd[1], false));
}

TEST(an_authority_that_does_not_fit_its_key_is_refused)
{
	struct gateway_ca a = {0}, b = {0};
	char pem_a[32], pem_b[32];
	struct err err = ERR_INIT;
	struct tls *t = NULL;

	CHECK(world_authority(&a, pem_a) && world_authority(&b, pem_b));
	unlink(pem_a);
	unlink(pem_b);
	CHECK_INT(tls_new(&t, &a, NULL, &err), 0);
	tls_free(t);
	t = NULL;
	memcpy(a.key, b.key, sizeof(a.key));
	CHECK(tls_new(&t, &a, NULL, &err) < 0);
	CHECK(!t);
	memset(b.key, 0, sizeof(b.key));
	CHECK(tls_new(&t, &b, NULL, &err) < 0);
	b.der_len = GATEWAY_CA_DER_MAX + 1;
	CHECK(tls_new(&t, &b, NULL, &err) < 0);
}

TEST(a_trust_file_that_cannot_be_read_is_an_error)
{
	const char *files[1] = {"/nonexistent/authority.pem"};
	struct net_policy p = {.trust = files, .trust_n = 1};
	struct err err = ERR_INIT;
	struct tls *t = NULL;

	CHECK(tls_new(&t, NULL, &p, &err) < 0);
	CHECK(strstr(err.msg, "/nonexistent/authority.pem"));
}

/* How many roots of the system's bundle verify themselves by this store. */
static int verified(X509_STORE *store, FILE *f, int *ret_all)
{
	X509_STORE_CTX *c = X509_STORE_CTX_new();
	X509 *x;
	int good = 0;

	*ret_all = 0;
	while ((x = PEM_read_X509(f, NULL, NULL, NULL))) {
		X509_STORE_CTX_init(c, store, x, NULL);
		X509_VERIFY_PARAM_set_flags(
			X509_STORE_CTX_get0_param(c), X509_V_FLAG_NO_CHECK_TIME);
		good += X509_verify_cert(c) == 1;
		X509_STORE_CTX_cleanup(c);
		X509_free(x);
		++*ret_all;
	}
	ERR_clear_error();
	X509_STORE_CTX_free(c);
	return good;
}

TEST(every_root_of_the_system_is_found_by_its_subject)
{
	static const char bundle[] = "/etc/ssl/certs/ca-certificates.crt";
	FILE *f = fopen(bundle, "re");
	X509_STORE *store, *empty, *library;
	struct err err = ERR_INIT;
	struct roots *r = NULL;
	int good, none, loaded, all = 0;

	if (!f)
		SKIP("the system has no bundle where Debian has it");
	store = X509_STORE_new();
	empty = X509_STORE_new();
	library = X509_STORE_new();
	CHECK_INT(X509_STORE_load_file(library, bundle), 1);
	CHECK_INT(roots_new(&r, NULL, 0, &err), 0);
	CHECK_INT(roots_attach(r, store), 0);
	good = verified(store, f, &all);
	rewind(f);
	none = verified(empty, f, &all);
	rewind(f);
	loaded = verified(library, f, &all);
	fclose(f);
	X509_STORE_free(store);
	X509_STORE_free(library);
	X509_STORE_free(empty);
	roots_free(r);
	CHECK(all > 0 && loaded > all / 2);
	CHECK_INT(good, loaded); /* as many as when all are parsed */
	CHECK_INT(none, 0);
}
