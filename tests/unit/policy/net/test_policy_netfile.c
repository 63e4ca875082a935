/* SPDX-License-Identifier: Apache-2.0 */
/* The network section of a policy file: the exact place and words of what is refused. */
#include "net_world.h"

/* ---- what is refused, and where ---- */

struct bad {
	const char *body, *says;
};

static void check_bad(const struct bad *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r = RESOLVE(.user = v[i].body);

		if (r == 0 || strcmp(err.msg, v[i].says) != 0)
			test_fail(__FILE__, __LINE__, "%s\n#   gives: %s\n#   not:   %s", v[i].body,
				r ? err.msg : "nothing", v[i].says);
	}
}

TEST(entries_that_are_refused)
{
	static const struct bad bad[] = {
		{"network:\n  allow: ['*']",
			"p.yaml:3:11: \"*\" is every host; name the hosts, or write default: ask"},
		{"network:\n  allow:\n    - '*.com'",
			"p.yaml:4:7: \"*.com\" would allow a whole top-level domain; name at least "
			"two labels after the *"},
		{"network: {allow: ['**.github.io']}",
			"p.yaml:2:19: \"**.github.io\" would allow names that anybody can "
			"register; name the hosts"},
		{"network: {allow: ['**.windows.net']}",
			"p.yaml:2:19: \"**.windows.net\" would allow names that anybody can "
			"register; name the hosts"},
		{"network: {ask: ['*.co.uk']}", "p.yaml:2:17: \"*.co.uk\" would allow names that "
						"anybody can register; name the hosts"},
		{"network: {allow: [169.254.169.254]}",
			"p.yaml:2:19: 169.254.169.254/32 cannot be granted: it is link-local, "
			"where metadata services are"},
		{"network: {allow: [{cidr: 127.0.0.0/8, private: true}]}",
			"p.yaml:2:26: 127.0.0.0/8 cannot be granted: it is loopback; a port of "
			"this machine is granted with host-ports (--host-port PORT)"},
		{"network: {allow: ['[::1]:80']}",
			"p.yaml:2:19: ::1/128 cannot be granted: it is loopback, unspecified, or "
			"IPv4 in disguise; write the IPv4 address; a port of "
			"this machine is granted with host-ports (--host-port PORT)"},
		{"network: {allow: ['[::ffff:10.0.0.1]:80']}",
			"p.yaml:2:19: ::ffff:a00:1/128 cannot be granted: it is IPv4 in disguise; "
			"write the IPv4 address"},
		{"network: {allow: [metadata.google.internal]}",
			"p.yaml:2:19: metadata.google.internal cannot be granted: it is the "
			"cloud's metadata service"},
		{"network: {allow: [LOCALHOST]}",
			"p.yaml:2:19: localhost cannot be granted: it is the sandbox itself; a "
			"port of this machine is granted with host-ports (--host-port PORT)"},
		{"network: {allow: ['10.0.0.0/8:5432']}",
			"p.yaml:2:19: 10.0.0.0/8 is a private range; write the entry as \"cidr: "
			"10.0.0.0/8\" with \"private: true\""},
		{"network: {allow: [10.1.2.3/8]}",
			"p.yaml:2:19: \"10.1.2.3/8\" has bits beyond its prefix; write 10.0.0.0/8"},
		{"network: {allow: [0.0.0.0/0]}", "p.yaml:2:19: 0.0.0.0/0 cannot be granted: it is "
						  "every address; name the ranges"},
		{"network: {allow: [127.1]}",
			"p.yaml:2:19: \"127.1\" is not an address; write the four decimal numbers"},
		{"network: {allow: [\"\\u00fc.example\"]}",
			"p.yaml:2:19: \"\xc3\xbc.example\" is not ASCII; write the name in its "
			"xn-- form"},
		{"network: {allow: ['https://a.b/']}",
			"p.yaml:2:19: \"https://a.b/\" is a URL; write the host alone, and paths "
			"under \"paths\""},
		{"network: {allow: ['a.b:65536']}",
			"p.yaml:2:19: \"65536\" is not a port between 1 and 65535"},
		{"network: {allow: ['a.b:443,22']}",
			"p.yaml:2:19: ports 80 and 443 are inspected and others are not; write two "
			"entries, or say which mode is meant"},
		{"network: {allow: [{ports: [1]}]}",
			"p.yaml:2:19: an entry has either \"host\" or \"cidr\""},
		{"network: {allow: [{host: a.b, hots: c}]}",
			"p.yaml:2:31: unknown key \"hots\" in an entry; did you mean \"host\"?"},
		{"network: {allow: [{host: a.b, name: c}]}",
			"p.yaml:2:31: unknown key \"name\" in an entry"},
		{"network: {allow: [{host: a.b, mode: tcp, paths: [/x]}]}",
			"p.yaml:2:50: \"paths\" needs a mode that inspects requests (mode: http)"},
		{"network: {allow: [{host: a.b, ports: [22], methods: [GET]}]}",
			"p.yaml:2:54: \"methods\" needs a mode that inspects requests (mode: "
			"http)"},
		{"network: {allow: [{host: a.b, repos: [a/b]}]}",
			"p.yaml:2:39: \"repos\" is only for mode git"},
		{"network: {allow: [{host: a.b, mode: git, refs: [refs/heads/x]}]}",
			"p.yaml:2:49: \"refs\" needs \"push: true\"; a fetch changes no refs"},
		{"network: {allow: [{host: a.b, mode: registry, methods: [PUT]}]}",
			"p.yaml:2:57: mode registry knows GET and HEAD only"},
		{"network: {allow: [{host: a.b, methods: [get]}]}",
			"p.yaml:2:41: \"get\" is not a method; write GET, POST …, upper case"},
		{"network: {allow: [{host: a.b, methods: []}]}",
			"p.yaml:2:40: \"methods\" is empty; name some, or leave the key out"},
		{"network: {allow: [{host: a.b, paths: [x]}]}",
			"p.yaml:2:39: \"x\" does not begin with /"},
		{"network: {allow: [{host: a.b, paths: [/a/../b]}]}",
			"p.yaml:2:39: \"/a/../b\" has a segment \".\" or \"..\", which no path "
			"has"},
		{"network: {allow: [{host: a.b, paths: ['/a?b']}]}",
			"p.yaml:2:39: \"/a?b\" holds a '?'; what follows it in a URL goes under "
			"\"query\""},
		{"network: {allow: [{host: a.b, paths: ['/%7Ea']}]}",
			"p.yaml:2:39: \"/%7Ea\" encodes a character that needs no %XX; write it as "
			"it is"},
		{"network: {allow: [{host: a.b, limits: {rate: 10}}]}",
			"p.yaml:2:46: limits.rate: \"10\" is not a rate; write 10/s, 100/m or "
			"1000/h"},
		{"network: {allow: [{host: a.b, limits: {expires: 2027-02-30T00:00:00Z}}]}",
			"p.yaml:2:49: limits.expires: \"2027-02-30T00:00:00Z\" is a day that does "
			"not exist"},
		{"network: {allow: [{host: a.b, limits: {expires: 2020-01-01T00:00:00Z}}]}",
			"p.yaml:2:19: network.allow[0] expired at 2020-01-01T00:00:00Z; take it "
			"out or give it a later time"},
		{"network: {deny: [{host: a.b, limits: {uses: 1}}]}",
			"p.yaml:2:45: \"limits\" means nothing in a deny"},
		{"network: {deny: [{host: a.b, mode: tcp}]}",
			"p.yaml:2:36: \"mode\" of a deny is http or git: a deny holds whatever is "
			"spoken"},
		{"network:\n  allow:\n    - a.b\n    - c.d\n    - A.b:443,80",
			"p.yaml:6:7: a.b:80,443 is listed twice under allow (first on line 4)"},
		{"network: {use: [nmp]}",
			"p.yaml:2:17: unknown bundle \"nmp\"; did you mean \"npm\"?"},
		{"network: {default: allow}",
			"p.yaml:2:20: network.default is deny or ask; hosts are allowed by name"},
		{"network: {alow: []}",
			"p.yaml:2:11: unknown key \"alow\" in network; did you mean \"allow\"?"},
		{"network: {ceiling: []}", "p.yaml:2:11: unknown key \"ceiling\" in network"},
		{"network: {allow: [[a.b]]}",
			"p.yaml:2:19: an entry is a host, or a mapping with \"host\" or \"cidr\""},
	};

	check_bad(bad, ARRAY_SIZE(bad));
}

TEST(rules_that_hide_each_other)
{
	static const struct bad bad[] = {
		{"network:\n  allow:\n    - {host: a.test, paths: [/x]}\n    - {host: "
		 "'*.test.org'}\n"
		 "    - {host: a.test, mode: tls}",
			"p.yaml:6:7: allow a.test:443 is not inspected (mode tls), so allow "
			"a.test:443 would not hold; the other one is at p.yaml:4: keep one, or "
			"give both a mode that inspects"},
		{"network:\n  allow:\n    - {host: '**.b.test', mode: tcp, ports: [400-500]}\n"
		 "    - a.b.test",
			"p.yaml:5:7: allow **.b.test:400-500 is not inspected (mode tcp), so allow "
			"a.b.test:80,443 would not hold; the other one is at p.yaml:4: keep one, "
			"or give both a mode that inspects"},
		{"network:\n  ask: ['a.test:8080']\n  deny:\n    - {host: a.test, methods: [PUT]}",
			"p.yaml:5:7: ask a.test:8080 is not inspected (mode tcp), so deny a.test "
			"would not hold; the other one is at p.yaml:3: keep one, or give both a "
			"mode that inspects"},
	};

	check_bad(bad, ARRAY_SIZE(bad));
	/* Across layers, both files are named. */
	CHECK_INT(RESOLVE(.user = "network: {allow: [a.test]}",
			  .cli = "network: {allow: [{host: a.test, mode: tcp}]}"),
		125);
	CHECK(strstr(err.msg, "command line:2:19: allow a.test:443 is not inspected"));
	CHECK(strstr(err.msg, "at p.yaml:2"));
	CHECK_INT(RESOLVE(.user = "network: {allow: [a.test, 'a.test:22', {host: b.test, mode: "
				  "tcp}]}"),
		0); /* control: other ports, other hosts */
}

TEST(secrets)
{
	static const struct bad bad[] = {
		{"network: {secrets: [{name: T, host: a.test}]}",
			"p.yaml:2:21: the secret T is bound to a.test:443, which no inspected rule "
			"allows; add it to network.allow"},
		{"network: {allow: [{host: a.test, mode: tls}], secrets: [{name: T, host: "
		 "a.test}]}",
			"p.yaml:2:57: the secret T cannot be put in at a.test:443: "
			"network.allow[0] (p.yaml:2) is not inspected; use mode http"},
		{"network: {secrets: [{host: a.test}]}", "p.yaml:2:21: a secret needs \"name\""},
		{"network: {secrets: [{name: T}]}",
			"p.yaml:2:21: the secret T needs \"host\": where it may go"},
		{"network: {secrets: [{name: T, host: a.test, place: header}]}",
			"p.yaml:2:21: place \"header\" needs \"field\": the header's name"},
		{"network: {secrets: [{name: T, host: a.test, place: query}]}",
			"p.yaml:2:21: place \"query\" needs \"field\": the parameter's name"},
		{"network: {secrets: [{name: T, host: a.test, place: header, field: Host}]}",
			"p.yaml:2:21: \"Host\" is a header that carries no secret"},
		{"network: {secrets: [{name: 1T, host: a.test}]}",
			"p.yaml:2:28: \"1T\" is not a variable name; letters, digits and _"},
		{"network: {secrets: [{name: T, host: '*.com'}]}",
			"p.yaml:2:37: \"*.com\" would allow a whole top-level domain; name at "
			"least two labels after the *"},
		{"network: {allow: [a.test], secrets: [{name: A, env: X, host: a.test}, {name: B, "
		 "env: X, host: a.test}]}",
			"p.yaml:2:71: the secrets A and B are both in the variable X"},
	};
	struct net_request q = {.host = "a.test",
		.port = 443,
		.tls = true,
		.method = "GET",
		.path = "/r/x",
		.query = ""};
	const struct net_secret *s;

	check_bad(bad, ARRAY_SIZE(bad));
	CHECK_INT(RESOLVE(.user = "network: {allow: [a.test, 'b.test'], secrets: [{name: T, env: "
				  "E, host: a.test, paths: [/r/**], methods: [GET], place: header, "
				  "field: X-Key, require: true}]}"),
		0);
	s = net_secret_for(pol.net, &q, 0);
	CHECK(s);
	CHECK_STR(s->field, "x-key");
	CHECK(s->strip && s->require);
	CHECK(!net_secret_for(pol.net, &q, 1));
	q.tls = false;
	CHECK(!net_secret_for(pol.net, &q, 0));
	q.tls = true;
	q.path = "/s/x";
	CHECK(!net_secret_for(pol.net, &q, 0));
	q.path = "/r/x";
	q.method = "POST";
	CHECK(!net_secret_for(pol.net, &q, 0));
	q.method = "GET";
	q.host = "b.test";
	CHECK(!net_secret_for(pol.net, &q, 0));
	q.host = "a.test";
	q.port = 8443;
	CHECK(!net_secret_for(pol.net, &q, 0));
}

TEST(the_rest_of_the_section)
{
	static const struct bad bad[] = {
		{"network: {resolve: {a.test: 127.0.0.1}}",
			"p.yaml:2:21: 127.0.0.1 cannot be granted: it is loopback"},
		{"network: {resolve: {'*.a.test': 10.0.0.1}}",
			"p.yaml:2:21: \"*.a.test\" is a pattern; a fixed address needs one name"},
		{"network: {resolve: {a.test: 10.0.0.1, a.test: 10.0.0.2}}",
			"p.yaml:2:39: a.test is listed twice (first on line 2)"},
		{"network: {resolve: {a.test: []}}", "p.yaml:2:21: a.test has no address"},
		{"network: {dns: [dns.google]}",
			"p.yaml:2:17: \"dns.google\" is not a resolver; write 203.0.113.53, "
			"203.0.113.53:5353 or [2001:db8::53]:53"},
		{"network: {proxy: 'socks5://x:1'}",
			"p.yaml:2:18: network.proxy is not a proxy; write http://host:port or "
			"http://user:password@host:port"},
		{"network: {trust: [ca.pem]}", "p.yaml:2:19: \"ca.pem\" is not a file of "
					       "authorities; write its absolute path"},
		{"network: {publish: ['80:0']}",
			"p.yaml:2:21: \"0\" is not a port between 1 and 65535"},
		{"network: {publish: ['80:1', '80:2']}", "p.yaml:2:29: port 80 is published twice"},
		{"network: {host-ports: ['1:2']}", "p.yaml:2:24: \"1:2\" is not a port"},
		{"network: {ask-timeout: 1w}",
			"p.yaml:2:24: \"1w\" is not a time between 1s and 1d; write 30s or 5m"},
		{"network: {record-query: yes}", "p.yaml:2:25: \"yes\" is neither true nor false"},
	};

	check_bad(bad, ARRAY_SIZE(bad));
	CHECK_INT(RESOLVE(.user = "network: {resolve: {b.x: 10.1.2.3, a.x: [10.1.2.4, 'fd00::4']}, "
				  "dns: [203.0.113.53, '203.0.113.53:5353', '2001:db8::1'], proxy: "
				  "'http://u:pw@proxy.corp:3128', trust: [/etc/ca.pem, ~/ca.pem], "
				  "publish: ['8080:80', '9000'], host-ports: [5432], record-query: "
				  "true}"),
		0);
	CHECK_INT(pol.net->resolve_n, 2);
	CHECK_STR(pol.net->resolve[0].host, "a.x");
	CHECK_INT(pol.net->resolve[0].addrs_n, 2);
	CHECK_INT(pol.net->dns_n, 3);
	CHECK_STR(pol.net->trust[1], "/home/u/ca.pem");
	CHECK_INT(pol.net->publish[0].inside, 80);
	CHECK_INT(pol.net->publish[1].inside, 9000);
	CHECK_INT(pol.net->host_ports[0].host, 5432);
	CHECK(pol.net->record_query && net_wanted(pol.net) && !net_inspects(pol.net));
}
