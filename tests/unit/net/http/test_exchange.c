/* SPDX-License-Identifier: Apache-2.0 */
/* net/exchange: what is judged, what leaves, what comes back, over HTTP/1.1 on both sides. */
#include "test.h"

#include "http_world.h"

static const char policy[] =
	"version: 1\n"
	"network:\n"
	"  allow:\n"
	"    - {host: test.example, ports: [80], methods: [GET, POST, PUT], paths: [/a/**]}\n"
	"    - {host: test.example, ports: [80], paths: [/small], limits: {body: 10}}\n"
	"    - {host: ws.example, ports: [80], mode: ws}\n"
	"    - {host: raw.example, ports: [80]}\n"
	"    - {host: git.example, ports: [80], mode: git, repos: [me/*], push: true,\n"
	"       refs: [refs/heads/agent/*]}\n"
	"  ask:\n"
	"    - {host: test.example, ports: [80], paths: [/ask/**]}\n";

/* Each test is a world of its own. */
static void leave(int *unused)
{
	world_end();
}
#define WORLD(host)                                                                                \
	__attribute__((cleanup(leave))) int world_guard = 0;                                       \
	(void)world_guard;                                                                         \
	CHECK(world_begin(policy, host, 80, false));                                               \
	http_start(&world.flow)

#define HOST "Host: test.example\r\n"

static void get(const char *path)
{
	char text[256];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" HOST "\r\n", path);
	say(world.client, text);
}

TEST(a_request_is_written_anew_and_answered)
{
	WORLD("test.example");
	say(world.client, "GET /a/%62?x=1 HTTP/1.1\r\nHOST: Test.Example\r\nKeep-Alive: 1\r\nX-A:  "
			  "b \r\n\r\n");
	CHECK_INT(world.servers_n, 1);
	CHECK_STR(server_got(0), "GET /a/b?x=1 HTTP/1.1\r\nhost: test.example\r\nx-a: b\r\n\r\n");
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nAlt-Svc: h3\r\nContent-Length: 2\r\n\r\nhi");
	CHECK_STR(client_got(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
	CHECK_INT(world.requests, 1);
	CHECK_INT(world.status, 200);
	CHECK_INT(world.denials, 0);
	/* The same connections serve the next one. */
	get("/a/c");
	CHECK_INT(world.servers_n, 1);
	CHECK_STR(server_got(0), "GET /a/c HTTP/1.1\r\nhost: test.example\r\n\r\n");
	say(world.servers[0].fd, "HTTP/1.1 204 No Content\r\n\r\n");
	CHECK_STR(client_got(), "HTTP/1.1 204 No Content\r\n\r\n");
}

TEST(what_is_denied_is_explained_and_nothing_is_dialled)
{
	WORLD("test.example");
	get("/b");
	CHECK(strstr(client_got(), "HTTP/1.1 403 Forbidden\r\n"));
	CHECK(strstr(buf_str(&world.got), "\"error\":\"denied by croft policy\""));
	CHECK(strstr(buf_str(&world.got), "\"path\":\"/b\""));
	CHECK_INT(world.servers_n, 0);
	CHECK_INT(world.denials, 1);
	CHECK(!world.ended);
	/* The connection goes on after a request without a body, and ends after one with. */
	get("/a/b");
	CHECK_INT(world.servers_n, 1);
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	CHECK(strstr(client_got(), "200 OK"));
	say(world.client, "POST /b HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nxx");
	CHECK(strstr(client_got(), "connection: close"));
	CHECK(at_end(world.client));
}

TEST(every_request_must_be_for_the_bound_name_and_port)
{
	WORLD("test.example");
	say(world.client, "GET /a/b HTTP/1.1\r\nHost: evil.example\r\n\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 421 "));
	say(world.client, "GET /a/b HTTP/1.1\r\nHost: test.example:8080\r\n\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 421 "));
	CHECK_INT(world.servers_n, 0);
	CHECK_INT(world.denials, 2);
	say(world.client, "GET /a/b HTTP/1.1\r\nHost: test.example:80\r\n\r\n");
	CHECK_INT(world.servers_n, 1);
}

TEST(pipelined_requests_are_judged_one_by_one)
{
	const char *got;

	WORLD("test.example");
	say(world.client, "GET /a/1 HTTP/1.1\r\n" HOST "\r\nGET /b HTTP/1.1\r\n" HOST
			  "\r\nGET /a/2 HTTP/1.1\r\n" HOST "\r\n");
	CHECK_STR(server_got(0), "GET /a/1 HTTP/1.1\r\nhost: test.example\r\n\r\n");
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
	CHECK_STR(server_got(0), "GET /a/2 HTTP/1.1\r\nhost: test.example\r\n\r\n");
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
	got = client_got();
	CHECK(strstr(got, "\r\n\r\n1HTTP/1.1 403"));
	CHECK(strstr(got, "\r\n\r\n2"));
	CHECK_INT(world.denials, 1);
}

TEST(what_cannot_be_parsed_is_refused_and_told)
{
	WORLD("test.example");
	say(world.client, "POST /a/b HTTP/1.1\r\n" HOST
			  "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 400 "));
	CHECK(at_end(world.client));
	CHECK_INT(world.denials, 1);
	CHECK_INT(world.servers_n, 0);
}

TEST(http2_without_tls_is_refused)
{
	WORLD("test.example");
	say(world.client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 505 "));
	CHECK_INT(world.servers_n, 0);
}

TEST(bodies_stream_in_both_directions_at_once)
{
	WORLD("test.example");
	say(world.client,
		"POST /a/b HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
	CHECK(strstr(server_got(0), "transfer-encoding: chunked\r\n\r\n3\r\none\r\n"));
	say(world.servers[0].fd,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
	CHECK(strstr(client_got(), "\r\n\r\n2\r\nab\r\n"));
	say(world.client, "3\r\ntwo\r\n0\r\n\r\n");
	CHECK_STR(server_got(0), "3\r\ntwo\r\n0\r\n\r\n");
	say(world.servers[0].fd, "0\r\nX-T: dropped\r\n\r\n");
	CHECK_STR(client_got(), "0\r\n\r\n");
	CHECK(!world.ended);
}

TEST(a_client_that_waits_for_leave_gets_it_after_the_verdict)
{
	WORLD("test.example");
	say(world.client,
		"POST /b HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 403") == buf_str(&world.got));
}

TEST(leave_is_given_once_and_upstream_is_not_asked)
{
	WORLD("test.example");
	say(world.client,
		"POST /a/b HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	CHECK_STR(client_got(), "HTTP/1.1 100 Continue\r\n\r\n");
	CHECK(!strstr(server_got(0), "expect"));
	say(world.client, "hi");
	CHECK_STR(server_got(0), "hi");
	say(world.servers[0].fd,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	CHECK_STR(client_got(), "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
				"content-length: 0\r\n\r\n");
}

TEST(bodies_have_the_rules_limit)
{
	WORLD("test.example");
	say(world.client, "POST /small HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n0123456789");
	CHECK_INT(world.servers_n, 1);
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	CHECK(strstr(client_got(), "200 OK"));
	say(world.client, "POST /small HTTP/1.1\r\n" HOST
			  "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n");
	say(world.client, "6\r\n012345\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 413 "));
	CHECK(at_end(world.client));
}

TEST(limits_that_are_used_up_refuse)
{
	WORLD("test.example");
	world.limits_used_up = true;
	get("/a/b");
	CHECK(strstr(client_got(), "\"reason\":\"used up\""));
	CHECK_INT(world.servers_n, 0);
}

TEST(a_person_decides_what_is_asked)
{
	WORLD("test.example");
	get("/ask/1");
	CHECK(world.ask);
	CHECK_INT(world.servers_n, 0);
	world.ask(world.ask_arg, NET_ALLOW);
	world_spin();
	CHECK_INT(world.servers_n, 1);
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	CHECK(strstr(client_got(), "200 OK"));
	get("/ask/2");
	world.ask(world.ask_arg, NET_DENY);
	CHECK(strstr(client_got(), "HTTP/1.1 403 "));
	/* A client that leaves takes its question with it. */
	get("/ask/3");
	CHECK(world.ask);
	close_fd(&world.client);
	world_spin();
	CHECK(world.ended);
	CHECK(!world.ask);
}

/* ---- servers that misbehave ---- */

TEST(a_reused_connection_that_is_dead_is_replaced_once)
{
	WORLD("test.example");
	get("/a/1");
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	CHECK(strstr(client_got(), "200 OK"));
	get("/a/2");
	CHECK_INT(world.servers_n, 1);
	close_fd(&world.servers[0].fd);
	world_spin();
	CHECK_INT(world.servers_n, 2);
	CHECK(strstr(server_got(1), "GET /a/2 "));
	close_fd(&world.servers[1].fd);
	CHECK(strstr(client_got(), "HTTP/1.1 502 "));
	CHECK_INT(world.servers_n, 2);
}

TEST(a_request_that_changes_something_is_not_repeated)
{
	WORLD("test.example");
	get("/a/1");
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	CHECK(strstr(client_got(), "200 OK"));
	say(world.client, "POST /a/2 HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
	close_fd(&world.servers[0].fd);
	CHECK(strstr(client_got(), "HTTP/1.1 502 "));
	CHECK_INT(world.servers_n, 1);
}

TEST(bytes_beyond_an_answer_are_nobodys_answer)
{
	WORLD("test.example");
	get("/a/1");
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n"
				 "Content-Length: 4\r\n\r\nevil");
	CHECK(!strstr(client_got(), "evil"));
	get("/a/2");
	CHECK_INT(world.servers_n, 2);
	CHECK(at_end(world.servers[0].fd) || strstr(server_got(0), "GET /a/1"));
	say(world.servers[1].fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
	CHECK(strstr(client_got(), "good"));
}

TEST(an_answer_that_is_cut_off_is_not_made_whole)
{
	WORLD("test.example");
	get("/a/1");
	say(world.servers[0].fd,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
	close_fd(&world.servers[0].fd);
	CHECK(!strstr(client_got(), "0\r\n\r\n"));
	CHECK(at_end(world.client));
}

TEST(an_address_that_may_not_be_dialled_is_a_denial)
{
	WORLD("test.example");
	world.dial_fails = true;
	get("/a/1");
	CHECK(strstr(client_got(), "HTTP/1.1 403 "));
	CHECK_STR(world.why, "the address is forbidden");
}

TEST(a_fast_server_waits_for_a_slow_client)
{
	static char block[65536];
	size_t sent = 0;
	ssize_t n;

	WORLD("test.example");
	get("/a/1");
	say(world.servers[0].fd, "HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n");
	for (int idle = 0; idle < 20 && sent < 33554432;) {
		n = write(world.servers[0].fd, block, MIN_OF(sizeof(block), 33554432 - sent));
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		world_spin();
	}
	/* Socket buffers, and what the exchange may hold: far from everything. */
	CHECK(sent < 4 << 20);
	buf_reset(&world.got);
	for (int i = 0; i < 4000 && world.got.len < 33554432; i++) {
		world_read(world.client, &world.got);
		n = sent < 33554432 ? write(world.servers[0].fd, block,
					      MIN_OF(sizeof(block), 33554432 - sent))
				    : 0;
		sent += n > 0 ? (size_t)n : 0;
		world_spin();
	}
	CHECK(world.got.len > 33554432 || world.got.failed);
}

/* ---- time and revocation ---- */

TEST(an_upload_that_stalls_ends)
{
	WORLD("test.example");
	say(world.client, "POST /a/b HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n01234");
	CHECK(world.g.pool->fronts->exchanges);
	exchange_tick(world.g.pool->fronts->exchanges, loop_now_ms(world.g.loop) + 30000);
	CHECK_STR(client_got(), "");
	exchange_tick(world.g.pool->fronts->exchanges, loop_now_ms(world.g.loop) + 61000);
	CHECK(strstr(client_got(), "HTTP/1.1 408 "));
	CHECK(at_end(world.client));
}

TEST(a_head_that_stalls_ends)
{
	WORLD("test.example");
	say(world.client, "GET /a/b HTTP/1.1\r\n");
	CHECK(world.g.pool->fronts->deadline_ms);
	world.g.pool->fronts->late(world.g.pool->fronts);
	CHECK(strstr(client_got(), "HTTP/1.1 408 "));
	CHECK(at_end(world.client));
}

TEST(a_policy_that_no_longer_allows_it_ends_it)
{
	static const char other[] = "version: 1\nnetwork:\n  allow:\n"
				    "    - {host: test.example, ports: [80], paths: [/c]}\n";
	struct net_policy *narrower = NULL;
	struct err e = ERR_INIT;

	WORLD("test.example");
	get("/a/b");
	CHECK_INT(world.servers_n, 1);
	CHECK(world.flow.still(&world.flow, world.gen.policy));
	CHECK_INT(policy_network_parse(&narrower, other, sizeof(other) - 1, &e), 0);
	CHECK(!world.flow.still(&world.flow, narrower));
	policy_network_free(narrower);
	world.flow.abort(&world.flow);
	CHECK(world.ended);
	world_spin();
	CHECK(strstr(server_got(0), "GET /a/b"));
	CHECK(at_end(world.servers[0].fd));
}

/* What was carried as it was sent is judged by the new policy as that reads it, or not at all. */
static void goes_on(const char *path, bool *ret)
{
	static const char other[] = "version: 1\nnetwork:\n  allow:\n"
				    "    - {host: raw.example, ports: [80], paths: [/a/**]}\n";
	struct net_policy *narrower = NULL;
	struct err e = ERR_INIT;
	char text[256];

	WORLD("raw.example");
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: raw.example\r\n\r\n", path);
	say(world.client, text);
	CHECK_INT(world.servers_n, 1);
	CHECK(strstr(server_got(0), path));
	CHECK(world.flow.still(&world.flow, world.gen.policy));
	CHECK_INT(policy_network_parse(&narrower, other, sizeof(other) - 1, &e), 0);
	*ret = world.flow.still(&world.flow, narrower);
	policy_network_free(narrower);
}

TEST(a_policy_with_paths_does_not_judge_what_it_would_read_otherwise)
{
	static const char *const others[] = {
		"/b", "/a/../b", "/a/%2e%2e/b", "/a/..%2Fb", "/a//b", "/a/%62"};
	bool still = false;

	goes_on("/a/b?x=1", &still);
	CHECK(still);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		still = true;
		goes_on(others[i], &still);
		CHECK(!still);
	}
}

/* ---- Git ---- */

#define REF_LINE(n, ref)                                                                           \
	n "0000000000000000000000000000000000000000 1111111111111111111111111111111111111111 " ref

static void push(const char *lines)
{
	char text[1024];

	snprintf(text, sizeof(text),
		"POST /me/x.git/git-receive-pack HTTP/1.1\r\nHost: git.example\r\nContent-Length: "
		"%zu\r\n\r\n",
		strlen(lines) + 8);
	say(world.client, text);
	say(world.client, lines);
}

TEST(a_push_goes_out_when_its_refs_are_known)
{
	WORLD("git.example");
	push(REF_LINE("0068", "refs/heads/agent/x"));
	CHECK_INT(world.servers_n, 0);
	say(world.client, "0000PACK");
	CHECK_INT(world.servers_n, 1);
	CHECK(strstr(server_got(0), "refs/heads/agent/x0000PACK"));
}

TEST(a_push_to_another_ref_never_leaves)
{
	WORLD("git.example");
	push(REF_LINE("0068", "refs/heads/agent/x") REF_LINE("0066", "refs/heads/main0"));
	say(world.client, "0000PACK");
	CHECK(strstr(client_got(), "HTTP/1.1 403 "));
	CHECK_INT(world.servers_n, 0);
	CHECK_INT(world.denials, 1);
}

TEST(a_compressed_push_is_refused)
{
	WORLD("git.example");
	say(world.client, "POST /me/x.git/git-receive-pack HTTP/1.1\r\nHost: git.example\r\n"
			  "Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 415 "));
	CHECK_INT(world.servers_n, 0);
}

/* ---- WebSocket ---- */

#define WS_GET                                                                                     \
	"GET /x HTTP/1.1\r\nHost: ws.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"     \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"            \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
#define WS_YES                                                                                     \
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"        \
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

TEST(a_websocket_carries_frames)
{
	WORLD("ws.example");
	say(world.client, WS_GET);
	CHECK(strstr(server_got(0), "upgrade: websocket"));
	CHECK(!strstr(buf_str(&world.servers[0].got), "deflate"));
	say(world.servers[0].fd, WS_YES);
	CHECK(strstr(client_got(), "HTTP/1.1 101 "));
	say(world.client, "\x81\x82"
			  "aaaa"
			  "xy");
	CHECK_STR(server_got(0), "\x81\x82"
				 "aaaa"
				 "xy");
	say(world.servers[0].fd, "\x81\x02hi");
	CHECK_STR(client_got(), "\x81\x02hi");
	CHECK_INT(world.denials, 0);
}

TEST(a_websocket_is_no_tunnel)
{
	WORLD("ws.example");
	say(world.client, WS_GET);
	say(world.servers[0].fd, WS_YES);
	CHECK(strstr(client_got(), "HTTP/1.1 101 "));
	(void)server_got(0);
	say(world.client, "SSH-2.0-x\r\n");
	CHECK_STR(server_got(0), "");
	CHECK_INT(world.denials, 1);
	CHECK(at_end(world.servers[0].fd));
}

TEST(a_server_must_prove_the_handshake)
{
	WORLD("ws.example");
	say(world.client, WS_GET);
	say(world.servers[0].fd,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
		"Upgrade: websocket\r\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 502 "));
}

TEST(an_upgrade_needs_mode_ws)
{
	WORLD("test.example");
	say(world.client,
		"GET /a/x HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
	CHECK(strstr(client_got(), "HTTP/1.1 403 "));
	CHECK_INT(world.servers_n, 0);
}
