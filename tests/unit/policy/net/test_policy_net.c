/* SPDX-License-Identifier: Apache-2.0 */
/* Network decisions: names, addresses, patterns, connections, requests, bundles. */
#include "net_world.h"

/* ---- names ---- */

TEST(names_have_one_spelling)
{
	static const char *const good[][2] = {{"example.com", "example.com"},
		{"EXAMPLE.Com", "example.com"}, {"example.com.", "example.com"}, {"a", "a"},
		{"_dmarc.a.b", "_dmarc.a.b"}, {"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"1.2.3.com", "1.2.3.com"}, {"0x7f.example", "0x7f.example"}, {"a1", "a1"},
		{"x.0xg", "x.0xg"}};
	static const char *const bad[] = {"", ".", "..", "a..b", ".a", "a.b..", "-a", "a-", "a-.b",
		"127.1", "127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
		"017700000001", "127.0x1", "a.1", "a.0x", "0", "[::1]", "::1", "a:80", "u@a.b",
		"a b", " a", "a%2eb", "a/b", "a\\b", "a?b", "a\nb", "a\rb", "a\tb", "*.a.b", "a*",
		"\xc3\xbc.example", "\xef\xbd\x81.example", "a\x7f", "a,b", "a;b"};
	char out[NET_NAME_MAX + 1], longest[300];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		CHECK(net_name(out, good[i][0], strlen(good[i][0])));
		CHECK_STR(out, good[i][1]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (net_name(out, bad[i], strlen(bad[i]))) {
			test_fail(__FILE__, __LINE__, "\"%s\" was taken as %s", bad[i], out);
			return;
		}
	CHECK(!net_name(out, "evil.com\0.allowed.com", 21)); /* a NUL ends no name */
	memset(longest, 'a', sizeof(longest));
	CHECK(!net_name(out, longest, 64));
	for (size_t i = 49; i < 253; i += 50)
		longest[i] = '.';
	CHECK(net_name(out, longest, 253));
	CHECK(!net_name(out, longest, 254));
}

static const char *addr(const char *text)
{
	static char out[64];
	struct buf b = BUF_INIT(64);
	struct net_addr a;

	if (!net_addr_parse(&a, text, strlen(text)))
		return "refused";
	net_addr_show(&b, &a);
	snprintf(out, sizeof(out), "%s", buf_str(&b));
	buf_done(&b);
	return out;
}

TEST(addresses_have_one_spelling)
{
	static const char *const good[][2] = {{"1.2.3.4", "1.2.3.4"}, {"0.0.0.0", "0.0.0.0"},
		{"255.255.255.255", "255.255.255.255"}, {"::", "::"}, {"::1", "::1"},
		{"1::", "1::"}, {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
		{"2001:db8::1:0:0:1", "2001:db8::1:0:0:1"}, {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
		{"1::3:4:5:6:7:8", "1:0:3:4:5:6:7:8"}, {"::ffff:1.2.3.4", "::ffff:102:304"},
		{"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"}, {"0:0:1::", "0:0:1::"},
		{"fd00:ec2::254", "fd00:ec2::254"}, {"1:0:0:2::3", "1:0:0:2::3"}};
	static const char *const bad[] = {"", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4",
		"1.2.3.04", "0x1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "+1.2.3.4", "1..2.3", "1.2.3.",
		".1.2.3", "1.2.3.4/8", ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
		"1:2:3:4:5:6:7::8:9", "::1::", "12345::", "g::", "fe80::1%eth0", "[::1]",
		"1:2:", ":1:2", "::1.2.3", "::1.2.3.4:5", "1.2.3.4::", "::ffff:1.2.3.256",
		"1:2:3:4:5:6:7:1.2.3.4", "::1 ", "1:2:3:4:5:6:7:8::"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_STR(addr(good[i][0]), good[i][1]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (strcmp(addr(bad[i]), "refused") != 0) {
			test_fail(
				__FILE__, __LINE__, "\"%s\" was taken as %s", bad[i], addr(bad[i]));
			return;
		}
}

TEST(hosts_match_by_label)
{
	static const struct {
		const char *pattern, *name;
		bool is;
	} cases[] = {
		{"github.com", "github.com", true},
		{"github.com", "evilgithub.com", false},
		{"github.com", "a.github.com", false},
		{"github.com", "github.com.evil.org", false},
		{"*.github.com", "a.github.com", true},
		{"*.github.com", "github.com", false}, /* never the apex */
		{"*.github.com", "a.b.github.com", false},
		{"*.github.com", "evilgithub.com", false},
		{"*.github.com", ".github.com", false},
		{"**.github.com", "a.b.github.com", true},
		{"**.github.com", "a.github.com", true},
		{"**.github.com", "github.com", false},
		{"**.github.com", "evilgithub.com", false},
		{"**.github.com", "a.evilgithub.com", false},
		{"*.github.com", "*.github.com", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (net_host_matches(cases[i].pattern, cases[i].name) != cases[i].is) {
			test_fail(__FILE__, __LINE__, "%s %s", cases[i].pattern, cases[i].name);
			return;
		}
	CHECK(net_host_overlap("*.a.b", "**.b") && net_host_overlap("**.b", "*.a.b"));
	CHECK(!net_host_overlap("*.b.c", "**.a.b.c") && !net_host_overlap("*.b.c", "*.a.b.c"));
	CHECK(net_host_overlap("**.b.c", "**.a.b.c") && net_host_overlap("x.b.c", "*.b.c"));
	CHECK(net_host_covers("**.b.c", "*.a.b.c") && net_host_covers("**.b.c", "**.b.c"));
	CHECK(!net_host_covers("*.b.c", "**.b.c") && !net_host_covers("*.b.c", "b.c"));
	CHECK(!net_host_covers("**.a.b.c", "**.b.c"));
}

TEST(paths_match_by_segment)
{
	static const struct {
		const char *pattern, *path;
		bool is;
	} cases[] = {
		{"/a", "/a", true},
		{"/a", "/a/", false},
		{"/a", "/ab", false},
		{"/a/*", "/a/b", true},
		{"/a/*", "/a/b/c", false},
		{"/a/*", "/a", false},
		{"/a/**", "/a", true},
		{"/a/**", "/a/b/c", true},
		{"/a/**", "/ab", false},
		{"/**", "/", true},
		{"/**", "/x/y", true},
		{"/**/z", "/z", true},
		{"/**/z", "/a/b/z", true},
		{"/**/z", "/a/b/zz", false},
		{"/a/**/b/*.js", "/a/x/b/y/b/q.js", true},
		{"/a/**/b/*.js", "/a/b/q.ts", false},
		{"/**/a/**/b", "/x/a/y/a/b", true},
		{"/**/a/**/b", "/x/b/a", false},
		{"/v*/x", "/v1/x", true},
		{"/v*/x", "/v1/2/x", false},
		{"/A", "/a", false},
		{"/a", "*", false},
		{"/repos/*/*", "/repos/o/n", true},
		{"/", "/", true},
		{"/", "/a", false},
		{"/*", "/", true},
		{"/%2A", "/*", true},
		{"/%2A", "/%2A", true},
		{"/%2A", "/x", false},
		{"/%2A%2A", "/**", true},
		{"/%2A%2A", "/a/b", false},
		{"/a%2Ab/*", "/a*b/c", true},
		{"/a%2Ab", "/axb", false},
		{"/*%2A", "/x*", true},
		{"/*%2A", "/xy", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (net_path_matches(cases[i].pattern, cases[i].path) != cases[i].is) {
			test_fail(__FILE__, __LINE__, "%s %s", cases[i].pattern, cases[i].path);
			return;
		}
}

/* ---- decisions ---- */

TEST(nothing_is_reached_without_rules)
{
	CHECK_INT(RESOLVE(.user = "tier: auto"), 0);
	CHECK(!net_wanted(pol.net) && !net_inspects(pol.net));
	CHECK_STR(connect_to("example.com", 443), "deny");
	CHECK_STR(verdict.fix, "--allow-host example.com:443");
	CHECK_STR(verdict.why, "no rule allows example.com:443");
	CHECK_INT(RESOLVE(.user = "network: {allow: []}"), 0); /* nothing is not everything */
	CHECK_STR(connect_to("example.com", 443), "deny");
	CHECK(!net_name_known(pol.net, "example.com"));
	CHECK_INT(RESOLVE(.user = "network: {deny: [example.com]}"), 0);
	CHECK(!net_wanted(pol.net));
	CHECK_STR(ask("GET https://other.org/"), "deny");
}

TEST(connections)
{
	CHECK_INT(
		RESOLVE(.user = "network:\n"
				"  allow: [example.com, '*.wild.org', 'ssh.net:22', 203.0.113.7,\n"
				"    {cidr: 10.0.0.0/8, ports: [5432], private: true},\n"
				"    {host: t.net, mode: tls}, '[2001:db8::1]:443']\n"
				"  deny: [bad.wild.org, {cidr: 10.1.0.0/16}]\n"
				"  ask: [maybe.org, 'raw.org:9000']\n"),
		0);
	CHECK_STR(connect_to("example.com", 443), "allow");
	CHECK_INT(verdict.rule->mode, NET_HTTP);
	CHECK_STR(verdict.rule->name, "network.allow[0]");
	CHECK_STR(connect_to("example.com", 80), "allow");
	CHECK_STR(connect_to("example.com", 22), "deny");
	CHECK_STR(connect_to("evilexample.com", 443), "deny");
	CHECK_STR(connect_to("a.wild.org", 443), "allow");
	CHECK_STR(connect_to("wild.org", 443), "deny");
	CHECK_STR(connect_to("bad.wild.org", 443), "deny");
	CHECK_STR(verdict.rule->name, "network.deny[0]");
	CHECK_STR(connect_to("ssh.net", 22), "allow");
	CHECK_INT(verdict.rule->mode, NET_TCP);
	CHECK_STR(connect_to("ssh.net", 443), "deny");
	CHECK_STR(connect_to("t.net", 443), "allow");
	CHECK_INT(verdict.rule->mode, NET_TLS);
	CHECK_STR(connect_to("203.0.113.7", 443), "allow");
	CHECK_STR(connect_to("203.0.113.8", 443), "deny");
	CHECK_STR(connect_to("10.2.3.4", 5432), "allow");
	CHECK_STR(connect_to("::ffff:10.2.3.4", 5432), "allow");
	CHECK_STR(connect_to("10.1.3.4", 5432), "deny");
	CHECK_STR(connect_to("2001:db8::1", 443), "allow");
	CHECK_STR(connect_to("2001:db8::2", 443), "deny");
	CHECK_STR(connect_to("raw.org", 9000), "ask");
	CHECK_STR(connect_to("maybe.org", 443), "allow"); /* asked about each request */
	CHECK_STR(ask("GET https://maybe.org/x"), "ask");
	CHECK(net_name_known(pol.net, "example.com") && net_name_known(pol.net, "ssh.net"));
	CHECK(!net_name_known(pol.net, "bad.wild.org") && !net_name_known(pol.net, "wild.org"));
	CHECK(net_wanted(pol.net) && net_inspects(pol.net));
	CHECK(net_addr_denied(pol.net, &(struct net_addr){.b = {10, 1, 2, 3}}, 443, &verdict));
	CHECK(!net_addr_denied(pol.net, &(struct net_addr){.b = {10, 2, 2, 3}}, 443, &verdict));
}

/* Whatever is allowed around it, the floor is not. */
TEST(floor_is_under_every_rule)
{
	CHECK_INT(RESOLVE(.user = "network: {allow: ['**.google.internal', '**.azure.internal', "
				  "{cidr: 160.0.0.0/4, ports: [80], private: true}, {cidr: "
				  "'fd00::/16', ports: [80], private: true}]}"),
		0);
	CHECK_STR(connect_to("x.google.internal", 443), "allow"); /* control */
	CHECK_STR(connect_to("metadata.google.internal", 443), "deny");
	CHECK(strstr(verdict.why, "cannot be granted"));
	CHECK(!net_name_known(pol.net, "metadata.google.internal"));
	CHECK_STR(ask("GET https://metadata.azure.internal/"), "deny");
	CHECK_STR(connect_to("160.1.1.1", 80), "allow"); /* control */
	CHECK_STR(connect_to("169.254.169.254", 80), "deny");
	CHECK_STR(connect_to("169.254.170.2", 80), "deny");
	CHECK_STR(connect_to("168.63.129.16", 80), "deny");
	CHECK_STR(connect_to("fd00::1", 80), "allow"); /* control */
	CHECK_STR(connect_to("fd00:ec2::254", 80), "deny");
	CHECK_STR(connect_to("::ffff:169.254.169.254", 80), "deny");
	CHECK_INT(RESOLVE(.user = "network: {default: ask}"), 0);
	CHECK_STR(connect_to("localhost", 443), "deny");
	CHECK_STR(connect_to("a.localhost", 8080), "deny");
	CHECK_STR(connect_to("127.0.0.1", 80), "deny");
}

TEST(requests)
{
	CHECK_INT(
		RESOLVE(.user = "network:\n"
				"  allow:\n"
				"    - {host: api.test, methods: [GET, POST], paths: [/v1/**]}\n"
				"    - {host: api.test, methods: [PUT], paths: [/up/*]}\n"
				"    - {host: q.test, query: {q: 'a*', m: x}}\n"
				"    - {host: plain.test, ports: [8000], mode: http, plaintext: "
				"true}\n"
				"    - {host: tls.test, ports: [8000], mode: http}\n"
				"    - {host: ws.test, mode: ws}\n"
				"    - web.test\n"
				"    - {host: reg.test, mode: registry}\n"
				"  deny:\n"
				"    - {host: api.test, paths: [/v1/admin/**], reason: not yours}\n"
				"    - {host: web.test, methods: [DELETE]}\n"
				"    - {host: web.test, query: {drop: 'y*'}}\n"),
		0);
	REQUESTS({"GET https://api.test/v1/x", "allow"}, {"POST https://api.test/v1", "allow"},
		{"GET https://api.test/v2/x", "deny"}, {"GET https://api.test/", "deny"},
		{"PUT https://api.test/v1/x", "deny"}, {"PUT https://api.test/up/f", "allow"},
		{"GET https://api.test/up/f", "deny"}, {"GET https://api.test/v1/admin/x", "deny"},
		{"GET https://api.test/v1/admin", "deny"},
		{"GET https://api.test/v1/adminx", "allow"}, {"get https://api.test/v1/x", "deny"},
		{"GET http://api.test:443/v1/x", "deny"},
		{"GET https://api.test:8443/v1/x", "deny"}, {"GET https://web.test/x", "allow"},
		{"GET http://web.test/x", "allow"}, {"DELETE https://web.test/x", "deny"},
		{"GET https://web.test/x?drop=yes", "deny"},
		{"GET https://web.test/x?drop=no", "allow"},
		{"GET https://web.test/x?a=1;drop=yes", "deny"},
		{"GET https://web.test/x?%64rop=%79es", "deny"},
		{"GET https://web.test/x?drop=no&drop=yes", "deny"},
		{"GET https://web.test/x?a=%zz", "deny"}, /* unclear: the deny holds */
		{"GET https://web.test/x ws", "deny"}, {"GET https://ws.test/x ws", "allow"},
		{"GET https://ws.test/x", "allow"}, {"GET https://q.test/?q=abc&m=x", "allow"},
		{"GET https://q.test/?q=abc", "deny"}, {"GET https://q.test/?q=b&m=x", "deny"},
		{"GET https://q.test/?q=abc&m=x&q=b", "deny"},
		{"GET https://q.test/?q=abc&m=x&%71=b", "deny"},
		{"GET https://q.test/?q=abc&m=x;q=b", "deny"}, {"GET https://q.test/", "deny"},
		{"GET http://plain.test:8000/", "allow"}, {"GET https://plain.test:8000/", "allow"},
		{"GET http://tls.test:8000/", "deny"}, {"GET https://tls.test:8000/", "allow"},
		{"GET https://reg.test/a", "allow"}, {"HEAD https://reg.test/a", "allow"},
		{"PUT https://reg.test/a body", "deny"}, {"GET https://reg.test/a body", "deny"},
		{"POST https://reg.test/a", "deny"}, {"GET https://other.test/", "deny"});
	ask("GET https://api.test/v1/admin/x");
	CHECK_STR(verdict.why, "network.deny[0] denies api.test:443: not yours");
	ask("DELETE https://api.test/v1/x");
	CHECK_STR(verdict.why, "DELETE /v1/x has a method that is not listed (network.allow[0])");
	CHECK_STR(verdict.fix,
		"network.allow: [{host: api.test, methods: [DELETE], paths: [\"/v1/x\"]}]");
	CHECK_STR(connect_to("api.test", 443), "allow"); /* the denies are about requests */
}

TEST(l9_suggestions_mean_only_what_was_refused)
{
	char fix[NET_FIX_MAX];

	CHECK_INT(RESOLVE(.user = "network: {allow: [{host: api.test, paths: [/v1]}]}"), 0);
	ask("GET https://api.test/**");
	CHECK_STR(verdict.fix,
		"network.allow: [{host: api.test, methods: [GET], paths: [\"/%2A%2A\"]}]");
	CHECK_INT(RESOLVE(.user = "network: {allow: [{host: api.test, methods: [GET], paths: "
				  "[\"/%2A%2A\"]}]}"),
		0);
	REQUESTS({"GET https://api.test/**", "allow"}, {"GET https://api.test/x", "deny"},
		{"GET https://api.test/", "deny"}, {"GET https://api.test/a/b", "deny"});
	/* What cannot be written in a rule, or not in the room there is, is not cut into another. */
	ask("GET https://api.test/a\"]}]");
	CHECK_STR(verdict.fix, "widen network.allow[0] in the policy");
	ask("GET https://api.test/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "a"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "a"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "a");
	CHECK_STR(verdict.fix, "widen network.allow[0] in the policy");
	net_fix_host(fix, "*.example.com", 443);
	CHECK_STR(fix, "");
	net_fix_host(fix, "$(id).example.com", 443);
	CHECK_STR(fix, "");
	net_fix_host(fix, "Example.com", 443);
	CHECK_STR(fix, "--allow-host example.com:443");
}

TEST(git_requests)
{
	CHECK_INT(
		RESOLVE(.user = "network:\n"
				"  allow:\n"
				"    - {host: git.test, mode: git, repos: [me/*, org/one]}\n"
				"    - {host: git.test, mode: git, repos: [me/mine], push: true,\n"
				"       refs: ['refs/heads/agent/*']}\n"
				"    - {host: any.test, mode: git, push: true}\n"
				"  deny:\n"
				"    - {host: any.test, mode: git, repos: ['Secret/*']}\n"
				"    - {host: any.test, mode: git, push: true, refs: "
				"[refs/heads/main]}\n"),
		0);
	REQUESTS({"GET https://git.test/me/x/info/refs fetch=me/x", "allow"},
		{"POST https://git.test/me/x/git-upload-pack body fetch=me/x", "allow"},
		{"POST https://git.test/org/one/git-upload-pack body fetch=org/one", "allow"},
		{"POST https://git.test/org/two/git-upload-pack body fetch=org/two", "deny"},
		{"POST https://git.test/me/x/y/git-upload-pack body fetch=me/x/y", "deny"},
		{"POST https://git.test/me/x/git-receive-pack body push=me/x", "deny"},
		{"GET https://git.test/me/mine/info/refs push=me/mine", "allow"},
		{"POST https://git.test/me/mine/git-receive-pack body push=me/mine", "deny"},
		{"POST https://git.test/m body push=me/mine ref=refs/heads/agent/a", "allow"},
		{"POST https://git.test/m body push=me/mine ref=refs/heads/agent/a/b", "deny"},
		{"POST https://git.test/m body push=me/mine ref=refs/heads/main", "deny"},
		{"POST https://git.test/m body push=me/mine ref=refs/heads/agent/a "
		 "ref=refs/heads/main",
			"deny"},
		{"GET https://git.test/me/x", "deny"},
		{"POST https://git.test/me/x.git/info/lfs/objects/batch body", "deny"},
		{"POST https://any.test/a body push=a/b ref=refs/heads/x", "allow"},
		{"POST https://any.test/a body push=a/b ref=refs/heads/main", "deny"},
		{"POST https://any.test/a body push=a/b", "deny"}, /* not known: the deny holds */
		{"GET https://any.test/a push=a/b", "allow"},
		{"GET https://any.test/a fetch=secret/x", "deny"}, /* hosts fold case */
		{"GET https://any.test/a fetch=secrets/x", "allow"});
}

TEST(limits_in_time)
{
	struct buf b = BUF_INIT(256);

	buf_adds(&b, "network: {allow: [{host: a.test, limits: {expires: '");
	net_time_show(&b, (int64_t)time(NULL) + 3600);
	buf_adds(&b, "'}}]}");
	CHECK_INT(RESOLVE(.user = buf_str(&b)), 0);
	CHECK_STR(ask("GET https://a.test/"), "allow");
	pol.net->rules[0].limits.expires = (int64_t)time(NULL) - 1;
	CHECK_STR(ask("GET https://a.test/"), "deny");
	CHECK_STR(connect_to("a.test", 443), "deny");
	CHECK(!net_name_known(pol.net, "a.test"));
	buf_done(&b);
}

TEST(default_asks)
{
	CHECK_INT(RESOLVE(.user = "network: {default: ask, ask-timeout: 2m, deny: [no.test]}"), 0);
	CHECK(net_wanted(pol.net) && net_inspects(pol.net));
	CHECK_INT(pol.net->ask_timeout_ms, 120000);
	CHECK_STR(connect_to("x.test", 443), "allow");
	CHECK_STR(verdict.rule->name, "network.default");
	CHECK_STR(ask("GET https://x.test/"), "ask");
	CHECK_STR(connect_to("x.test", 22), "ask");
	CHECK_INT(verdict.rule->mode, NET_TCP);
	CHECK_STR(connect_to("no.test", 22), "deny");
	CHECK_STR(connect_to("203.0.113.1", 443), "deny"); /* an address has no name to ask about */
	CHECK(net_name_known(pol.net, "x.test") && !net_name_known(pol.net, "no.test"));
	CHECK_STR(ask("GET https://x.test/ ws"), "deny");
}

/* ---- bundles ---- */

/* Reading works, and no way of publishing does. */
TEST(bundles_do_not_publish)
{
	CHECK_INT(RESOLVE(.user = "network: {use: [npm, pypi, crates, go, debian, ubuntu, alpine, "
				  "maven, rubygems, github-read, gitlab-read, docker, "
				  "huggingface-read, anthropic-api, openai-api]}"),
		0);
	REQUESTS({"GET https://registry.npmjs.org/left-pad", "allow"},
		{"GET https://registry.npmjs.org/@babel%2Fcore", "allow"},
		{"GET https://registry.npmjs.org/@babel/core/-/core-7.0.0.tgz", "allow"},
		{"PUT https://registry.npmjs.org/left-pad body", "deny"},
		{"POST https://registry.npmjs.org/-/npm/v1/security/audits body", "deny"},
		{"GET https://pypi.org/simple/requests/", "allow"},
		{"GET https://files.pythonhosted.org/packages/a/b/c.whl", "allow"},
		{"POST https://pypi.org/legacy/ body", "deny"},
		{"POST https://upload.pypi.org/legacy/ body", "deny"},
		{"GET https://index.crates.io/se/rd/serde", "allow"},
		{"GET https://static.crates.io/crates/serde/serde-1.0.0.crate", "allow"},
		{"PUT https://crates.io/api/v1/crates/new body", "deny"},
		{"GET https://proxy.golang.org/golang.org/x/net/@v/list", "allow"},
		{"GET https://storage.googleapis.com/proxy-golang-org-prod/x", "allow"},
		{"GET https://storage.googleapis.com/my-bucket/x", "deny"},
		{"GET http://deb.debian.org/debian/dists/bookworm/InRelease", "allow"},
		{"GET http://de.archive.ubuntu.com/ubuntu/pool/x", "allow"},
		{"GET https://dl-cdn.alpinelinux.org/alpine/v3.20/main/x", "allow"},
		{"GET https://repo1.maven.org/maven2/a/b", "allow"},
		{"PUT https://repo1.maven.org/maven2/a/b body", "deny"},
		{"GET https://rubygems.org/gems/a.gem", "allow"},
		{"POST https://rubygems.org/api/v1/gems body", "deny"},
		{"GET https://github.com/o/n/info/refs?service=git-upload-pack fetch=o/n", "allow"},
		{"POST https://github.com/o/n/git-upload-pack body fetch=o/n", "allow"},
		{"GET https://github.com/o/n/info/refs?service=git-receive-pack push=o/n", "deny"},
		{"POST https://github.com/o/n/git-receive-pack body push=o/n", "deny"},
		{"POST https://github.com/o/n.git/info/lfs/objects/batch body", "deny"},
		{"GET https://github.com/o/n/archive/refs/tags/v1.tar.gz", "allow"},
		{"GET https://api.github.com/repos/o/n/contents/x", "allow"},
		{"POST https://api.github.com/gists body", "deny"},
		{"POST https://api.github.com/graphql body", "deny"},
		{"POST https://api.github.com/repos/o/n/issues body", "deny"},
		{"POST https://uploads.github.com/repos/o/n/releases/1/assets body", "deny"},
		{"GET https://raw.githubusercontent.com/o/n/main/x", "allow"},
		{"GET https://gitlab.com/g/s/p/info/refs fetch=g/s/p", "allow"},
		{"POST https://gitlab.com/g/p/git-receive-pack body push=g/p", "deny"},
		{"GET https://gitlab.com/g/s/p/-/archive/v1/p.tar.gz", "allow"},
		{"GET https://registry-1.docker.io/v2/library/alpine/manifests/latest", "allow"},
		{"GET https://registry-1.docker.io/v2/", "allow"},
		{"POST https://registry-1.docker.io/v2/me/x/blobs/uploads/ body", "deny"},
		{"PUT https://registry-1.docker.io/v2/me/x/manifests/latest body", "deny"},
		{"GET https://huggingface.co/o/m/resolve/main/x.bin", "allow"},
		{"POST https://huggingface.co/api/repos/create body", "deny"},
		{"POST https://api.anthropic.com/v1/messages body", "allow"},
		{"POST https://api.anthropic.com/v1/files body", "deny"},
		{"GET https://api.anthropic.com/v1/files", "deny"},
		{"POST https://api.openai.com/v1/chat/completions body", "allow"},
		{"POST https://api.openai.com/v1/files body", "deny"});
	CHECK_STR(connect_to("github.com", 22), "deny");
	CHECK_STR(connect_to("gist.github.com", 443), "deny");
	ask("GET https://registry.npmjs.org/left-pad");
	CHECK_STR(verdict.rule->name, "npm/registry.npmjs.org");
	for (size_t i = 0; i < pol.net->rules_n; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(!str_eq(pol.net->rules[i].name, pol.net->rules[k].name));
}

/* ---- size ---- */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

TEST(four_thousand_rules)
{
	struct buf b = BUF_INIT(4u << 20);
	double start;

	buf_adds(&b, "network:\n  allow:\n");
	for (int i = 0; i < (int)NET_RULES_MAX; i++)
		buf_addf(&b, "    - {host: h%d.%s.test, paths: [/x/**]}\n", i,
			i % 2 ? "odd" : "even");
	start = seconds();
	CHECK_INT(RESOLVE(.user = buf_str(&b)), 0);
	printf("# parsed and resolved %u network rules in %.1f ms\n", NET_RULES_MAX,
		(seconds() - start) * 1e3);
	start = seconds();
	for (int i = 0; i < 1000; i++) {
		CHECK_STR(ask("GET https://h4095.odd.test/x/y"), "allow");
		CHECK_STR(ask("GET https://h1.none.test/x/y"), "deny");
	}
	printf("# one request of %u rules: %.1f us\n", NET_RULES_MAX,
		(seconds() - start) * 1e6 / 2000);
#if !defined(__SANITIZE_ADDRESS__)
	CHECK((seconds() - start) * 1e6 / 2000 < 200); /* twenty times what it takes */
#endif
	buf_adds(&b, "    - one.more.test\n");
	CHECK_INT(RESOLVE(.user = buf_str(&b)), -1);
	CHECK(strstr(err.msg, "more than 4096 network rules"));
	buf_done(&b);
}
