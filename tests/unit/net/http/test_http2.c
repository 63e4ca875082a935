/* SPDX-License-Identifier: Apache-2.0 */
/* net/http: TLS and HTTP/2 on both sides, placeholders and secrets over them. */
#include "test.h"

#include "h2_peer.h"

#define PLACEHOLDER "croftABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static struct secure {
	struct gateway_ca ca;
	char pem[32];
	struct tls *inside; /* the sandbox's: trusts the authority and nothing else */
	struct peer client, server;
} secure;

static bool secure_begin(const char *host, bool client_h1)
{
	static const char *const placeholders[] = {PLACEHOLDER};
	static const size_t lens[] = {sizeof(PLACEHOLDER) - 1};
	char policy[1024];
	struct err e = ERR_INIT;

	secure = (struct secure){0};
	if (!world_authority(&secure.ca, secure.pem))
		return false;
	snprintf(policy, sizeof(policy),
		"version: 1\nnetwork:\n  trust: [%s]\n  allow:\n"
		"    - {host: test.example, ports: [443], paths: [/a/**]}\n"
		"    - {host: bound.example, ports: [443], paths: [/a/**, /api/**]}\n"
		"    - {host: other.example, ports: [443]}\n"
		"  secrets:\n"
		"    - {name: TOKEN, host: bound.example, paths: [/api/**], place: bearer, "
		"require: "
		"true}\n",
		secure.pem);
	if (!world_begin(policy, host, 443, true))
		return false;
	world.g.placeholders = placeholder_set_new(placeholders, lens, 1);
	if (tls_new(&world.g.tls, &secure.ca, world.gen.policy, &e) < 0 ||
		tls_new(&secure.inside, NULL, world.gen.policy, &e) < 0)
		return false;
	http_start(&world.flow);
	return peer_begin(&secure.client, tls_client(secure.inside, host, world.client, client_h1));
}

static void secure_end(int *unused)
{
	peer_end(&secure.client);
	peer_end(&secure.server);
	world_end();
	tls_free(secure.inside);
	unlink(secure.pem);
}

#define SECURE(host, h1)                                                                           \
	__attribute__((cleanup(secure_end))) int secure_guard = 0;                                 \
	(void)secure_guard;                                                                        \
	CHECK(secure_begin(host, h1))

/* The server that was dialled last answers as `host`. */
static bool serve(const char *host, bool h1)
{
	peer_end(&secure.server);
	peers_spin(&secure.client, NULL);
	if (!world.servers_n)
		return false;
	return peer_begin(&secure.server,
		tls_server(world.g.tls, host, world.servers[world.servers_n - 1].fd, h1));
}

static void spin(void)
{
	peers_spin(&secure.client, &secure.server);
}

TEST(a_call_streams_both_ways_and_ends_with_trailers)
{
	int32_t id;

	SECURE("test.example", false);
	id = peer_request(
		&secure.client, "POST", "test.example", "/a/call", "te", "trailers", true);
	CHECK(serve("test.example", false));
	spin();
	CHECK(peer_h2(&secure.client) && peer_h2(&secure.server));
	CHECK(heard(&secure.server, "H1 :path=/a/call;"));
	CHECK(heard(&secure.server, "H1 te=trailers;"));
	peer_say(&secure.client, id, "ping1", false);
	spin();
	CHECK(heard(&secure.server, "D1 ping1;"));
	secure.server.trailer = "0";
	peer_answer(&secure.server, 1, "200", true);
	peer_say(&secure.server, 1, "pong1", false);
	spin();
	CHECK(heard(&secure.client, "H1 :status=200;"));
	CHECK(heard(&secure.client, "D1 pong1;"));
	/* The request is still open while the answer streams. */
	peer_say(&secure.client, id, "ping2", true);
	spin();
	CHECK(heard(&secure.server, "D1 ping2;"));
	CHECK(heard(&secure.server, "E1;"));
	peer_say(&secure.server, 1, "pong2", true);
	spin();
	CHECK(heard(&secure.client, "D1 pong2;"));
	CHECK(heard(&secure.client, "H1 grpc-status=0;E1;"));
	CHECK_INT(world.requests, 1);
	CHECK_INT(world.denials, 0);
}

TEST(every_stream_is_judged_by_itself)
{
	SECURE("test.example", false);
	peer_request(&secure.client, "GET", "evil.example", "/a/1", NULL, NULL, false);
	peer_request(&secure.client, "GET", "test.example", "/b", NULL, NULL, false);
	peer_request(&secure.client, "GET", "test.example", "/a/%2e%2e/b", NULL, NULL, false);
	peers_spin(&secure.client, NULL);
	CHECK(heard(&secure.client, "H1 :status=421;"));
	CHECK(heard(&secure.client, "H3 :status=403;"));
	CHECK(heard(&secure.client, "H5 :status=400;"));
	CHECK_INT(world.servers_n, 0);
	CHECK_INT(world.denials, 3);
}

TEST(one_connection_carries_many)
{
	SECURE("test.example", false);
	peer_request(&secure.client, "GET", "test.example", "/a/1", NULL, NULL, false);
	peer_request(&secure.client, "GET", "test.example", "/a/2", NULL, NULL, false);
	CHECK(serve("test.example", false));
	spin();
	CHECK_INT(world.servers_n, 1);
	CHECK(heard(&secure.server, "H1 :path=/a/1;") && heard(&secure.server, "H3 :path=/a/2;"));
	peer_answer(&secure.server, 3, "204", false);
	peer_answer(&secure.server, 1, "404", false);
	spin();
	CHECK(heard(&secure.client, "H3 :status=204;"));
	CHECK(heard(&secure.client, "H1 :status=404;"));
}

TEST(a_client_that_cancels_is_passed_on)
{
	SECURE("test.example", false);
	peer_request(&secure.client, "GET", "test.example", "/a/1", NULL, NULL, false);
	CHECK(serve("test.example", false));
	spin();
	nghttp2_submit_rst_stream(secure.client.h2, 0, 1, NGHTTP2_CANCEL);
	spin();
	CHECK(heard(&secure.server, "R1 8;"));
}

TEST(a_stream_that_the_server_refused_is_tried_again)
{
	SECURE("test.example", false);
	peer_request(&secure.client, "GET", "test.example", "/a/1", NULL, NULL, false);
	CHECK(serve("test.example", false));
	spin();
	nghttp2_submit_rst_stream(secure.server.h2, 0, 1, NGHTTP2_REFUSED_STREAM);
	spin();
	CHECK_INT(world.servers_n, 2);
	CHECK(serve("test.example", false));
	spin();
	peer_answer(&secure.server, 1, "204", false);
	spin();
	CHECK(heard(&secure.client, "H1 :status=204;"));
}

TEST(rapid_resets_end_the_connection)
{
	SECURE("test.example", false);
	for (int i = 0; i < 20000 && !heard(&secure.client, "G "); i++) {
		int32_t id = peer_request(
			&secure.client, "GET", "test.example", "/b", NULL, NULL, false);

		if (id < 0)
			break;
		peer_pump(&secure.client);
		nghttp2_submit_rst_stream(secure.client.h2, 0, id, NGHTTP2_CANCEL);
		peer_pump(&secure.client);
		if (i == 500)
			CHECK(!heard(&secure.client, "G "));
		if (i % 20 == 0)
			peers_spin(&secure.client, NULL);
	}
	peers_spin(&secure.client, NULL);
	/* ENHANCE_YOUR_CALM by us, or INTERNAL_ERROR where the library itself was first. */
	CHECK(heard(&secure.client, "G 11;") || heard(&secure.client, "G 2;"));
}

TEST(an_upload_stops_where_the_server_stops_reading)
{
	static char block[4097];
	int32_t id;

	memset(block, 'x', sizeof(block) - 1);
	SECURE("test.example", false);
	id = peer_request(&secure.client, "POST", "test.example", "/a/1", NULL, NULL, true);
	peers_spin(&secure.client, NULL);
	/* Nobody answers the handshake: nothing can go on. */
	for (int i = 0; i < 100; i++)
		peer_say(&secure.client, id, block, false);
	peers_spin(&secure.client, NULL);
	CHECK(secure.client.sent >= 32768);
	CHECK(secure.client.sent <= EXCHANGE_BODY_B);
	CHECK(serve("test.example", false));
	peer_say(&secure.client, id, "", true);
	for (int i = 0; i < 30; i++)
		spin();
	CHECK_INT(secure.client.sent, 100 * 4096);
	CHECK(heard(&secure.server, "E1;"));
}

TEST(a_server_that_is_not_who_it_should_be_is_refused)
{
	SSL *evil;

	SECURE("test.example", false);
	peer_request(&secure.client, "GET", "test.example", "/a/1", NULL, NULL, false);
	CHECK(serve("test.example", false));
	/* The right name, the wrong certificate. */
	evil = tls_server(world.g.tls, "evil.example", world.servers[0].fd, false);
	SSL_use_certificate(secure.server.ssl, SSL_get_certificate(evil));
	SSL_free(evil);
	spin();
	CHECK(heard(&secure.client, "H1 :status=502;"));
	CHECK(heard(&secure.client, "hostname mismatch"));
	CHECK_INT(world.denials, 1);
}

/* ---- placeholders ---- */

TEST(a_placeholder_goes_only_where_it_is_bound)
{
	SECURE("bound.example", false);
	peer_request(&secure.client, "GET", "bound.example", "/a/1", "authorization",
		"Bearer " PLACEHOLDER, false);
	peers_spin(&secure.client, NULL);
	CHECK(heard(&secure.client, "H1 :status=403;"));
	CHECK(strstr(world.why, "placeholder of TOKEN sent to bound.example"));
	CHECK_INT(world.servers_n, 0);
	CHECK(heard(&secure.client, "G 0;"));
}

TEST(a_placeholder_in_a_body_is_stopped_before_it_is_whole)
{
	int32_t id;

	SECURE("test.example", false);
	id = peer_request(&secure.client, "POST", "test.example", "/a/1", NULL, NULL, true);
	CHECK(serve("test.example", false));
	spin();
	peer_say(&secure.client, id, "croftABCDEFG", false);
	spin();
	CHECK(heard(&secure.server, "D1 croftABCDEFG;")); /* nobody can know yet */
	peer_say(&secure.client, id, "HIJKLMNOPQRSTUVWXYZ0123456789", true);
	spin();
	CHECK(heard(&secure.client, "H1 :status=403;"));
	CHECK(!heard(&secure.server, "HIJKLM"));
	CHECK(heard(&secure.server, "R1 "));
}

TEST(a_body_without_a_placeholder_passes)
{
	int32_t id;

	SECURE("test.example", false);
	id = peer_request(&secure.client, "POST", "test.example", "/a/1", NULL, NULL, true);
	CHECK(serve("test.example", false));
	spin();
	peer_say(&secure.client, id, "croftABCDEFG", false);
	spin();
	peer_say(&secure.client, id, "hIJKLMNOPQRSTUVWXYZ0123456789", true);
	spin();
	CHECK(heard(&secure.server, "hIJKLM"));
	CHECK_INT(world.denials, 0);
}

TEST(a_bound_secret_takes_the_way_of_the_keeper)
{
	SECURE("bound.example", false);
	peer_request(&secure.client, "GET", "bound.example", "/api/1", "authorization",
		"Bearer " PLACEHOLDER, false);
	peers_spin(&secure.client, NULL);
	CHECK_INT(world.servers_n, 1);
	CHECK(world.servers[0].keeper);
	CHECK(strstr(server_got(0), "GET /api/1 HTTP/1.1\r\nhost: bound.example\r\n"));
	CHECK(strstr(buf_str(&world.servers[0].got), "authorization: Bearer " PLACEHOLDER));
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
	peers_spin(&secure.client, NULL);
	CHECK(heard(&secure.client, "D1 hi;"));
	CHECK_STR(world.secret, "TOKEN");
}

TEST(a_secret_that_is_required_must_be_there)
{
	SECURE("bound.example", false);
	peer_request(&secure.client, "GET", "bound.example", "/api/1", "authorization",
		"Bearer mine", false);
	peers_spin(&secure.client, NULL);
	CHECK(heard(&secure.client, "H1 :status=403;"));
	CHECK_INT(world.servers_n, 0);
}

/* Also where it is not bound: a server may tell there what it was told elsewhere. */
TEST(all_requests_to_its_host_do)
{
	SECURE("bound.example", false);
	peer_request(&secure.client, "GET", "bound.example", "/a/1", NULL, NULL, false);
	peers_spin(&secure.client, NULL);
	CHECK_INT(world.servers_n, 1);
	CHECK(world.servers[0].keeper);
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
	peers_spin(&secure.client, NULL);
	CHECK(heard(&secure.client, "D1 hi;"));
	CHECK(!world.secret[0]);
}

TEST(a_placeholder_to_another_allowed_host_is_refused)
{
	SECURE("other.example", true);
	peers_spin(&secure.client, NULL);
	CHECK(!peer_h2(&secure.client));
	CHECK(SSL_write(secure.client.ssl,
		      "GET /api/1?t=" PLACEHOLDER " HTTP/1.1\r\nHost: other.example\r\n\r\n",
		      (int)strlen("GET /api/1?t=" PLACEHOLDER
				  " HTTP/1.1\r\nHost: other.example\r\n\r\n")) > 0);
	peers_spin(&secure.client, NULL);
	CHECK(heard(&secure.client, "HTTP/1.1 403 "));
	CHECK(heard(&secure.client, "connection: close"));
	CHECK_INT(world.servers_n, 0);
}
