/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/explicit and net/proxy: what clients of the explicit proxy ask for, and what an upstream
 * proxy is asked.
 */
#include "test.h"

#include "base/cleanup.h"
#include "net/gateway/explicit.h"
#include "net/reach/hosts.h"
#include "net/io/peek.h"
#include "net/reach/proxy.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define AUTH "Proxy-Authorization: Basic Y3JvZnQ6MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\r\n"

static enum explicit_result parse(struct explicit_head *h, const char *text)
{
	return explicit_parse(h, text, strlen(text), TOKEN);
}

TEST(connect_names_a_host_and_a_port)
{
	struct explicit_head h;

	CHECK_INT(parse(&h, "CONNECT Api.Example.COM:443 HTTP/1.1\r\nHost: x\r\n" AUTH "\r\n"),
		EXPLICIT_OK);
	CHECK(h.connect);
	CHECK_STR(h.host, "api.example.com");
	CHECK_INT(h.port, 443);
	CHECK_INT(parse(&h, "CONNECT 203.0.113.7:80 HTTP/1.0\r\n" AUTH "\r\n"), EXPLICIT_OK);
	CHECK_STR(h.host, "");
	CHECK(!h.addr.v6 && h.addr.b[3] == 7);
	CHECK_INT(
		parse(&h, "CONNECT [::ffff:203.0.113.7]:80 HTTP/1.1\r\n" AUTH "\r\n"), EXPLICIT_OK);
	CHECK(!h.addr.v6 && h.addr.b[3] == 7);
}

TEST(absolute_form_names_a_host)
{
	struct explicit_head h;

	CHECK_INT(parse(&h, "GET http://example.com/x?y HTTP/1.1\r\n" AUTH "\r\n"), EXPLICIT_OK);
	CHECK(!h.connect);
	CHECK_STR(h.host, "example.com");
	CHECK_INT(h.port, 80);
	CHECK_INT(parse(&h, "GET http://example.com:8080 HTTP/1.1\r\n" AUTH "\r\n"), EXPLICIT_OK);
	CHECK_INT(h.port, 8080);
	CHECK_INT(parse(&h, "GET http://example.com?x HTTP/1.1\r\n" AUTH "\r\n"), EXPLICIT_OK);
	CHECK_STR(h.host, "example.com");
	CHECK_INT(parse(&h, "GET /x HTTP/1.1\r\n" AUTH "\r\n"), EXPLICIT_BAD);
	CHECK_INT(parse(&h, "GET https://example.com/ HTTP/1.1\r\n" AUTH "\r\n"), EXPLICIT_BAD);
}

TEST(destinations_that_could_mean_two_things_are_refused)
{
	static const char *const bad[] = {"allowed.com@evil.com:443", "evil.com",
		"evil.com:", ":443", "evil.com:0", "evil.com:65537", "evil.com:443x",
		"evil.com:+443", "evil.com:044300", "127.1:80", "0x7f.1:80", "2130706433:80",
		"::1:443", "[::1:443", "[::1]443", "[::1]:", "[1.2.3.4]:80", "[fe80::1%lo]:80",
		"a b:80", "evil.com\x01:80", "\xef\xbd\x85vil.com:80", "[]:80", "", "evil..com:80",
		"evil.com:80:80"};
	struct explicit_head h = {.port = 7};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (explicit_authority(&h, bad[i], strlen(bad[i]), 0)) {
			printf("# %s\n", bad[i]);
			CHECK(false);
		}
	CHECK_INT(h.port, 7);                                 /* untouched */
	CHECK(!explicit_authority(&h, "a\0b.com:80", 10, 0)); /* by length, not by NUL */
	CHECK(explicit_authority(&h, "good.com:80", 11, 0));
	CHECK(explicit_authority(&h, "[2606:4700::1]:443", 18, 0));
}

TEST(only_the_token_opens)
{
	struct explicit_head h;

	CHECK_INT(parse(&h, "CONNECT a.com:443 HTTP/1.1\r\n\r\n"), EXPLICIT_NO_TOKEN);
	CHECK_INT(parse(&h, "CONNECT a.com:443 HTTP/1.1\r\nProxy-Authorization: Basic "
			    "Y3JvZnQ6\r\n\r\n"),
		EXPLICIT_NO_TOKEN);
	/* right password, other user */
	CHECK_INT(parse(&h, "CONNECT a.com:443 HTTP/1.1\r\nProxy-Authorization: Basic "
			    "cm9vdDowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"),
		EXPLICIT_NO_TOKEN);
	CHECK_INT(parse(&h, "CONNECT a.com:443 HTTP/1.1\r\n" AUTH AUTH "\r\n"), EXPLICIT_BAD);
	/* nothing is said about a destination before the token is there */
	CHECK_INT(parse(&h, "CONNECT @@@ HTTP/1.1\r\n\r\n"), EXPLICIT_NO_TOKEN);
	CHECK(explicit_token_matches(TOKEN, TOKEN, 32));
	CHECK(!explicit_token_matches(TOKEN, TOKEN, 31));
	CHECK(!explicit_token_matches(TOKEN, "0123456789abcdef0123456789abcdeF", 32));
	CHECK(!explicit_token_matches("", "", 0)); /* no token was configured: nobody may */
}

TEST(malformed_heads_are_refused)
{
	struct explicit_head h;

	CHECK_INT(parse(&h, "CONNECT a.com:443 HTTP/2.0\r\n" AUTH "\r\n"), EXPLICIT_BAD);
	CHECK_INT(parse(&h, "CONNECT  a.com:443 HTTP/1.1\r\n" AUTH "\r\n"), EXPLICIT_BAD);
	CHECK_INT(parse(&h, "CONNECT a.com:443\r\n" AUTH "\r\n"), EXPLICIT_BAD);
	CHECK_INT(parse(&h, "CONNECT a.com:443 HTTP/1.1\r\n" AUTH " folded\r\n\r\n"), EXPLICIT_BAD);
	CHECK_INT(parse(&h, ""), EXPLICIT_BAD);
	CHECK_INT(parse(&h, "PRI * HTTP/2.0\r\n\r\n"), EXPLICIT_BAD);
}

TEST(heads_end_at_an_empty_line_and_hold_no_bare_ends)
{
	CHECK_INT(peek_head_len("A\r\nB\r\n\r\nrest", 12), 8);
	CHECK_INT(peek_head_len("A\r\nB\r\n\r", 7), 0);
	CHECK_INT(peek_head_len("A\r\nB\r\n", 6), 0);
	CHECK_INT(peek_head_len("A\nB", 3), -1);
	CHECK_INT(peek_head_len("A\rB", 3), -1);
	CHECK_INT(peek_head_len("A\0B", 3), -1);
	CHECK_INT(peek_head_len("", 0), 0);
}

TEST(an_upstream_proxy_is_asked_with_its_credentials)
{
	cleanup_buf struct buf b = BUF_INIT(1024);
	struct proxy *p = NULL;
	struct err e = ERR_INIT;
	struct net_addr a;

	CHECK_INT(proxy_parse(&p, "http://u:p%40w@proxy.corp:8080", &e), 0);
	CHECK_STR(p->host, "proxy.corp");
	CHECK_INT(p->port, 8080);
	proxy_request(p, "example.com", NULL, 443, &b);
	CHECK_STR(buf_str(&b), "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n"
			       "Proxy-Authorization: Basic dTpwQHc=\r\n\r\n");
	proxy_free(p);
	p = NULL;
	CHECK_INT(proxy_parse(&p, "http://10.0.0.1:3128/", &e), 0);
	CHECK(!p->host[0] && !p->credentials);
	buf_reset(&b);
	CHECK(net_addr_parse(&a, "2606:4700::1", 12));
	proxy_request(p, NULL, &a, 443, &b);
	CHECK(strstr(buf_str(&b), "CONNECT [2606:4700::1]:443 ") == buf_str(&b));
	proxy_free(p);
	CHECK(proxy_parse(&p, "socks5://x:1", &e) < 0);
	CHECK(proxy_parse(&p, "http://u:%0d%0ax@x:1", &e) < 0); /* no header of its own */
	CHECK(proxy_parse(&p, "http://x/y", &e) < 0);
}

TEST(an_upstream_proxys_answer_is_read_strictly)
{
	CHECK_INT(proxy_status("HTTP/1.1 200 OK\r\n\r\n", 19), 200);
	CHECK_INT(proxy_status("HTTP/1.0 407\r\n\r\n", 16), 407);
	CHECK_INT(proxy_status("HTTP/1.1 2000\r\n\r\n", 17), -1);
	CHECK_INT(proxy_status("HTTP/2 200 OK\r\n\r\n", 17), -1);
	CHECK_INT(proxy_status("HTTP/1.1  200\r\n\r\n", 17), -1);
	CHECK_INT(proxy_status("ICY 200 OK\r\n\r\n", 14), -1);
}

TEST(the_hosts_table_is_read_as_it_is_written)
{
	static const char text[] =
		"# comment\n127.0.0.1\tlocalhost  Loop # x\n10.0.0.1 db.corp\nnot-an-address x\n"
		"10.0.0.2 db.corp\n10.0.0.3";
	struct hosts *h = hosts_parse(text, sizeof(text) - 1);
	struct net_addr a[4];

	CHECK(h != NULL);
	CHECK_INT(hosts_find(h, "db.corp", a, 4), 2);
	CHECK_INT(a[1].b[3], 2);
	CHECK_INT(hosts_find(h, "loop", a, 4), 1);
	CHECK_INT(hosts_find(h, "x", a, 4), 0);
	CHECK_INT(hosts_find(h, "db.corp", a, 1), 1);
	hosts_free(h);
}
