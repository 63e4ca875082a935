/* SPDX-License-Identifier: Apache-2.0 */
/* Network rules of several layers, the command line, and the forms of the result. */
#include "net_world.h"

/* ---- layers ---- */

TEST(layers_add_up)
{
	CHECK_INT(RESOLVE(.user = "network: {allow: [a.test, b.test], deny: [c.test]}",
			  .project = "network: {deny: [b.test]}",
			  .cli = "network: {allow: [c.test, d.test, a.test]}"),
		0);
	CHECK_STR(connect_to("a.test", 443), "allow");
	CHECK_STR(connect_to("b.test", 443), "deny");
	CHECK_STR(connect_to("c.test", 443), "deny"); /* a deny of any layer holds */
	CHECK_STR(connect_to("d.test", 443), "allow");
	CHECK_STR(verdict.rule->name, "command line network.allow[1]");
	CHECK_INT(pol.net->rules_n, 6); /* a.test once */
	CHECK_INT(pol.net->rules[0].effect, NET_DENY);
	CHECK_INT(pol.net->rules[1].effect, NET_DENY);
	CHECK_INT(pol.net->rules[2].effect, NET_ALLOW);
}

TEST(the_ceiling_holds_for_requests)
{
	static const char sys[] =
		"network: {allow: [{host: '*.corp.test', methods: [GET], limits: {uses: 5}}, "
		"{host: db.test, ports: [5432], mode: tcp}], ask: [maybe.test]}";

	CHECK_INT(RESOLVE(.system = sys,
			  .user = "network: {default: ask, allow: [{host: a.corp.test, methods: "
				  "[GET, POST]}, 'db.test:5432', maybe.test, {host: b.corp.test, "
				  "mode: tls}, evil.org, {host: c.corp.test, private: true}]}"),
		0);
	REQUESTS({"GET https://a.corp.test/", "allow"}, {"POST https://a.corp.test/", "deny"},
		{"GET https://maybe.test/", "ask"}, {"GET https://evil.org/", "deny"},
		{"GET https://other.corp.test/", "allow"}, /* the system's own grant */
		{"POST https://other.corp.test/", "deny"}, {"GET https://unknown.test/", "deny"});
	CHECK_STR(connect_to("db.test", 5432), "allow");
	CHECK_STR(connect_to("unknown.test", 443), "deny");
	CHECK_STR(connect_to("unknown.test", 22), "deny");
	CHECK(!net_name_known(pol.net, "unknown.test") && net_name_known(pol.net, "a.corp.test"));
	for (size_t i = 0; i < pol.net->rules_n; i++)
		if (pol.net->rules[i].host && str_eq(pol.net->rules[i].host, "a.corp.test"))
			CHECK_INT(pol.net->rules[i].limits.uses, 5);
	CHECK_INT(
		RESOLVE(.system = sys, .cli = "network: {allow: [{host: b.corp.test, mode: tls}]}"),
		126);
	CHECK_INT(RESOLVE(.system = sys,
			  .cli = "network: {allow: [{host: c.corp.test, private: true}]}"),
		126);
	CHECK_INT(RESOLVE(.system = sys, .cli = "network: {allow: [c.corp.test:443]}"), 0);
	CHECK_INT(RESOLVE(.system = sys, .cli = "network: {use: [npm]}"), 126);
	CHECK_INT(
		RESOLVE(.system = "network: {deny: [x.test]}", .cli = "network: {allow: [y.test]}"),
		0);
	CHECK_STR(connect_to("y.test", 443), "allow"); /* a deny alone is no ceiling */
	CHECK_INT(
		RESOLVE(.system = "network: {allow: []}", .user = "network: {allow: [y.test]}"), 0);
	CHECK_STR(connect_to("y.test", 443), "deny");
	CHECK_INT(
		RESOLVE(.system = "network: {allow: [{host: t.test, ports: [80, 443], mode: tls}]}",
			.cli = "network: {deny: [x.test]}"),
		0);
	pol.net->rules[pol.net->rules_n - 1].mode = NET_HTTP; /* as if a later layer had it */
	CHECK_STR(ask("GET https://t.test/"), "allow");
	CHECK_STR(ask("GET http://t.test/"), "deny");
	CHECK_INT(RESOLVE(.system = "network: {allow: [t.test]}"), 0);
	CHECK_STR(connect_to("t.test", 443), "allow");
	pol.net->rules[0].mode = NET_TCP; /* the ceiling looks, so its rules must */
	CHECK_STR(connect_to("t.test", 443), "deny");
	CHECK_INT(RESOLVE(.system = "network: {default: deny}", .user = "network: {default: ask}"),
		0);
	CHECK(!pol.net->ask_default);
	CHECK_INT(RESOLVE(.system = "network: {proxy: 'http://a.x:1'}",
			  .user = "network: {proxy: 'http://b.x:1'}"),
		0);
	CHECK_STR(pol.net->proxy, "http://a.x:1");
}

TEST(a_sealed_profile_has_no_network)
{
	CHECK_INT(RESOLVE(.user = "profile: offline\nnetwork: {use: [npm], default: ask, publish: "
				  "['80:80'], host-ports: [1], allow: [a.test], secrets: [{name: "
				  "T, host: a.test}], deny: [b.test]}"),
		0);
	CHECK(!net_wanted(pol.net));
	CHECK_INT(pol.net->secrets_n, 0);
	CHECK_INT(pol.net->rules_n, 1);
	CHECK_STR(connect_to("a.test", 443), "deny");
	CHECK_INT(RESOLVE(.user = "profile: offline", .cli = "network: {publish: ['80:80']}"), 126);
	CHECK_STR(err.msg,
		"publishing port 80:80 is not possible: profile offline does not allow it");
	CHECK_INT(RESOLVE(.user = "profile: strict", .cli = "network: {use: [npm]}"), 126);
}

TEST(a_project_asks_first)
{
	static const struct {
		const char *user, *project, *says;
	} wider[] = {
		{NULL, "network: {allow: [evil.org]}", "croft.yaml:2: "},
		{NULL, "network: {ask: [evil.org]}", "host evil.org:80,443 (ask)"},
		{NULL, "network: {use: [npm]}", "host registry.npmjs.org:443"},
		{NULL, "network: {default: ask}", "network.default ask"},
		{NULL, "network: {publish: ['80:80']}", "publishing port 80:80"},
		{NULL, "network: {host-ports: [22]}", "this machine's port 22"},
		{NULL, "network: {resolve: {a.test: 10.0.0.1}}", "a fixed address for a.test"},
		{NULL, "network: {dns: [203.0.113.1]}", "other resolvers"},
		{NULL, "network: {proxy: 'http://evil.org:1'}", "another upstream proxy"},
		{NULL, "network: {trust: [/tmp/ca.pem]}",
			"trusting the authorities in /tmp/ca.pem"},
		{NULL, "network: {record-query: true}", "recording query strings"},
		{"network: {allow: [a.test]}", "network: {secrets: [{name: T, host: a.test}]}",
			"the secret T for a.test"},
		{"network: {allow: [a.test]}", "network: {allow: ['*.a.test']}", "host *.a.test"},
		{"network: {allow: [{host: a.test, methods: [GET]}]}", "network: {allow: [a.test]}",
			"host a.test"},
		{"network: {allow: [{host: a.test, limits: {uses: 1}}]}",
			"network: {allow: [{host: a.test, limits: {uses: 2}}]}", "host a.test"},
		{"network: {allow: [a.test]}", "network: {allow: [{host: a.test, mode: ws}]}",
			"host a.test"},
		{"network: {allow: [a.test]}", "network: {allow: [{host: a.test, private: true}]}",
			"host a.test"},
		{"network: {ask: [a.test]}", "network: {allow: [a.test]}", "host a.test"},
		{"profile: offline\nnetwork: {allow: [a.test]}", "profile: default", "host a.test"},
	};
	static const char *const narrower[] = {"network: {deny: [a.test]}",
		"network: {allow: [a.test]}", "network: {allow: ['x.w.test:443']}",
		"network: {allow: [{host: a.test, methods: [GET], paths: [/x]}]}",
		"network: {ask: [a.test]}", "network: {default: deny}",
		"network: {ask-timeout: 5s}", "network: {deny: ['**.com']}"};

	for (size_t i = 0; i < ARRAY_SIZE(wider); i++) {
		int r = RESOLVE(.user = wider[i].user, .project = wider[i].project);

		if (r != 126 || !strstr(err.msg, wider[i].says) ||
			!strstr(err.msg, "croft policy trust")) {
			test_fail(__FILE__, __LINE__, "%s: %d %s", wider[i].project, r, err.msg);
			return;
		}
		r = RESOLVE(.user = wider[i].user, .project = wider[i].project, .trusted = true);
		if (r != 0) {
			test_fail(__FILE__, __LINE__, "%s when trusted: %s", wider[i].project,
				err.msg);
			return;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(narrower); i++)
		if (RESOLVE(.user = "network: {allow: [a.test, '*.w.test']}",
			    .project = narrower[i]) != 0) {
			test_fail(__FILE__, __LINE__, "%s: %s", narrower[i], err.msg);
			return;
		}
}

TEST(command_line_values)
{
	static const char *const good[][2] = {{"network.allow", "a.test"},
		{"network.allow", "a.test"}, {"network.deny", "b.test"}, {"network.ask", "c.test"},
		{"network.use", "npm"}, {"network.use", "npm"}, {"network.default", "ask"},
		{"network.publish", "8080:80"}, {"network.host-ports", "5432"},
		{"network.resolve", "d.test=10.0.0.1"}, {"network.resolve", "d.test=10.0.0.2"},
		{"network.dns", "203.0.113.1"}, {"network.proxy", "http://p.x:1"},
		{"network.trust", "/etc/ca.pem"}, {"network.secret", "TOKEN@a.test"},
		{"network.secret", "OTHER@a.test:443"}, {"network.ask-timeout", "5s"},
		{"network.secret", "THIRD@a.test:header=X-Key"},
		{"network.secret", "FOURTH@a.test:443:query=key"},
		{"network.allow", "api.anthropic.com"},
		{"network.secret", "KEY@api.anthropic.com"}};
	static const char *const bad[][3] = {
		{"network.secret", "TOKEN",
			"\"TOKEN\" is not NAME@HOST, followed by nothing, :PORT, :PLACE or "
			":PLACE=FIELD"},
		{"network.secret", "T@a.test:", "\"\" is not PORT, PLACE or PLACE=FIELD"},
		{"network.secret", "T@a.test:header", "place \"header\" needs \"field\": the header's name"},
		{"network.secret", "T@a.test:bearer=x", "place \"bearer\" has no \"field\""},
		{"network.secret", "T@a.test:header:x", "\"header:x\" is not PORT, PLACE or PLACE=FIELD"},
		{"network.secret", "T@a.test:haeder=x", "unknown place \"haeder\"; did you mean \"header\"?"},
		{"network.secret", "T@a.test:0", "\"0\" is not a port between 1 and 65535"},
		{"network.resolve", "d.test", "\"d.test\" is not NAME=ADDRESS"},
		{"network.trust", "~/x",
			"\"~/x\" is not a file of authorities; write its absolute path"},
		{"network.alow", "x", "unknown key of network \"alow\"; did you mean \"allow\"?"}};
	struct policy_layer *l = NULL;

	CHECK_INT(policy_layer_new(&l, LAYER_CLI, "command line", &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (policy_layer_set(l, good[i][0], good[i][1], &err) < 0) {
			test_fail(__FILE__, __LINE__, "%s %s: %s", good[i][0], good[i][1], err.msg);
			return;
		}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK(policy_layer_set(l, bad[i][0], bad[i][1], &err) < 0);
		CHECK(str_starts(err.msg, "command line: "));
		CHECK_STR(err.msg + strlen("command line: "), bad[i][2]);
	}
	policy_done(&pol);
	CHECK_INT(policy_resolve(&pol, &l, 1, false, &ctx, &err), 0);
	CHECK_INT(pol.net->resolve[0].addrs_n, 2);
	CHECK_INT(pol.net->secrets_n, 5);
	CHECK_INT(pol.net->secrets[0].placement, NET_BEARER);
	CHECK_STR(pol.net->secrets[0].env, "TOKEN");
	for (size_t i = 0; i < pol.net->secrets_n; i++) {
		const struct net_secret *s = &pol.net->secrets[i];

		if (str_eq(s->name, "KEY")) /* where its API takes it */
			CHECK(s->placement == NET_HEADER && str_eq(s->field, "x-api-key"));
		if (str_eq(s->name, "THIRD"))
			CHECK(s->placement == NET_HEADER && str_eq(s->field, "x-key"));
		if (str_eq(s->name, "FOURTH"))
			CHECK(s->placement == NET_QUERY && str_eq(s->field, "key"));
	}
	CHECK_STR(connect_to("a.test", 443), "allow");
	policy_layer_free(l);
}

/* ---- text ---- */

static const char everything[] =
	"network:\n"
	"  use: [npm, github-read]\n"
	"  default: ask\n"
	"  ask-timeout: 90s\n"
	"  record-query: true\n"
	"  allow:\n"
	"    - a.test\n"
	"    - {host: '**.b.test', ports: [443, 8000-8010, 8005-8020], mode: http, plaintext: "
	"true}\n"
	"    - {cidr: 10.0.0.0/8, ports: [5432], private: true}\n"
	"    - {cidr: '2001:db8::/32', ports: [22]}\n"
	"    - {host: c.test, methods: [POST, GET], paths: [/b/**, /a], query: {z: '', q: 'x "
	"y*'},\n"
	"       limits: {rate: 10/m, up: 10M, down: 1G, body: 1500, uses: 5, expires: "
	"2099-01-31T12:34:56Z},\n"
	"       reason: \"because: of # \\\"this\\\"\"}\n"
	"    - {host: g.test, mode: git, repos: [b/c, a/*], push: true, refs: ['refs/heads/x/*']}\n"
	"    - {host: w.test, mode: ws}\n"
	"  deny: [d.test, {host: c.test, paths: [/admin/**]}, '*.com']\n"
	"  ask: [e.test, 'f.test:22']\n"
	"  resolve: {x.internal: [10.1.2.4, 'fd00::4']}\n"
	"  dns: [203.0.113.53, '[2001:db8::1]:5353']\n"
	"  proxy: http://user:pa-ss@proxy.corp:3128\n"
	"  trust: [/etc/corp-ca.pem]\n"
	"  publish: ['8080:80']\n"
	"  host-ports: [5432]\n"
	"  secrets:\n"
	"    - {name: T, env: E, host: c.test, paths: [/a], methods: [GET], place: header, field: "
	"x-k,\n"
	"       require: true, strip: false}\n"
	"    - {name: U, host: a.test, place: query, field: key}\n";

TEST(text_and_back)
{
	static const char sys[] = "network: {allow: ['**.w.test', a.test, {cidr: 10.0.0.0/8, "
				  "ports: [5432], private: true}], ask: ['f.test:22']}";
	struct buf one = BUF_INIT(4u << 20), two = BUF_INIT(4u << 20);

	for (int i = 0; i < 3; i++) {
		struct net_policy *n = NULL;

		CHECK_INT(i == 0   ? RESOLVE(.user = everything)
			  : i == 1 ? RESOLVE(.system = sys,
					     .user = "network: {allow: [a.test, {cidr: "
						     "10.1.0.0/16, ports: [5432], private: true}]}")
				   : RESOLVE(.system = "network: {allow: []}"),
			0);
		buf_reset(&one);
		buf_reset(&two);
		policy_network_text(pol.net, &one);
		if (policy_network_parse(&n, buf_str(&one), one.len, &err) < 0) {
			test_fail(__FILE__, __LINE__, "%s\n%s", err.msg, buf_str(&one));
			return;
		}
		policy_network_text(n, &two);
		CHECK_STR(buf_str(&two), buf_str(&one));
		CHECK_INT(n->rules_n, pol.net->rules_n);
		CHECK_INT(n->ceiling, i > 0);
		CHECK_INT(n->ceilings_n, pol.net->ceilings_n);
		for (size_t k = 0; k < n->rules_n; k++) {
			CHECK_INT(net_rule_cmp(&n->rules[k], &pol.net->rules[k]), 0);
			CHECK_STR(n->rules[k].name, pol.net->rules[k].name);
		}
		policy_network_free(n);
	}
	CHECK_INT(RESOLVE(.user = "tier: auto"), 0);
	buf_reset(&one);
	policy_network_text(pol.net, &one);
	CHECK_STR(buf_str(&one), "version: 1\nnetwork: {}\n");
	policy_network_free(NULL);
	buf_done(&one);
	buf_done(&two);
}

TEST(shown_and_digested)
{
	struct buf text = BUF_INIT(4u << 20), diff = BUF_INIT(1u << 20);
	struct policy first;

	CHECK_INT(RESOLVE(.user = everything), 0);
	policy_canonical(&pol, &text);
	CHECK(!strstr(buf_str(&text), "pa-ss")); /* evidence holds no password */
	CHECK(strstr(buf_str(&text), "  proxy: sha256:"));
	policy_json(&pol, &text);
	CHECK(!strstr(buf_str(&text), "pa-ss"));
	CHECK(strstr(buf_str(&text), "\"proxy\": \"http://proxy.corp:3128\""));
	buf_reset(&text);
	policy_show(&pol, &text);
	CHECK(strstr(buf_str(&text), "    - host: a.test  # p.yaml:8\n"));
	CHECK(strstr(buf_str(&text), "# npm/registry.npmjs.org, p.yaml:3\n"));
	first = pol;
	pol = (struct policy){0};
	CHECK(str_starts(strchr(buf_str(&text), '\n') + 1, "version: 1\n"));
	CHECK_INT(RESOLVE(.user = strchr(buf_str(&text), '\n') + 1 + strlen("version: 1\n")), 0);
	CHECK_INT(policy_diff(&first, &pol, &diff), 0);
	CHECK_STR(buf_str(&diff), "");
	CHECK_STR(first.digest.hex, pol.digest.hex);
	CHECK_INT(RESOLVE(.user = "tier: auto"), 0);
	CHECK(policy_diff(&pol, &first, &diff) > 20);
	CHECK(strstr(buf_str(&diff),
		"+ network allow g.test:443 git repos=a/*,b/c refs=refs/heads/x/* push\n"));
	CHECK(!strstr(buf_str(&diff), "pa-ss"));
	policy_done(&first);
	buf_done(&text);
	buf_done(&diff);
}

TEST(explained)
{
	struct buf b = BUF_INIT(1u << 16);

	CHECK_INT(RESOLVE(.user = "network: {allow: [{host: a.test, methods: [GET]}], ask: "
				  "[a.test], deny: [b.test]}"),
		0);
	policy_explain_host(&pol, "A.test:443", &b);
	CHECK_STR(buf_str(&b), "A.test:443: allow, for some requests\n"
			       "  because       network.allow[0] allows it\n"
			       "  decided by    allow a.test:443 http methods=GET  (p.yaml:2)\n"
			       "  also covers   ask a.test:80,443 http  (p.yaml:2)\n");
	buf_reset(&b);
	policy_explain_host(&pol, "c.test", &b);
	CHECK_STR(buf_str(&b), "c.test: deny\n  because       no rule allows c.test:443\n"
			       "  to allow it   --allow-host c.test:443\n");
	buf_reset(&b);
	policy_explain_host(&pol, "0x7f.1:80\x1b[31m", &b);
	CHECK(strstr(buf_str(&b), "never allowed") && !strchr(buf_str(&b), '\x1b'));
	buf_done(&b);
}
