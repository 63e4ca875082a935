/* SPDX-License-Identifier: Apache-2.0 */
/* Gate files: what is accepted, and the exact place and words of what is refused. */
#include "test.h"

#include "evidence/gate_rules.h"

static const char *problem_n(const char *text, size_t n)
{
	static struct err e;
	struct gate g;
	int r;

	e = ERR_INIT;
	gate_init(&g);
	r = gate_parse(&g, "gate.yaml", text, n, &e);
	gate_done(&g);
	return r == 0 ? NULL : e.msg;
}

static const char *problem(const char *text)
{
	return problem_n(text, strlen(text));
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(accepts)
{
	static const char *const good[] = {"version: 1\n", "version: 1\nrequire: {}\n",
		"version: 1\nrequire: {evidence: all, tests: passed, review: true}\n",
		"version: 1\nrequire: {evidence: ai-touched, tests: none, review: false}\n",
		"version: 1\nrequire: {keys: [" ID "], max-denials: 3, clean-degradations: true}\n",
		"version: 1\nrequire: {tiers: [namespace, process]}\n",
		"version: 1\nrequire: {allowed-denials: [{path: /etc/**, reason: a}]}\n",
		"version: 1\nrequire: {allowed-denials: [{host: b, reason: d}]}",
		"version: 1\ndetect: {trailers: [Assisted-by, 'Co-authored-by: *bot*']}\n",
		"version: 1\nignore: {commits: [0123456789ab], paths: [docs/**, '*.md']}\n"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (problem(good[i]))
			test_fail(__FILE__, __LINE__, "%s: %s", good[i], problem(good[i]));
}

TEST(refuses)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "gate.yaml:1:1: the gate file is empty; it begins with \"version: 1\""},
		{"require: {}\n", "gate.yaml:1:1: \"version: 1\" is missing"},
		{"version: 2\n", "gate.yaml:1:10: this croft reads gate files of version: 1"},
		{"version: 1\nrequires: {}\n",
			"gate.yaml:2:1: unknown key \"requires\"; did you mean \"require\"?"},
		{"version: 1\nrequire: {test: passed}\n",
			"gate.yaml:2:11: unknown key \"test\" in require; did you mean \"tests\"?"},
		{"version: 1\nrequire: {tests: yes}\n",
			"gate.yaml:2:18: \"yes\" is not passed or none"},
		{"version: 1\nrequire: {review: 1}\n",
			"gate.yaml:2:19: \"1\" is neither true nor false"},
		{"version: 1\nrequire: {review: true, review: true}\n",
			"gate.yaml:2:25: \"review\" is given twice (first on line 2)"},
		{"version: 1\nrequire: {evidence: some}\n",
			"gate.yaml:2:21: \"some\" is not ai-touched or all"},
		{"version: 1\nrequire: {max-denials: -1}\n",
			"gate.yaml:2:24: \"-1\" is not a number"},
		{"version: 1\nrequire: {tiers: [auto]}\n",
			"gate.yaml:2:19: \"auto\" is no tier that a command can run in"},
		{"version: 1\nrequire: {keys: [abc]}\n",
			"gate.yaml:2:18: \"abc\" is neither a key's id (64 hexadecimal digits, see "
			"croft evidence key) nor a PEM block"},
		{"version: 1\nrequire: {allowed-denials: [{path: /a}]}\n",
			"gate.yaml:2:29: an allowed denial needs a reason"},
		{"version: 1\nrequire: {allowed-denials: [{reason: x}]}\n",
			"gate.yaml:2:29: an allowed denial has a path or a host, one of them"},
		{"version: 1\nrequire: {allowed-denials: [{path: /a, host: b, reason: x}]}\n",
			"gate.yaml:2:29: an allowed denial has a path or a host, one of them"},
		{"version: 1\nrequire: {allowed-denials: [{path: a, reason: x}]}\n",
			"gate.yaml:2:36: \"a\" is no path of a denial; begin with / or, in the "
			"workspace, ./"},
		{"version: 1\nrequire: {allowed-denials: [{path: /a, reason: x, expires: "
		 "2026-02-29}]}\n",
			"gate.yaml:2:60: \"2026-02-29\" is no day; write it as 2026-01-31"},
		{"version: 1\nignore: {commits: [abc]}\n", "gate.yaml:2:20: \"abc\" is no commit; "
							   "write at least 12 digits of its name"},
		{"version: 1\nignore: {paths: [/abs]}\n",
			"gate.yaml:2:18: \"/abs\" is not relative to the top of the repository"},
		{"version: 1\ndetect: {trailers: ['a b']}\n",
			"gate.yaml:2:21: \"a b\" is no trailer; write Name or \"Name: pattern\""},
		{"version: &a 1\n",
			"gate.yaml:1:10: anchors (&name) are not allowed in a gate file"},
		{"version: *a\n", "gate.yaml:1:10: aliases (*name) are not allowed in a gate file; "
				  "write the value again"},
		{"version: 1\n\"\": 1\n", "gate.yaml:2:1: unknown key \"\""},
		{"version: 1\nrequire: {tests: ''}\n", "gate.yaml:2:18: tests is empty"},
		{"version: 1\n---\nversion: 1\n", "gate.yaml:2:1: a second document begins here; a "
						  "gate file is one document"},
		{"version: 1\n\"\\x1b[31m\": 1\n", "gate.yaml:2:1: unknown key \"\\x1b[31m\""},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *p = problem(bad[i].text);

		if (!p || strcmp(p, bad[i].says) != 0)
			test_fail(__FILE__, __LINE__, "%s\n#   gives: %s\n#   not:   %s",
				bad[i].text, p ? p : "(accepted)", bad[i].says);
	}
	CHECK_STR(problem_n("version: \xff\n", 11), "gate.yaml: the text is not UTF-8");
}

TEST(keys_become_ids)
{
	static const uint8_t public[KEY_PUBLIC_LEN] = {1, 2, 3};
	struct buf pem = BUF_INIT(4096), text = BUF_INIT(8192);
	struct err e = ERR_INIT;
	struct digest id;
	struct gate g;

	ledger_key_pem(public, &pem);
	digest_sha256(&id, public, sizeof(public));
	buf_adds(&text, "version: 1\nrequire:\n  keys:\n    - |\n");
	for (const char *p = buf_str(&pem); *p;) {
		size_t n = strcspn(p, "\n");

		buf_addf(&text, "      %.*s\n", (int)n, p);
		p += n + (p[n] == '\n');
	}
	gate_init(&g);
	CHECK_INT(gate_parse(&g, "g", buf_str(&text), text.len, &e), 0);
	CHECK_INT(g.keys.n, 1);
	CHECK_STR(g.keys.v[0], id.hex);
	gate_done(&g);
	buf_done(&pem);
	buf_done(&text);
}

TEST(trailers)
{
	static const struct {
		const char *message;
		bool touched;
	} cases[] = {{"fix\n", false}, {"fix\n\nAssisted-by: x:y\n", true},
		{"fix\n\nassisted-BY : x\n", true}, {"fix\n\n  Croft-Env: 0\n\nmore text\n", true},
		{"Assisted-bytes: 1\n", false}, {"fix\n\nCo-authored-by: Ann <a@x>\n", false},
		{"fix\n\nCo-Authored-By: Claude <noreply@anthropic.com>\n", true},
		{"says Assisted-by: in a sentence\n", false}};
	struct gate g;
	size_t n;

	gate_init(&g);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!!gate_trailer(&g, cases[i].message, &n) != cases[i].touched)
			test_fail(__FILE__, __LINE__, "%s", cases[i].message);
	gate_done(&g);
}

TEST(trailer_values)
{
	char v[20];

	CHECK(gate_trailer_value("a\n\nCroft-Env:  0123 \r\n", "Croft-Env", v, sizeof(v)));
	CHECK_STR(v, "0123");
	CHECK(gate_trailer_value("Croft-Env: a\nCroft-Env: b", "Croft-Env", v, sizeof(v)));
	CHECK_STR(v, "b");
	CHECK(!gate_trailer_value("Croft-Environment: a\n", "Croft-Env", v, sizeof(v)));
	CHECK(!gate_trailer_value(
		"Croft-Env: longer than there is room for\n", "Croft-Env", v, sizeof(v)));
}

TEST(ignored_paths)
{
	static const char text[] =
		"version: 1\nignore: {commits: [0123456789ab], paths: [docs, '*.md', 'a/**/x']}\n";
	struct err e = ERR_INIT;
	struct gate g;

	gate_init(&g);
	CHECK_INT(gate_parse(&g, "g", text, strlen(text), &e), 0);
	CHECK(gate_ignores_path(&g, "docs/a/b"));
	CHECK(gate_ignores_path(&g, "README.md"));
	CHECK(gate_ignores_path(&g, "a/b/c/x"));
	CHECK(!gate_ignores_path(&g, "src/README.md"));
	CHECK(!gate_ignores_path(&g, "docsx/a"));
	CHECK(gate_ignores_commit(&g, "0123456789abcdef"));
	CHECK(!gate_ignores_commit(&g, "1123456789abcdef"));
	gate_done(&g);
}
