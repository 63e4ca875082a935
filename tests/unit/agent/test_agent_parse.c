/* SPDX-License-Identifier: Apache-2.0 */
/* Agent files: what is accepted, and the place and words of what is refused. */
#include "test.h"

#include "agent/agent.h"

#define HEAD "version: 1\nname: x\nprogram: {names: [x]}\n"

static const char *problem_n(const char *text, size_t n)
{
	static struct err e;
	struct agent a;
	int r;

	e = ERR_INIT;
	r = agent_parse(&a, "x.yaml", "x", text, n, &e);
	if (r == 0)
		agent_done(&a);
	return r == 0 ? NULL : e.msg;
}

static const char *problem(const char *text)
{
	return problem_n(text, strlen(text));
}

TEST(accepts)
{
	static const char text[] =
		"version: 1\nname: some-1\ntitle: Some Agent\nunverified: true\n"
		"program:\n  names: [some, some-cli]\n  look: [~/.local/bin/some, /opt/some/bin/some]\n"
		"  read: [~/.local/share/some]\n"
		"hosts: [api.example.com, '*.example.org']\nwebsockets: [api.example.com]\n"
		"telemetry: [t.example.com]\n"
		"keys:\n  - {name: SOME_KEY, host: api.example.com, place: header, field: x-key}\n"
		"  - {name: OTHER, host: api.example.com}\n"
		"view: [~/.some]\nenvironment: {pass: [SOME_MODEL], set: {A: \"1\", B: two words}}\n"
		"arguments: [--a, -b]\nroot: {set: {R: \"1\"}, arguments: [--root]}\nnote: words\n";
	struct err e = ERR_INIT;
	struct agent a;

	CHECK_INT(agent_parse(&a, "f", NULL, text, strlen(text), &e), 0);
	CHECK_STR(a.name, "some-1");
	CHECK(a.unverified);
	CHECK_INT(a.programs.n, 2);
	CHECK_STR(a.look.v[1], "/opt/some/bin/some");
	CHECK_STR(a.websockets.v[0], "api.example.com");
	CHECK_INT(a.keys_n, 2);
	CHECK_STR(a.keys[0].field, "x-key");
	CHECK(!a.keys[1].place);
	CHECK_STR(a.set.v[1], "B=two words");
	CHECK_STR(a.root_arguments.v[0], "--root");
	agent_done(&a);
	CHECK(!problem(HEAD));
}

TEST(refuses)
{
	static const struct {
		const char *more, *says;
	} bad[] = {
		{"hosst: [a]\n", "x.yaml:4:1: unknown key \"hosst\"; did you mean \"hosts\"?"},
		{"hosts: a\n", "must be a list"},
		{"hosts: [a:443]\n", "\"a:443\" is not a host"},
		{"hosts: [a=b]\n", "is not a host"},
		{"view: [.x]\n", "is neither absolute nor below ~"},
		{"view: [\"~/*\"]\n", "is a pattern"},
		{"view: [~/x/../.ssh]\n", "holds \"..\""},
		{"view: [~/..]\n", "holds \"..\""},
		{"view: [\"~/a\\tb\"]\n", "control character"},
		{"keys: [{name: A}]\n", "a key needs \"name\" and \"host\""},
		{"keys: [{name: A, host: h, field: f}]\n", "\"field\" needs \"place\""},
		{"keys: [{name: A-B, host: h}]\n", "is not the name of a variable"},
		{"keys: [{name: A, host: 'h:1'}]\n", "holds a sign that it cannot hold"},
		{"environment: {set: {9: a}}\n", "is not the name of a variable"},
		{"environment: {set: {A: [b]}}\n", "must be a single value"},
		{"unverified: yes\n", "is neither true nor false"},
		{"arguments: [\"\"]\n", "is empty"},
		{"name: y\n", "\"name\" is given twice"},
		{"title: &a t\n", "anchors"},
	};
	char text[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *p;

		snprintf(text, sizeof(text), "%s%s", HEAD, bad[i].more);
		p = problem_n(text, strlen(text));
		if (!p || !strstr(p, bad[i].says))
			test_fail(__FILE__, __LINE__, "%s: %s", bad[i].more, p ? p : "accepted");
	}
	CHECK(strstr(problem("name: x\n"), "\"version: 1\" is missing"));
	CHECK(strstr(problem("version: 2\n"), "not a version"));
	CHECK(strstr(problem("version: 1\nname: x\n"), "an agent needs"));
	CHECK(strstr(problem("version: 1\nname: y\nprogram: {names: [y]}\n"), "is called y"));
	CHECK(strstr(problem("version: 1\nname: X\n"), "is not a name for an agent"));
	CHECK(strstr(problem("version: 1\nprogram: {names: [../x]}\n"), "is not the name of a program"));
	CHECK(strstr(problem_n(HEAD "title: \"a\0b\"\n", strlen(HEAD) + 13), "UTF-8"));
}

TEST(bounds)
{
	static char text[AGENT_FILE_MAX_B + 64];
	size_t n = (size_t)snprintf(text, sizeof(text), HEAD "hosts: [");

	for (int i = 0; i < (int)AGENT_LIST_MAX + 1; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "h%d,", i);
	n += (size_t)snprintf(text + n, sizeof(text) - n, "]\n");
	CHECK(strstr(problem_n(text, n), "at most 64 entries"));
	memset(text, '#', sizeof(text));
	CHECK(strstr(problem_n(text, AGENT_FILE_MAX_B + 1), "at most 65536 bytes"));
}

TEST(names)
{
	CHECK(agent_name_valid("claude") && agent_name_valid("cursor-agent"));
	CHECK(!agent_name_valid("") && !agent_name_valid("-x") && !agent_name_valid("../x"));
	CHECK(!agent_name_valid("A"));
	CHECK(!agent_name_valid("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}
