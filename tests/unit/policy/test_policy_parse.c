/* SPDX-License-Identifier: Apache-2.0 */
/* The strict reader: what it accepts, and the exact place and words of what it refuses. */
#include "test.h"

#include "policy/policy_impl.h"

static const struct policy_context ctx = {.home = "/home/u", .workspace = "/home/u/w"};

/* The message, or NULL when it parses. */
static const char *problem_n(const char *text, size_t n)
{
	static struct err e;
	struct policy_layer *l = NULL;

	e = ERR_INIT;
	if (policy_layer_parse(&l, LAYER_USER, "p.yaml", text, n, &ctx, &e) == 0) {
		policy_layer_free(l);
		return NULL;
	}
	return e.msg;
}

static const char *problem(const char *text)
{
	return problem_n(text, strlen(text));
}

TEST(accepts)
{
	static const char *const good[] = {
		"version: 1\n",
		"---\nversion: 1\n...\n",
		"# a comment\nversion: 1 # another\n",
		"{version: 1, tier: process}",
		"version: 1\nfilesystem: {}\n",
		"version: 1\nfilesystem:\n  read: []\n  write: []\n  deny: []\n",
		"version: 1\nfilesystem: {read: [~, ~/x, ., ./y, /z], write: ['/q', \"/r\"]}\n",
		"version: 1\nfilesystem: {read-if-present: [/a], write-if-present: [/b]}\n",
		"version: 1\nfilesystem: {read: [/a], write: [/a]}\n", /* write implies read */
		"version: 1\nprofile: python\nthreat: hostile\nobserve: full\ntier: namespace\n",
		"version: 1\nenvironment: {pass: [A, B_*], set: {K: V, N: 1, E: \"\"}}\n",
		"version: 1\nlimits: {memory: 2G, cpus: 1.5, pids: 512, open_files: 4096, disk: "
		"1G}\n",
		"version: 1\nlimits: {file_size: 4G, timeout: 10m}\n",
		"version: 1\nlimits: {memory: none, cpus: none, timeout: none}\n",
		"version: 1\ndevices: [/dev/kvm, /dev/dri/card0]\n",
		"version: 1\nnetwork: {allow: [a.example, \"*.b.example:443\", 203.0.113.1, "
		"\"[2001:db8::1]:80\"]}\n",
		"version: 1\r\ntier: auto\r\n",
		"\xef\xbb\xbfversion: 1\n",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (problem(good[i])) {
			test_fail(__FILE__, __LINE__, "%s: %s", good[i], problem(good[i]));
			return;
		}
}

struct bad {
	const char *text, *says;
};

static void check_bad(const struct bad *bad, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *p = problem(bad[i].text);

		if (!p || strcmp(p, bad[i].says) != 0)
			test_fail(__FILE__, __LINE__, "%s\n#   gives: %s\n#   not:   %s",
				bad[i].text, p ? p : "(accepted)", bad[i].says);
	}
}

TEST(keys)
{
	static const struct bad bad[] = {
		{"version: 1\nfilesytem: {}\n",
			"p.yaml:2:1: unknown key \"filesytem\"; did you mean \"filesystem\"?"},
		{"version: 1\nfilesystem:\n  raed: [/x]\n",
			"p.yaml:3:3: unknown key \"raed\" in filesystem; did you mean \"read\"?"},
		{"version: 1\nread: [/x]\n",
			"p.yaml:2:1: unknown key \"read\"; it belongs under \"filesystem\""},
		{"version: 1\nlimits: {memroy: 1G}\n",
			"p.yaml:2:10: unknown key \"memroy\" in limits; did you mean \"memory\"?"},
		{"version: 1\nenvironment: {memory: 1G}\n",
			"p.yaml:2:15: unknown key \"memory\" in environment; it belongs under "
			"\"limits\""},
		{"version: 1\nzzzzzzzzzz: 1\n", "p.yaml:2:1: unknown key \"zzzzzzzzzz\""},
		{"version: 1\n\"\\x1b[31m\": 1\n", "p.yaml:2:1: unknown key \"\\x1b[31m\""},
		{"version: 1\ntier: auto\ntier: auto\n",
			"p.yaml:3:1: \"tier\" is given twice (first on line 2)"},
		{"version: 1\nfilesystem: {read: [/a]}\nfilesystem: {}\n",
			"p.yaml:3:1: \"filesystem\" is given twice (first on line 2)"},
		{"version: 1\nfilesystem: {read: [/a], read: [/b]}\n",
			"p.yaml:2:26: \"read\" is given twice (first on line 2)"},
		{"version: 1\nversion: 1\n",
			"p.yaml:2:1: \"version\" is given twice (first on line 1)"},
		{"version: 1\n? [a]\n: b\n", "p.yaml:2:3: a key must be a single value"},
	};

	check_bad(bad, sizeof(bad) / sizeof(bad[0]));
}

TEST(types)
{
	static const struct bad bad[] = {
		{"- a\n", "p.yaml:1:1: a policy must be a mapping (key: value)"},
		{"text\n", "p.yaml:1:1: a policy must be a mapping (key: value)"},
		{"version: 1\nfilesystem: [a]\n",
			"p.yaml:2:13: filesystem must be a mapping (key: value)"},
		{"version: 1\nfilesystem:\n",
			"p.yaml:2:12: filesystem must be a mapping (key: value)"},
		{"version: 1\nfilesystem: {read: /x}\n",
			"p.yaml:2:20: read must be a list ([a, b] or lines that begin with \"-\")"},
		{"version: 1\nfilesystem: {read: {a: b}}\n",
			"p.yaml:2:20: read must be a list ([a, b] or lines that begin with \"-\")"},
		{"version: 1\nfilesystem: {read: [[/x]]}\n",
			"p.yaml:2:21: an entry must be a single value"},
		{"version: 1\ntier: [auto]\n", "p.yaml:2:7: tier must be a single value"},
		{"version: 1\nlimits: {memory: {}}\n",
			"p.yaml:2:18: memory must be a single value"},
		{"version: 1\nenvironment: {set: [A]}\n",
			"p.yaml:2:20: set must be a mapping (NAME: value)"},
		{"version: 1\nenvironment: {set: {A: [1]}}\n",
			"p.yaml:2:24: the value of a variable must be a single value"},
		{"version: 1\ndevices: /dev/kvm\n", "p.yaml:2:10: devices must be a list ([a, b] "
						    "or lines that begin with \"-\")"},
	};

	check_bad(bad, sizeof(bad) / sizeof(bad[0]));
}

TEST(versions)
{
	static const struct bad bad[] = {
		{"", "p.yaml:1:1: the policy is empty; it begins with \"version: 1\""},
		{"# nothing\n", "p.yaml:2:1: the policy is empty; it begins with \"version: 1\""},
		{"tier: auto\n", "p.yaml:1:1: \"version: 1\" is missing"},
		{"# version: 1\ntier: auto\n", "p.yaml:1:1: \"version: 1\" is missing"},
		{"version: 2\n", "p.yaml:1:10: this croft reads policies of version: 1"},
		{"version: \"1\"\n", "p.yaml:1:10: this croft reads policies of version: 1"},
		{"version: 1.0\n", "p.yaml:1:10: this croft reads policies of version: 1"},
		{"version:\n", "p.yaml:1:9: this croft reads policies of version: 1"},
	};

	check_bad(bad, sizeof(bad) / sizeof(bad[0]));
}

TEST(yaml_beyond_the_subset)
{
	static const struct bad bad[] = {
		{"version: 1\ntier: &a auto\n",
			"p.yaml:2:7: anchors (&name) are not allowed in a policy"},
		{"version: 1\ntier: *a\n", "p.yaml:2:7: aliases (*name) are not allowed in a "
					   "policy; write the value again"},
		{"version: 1\nfilesystem: &x {}\n",
			"p.yaml:2:13: anchors (&name) are not allowed in a policy"},
		{"version: 1\ntier: !!str auto\n",
			"p.yaml:2:7: tags (!name) are not allowed in a policy"},
		{"version: 1\ntier: !x auto\n",
			"p.yaml:2:7: tags (!name) are not allowed in a policy"},
		{"!!map {version: 1}\n", "p.yaml:1:1: tags (!name) are not allowed in a policy"},
		{"version: 1\n<<: {tier: auto}\n", "p.yaml:2:1: unknown key \"<<\""},
		{"%YAML 1.1\n---\nversion: 1\n", "p.yaml:1:1: directives (lines that begin with %) "
						 "are not allowed in a policy"},
		{"version: 1\n---\nversion: 1\n",
			"p.yaml:2:1: a second document begins here; a policy is one document"},
	};

	check_bad(bad, sizeof(bad) / sizeof(bad[0]));
	CHECK(strstr(problem("version: 1\ndevices: [/dev/kvm\n"), "p.yaml:3:1: "));
	CHECK(strstr(problem("version: 1\n\tx: 1\n"), "p.yaml:2:1: "));
}

TEST(words)
{
	static const struct bad bad[] = {
		{"version: 1\ntier: namespce\n",
			"p.yaml:2:7: unknown tier \"namespce\"; did you mean \"namespace\"?"},
		{"version: 1\ntier: vm\n", "p.yaml:2:7: tier \"vm\" is not available yet; this "
					   "version has auto, process and namespace"},
		{"version: 1\nthreat: hostil\n",
			"p.yaml:2:9: unknown threat \"hostil\"; did you mean \"hostile\"?"},
		{"version: 1\nobserve: x\n",
			"p.yaml:2:10: unknown observe \"x\"; it is one of off, known, writes, full"},
		{"version: 1\nprofile: pyton\n",
			"p.yaml:2:10: unknown profile \"pyton\"; did you mean \"python\"?"},
		{"version: 1\nlimits: {memory: 2Q}\n",
			"p.yaml:2:18: limits.memory: \"2Q\" is not a size of at least 1M; write "
			"512M, 2G or none"},
		{"version: 1\nlimits: {memory: 0}\n",
			"p.yaml:2:18: limits.memory: \"0\" is not a size of at least 1M; write "
			"512M, 2G or none"},
		{"version: 1\nlimits: {cpus: -1}\n", "p.yaml:2:16: limits.cpus: \"-1\" is not a "
						     "number of CPUs; write 0.5, 2 or none"},
		{"version: 1\nlimits: {pids: 0}\n", "p.yaml:2:16: limits.pids: \"0\" is not a "
						    "number of processes; write 512 or none"},
		{"version: 1\nlimits: {timeout: 10x}\n", "p.yaml:2:19: limits.timeout: \"10x\" is "
							 "not a time; write 30s, 10m, 2h or none"},
		{"version: 1\nlimits: {pids: 99999999999999999999}\n",
			"p.yaml:2:16: limits.pids: \"99999999999999999999\" is not a number of "
			"processes; write 512 or none"},
	};

	check_bad(bad, sizeof(bad) / sizeof(bad[0]));
}

TEST(paths)
{
	static const struct bad bad[] = {
		{"version: 1\nfilesystem:\n  read:\n    - src\n",
			"p.yaml:4:7: \"src\" is relative; write ./path for the workspace, ~/path "
			"for the home directory, or /path"},
		{"version: 1\nfilesystem: {read: [~bob/x]}\n",
			"p.yaml:2:21: \"~bob/x\" names another user's home, which is not "
			"supported; write the absolute path"},
		{"version: 1\nfilesystem: {deny: [\"/a\\nb\"]}\n",
			"p.yaml:2:21: \"/a\\x0ab\" holds a control character"},
		{"version: 1\nfilesystem: {deny: [\"/a\\0b\"]}\n",
			"p.yaml:2:21: an entry holds a NUL character"},
		{"version: 1\nfilesystem: {deny: [\"\"]}\n", "p.yaml:2:21: a path is empty"},
		{"version: 1\nfilesystem: {read: [/]}\n",
			"p.yaml:2:21: / is the whole filesystem; name the directories below it"},
		{"version: 1\nfilesystem: {read: [/a/..]}\n",
			"p.yaml:2:21: /a/.. is the whole filesystem; name the directories below "
			"it"},
		{"version: 1\nfilesystem: {read: ['/*/x']}\n",
			"p.yaml:2:21: /*/x starts with a wildcard and could match any directory; "
			"name the top-level directory"},
		{"version: 1\nfilesystem: {read: [/proc/1]}\n",
			"p.yaml:2:21: /proc/1 is made new for every sandbox and takes no rules"},
		{"version: 1\nfilesystem: {write: [/dev/sda]}\n",
			"p.yaml:2:22: /dev/sda holds devices; list them under \"devices\""},
		{"version: 1\nfilesystem: {write: [/sys/kernel]}\n",
			"p.yaml:2:22: /sys/kernel configures the machine's kernel and cannot be "
			"made writable"},
		{"version: 1\nfilesystem: {deny: ['/a/[b']}\n",
			"p.yaml:2:21: \"/a/[b\" has a [ that is not a complete set; write [abc], "
			"[a-z] or [!x], or \\[ for the character"},
		{"version: 1\nfilesystem: {read: [/a], deny: [/a/]}\n",
			"p.yaml:2:33: /a is under both read (line 2) and deny; keep one"},
		{"version: 1\nfilesystem:\n  read: [/b, /a]\n  write: [/c]\n  deny: [/d, ./../w/x, "
		 "/c]\n",
			"p.yaml:5:24: /c is under both write (line 4) and deny; keep one"},
		{"version: 1\nfilesystem:\n  read:\n    - /a\n    - /b\n    - //a/.\n",
			"p.yaml:6:7: /a is listed twice under read (first on line 4)"},
	};

	check_bad(bad, sizeof(bad) / sizeof(bad[0]));
}

TEST(names)
{
	static const struct bad bad[] = {
		{"version: 1\nenvironment: {pass: ['*']}\n",
			"p.yaml:2:22: \"*\" would pass the whole environment; name the variables"},
		{"version: 1\nenvironment: {pass: [A-B]}\n",
			"p.yaml:2:22: \"A-B\" is not a variable name; letters, digits and _, with "
			"* only at the end"},
		{"version: 1\nenvironment: {pass: [A*B]}\n",
			"p.yaml:2:22: \"A*B\" is not a variable name; letters, digits and _, with "
			"* only at the end"},
		{"version: 1\nenvironment: {pass: [A, A]}\n",
			"p.yaml:2:25: A is listed twice (first on line 2)"},
		{"version: 1\nenvironment: {set: {1A: x}}\n",
			"p.yaml:2:21: \"1A\" is not a variable name; letters, digits and _"},
		{"version: 1\nenvironment: {set: {A: x, A: y}}\n",
			"p.yaml:2:27: A is listed twice (first on line 2)"},
		{"version: 1\nenvironment: {set: {A: \"x\\0y\"}}\n",
			"p.yaml:2:24: the value of a variable holds a NUL character"},
		{"version: 1\ndevices: [kvm]\n",
			"p.yaml:2:11: \"kvm\" is not a device; write its path, such as /dev/kvm"},
		{"version: 1\ndevices: [/dev/../etc/passwd]\n",
			"p.yaml:2:11: \"/dev/../etc/passwd\" is not below /dev"},
		{"version: 1\ndevices: [/dev/null]\n",
			"p.yaml:2:11: \"/dev/null\" is always there and need not be listed"},
		{"version: 1\ndevices: [/dev/mem]\n",
			"p.yaml:2:11: \"/dev/mem\" cannot be given to a sandbox"},
		{"version: 1\ndevices: [/dev/tty1]\n", "p.yaml:2:11: \"/dev/tty1\" is a console of "
						       "the host and cannot be given to a sandbox"},
	};

	check_bad(bad, sizeof(bad) / sizeof(bad[0]));
}

/* Whether a text entry of network.allow is accepted. */
static bool host_ok(const char *text)
{
	struct policy_layer *l = NULL;
	struct err e = ERR_INIT;
	bool ok = policy_layer_new(&l, LAYER_CLI, "x", &e) == 0 &&
		  policy_layer_set(l, "network.allow", text, &e) == 0;

	policy_layer_free(l);
	return ok;
}

TEST(hosts)
{
	static const char *const good[] = {"example.com", "API.Example.COM", "a.b:443",
		"*.example.com", "**.example.com:80", "203.0.113.3", "203.0.113.3:8080",
		"[2001:DB8::1]", "[2001:db8::1]:65535", "xn--bcher-kva.example", "db:5432"};
	static const char *const bad[] = {"", ".", "a.", ".a", "a..b", "-a.b", "a-.b", "*", "*.com",
		"**.com", "*a.b.c", "a.*.b", "*.*.b.c", "127.1", "0x7f.1", "2130706433",
		"1.2.3.4.5", "1.2.3.256", "01.2.3.4", "a:0", "a:65536", "a:", "a:1:2", "a:01",
		"http://a.b", "a.b/c", "u@a.b", "a b", "a%00.b", "\xc3\xbc.example", "[::1",
		"[::1]x", "[fe80::1%eth0]", "::1", "a.b\n", "*.1.2.3", "localhost", "[::1]:65535",
		"10.1.2.3"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!host_ok(good[i])) {
			test_fail(__FILE__, __LINE__, "host \"%s\" was refused", good[i]);
			return;
		}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (host_ok(bad[i])) {
			test_fail(__FILE__, __LINE__, "host \"%s\" was accepted", bad[i]);
			return;
		}
}

TEST(bytes)
{
	CHECK_STR(problem_n("version: 1\n# a\0b\n", 17), "p.yaml:2:4: the text holds a NUL byte");
	CHECK_STR(problem("version: 1\n# \xff\n"), "p.yaml:2:3: the text is not UTF-8");
	CHECK_STR(problem("version: 1\n# \xc3\xa9\xed\xa0\x80\n"),
		"p.yaml:2:4: the text is not UTF-8");
	CHECK(problem_n("\xff\xfe"
			"v\0e\0r\0",
		8)); /* UTF-16 */
	CHECK(problem("version: 1\ntier: \x1b[31m\n"));
}

TEST(size_limits)
{
	size_t n = POLICY_FILE_MAX_B + 1;
	char *text = malloc(n);
	struct buf b = BUF_INIT(8u << 20);

	CHECK(text);
	memset(text, ' ', n);
	memcpy(text, "version: 1\n#", 12);
	CHECK(!problem_n(text, n - 1));
	CHECK(strstr(problem_n(text, n), "at most 4194304 bytes"));
	free(text);
	buf_adds(&b, "version: 1\nfilesystem:\n  deny:\n");
	for (unsigned i = 0; i < POLICY_RULES_MAX; i++)
		buf_addf(&b, "  - /x/%u\n", i);
	CHECK(!problem_n(b.data, b.len));
	buf_adds(&b, "  - /one/more\n");
	CHECK_STR(problem_n(b.data, b.len), "p.yaml:16388:5: more than 16384 filesystem rules");
	buf_reset(&b);
	buf_adds(&b, "version: 1\nenvironment:\n  pass:\n");
	for (unsigned i = 0; i <= POLICY_LIST_MAX; i++)
		buf_addf(&b, "  - V%u\n", i);
	CHECK_STR(problem_n(b.data, b.len), "p.yaml:4100:5: more than 4096 entries");
	buf_done(&b);
}

/* Deep nesting and a flood of brackets end at the first value that does not belong there. */
TEST(nesting)
{
	struct buf b = BUF_INIT(8u << 20);

	buf_adds(&b, "version: 1\ndevices: ");
	for (int i = 0; i < 100000; i++)
		buf_addc(&b, '[');
	CHECK_STR(problem_n(b.data, b.len), "p.yaml:2:11: an entry must be a single value");
	buf_reset(&b);
	buf_adds(&b, "version: 1\nfilesystem: ");
	for (int i = 0; i < 100000; i++)
		buf_adds(&b, "{a: ");
	CHECK(strstr(problem_n(b.data, b.len), "p.yaml:2:14: unknown key \"a\""));
	buf_done(&b);
}

TEST(command_line_layer)
{
	struct policy_layer *l = NULL;
	struct err e = ERR_INIT;

	CHECK_INT(policy_layer_new(&l, LAYER_CLI, "command line", &e), 0);
	CHECK_INT(policy_layer_add_rule(l, ACCESS_READ, "~/x", &ctx, &e), 0);
	CHECK_INT(policy_layer_add_rule(l, ACCESS_READ, "~/x", &ctx, &e), 0); /* harmless here */
	CHECK_INT(policy_layer_set(l, "limits.memory", "2G", &e), 0);
	CHECK_INT(policy_layer_set(l, "environment.set", "A=b=c", &e), 0);
	CHECK_INT(policy_layer_set(l, "environment.set", "A=d", &e), 0);
	CHECK_STR(l->set.v[0].value, "b=c");
	CHECK_INT(layer_check(l, &e), 0);
	CHECK(policy_layer_set(l, "limits.memroy", "2G", &e) < 0);
	CHECK_STR(e.msg, "command line: unknown limit \"memroy\"; did you mean \"memory\"?");
	CHECK(policy_layer_set(l, "teir", "auto", &e) < 0);
	CHECK_STR(e.msg, "command line: unknown key \"teir\"; did you mean \"tier\"?");
	CHECK(policy_layer_set(l, "environment.set", "=x", &e) < 0);
	CHECK_STR(e.msg, "command line: a variable name is empty");
	CHECK(policy_layer_set(l, "tier", "gvisor", &e) < 0);
	CHECK_INT(err_exit_code(&e), 126);
	CHECK(policy_layer_add_rule(l, ACCESS_READ, "x", &ctx, &e) < 0);
	CHECK(strstr(e.msg, "command line: \"x\" is relative"));
	CHECK_INT(policy_layer_add_rule(l, ACCESS_DENY, "~/x", &ctx, &e), 0);
	CHECK(layer_check(l, &e) < 0);
	CHECK_STR(e.msg, "command line: /home/u/x has both read and deny; keep one");
	policy_layer_free(l);
}

/* The digest that approvals are bound to is that of the exact bytes. */
TEST(layer_digest)
{
	static const char text[] = "version: 1\n";
	struct policy_layer *l = NULL;
	struct digest d;
	struct err e = ERR_INIT;

	CHECK_INT(policy_layer_parse(&l, LAYER_PROJECT, "croft.yaml", text, strlen(text), &ctx, &e),
		0);
	digest_sha256(&d, text, strlen(text));
	CHECK_STR(policy_layer_digest(l)->hex, d.hex);
	CHECK(!policy_layer_profile(l));
	policy_layer_free(l);
}
