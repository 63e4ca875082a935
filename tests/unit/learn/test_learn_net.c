/* SPDX-License-Identifier: Apache-2.0 */
/* Learning network rules: journals of any text, patterns of paths, proposals that hold. */
#include "net_world.h"

#include <sys/mman.h>
#include <unistd.h>

#include "learn/learn_net.h"

/* ---- journals ---- */

static const char good_line[] =
	"{\"time_ms\":1,\"type\":\"request\",\"connection\":4,\"host\":\"a.example\",\"port\":443,"
	"\"mode\":\"http\",\"rule\":\"network.allow[0]\",\"effect\":\"allow\",\"method\":\"GET\","
	"\"path\":\"/x\",\"status\":200,\"up_b\":0,\"secret\":\"k\",\"asked\":true}";

static bool line_ok(const char *text)
{
	struct learn_line l;

	return learn_line_parse(&l, text, strlen(text));
}

TEST(a_line_is_read)
{
	struct learn_line l;

	CHECK(learn_line_parse(&l, good_line, strlen(good_line)));
	CHECK_STR(l.type, "request");
	CHECK_STR(l.host, "a.example");
	CHECK_STR(l.rule, "network.allow[0]");
	CHECK_STR(l.effect, "allow");
	CHECK_STR(l.method, "GET");
	CHECK_STR(l.path, "/x");
	CHECK_INT(l.port, 443);
	CHECK_INT(l.status, 200);
	CHECK(learn_line_parse(&l, "{\"type\":\"a\\\"\\\\\\u0041\"}", 22));
	CHECK_STR(l.type, "a\"\\A");
}

TEST(odd_lines_are_refused)
{
	static const char *const odd[] = {"", "{", "{}", "[]", "null", "{\"type\":\"x\"} ",
		" {\"type\":\"x\"}", "{\"type\":\"x\",}", "{\"type\":\"x\"}{}", "{\"type\":1}",
		"{\"type\":\"x\",\"type\":\"y\"}", "{\"type\":\"x\",\"port\":65536}",
		"{\"type\":\"x\",\"port\":\"1\"}", "{\"type\":\"x\",\"port\":-1}",
		"{\"type\":\"x\",\"port\":99999999999999999999999999}", "{\"host\":\"x\"}",
		"{\"type\":\"x\",\"more\":{\"a\":1}}", "{\"type\":\"x\",\"more\":[1]}",
		"{\"type\":\"x\\u0000\"}", "{\"type\":\"x\\u00e9\"}", "{\"type\":\"x\\uZZZZ\"}",
		"{\"type\":\"x\\q\"}", "{\"type\":\"x\ny\"}",
		"{\"type\":\"much too long for a kind of line\"}", "{type:\"x\"}",
		"{\"a key that is much longer than any of ours\":1,\"type\":\"x\"}"};

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		if (line_ok(odd[i]))
			test_fail(__FILE__, __LINE__, "accepted: %s", odd[i]);
	CHECK(line_ok("{\"type\":\"x\"}")); /* that the list above fails for its own reasons */
}

TEST(damaged_lines_do_no_harm)
{
	struct learn_line l;
	size_t n = strlen(good_line);
	unsigned seed = 1;

	for (size_t i = 0; i < n; i++) { /* exact allocations, so that a sanitizer sees overreads */
		char *copy = malloc(i ? i : 1);

		CHECK(copy != NULL);
		memcpy(copy, good_line, i);
		CHECK(!learn_line_parse(&l, copy, i));
		free(copy);
	}
	for (int k = 0; k < 20000; k++) {
		char *copy = malloc(n);

		CHECK(copy != NULL);
		memcpy(copy, good_line, n);
		for (int m = 0; m < 3; m++) {
			seed = seed * 1103515245u + 12345u;
			copy[(seed >> 8) % n] = (char)(seed >> 20);
		}
		if (learn_line_parse(&l, copy, n))
			CHECK(l.port <= 65535 && l.type[0]);
		free(copy);
	}
}

static size_t lines_seen;

static void count_line(void *arg, const struct learn_line *l)
{
	lines_seen++;
}

static int journal_fd(const struct buf *b)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);

	if (fd < 0 || write(fd, b->data, b->len) != (ssize_t)b->len || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return fd;
}

TEST(a_journal_is_read_to_its_limits)
{
	cleanup_buf struct buf b = BUF_INIT(8u << 20);
	struct learn_journal sum;
	cleanup_fd int one = -1, two = -1, three = -1;

	lines_seen = 0;
	buf_addf(&b, "%s\n{\"type\":\"", good_line);
	for (size_t i = 0; i < 3u * LEARN_LINE_MAX_B; i++)
		buf_addc(&b, 'x');
	buf_addf(&b, "\"}\nnonsense\n%s\n", good_line);
	CHECK((one = journal_fd(&b)) >= 0);
	CHECK_INT(learn_journal_read(one, &sum, count_line, NULL), 0);
	CHECK_INT(lines_seen, 2);
	CHECK_INT(sum.lines, 4);
	CHECK_INT(sum.odd, 2);
	CHECK(sum.whole);

	buf_adds(&b, "{\"type\":\"capped\"}\n{\"type\":\"requ");
	CHECK((two = journal_fd(&b)) >= 0);
	CHECK_INT(learn_journal_read(two, &sum, count_line, NULL), 0);
	CHECK_INT(sum.odd, 3);
	CHECK(!sum.whole);

	lines_seen = 0;
	buf_reset(&b);
	for (unsigned i = 0; i < LEARN_LINES_MAX + 100; i++)
		buf_adds(&b, "{\"type\":\"connection\"}\n");
	CHECK(!b.failed && (three = journal_fd(&b)) >= 0);
	CHECK_INT(learn_journal_read(three, &sum, count_line, NULL), 0);
	CHECK_INT(lines_seen, LEARN_LINES_MAX);
	CHECK(!sum.whole);
}

/* ---- patterns ---- */

/* "METHOD path" lines to "METHODS path" of templates, joined by " | ". */
static const char *templates(const char *const *lines, size_t n)
{
	static char out[8192];
	struct learn_paths t = {0};
	struct learn_template *v = NULL;
	cleanup_buf struct buf b = BUF_INIT(sizeof(out));
	size_t v_n = 0;

	for (size_t i = 0; i < n; i++) {
		char method[16] = "";
		size_t len = strcspn(lines[i], " ");

		memcpy(method, lines[i], len);
		if (learn_paths_add(&t, method, lines[i] + len + 1) < 0)
			buf_adds(&b, "refused | ");
	}
	if (learn_paths_templates(&t, &v, &v_n) < 0)
		return "failed";
	for (size_t i = 0; i < v_n; i++) {
		buf_adds(&b, i ? " | " : "");
		for (size_t k = 0; k < t.methods.n; k++)
			if (v[i].methods & 1u << k)
				buf_addf(&b, "%s ", t.methods.v[k]);
		buf_adds(&b, v[i].path);
	}
	learn_templates_free(v, v_n);
	learn_paths_done(&t);
	snprintf(out, sizeof(out), "%s", buf_str(&b));
	return out;
}
#define TEMPLATES(...)                                                                             \
	templates((const char *const[]){__VA_ARGS__},                                              \
		ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

TEST(values_become_wildcards)
{
	CHECK_STR(TEMPLATES("GET /a/17/b", "GET /a/18/b"), "GET /a/*/b");
	CHECK_STR(TEMPLATES("GET /o/123e4567-e89b-12d3-a456-426614174000"), "GET /o/*");
	CHECK_STR(TEMPLATES("GET /c/0123abcd", "GET /c/DEADBEEF00"), "GET /c/*");
	CHECK_STR(TEMPLATES("GET /c/0123abc"), "GET /c/0123abc"); /* seven are a word */
	CHECK_STR(TEMPLATES("GET /c/0123abcg", "GET /v1/3.0.1"), "GET /c/0123abcg | GET /v1/3.0.1");
	CHECK_STR(TEMPLATES("GET /"), "GET /");
	CHECK_STR(TEMPLATES("GET /a/", "GET /a"), "GET /a | GET /a/");
	CHECK_STR(TEMPLATES("GET /u/me", "GET /u/1"), "GET /u/*"); /* the word is within it */
	CHECK_STR(TEMPLATES("GET /u/1", "POST /u/me"), "GET /u/* | POST /u/me");
	CHECK_STR(TEMPLATES("GET /x", "POST /x", "GET /y"), "GET POST /x | GET /y");
	CHECK_STR(TEMPLATES("GET /%E2%82%AC"), "GET /%E2%82%AC");
}

TEST(many_values_at_one_place_become_one)
{
	CHECK_STR(TEMPLATES("GET /p/a/x", "GET /p/b/x", "GET /p/c/x", "GET /p/d/x", "GET /p/e/x",
			  "GET /p/f/x", "GET /p/g/x", "GET /p/h/x"),
		"GET /p/a/x | GET /p/b/x | GET /p/c/x | GET /p/d/x | GET /p/e/x | GET /p/f/x | GET "
		"/p/g/x | GET /p/h/x");
	CHECK_STR(TEMPLATES("GET /p/a/x", "GET /p/b/x", "GET /p/c/y", "GET /p/d/x", "GET /p/e/x",
			  "GET /p/f/x", "GET /p/g/x", "GET /p/h/x", "PUT /p/i/x", "GET /q"),
		"GET PUT /p/*/x | GET /p/*/y | GET /q");
	/* Below what was put together there may be too many as well. */
	CHECK_STR(TEMPLATES("GET /p/a/k", "GET /p/b/l", "GET /p/c/m", "GET /p/d/n", "GET /p/e/o",
			  "GET /p/f/p", "GET /p/g/q", "GET /p/h/r", "GET /p/i/s"),
		"GET /p/*/*");
}

TEST(too_many_patterns_become_what_they_share)
{
	struct learn_paths t = {0};
	struct learn_template *v = NULL;
	char path[64];
	size_t n = 0;

	for (int i = 0; i < 24; i++) { /* 3 * 8: no place has too many, all together do */
		snprintf(path, sizeof(path), "/api/v1/g%d/h%d", i / 8, i % 8);
		CHECK_INT(learn_paths_add(&t, i == 3 ? "POST" : "GET", path), 0);
		if (i == 19) {
			CHECK_INT(learn_paths_templates(&t, &v, &n), 0);
			CHECK_INT(n, LEARN_TEMPLATES_MAX);
			learn_templates_free(v, n);
		}
	}
	CHECK_INT(learn_paths_templates(&t, &v, &n), 0);
	CHECK_INT(n, 1);
	CHECK_STR(v[0].path, "/api/v1/**");
	CHECK_INT(v[0].methods, 3);
	learn_templates_free(v, n);
	learn_paths_done(&t);
}

TEST(odd_paths_are_refused)
{
	static const char *const odd[] = {"", "x", "/a//b", "//", "/.", "/a/../b", "/a?b", "/a b",
		"/a\\b", "/a\"b", "/a\nb", "/%2f", "/%2", "/%41", "/a#b", "/a[b", "/\xc3\xa9",
		"/{a}"};
	struct learn_paths t = {0};
	char deep[4096] = "";

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		if (learn_paths_add(&t, "GET", odd[i]) != -EINVAL)
			test_fail(__FILE__, __LINE__, "accepted: %s", odd[i]);
	for (size_t i = 0; i < 2 * (LEARN_DEPTH_MAX + 1); i += 2)
		memcpy(deep + i, "/a", 3);
	CHECK_INT(learn_paths_add(&t, "GET", deep), -EINVAL);
	deep[2 * LEARN_DEPTH_MAX] = '\0';
	CHECK_INT(learn_paths_add(&t, "GET", deep), 0);
	memset(deep, 'a', LEARN_PATH_MAX_B + 1);
	deep[0] = '/';
	deep[LEARN_PATH_MAX_B + 1] = '\0';
	CHECK_INT(learn_paths_add(&t, "GET", deep), -EINVAL);
	CHECK_INT(learn_paths_add(&t, "get", "/a"), -EINVAL);
	CHECK_INT(learn_paths_add(&t, "", "/a"), -EINVAL);
	CHECK_INT(learn_paths_add(&t, "TRACE", "/a"), -EINVAL);
	learn_paths_done(&t);
}

TEST(l9_an_asterisk_that_was_asked_for_is_no_pattern)
{
	struct learn_paths t = {0};
	struct learn_template *v = NULL;
	size_t n = 0;

	CHECK_INT(learn_paths_add(&t, "GET", "/**"), 0);
	CHECK_INT(learn_paths_add(&t, "GET", "/a/*"), 0);
	CHECK_INT(learn_paths_add(&t, "GET", "/a/12345"), 0);
	CHECK_INT(learn_paths_templates(&t, &v, &n), 0);
	CHECK_INT(n, 2);
	CHECK_STR(v[0].path, "/%2A%2A");
	CHECK_STR(v[1].path, "/a/*"); /* any number, and so also an asterisk */
	learn_templates_free(v, n);
	learn_paths_done(&t);
}

TEST(a_tree_stays_small)
{
	struct learn_paths t = {0};
	struct learn_template *v = NULL;
	unsigned seed = 7;
	size_t n = 0;

	for (int i = 0; i < 60000; i++) {
		char path[64] = "";
		size_t at = 0;

		for (int k = 0; k < 12; k++) {
			seed = seed * 1103515245u + 12345u;
			path[at++] = '/';
			path[at++] = "ghijklmn"[(seed >> 16) % 8];
		}
		path[at] = '\0';
		learn_paths_add(&t, "GET", path);
		CHECK(t.nodes <= LEARN_NODES_MAX);
	}
	CHECK(t.nodes > LEARN_NODES_MAX / 2);
	CHECK_INT(learn_paths_templates(&t, &v, &n), 0);
	CHECK_INT(n, 1);
	CHECK_STR(v[0].path, "/**");
	learn_templates_free(v, n);
	learn_paths_done(&t);
}

/* ---- proposals ---- */

static struct network net;
static struct network_denial denials[600];
static struct network_host hosts[64];
static struct learn_net learned;
static struct buf diff, journal;

static void begin(struct layers in)
{
	buf_done(&diff);
	buf_done(&journal);
	diff = journal = BUF_INIT(1u << 20);
	net = (struct network){
		.denials = denials, .hosts = hosts, .state = NETWORK_SERVED, .done = true};
	if (resolve(in) != 0)
		test_fail(__FILE__, __LINE__, "the policy: %s", err.msg);
}

static void denied(
	const char *method, const char *host, unsigned port, const char *path, const char *rule)
{
	denials[net.denials_n++] = (struct network_denial){.host = (char *)host,
		.method = (char *)method,
		.path = (char *)path,
		.rule = (char *)rule,
		.why = (char *)"because; would allow it: much",
		.fix = (char *)"",
		.port = (uint16_t)port,
		.count = 2};
}

static void used(const char *host, unsigned port, const char *rule, unsigned requests)
{
	hosts[net.hosts_n++] = (struct network_host){.host = (char *)host,
		.rule = (char *)rule,
		.port = (uint16_t)port,
		.connections = 1,
		.requests = requests};
}

static void request(
	const char *host, unsigned port, const char *rule, const char *method, const char *path)
{
	struct json j;

	json_init(&j, &journal, false);
	json_object(&j, NULL);
	json_str(&j, "type", "request");
	json_str(&j, "host", host);
	json_uint(&j, "port", port);
	json_str(&j, "rule", rule);
	json_str(&j, "effect", "allow");
	json_str(&j, "method", method);
	json_str(&j, "path", path);
	json_end(&j);
	buf_addc(&journal, '\n');
}

/* What was proposed, as the body of a policy file; "" for nothing. The other lines are comments. */
static const char *learn(void)
{
	static char body[1u << 16];
	cleanup_buf struct buf b = BUF_INIT(sizeof(body));
	cleanup_fd int fd = journal_fd(&journal);

	buf_reset(&diff);
	if (learn_net_init(&learned, pol.net, &ctx) < 0)
		return "no memory";
	learn_net_receipt(&learned, &net);
	learn_net_journal(&learned, fd);
	learn_net_settle(&learned);
	learn_net_diff(&learned, &diff);
	learn_net_done(&learned);
	for (const char *at = buf_str(&diff); *at;) {
		size_t n = strcspn(at, "\n");

		if (*at == '+') {
			buf_add(&b, at + 1, n - 1);
			buf_addc(&b, '\n');
		} else if (*at != '#') {
			test_fail(__FILE__, __LINE__, "neither proposal nor comment: %.*s", (int)n,
				at);
		}
		at += n + (at[n] == '\n');
	}
	snprintf(body, sizeof(body), "%s", buf_str(&b));
	return body;
}

/* The proposal alone, as the user's policy. */
static int apply(const char *body)
{
	return RESOLVE(.user = body);
}

static bool says(const char *text)
{
	return strstr(buf_str(&diff), text) != NULL;
}

TEST(a_name_that_was_asked_for_is_proposed)
{
	const char *body;

	begin((struct layers){0});
	denied("DNS", "example.org", 53, "", "");
	body = learn();
	CHECK(strstr(body, "host: example.org"));
	CHECK(says("asked for 2 times"));
	CHECK_INT(apply(body), 0);
	CHECK_STR(connect_to("example.org", 443), "allow");
	CHECK_STR(connect_to("example.org", 80), "deny");
	CHECK_STR(connect_to("example.com", 443), "deny");
}

TEST(a_connection_is_proposed_with_its_port)
{
	begin((struct layers){.user = "network: {allow: [a.example]}"});
	denied("CONNECT", "a.example", 5432, "", "");
	denied("DNS", "a.example", 53, "", ""); /* known better from the connection */
	CHECK_INT(apply(learn()), 0);
	CHECK_STR(connect_to("a.example", 5432), "allow");
	CHECK_INT(verdict.rule->mode, NET_TCP);
	CHECK_STR(connect_to("a.example", 443), "deny");
}

TEST(a_request_is_proposed_with_method_and_path)
{
	begin((struct layers){
		.user = "network: {allow: [{host: a.example, methods: [GET], paths: [/a]}]}"});
	denied("POST", "a.example", 443, "/b/1", "network.allow[0]");
	denied("POST", "a.example", 443, "/b/2", "network.allow[0]");
	denied("DELETE", "a.example", 443, "/c", "network.allow[0]");
	CHECK_INT(apply(learn()), 0);
	CHECK_STR(ask("POST https://a.example/b/77"), "allow");
	CHECK_STR(ask("DELETE https://a.example/c"), "allow");
	CHECK_STR(ask("DELETE https://a.example/b/77"), "deny"); /* no other pairing */
	CHECK_STR(ask("POST https://a.example/c"), "deny");
	CHECK_STR(ask("POST https://a.example/b/77/x"), "deny");
	CHECK_STR(ask("POST https://b.example/b/77"), "deny");
}

TEST(what_cannot_be_granted_is_named_only)
{
	static const char *const hosts_of[] = {"metadata.google.internal", "localhost",
		"169.254.169.254", "127.0.0.1", "10.1.2.3", "192.168.0.1", "1.1.1.1", "::1",
		"fd00:ec2::254", "2606:4700::1", "::ffff:10.0.0.1", "host.docker.internal"};

	begin((struct layers){0});
	for (size_t i = 0; i < ARRAY_SIZE(hosts_of); i++)
		denied(strpbrk(hosts_of[i], ":") || hosts_of[i][0] <= '9' ? "CONNECT" : "DNS",
			hosts_of[i], 443, "", "");
	denied("DNS", "_http._tcp.deb.example", 53, "", "");
	CHECK_STR(learn(), "");
	for (size_t i = 0; i < ARRAY_SIZE(hosts_of); i++)
		if (!says(hosts_of[i]))
			test_fail(__FILE__, __LINE__, "%s is not named", hosts_of[i]);
	CHECK(says("use the name"));
	CHECK(says("a private address"));
	CHECK(says("metadata service"));
	CHECK(!says("would allow it"));
	denied("DNS", "fine.example", 53, "", ""); /* that the rest was refused for what it is */
	CHECK(strstr(learn(), "fine.example"));
}

TEST(denies_and_ceilings_hold)
{
	begin((struct layers){.system = "network: {allow: [a.example, {host: c.example, paths: "
					"[/ok]}], ask: [d.example]}",
		.user = "network: {allow: [a.example], deny: [bad.example, {host: a.example, "
			"paths: [/no]}]}"});
	denied("DNS", "bad.example", 53, "", "");
	denied("DNS", "b.example", 53, "", "");
	denied("GET", "a.example", 443, "/no", "network.deny[1]");
	denied("GET", "c.example", 443, "/other", "");
	denied("GET", "d.example", 443, "/x", "system network.ask[0]");
	CHECK_STR(learn(), "");
	CHECK(says("network.deny[0] denies bad.example"));
	CHECK(says("the system's policy"));
	CHECK(says("GET a.example:443/no"));
	CHECK(says("GET c.example:443/other"));
	CHECK(says("without being asked"));
	CHECK_INT(RESOLVE(.user = "network: {ask: [d.example], deny: [bad.example]}"), 0);
	CHECK_INT(apply(learn()), 0); /* the same without a ceiling */
	CHECK_STR(ask("GET https://d.example/x"), "allow");
	CHECK_STR(ask("GET https://c.example/other"), "allow");
	CHECK_STR(connect_to("b.example", 443), "allow");
	CHECK_STR(connect_to("bad.example", 443), "deny");
}

TEST(rules_that_judge_more_are_left_to_people)
{
	begin((struct layers){.user = "network:\n  allow:\n"
				      "    - {host: g.example, mode: git, repos: [o/r]}\n"
				      "    - {host: q.example, query: {k: v}}\n"
				      "    - {host: a.example, paths: [/a]}\n"});
	denied("POST", "g.example", 443, "/o/r.git/git-receive-pack", "network.allow[0]");
	denied("GET", "q.example", 443, "/x", "network.allow[1]");
	denied("GET", "a.example", 443, "/a", "network.allow[2]"); /* its path was not the reason */
	denied("LIMIT", "a.example", 443, "", "network.allow[2]");
	CHECK_STR(learn(), "");
	CHECK(says("network.allow[0] judges more"));
	CHECK(says("network.allow[1] judges more"));
	CHECK(says("GET a.example:443/a (because)"));
}

/* ---- narrowing ---- */

static const char *const wide = "network:\n  allow:\n    - a.example\n    - {host: u.example}\n"
				"  use: [npm, pypi]\n";

TEST(a_wide_rule_is_narrowed_to_its_use)
{
	const char *body;

	begin((struct layers){.user = wide});
	used("a.example", 443, "network.allow[0]", 3);
	used("registry.npmjs.org", 443, "npm/registry.npmjs.org", 1);
	request("a.example", 443, "network.allow[0]", "GET", "/v1/items/1");
	request("a.example", 443, "network.allow[0]", "GET", "/v1/items/2");
	request("a.example", 443, "network.allow[0]", "POST", "/v1/items");
	body = learn();
	CHECK(says("in place of network.allow[0] (p.yaml:4)"));
	CHECK(says("# never used, take it out: network.allow[1] (p.yaml:5) u.example"));
	CHECK(says("# never used, take it out: bundle pypi"));
	CHECK(!says("bundle npm"));
	CHECK_INT(apply(body), 0);
	CHECK_STR(ask("GET https://a.example/v1/items/3"), "allow");
	CHECK_STR(ask("POST https://a.example/v1/items"), "allow");
	CHECK_STR(ask("POST https://a.example/v1/items/3"), "deny");
	CHECK_STR(ask("GET https://a.example/v1"), "deny");
	CHECK_STR(ask("GET http://a.example/v1/items/3"), "deny");
	CHECK_STR(connect_to("u.example", 443), "deny");
}

TEST(a_rule_is_not_narrowed_to_half_of_its_use)
{
	begin((struct layers){.user = wide});
	used("a.example", 443, "network.allow[0]", 2);
	request("a.example", 443, "network.allow[0]", "GET", "/x");
	CHECK_STR(learn(), "");
	CHECK(says("network.allow[0] is not narrowed: the journal has 1 of its 2 requests"));
	buf_adds(&journal, "garbage\n");
	request("a.example", 443, "network.allow[0]", "GET", "/a b");
	CHECK_STR(learn(), "");
	CHECK(says("paths that cannot be written"));
	CHECK(says("1 records made no sense"));
	net.done = false;
	CHECK_STR(learn(), "");
	CHECK(!says("never used"));
}

TEST(a_narrowed_rule_keeps_its_other_conditions)
{
	begin((struct layers){
		.user = "network:\n  allow:\n"
			"    - {host: '*.corp.example', private: true, ports: [443, 8443], mode: "
			"http,\n"
			"       plaintext: true, limits: {rate: 10/s, body: 64K, uses: 9}}\n"
			"    - {host: '**.db.example', ports: [5432-5440], private: true}\n"});
	used("x.corp.example", 8443, "network.allow[0]", 1);
	used("one.db.example", 5432, "network.allow[1]", 0);
	request("x.corp.example", 8443, "network.allow[0]", "GET", "/a");
	CHECK_INT(apply(learn()), 0);
	CHECK_STR(ask("GET https://x.corp.example:8443/a"), "allow");
	CHECK(verdict.rule->private_ok && verdict.rule->plaintext);
	CHECK_INT(verdict.rule->limits.rate_milli, 10000);
	CHECK_INT(verdict.rule->limits.body_b, 65536);
	CHECK_INT(verdict.rule->limits.uses, 9);
	CHECK_STR(ask("GET https://y.corp.example:8443/a"), "deny");
	CHECK_STR(connect_to("one.db.example", 5432), "allow");
	CHECK(verdict.rule->private_ok && verdict.rule->mode == NET_TCP);
	CHECK_STR(connect_to("one.db.example", 5433), "deny");
	CHECK_STR(connect_to("two.db.example", 5432), "deny");
}

TEST(a_pattern_for_many_hosts_is_left)
{
	static char names[LEARN_RULE_HOSTS_MAX + 1][32];

	begin((struct layers){.user = "network: {allow: [{host: '*.cdn.example'}]}"});
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(names[i], sizeof(names[i]), "h%zu.cdn.example", i);
		used(names[i], 443, "network.allow[0]", 1);
		request(names[i], 443, "network.allow[0]", "GET", "/x");
	}
	CHECK_STR(learn(), "");
	net.hosts_n--;
	CHECK(learn()[0] == '\0'); /* the journal still has it */
	buf_reset(&journal);
	for (size_t i = 0; i + 1 < ARRAY_SIZE(names); i++)
		request(names[i], 443, "network.allow[0]", "GET", "/x");
	CHECK(strstr(learn(), "h0.cdn.example"));
}

/* ---- hostile records ---- */

TEST(records_cannot_write_the_proposal)
{
	begin((struct layers){.user = "network: {allow: [{host: a.example, methods: [GET]}]}"});
	denied("DNS", "a\n+    - host: evil.example", 53, "", "");
	denied("DNS", "*.example", 53, "", "");
	denied("DNS", "UPPER.example", 53, "", "");
	denied("DNS", "x.example\"]", 53, "", "");
	denied("POST", "a.example", 443, "/a\"]\n+    - host: evil.example", "network.allow[0]");
	denied("PO\nST", "a.example", 443, "/x", "network.allow[0]");
	denied("POST", "a.example", 0, "/x", "network.allow[0]");
	buf_adds(
		&journal, "{\"type\":\"denial\",\"host\":\"b.example\\n+x\",\"method\":\"DNS\"}\n");
	CHECK_STR(learn(), "");
	CHECK(!says("\n+"));
	CHECK(says("records made no sense"));
	buf_adds(&journal, "{\"type\":\"denial\",\"host\":\"b.example\",\"method\":\"DNS\"}\n");
	CHECK(strstr(learn(), "b.example")); /* one that only the journal has */
	denied("POST", "a.example", 443, "/**", "network.allow[0]");
	CHECK(strstr(learn(), "paths: [\"/%2A%2A\"]"));
}

TEST(claims_that_contradict_each_other_still_parse)
{
	begin((struct layers){.user = wide});
	used("a.example", 443, "network.allow[0]", 1);
	used("a.example", 443, "network.allow[1]", 1);
	used("u.example", 443, "network.allow[1]", 1);
	request("a.example", 443, "network.allow[0]", "GET", "/x");
	request("u.example", 443, "network.allow[1]", "GET", "/x");
	CHECK_INT(
		apply(learn()), 0); /* allow[1] does not cover a.example: its count stands alone */
	CHECK(says("network.allow[1] is not narrowed"));
	begin((struct layers){.user = "network: {allow: [a.example, {host: a.example}]}"});
	for (int i = 0; i < 2; i++) {
		used("a.example", 443, i ? "network.allow[0]" : "network.allow[1]", 1);
		request("a.example", 443, i ? "network.allow[0]" : "network.allow[1]", "GET", "/x");
	}
	CHECK_INT(apply(learn()), 0);
	CHECK_INT(pol.net->rules_n, 1);
	CHECK(says("listed twice"));
}

TEST(many_records_are_bounded)
{
	static char names[600][24];

	begin((struct layers){0});
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(names[i], sizeof(names[i]), "n%zu.example", i);
		denied("DNS", names[i], 53, "", "");
	}
	CHECK_INT(apply(learn()), 0);
	CHECK_INT(pol.net->rules_n, LEARN_PROPOSALS_MAX);
	CHECK(says("further records were not kept"));
}

TEST(no_policy_and_no_traffic)
{
	begin((struct layers){.user = wide});
	net.state = NETWORK_IDLE;
	net.done = false;
	CHECK_STR(learn(), "");
	CHECK(says("bundle npm") && says("network.allow[0]"));
	policy_done(&pol);
	pol = (struct policy){0};
	denied("DNS", "a.example", 53, "", "");
	CHECK(strstr(learn(), "a.example"));
}
